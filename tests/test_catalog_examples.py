"""The code of the records runs: what is said to fail fails with the record's own message, and what is said to help helps."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelguard.catalog import Record, match, records

torch = pytest.importorskip("torch")

NEEDS_THE_ENGINE_OR_A_GPU = {
    "vllm-aot-compile-unsupported",
    "vllm-artifact-not-serializable",
    "vllm-failed-to-compile",
    "torch-cudagraph-incompatible-op",
    "torch-cudagraph-many-sizes",
    "torch-cudagraph-output-overwritten",
    "torch-cudagraph-pointer-changed",
    "torch-stream-capturing",
}
SAID_BY_ANOTHER = {"vllm-buffer-modified-in-forward": "modelguard-state-write"}

# Each has handlers of its own, and hands nothing on.
LOGGERS = ("torch", "torch._dynamo", "torch._inductor")

each_record = pytest.mark.parametrize("record", records().values(), ids=list(records()))


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """What one example compiled or allowed must not be found by the next one."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(allow_rnn=False):
        yield
    torch._dynamo.reset()


def parts(record: Record) -> tuple[str, str]:
    """The example as two programs."""
    shared, before, after = re.split(r"^# (?:Before|After)\n", record.exampleFix, flags=re.MULTILINE)
    return shared + before, shared + after


class Run:
    """Code that was run: what it defined, and everything it said."""

    def __init__(self, folder: Path) -> None:
        self.names: dict[str, Any] = {"__name__": "example"}
        self.said = ""
        self._folder = folder

    def __call__(self, source: str) -> BaseException | None:
        path = self._folder / f"example_{len(self.said)}.py"
        path.write_text(source, encoding="utf-8")
        out, raised = io.StringIO(), None
        handler = logging.StreamHandler(out)
        for name in LOGGERS:
            logging.getLogger(name).addHandler(handler)
        try:
            with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(out):
                warnings.simplefilter("always")
                exec(compile(source, path, "exec"), self.names)
        except Exception as error:
            raised = error
            out.write("".join(traceback.format_exception(error)))
        finally:
            for name in LOGGERS:
                logging.getLogger(name).removeHandler(handler)
        self.said += out.getvalue() + "\n".join(str(warning.message) for warning in warned)
        return raised


@each_record
def test_the_code_before_says_the_message_and_the_check_notices(record: Record, tmp_path: Path) -> None:
    run = Run(tmp_path)
    run(parts(record)[0])
    if record.id not in NEEDS_THE_ENGINE_OR_A_GPU:
        assert [found.record.id for found in match(run.said)][:1] == [SAID_BY_ANOTHER.get(record.id, record.id)], run.said
    noticed = run(record.validationCode)
    assert noticed is not None and not isinstance(noticed, (NameError, SyntaxError)), run.said


@each_record
def test_the_code_after_runs_and_passes_the_check(record: Record, tmp_path: Path) -> None:
    run = Run(tmp_path)
    for source in (parts(record)[1], record.validationCode, record.typeGuard, record.tryCatchPattern):
        assert source is None or run(source) is None, run.said
    if record.id not in NEEDS_THE_ENGINE_OR_A_GPU:
        assert record.id not in [found.record.id for found in match(run.said)]


def test_each_code_that_goes_on_where_the_error_is_met_meets_it(tmp_path: Path) -> None:
    for record in records().values():
        if record.tryCatchPattern is not None:
            torch._dynamo.reset()
            run = Run(tmp_path)
            run(parts(record)[0])
            run(record.tryCatchPattern)
            assert "NameError" not in run.said, run.said

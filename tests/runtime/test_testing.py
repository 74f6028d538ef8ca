"""The assertions, and the pytest plugin around them."""

from __future__ import annotations

import importlib.metadata
import inspect
import textwrap
from typing import Any

import pytest
import torch
from torch import nn

from modelguard.runtime import ModuleError, OptionError
from modelguard.runtime.replay import Verdict
from modelguard.runtime.testing import assert_no_state_writes, assert_replay_safe

pytest_plugins = ["pytester"]

_INSTALLED = any(each.name == "modelguard" for each in importlib.metadata.entry_points(group="pytest11"))
PLUGIN = () if _INSTALLED else ("-p", "modelguard.pytest_plugin")


def line_of(mark: str) -> int:
    return next(number for number, line in enumerate(open(__file__, encoding="utf-8"), 1) if line.endswith(f"# {mark}\n"))


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: Any) -> Any:
        self.n += 1  # THE WRITE
        return x * self.n


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows: Any = None

    def forward(self, x: Any) -> Any:
        if self.rows is None or len(self.rows) < len(x):
            self.rows = torch.arange(len(x))
        return x + self.rows[: len(x)]


class Reading(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * x.sum().item()  # THE READ


class Buffered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: Any) -> Any:
        return self.total.add_(x).clone()


def test_a_safe_model_passes_and_tells_by_what() -> None:
    result = assert_replay_safe(Buffered(), torch.ones(2), device="tape")
    assert (result.verdict, result.device) == (Verdict.SAME, "tape")
    assert_no_state_writes(Buffered(), torch.ones(2))


UNSAFE: dict[str, tuple[nn.Module, dict[str, Any], list[str]]] = {
    "wrong output": (
        Counter(),
        {},
        ["Counter is not replay-safe: wrong-output", "no CUDA graph here", "from step 2: output, by up to ", "differs: self.n"],
    ),
    "freed": (Cached(), {"others": [(torch.ones(5),)]}, ["from step 3: output", "freed since: self.rows"]),
    "refused": (
        Reading(),
        {"vary": False},
        ["refused", "capture on a device ends at `_local_scalar_dense` at ", f"test_testing.py:{line_of('THE READ')}"],
    ),
}


@pytest.mark.parametrize(("model", "options", "told"), UNSAFE.values(), ids=UNSAFE)
def test_an_unsafe_model_is_told_with_step_and_state(model: nn.Module, options: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_replay_safe(model, torch.ones(2), device="tape", **options)
    assert [part for part in told if part not in str(caught.value)] == []


def test_state_writes_are_told_with_their_line_and_the_model_is_left() -> None:
    model = Counter()
    with pytest.raises(
        AssertionError,
        match=rf"Counter writes state .*\n  self\.n is rebound at .*test_testing\.py:{line_of('THE WRITE')} in forward",
    ):
        assert_no_state_writes(model, torch.ones(2))
    assert model.n == 0


OPTIONS = {
    "args and calls": ((torch.ones(2),), {"calls": [(torch.ones(2),)]}, "not both"),
    "too few steps": ((torch.ones(2),), {"steps": 1}, "steps=1 leaves nothing to replay"),
    "no such device": ((torch.ones(2),), {"device": "tpu"}, "there is no device 'tpu'"),
}


@pytest.mark.parametrize(("args", "options", "message"), OPTIONS.values(), ids=OPTIONS)
def test_options_that_contradict_or_mean_nothing_are_refused(args: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        assert_replay_safe(nn.Identity(), *args, **options)


def test_another_size_is_no_amount() -> None:
    class Longer(nn.Module):
        n = 0

        def forward(self, x: Any) -> Any:
            self.n += 1
            return [x] * self.n

    with pytest.raises(AssertionError) as caught:
        assert_replay_safe(Longer(), torch.ones(2), device="tape")
    assert ": 2 items, eager has 3" in str(caught.value) and "inf" not in str(caught.value)


def test_what_cannot_be_compiled_is_not_called_good() -> None:
    class Failing(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("never")

    with pytest.raises(AssertionError, match="cannot be compiled"):
        assert_no_state_writes(Failing(), torch.ones(2))


def test_what_cannot_be_compiled_is_told_by_its_cause_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(AssertionError, match=r"Linear cannot be compiled, .*: RuntimeError: .*\[2, 2\] X \[3, 4\]"):
        assert_no_state_writes(nn.Linear(3, 4), torch.ones(2, 2))
    assert [record.name for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


@pytest.mark.parametrize("check", [assert_replay_safe, assert_no_state_writes])
@pytest.mark.parametrize(
    ("model", "what"),
    [(nn.Linear, "the class Linear; make an instance"), (lambda x: x, "of type function"), (None, "of type NoneType")],
    ids=["class", "function", "none"],
)
def test_what_is_no_module_is_told(check: Any, model: Any, what: str) -> None:
    with pytest.raises(ModuleError, match=f"only an instance of torch.nn.Module can be .*; this is {what}"):
        check(model, torch.ones(2))


TESTS = """
import pytest
import torch
from torch import nn


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        return x * min(self.n, 5)


def test_bad(replay_safe):
    replay_safe(Counter(), torch.ones(2))


def test_good(replay_safe):
    assert replay_safe(nn.Linear(2, 2), torch.ones(2)).device == "tape"


@pytest.mark.replay_safe(others=[(torch.ones(3),)])
def test_marked(replay_safe):
    replay_safe(Growing(), torch.ones(2))


@pytest.mark.replay_safe(others=[(torch.ones(3),)])
def test_a_call_s_own_options_win(replay_safe):
    replay_safe(Growing(), torch.ones(2), others=())


class Growing(nn.Module):
    rows = None

    def forward(self, x):
        if self.rows is None or len(self.rows) < len(x):
            self.rows = torch.arange(len(x))
        return x + self.rows[: len(x)]
"""


def test_the_fixture_and_the_marker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess(*PLUGIN, "--strict-markers", "--modelguard-device", "tape")
    result.assert_outcomes(passed=2, failed=2)
    text = result.stdout.str()
    assert "Counter is not replay-safe: wrong-output" in text and "state that differs: self.n" in text
    assert "Growing is not replay-safe" in text and "freed since: self.rows" in text
    assert "modelguard/" not in text.partition("= FAILURES =")[2]


def test_the_marker_without_the_fixture_is_a_failure(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n\n\n@pytest.mark.replay_safe(steps=4)\ndef test_nothing():\n    pass\n")
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the fixture `replay_safe` is not among its arguments*"])


MISUSED = """
import pytest
import torch
from torch import nn


@pytest.mark.replay_safe(8)
def test_positional(replay_safe):
    replay_safe(nn.Linear(2, 2), torch.ones(2))


@pytest.mark.replay_safe(stesp=8)
def test_misspelt(replay_safe):
    replay_safe(nn.Linear(2, 2), torch.ones(2))


@pytest.mark.replay_safe(colour=8)
def test_unknown(replay_safe):
    replay_safe(nn.Linear(2, 2), torch.ones(2))


def test_never_called(replay_safe):
    nn.Linear(2, 2)(torch.ones(2))


def test_skipped(replay_safe):
    pytest.skip("not today")


def test_failed(replay_safe):
    raise ValueError("first")


@pytest.mark.xfail
def test_expected(replay_safe):
    raise ValueError("as ever")
"""


def test_misuse_of_marker_and_fixture_is_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MISUSED)
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(errors=3, failed=2, skipped=1, xfailed=1)
    text = result.stdout.str()
    assert "the marker `replay_safe(8)` takes its options by name, such as replay_safe(steps=8)" in text
    assert "the marker `replay_safe` has no option 'stesp'; did you mean 'steps'?" in text
    assert "the marker `replay_safe` has no option 'colour'; it has calls, kwargs, others, steps, train, device, vary" in text
    assert "the fixture `replay_safe` was never called" in text and "ValueError: first" in text


def test_the_marker_takes_the_options_of_the_assertion() -> None:
    from modelguard.pytest_plugin import _OPTIONS

    assert set(_OPTIONS) == set(inspect.signature(assert_replay_safe).parameters) - {"model", "args"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess(*PLUGIN, "--modelguard-device", "cuda", "-k", "good")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*there is no CUDA device here*"])


def test_the_plugin_unused_imports_no_torch(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        textwrap.dedent(
            """
            import sys

            def test_nothing():
                assert not [name for name in sys.modules if name.startswith(("torch", "modelguard.runtime"))]
            """
        )
    )
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)
    listed = pytester.runpytest_subprocess(*PLUGIN, "--markers").stdout.str()
    assert "replay_safe(**options)" in listed

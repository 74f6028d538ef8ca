"""Which record a text tells of: messages as they were met, in the disguises of logs and terminals, and messages of others."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from modelguard.catalog import by_id, match, records, remedy
from modelguard.catalog.pages import page
from modelguard.cli.main import main
from modelguard.rules import by_code, rule_names
from modelguard.toml_text import loads

Captured = pytest.CaptureFixture[str]

FOLDER = Path(__file__).parent / "messages"
MESSAGES: dict[str, str] = loads((FOLDER / "known.toml").read_text(encoding="utf-8"))
UNRELATED: list[str] = loads((FOLDER / "unknown.toml").read_text(encoding="utf-8"))["messages"]

GROUPS = {
    "modelguard-state-write": {"object": "self.norm.mean", "operation": "rebound", "place": "/models/norm.py:12"},
    "torch-backend-compiler-failed": {"backend": "inductor", "cause": "ValueError"},
    "torch-builtin-not-traced": {"builtin": "print"},
    "torch-constraints-violated": {"dimensions": "n"},
    "torch-context-manager": {"manager": "lock"},
    "torch-cudagraph-many-sizes": {"sizes": "51"},
    "torch-cudagraph-pointer-changed": {"what": "static input", "name": "primals_3"},
    "torch-disabled-function": {"function": "scaled"},
    "torch-data-dependent-operator": {"operator": "aten.equal.default"},
    "torch-dynamic-shape-operator": {"operator": "aten.nonzero.default"},
    "torch-fail-on-recompile": {"filename": "/models/net.py", "function": "forward"},
    "torch-fake-tensor-call": {"kind": "Runtime", "call": "<built-in function matmul>"},
    "torch-guard-on-data-dependent": {"expression": "zuf0 > 0.0"},
    "torch-missing-fake-kernel": {"operator": "lib::op"},
    "torch-skipped-function": {"function": "time.time"},
    "torch-unbacked-integer": {"expression": "u0"},
    "torch-unsupported": {"reason": "Unsupported Tensor.requires_grad_() call"},
    "vllm-aot-compile-unsupported": {"torch": "2.10.0+cu130"},
    "vllm-call-module-not-allowed": {"target": "submod_3"},
    "vllm-compile-cache-entry-type": {"expected": "int", "got": "str", "value": "8"},
    "vllm-unsupported-node": {"node": "%view", "kind": "call_method"},
}

FRAMES = """\
Traceback (most recent call last):
  File "/srv/vllm/v1/engine/core.py", line 862, in run_engine_core
    engine_core = EngineCoreProc(*args, **kwargs)
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/vllm/compilation/codegen.py", line 67, in generate_execution_code_with_name
    raise RuntimeError(
"""
QUOTED = """\
        f"call_module is not allowed for codegen target {target}."
    )
  File "/srv/vllm/compilation/backends.py", line 180, in check_type
    raise TypeError(f"Expected {ty} but got {type(value)} for {value}")
"""


def prefixed(prefix: str) -> Callable[[str], str]:
    return lambda message: textwrap.indent(FRAMES + "\n".join(textwrap.wrap(message, 70)), prefix, lambda line: True)


DISGUISES: dict[str, Callable[[str], str]] = {
    "alone": lambda message: message,
    "traceback with source": lambda message: FRAMES + QUOTED + message + "\n",
    "traceback": lambda message: FRAMES + message + "\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace\n",
    "wrapped between words": lambda message: FRAMES + "\n".join(textwrap.wrap(message, 40)),
    "wrapped and indented": lambda message: FRAMES + textwrap.indent("\n".join(textwrap.wrap(message, 50)), "      "),
    "cut by a terminal": lambda message: "\n".join(message[start : start + 53] for start in range(0, len(message), 53)),
    "windows": lambda message: (FRAMES + "\n".join(textwrap.wrap(message, 60))).replace("\n", "\r\n"),
    "engine": prefixed("(EngineCore_DP0 pid=1234) ERROR 08-12 10:11:12 [core.py:862] "),
    "worker": prefixed(
        "(Worker_TP1 pid=77) (RayWorkerWrapper pid=88, ip=10.0.0.7) ERROR 08-12 10:11:12 [v1/executor/multiproc_executor.py:591] "
    ),
    "torch's log": prefixed("W1201 04:16:47.541000 28409 torch/_dynamo/convert_frame.py:1994] [0/0] [__cudagraphs] "),
    "torchrun": prefixed("[rank3]: "),
    "pytest": prefixed("E   "),
    "container": prefixed("2026-08-12T10:11:12.123456789Z stderr F "),
    "logging": prefixed("2026-08-12 10:11:12,123 - "),
    "rich": lambda message: "\n".join(f"│ {line:74} │" for line in textwrap.wrap(message, 70)),
    "colours": lambda message: FRAMES + "\x1b[1;31m" + message.replace(" ", "\x1b[0m \x1b[38;5;196m") + "\x1b[0m",
    "hyperlink": lambda message: "\x1b]8;;file:///srv/log\x1b\\" + message + "\x1b]8;;\x1b\\",
    "JSON": lambda message: json.dumps({"level": "error", "message": FRAMES + "\n".join(textwrap.wrap(message, 60))}),
    "repr": lambda message: repr(RuntimeError(message)),
}


def test_every_record_has_a_message() -> None:
    assert sorted(MESSAGES) == sorted(records())


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_message_is_found_in_every_disguise(disguise: str) -> None:
    found = {record: [found.record.id for found in match(DISGUISES[disguise](text))] for record, text in MESSAGES.items()}
    assert {record: ids for record, ids in found.items() if ids[:1] != [record]} == {}


@pytest.mark.parametrize("record", GROUPS)
def test_what_varies_in_a_message_is_told(record: str) -> None:
    assert match(MESSAGES[record])[0].groups == GROUPS[record]


def test_where_the_message_stands_is_told() -> None:
    found = match(FRAMES + MESSAGES["vllm-call-module-not-allowed"])[0]
    assert (found.line, found.text) == (7, "call_module is not allowed for codegen target submod_3")


@pytest.mark.parametrize("text", UNRELATED)
def test_other_messages_match_nothing(text: str) -> None:
    assert match(FRAMES + text) == []


@pytest.mark.parametrize("record", records())
def test_a_message_as_the_source_spells_it_is_found(record: str) -> None:
    assert [found.record.id for found in match(records()[record].errorMessage)][:1] == [record]


def test_of_a_chain_the_cause_comes_first() -> None:
    chain = (
        f"{FRAMES}torch._dynamo.exc.Unsupported: Attempt to trace generator\n\n"
        f"The above exception was the direct cause of the following exception:\n\n{FRAMES}"
        "RuntimeError: Compilation mode cannot be NO_COMPILATION\n"
    )
    assert [found.record.id for found in match(chain)] == ["torch-generator", "vllm-no-compilation-mode"]


def test_the_last_traceback_comes_before_earlier_ones() -> None:
    log = f"{FRAMES}{MESSAGES['torch-generator']}\nrunning on\n{FRAMES}{MESSAGES['vllm-no-compilation-mode']}"
    assert [found.record.id for found in match(log)][:2] == ["vllm-no-compilation-mode", "torch-generator"]


def test_what_wraps_an_error_comes_after_it_and_a_warning_last() -> None:
    log = "\n".join(
        MESSAGES[record] for record in ("torch-cudagraph-mutated-inputs", "vllm-failed-to-compile", "torch-missing-fake-kernel")
    )
    assert [found.record.id for found in match(log)] == [
        "torch-missing-fake-kernel",
        "vllm-failed-to-compile",
        "torch-cudagraph-mutated-inputs",
    ]


def test_each_record_is_told_once() -> None:
    found = match("\n".join([MESSAGES["torch-item"]] * 3))
    assert [(one.record.id, one.line) for one in found if one.record.id == "torch-item"] == [("torch-item", 1)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Unsupported: " * 400_000, id="beginnings"),
        pytest.param(" " * 5_000_000, id="blanks"),
        pytest.param("call_module" + " " * 5_000_000, id="blanks-after-a-word"),
        pytest.param("torch._dynamo.exc.Unsupported: " + "x" * 5_000_000, id="one-word"),
        pytest.param("backend='" * 500_000, id="quotes"),
        pytest.param("\x1b[" * 2_500_000, id="colours"),
        pytest.param("Traceback (most recent call last)\n" * 150_000, id="tracebacks"),
        pytest.param("(" * 5_000_000, id="parentheses"),
        pytest.param("Expected <class '" * 300_000, id="classes"),
    ],
)
def test_five_megabytes_of_nothing(text: str) -> None:
    assert match(text) == []


@pytest.mark.parametrize("text", ["", " \n\t ", "\0", "\udcff", "\\", "\x1b", "\r"])
def test_hardly_any_text(text: str) -> None:
    assert match(text) == []


def test_remedy() -> None:
    assert (
        remedy("Data-dependent branching\n  Explanation: Detected data-dependent branching")
        == (records()["torch-data-dependent-branching"].solutions[0])
    )
    assert remedy("KeyError: 'x'") is None


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False))


def test_explain_a_message(capsys: Captured) -> None:
    assert main(["explain", MESSAGES["vllm-call-module-not-allowed"]]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("line 1: call_module is not allowed for codegen target submod_3\n  target = submod_3\n\n")
    assert out.endswith(page(records()["vllm-call-module-not-allowed"], rule_names()))
    assert err == ""


def test_explain_a_message_without_quotes(capsys: Captured) -> None:
    assert main(["explain", *MESSAGES["vllm-no-compilation-mode"].split()]) == 0
    assert "# Compilation mode cannot be NO_COMPILATION" in capsys.readouterr().out


def test_explain_standard_input_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    log = FRAMES + MESSAGES["torch-item"] + "\n" + MESSAGES["torch-cudagraph-mutated-inputs"]
    stdin(monkeypatch, log.encode() + b"\xff")
    assert main(["explain", "-"]) == 0
    out = capsys.readouterr().out
    assert "\nalso, line 8: skipping cudagraphs due to mutated inputs (2 instances) " in out
    assert "# Unsupported Tensor.item() call" in out
    path = tmp_path / "engine.log"
    path.write_text(log)
    assert main(["explain", str(path)]) == 0
    assert capsys.readouterr().out == out


@pytest.mark.parametrize("name", ["torch-item", "TORCH-ITEM", "item"])
def test_explain_a_record(name: str, capsys: Captured) -> None:
    assert main(["explain", name]) == 0
    assert capsys.readouterr().out == page(records()["torch-item"], rule_names())


def test_explain_as_json(capsys: Captured) -> None:
    assert main(["explain", MESSAGES["vllm-call-module-not-allowed"], "--output-format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.pop("match") == {
        "line": 1,
        "text": "call_module is not allowed for codegen target submod_3",
        "groups": {"target": "submod_3"},
    }
    assert document.pop("others") == []
    assert document == json.loads(json.dumps(records()["vllm-call-module-not-allowed"].as_json()))
    assert main(["explain", "torch-item", "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["match"] is None


def test_explain_says_none(capsys: Captured) -> None:
    assert main(["explain", "KeyError: 'x'"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("none: ") and "modelguard catalog" in out and "modelguard rules" in out
    assert err == ""
    assert main(["explain", "KeyError: 'x'", "--output-format", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"id": None, "match": None, "others": []}


def test_a_message_cannot_steer_the_terminal(capsys: Captured) -> None:
    main(["explain", "backend='\x07\x9b31m' raised: ValueError: x"])
    out = capsys.readouterr().out
    assert "\x07" not in out and "\x9b" not in out


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", ["standard input is empty"], id="empty"),
        pytest.param(b" \n\t\n", ["standard input is empty"], id="blank"),
        pytest.param(b"\x7fELF\x02\x01\0\0", ["no text", "NUL"], id="binary"),
        pytest.param(b"x" * (16 << 20) + b"y", ["16 MiB", "tail -n"], id="huge"),
    ],
)
def test_bad_input_is_an_error(data: bytes, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    stdin(monkeypatch, data)
    assert main(["explain", "-"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [word for word in words if word not in err] == []


def test_a_file_that_is_not_there_or_cannot_be_read(tmp_path: Path, capsys: Captured) -> None:
    for name in (str(tmp_path / "gone"), "gone.log"):
        assert main(["explain", name]) == 2
        assert f"there is no file {name}" in capsys.readouterr().err
    (tmp_path / "empty.log").write_text("")
    assert main(["explain", str(tmp_path / "empty.log")]) == 2
    assert "empty.log is empty" in capsys.readouterr().err


def test_a_misspelt_record_is_answered_with_the_nearest(capsys: Captured) -> None:
    assert main(["explain", "torch-itme"]) == 2
    assert "did you mean torch-item" in capsys.readouterr().err


def test_a_rule_names_its_errors(capsys: Captured) -> None:
    assert main(["explain", "MG108"]) == 0
    assert "(../errors/torch-cudagraph-mutated-inputs.md)" in capsys.readouterr().out
    assert main(["explain", "MG108", "--output-format", "json"]) == 0
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert "torch-cudagraph-mutated-inputs" in errors
    assert all(by_id(name) is not None for name in errors) and by_code["MG108"]

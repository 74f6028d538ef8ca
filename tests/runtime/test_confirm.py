"""`modelguard confirm`: findings joined with what running shows, and whatever a target does to the process that runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from modelguard.cli.confirm import command
from modelguard.findings import Evidence
from modelguard.report import confirmation
from modelguard.rules import by_code
from modelguard.runtime.child import observe
from modelguard.runtime.confirm import Confirmation, joined
from modelguard.runtime.targets import TargetError
from modelguard.settings_files import Overrides, SettingsFiles

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"

SCHEMA: dict[str, Any] = {
    "schema_version": int,
    "modelguard_version": str,
    "target": str,
    "guessed_inputs": [str],
    "device": str,
    "replay": {
        "verdict": str,
        "step": (int, type(None)),
        "where": [str],
        "max_abs_error": (float, type(None)),
        "reason": (str, type(None)),
        "steps": [str],
        "freed": [str],
        "stale": [str],
        "host_reads": [{"operator": str, "path": str, "line": int}],
        "captured": (int, type(None)),
        "errors": [(float, type(None))],
    },
    "side_effects": [
        {
            "object": str,
            "attribute": (str, type(None)),
            "operation": str,
            "stack": [{"path": str, "line": int, "function": str}],
        }
    ],
    "dynamo_stopped": (str, type(None)),
    "findings": [dict],
}

HEADER = """
import torch
from torch import nn


"""

COUNTER = """
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1{comment}
        return x * self.count


def build():
    return Counter(), (torch.ones(2),)
"""


def fits(value: Any, schema: Any) -> bool:
    """Has a value the shape of a schema: types, lists of one kind, and objects with exactly these keys?"""
    if isinstance(schema, dict):
        return isinstance(value, dict) and value.keys() == schema.keys() and all(fits(value[key], schema[key]) for key in schema)
    if isinstance(schema, list):
        return isinstance(value, list) and all(fits(item, schema[0]) for item in value)
    return isinstance(value, schema)


def target(tmp_path: Path, source: str, name: str = "build") -> str:
    path = tmp_path / f"target_{tmp_path.name.replace('-', '_')}.py"
    path.write_text(HEADER + textwrap.dedent(source), encoding="utf-8")
    return f"{path}:{name}"


def confirmed(where: str, *, overrides: Overrides | None = None, **request: Any) -> Confirmation:
    """As `confirm`, in this process."""
    asked = {"target": where, "steps": 6, "train": None, "device": None, "inputs": [], "vary": True, **request}
    return joined(where, observe(asked), SettingsFiles(overrides or Overrides(), None, True))


def run(where: str, *options: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "modelguard", "confirm", where, *options],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        check=False,
    )


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    wrong, right = confirmed(f"{path}:build"), confirmed(f"{path}:build_fixed")
    assert not wrong.is_clean
    # What a device refuses to capture is no write.
    assert wrong.replay["host_reads"] or any(len(finding.evidence) > 1 for finding in wrong.report.findings)
    assert (right.is_clean, right.replay["verdict"], right.side_effects) == (True, "same", [])


@pytest.mark.parametrize(
    ("code", "source", "line"),
    [
        (code, textwrap.dedent(example.source).lstrip(), example.line)
        for code in ("MG401", "MG402")
        for example in by_code[code].INVALID
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) == 5 else "",
)
def test_invalid_examples_of_rules_of_running(tmp_path: Path, code: str, source: str, line: int) -> None:
    path = tmp_path / f"invalid_{code}.py"
    path.write_text(source, encoding="utf-8")
    result = confirmed(f"{path}:build")
    assert [(finding.code, finding.location.line) for finding in result.report.findings] == [(code, line)]
    assert not result.is_clean


@pytest.mark.parametrize(
    ("code", "source"),
    [(code, textwrap.dedent(example.source).lstrip()) for code in ("MG401", "MG402") for example in by_code[code].VALID],
    ids=lambda value: value if isinstance(value, str) and len(value) == 5 else "",
)
def test_valid_examples_of_rules_of_running(tmp_path: Path, code: str, source: str) -> None:
    path = tmp_path / f"valid_{code}.py"
    path.write_text(source, encoding="utf-8")
    result = confirmed(f"{path}:build")
    assert result.is_clean
    assert not {finding.code for finding in result.report.findings} & {"MG401", "MG402"}


def test_a_confirmed_finding_has_its_evidence(tmp_path: Path) -> None:
    result = confirmed(target(tmp_path, COUNTER.format(comment="")))
    (finding,) = result.report.findings
    assert finding.evidence == (Evidence.STATIC, Evidence.DYNAMO, Evidence.REPLAY)
    assert (finding.code, finding.attribute, result.unconfirmed) == ("MG104", "self.count", {})


@pytest.mark.parametrize("how", ["comment", "settings"])
def test_what_is_suppressed_does_not_come_back(tmp_path: Path, how: str) -> None:
    comment = "  # modelguard: ignore[MG104] counted on purpose" if how == "comment" else ""
    overrides = Overrides(ignore=("MG104",)) if how == "settings" else None
    result = confirmed(target(tmp_path, COUNTER.format(comment=comment)), overrides=overrides)
    assert result.report.findings == ()
    assert result.replay["verdict"] == "wrong-output" and not result.is_clean


def test_a_write_in_a_helper_of_another_file_is_foreseen(tmp_path: Path) -> None:
    (tmp_path / "helper_of_confirm.py").write_text("def advance(module):\n    module.count += 1\n", encoding="utf-8")
    source = COUNTER.format(comment="").replace("self.count += 1", "advance(self)")
    result = confirmed(target(tmp_path, "from helper_of_confirm import advance\n" + source))
    assert [(each.code, os.path.basename(each.location.path)) for each in result.report.findings] == [
        ("MG104", "helper_of_confirm.py")
    ]


NOT_SHOWN = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x):
        if x.shape[0] > 100:
            self.last = 3
        return x + 1


def build():
    return Model(), (torch.ones(2),)
"""


def test_what_running_does_not_show_says_why(tmp_path: Path) -> None:
    result = confirmed(target(tmp_path, NOT_SHOWN))
    why = {finding.attribute: reason for finding, reason in result.unconfirmed.items()}
    assert why["self.last"] == "these calls did not run this line"
    assert result.is_clean
    text = confirmation.render("here", result.report, result.unconfirmed, result.replay, result.side_effects, None, [])
    assert "evidence: none from running it: these calls did not run this line" in text


OVERRIDDEN = """
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1  # BASE
        return x * self.count


class Own(Base):
    def forward(self, x):
        self.count += 2  # OWN
        return x * self.count


def build():
    return Own(), (torch.ones(2),)
"""

SAME_NAME = """
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1  # OWN
        return x * self.count


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.layers = nn.ModuleList([Inner()])

    def forward(self, x):
        self.count = len(x)  # OTHER
        return self.layers[0](x)


def build():
    return Outer(), (torch.ones(2),)
"""

SHARED_TABLE = """
class Inner(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, x):
        self.table.append(1)  # OWN
        return x * len(self.table)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = []
        self.layer = Inner(self.table)

    def forward(self, x):
        return self.layer(x)


def build():
    return Outer(), (torch.ones(2),)
"""

LATE = """
class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.count = 0

    def forward(self, x):
        self.seen.add_(1)
        if self.training:
            self.count += 1  # OWN
        return x * self.count


def build():
    return Late().eval(), (torch.ones(2),)
"""

COMPILED = """
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1  # OWN
        return x * self.count


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.compile(Inner(), backend="eager")

    def forward(self, x):
        return self.layer(x)


def build():
    return Outer(), (torch.ones(2),)
"""


@pytest.mark.parametrize(
    ("source", "request_"),
    [(OVERRIDDEN, {}), (SAME_NAME, {}), (SHARED_TABLE, {}), (LATE, {"train": True}), (COMPILED, {})],
    ids=["overridden", "same name", "shared", "in training only", "compiled child"],
)
def test_replay_is_evidence_for_the_write_that_ran_and_only_for_it(tmp_path: Path, source: str, request_: dict[str, Any]) -> None:
    result = confirmed(target(tmp_path, source), **request_)
    lines = (HEADER + source).splitlines()
    shown = {
        lines[finding.location.line - 1].rpartition("# ")[2]
        for finding in result.report.findings
        if Evidence.REPLAY in finding.evidence and "# " in lines[finding.location.line - 1]
    }
    assert shown == {"OWN"}
    base = [why for finding, why in result.unconfirmed.items() if lines[finding.location.line - 1].endswith("# BASE")]
    assert base == (["these calls did not run this line"] if source is OVERRIDDEN else [])


def test_lines_and_compilation_leave_shared_state_alone(tmp_path: Path) -> None:
    source = """
    TABLE = {}


    class Model(nn.Module):
        def forward(self, x):
            if "t" not in TABLE:
                TABLE["t"] = x * 2
            return x + TABLE["t"]


    def build():
        return Model(), [(torch.ones(2) * step,) for step in range(6)]
    """
    where = target(tmp_path, source)
    confirmed(where)
    assert sys.modules[Path(where.rpartition(":")[0]).stem].TABLE == {}


FORWARD = """
class M(nn.Module):
    def forward(self, x):
        {}


def build():
    return M(), (torch.ones(2),)
"""

BAD = {
    "import": ("raise KeyError('early')", {}, r"importing .* failed:\n.*KeyError: 'early'"),
    "build": ("def build():\n    return 1 / 0", {}, r"calling .* failed:\n.*return 1 / 0.*ZeroDivisionError"),
    "return": ("def build():\n    return None", {}, "returned None; it must return a module"),
    "number": ("def build():\n    return nn.Identity(), 3", {}, r"returned \(Identity, int\)"),
    "no calls": ("def build():\n    return nn.Identity(), []", {}, "returned no calls"),
    "calls that are none": ("def build():\n    return nn.Identity(), [3]", {}, "lists of tuples"),
    "no such name": ("def other():\n    pass", {}, "has no 'build'; it has other"),
    "no arguments": (
        FORWARD.format("return x.nope").replace(", (torch.ones(2),)", ""),
        {},
        r"what could be guessed \(x=float32\[2,1\]\) it fails: AttributeError.*\nlet it return \(module, args\)",
    ),
    "nothing to guess": (
        FORWARD.format("return x").replace("self, x", "self, x: int").replace(", (torch.ones(2),)", ""),
        {},
        r"`x` of \w+\.forward is no tensor",
    ),
    "another name": (
        "def build():\n    return nn.Linear(3, 3)",
        {"inputs": ["x=float32[3]"]},
        r"Linear\.forward.* does not take x=float32\[3\]: .*name them as it does",
    ),
    "a name twice": ("def build():\n    return nn.ReLU()", {"inputs": ["input=float32[3]"] * 2}, "'input' is described twice"),
    "exit": ("def build():\n    raise SystemExit(3)", {}, "SystemExit: 3"),
    "exit in forward": (FORWARD.format("raise SystemExit(0)"), {}, r"comparing .* failed:\n.*raise SystemExit\(0\)"),
    "forward": (FORWARD.format("return x.nope"), {}, r"step 0 fails eagerly: AttributeError.*\n.*return x\.nope"),
    "wrong shape": (
        "def build():\n    return nn.Linear(2, 2)",
        {"inputs": ["input=float32[3]"]},
        "step 0 fails eagerly: RuntimeError",
    ),
    "no tensor": ("def build():\n    return nn.Identity()", {"inputs": ["x=3"]}, "'x=3' describes no tensor"),
    "no type": ("def build():\n    return nn.Identity()", {"inputs": ["x=floaty[3]"]}, "describes no tensor"),
    "quantised input": ("def build():\n    return nn.Identity()", {"inputs": ["x=qint8[3]"]}, "qint8"),
    "too large": ("def build():\n    return nn.Identity()", {"inputs": ["x=float32[99999999999999]"]}, "99999999999999"),
    "cuda": ("def build():\n    return nn.Identity(), (torch.ones(2),)", {"device": "cuda"}, "^there is no CUDA device here"),
}


@pytest.mark.parametrize(("source", "request_", "message"), BAD.values(), ids=BAD)
def test_bad_targets(tmp_path: Path, source: str, request_: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=f"(?s){message}") as caught:
        confirmed(target(tmp_path, source), **request_)
    assert caught.type.__module__.startswith("modelguard.")
    assert "/modelguard/runtime/" not in str(caught.value)


@pytest.mark.parametrize("where", ["nowhere", "no/such/file.py:build", ":build", "there_is_no_such_module:build"])
def test_targets_that_name_nothing(where: str) -> None:
    with pytest.raises(TargetError):
        confirmed(where)


DESCRIBED = ["x=float32[2,16]", "float64[]", "x = bool[2]", "int64[1,8]", "complex64[2]", "float8_e5m2[2]"]


@pytest.mark.parametrize("described", DESCRIBED)
def test_described_inputs(tmp_path: Path, described: str) -> None:
    source = "class M(nn.Module):\n    def forward(self, x):\n        return x.clone()\n\n\ndef build():\n    return M()"
    assert confirmed(target(tmp_path, source), inputs=[described]).is_clean


NAMED = """
class M(nn.Module):
    def forward(self, x, scale=None, *, shift):
        return x * scale + shift


def build():
    return M(), (torch.ones(7),)
"""


def test_described_inputs_go_to_their_names_and_replace_the_targets_own(tmp_path: Path) -> None:
    assert confirmed(target(tmp_path, NAMED), inputs=["shift=float32[1]", "scale=float32[3]", "float32[2,1]"]).is_clean


GUESSED = {
    "linear": ("nn.Linear(5, 2)", ["input=float32[2,5]"]),
    "bfloat16": ("nn.Linear(5, 2).bfloat16()", ["input=bfloat16[2,5]"]),
    "layers": ("nn.Sequential(nn.ReLU(), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))", ["input=float32[2,3,32,32]"]),
    "volume": ("nn.Conv3d(1, 2, 3)", ["input=float32[2,1,32,32,32]"]),
    "signal": ("nn.Conv1d(2, 2, 3)", ["input=float32[2,2,32]"]),
    "table": ("nn.Embedding(10, 4)", ["input=int64[2,8]"]),
    "recurrent": ("nn.GRU(6, 4)", ["input=float32[2,8,6]"]),
    "attention": ("nn.MultiheadAttention(8, 2)", [f"{name}=float32[2,8,8]" for name in ("query", "key", "value")]),
    "norm": ("nn.LayerNorm((3, 4))", ["input=float32[2,3,4]"]),
    "no parameters": ("nn.ReLU()", ["input=float32[2,1]"]),
    "ids": ("Ids()", ["input_ids=int64[2,8]", "positions=int64[2,8]"]),
    "a parameter of its own": ("Own()", ["x=float32[2,6]"]),
}
MODELS = """
class Ids(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 3)

    def forward(self, input_ids, positions, scale=2.0):
        return self.table(input_ids) * scale + positions[..., None]


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6, 9))

    def forward(self, x: torch.Tensor):
        return x @ self.weight


def build():
    return """


@pytest.mark.parametrize(("model", "expected"), GUESSED.values(), ids=GUESSED)
def test_inputs_are_guessed_where_none_are_given(tmp_path: Path, model: str, expected: list[str]) -> None:
    result = confirmed(target(tmp_path, MODELS + model))
    assert result.guessed_inputs == expected
    assert result.is_clean or result.replay["verdict"] == "same"


# The process.

HOSTILE = {
    "hangs": ("import time\n\n\ndef build():\n    time.sleep(100)", ("--timeout", "6"), "took more than 6 seconds"),
    "ends": ("import os\nos._exit(0)", (), "ended with status 0 and told nothing"),
    "crashes": ("import ctypes\n\n\ndef build():\n    ctypes.string_at(0)", (), "died of SIGSEGV"),
    "eats memory": (
        "def build():\n    return nn.Identity(), (torch.ones(1 << 30),)",
        ("--memory-limit", "1024"),
        "--memory-limit",
    ),
    "eats Python's memory": (
        "def build():\n    return [bytes(1 << 28) for _ in range(40)]",
        ("--memory-limit", "1024"),
        "--memory-limit",
    ),
}


@pytest.mark.parametrize(("source", "options", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_targets(tmp_path: Path, source: str, options: tuple[str, ...], message: str) -> None:
    done = run(target(tmp_path, source), *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_what_a_target_starts_ends_with_it_and_its_prints_stay_apart(tmp_path: Path) -> None:
    source = """
    import os, subprocess, sys

    print("imported")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    if os.fork() == 0:
        import time
        time.sleep(1000)


    class Model(nn.Module):
        def forward(self, x):
            print("stepped")
            os.write(1, b"raw")
            return x * 2


    def build():
        print(child.pid)
        return Model(), (torch.ones(2),)
    """
    done = run(target(tmp_path, source), "--output-format", "json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["replay"]["verdict"]) == (0, "same")
    lines = done.stderr.splitlines()
    assert "imported" in lines and any("stepped" in line for line in lines)
    pid = next(line for line in lines if line.isdigit())
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_a_thread_that_goes_on_costs_the_time_limit_but_not_the_result(tmp_path: Path) -> None:
    source = """
    import threading, time


    def build():
        threading.Thread(target=time.sleep, args=(1000,)).start()
        return nn.Identity(), (torch.ones(2),)
    """
    done = run(target(tmp_path, source), "--timeout", "15")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("output_format", ["text", "json", "github", "gitlab"])
def test_formats_and_statuses(tmp_path: Path, output_format: str) -> None:
    where = target(tmp_path, COUNTER.format(comment=""))
    done = run(os.path.basename(where), "--output-format", output_format, "--isolated", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    if output_format == "json":
        document = json.loads(done.stdout)
        assert fits(document, SCHEMA)
        assert document["side_effects"][0]["stack"][0]["line"] == 13
        assert document["findings"][0]["evidence"] == ["static", "dynamo", "replay"]
        assert document["findings"][0]["unconfirmed"] is None
    elif output_format == "gitlab":
        assert json.loads(done.stdout)[0]["check_name"] == "MG104"
    elif output_format == "github":
        assert done.stdout.startswith("::error ") and "MG104" in done.stdout
    else:
        assert "error[MG104]" in done.stdout
        assert "evidence: static, dynamo, replay" in done.stdout
        assert ":build: wrong-output: other outputs than eager steps (tape, without CUDA)\n  from step 2: output" in done.stdout


@pytest.mark.parametrize("arguments", [["--steps", "2", "x:y"], ["--timeout", "0", "x:y"], ["--device", "tpu", "x:y"], []])
def test_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(command, arguments).exit_code == 2

"""`modelguard scan` with --fix, --unsafe-fixes, --diff and --show-fixes: what is written, printed and returned."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from modelguard.cli import files, fixing
from modelguard.cli.main import main

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bias", torch.zeros(4))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.bias = self.bias + 1
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x + self.bias + self.mean
"""
SAFELY = MODEL.replace("self.bias = self.bias + 1", "self.bias.copy_(self.bias + 1)")
WHOLLY = SAFELY.replace("self.mean = 0.9 * self.mean + 0.1 * x.mean(0)", "self.mean.copy_(0.9 * self.mean + 0.1 * x.mean(0))")
DIFF = """\
--- net.py
+++ net.py
@@ -9,6 +9,6 @@
         self.register_buffer("mean", torch.zeros(4))
\x20
     def forward(self, x):
-        self.bias = self.bias + 1
+        self.bias.copy_(self.bias + 1)
         self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
         return x + self.bias + self.mean
"""
TOLD = "modelguard: would fix 1 finding; 1 more with --unsafe-fixes\n"


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "net.py"
    path.write_bytes(MODEL.encode())
    return path


@pytest.fixture
def scan(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> Result:
        status = main(["scan", *arguments])
        return Result(status, *capsys.readouterr())

    return run


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def give(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


# Files


def test_fix_repairs_what_is_safe_and_prints_the_rest(net: Path, scan: Run) -> None:
    status, out, err = scan("net.py", "--fix")
    assert (status, net.read_text(), err) == (1, SAFELY, "")
    assert "[MG101]" in out and "`self.mean`" in out and "`self.bias`" not in out
    assert out.splitlines()[-3:] == [
        "1 note hidden; --show-notes shows it",
        "[1 fixed, 1 remaining]",
        "1 hidden fix can be enabled with --unsafe-fixes",
    ]


def test_unsafe_fixes_repair_the_rest(net: Path, scan: Run) -> None:
    status, out, _ = scan("net.py", "--fix", "--unsafe-fixes")
    assert (status, net.read_text(), out.splitlines()[-1]) == (0, WHOLLY, "[2 fixed, 0 remaining]")
    status, out, _ = scan("net.py", "--fix", "--unsafe-fixes")
    assert (status, net.read_text(), out.splitlines()[-1]) == (0, WHOLLY, "[0 fixed, 0 remaining]")


def test_only_what_is_selected_is_repaired(net: Path, scan: Run) -> None:
    assert scan("net.py", "--fix", "--ignore", "MG101").status == 0
    assert net.read_text() == MODEL


def test_notes_that_are_hidden_are_left_alone(net: Path, scan: Run) -> None:
    Path("modelguard.toml").write_text('severities = { MG101 = "note" }\n')
    assert scan("net.py", "--fix").status == 0
    assert net.read_text() == MODEL
    assert scan("net.py", "--fix", "--show-notes").status == 0
    assert net.read_text() == SAFELY


def test_what_can_be_repaired_is_marked(net: Path, scan: Run) -> None:
    out = scan("net.py").out
    assert "error[MG101] [*] buffer-rebound: buffer `self.bias`" in out
    assert "error[MG101] buffer-rebound: buffer `self.mean`" in out
    assert out.splitlines()[-2:] == ["[*] 1 fixable with --fix", "1 hidden fix can be enabled with --unsafe-fixes"]
    out = scan("net.py", "--unsafe-fixes").out
    assert out.count("[*] buffer-rebound") == 2
    assert out.splitlines()[-1] == "[*] 2 fixable with --fix --unsafe-fixes"


def test_diff_changes_nothing(net: Path, scan: Run) -> None:
    assert scan("net.py", "--diff") == (1, DIFF, TOLD)
    assert scan("net.py", "--diff", "--fix", "-q") == (1, DIFF, "")
    assert scan("net.py", "--diff", "--ignore", "MG101") == (0, "", "modelguard: would fix 0 findings\n")
    assert net.read_text() == MODEL
    assert os.listdir() == ["net.py"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_the_diff_is_a_patch(end: str, last: str, net: Path, scan: Run) -> None:
    content = MODEL.rstrip("\n") + "  # modelguard: ignore[MG104] no more" + last
    net.write_bytes(content.replace("\n", end).encode())
    patch = scan("net.py", "--diff", "--unsafe-fixes").out
    subprocess.run(["git", "apply", "-p0", "-"], input=patch.encode(), check=True)
    assert net.read_bytes().decode() == (WHOLLY.rstrip("\n") + last).replace("\n", end)


def test_show_fixes_lists_them(net: Path, scan: Run) -> None:
    assert scan("net.py", "--diff", "--show-fixes").err.splitlines() == [
        "modelguard: would fix 1 finding; 1 more with --unsafe-fixes",
        "net.py: 1 x MG101 (buffer-rebound)",
    ]
    assert scan(".", "--fix", "--unsafe-fixes", "--show-fixes").err.splitlines() == [
        "modelguard: fixed 2 findings",
        "net.py: 2 x MG101 (buffer-rebound)",
    ]


def test_json_holds_the_edits(net: Path, scan: Run) -> None:
    findings = json.loads(scan("net.py", "--output-format", "json").out)["findings"]
    assert [finding["fix"] for finding in findings] == [
        {
            "applicability": "safe",
            "message": "write into `self.bias` in place",
            "edits": [
                {
                    "path": "net.py",
                    "cell": None,
                    "line": 12,
                    "column": 9,
                    "end_line": 12,
                    "end_column": 34,
                    "content": "self.bias.copy_(self.bias + 1)",
                }
            ],
        },
        {
            "applicability": "unsafe",
            "message": "write into `self.mean` in place: "
            "the value may have another shape or dtype, which `copy_` broadcasts and casts",
            "edits": [
                {
                    "path": "net.py",
                    "cell": None,
                    "line": 13,
                    "column": 9,
                    "end_line": 13,
                    "end_column": 54,
                    "content": "self.mean.copy_(0.9 * self.mean + 0.1 * x.mean(0))",
                }
            ],
        },
    ]
    remaining = json.loads(scan("net.py", "--fix", "--output-format", "json").out)["findings"]
    assert [finding["code"] for finding in remaining] == ["MG108", "MG101"]


def test_fixes_that_touch_take_another_round(net: Path, scan: Run) -> None:
    net.write_text(
        "from torch import nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = 0\n"
        "        self.b = 0\n    def forward(self, x):\n        self.a += 1\n        self.b += 1\n        return x\n"
    )
    assert scan("net.py", "--fix", "--unsafe-fixes").out.splitlines()[-1] == "[2 fixed, 0 remaining]"
    assert net.read_text().count("import torch\n") == 1
    assert net.read_text().count("register_buffer") == net.read_text().count(".add_(1)") == 2


def test_a_fix_of_several_findings_counts_them_all(net: Path, scan: Run) -> None:
    net.write_text(
        "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.n = 0\n    def forward(self, x):\n        self.n += 1\n        self.n += 2\n        return x\n"
    )
    assert scan("net.py", "--fix", "--unsafe-fixes").out.splitlines()[-1] == "[2 fixed, 0 remaining]"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xef\xbb\xbf" + MODEL.encode(), id="byte-order-mark"),
        pytest.param(MODEL.replace("\n", "\r\n").encode(), id="crlf"),
        pytest.param(("# -*- coding: latin-1 -*-\n# \xe9\n" + MODEL).encode("latin-1"), id="latin-1"),
        pytest.param(MODEL.rstrip("\n").encode(), id="no-line-end"),
        pytest.param(
            MODEL.replace("        self.b", "\t\tself.b").replace("        ", "\t\t").replace("    ", "\t").encode(), id="tabs"
        ),
        pytest.param(MODEL.replace("    def forward", "\f    def forward").encode(), id="form-feed"),
    ],
)
def test_all_else_stays_as_it_is(content: bytes, net: Path, scan: Run) -> None:
    net.write_bytes(content)
    net.chmod(0o750)
    assert scan("net.py", "--fix").status == 1
    assert net.read_bytes() == content.replace(b"self.bias = self.bias + 1", b"self.bias.copy_(self.bias + 1)")
    assert stat.S_IMODE(net.stat().st_mode) == 0o750


HELPER = """\
def count(module):
    module.calls += 1  # modelguard: ignore[MG104] a statistic


def shift(module):
    module.mean = module.mean + 1
"""
CALLER = MODEL.replace("import torch\n", "import torch\nfrom lib.helper import count, shift\n", 1).replace(
    "        self.bias = self.bias + 1\n", "        self.calls = 0\n        count(self)\n        shift(self)\n"
)


def test_a_comment_that_another_file_needs_stays(net: Path, scan: Run) -> None:
    (net.parent / "lib").mkdir()
    helper = net.parent / "lib" / "helper.py"
    helper.write_text(HELPER.replace("module.mean + 1", "module.mean + 1  # modelguard: ignore[MG105] of no use"))
    net.write_text(CALLER)
    (net.parent / ".git").mkdir()
    (net.parent / ".git" / "HEAD").write_text("ref: refs/heads/main")
    for paths in (["lib"], ["lib", "lib/helper.py"]):
        # The folder is only a part of the project: who calls what is in it was not looked at.
        out = scan(*paths, "--fix").out
        assert "MG902" in out and "[0 fixed" in out and "hidden fix" in out
    before = helper.read_text()
    assert before.count("ignore") == 2
    for paths in (["."], ["lib/helper.py"]):
        helper.write_text(before)
        scan(*paths, "--fix")
        assert helper.read_text() == HELPER


# Standard input


def test_standard_input_is_repaired_on_standard_output(net: Path, scan: Run, given: Callable[[bytes], None]) -> None:
    given(MODEL.encode())
    status, out, err = scan("--fix", "--stdin-filename", "other.py", "-")
    assert (status, out) == (1, SAFELY)
    assert "other.py:13:9: error[MG101] buffer-rebound" in err and "[1 fixed, 1 remaining]" in err


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"x = 1", id="nothing-to-repair"),
        pytest.param(b"not Python (", id="no-python"),
        pytest.param(b"\xff\xfex\x00", id="utf-16"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_standard_input_that_stays_as_it_is(content: bytes) -> None:
    done = subprocess.run([sys.executable, "-m", "modelguard", "scan", "--fix", "-"], input=content, capture_output=True)
    assert done.stdout == content


def test_excluded_standard_input_is_passed_on(net: Path, scan: Run, given: Callable[[bytes], None]) -> None:
    given(MODEL.encode())
    assert scan("--fix", "--force-exclude", "--exclude", "net.py", "--stdin-filename", "net.py", "-")[:2] == (0, MODEL)


def test_the_diff_of_standard_input(net: Path, scan: Run, given: Callable[[bytes], None]) -> None:
    given(MODEL.encode())
    assert scan("--diff", "--stdin-filename", "net.py", "-") == (
        1,
        DIFF,
        "modelguard: would fix 1 finding; 1 more with --unsafe-fixes\n",
    )


# What goes wrong


def test_a_file_that_changes_meanwhile_is_left_alone(net: Path, scan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (net.parent / "second.py").write_text(MODEL)
    original = fixing.write

    def somebody_writes(fixed: list[fixing.Fixed]) -> list[object]:
        net.write_text(MODEL + "# more\n")
        return list(original(fixed))

    monkeypatch.setattr(fixing, "write", somebody_writes)
    status, out, err = scan(".", "--fix")
    assert (status, net.read_text(), Path("second.py").read_text()) == (2, MODEL + "# more\n", SAFELY)
    assert "net.py: error: not fixed: it was changed by somebody else meanwhile; run again" in err
    assert "[1 fixed, 3 remaining]" in out


def test_a_file_that_may_not_be_written(net: Path, scan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (net.parent / "second.py").write_text(MODEL)
    # Root may write everything, so that the mode alone would not do.
    monkeypatch.setattr(files.os, "access", lambda path, mode: not path.endswith("net.py"))
    status, _, err = scan(".", "--fix")
    assert (status, net.read_text(), Path("second.py").read_text()) == (2, MODEL, SAFELY)
    assert "net.py: error: not fixed: permission denied" in err


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["chmod", "replace", "fdopen"])
def test_no_half_file_is_left(failure: BaseException, call: str, net: Path, scan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise failure

    monkeypatch.setattr(files.os, call, fail)
    status, _, err = scan("net.py", "--fix")
    monkeypatch.undo()
    assert (status, net.read_text()) == (2 if isinstance(failure, OSError) else 130, MODEL)
    assert "no space left on device" in err or "interrupted" in err
    assert os.listdir(net.parent) == ["net.py"]


def test_a_file_that_cannot_be_parsed_stops_no_other(net: Path, scan: Run) -> None:
    (net.parent / "broken.py").write_text("def (\n# modelguard: ignore[MG104] unused\n")
    assert scan(".", "--fix").status == 1
    assert net.read_text() == SAFELY
    assert Path("broken.py").read_text().startswith("def (")


def test_a_link_is_followed(net: Path, scan: Run) -> None:
    (net.parent / "link.py").symlink_to("net.py")
    scan("link.py", "--fix")
    assert Path("link.py").is_symlink() and net.read_text() == SAFELY


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--show-fixes"], id="show-fixes-alone"),
        pytest.param(["--fix", "--add-ignore", "why"], id="add-ignore"),
        pytest.param(["--diff", "--output-format", "json"], id="diff-as-json"),
        pytest.param(["--diff", "--output-file", "out.txt"], id="diff-into-a-file"),
        pytest.param(["--diff", "--statistics"], id="diff-and-statistics"),
    ],
)
def test_what_does_not_go_together(arguments: list[str], net: Path, scan: Run) -> None:
    assert scan("net.py", *arguments).status == 2
    assert net.read_text() == MODEL


def test_one_file_of_a_project_is_repaired_as_a_part_of_it(net: Path, scan: Run) -> None:
    """The buffer is declared by a class of another file: no fix may reach there, and none is offered."""
    base, own = MODEL.split("    def forward")
    (net.parent / "base.py").write_text(base)
    net.write_text("from torch import nn\nfrom base import Net\n\n\nclass Own(Net):\n    def forward" + own)
    for paths in (["net.py"], ["."]):
        status, out, _ = scan(*paths, "--fix", "--unsafe-fixes")
        assert (status, out.splitlines()[-1]) == (1, "[0 fixed, 2 remaining]")

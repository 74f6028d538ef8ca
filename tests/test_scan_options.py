"""What the options of `modelguard scan` do to files, to standard input and to what is printed."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from modelguard.cli import files, progress
from modelguard.cli.main import main

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")

MODEL = """\
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean
"""

WRITE = "self.mean = 0.9 * self.mean + 0.1 * x.mean(0)"
IN_PLACE = MODEL.replace(WRITE, "self.mean.copy_(x.mean(0))")
CLEAN = MODEL.replace(WRITE, "pass")

Output = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return tmp_path


@pytest.fixture
def scan(capsys: pytest.CaptureFixture[str]) -> Output:
    """Runs a scan without a cache; the exit status, and what is said on stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["scan", "--no-cache", *arguments])
        return status, *capsys.readouterr()

    return run


def write(**contents: str) -> None:
    for name, content in contents.items():
        path = Path(name.replace("__", "/") + (".toml" if name.endswith("modelguard") else ".py"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def places(output: str) -> list[str]:
    """The files and codes in what `--output-format json` prints."""
    return [f"{each['path']} {each['code']}" for each in json.loads(output)["findings"]]


def with_input(content: bytes, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modelguard", "scan", *arguments]
    done = subprocess.run(command, input=content, capture_output=True, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


# Files that are left out


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--exclude", "legacy/", "legacy/x.py"], id="file"),
        pytest.param(["--exclude", "legacy/", "legacy"], id="directory"),
        pytest.param(["--exclude", "legacy\\x.py", "legacy/x.py"], id="back-slash"),
        pytest.param(["--exclude", "*.py", "legacy/x.py", "legacy/y.py"], id="several"),
    ],
)
def test_a_run_of_which_all_is_excluded_looks_at_nothing(arguments: list[str], scan: Output) -> None:
    write(legacy__x=MODEL, legacy__y=MODEL, other=MODEL)
    status, out, err = scan("--force-exclude", *arguments)
    assert (status, out) == (0, "no findings in 0 files (0 module classes, 0 entry points)\n")
    assert err.startswith("modelguard: no Python file was scanned: legacy")
    assert scan(*arguments)[0] == 1


def test_what_is_not_scanned_is_named(scan: Output) -> None:
    name = "stub.pyi"
    Path(name).write_text("")
    status, _, err = scan(name)
    assert status == 0
    assert err.startswith(f"{name}: warning: skipped: ")
    done = with_input(MODEL.encode(), "--stdin-filename", name, "-")
    assert (done.returncode, done.stderr) == (0, err)


# Standard input


def test_standard_input_has_the_settings_and_the_imports_of_its_name(here: Path) -> None:
    base = "from torch import nn\n\n\nclass Base(nn.Module): ...\n"
    write(pkg__modelguard='ignore = ["MG104"]\n', pkg__base=base, pkg____init__="")
    source = "from .base import Base\n\n\nclass M(Base):\n    def forward(self, x):\n        self.y = x\n        self.n += 1\n"
    arguments = ("--output-format", "json", "--no-cache")
    done = with_input(source.encode(), "--stdin-filename", "pkg/new.py", *arguments, "-")
    assert (done.returncode, places(done.stdout), done.stderr) == (1, ["pkg/new.py MG103"], "")
    assert not Path("pkg/new.py").exists()
    done = with_input(source.encode(), "--stdin-filename", "new.py", *arguments, "-")
    assert (done.returncode, places(done.stdout)) == (0, [])


@pytest.mark.parametrize(
    ("content", "arguments", "status", "words"),
    [
        pytest.param(MODEL.encode(), ["-"], 1, "<stdin>:11:9: error[MG101]", id="without-a-name"),
        pytest.param(MODEL.encode(), ["--stdin-filename", "no/such/file.py", "-"], 1, "no/such/file.py:11:9", id="missing"),
        pytest.param(MODEL.encode(), ["--stdin-filename", "there.py", "-"], 1, "there.py:11:9", id="not-what-lies-there"),
        pytest.param(b"x = '\xe9'\n", ["--stdin-filename", "a.py", "-"], 1, "a.py:1:1: warning[MG901]", id="not-utf-8"),
        pytest.param(MODEL.encode("utf-16"), ["-"], 1, "UTF-16", id="utf-16"),
        pytest.param(b"# coding: latin-1\nx = '\xe9'\n", ["-"], 0, "no findings", id="declared"),
        pytest.param(b"", ["-"], 0, "no findings", id="empty"),
        pytest.param(MODEL.encode(), ["--exclude", "a.py", "--stdin-filename", "a.py", "-"], 1, "a.py:11", id="excluded"),
        pytest.param(
            MODEL.encode(),
            ["--force-exclude", "--exclude", "b/", "--stdin-filename", "b/a.py", "-"],
            0,
            "was scanned: b/a.py",
            id="forced",
        ),
        pytest.param(b"", ["-", "there.py"], 2, "on its own", id="among-paths"),
        pytest.param(b"", ["--stdin-filename", "a.py"], 2, "on its own", id="name-without-dash"),
        pytest.param(b"", ["--stdin-filename", "", "-"], 2, "empty", id="empty-name"),
        pytest.param(b"", ["--stdin-filename", ".", "-"], 2, "is a directory", id="directory"),
        pytest.param(MODEL.encode(), ["--add-ignore", "why", "-"], 2, "writes into files", id="add-ignore"),
    ],
)
def test_standard_input(content: bytes, arguments: list[str], status: int, words: str) -> None:
    write(there=CLEAN)
    done = with_input(content, *arguments)
    assert (done.returncode, words in done.stdout + done.stderr) == (status, True), done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@posix
@pytest.mark.parametrize(
    ("redirection", "words"), [("<&-", "standard input is closed"), ("0>gone", "cannot read standard input")]
)
def test_standard_input_that_cannot_be_read(redirection: str, words: str) -> None:
    command = f'"{sys.executable}" -m modelguard scan - {redirection}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"modelguard: error: {words}")


# --add-ignore

LATIN = "# -*- coding: latin-1 -*-\n# café\n"
COMMENT = "  # modelguard: ignore[MG101] known, see #12"


@pytest.mark.parametrize(
    ("content", "end"),
    [
        pytest.param(MODEL.encode(), b"\n", id="plain"),
        pytest.param(MODEL.replace("\n", "\r\n").encode(), b"\r\n", id="crlf"),
        pytest.param(MODEL.replace("\n", "\r").encode(), b"\r", id="cr"),
        pytest.param(b"\xef\xbb\xbf" + MODEL.encode(), b"\n", id="bom"),
        pytest.param((LATIN + MODEL).encode("latin-1"), b"\n", id="latin-1"),
        pytest.param(("#!/usr/bin/env python\n# coding: utf-8-sig\n" + MODEL).encode(), b"\n", id="declared-as-utf-8-sig"),
        pytest.param(MODEL.replace("    ", "\t").encode(), b"\n", id="tabs"),
        pytest.param(MODEL.partition("\n        return")[0].encode(), b"", id="no-line-end"),
    ],
)
def test_add_ignore_changes_nothing_but_the_line(content: bytes, end: bytes, here: Path, scan: Output) -> None:
    model = here / "model.py"
    model.write_bytes(content)
    model.chmod(0o755)
    arguments = ("--add-ignore", "known, see #12")
    assert scan(".", *arguments) == (0, "", "modelguard: 1 line suppressed in 1 file\n")
    line = WRITE.encode() + end
    written = model.read_bytes()
    assert written == content.replace(line, WRITE.encode() + COMMENT.encode() + end)
    assert stat.S_IMODE(model.stat().st_mode) == 0o755
    assert scan(".")[0] == 0
    assert scan(".", *arguments) == (0, "", "modelguard: 0 lines suppressed in 0 files\n")
    assert model.read_bytes() == written
    assert os.listdir() == ["model.py"]


@pytest.mark.parametrize(
    ("content", "arguments", "suppressed"),
    [
        pytest.param(IN_PLACE, [], False, id="note"),
        pytest.param(IN_PLACE, ["--fail-on", "note"], True, id="note-that-fails"),
        pytest.param(MODEL, ["--fail-on", "never"], False, id="nothing-fails"),
        pytest.param(MODEL, ["--ignore", "MG101"], False, id="ignored"),
        pytest.param(MODEL, ["--select", "MG10"], True, id="selected"),
    ],
)
def test_add_ignore_is_for_what_fails_the_run(content: str, arguments: list[str], suppressed: bool, scan: Output) -> None:
    write(model=content)
    assert scan("model.py", "--add-ignore", "why", *arguments)[0] == 0
    assert ("modelguard: ignore" in Path("model.py").read_text()) == suppressed


def test_add_ignore_heeds_the_settings_of_each_folder(scan: Output) -> None:
    write(lax__a=MODEL, strict__a=IN_PLACE, lax__modelguard='fail-on = "never"\n', strict__modelguard='fail-on = "note"\n')
    assert scan(".", "--add-ignore", "why")[2] == "modelguard: 1 line suppressed in 1 file\n"
    assert "ignore[MG108] why" in Path("strict/a.py").read_text()


def test_add_ignore_says_what_gets_no_comment(scan: Output) -> None:
    write(broken="def (:\n", unused="x = 1  # modelguard: ignore[MG104] why\n")
    expected = "modelguard: 0 lines suppressed in 0 files; findings of MG901, MG902 get no comment"
    assert scan(".", "--add-ignore", "why")[2].startswith(expected)


@pytest.mark.parametrize("reason", ["see [1]: `a[0]`", "# why # not", 'déjà "vu" 理由', "tab\there", "noqa: E501"])
def test_add_ignore_with_any_reason(reason: str, scan: Output) -> None:
    write(model=MODEL)
    assert scan("model.py", "--add-ignore", reason)[0] == 0
    assert f"# modelguard: ignore[MG101] {' '.join(reason.split())}\n" in Path("model.py").read_text(encoding="utf-8")
    assert scan("model.py")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--add-ignore", ""], "say in one line why", id="no-reason"),
        pytest.param(["--add-ignore", " \t"], "say in one line why", id="blank"),
        pytest.param(["--add-ignore", "\x07"], "say in one line why", id="nothing-to-see"),
        pytest.param(["--add-ignore", "a\nb"], "say in one line why", id="two-lines"),
        pytest.param(["--add-ignore", "a\u2028b"], "say in one line why", id="two-lines-in-unicode"),
        pytest.param(["--add-ignore", "why", "--statistics"], "prints no findings", id="statistics"),
        pytest.param(["--add-ignore", "why", "--output-format", "json"], "prints no findings", id="format"),
        pytest.param(["--add-ignore", "why", "--output-file", "out"], "prints no findings", id="output-file"),
    ],
)
def test_add_ignore_refuses_what_makes_no_sense(arguments: list[str], words: str, scan: Output) -> None:
    write(model=MODEL)
    status, out, err = scan("model.py", *arguments)
    assert (status, out, words in err) == (2, "", True)
    assert Path("model.py").read_text() == MODEL


@posix
def test_add_ignore_writes_what_a_link_leads_to(scan: Output) -> None:
    write(far__target=MODEL)
    Path("link.py").symlink_to("far/target.py")
    assert scan("link.py", "--add-ignore", "why")[0] == 0
    assert os.readlink("link.py") == "far/target.py"
    assert "ignore[MG101] why" in Path("far/target.py").read_text()


def test_add_ignore_goes_on_where_a_file_cannot_take_the_reason(scan: Output) -> None:
    Path("a.py").write_bytes((LATIN + MODEL).encode("latin-1"))
    write(b=MODEL)
    status, _, err = scan("a.py", "b.py", "--add-ignore", "理由")
    assert status == 2
    assert err.startswith("modelguard: 1 line suppressed in 1 file\na.py: error: --add-ignore: the reason has a character that ")
    assert Path("a.py").read_bytes() == (LATIN + MODEL).encode("latin-1")
    assert "理由" in Path("b.py").read_text(encoding="utf-8")


@posix
def test_add_ignore_leaves_a_read_only_file_alone(monkeypatch: pytest.MonkeyPatch, scan: Output) -> None:
    write(a=MODEL, b=MODEL)
    # Root may write everything, so that the mode alone would not do.
    monkeypatch.setattr(files.os, "access", lambda path, mode: not path.endswith("a.py"))
    status, _, err = scan("a.py", "b.py", "--add-ignore", "why")
    assert (status, "a.py: error: --add-ignore: cannot write this file: permission denied" in err) == (2, True)
    assert Path("a.py").read_text() == MODEL
    assert Path("b.py").read_text() != MODEL


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["chmod", "replace", "fdopen"])
def test_add_ignore_leaves_no_half_file(
    failure: BaseException, call: str, here: Path, monkeypatch: pytest.MonkeyPatch, scan: Output
) -> None:
    write(model=MODEL)

    def fail(*arguments: object, **more: object) -> None:
        raise failure

    monkeypatch.setattr(files.os, call, fail)
    status, _, err = scan("model.py", "--add-ignore", "why")
    monkeypatch.undo()
    assert (status, Path(here, "model.py").read_text()) == (2 if isinstance(failure, OSError) else 130, MODEL)
    assert "no space left on device" in err or "interrupted" in err
    assert os.listdir(here) == ["model.py"]


@posix
def test_add_ignore_does_not_write_into_a_pipe() -> None:
    command = [sys.executable, "-m", "modelguard", "scan", "/dev/stdin", "--add-ignore", "why"]
    done = subprocess.run(command, input=MODEL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "/dev/stdin: error: --add-ignore: this is no regular file" in done.stderr


def test_add_ignore_is_silent_with_quiet(scan: Output) -> None:
    write(model=MODEL)
    assert scan("model.py", "-q", "--add-ignore", "why") == (0, "", "")


# What is printed


def test_statistics(scan: Output) -> None:
    write(a=MODEL, b=MODEL, c=IN_PLACE, d="x = 1  # modelguard: ignore[MG1, MG9x]\n")
    status, out, _ = scan(".", "--statistics")
    assert status == 1
    assert out.splitlines() == [
        "2  MG101  buffer-rebound  (2 errors)",
        "1  MG108  buffer-written-in-place  (1 note)",
        "1  MG902  unused-suppression  (1 warning)",
        "1  MG903  unknown-code-in-suppression  (1 warning)",
        "5  in 4 files, notes included",
    ]
    assert scan("c.py", "--ignore", "MG108", "--statistics")[:2] == (0, "no findings\n")
    assert scan("a.py", "--statistics", "--output-file", "out.txt")[:2] == (1, "")
    assert Path("out.txt").read_text() == "1  MG101  buffer-rebound  (1 error)\n1  in 1 file, notes included\n"
    assert scan("a.py", "--statistics", "--output-format", "json")[0] == 2


@pytest.mark.parametrize("output_format", ["text", "json", "github", "gitlab"])
def test_a_file_holds_what_would_be_printed(output_format: str, scan: Output) -> None:
    write(a=MODEL, b=IN_PLACE, broken="def (:\n")
    arguments = (".", "--output-format", output_format, "--show-notes")
    status, out, err = scan(*arguments)
    assert scan(*arguments, "--output-file", "out.txt") == (status, "", err)
    assert (status, Path("out.txt").read_text(encoding="utf-8")) == (1, out)
    assert "MG101" in out and "MG108" in out


SEVERAL = {"lax__modelguard": 'fail-on = "never"\n', "strict__modelguard": 'fail-on = "note"\n'}


@pytest.mark.parametrize(
    ("paths", "arguments", "status", "hidden"),
    [
        pytest.param(["lax"], [], 0, True, id="lax"),
        pytest.param(["strict"], [], 1, False, id="strict"),
        pytest.param(["."], [], 1, False, id="both"),
        pytest.param(["lax", "strict"], [], 1, False, id="lax-first"),
        pytest.param(["strict", "lax"], [], 1, False, id="strict-first"),
        pytest.param(["."], ["--fail-on", "error"], 0, True, id="command-line"),
        pytest.param(["."], ["--isolated"], 0, True, id="isolated"),
        pytest.param(["."], ["--config", "strict/modelguard.toml"], 1, False, id="config"),
    ],
)
def test_fail_on_of_each_folder(paths: list[str], arguments: list[str], status: int, hidden: bool, scan: Output) -> None:
    write(lax__n=IN_PLACE, strict__n=IN_PLACE, **SEVERAL)
    found, out, _ = scan(*paths, *arguments)
    assert (found, "note[MG108]" in out) == (status, not hidden)
    # Where one folder's notes fail the run, another's stay hidden.
    assert ("lax/n.py" in out) == (arguments[:1] == ["--config"])
    assert ("::notice" in scan(*paths, *arguments, "--output-format", "github")[1]) == (not hidden)


def test_settings_of_each_folder_decide_severities_and_ignores(scan: Output) -> None:
    write(
        a__m=MODEL,
        b__m=MODEL,
        b__tests__m=MODEL,
        a__modelguard='severities = { MG101 = "note" }\n',
        b__modelguard='[per-file-ignores]\n"tests\\\\*" = ["MG1"]\n',
    )
    status, out, _ = scan(".", "--output-format", "json")
    found = [(each["path"], each["severity"]) for each in json.loads(out)["findings"]]
    assert (status, found) == (1, [("a/m.py", "note"), ("b/m.py", "error")])
    assert scan("a")[0] == 0
    assert scan("b/tests/m.py")[0] == 0


def test_one_wrong_settings_file_ends_the_run(scan: Output) -> None:
    write(a__m=MODEL, b__m=MODEL, b__modelguard='ignore = ["MG108"]\nfail-on = "eror"\n')
    status, out, err = scan(".")
    assert (status, out) == (2, "")
    expected = "unknown severity 'eror', allowed are error, warning, note, never; did you mean 'error'?"
    assert err == f"modelguard: error: {os.path.join('b', 'modelguard.toml')}:2: fail-on: {expected}\n"
    assert scan("a")[0] == scan(".", "--isolated")[0] == 1


SUPPRESSIONS = "x = 1  # modelguard: ignore[MG104] why\ny = 2  # modelguard: ignore[MG1O4] why\n"


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        pytest.param([], ["MG902", "MG903"], id="default"),
        pytest.param(["--select", "MG9"], ["MG903"], id="unused-only-where-looked-for"),
        pytest.param(["--select", "MG9,MG104"], ["MG902", "MG903"], id="looked-for"),
        pytest.param(["--select", "MG101"], [], id="others"),
        pytest.param(["--ignore", "MG902"], ["MG903"], id="ignored"),
        pytest.param(["--ignore", "MG104"], ["MG903"], id="not-looked-for"),
        pytest.param(["--ignore", "MG9"], [], id="all-ignored"),
    ],
)
def test_findings_about_suppressions(arguments: list[str], codes: list[str], scan: Output) -> None:
    write(m=SUPPRESSIONS)
    status, out, _ = scan("m.py", *arguments, "--output-format", "json")
    assert places(out) == [f"m.py {code}" for code in codes]
    assert status == (1 if codes else 0)


@pytest.mark.parametrize("jobs", ["0", "-1", "x", "1.5", ""])
def test_jobs_that_mean_nothing(jobs: str, scan: Output) -> None:
    status, out, err = scan("--jobs", jobs, ".")
    assert (status, out) == (2, "")
    assert "'--jobs'" in err


def test_verbose_names_the_stages(scan: Output) -> None:
    write(m=MODEL)
    err = scan("m.py", "--verbose")[2]
    stages = [line.split(": ")[1] for line in err.splitlines() if line.endswith(" ms")]
    assert {"facts", "walk", "rules"} <= set(stages)
    assert scan("m.py")[2] == ""


# Progress


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """Runs a function of this module on a terminal, and gives all that it was sent."""
    pty = pytest.importorskip("pty")

    def run(*arguments: str, patience: float = 0.0, term: str = "xterm", rest: str = "") -> bytes:
        script = (
            "import sys; from modelguard.cli import progress; from modelguard.cli.main import main; "
            f"progress._PATIENCE = {patience}; sys.exit(main(sys.argv[1:]))"
        )
        command = ["sh", "-c", f'exec "$@" {rest}', "sh", sys.executable, "-c", script, "scan", "--no-cache", *arguments]
        master, slave = pty.openpty()
        with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=os.environ | {"TERM": term}) as process:
            os.close(slave)
            sent = b""
            while chunk := _read(master):
                sent += chunk
        os.close(master)
        assert process.returncode == 0
        return sent

    return run


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # what Linux says once nobody has the other end
        return b""


@posix
def test_progress_is_shown_on_a_terminal_and_taken_away(terminal: Callable[..., bytes]) -> None:
    write(a=CLEAN, b=CLEAN, c=CLEAN)
    plain = b"no findings in 3 files (3 module classes, 3 entry points)\r\n"
    sent = terminal(".")
    assert b"scanning" in sent and b"/3" in sent
    # The line is cleared, and the cursor is shown again, before anything is printed.
    assert sent.endswith(b"\x1b[2K" + plain)
    assert sent.rindex(b"\x1b[?25h") > sent.rindex(b"\x1b[?25l")
    assert terminal(".", patience=1000.0) == plain
    assert terminal(".", term="dumb") == plain
    assert terminal(".", rest="2>/dev/null") == plain
    assert terminal(".", "--quiet") == b""


def test_progress_waits_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    opened: list[int] = []

    class Bar:
        task_ids = (0,)

        def update(self, task: int, **values: int) -> None: ...

        def stop(self) -> None:
            opened.append(-1)

    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    monkeypatch.setattr(progress, "_opened", lambda total: opened.append(total) or Bar())
    monkeypatch.setattr(progress.sys, "stderr", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress_on_terminal(quiet=False) as show:
        assert show is not None
        show(1, 10)
        now = 100.9
        show(2, 10)
        assert opened == []
        now = 101.1
        show(3, 10)
        show(10, 10)
    assert opened == [10, -1]
    with progress.progress_on_terminal(quiet=False) as show:
        assert show is not None
        now = 110.0
        # Done: a bar would only flash up.
        show(10, 10)
    assert opened == [10, -1]
    with progress.progress_on_terminal(quiet=True) as show:
        assert show is None


def test_lines_of_standard_input_are_shown_as_they_came(scan: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    write(model=MODEL)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"# not saved yet\n{MODEL}".encode())))
    _, out, _ = scan("-", "--stdin-filename", "model.py")
    _, saved, _ = scan("model.py")
    shown, before = (re.findall(r"^ *\d+ \| +(.*)$", text, re.MULTILINE) for text in (out, saved))
    assert shown == before != []


def test_add_ignore_wants_to_know_where(scan: Output) -> None:
    """The reason forgotten, a path would be taken for it, and everything here be written to."""
    write(model=MODEL)
    status, _, told = scan("--add-ignore", "model.py")
    assert status == 2
    assert "name them" in told
    assert Path("model.py").read_text() == MODEL

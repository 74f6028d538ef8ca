"""`modelguard scan` from the command line: options, output, exit status."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modelguard import __version__
from modelguard.cli.main import main

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

IN_PLACE = MODEL.replace("self.mean = 0.9 * self.mean + 0.1 * x.mean(0)", "self.mean.copy_(x.mean(0))")
OTHER_METHOD = MODEL.replace("def forward", "def decode")


posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "in_place.py").write_text(IN_PLACE)
    (tmp_path / "other.py").write_text(OTHER_METHOD)
    (tmp_path / "plain.py").write_text("x = 1\n")
    (tmp_path / "empty").mkdir()
    return tmp_path


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modelguard", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=os.environ | environment)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        pytest.param(["model.py"], 1, id="finding"),
        pytest.param(["plain.py"], 0, id="no-module-class"),
        pytest.param(["in_place.py"], 0, id="note-does-not-fail"),
        pytest.param(["in_place.py", "--fail-on", "note"], 1, id="fail-on-note"),
        pytest.param(["model.py", "--fail-on", "error"], 1, id="fail-on-error"),
        pytest.param(["model.py", "--fail-on", "never"], 0, id="fail-on-never"),
        pytest.param(["model.py", "--ignore", "MG101"], 0, id="ignore"),
        pytest.param(["model.py", "--ignore", "MG1"], 0, id="ignore-prefix"),
        pytest.param(["model.py", "--ignore", "MG102,MG101"], 0, id="ignore-list"),
        pytest.param(["model.py", "--ignore", "MG102", "--ignore", "MG101"], 0, id="ignore-repeated"),
        pytest.param(["model.py", "--select", "MG102, MG103"], 0, id="select-others"),
        pytest.param(["model.py", "--select", "MG101", "--ignore", "MG1"], 1, id="longer-select-wins"),
        pytest.param(["model.py", "--select", "MG1", "--ignore", "MG101"], 0, id="longer-ignore-wins"),
        pytest.param(["other.py"], 0, id="not-an-entry-point"),
        pytest.param(["other.py", "--entry-point", "decode"], 1, id="entry-point"),
        pytest.param(["model.py", "--entry-point", "decode"], 1, id="entry-point-adds"),
        pytest.param([".", "--exclude", "model.py"], 0, id="exclude"),
        pytest.param(["model.py", "--exclude", "model.py"], 1, id="exclude-leaves-named-files"),
        pytest.param([], 1, id="here-by-default"),
        pytest.param(["model.py", "gone.py"], 2, id="missing-path"),
        pytest.param(["empty"], 0, id="empty-directory"),
        pytest.param(["model.py", "--no-cache"], 1, id="no-cache"),
    ],
)
def test_exit_status(arguments: list[str], status: int) -> None:
    assert main(["scan", *arguments]) == status


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["scan", "--select", "MG10l"], ["--select", "'MG10l'", "did you mean MG10"], id="select"),
        pytest.param(["scan", "--ignore", "MG101,mg102"], ["--ignore", "did you mean MG102?"], id="ignore-case"),
        pytest.param(["scan", "--ignore", "buffer-rebound"], ["did you mean MG101?"], id="ignore-name"),
        pytest.param(["scan", "--ignore", "E501"], ["'E501'", "modelguard rules"], id="code-of-another-tool"),
        pytest.param(["scan", "--select", ""], ["a code is missing"], id="select-nothing"),
        pytest.param(["scan", "--select", "MG101,"], ["a code is missing"], id="trailing-comma"),
        pytest.param(["scan", "--entry-point", "Norm.decode()"], ["did you mean 'decode'?"], id="entry-point"),
        pytest.param(["scan", "--exclude", " "], ["--exclude", "empty pattern"], id="exclude"),
        pytest.param(["scan", "--exclude", "[z-a]"], ["--exclude", "'[z-a]'", "is not a pattern"], id="exclude-range"),
        pytest.param(["scan", "--exclude", "[[:alpha:]]"], ["--exclude", "is not a pattern"], id="exclude-posix-class"),
        pytest.param(["scan", "--exclude", "!"], ["--exclude", "'!'", "is not a pattern"], id="exclude-nothing-taken-back"),
        pytest.param(["scan", ""], ["a path is empty"], id="empty-path"),
        pytest.param(["scan", "--output-file", ""], ["--output-file", "empty"], id="empty-output-file"),
        pytest.param(["scan", "model.py", "--output-file", "./model.py"], ["./model.py", "to look at"], id="output-over-source"),
        pytest.param(["scan", "--fail-on", "eror"], ["--fail-on", "'error'"], id="fail-on"),
        pytest.param(["scan", "--selct", "MG1"], ["--select"], id="option"),
        pytest.param(["scan", "--quiet", "--verbose"], ["exclude each other"], id="quiet-and-verbose"),
        pytest.param(["scan", "model.py", "--output-file", "no/where.txt"], ["cannot write no/where.txt"], id="output-file"),
        pytest.param(["scna"], ["did you mean 'scan'?"], id="command"),
        pytest.param(["model.py"], ["modelguard scan model.py"], id="path-instead-of-command"),
    ],
)
def test_usage_errors_exit_with_2_and_say_the_right_spelling(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [word for word in words if word not in err] == []
    assert "Traceback" not in err


def test_text_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", "model.py"]) == 1
    out, err = capsys.readouterr()
    lines = out.split("\n")
    assert lines[0].startswith("model.py:11:9: error[MG101] buffer-rebound: ")
    assert "`self.mean`" in lines[0]
    assert lines[2] == " 11 |         self.mean = 0.9 * self.mean + 0.1 * x.mean(0)"
    assert lines[3].startswith("    |         ^^^^^^^^^")
    assert lines[4].startswith("    = help: ")
    assert "1 error in 1 file (1 module class, 1 entry point)" in lines
    assert err == ""


def test_notes(capsys: pytest.CaptureFixture[str]) -> None:
    main(["scan", "in_place.py"])
    assert "1 note hidden" in capsys.readouterr().out
    main(["scan", "in_place.py", "--show-notes"])
    assert "note[MG108]" in capsys.readouterr().out
    main(["scan", "in_place.py", "--fail-on", "note"])
    assert "note[MG108]" in capsys.readouterr().out


def test_json_holds_notes_and_diagnostics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", "in_place.py", "gone.py", "--output-format", "json"]) == 2
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert [finding["code"] for finding in document["findings"]] == ["MG108"]
    assert [diagnostic["path"] for diagnostic in document["diagnostics"]] == ["gone.py"]
    assert document["summary"] | {"entry_points": 1} == {
        "files": 1,
        "module_classes": 1,
        "entry_points": 1,
        "errors": 0,
        "warnings": 0,
        "notes": 1,
        "baselined": 0,
        "unchanged": 0,
    }
    assert err.startswith("gone.py: error: no such file or directory")


@pytest.mark.parametrize(
    ("arguments", "err"),
    [
        pytest.param(["empty"], "modelguard: no Python file was scanned: empty\n", id="no-file"),
        pytest.param(["plain.py"], "modelguard: no module class among 1 file: plain.py\n", id="no-module-class"),
        pytest.param(["plain.py", "--output-format", "json"], "modelguard: no module class among 1 file: plain.py\n", id="json"),
        pytest.param(["plain.py", "--quiet"], "", id="quiet"),
        pytest.param(["gone.py", "--quiet"], "gone.py: error: no such file or directory", id="quiet-shows-errors"),
    ],
)
def test_a_run_that_looked_at_nothing_says_so(arguments: list[str], err: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["scan", *arguments])
    assert err in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(b"def broken(:\n", ["broken.py:1", "warning"], id="does-not-parse"),
        pytest.param(b"x = '\xe9'\n", ["broken.py:1", "0xe9", "UTF-8"], id="undecodable"),
        pytest.param(b"x = 1\n\0", ["broken.py:2", "NUL"], id="nul"),
        pytest.param(b"# coding: klingon\n", ["broken.py", "klingon"], id="unknown-encoding"),
    ],
)
def test_a_bad_file_is_named_and_the_rest_is_scanned(
    here: Path, source: bytes, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "broken.py").write_bytes(source)
    main(["scan", "broken.py", "model.py"])
    out, err = capsys.readouterr()
    assert [word for word in words if word not in out + err] == []
    assert "error[MG101]" in out
    assert "Traceback" not in out + err


def test_quiet_prints_findings_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", "model.py", "-q"]) == 1
    out, err = capsys.readouterr()
    assert "error[MG101]" in out
    assert "in 1 file" not in out
    assert err == ""


def test_output_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", "model.py", "--output-file", "found.json", "--output-format", "json"]) == 1
    assert capsys.readouterr().out == ""
    assert json.loads((here / "found.json").read_text())["summary"]["errors"] == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "colored"),
    [
        pytest.param([], {}, False, id="piped"),
        pytest.param(["--color", "always"], {}, True, id="always"),
        pytest.param(["--color", "always"], {"NO_COLOR": "1"}, True, id="option-over-environment"),
        pytest.param(["--color", "never"], {}, False, id="never"),
    ],
)
def test_color(arguments: list[str], environment: dict[str, str], colored: bool) -> None:
    done = run("scan", "model.py", *arguments, **environment)
    assert done.returncode == 1
    assert ("\x1b[" in done.stdout) == colored


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("environment", "colored"),
    [
        pytest.param({"TERM": "xterm"}, True, id="terminal"),
        pytest.param({"TERM": "xterm", "NO_COLOR": "1"}, False, id="no-color"),
        pytest.param({"TERM": "xterm", "NO_COLOR": ""}, True, id="empty-no-color"),
        pytest.param({"TERM": "dumb"}, False, id="dumb-terminal"),
    ],
)
def test_color_on_a_terminal(environment: dict[str, str], colored: bool) -> None:
    import pty

    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "modelguard", "scan", "model.py"]
    done = subprocess.run(command, stdout=terminal, env=os.environ | environment)
    assert done.returncode == 1
    assert (b"\x1b[" in os.read(controller, 100_000)) == colored
    os.close(terminal)
    os.close(controller)


def test_a_terminal_that_cannot_show_a_character_shows_its_escape(here: Path) -> None:
    (here / "model.py").write_text(MODEL.replace("mean(0)", "mean(0)  # 平均"), encoding="utf-8")
    done = run("scan", "model.py", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 1
    assert r"\u5e73\u5747" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="pipes break differently")
def test_a_reader_that_goes_away_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "modelguard", "scan", "model.py"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


@posix
@pytest.mark.parametrize(
    ("redirections", "arguments", "status"),
    [
        pytest.param(">&-", "scan model.py", 1, id="stdout-closed"),
        pytest.param(">&-", "scan in_place.py", 0, id="stdout-closed-clean"),
        pytest.param(">&-", "explain MG101", 0, id="stdout-closed-explain"),
        pytest.param("2>&-", "scan model.py", 1, id="stderr-closed"),
        pytest.param("2>&-", "scan gone.py", 2, id="stderr-closed-error"),
        pytest.param(">&- 2>&- <&-", "scan model.py", 1, id="all-closed"),
        pytest.param("2>/dev/full", "scan gone.py model.py", 2, id="stderr-full"),
        pytest.param("2>/dev/full", "scan --select XX", 2, id="stderr-full-usage-error"),
    ],
)
def test_the_exit_status_does_not_depend_on_who_listens(redirections: str, arguments: str, status: int) -> None:
    if "/dev/full" in redirections and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    command = f'exec "{sys.executable}" -m modelguard {arguments} {redirections}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == status
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["scan", "model.py"], ["scan", "model.py", "--output-format", "json"], ["rules"]])
def test_output_that_cannot_be_written_is_an_error(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "modelguard", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "modelguard: error: cannot write the output: No space left on device\n"


@posix
def test_ctrl_c(here: Path) -> None:
    os.mkfifo(here / "never.py")
    command = [sys.executable, "-m", "modelguard", "scan", "never.py"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        # A reader that waits for the pipe lets this go on: the scan is under way.
        with open(here / "never.py", "w"):
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err.strip()) == (130, "", "modelguard: interrupted")


@posix
@pytest.mark.parametrize("name", ["esc\x1b[31m\x1b]0;title\x07", "line\nfeed", "\N{RIGHT-TO-LEFT OVERRIDE}", "\x9b31m"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["scan", "NAME"],
        ["NAME"],
        ["scan", "NAME/gone.py"],
        ["scan", "NAME/model.py"],
        ["scan", "NAME/plain.py"],
        ["scan", "NAME/model.py", "--color", "always"],
        ["scan", "model.py", "--output-file", "NAME/no/where"],
        ["scan", "--select", "NAME"],
        ["scan", "--exclude", "[z-a]NAME"],
        ["scan", "--entry-point", "NAME"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_names_do_not_steer_the_terminal(here: Path, name: str, arguments: list[str]) -> None:
    (here / name).mkdir()
    (here / name / "plain.py").write_text("x = 1\n")
    (here / name / "model.py").write_text(MODEL)
    done = run(*(argument.replace("NAME", name) for argument in arguments))
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout) if "always" in arguments else done.stdout
    assert [char for char in said + done.stderr if not char.isprintable() and char != "\n"] == []
    assert "\nfeed" not in said + done.stderr


@posix
def test_one_unreadable_path_does_not_stop_the_rest(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "access", lambda *arguments, **more: False)
    assert main(["scan", "model.py"]) == 1
    assert "error[MG101]" in capsys.readouterr().out


@posix
def test_what_comes_from_a_pipe_is_scanned_whole(here: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "modelguard", "scan", "/dev/stdin"], input=MODEL, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "self.mean" in done.stdout


@posix
def test_a_working_directory_that_is_gone(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here / "empty")
    (here / "empty").rmdir()
    assert main(["scan"]) == 2
    assert "the working directory does not exist" in capsys.readouterr().err


def test_a_remark_names_few_of_many_paths(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [f"plain{number}.py" for number in range(300)]
    for path in paths:
        (here / path).write_text("x = 1\n")
    assert main(["scan", *paths]) == 0
    err = capsys.readouterr().err
    assert "among 300 files: plain0.py, " in err and "and 295 more" in err and len(err) < 200


def test_half_a_surrogate_pair_in_a_name(here: Path) -> None:
    (here / "model.py").write_text(MODEL.replace("self.mean = ", "setattr(self, '\\ud800', x); self.mean = "))
    done = run("scan", "model.py", "--output-format", "json")
    assert done.returncode == 1
    assert "self.\ud800" in [finding["attribute"] for finding in json.loads(done.stdout)["findings"]]
    assert run("scan", "model.py").returncode == 1


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"modelguard {__version__}\n"
    assert main(["scan", "--help"]) == 0
    assert "Exit status: 0 clean, 1 findings, 2" in capsys.readouterr().out


def test_verbose_says_where_the_time_went() -> None:
    done = run("scan", "model.py", "--verbose")
    assert done.returncode == 1
    assert " ms\n" in done.stderr


def test_the_findings_do_not_depend_on_how_paths_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for paths in (["."], ["model.py", "in_place.py", "other.py", "plain.py"], ["plain.py", ".", "model.py", "./model.py"]):
        main(["scan", *paths, "--output-format", "json"])
        outputs.append(capsys.readouterr().out)
    assert len(set(outputs)) == 1

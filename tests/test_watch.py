"""`modelguard scan --watch`: a process that scans, waits, and scans again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelguard.cli.main import main

pytest.importorskip("watchfiles")

CLEAN = "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"
FAULTY = CLEAN.replace("return x", "self.calls += 1\n        return x * self.calls")
GIVEN_UP = 120.0
"""Seconds after which a process that says nothing is killed, and its test fails."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(name: str, content: str) -> None:
    """Write a file in one go, as editors do."""
    Path("being-written").write_text(content)
    os.replace("being-written", name)


class Watching:
    """A scan that watches. What it prints and what it remarks come by one pipe."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-u", "-m", "modelguard", "scan", "--watch", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.timer = threading.Timer(GIVEN_UP, self.process.kill)
        self.timer.start()

    def said(self) -> str:
        """What the next scan says, up to where it waits."""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            if line.startswith("modelguard: waiting for changes"):
                return "".join(lines)
            lines.append(line)
        pytest.fail("it ended: " + "".join(lines))

    def said_until(self, words: str) -> None:
        """Wait for the scan that says `words`; how many it takes to that is the file system's matter."""
        while words not in self.said():
            pass

    def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait()


@pytest.fixture
def watching() -> Iterator[type[Watching]]:
    started: list[Watching] = []

    class Noted(Watching):
        def __init__(self, *arguments: str) -> None:
            super().__init__(*arguments)
            started.append(self)

    yield Noted
    for each in started:
        each.timer.cancel()
        each.process.kill()
        each.process.communicate()


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C to one process")
def test_changes_of_files_and_settings_are_scanned_and_ctrl_c_ends_with_the_last_status(watching: type[Watching]) -> None:
    put("net.py", CLEAN)
    process = watching(".")
    assert "no findings in 1 file" in process.said()
    put("net.py", FAULTY)
    process.said_until("net.py:6:9: error[MG104]")
    put("modelguard.toml", 'ignore = ["MG104"]\n')
    process.said_until("no findings in 1 file")
    put("modelguard.toml", "ignore = [\n")
    process.said_until("modelguard: error: modelguard.toml")
    put("modelguard.toml", "")
    process.said_until("error[MG104]")
    assert process.end() == 1


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C to one process")
def test_a_named_file_is_scanned_when_what_it_imports_changes(watching: type[Watching]) -> None:
    put("pyproject.toml", "[tool.modelguard]\n")
    put("base.py", CLEAN)
    Path("models").mkdir()
    put("models/net.py", "from base import Net\n\n\nclass Sub(Net):\n    def grown(self):\n        self.size = 1\n")
    process = watching("models/net.py")
    assert "no findings in 1 file" in process.said()
    put("base.py", CLEAN.replace("return x", "return self.grown()"))
    process.said_until("models/net.py:6:9: ")
    put("models/net.py", CLEAN)
    process.said_until("no findings")
    assert process.end() == 0


@pytest.mark.parametrize("arguments", [["--fix", "."], ["--diff", "."], ["-"], ["--add-ignore", "known", "."]])
def test_what_changes_files_does_not_watch(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", "--watch", *arguments]) == 2
    assert "--watch prints what is found in files" in capsys.readouterr().err


def test_a_mistake_on_the_command_line_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", "--watch", "nowhere/net.py"]) == 2
    assert "--watch: there is no folder" in capsys.readouterr().err
    assert main(["scan", "--watch", "--quiet", "--verbose", "."]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert main(["scan", "--watch", "."]) == 2
    assert "--watch needs the package watchfiles; install it" in capsys.readouterr().err

"""Scans that are ended from outside: the exit status says so, and neither processes nor half-written files are left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals to process groups")

FILES = 24
NET = """\
import torch
from torch import nn


class Net{0}(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = x
        return x
"""

COMMAND = """\
import os
import sys
import time
from pathlib import Path

from modelguard.cli.main import main
from modelguard.scan import engine, jobs
from modelguard.scan.analysis import Analysis

engine._WORTH_SHARING = 0
jobs._PIECE = 2
plain = Analysis.scan


def scan(self, path):
    # A file or two are done, then each process waits to be ended.
    Path("at-work", str(os.getpid())).touch()
    if path > "net11.py" and Path("held").exists():
        time.sleep(600)
    return plain(self, path)


Analysis.scan = scan
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number in range(FILES):
        (tmp_path / f"net{number}.py").write_text(NET.format(number))
    (tmp_path / "at-work").mkdir()
    (tmp_path / "held").touch()
    return tmp_path


def started(*options: str) -> subprocess.Popen[str]:
    """A scan by two processes that waits in the middle, in a process group of its own."""
    command = [sys.executable, "-c", COMMAND, "scan", "--jobs", "2", *options, "."]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def workers(count: int) -> list[int]:
    """The processes that analyse files, once there are that many."""
    while len(os.listdir("at-work")) < count:
        time.sleep(0.01)
    return [int(name) for name in os.listdir("at-work")]


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        # One that has ended and that nobody asks for its status is none.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return os.path.isdir("/proc/1") is False


@pytest.fixture
def scan(project: Path) -> Iterator[subprocess.Popen[str]]:
    with started() as process:
        yield process
        process.kill()


def assert_nothing_is_left(processes: list[int]) -> None:
    while any(map(is_alive, processes)):
        time.sleep(0.01)
    assert sorted(os.listdir(".modelguard_cache")) == [".gitignore", "CACHEDIR.TAG", "scans.sqlite"]
    Path("held").unlink()
    again = subprocess.run([sys.executable, "-m", "modelguard", "scan", "."], capture_output=True, text=True)
    plain = subprocess.run([sys.executable, "-m", "modelguard", "scan", "--no-cache", "."], capture_output=True, text=True)
    assert again.stderr == plain.stderr == ""
    assert again.stdout == plain.stdout
    assert again.returncode == 1


@pytest.mark.parametrize(
    ("number", "group", "status", "said"),
    [
        (signal.SIGINT, True, 130, "modelguard: interrupted\n"),
        (signal.SIGINT, False, 130, "modelguard: interrupted\n"),
        (signal.SIGTERM, True, 143, "modelguard: terminated\n"),
        (signal.SIGTERM, False, 143, "modelguard: terminated\n"),
    ],
    ids=["Ctrl-C", "SIGINT to the parent", "SIGTERM to all", "SIGTERM to the parent"],
)
def test_a_scan_that_is_ended_leaves_nothing(
    scan: subprocess.Popen[str], number: signal.Signals, group: bool, status: int, said: str
) -> None:
    processes = workers(2)
    if group:
        os.killpg(scan.pid, number)
    else:
        os.kill(scan.pid, number)
    out, error = scan.communicate()
    # Ctrl-C is shown by a terminal, so click begins a new line.
    assert (scan.returncode, out, error.lstrip("\n")) == (status, "", said)
    assert_nothing_is_left(processes)


def test_processes_end_with_a_scan_that_was_killed(scan: subprocess.Popen[str]) -> None:
    processes = workers(2)
    scan.kill()
    scan.wait()
    assert_nothing_is_left(processes)


@pytest.mark.parametrize("count", [1, 2], ids=["one", "both"])
def test_the_work_of_a_killed_process_is_done_again(scan: subprocess.Popen[str], count: int) -> None:
    processes = workers(2)
    Path("held").unlink()
    for process in processes[:count]:
        os.kill(process, signal.SIGKILL)
    out, error = scan.communicate()
    plain = subprocess.run([sys.executable, "-m", "modelguard", "scan", "--no-cache", "."], capture_output=True, text=True)
    assert (scan.returncode, out, error) == (1, plain.stdout, plain.stderr)
    Path("held").touch()
    assert_nothing_is_left(processes)


def test_a_report_is_not_half_written(project: Path) -> None:
    Path("report.json").write_text("before")
    with started("--output-format", "json", "--output-file", "report.json") as scan:
        processes = workers(2)
        os.killpg(scan.pid, signal.SIGTERM)
        assert scan.wait() == 143
    assert Path("report.json").read_text() == "before"
    assert_nothing_is_left(processes)

"""Files shared out among processes: the same findings by however many, in whatever order, and whatever becomes of them."""

from __future__ import annotations

import os
import pickle
import random
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from modelguard.errors import SourceError
from modelguard.findings import ScanReport, Severity
from modelguard.scan import engine, jobs
from modelguard.scan.analysis import Analysis
from modelguard.scan.engine import scan_paths
from modelguard.scan.walk import Walk

FILES = 24
HELPER = "def step{0}(net, x):\n    net.mean = x\n    return x\n"
NET = """\
import torch
from torch import nn
from helpers{1} import step{1}
from net{2} import Net{2} as Other


class Net{0}(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.other = Other()
        self.seen = []

    def forward(self, x):
        self.seen.append({0})
        step{1}(self.other, x)
        return step{1}(self, x) + self.mean
"""


def seen(report: ScanReport) -> tuple[object, ...]:
    """All of a report but the time it took."""
    found = (report.findings, report.diagnostics)
    return (*found, report.files, report.module_classes, report.entry_points, report.lines, report.failing)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScanReport:
    """What one process finds in a project, which is the working directory and in pieces of a few files."""
    monkeypatch.chdir(tmp_path)
    for number in range(FILES):
        (tmp_path / f"helpers{number}.py").write_text(HELPER.format(number))
        text = NET.format(number, number // 3, (number * 7 + 1) % FILES)
        (tmp_path / f"net{number}.py").write_text(text if number % 6 else f"# modelguard: ignore-file[MG101] known\n{text}")
    (tmp_path / "broken.py").write_text("def broken(:\n")
    monkeypatch.setattr(engine, "_WORTH_SHARING", 0)
    monkeypatch.setattr(engine, "_WORTH_RECALLING", 1)
    monkeypatch.setattr(jobs, "_PIECE", 5)
    report = scan_paths(["."])
    assert len(report.findings) > FILES
    return report


@pytest.mark.parametrize("count", [2, 3, 100, None])
def test_several_processes_find_the_same(project: ScanReport, count: int | None) -> None:
    assert seen(scan_paths(["."], jobs=count)) == seen(project)
    assert seen(scan_paths(["."], jobs=count, cache=".cache")) == seen(project)
    assert seen(scan_paths(["."], jobs=count, cache=".cache")) == seen(project)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_paths_does_not_matter(project: ScanReport, seed: int) -> None:
    paths = [path.name for path in Path().iterdir()]
    scans = []
    for _ in range(2):
        random.Random(seed).shuffle(paths)
        scans.append(seen(scan_paths([*paths, paths[0]], jobs=2)))
    assert scans == [seen(project)] * 2


def test_what_is_found_in_a_file_does_not_depend_on_those_before_it(project: ScanReport) -> None:
    paths = sorted(path.name for path in Path().iterdir())
    tasks = jobs.tasks(paths, engine.Scope(paths), (".",), engine.Options(("forward",)))
    fresh = {each.path: each for task in tasks for path in task.paths for each in jobs.run(task._replace(scan=path)).scanned}
    shared: dict[str, object] = {}
    for task in random.Random(1).sample(tasks, len(tasks)):
        shared.update((each.path, each) for each in jobs.run(task._replace(paths=task.paths[::-1])).scanned)
    assert shared == fresh


@pytest.fixture(params=["threads", "forked", "spawned"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """An executor that the scan did not make."""
    if request.param == "threads":
        made: Executor = ThreadPoolExecutor(3)
    else:
        made = ProcessPoolExecutor(2, mp_context=get_context(request.param.removesuffix("ed").replace("forke", "fork")))
    with made:
        yield made


def test_any_executor_finds_the_same(project: ScanReport, executor: Executor) -> None:
    assert seen(scan_paths(["."], executor=executor, cache=".cache")) == seen(project)
    assert seen(scan_paths(["."], executor=executor, cache=".cache")) == seen(project)
    Path("net3.py").write_text("x = 1\n")
    assert seen(scan_paths(["."], executor=executor, cache=".cache")) == seen(scan_paths(["."]))
    assert executor.submit(int, "7").result() == 7


def test_threads_are_left_with_nothing(project: ScanReport) -> None:
    jobs._kept.clear()
    with ThreadPoolExecutor(2) as threads:
        scan_paths(["."], executor=threads)
        assert jobs._kept == {}


class Refusing(Executor):
    """Runs every other piece, and fails the rest in some way."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.count = 0

    def submit(self, function, /, *arguments, **named):  # type: ignore[no-untyped-def]
        future: Future[object] = Future()
        self.count += 1
        if self.count % 2:
            future.set_result(function(*arguments, **named))
        else:
            future.set_exception(self.error)
        return future


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("lost"), OSError(28, "No space left on device")], ids=repr)
def test_what_an_executor_fails_at_is_done_here(project: ScanReport, error: Exception) -> None:
    executor = Refusing(error)
    assert seen(scan_paths(["."], executor=executor)) == seen(project)
    assert executor.count > 4


def _fatal(task: jobs.Task) -> jobs.Piece:
    if any(path.startswith("net1") for path in task.paths) and os.getpid() != int(task.scan.partition("-")[0]):
        os.kill(os.getpid(), signal.SIGKILL)
    return _run(task)


_run = jobs.run


@pytest.mark.parametrize("own", [True, False], ids=["own", "foreign"])
def test_what_a_killed_process_had_is_done_here(project: ScanReport, monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    monkeypatch.setattr(jobs, "run", _fatal)
    if own:
        assert seen(scan_paths(["."], jobs=2, cache=".cache")) == seen(project)
    else:
        with ProcessPoolExecutor(2, mp_context=get_context("fork")) as executor:
            assert seen(scan_paths(["."], executor=executor, cache=".cache")) == seen(project)
    assert seen(scan_paths(["."], cache=".cache")) == seen(project)


def test_processes_that_read_different_contents_keep_nothing(project: ScanReport) -> None:
    tasks = jobs.tasks(sorted(path.name for path in Path().iterdir()), engine.Scope(()), (".",), engine.Options(("forward",)))
    loaded: dict[str, bytes] = {}
    piece = jobs.run(tasks[0])

    class Changing(Executor):
        def submit(self, function, /, *arguments, **named):  # type: ignore[no-untyped-def]
            future: Future[jobs.Piece] = Future()
            future.set_result(piece._replace(loaded={"/a": arguments[0].paths[0].encode(), "/b": b"same"}))
            return future

    jobs.spread(tasks, lambda scanned, timings, hashes, *more: loaded.update(hashes), Changing(), 1)
    assert loaded == {"/a": b"", "/b": b"same"}


def test_a_fault_in_one_file_leaves_the_others(project: ScanReport, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Walk.region

    def region(self: Walk, info, *more):  # type: ignore[no-untyped-def]
        if info.name == "Net5":
            raise ValueError("a fault\nof two lines")
        return plain(self, info, *more)

    monkeypatch.setattr(Walk, "region", region)
    # Threads see the fault that was put in; a process that is started afresh would not.
    with ThreadPoolExecutor(2) as pool:
        reports = [scan_paths(["."]), scan_paths(["."], executor=pool, cache=".cache"), scan_paths(["."], cache=".cache")]
    for report in reports:
        faults = [each for each in report.diagnostics if each.severity is Severity.ERROR]
        assert [each.path for each in faults] == ["net5.py"]
        assert "internal error, so that this file was not scanned: ValueError: a fault of two lines" in faults[0].message
        assert "Traceback" in faults[0].detail
        others = [
            finding for finding in project.findings if finding.location.path.startswith("net") and "net5" not in str(finding)
        ]
        assert [finding for finding in report.findings if finding in others] == others


def test_a_file_that_goes_before_it_is_read_is_reported(project: ScanReport, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Analysis.scan

    def scan(self: Analysis, path: str):  # type: ignore[no-untyped-def]
        Path("net5.py").unlink(missing_ok=True)
        return plain(self, path)

    monkeypatch.setattr(Analysis, "scan", scan)
    report = scan_paths(["."], cache=".cache")
    assert ["net5.py"] == [f.location.path for f in report.findings if f.code == "MG901" and "cannot read" in f.message]
    monkeypatch.setattr(Analysis, "scan", plain)
    assert seen(scan_paths(["."], cache=".cache")) == seen(scan_paths(["."]))


def test_an_error_is_the_same_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(SourceError("net.py", 3, "a message")))
    assert (error.path, error.line, error.message) == ("net.py", 3, "a message")

"""Files shared out among processes: the pieces of a scan, run here or by any `concurrent.futures.Executor`."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from typing import NamedTuple

from modelguard.scan.analysis import Analysis, Options, Scanned, prepared
from modelguard.scan.scope import Scope

_PIECE = 128
"""Files of a piece: few enough that all processes end at about the same time."""


class Task(NamedTuple):
    """A piece of a scan, as it is handed to a process; `scan` tells scans apart."""

    scan: str
    paths: tuple[str, ...]
    scope: Scope
    roots: tuple[str, ...]
    options: Options
    given: dict[str, str | bytes]


class Piece(NamedTuple):
    """What a piece of a scan gave; `loaded` and `sought` as in `Recall.keep`."""

    scanned: tuple[Scanned, ...]
    timings: dict[str, float]
    loaded: dict[str, bytes]
    sought: dict[str, set[str]]


_kept: dict[int, tuple[str, Analysis]] = {}
"""What each thread keeps from one piece of a scan to the next: the scan, and the analysis with all that it has read."""


def run(task: Task) -> Piece:
    """Scan a piece."""
    thread = threading.get_ident()
    scan, analysis = _kept.get(thread, ("", None))
    if analysis is None or scan != task.scan:
        analysis = Analysis(task.scope, task.roots, task.options, task.given)
        _kept[thread] = (task.scan, analysis)
    before = dict(analysis.timings)
    with prepared():
        scanned = tuple(analysis.scan(path) for path in task.paths)
    spent = {stage: seconds - before[stage] for stage, seconds in analysis.timings.items()}
    return Piece(scanned, spent, dict(analysis.loaded), dict(analysis.sought))


def _forget(tasks: Sequence[Task]) -> None:
    """Let go of what the threads of this process, if it was them, read for these pieces."""
    scans = {task.scan for task in tasks}
    for thread, (scan, _) in list(_kept.items()):
        if scan in scans:
            _kept.pop(thread, None)


_for_good = ExitStack()
"""What a worker process entered and never leaves."""

Done = Callable[[Sequence[Scanned], Mapping[str, float], Mapping[str, bytes], Mapping[str, set[str]]], None]
"""Takes in what a piece gave: results, seconds by stage, the hashes of the files that were read, what was sought in packages."""


def tasks(
    paths: Sequence[str], scope: Scope, roots: tuple[str, ...], options: Options, given: Mapping[str, str | bytes] | None = None
) -> list[Task]:
    """`paths` in their order, a few at a time: neighbours import each other."""
    scan = f"{os.getpid()}-{time.monotonic_ns()}"
    pieces = (tuple(paths[start : start + _PIECE]) for start in range(0, len(paths), _PIECE))
    return [Task(scan, piece, scope, roots, options, dict(given or {})) for piece in pieces]


def spread(tasks: Sequence[Task], done: Done, executor: Executor | None, jobs: int) -> list[Task]:
    """Run `tasks` by `executor`, or else by `jobs` processes; returns those that came to nothing, to be done here."""
    waiting: dict[Future[Piece], Task] = {}
    if executor is None:
        pool = _processes(min(jobs, len(tasks)))
        try:
            return _run_all(tasks, pool, done, waiting)
        finally:
            _stop(pool)
    try:
        return _run_all(tasks, executor, done, waiting)
    finally:
        for future in waiting:
            future.cancel()
        _forget(tasks)


def _run_all(tasks: Sequence[Task], executor: Executor, done: Done, waiting: dict[Future[Piece], Task]) -> list[Task]:
    """As `spread`; `waiting` holds what has not come yet."""
    lost: list[Task] = []
    loaded: dict[str, bytes] = {}
    for task in tasks:
        try:
            waiting[executor.submit(run, task)] = task
        except BrokenExecutor:
            lost.append(task)
    for future in as_completed(list(waiting)):
        task = waiting.pop(future)
        try:
            piece = future.result()
        except Exception:
            # A process was killed, ran out of memory, could not start: whatever it was, it may well work here, and what does
            # not is told by whoever does it.
            lost.append(task)
            continue
        for path, hashed in piece.loaded.items():
            # Two of them may have read different contents: then it is no content at all.
            loaded[path] = hashed if loaded.get(path, hashed) == hashed else b""
        done(piece.scanned, piece.timings, loaded, piece.sought)
    return lost


def _processes(jobs: int) -> ProcessPoolExecutor:
    """A pool of worker processes that end when this process does, however it ends."""
    method = "fork" if sys.platform.startswith("linux") and threading.active_count() == 1 else "spawn"
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context(method), initializer=_begin)


def _stop(executor: ProcessPoolExecutor) -> None:
    """End the processes of a pool now, whatever they are at.

    What waits is not cancelled: the pool would trip over that when it finds its processes gone.
    """
    workers = list((executor._processes or {}).values())
    executor.shutdown(wait=False)
    for worker in workers:
        worker.kill()


def _begin() -> None:
    """Prepare a worker process for good, and end it when its parent ends."""
    import signal
    from multiprocessing.connection import wait

    # The parent is told of Ctrl-C as well, and stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _for_good.enter_context(prepared())
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

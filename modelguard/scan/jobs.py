"""Files shared out among processes: the pieces of a scan, run here or by any `concurrent.futures.Executor`."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, nullcontext
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


class Piece(NamedTuple):
    """What a piece of a scan gave; `loaded` are the hashes of the files it read, by absolute path."""

    scanned: tuple[Scanned, ...]
    timings: dict[str, float]
    loaded: dict[str, bytes]


_kept = threading.local()
"""What a worker keeps from one piece of a scan to the next: the analysis, with all that it has read."""


def run(task: Task) -> Piece:
    """Scan a piece."""
    known: tuple[str, Analysis] | None = getattr(_kept, "analysis", None)
    if known is None or known[0] != task.scan:
        known = (task.scan, Analysis(task.scope, task.roots, task.options))
        _kept.analysis = known
    analysis = known[1]
    before = dict(analysis.timings)
    # A process of the scan's own is prepared once and for all: between pieces, its facts stay where they are.
    with nullcontext() if not gc.isenabled() else prepared():
        scanned = tuple(analysis.scan(path) for path in task.paths)
    spent = {stage: seconds - before[stage] for stage, seconds in analysis.timings.items()}
    return Piece(scanned, spent, dict(analysis.loaded))


_for_good = ExitStack()
"""What a worker process entered and never leaves."""

Done = Callable[[Sequence[Scanned], Mapping[str, float], Mapping[str, bytes]], None]
"""Takes in what a piece gave: results, seconds by stage, and the hashes of the files that were read."""


def tasks(paths: Sequence[str], scope: Scope, roots: tuple[str, ...], options: Options) -> list[Task]:
    """`paths` in their order, a few at a time: neighbours import each other."""
    scan = f"{os.getpid()}-{time.monotonic_ns()}"
    return [Task(scan, tuple(paths[start : start + _PIECE]), scope, roots, options) for start in range(0, len(paths), _PIECE)]


def spread(tasks: Sequence[Task], done: Done, executor: Executor | None, jobs: int) -> list[Task]:
    """Run `tasks` by `executor`, or else by `jobs` processes; returns the tasks that were lost with a process that was killed."""
    if executor is not None:
        return _run_all(tasks, executor, done)
    pool = _processes(min(jobs, len(tasks)))
    try:
        return _run_all(tasks, pool, done)
    finally:
        _stop(pool)


def _run_all(tasks: Sequence[Task], executor: Executor, done: Done) -> list[Task]:
    waiting: dict[Future[Piece], Task] = {}
    lost: list[Task] = []
    try:
        for task in tasks:
            try:
                waiting[executor.submit(run, task)] = task
            except BrokenProcessPool:
                lost.append(task)
        for future in as_completed(waiting):
            try:
                piece = future.result()
            except BrokenProcessPool:
                lost.append(waiting[future])
            else:
                done(*piece)
    except BaseException:
        for future in waiting:
            future.cancel()
        raise
    return lost


def _processes(jobs: int) -> ProcessPoolExecutor:
    """A pool of worker processes that end when this process does, however it ends."""
    method = "fork" if sys.platform.startswith("linux") and threading.active_count() == 1 else "spawn"
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context(method), initializer=_begin)


def _stop(executor: ProcessPoolExecutor) -> None:
    """End the processes of a pool now, whatever they are at."""
    workers = list((executor._processes or {}).values())
    executor.shutdown(wait=False, cancel_futures=True)
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

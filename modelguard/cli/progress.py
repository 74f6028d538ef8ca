"""How far a scan is, on a terminal, once it takes its time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE = 1.0
"""Seconds before anything is shown."""


@contextmanager
def progress_on_terminal(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Gives what is to be told of files done, of how many; None where nobody looks."""
    # What cannot move its cursor keeps all that is written.
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    bar = _Bar()
    try:
        yield bar.show
    finally:
        bar.close()


class _Bar:
    """A bar on stderr that appears when a scan lasts, and leaves nothing behind."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._progress: Progress | None = None

    def show(self, done: int, total: int) -> None:
        if self._progress is None:
            if done == total or time.monotonic() - self._start < _PATIENCE:
                return
            self._progress = _opened(total)
        self._progress.update(self._progress.task_ids[0], completed=done, total=total)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()


def _opened(total: int) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("scanning"), BarColumn(), MofNCompleteColumn(), TextColumn("files"), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task("scanning", total=total)
    progress.start()
    return progress

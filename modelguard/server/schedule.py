"""Which document is checked next: what somebody types in goes before what follows from it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple


class Job(NamedTuple):
    """A check to come, at the time `due`. `alone` as in `checks.Request`; if it `spreads`, what depends on it comes next."""

    due: float
    alone: bool
    spreads: bool


Run = Callable[[str, Job, threading.Event], Awaitable[None]]
"""Does a job for the document of a URI; the event says that something more urgent has come."""


class Schedule:
    """Jobs, at most one a document, done one after another."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: dict[str, Job] = {}
        self._running: tuple[Job, threading.Event] | None = None
        self._wake = asyncio.Event()

    def add(self, uri: str, *, alone: bool, spreads: bool, delay: float = 0.0) -> None:
        """Let a document be checked. What was to be done with it before is done by this, or comes after it."""
        known = self._waiting.get(uri)
        if known is not None:
            alone, spreads = alone or known.alone, spreads or known.spreads
        self._waiting[uri] = Job(asyncio.get_running_loop().time() + delay, alone, spreads)
        if alone and self._running is not None and not self._running[0].alone:
            self._running[1].set()
        self._wake.set()

    def drop(self, uri: str) -> None:
        """Forget what was to be done with a document."""
        self._waiting.pop(uri, None)

    async def work(self) -> None:
        """Do what comes, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            uri = self._next(loop.time())
            if uri is None:
                self._wake.clear()
                due = min((job.due for job in self._waiting.values()), default=None)
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), None if due is None else max(due - loop.time(), 0.0))
                continue
            job, stop = self._waiting.pop(uri), threading.Event()
            self._running = job, stop
            await self._run(uri, job, stop)
            self._running = None

    def _next(self, now: float) -> str | None:
        due = [(not job.alone, not job.spreads, job.due, uri) for uri, job in self._waiting.items() if job.due <= now]
        return min(due)[3] if due else None

"""One document checked: the scan, with all that it keeps from one check to the next. Belongs to one thread."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from modelguard.errors import ModelguardError, SettingsError
from modelguard.findings import Finding, ScanReport
from modelguard.scan.engine import scan_source
from modelguard.scan.excludes import leaves_out
from modelguard.scan.kept import Kept
from modelguard.settings import Settings
from modelguard.settings_files import SettingsFiles

_TIDY = 30
"""Checks after which what they left behind is collected while somebody types."""


class Stopped(Exception):
    """A check is not wanted any more."""


class Request(NamedTuple):
    """What to check: the `text` of the file at `path`. `beside` are the texts of other open files, by absolute path.

    With `alone`, who may reach into the file is not looked for.
    """

    path: str
    text: str
    beside: Mapping[str, str]
    alone: bool


class Checked(NamedTuple):
    """What was found. `parsed` is False where the text is no Python; `needs` are the files that all this depends on.

    `spent` are seconds of computing, `mistakes` are those of settings files, `said` is all else that no finding can say.
    """

    findings: tuple[Finding, ...]
    parsed: bool
    settings: Settings
    needs: frozenset[str]
    spent: float
    mistakes: tuple[str, ...]
    said: tuple[str, ...]


class Checks:
    """Checks one document after another."""

    def __init__(self, read_settings: Callable[[], SettingsFiles]) -> None:
        self._settings = _Lasting(read_settings)
        self._kept = Kept()
        self._untidy = 0

    def renew(self) -> None:
        """Read the settings again, and look again who may reach into what."""
        self._settings.renew()
        self._kept.forget()

    def check(self, request: Request, stop: threading.Event) -> Checked:
        """Check one document; raises `Stopped` soon after `stop` is set."""
        start = time.thread_time()
        settings = self._settings.for_path(request.path)
        if leaves_out(request.path, self._settings.for_path):
            report = ScanReport(files=1)
        else:
            report = self._scan(request, stop)
        said = [f"{each.path}: {each.message}\n{each.detail}".rstrip() for each in report.diagnostics]
        try:
            findings = _without_known(report.findings, settings, request.path)
        except ModelguardError as error:
            findings = report.findings
            said.append(str(error))
        return Checked(
            findings,
            report.files > 0,
            settings,
            self._kept.asked,
            time.thread_time() - start,
            tuple(self._settings.complaints),
            tuple(said),
        )

    def tidy(self, idle: bool) -> None:
        """Collect the garbage of checks: where nobody waits, and otherwise now and then, since it takes longer than a check."""
        self._untidy += 1
        if idle or self._untidy >= _TIDY:
            self._untidy = 0
            gc.collect()

    def _scan(self, request: Request, stop: threading.Event) -> ScanReport:
        def go_on(done: int, total: int) -> None:
            if stop.is_set():
                raise Stopped

        return scan_source(
            request.text,
            request.path,
            self._settings,
            beside=request.beside,
            kept=self._kept,
            alone=request.alone,
            progress=go_on,
        )


class _Lasting:
    """Settings that outlive a mistake: while a file has one, what it said of a path before holds, or else the defaults."""

    def __init__(self, read: Callable[[], SettingsFiles]) -> None:
        self._read = read
        self._files = read()
        self._last: dict[str, Settings] = {}
        self.complaints: dict[str, None] = {}
        """The mistakes, each once, in order."""

    def renew(self) -> None:
        """Read all files again."""
        self.complaints.clear()
        try:
            self._files = self._read()
        except ModelguardError as error:
            self.complaints[str(error)] = None

    def for_path(self, path: str) -> Settings:
        """The settings of one path."""
        try:
            self._last[path] = self._files.for_path(path)
        except SettingsError as error:
            self.complaints[str(error)] = None
        return self._last.get(path) or Settings()


def _without_known(findings: tuple[Finding, ...], settings: Settings, path: str) -> tuple[Finding, ...]:
    """The findings that no baseline of the settings holds."""
    if settings.baseline is None or not findings:
        return findings
    from modelguard import baseline

    baseline_file = baseline.read(settings.baseline)
    known = baseline_file.match(findings, {baseline_file.place(path)}).known
    return tuple(finding for finding in findings if finding not in known)

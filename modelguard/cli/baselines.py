"""`--baseline`, `--write-baseline` and `--prune-baseline`: findings that are known are left out, and told when they are gone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from modelguard.errors import ModelguardError
from modelguard.findings import Finding, ScanReport
from modelguard.report.text import plural
from modelguard.scan.engine import SettingsFor, failing
from modelguard.settings import seen_from
from modelguard.settings_table import shown

if TYPE_CHECKING:
    from modelguard.baseline import Baseline, Entry, Matched

_NAMED = 5
"""Findings that a remark names."""


class Baselines:
    """The baselines of a run. Which one holds for a file, its settings say."""

    def __init__(self, settings: SettingsFor, roots: Sequence[str], write: bool, prune: bool) -> None:
        """`write` takes in what is found, and `prune` takes out what is not found any more; else files stay as they are."""
        self._settings = settings
        self._roots = roots
        self._write = write
        self._prune = prune
        self._opened: dict[str, Baseline] = {}
        for root in roots:
            # Before the scan, which may take long.
            if self._of(root) is None and (write or prune):
                option = "--write-baseline" if write else "--prune-baseline"
                raise click.UsageError(f"{option}: name the file, with --baseline or as `baseline` in the settings")

    def apply(self, report: ScanReport, is_complete: bool) -> tuple[ScanReport, list[str]]:
        """The report without what is known, and remarks: how baselines were changed, if that was asked for, or what is gone."""
        for folder in {os.path.dirname(path) for path in report.whole}:
            self._of(folder or os.curdir)
        if not self._opened:
            return report, []
        by_baseline: dict[str, list[Finding]] = {path: [] for path in self._opened}
        for finding in report.findings:
            baseline = self._of(finding.location.path)
            if baseline is not None:
                by_baseline[baseline.path].append(finding)
        known: set[Finding] = set()
        said = []
        for path, findings in by_baseline.items():
            baseline = self._opened[path]
            whole = {baseline.place(file) for file in report.whole}
            matched = baseline.match(findings, whole)
            known |= matched.known
            gone = Counter({entry: count for entry, count in matched.left.items() if self._is_gone(baseline, entry, whole)})
            if (self._write or self._prune) and not is_complete:
                said.append(f"modelguard: {shown(path)} stays as it is, because something could not be scanned")
            elif self._write or self._prune:
                taken = self._change(baseline, findings, matched, gone)
                known |= taken
                changes = f"{len(taken)} taken in, {gone.total() if self._prune else 0} taken out"
                said.append(f"modelguard: {shown(path)}: {plural(baseline.entries.total(), 'finding')} ({changes})")
            elif gone:
                said.append(f"modelguard: {shown(path)}: {_listed(gone)}")
        new = tuple(finding for finding in report.findings if finding not in known)
        baselined = len(report.findings) - len(new)
        return replace(report, findings=new, failing=failing(new, self._settings), baselined=baselined), said

    def _of(self, path: str) -> Baseline | None:
        place = self._settings.for_path(path).baseline
        if place is None:
            return None
        if place not in self._opened:
            from modelguard.baseline import Baseline, read

            is_first = self._write and not os.path.lexists(place)
            self._opened[place] = Baseline(place, Counter()) if is_first else read(place)
        return self._opened[place]

    def _is_gone(self, baseline: Baseline, entry: Entry, whole: AbstractSet[str]) -> bool:
        """Whether this run would have found what an entry is about."""
        file = baseline.file(entry)
        if not self._settings.for_path(file).selects(entry.code, file):
            return False
        if os.path.exists(file):
            return entry.path in whole
        return any(os.path.isdir(root) and seen_from(root, file) for root in self._roots)

    def _change(self, baseline: Baseline, findings: Sequence[Finding], matched: Matched, gone: Counter[Entry]) -> set[Finding]:
        """Write a baseline anew; the findings that it took in."""
        taken: set[Finding] = set()
        entries = matched.entries.copy()
        if self._write:
            taken = {finding for finding in findings if finding not in matched.known and self._is_shown(finding)}
            entries.update(map(baseline.entry, taken))
        if self._prune:
            entries -= gone
        if entries != baseline.entries or not os.path.exists(baseline.path):
            from modelguard.cli.files import replace_file

            baseline.entries = entries
            try:
                replace_file(baseline.path, baseline.render().encode("ascii"))
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise ModelguardError(f"{shown(baseline.path)}: cannot write this baseline: {reason}") from None
        return taken

    def _is_shown(self, finding: Finding) -> bool:
        return self._settings.for_path(finding.location.path).shows(finding.severity)


def _listed(gone: Counter[Entry]) -> str:
    """That entries are gone, naming some."""
    named = [f"{entry.path} {entry.code}{entry.attribute and f' `{entry.attribute}`'}" for entry in sorted(gone)]
    more = len(named) - _NAMED
    listed = ", ".join(named[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    verb, them = ("occurs", "it") if gone.total() == 1 else ("occur", "them")
    return f"{plural(gone.total(), 'finding')} no longer {verb} ({listed}); --prune-baseline takes {them} out"

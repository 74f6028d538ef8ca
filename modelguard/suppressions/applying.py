"""What suppressions leave of a file's findings, and what is wrong with the suppressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from modelguard.findings import Cell, Finding, Location, cell_at
from modelguard.rules import by_code, find, nearest
from modelguard.rules.base import Rule
from modelguard.rules.mg901_unparsable_file import UnparsableFile
from modelguard.rules.mg902_unused_suppression import UnusedSuppression
from modelguard.rules.mg903_unknown_code_in_suppression import UnknownCodeInSuppression
from modelguard.suppressions.reading import Suppression
from modelguard.suppressions.removing import without

ABOUT_SUPPRESSIONS = frozenset((UnusedSuppression.code, UnknownCodeInSuppression.code))

GET_NO_COMMENT = ABOUT_SUPPRESSIONS | {UnparsableFile.code}
"""Codes for which no suppression is written: what cannot be suppressed, and what is about suppressions."""

_ALL = ""
"""Stands for what a bare `ignore-file` names."""


def judged(
    path: str,
    found: list[Finding],
    suppressions: Sequence[Suppression],
    lines: Sequence[str],
    selected: Callable[[str], bool],
    cells: Sequence[Cell],
) -> list[Finding]:
    """What `apply` returns."""
    judge = _Judge(path, suppressions, lines, cells)
    kept = judge.left_of(found)
    if selected(UnknownCodeInSuppression.code):
        kept += judge.left_of(judge.mistakes(found))
    if selected(UnusedSuppression.code) and all(finding.code != UnparsableFile.code for finding in found):
        kept += judge.left_of(judge.unused(selected))
    return kept


class _Judge:
    """The suppressions of one file, and which of their entries have suppressed something so far."""

    def __init__(self, path: str, suppressions: Sequence[Suppression], lines: Sequence[str], cells: Sequence[Cell]) -> None:
        self._path = path
        self._lines = lines
        self._cells = cells
        self._suppressions = [(each, _meanings(each)) for each in suppressions]
        self._used: set[tuple[Suppression, str]] = set()

    def left_of(self, findings: list[Finding]) -> list[Finding]:
        """The findings that nothing suppresses."""
        return [finding for finding in findings if not self._is_suppressed(finding)]

    def mistakes(self, found: list[Finding]) -> list[Finding]:
        """MG903 for suppressions that name what does not exist, or nothing at all."""
        rule, mistakes = UnknownCodeInSuppression, []
        for each, meanings in self._suppressions:
            unknown = [entry for entry in each.codes if entry not in meanings]
            if meanings and not unknown:
                continue
            codes = sorted({f.code for f in found if each.covers(f.location.line)} - {UnparsableFile.code})
            if unknown:
                advice = rule.spelling(_spellings(unknown, codes))
                mistakes.append(self._finding(rule, each, rule.unknown(unknown), advice))
            else:
                mistakes.append(self._finding(rule, each, rule.blanket(), rule.instead_of_blanket(codes)))
        return mistakes

    def unused(self, selected: Callable[[str], bool]) -> list[Finding]:
        """MG902 for suppressions with entries that suppressed nothing."""
        rule, unused = UnusedSuppression, []
        for each, meanings in self._suppressions:
            idle = [
                entry
                for entry, codes in meanings.items()
                # What suppresses MG902 would suppress the finding that calls it unused.
                if (each, entry) not in self._used and rule.code not in codes and all(map(selected, codes))
            ]
            if idle:
                entries = [entry for entry in idle if entry != _ALL]
                message = rule.message(entries, *self._reach(each), each.is_file)
                is_misplaced = each.is_file and not each.last
                advice = rule.advice(entries, len(entries) < len(each.codes), is_misplaced)
                found = self._finding(rule, each, message, advice)
                # What to make of one in the wrong place, its author has to say.
                unused.append(found if is_misplaced else replace(found, fix=without(each, entries, self._lines)))
        return unused

    def _reach(self, each: Suppression) -> tuple[int, int]:
        """The lines that a suppression covers, in a notebook those of its cell; a comment at the end of a cell covers none."""
        cell = cell_at(self._cells, each.first)
        if cell is None:
            return each.first, each.last
        return (
            (0, 0)
            if any(each.first == other.before for other in self._cells)
            else (each.first - cell.before, each.last - cell.before)
        )

    def _is_suppressed(self, finding: Finding) -> bool:
        if finding.code == UnparsableFile.code:
            return False
        hits = [
            (each, entry)
            for each, meanings in self._suppressions
            if each.covers(finding.location.line)
            for entry, codes in meanings.items()
            if finding.code in codes
        ]
        # All of them count as used: which one is too many, only their author can say.
        self._used.update(hits)
        return bool(hits)

    def _finding(self, rule: type[Rule], each: Suppression, message: str, advice: str) -> Finding:
        location = Location(self._path, each.line, each.column, each.line, each.end_column)
        source_line = self._lines[each.line - 1]
        return Finding(rule.code, rule.name, rule.severity, message, location, source_line, help=advice)


def _meanings(suppression: Suppression) -> dict[str, frozenset[str]]:
    """The codes that each entry means; what means none is left out."""
    if suppression.is_file and not suppression.codes:
        return {_ALL: _meant("MG")}
    meant = {entry: _meant(entry) for entry in suppression.codes}
    return {entry: codes for entry, codes in meant.items() if codes}


def _meant(entry: str) -> frozenset[str]:
    """The codes of an entry. Findings about suppressions are not meant by `MG`, or no such comment were ever unused."""
    rule = find(entry)
    if rule is not None:
        return frozenset((rule.code,))
    start = entry.upper()
    codes = frozenset(code for code in by_code if start.startswith("MG") and code.startswith(start))
    return codes if start != "MG" else codes - ABOUT_SUPPRESSIONS


def _spellings(unknown: list[str], codes: list[str]) -> list[str]:
    """What the entries were most likely meant to be: of several that look alike, one of the codes that are found there."""
    likely = (sorted(nearest(entry), key=lambda near: near not in codes)[:1] for entry in unknown)
    return list(dict.fromkeys(near for spellings in likely for near in spellings))

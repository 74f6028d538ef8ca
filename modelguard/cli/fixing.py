"""`modelguard scan --fix` and `--diff`: fixes applied to texts in memory until none is left, then written or shown."""

from __future__ import annotations

import ast
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from types import MappingProxyType
from typing import NamedTuple

from modelguard import fixes
from modelguard.cli.files import replace_file
from modelguard.errors import SourceError
from modelguard.findings import Applicability, Diagnostic, Finding, Fix, ScanReport, Severity
from modelguard.rules import by_code
from modelguard.scan.files import decode, encode, encoding_of, is_notebook, read_source

_ROUNDS = 100
"""Fixes make room for others only so often; what goes on longer goes in a circle."""

_NOTHING: Mapping[str, bytes] = MappingProxyType({})

Scan = Callable[[Mapping[str, bytes]], ScanReport]
"""Scans, with some texts, by path, in place of what lies there."""


@dataclass
class Fixed:
    """One file on the way: what it held, what it holds now, and how many findings of each rule were repaired."""

    path: str
    before: bytes
    content: bytes
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def repaired(self) -> int:
        """How many findings were repaired."""
        return self.counts.total()

    def listed(self) -> list[str]:
        """How many findings of each rule were repaired, in lines."""
        return [f"{self.path}: {number} x {code} ({by_code[code].name})" for code, number in sorted(self.counts.items())]

    @property
    def is_changed(self) -> bool:
        """Whether anything was repaired."""
        return self.content != self.before

    def give_up(self) -> None:
        """Leave the file as it was."""
        self.content = self.before
        self.counts.clear()


class Repaired(NamedTuple):
    """What came of fixing: the files that changed, what stood in the way, and what a scan finds in the changed texts."""

    files: list[Fixed]
    told: list[Diagnostic]
    report: ScanReport


def repair(
    report: ScanReport,
    scan: Scan,
    unsafe: bool,
    given: Mapping[str, bytes] = _NOTHING,
    shown: Callable[[ScanReport], ScanReport] = lambda report: report,
) -> Repaired:
    """Repair in memory what is `shown` of a report; `given` are texts that lie nowhere.

    It goes in rounds, since fixes that touch each other wait for the next: scan, apply what can be applied, scan that.
    """
    files, told = _read(shown(report), given, unsafe)
    for _ in range(_ROUNDS):
        findings = _by_file(shown(report))
        changed = False
        for file in files:
            try:
                changed |= _advance(file, findings.get(file.path, []), unsafe)
            except _Broken as error:
                file.give_up()
                changed = True
                message = f"not fixed: internal error: a fix would have broken this file ({error}); please report it"
                told.append(Diagnostic(file.path, message, severity=Severity.ERROR))
        files = [file for file in files if file.is_changed]
        if not changed:
            break
        report = scan({file.path: file.content for file in files})
    else:
        told += [Diagnostic(file.path, f"there may be fixes left after {_ROUNDS} rounds; run again") for file in files]
    return Repaired(files, told, report)


def write(files: list[Fixed]) -> list[Diagnostic]:
    """Put what was repaired in the place of what was read, each file as a whole or not at all; what refuses stays as it is."""
    refused = []
    for file in files:
        try:
            if read_source(file.path) != file.before:
                raise SourceError(file.path, None, "it was changed by somebody else meanwhile; run again")
            replace_file(file.path, file.content)
        except (SourceError, OSError) as error:
            reason = error.message if isinstance(error, SourceError) else (error.strerror or str(error)).lower()
            refused.append(Diagnostic(file.path, f"not fixed: {reason}", severity=Severity.ERROR))
            file.give_up()
    return refused


def diff(files: list[Fixed]) -> str:
    """What was repaired, as a unified diff."""
    parts = []
    for file in files:
        before, after = (_texts(decode(content, file.path), file.path) for content in (file.before, file.content))
        for name, text in before.items():
            for line in unified_diff(_ended(text.split("\n")), _ended(after[name].split("\n")), name, name):
                parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def with_fixes(report: ScanReport, given: Mapping[str, bytes]) -> ScanReport:
    """The report with the fix of each finding. Texts are read from disk, but for those `given`."""
    found = {
        finding: found for finding, text in _with_texts(report, given) if (found := fixes.fix_for(finding, text)) is not None
    }
    return replace(report, findings=tuple(replace(each, fix=found.get(each)) for each in report.findings))


def fixable(report: ScanReport, given: Mapping[str, bytes]) -> dict[Finding, Applicability]:
    """How safe the fix of each finding is, of those that have one."""
    known = ((finding, fixes.applicability_of(finding, text)) for finding, text in _with_texts(report, given))
    return {finding: applicability for finding, applicability in known if applicability is not None}


class _Broken(Exception):
    """A file would no longer be Python, or no longer the same text."""


def _advance(file: Fixed, findings: list[Finding], unsafe: bool) -> bool:
    """Apply what can be applied together; whether there was anything."""
    text = decode(file.content, file.path)
    offered: list[tuple[Finding, Fix]] = []
    for finding in findings:
        found = fixes.fix_for(finding, text)
        if found is not None and _is_wanted(found.applicability, unsafe):
            offered.append((finding, found))
    if not offered:
        return False
    allowed = fixes.compatible(found for _, found in offered)
    chosen = [pair for pair, is_allowed in zip(offered, allowed, strict=True) if is_allowed]
    encoding = encoding_of(file.content, file.path)
    changed = fixes.apply(text, [edit for _, found in chosen for edit in found.edits])
    # Cells are compiled one by one: `await` may stand in any, and `from __future__` in a late one.
    flags = ast.PyCF_ONLY_AST if is_notebook(file.path) else 0
    try:
        content = encode(changed, file.content, file.path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(changed, file.path, "exec", flags, dont_inherit=True)
        if encoding_of(content, file.path) != encoding:
            raise _Broken("its encoding would be another")
    except (SyntaxError, ValueError, SourceError) as error:
        raise _Broken(str(error)) from None
    file.content = content
    file.counts.update(finding.code for finding, _ in chosen)
    return True


def _read(report: ScanReport, given: Mapping[str, bytes], unsafe: bool) -> tuple[list[Fixed], list[Diagnostic]]:
    """The files that hold a finding with a fix, and those that cannot be had."""
    files, refused = [], []
    for path, findings in _by_file(report).items():
        try:
            source = _source(path, given)
            text = decode(source, path)
        except SourceError as error:
            refused.append(Diagnostic(path, f"not fixed: {error.message}", severity=Severity.ERROR))
            continue
        if any(_is_wanted(fixes.applicability_of(finding, text), unsafe) for finding in findings):
            files.append(Fixed(path, source, source))
    return files, refused


def _source(path: str, given: Mapping[str, bytes]) -> bytes:
    if path in given:
        return given[path]
    if not os.path.isfile(path):
        raise SourceError(path, None, "this is no regular file, so nothing can be written into it")
    return read_source(path)


def _is_wanted(applicability: Applicability | None, unsafe: bool) -> bool:
    return applicability is Applicability.SAFE or (unsafe and applicability is Applicability.UNSAFE)


def _by_file(report: ScanReport) -> dict[str, list[Finding]]:
    """The findings that may have a fix."""
    found: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.code in fixes.CODES:
            found.setdefault(finding.location.path, []).append(finding)
    return found


def _with_texts(report: ScanReport, given: Mapping[str, bytes]) -> Iterator[tuple[Finding, str]]:
    """The findings that may have a fix, each with the text of its file."""
    for path, findings in _by_file(report).items():
        with suppress(SourceError):
            text = decode(_source(path, given), path)
            yield from ((finding, text) for finding in findings)


def _texts(text: str, path: str) -> dict[str, str]:
    """What a person sees as one text: the file, or each cell of a notebook."""
    if not is_notebook(path):
        return {path: text}
    from modelguard.scan.notebooks import cells_of

    return {f"{path}:cell {number}": source for number, source in cells_of(text).items()}


def _ended(lines: list[str]) -> list[str]:
    """Lines with their ends; the last has none, and is left out where it is empty."""
    return [line + "\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]

"""Findings for people: place, code, sentence, source with carets, the way from the entry point, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from modelguard.findings import Applicability, Diagnostic, Evidence, Finding, ScanReport, Severity
from modelguard.report.frame import printable, source_frame
from modelguard.report.sources import SourceLines

_STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "note": "bold cyan",
    "place": "bold",
    "gutter": "blue",
    "label": "bold",
}

_Segment = tuple[str, str]
"""A style's name, or nothing, and text without line ends."""


class Fixes(NamedTuple):
    """What a run knows of fixes: which findings have one, whether unsafe ones are wanted, and how many `--fix` has applied."""

    known: Mapping[Finding, Applicability] = MappingProxyType({})
    unsafe: bool = False
    applied: int | None = None

    def marks(self, finding: Finding) -> bool:
        """Whether `--fix` would repair a finding."""
        known = self.known.get(finding)
        return known is Applicability.SAFE or (self.unsafe and known is Applicability.UNSAFE)


_NO_FIXES = Fixes()


def render(
    report: ScanReport,
    *,
    show_notes: bool = False,
    summary: bool = True,
    color: bool = False,
    from_disk: bool = True,
    unconfirmed: Mapping[Finding, str] = MappingProxyType({}),
    fixes: Fixes = _NO_FIXES,
) -> str:
    """The report as text. Notes are counted, and shown only with `show_notes`; `summary` adds the closing lines.

    Without `from_disk`, the lines shown are those that the findings hold: what was scanned is not what lies there. `unconfirmed`
    says of findings why running the model did not show them; those that `--fix` would repair are marked.
    """
    shown = [finding for finding in report.findings if show_notes or finding.severity is not Severity.NOTE]
    lines = list(_blocks(shown, SourceLines() if from_disk else None, unconfirmed, fixes))
    if summary:
        lines += _summary(report, hidden=len(report.findings) - len(shown))
        lines += _fixed(shown, fixes)
    if color:
        return _colored(lines)
    return "".join("".join(text for _, text in line).rstrip() + "\n" for line in lines)


def render_diagnostic(diagnostic: Diagnostic) -> str:
    """One line that says what kept the scan from a file."""
    where = diagnostic.path if diagnostic.line is None else f"{diagnostic.path}:{diagnostic.line}"
    return f"{printable(where)}: {diagnostic.severity.value}: {printable(diagnostic.message)}"


def _blocks(
    findings: list[Finding], sources: SourceLines | None, unconfirmed: Mapping[Finding, str], fixes: Fixes
) -> Iterator[list[_Segment]]:
    for finding in findings:
        yield from _block(finding, sources, unconfirmed.get(finding), fixes.marks(finding))
        yield []


def _block(finding: Finding, sources: SourceLines | None, unconfirmed: str | None, is_fixable: bool) -> Iterator[list[_Segment]]:
    where = finding.location
    severity = finding.severity.value
    yield [
        ("place", printable(f"{where.path}:{where.place}")),
        ("", ": "),
        (severity, f"{severity}[{finding.code}]"),
        ("", f"{' [*]' if is_fixable else ''} {finding.name}: {printable(finding.message)}"),
    ]
    line = str(where.line_in_cell)
    gutter = " " * len(line)
    source = None if sources is None else sources.line(where.path, where.line)
    if source is None:
        source = finding.source_line
    if source.strip():
        text, carets = source_frame(source, where.column, where.end_column if where.end_line == where.line else None)
        yield [("gutter", f" {gutter} |")]
        yield [("gutter", f" {line} |"), ("", f" {text}")]
        yield [("gutter", f" {gutter} |"), (severity, f" {carets}")]
    if finding.chain:
        yield [("gutter", f" {gutter} ="), ("label", " in: "), ("", printable(_chain(finding)))]
    if unconfirmed is not None:
        yield [("gutter", f" {gutter} ="), ("label", " evidence: "), ("", printable(f"none from running it: {unconfirmed}"))]
    elif finding.evidence != (Evidence.STATIC,):
        known = ", ".join(evidence.value for evidence in finding.evidence)
        yield [("gutter", f" {gutter} ="), ("label", " evidence: "), ("", known)]
    if finding.help:
        yield [("gutter", f" {gutter} ="), ("label", " help: "), ("", printable(finding.help))]


def _chain(finding: Finding) -> str:
    steps = []
    where = finding.location
    for frame in finding.chain:
        is_here = frame.path == where.path and frame.cell == where.cell
        step = f"line {frame.line_in_cell}" if is_here else f"{frame.path}:{frame.place}"
        steps.append(f"{frame.function} ({step})")
    return " -> ".join([*steps, f"line {where.line_in_cell}"])


def _summary(report: ScanReport, hidden: int) -> Iterator[list[_Segment]]:
    counts = Counter(finding.severity for finding in report.findings)
    if hidden:
        del counts[Severity.NOTE]
    found = [(severity.value, plural(counts[severity], severity.value)) for severity in Severity if counts[severity]]
    line: list[_Segment] = []
    for segment in found or [("", "no findings")]:
        line += [("", ", "), segment] if line else [segment]
    looked_at = f"{plural(report.module_classes, 'module class')}, {plural(report.entry_points, 'entry point')}"
    yield [*line, ("", f" in {plural(report.files, 'file')} ({looked_at})")]
    if report.baselined:
        yield [("", f"{plural(report.baselined, 'finding')} in the baseline")]
    if report.unchanged:
        yield [("", f"{plural(report.unchanged, 'finding')} on lines that did not change")]
    if hidden:
        yield [("", f"{plural(hidden, 'note')} hidden; --show-notes shows {'it' if hidden == 1 else 'them'}")]


def _fixed(shown: list[Finding], fixes: Fixes) -> Iterator[list[_Segment]]:
    """What was repaired, what could be, and what asks for a look first."""
    if fixes.applied is not None:
        yield [("", f"[{fixes.applied} fixed, {len(shown)} remaining]")]
    marked = sum(map(fixes.marks, shown))
    if marked:
        yield [("", f"[*] {marked} fixable with --fix{' --unsafe-fixes' if fixes.unsafe else ''}")]
    hidden = sum(fixes.known.get(finding) is Applicability.UNSAFE for finding in shown) if not fixes.unsafe else 0
    if hidden:
        yield [("", f"{plural(hidden, 'hidden fix')} can be enabled with --unsafe-fixes")]


def plural(count: int, noun: str) -> str:
    """`count` and `noun`, in the plural where it must be."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}{'es' if noun.endswith(('s', 'x')) else 's'}"


def _colored(lines: list[list[_Segment]]) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    # Whether to colour was decided by the caller, so rich must not look at the terminal or at NO_COLOR again.
    console = Console(file=StringIO(), force_terminal=True, color_system="standard", no_color=False, legacy_windows=False)
    with console.capture() as capture:
        for line in lines:
            parts = [(text, _STYLES.get(style, "")) for style, text in line]
            console.print(Text.assemble(*parts), soft_wrap=True, highlight=False)
    return capture.get()

"""Findings on a page: the sentence, the source around it, the way there, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from modelguard.findings import Finding, Severity
from modelguard.report import text
from modelguard.report.html.markup import Content, Markup, element, group, lines, sentence
from modelguard.report.html.page import Section, facts
from modelguard.report.places import repository_path
from modelguard.report.sources import SourceLines

_CONTEXT = 3
"""Lines shown before and after those of a finding."""

_MOST_LINES = 12
"""Lines of a finding that are shown."""

_LONG, _LEAD = 400, 100
"""Characters of a line that are shown, and how many of them before the mark."""

More = Callable[[Finding], Iterable[tuple[str, Content]]]
"""What a command adds to a finding: names and what they are."""


def anchor(number: int) -> str:
    """The name that links lead to, of a finding by its place in the report."""
    return f"finding-{number + 1}"


def listed(findings: Sequence[Finding], more: More | None = None) -> Section:
    """The section of findings; notes are folded behind the others."""
    sources = SourceLines()
    shown = [(each, _finding(number, each, sources, more(each) if more else ())) for number, each in enumerate(findings)]
    plain = [block for each, block in shown if each.severity is not Severity.NOTE]
    notes = [block for each, block in shown if each.severity is Severity.NOTE]
    folded = element("details", element("summary", text.plural(len(notes), "note")), notes, class_="notes") if notes else None
    return Section(
        "findings",
        "Findings",
        group(plain, folded) if findings else element("p", "Nothing was found.", class_="nothing"),
        len(findings),
    )


def place(path: str, line: int) -> str:
    """Where something is, for people: below the working directory, from there."""
    return f"{repository_path(path)}:{line}"


def _finding(number: int, finding: Finding, sources: SourceLines, more: Iterable[tuple[str, Content]]) -> Markup:
    severity = finding.severity.value
    code: Content = element("code", finding.code, class_="code")
    if finding.help_url is not None and finding.help_url.startswith(("https://", "http://")):
        code = element("a", code, href=finding.help_url, rel="noreferrer")
    return element(
        "article",
        element("h3", element("span", severity, class_="severity"), " ", code, " ", finding.name),
        element("p", sentence(finding.message), class_="message"),
        _source(finding, sources),
        facts(
            ("reached by", _chain(finding)),
            ("evidence", _evidence(finding)),
            ("help", sentence(finding.help) if finding.help else None),
            ("fix", sentence(f"{finding.fix.message} ({finding.fix.applicability.value})") if finding.fix else None),
            *more,
        ),
        id=anchor(number),
        class_=f"finding {severity}",
    )


def _evidence(finding: Finding) -> str | None:
    """How it is known, where that is more than what every finding of such a page has."""
    return ", ".join(evidence.value for evidence in finding.evidence) if len(finding.evidence) > 1 else None


def _chain(finding: Finding) -> Markup | None:
    if not finding.chain:
        return None
    steps = [group(element("code", frame.function), f" {repository_path(frame.path)}:{frame.place}") for frame in finding.chain]
    return element("ol", [element("li", step) for step in steps], class_="chain")


def _source(finding: Finding, sources: SourceLines) -> Markup:
    where = finding.location
    caption = element("figcaption", f"{where.path}:{where.place}")
    shown = list(_lines(finding, sources.of(where.path)))
    code = element("pre", element("code", shown), tabindex=0) if shown else None
    return element("figure", caption, code, class_="source")


def _lines(finding: Finding, found: Sequence[str]) -> Iterator[Markup]:
    where = finding.location
    first, last = where.line, min(where.end_line, where.line + _MOST_LINES - 1)
    if not 1 <= first <= len(found) or (finding.source_line and found[first - 1] != finding.source_line):
        # It was read from elsewhere, or changed since.
        if finding.source_line.strip():
            marked = _marked(finding.source_line, where.column - 1, _end(finding, first))
            yield _line(where.line_in_cell, marked, is_hit=True)
        return
    before = where.cell.before if where.cell is not None else 0
    # Where the cell of a notebook ends is not known here.
    until = last + _CONTEXT if where.cell is None else last
    around = range(max(before + 1, first - _CONTEXT), min(len(found), until) + 1)
    written = [number for number in around if found[number - 1].strip()]
    for number in range(min(first, *written), max(last, *written) + 1):
        line = found[number - 1]
        if first <= number <= last:
            start = where.column - 1 if number == first else len(line) - len(line.lstrip())
            yield _line(number - before, _marked(line, start, _end(finding, number)), is_hit=True)
        else:
            yield _line(number - before, _cut(line, 0, _LONG), is_hit=False)


def _end(finding: Finding, number: int) -> int | None:
    return finding.location.end_column - 1 if number == finding.location.end_line else None


def _line(number: int, content: Content, *, is_hit: bool) -> Markup:
    # The number stands in an attribute: what is copied is source.
    return element("span", content, "" if content else " ", class_="line hit" if is_hit else "line", data_line=number)


def _marked(line: str, start: int, end: int | None) -> Markup:
    """A line with a mark on the characters from `start` up to `end`, cropped around it where it is long."""
    end = len(line.rstrip()) if end is None else end
    before = _cut(line[:start], max(0, start - _LEAD), start)
    marked = _cut(line[start:end], 0, _LONG)
    return group(before, element("mark", marked) if marked else None, _cut(line[end:], 0, _LONG))


def _cut(part: str, start: int, stop: int) -> Markup:
    return group("..." if start else None, lines(part[start:stop]), "..." if stop < len(part) else None)

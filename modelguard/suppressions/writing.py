"""A text with suppressions added to it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from modelguard.findings import Finding
from modelguard.suppressions.applying import GET_NO_COMMENT
from modelguard.suppressions.reading import BOM, Statement, Suppression, brackets_of, statements_of, suppressions_of

_WIDTH = 120
"""A line that a comment would make longer than this gets the comment above it."""

_LINE_END = re.compile(r"(\r\n|\r|\n)")


class _Line(NamedTuple):
    text: str
    end: str


def with_ignores(text: str, findings: Iterable[Finding], reason: str) -> str:
    """What `add_ignores` returns."""
    bom = BOM if text.startswith(BOM) else ""
    pieces = _LINE_END.split(text.removeprefix(BOM))
    lines = [_Line(*pair) for pair in zip(pieces[::2], [*pieces[1::2], ""], strict=True)]
    plain = "\n".join(line.text for line in lines)
    there = [each for each in suppressions_of(plain) if not each.is_file and not each.noqa]
    merged: dict[Suppression, set[str]] = defaultdict(set)
    added: dict[Statement, set[str]] = defaultdict(set)
    for statement, codes in _by_statement(statements_of(plain), findings).items():
        around = [each for each in there if each.covers(statement.first)]
        if around:
            # The last one stands behind the code, or else next to it.
            merged[around[-1]] |= codes
        else:
            added[statement] |= codes
    words = "".join(char for char in " ".join(reason.split()) if char.isprintable())
    for each, codes in merged.items():
        lines[each.line - 1] = _merge(lines[each.line - 1], each, codes, words)
    # From the last to the first: what is inserted moves only lines that are done.
    for statement in sorted(added, reverse=True):
        _add(lines, statement, f"# modelguard: ignore[{', '.join(sorted(added[statement]))}] {words}".rstrip())
    return bom + "".join(line.text + line.end for line in lines)


def _by_statement(statements: Sequence[Statement], findings: Iterable[Finding]) -> dict[Statement, set[str]]:
    """The codes to suppress at each statement."""
    starts = [statement.first for statement in statements]
    wanted: dict[Statement, set[str]] = defaultdict(set)
    for finding in findings:
        at = bisect_right(starts, finding.location.line) - 1
        if at >= 0 and finding.location.line <= statements[at].last and finding.code not in GET_NO_COMMENT:
            wanted[statements[at]].add(finding.code)
    return wanted


def _merge(line: _Line, there: Suppression, codes: Iterable[str], reason: str) -> _Line:
    """The line with the codes in a comment that it holds already, and with a reason if that has none."""
    start, end = there.column - 1, there.end_column - 1
    comment = line.text[start:end]
    opening, closing = brackets_of(comment)
    names = ", ".join(dict.fromkeys((*there.codes, *sorted(codes))))
    words = f" {reason}" if reason and not there.reason else ""
    return line._replace(text=f"{line.text[:start]}{comment[:opening]}[{names}]{comment[closing:]}{words}{line.text[end:]}")


def _add(lines: list[_Line], statement: Statement, comment: str) -> None:
    """Put the comment behind the statement, or above it where there is no room."""
    last = lines[statement.last - 1]
    code = last.text.rstrip(" \t")
    behind = f"{code}  {comment}"
    # Below a line that ends in a backslash there can be an empty line, which belongs to the statement.
    if code and len(behind.expandtabs()) <= _WIDTH:
        lines[statement.last - 1] = last._replace(text=behind)
        return
    at = statement.first - 1
    # A backslash alone on its line joins it with the next one: a comment between them would come too late.
    while at > 0 and lines[at - 1].text.strip() == "\\":
        at -= 1
    text = lines[at].text
    indentation = text[: len(text) - len(text.lstrip(" \t"))]
    lines.insert(at, _Line(indentation + comment, lines[at].end or lines[0].end or "\n"))

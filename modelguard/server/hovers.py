"""What is shown where the pointer rests: the page of a rule."""

from __future__ import annotations

import re

from lsprotocol.types import Hover, MarkupContent, MarkupKind, Position, PositionEncodingKind

from modelguard.findings import Location
from modelguard.rules import by_code, find
from modelguard.rules.pages import page
from modelguard.scan.files import split_lines
from modelguard.server.documents import Document
from modelguard.server.positions import Positions
from modelguard.suppressions import read

_ENTRY = re.compile(r"[A-Za-z][\w-]*")


def hover(document: Document, position: Position, encoding: PositionEncodingKind) -> Hover | None:
    """The page of the rule that a suppression names there, or else of the rules that found something there."""
    positions = Positions(document.text, encoding)
    line, column = positions.place(position)
    named = _named(document, line, column)
    if named is not None:
        code, where = named
        return Hover(_markdown([code]), positions.range_of(where))
    here = [finding for finding in document.findings() if _holds(finding.location, line, column)]
    if not here:
        return None
    return Hover(_markdown(list(dict.fromkeys(finding.code for finding in here))), positions.range_of(here[0].location))


def _named(document: Document, line: int, column: int) -> tuple[str, Location] | None:
    """The code of the rule that a suppression names at a place, and where that word stands."""
    lines = split_lines(document.text)
    for each in read("\n".join(lines)):
        if each.line == line and each.column <= column < each.end_column:
            for word in _ENTRY.finditer(lines[line - 1], each.column - 1, each.end_column - 1):
                rule = find(word[0]) if word[0] in each.codes else None
                if rule is not None and word.start() < column <= word.end() + 1:
                    return rule.code, Location(document.path, line, word.start() + 1, line, word.end() + 1)
    return None


def _holds(where: Location, line: int, column: int) -> bool:
    return (where.line, where.column) <= (line, column) <= (where.end_line, where.end_column)


def _markdown(codes: list[str]) -> MarkupContent:
    return MarkupContent(MarkupKind.Markdown, "\n---\n\n".join(page(by_code[code]) for code in codes))

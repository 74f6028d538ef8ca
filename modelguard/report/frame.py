"""A source line as a terminal shows it: tabs expanded, wide characters counted, control characters made harmless."""

from __future__ import annotations

from typing import NamedTuple

_TAB = 4
_MARGIN = 24
_WIDTH = 120
_CUT = "..."
_REACH = 5 * _WIDTH
"""Characters of a line that are looked at to each side of its first caret; few of them are shown."""


class SourceFrame(NamedTuple):
    """One source line and the carets for the line below it."""

    text: str
    carets: str


def source_frame(line: str, column: int, end_column: int | None) -> SourceFrame:
    """`line` with carets below the characters from `column` up to `end_column` (1-based, exclusive).

    Where `end_column` is None the span goes on below, which three dots say. A column beyond the line gets no caret: the file
    changed since it was read.
    """
    last = len(line.rstrip()) if end_column is None else min(end_column - 1, len(line))
    first = column - 1
    if not 0 <= first <= len(line):
        return SourceFrame(_cropped(_cells(line[:_REACH]), 0, False, len(line) > _REACH)[0], "")
    before, after = max(0, first - _REACH), first + _REACH
    cells = _cells(line[before:after])
    first, last = first - before, max(last, first + 1) - before
    start, stop = _width(cells[:first]), _width(cells[:last])
    stop = max(stop, start + 1)
    text, offset = _cropped(cells, start, before > 0, after < len(line))
    start, stop = start + offset, min(stop + offset, _WIDTH)
    return SourceFrame(text, " " * start + "^" * max(stop - start, 1) + (" " + _CUT if end_column is None else ""))


def printable(text: str) -> str:
    """`text` on one line, without characters that steer a terminal or reorder what it shows."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_harmless(char) else "\N{REPLACEMENT CHARACTER}" for char in text.replace("\n", " "))


def _is_harmless(char: str) -> bool:
    return char.isprintable() or char == "\N{ZERO WIDTH JOINER}" or "\udc80" <= char <= "\udcff"


def _cells(line: str) -> list[str]:
    """What is shown for each character of `line`."""
    if line.isascii() and line.isprintable():
        return list(line)
    cells = []
    position = 0
    for char in line:
        cell = " " * (_TAB - position % _TAB) if char == "\t" else printable(char)
        position += _width([cell])
        cells.append(cell)
    return cells


def _width(cells: list[str]) -> int:
    text = "".join(cells)
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(0 if category(char) in ("Mn", "Me", "Cf") else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _cropped(cells: list[str], start: int, more_before: bool, more_after: bool) -> tuple[str, int]:
    """The part of a long line around the column `start`, and by how much that column moved.

    `more_before` and `more_after` say that the line goes on beyond `cells`.
    """
    if not more_before and not more_after and _width(cells) <= _WIDTH:
        return "".join(cells).rstrip(), 0
    skipped = 0
    begin = 0
    while begin < len(cells) and skipped + _width(cells[begin : begin + 1]) <= start - _MARGIN:
        skipped += _width(cells[begin : begin + 1])
        begin += 1
    lead = _CUT if begin or more_before else ""
    room = _WIDTH - len(lead) - len(_CUT)
    end = begin
    while end < len(cells) and room >= _width(cells[end : end + 1]):
        room -= _width(cells[end : end + 1])
        end += 1
    tail = _CUT if end < len(cells) or more_after else ""
    return lead + "".join(cells[begin:end]).rstrip() + tail, len(lead) - skipped

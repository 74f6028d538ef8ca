"""Edits applied to a text, and which of several fixes can be applied together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from modelguard.findings import Edit, Fix

_BOM = "\ufeff"
_LINE_END = re.compile(r"\r\n|\r|\n")
"""What ends a line in Python: a form feed or a Unicode separator does not."""


def apply(source: str, edits: Iterable[Edit]) -> str:
    """`source` with its edits made; all that lies outside of them stays as it is, line ends and byte order mark included.

    Raises `ValueError` for edits that overlap or lie outside of the text.
    """
    bom, text = (_BOM, source[1:]) if source.startswith(_BOM) else ("", source)
    ends = list(_LINE_END.finditer(text))
    line_end = ends[0].group() if ends else "\n"
    starts = [0, *(end.end() for end in ends), len(text)]
    pieces = []
    at = 0
    for edit in sorted(set(edits)):
        start, stop = _offset(edit.line, edit.column, starts), _offset(edit.end_line, edit.end_column, starts)
        if not at <= start <= stop:
            raise ValueError("edits overlap, or end before they start")
        pieces += [text[at:start], edit.content.replace("\n", line_end)]
        at = stop
    return bom + "".join(pieces) + text[at:]


def compatible(fixes: Iterable[Fix]) -> list[bool]:
    """Of each fix, whether it can be applied together with those before it: it is one of them, or touches none."""
    taken: dict[Fix, None] = {}
    allowed = []
    for fix in fixes:
        fits = fix in taken or not any(_touch(edit, other) for each in taken for other in each.edits for edit in fix.edits)
        allowed.append(fits)
        if fits:
            taken[fix] = None
    return allowed


def _touch(left: Edit, right: Edit) -> bool:
    """Whether two edits share a character, or the place between two."""
    return left[:2] <= right[2:4] and right[:2] <= left[2:4]


def _offset(line: int, column: int, starts: Sequence[int]) -> int:
    """Where a place lies in the text; `starts` ends with the length of the text."""
    if not 1 <= line < len(starts) or not 1 <= column <= starts[line] - starts[line - 1] + 1:
        raise ValueError(f"the text has no line {line} with a column {column}")
    return starts[line - 1] + column - 1

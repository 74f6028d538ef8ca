"""A suppression without the entries that suppress nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modelguard.findings import Applicability, Edit, Fix
from modelguard.suppressions.reading import Suppression, brackets_of

_NEXT_COMMENT = re.compile(r"(?<=[\s#])#\s*[^\W\d]")
"""Where a comment of another tool begins behind the reason; `see #12` is a part of it."""


def without(suppression: Suppression, entries: Sequence[str], lines: Sequence[str]) -> Fix:
    """The fix that removes `entries` from a suppression in `lines`, and the comment if nothing is left in it."""
    number, line = suppression.line, lines[suppression.line - 1]
    start, end = suppression.column - 1, suppression.end_column - 1
    if suppression.codes:
        opening, closing = _names(suppression, line[start:end])
        names = line[start + opening : start + closing]
        kept = [name for name in re.split(r"[\s,;]+", names) if name and name not in entries]
        if kept:
            space = names[: len(names) - len(names.lstrip())]
            edit = Edit(number, start + opening + 1, number, start + closing + 1, space + ", ".join(kept))
            return Fix(f"remove {' and '.join(f'`{entry}`' for entry in entries)} from the comment", Applicability.SAFE, (edit,))
    another = _NEXT_COMMENT.search(line, start + 1)
    before = line[:start].rstrip(" \t\f#")
    if another is not None:
        edit = Edit(number, start + 1, number, another.start() + 1, "")
    elif before or number == len(lines):
        edit = Edit(number, len(before) + 1, number, len(line) + 1, "")
    else:
        edit = Edit(number, 1, number + 1, 1, "")
    return Fix("remove the comment", Applicability.SAFE, (edit,))


def _names(suppression: Suppression, comment: str) -> tuple[int, int]:
    """Where the names stand in the comment of a suppression."""
    if suppression.noqa:
        return comment.index(":") + 1, len(comment)
    opening, closing = brackets_of(comment)
    return opening + 1, closing - 1

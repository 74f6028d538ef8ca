"""Comments that suppress findings: read from a text, applied to its findings, and written into it.

Hardly any file of a scan holds one, so what handles them is imported when the first is met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from modelguard.findings import Cell, Finding

if TYPE_CHECKING:
    from modelguard.suppressions.reading import Suppression

# It starts with a plain character, which `re` looks for as fast as `in` does.
_MARK = re.compile(r"#[ \t]*(?:modelguard[ \t]*:|noqa[ \t]*:[^\n]*MG\d)", re.IGNORECASE)


def read(text: str) -> tuple[Suppression, ...]:
    """The suppressions in a text whose line ends are `\\n`. Where it is not Python, those above that place."""
    if _MARK.search(text) is None:
        return ()
    from modelguard.suppressions.reading import suppressions_of

    return suppressions_of(text)


def apply(
    path: str,
    findings: Iterable[Finding],
    suppressions: Sequence[Suppression],
    lines: Sequence[str],
    selected: Callable[[str], bool],
    cells: Sequence[Cell] = (),
) -> list[Finding]:
    """The findings of the file at `path` that no suppression covers, and those about the suppressions themselves.

    `lines` are those of the file, `cells` those of a notebook; `selected` says whether findings of a code are wanted. What
    suppresses codes that are not looked for is never called unused, and where a part of the file was not looked at nothing is.
    """
    if not suppressions:
        return list(findings)
    from modelguard.suppressions.applying import judged

    return judged(path, list(findings), suppressions, lines, selected, cells)


def add_ignores(text: str, findings: Iterable[Finding], reason: str = "") -> str:
    """`text` with a comment at the statement of each of its findings, so that the next scan leaves them out.

    Line ends stay as they are. What cannot be suppressed (MG901), and findings about suppressions, get no comment.
    """
    from modelguard.suppressions.writing import with_ignores

    return with_ignores(text, findings, reason)

"""Places as they are shown, and paths and texts as the services take them that show findings beside the changed lines."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import PurePath

from modelguard.findings import Frame, Location


def line_of(where: Location | Frame) -> int:
    """The line of a place in its file, or in its cell of a notebook."""
    return where.line - (where.cell.before if where.cell else 0)


def place(where: Location) -> str:
    """Line and column, in a notebook behind the cell."""
    return f"{cell_of(where)}{line_of(where)}:{where.column}"


def cell_of(where: Location | Frame) -> str:
    """The cell of a place in a notebook, to stand before its line; else nothing."""
    return f"cell {where.cell.number}:" if where.cell else ""


def repository_path(path: str) -> str:
    """`path` from the working directory, which is to be the top of the repository, with forward slashes."""
    place = PurePath(path)
    if place.is_absolute():
        with suppress(ValueError):  # of a file elsewhere
            place = place.relative_to(os.getcwd())
    return place.as_posix()


def well_formed(text: str) -> str:
    """`text` with halves of surrogate pairs spelled out: what a reader of JSON makes of them is not defined."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")

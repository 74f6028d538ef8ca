"""Paths and texts as the services take them that show findings beside the changed lines."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import PurePath


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

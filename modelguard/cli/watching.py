"""`modelguard scan --watch`: a scan, and another one whenever something changes that it may depend on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing

import click

from modelguard.cli.remarks import remark
from modelguard.errors import ModelguardError
from modelguard.settings import CACHE_FOLDER

_SUFFIXES = (".py", ".ipynb")
_SETTINGS = ("pyproject.toml", "modelguard.toml")

_QUIET = 100
"""Milliseconds without a change after which a burst of them is over: all files saved, another branch checked out."""

_LONGEST = 2_000
"""Milliseconds after which a burst that does not end is scanned all the same."""

_START = 200
"""Milliseconds until the first scan: the watch begins before it, so that no change is missed in between."""


def watch(scan: Callable[[], int], roots: Sequence[str], others: Collection[str]) -> int:
    """Run `scan` now and after each change around `roots`, until Ctrl-C; the status of the last scan that came to its end.

    `others` are further files that it depends on.
    """
    names = {*_SETTINGS, ".gitignore", *map(os.path.basename, others)}
    status = None
    with closing(_changes(_folders(roots, others), names)) as changes:
        try:
            for _ in changes:
                status = _scanned(scan)
                sys.stdout.flush()
                remark("modelguard: waiting for changes; Ctrl-C ends it")
        except KeyboardInterrupt:
            if status is None:
                raise
    return status or 0


def _scanned(scan: Callable[[], int]) -> int:
    """One scan, on a clear screen. What is wrong with a settings file is said and not the end: it may be half written."""
    click.clear()
    try:
        return scan()
    except ModelguardError as error:
        remark(f"modelguard: error: {error}")
        return error.status


def _changes(folders: Sequence[str], names: Collection[str]) -> Generator[None, None, None]:
    """Yields once to begin with, and then after each burst of changes."""
    try:
        import watchfiles
    except ImportError:
        remedy = "install it, or modelguard with its extra `watch`"
        raise ModelguardError(f"--watch needs the package watchfiles; {remedy}") from None

    def concerns(change: watchfiles.Change, path: str) -> bool:
        # The cache has a .gitignore of its own.
        return path.endswith(_SUFFIXES) or (os.path.basename(path) in names and CACHE_FOLDER not in path)

    try:
        is_first = True
        for burst in watchfiles.watch(
            *folders,
            watch_filter=concerns,
            debounce=_LONGEST,
            step=_QUIET,
            rust_timeout=_START,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        ):
            if burst or is_first:
                is_first = False
                yield
    except (OSError, RuntimeError) as error:
        raise ModelguardError(f"--watch: cannot watch {', '.join(folders)}: {error}") from None


def _folders(roots: Sequence[str], others: Collection[str]) -> list[str]:
    """What to watch: the project around each root, whose files it may import, or the root where there is no sign of one."""
    folders = {os.path.dirname(os.path.abspath(path)) for path in others}
    for root in roots:
        folder = os.path.abspath(root if os.path.isdir(root) else os.path.dirname(root))
        folders.add(_project(folder) or folder)
    for folder in folders:
        if not os.path.isdir(folder):
            raise ModelguardError(f"--watch: there is no folder {folder}; check the spelling and the working directory")
    return sorted(folders)


def _project(folder: str) -> str | None:
    """The nearest folder upward that holds settings."""
    while not any(os.path.isfile(os.path.join(folder, name)) for name in _SETTINGS):
        if folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)
    return folder

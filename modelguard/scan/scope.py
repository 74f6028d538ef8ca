"""Which files are the project's own: those are followed wherever a region leads, others only for what they declare."""

from __future__ import annotations

import os
from collections.abc import Sequence

from modelguard.scan.excludes import is_below, patterns


class Scope:
    """The files that are scanned, and with a `root` all others below it that `exclude` leaves.

    Paths in it are as a reader is shown them. Plain data: it is handed to other processes.
    """

    def __init__(self, files: Sequence[str], root: str | None = None, exclude: Sequence[str] = ()) -> None:
        self._shown = {os.path.abspath(path): path for path in files}
        self._files = frozenset(files)
        self._root = os.path.abspath(root) if root is not None else None
        self._exclude = tuple(exclude)
        self._known: dict[str, bool] = {}

    def __contains__(self, path: object) -> bool:
        if path in self._files:
            return True
        if self._root is None or not isinstance(path, str):
            return False
        known = self._known.get(path)
        if known is None:
            known = self._below(os.path.abspath(path), self._root)
            self._known[path] = known
        return known

    @property
    def signature(self) -> tuple[str | None, tuple[str, ...]]:
        """What decides, for files that are not scanned themselves, if they are the project's own."""
        return self._root, self._exclude

    def shown(self, absolute: str) -> str:
        """A file as a reader would name it: as it was given, or from the working directory if it lies below."""
        given = self._shown.get(absolute)
        if given is not None:
            return given
        here = os.getcwd() + os.sep
        return absolute.removeprefix(here)

    def _below(self, path: str, root: str) -> bool:
        if not is_below(path, root):
            return False
        excluded = patterns(self._exclude, root)
        while path != root:
            folder, name = os.path.split(path)
            if excluded.of(folder)(name, os.path.isdir(path)):
                return False
            path = folder
        return True

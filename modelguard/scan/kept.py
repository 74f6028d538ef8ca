"""What one scan reads and the next one needs again, in a process that scans on every keystroke: the server of an editor."""

from __future__ import annotations

import ast
import os
from typing import NamedTuple

from modelguard.scan.extraction import Copies
from modelguard.scan.facts import FileFacts
from modelguard.suppressions.reading import Suppression

_MOST_COPIES = 50_000
"""Texts of functions that are remembered: every keystroke makes a new one."""

Stamp = str | bytes | tuple[int, int, int]
"""Tells one content of a file from the next: the content itself where it is in memory, or what the file system says."""


class Read(NamedTuple):
    """What is known of a file that was read: its facts, its suppressions, and the hash of its text."""

    facts: FileFacts
    suppressions: tuple[Suppression, ...]
    known: int


class Kept:
    """Facts of files, for as long as these do not change; syntax, by its text; which files may reach into which.

    All of it says what *is*, whichever file is scanned, but for `others` and `base`, which hold until `forget` is called: to look
    through a project takes longer than a keystroke may.
    """

    def __init__(self) -> None:
        self.copies = Copies()
        self.parsed: dict[str, list[ast.stmt]] = {}
        self.others: dict[str, list[str]] = {}
        """By path, the files that may reach into it."""
        self.base: object = None
        """What the latest scan of a file worked out of all others; see `analysis.Base`."""
        self.alone = False
        self.asked: frozenset[str] = frozenset()
        """The files, by absolute path, that the latest scan asked for: what it found depends on nothing else."""
        self._files: dict[str, tuple[Stamp, Read]] = {}

    def begin(self, alone: bool) -> None:
        """Another scan starts: of one file, or with those after it that may reach into it."""
        self.alone = alone
        self.asked = frozenset()
        if len(self.copies) > _MOST_COPIES:
            self.copies = Copies()

    def forget(self) -> None:
        """Look again who may reach into what, and which files there are."""
        self.others.clear()
        self.base = None

    def find(self, path: str, stamp: Stamp | None) -> Read | None:
        """What is known of the file shown as `path`, if it is as it was."""
        found = self._files.get(path)
        return found[1] if found is not None and found[0] == stamp else None

    def keep(self, path: str, stamp: Stamp | None, read: Read) -> None:
        """Remember what was read; `stamp` is from before."""
        if stamp is not None:
            self._files[path] = stamp, read


def stamp(absolute: str, given: str | bytes | None) -> Stamp | None:
    """What tells the content that a file has now; None where it has none."""
    if given is not None:
        return given
    try:
        found = os.stat(absolute)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

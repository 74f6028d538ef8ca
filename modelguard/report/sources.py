"""Source lines that reports show, from disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from modelguard.errors import SourceError
from modelguard.scan.files import is_notebook, read_text


class SourceLines:
    """The lines of files; those of the last file are kept, because findings come sorted by file."""

    def __init__(self) -> None:
        self._path: str | None = None
        self._lines: list[str] = []

    def of(self, path: str) -> Sequence[str]:
        """All lines of a file; none where it cannot be read."""
        if path != self._path:
            self._path = path
            self._lines = []
            # A pipe was read to its end by the scan; to open it again would wait for another writer.
            if os.path.isfile(path):
                with suppress(SourceError, ValueError):
                    self._lines = _text(path).split("\n")
        return self._lines

    def line(self, path: str, number: int) -> str | None:
        """One line, counted from 1; None where there is none."""
        lines = self.of(path)
        return lines[number - 1] if 1 <= number <= len(lines) else None


def _text(path: str) -> str:
    text = read_text(path)
    if is_notebook(path):
        from modelguard.scan.notebooks import shown

        return shown(text)
    return text

"""What a client has open: where it is, what it says, and what was found in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit
from urllib.request import url2pathname

from modelguard.findings import Finding
from modelguard.scan.files import is_notebook, split_lines, unscanned
from modelguard.settings import Settings

_UNTITLED = "untitled"
"""The scheme of what was never saved."""


class Sight(NamedTuple):
    """Findings in a text."""

    text: str = ""
    findings: tuple[Finding, ...] = ()

    def moved_to(self, text: str) -> tuple[Finding, ...]:
        """The findings where they lie in another text, without those on lines that are not the same there."""
        if not self.findings or text == self.text:
            return self.findings
        old, new = split_lines(self.text), split_lines(text)
        head, tail = alike(old, new)
        shift = len(new) - len(old)
        above = [each for each in self.findings if each.location.end_line <= head]
        below = [_shifted(each, shift) for each in self.findings if each.location.line > len(old) - tail]
        return (*above, *below)


_NOTHING = Sight()
_DEFAULT = Settings()


@dataclass
class Document:
    """An open document.

    `found` is what was seen in it when it was last parsed; `added` and `taken` are by what the rest of the project changed that,
    when it was last looked at: to do so takes longer than a keystroke may. `unparsed` says that it cannot be parsed, once shown.
    """

    uri: str
    path: str
    is_file: bool
    version: int | None
    text: str
    found: Sight = _NOTHING
    added: Sight = _NOTHING
    taken: Sight = _NOTHING
    unparsed: tuple[Finding, ...] = ()
    needs: frozenset[str] = frozenset()
    """The files, by absolute path, that its findings depend on."""
    spent: float = 0.0
    """Seconds that it takes to check it."""
    settings: Settings = _DEFAULT

    def findings(self) -> tuple[Finding, ...]:
        """What is known of the text as it is now, in reading order."""
        taken = {_place(finding) for finding in self.taken.moved_to(self.text)}
        found = [finding for finding in self.found.moved_to(self.text) if _place(finding) not in taken]
        shown = (*found, *self.added.moved_to(self.text), *self.unparsed)
        return tuple(sorted(shown, key=lambda finding: finding.sort_key))

    def take_own(self, findings: tuple[Finding, ...]) -> None:
        """Take in what was found in this document without a look at who may reach into it."""
        self.found = Sight(self.text, findings)
        self.unparsed = ()

    def take_all(self, findings: tuple[Finding, ...]) -> None:
        """Take in what was found with such a look, in the same text."""
        own = self.found.findings
        self.added = Sight(self.text, tuple(finding for finding in findings if finding not in own))
        self.taken = Sight(self.text, tuple(finding for finding in own if finding not in findings))


def location_of(uri: str) -> tuple[str, bool] | None:
    """The absolute path that stands for a URI, and whether that is where its file is; None for what is not looked at."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    name = os.fsdecode(unquote_to_bytes(parts.path))
    if parts.scheme == _UNTITLED and name:
        return os.path.abspath(os.path.basename(name)), False
    if parts.scheme != "file" or "\0" in name or not parts.path.strip("/"):
        return None
    if os.name == "nt":
        name = url2pathname(f"//{parts.netloc}{parts.path}" if parts.netloc else parts.path)
    # A notebook is edited cell by cell, each of them a document.
    return None if unscanned(name) or is_notebook(name) else (os.path.abspath(name), True)


def uri_of(path: str) -> str:
    """The URI of a file."""
    return Path(os.path.abspath(path)).as_uri()


def alike(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines, or characters, two texts have in common: at their beginning, and behind that at their end."""
    head = _same(old, new)
    return head, min(_same(reversed(old), reversed(new)), len(old) - head, len(new) - head)


def _same(left: Iterable[str], right: Iterable[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _shifted(finding: Finding, lines: int) -> Finding:
    where, fix = finding.location, finding.fix
    if fix is not None:
        edits = (edit._replace(line=edit.line + lines, end_line=edit.end_line + lines) for edit in fix.edits)
        fix = replace(fix, edits=tuple(edits))
    return replace(finding, location=where._replace(line=where.line + lines, end_line=where.end_line + lines), fix=fix)


def _place(finding: Finding) -> tuple[str, int, int, str | None]:
    return finding.code, finding.location.line, finding.location.column, finding.attribute

"""A baseline: findings that are known and left for later, in a file that people read, compare and merge."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, NamedTuple

import msgspec

from modelguard.errors import ModelguardError
from modelguard.findings import Finding
from modelguard.settings import seen_from

VERSION = 1
"""Grows when what is written means something else."""

_LINE = 200
"""Characters of a source line that are kept, of which a generated file may have very many."""


class Entry(NamedTuple):
    """A finding by all that stays when lines move. The path is seen from the folder of the baseline."""

    path: str
    code: str
    class_name: str
    attribute: str
    line: str

    @property
    def content(self) -> tuple[str, ...]:
        """What stays when the file gets another name, too."""
        return self[1:]


class Matched(NamedTuple):
    """What a baseline says of findings."""

    known: frozenset[Finding]
    entries: Counter[Entry]
    """All entries, with those whose file has got another name at the new one."""
    left: Counter[Entry]
    """The entries that no finding fits any more."""


class Baseline:
    """The entries of one file, each with how often it may be found."""

    def __init__(self, path: str, entries: Counter[Entry]) -> None:
        self.path = path
        self.entries = entries
        self._folder = os.path.dirname(path)

    def place(self, path: str) -> str:
        """The path of a file, as entries have it."""
        return seen_from(self._folder, path) or os.path.relpath(path, self._folder).replace(os.sep, "/")

    def file(self, entry: Entry) -> str:
        """The file that an entry is about, by its absolute path."""
        return os.path.normpath(os.path.join(self._folder, entry.path))

    def entry(self, finding: Finding) -> Entry:
        """What the baseline would hold of a finding."""
        return Entry(
            self.place(finding.location.path),
            finding.code,
            finding.class_name or "",
            finding.attribute or "",
            finding.squeezed_line[:_LINE],
        )

    def match(self, findings: Iterable[Finding], whole: AbstractSet[str]) -> Matched:
        """Which findings are known. `whole` holds the files, as entries have them, of which all findings are here.

        A finding in another file than its entry is the same one if that file is gone, or holds it no longer. Of a file that was
        not looked at nobody knows, and what looks like it elsewhere may be a copy.
        """
        entries, left = self.entries.copy(), self.entries.copy()
        known: list[Finding] = []
        others: list[tuple[Finding, Entry]] = []
        for finding in findings:
            entry = self.entry(finding)
            if left[entry] > 0:
                left[entry] -= 1
                known.append(finding)
            else:
                others.append((finding, entry))
        moved: dict[tuple[str, ...], list[Entry]] = {}
        for entry in sorted(left.elements()):
            if entry.path in whole or not os.path.exists(self.file(entry)):
                moved.setdefault(entry.content, []).append(entry)
        for finding, entry in others:
            if moved.get(entry.content):
                old = moved[entry.content].pop(0)
                left[old] -= 1
                entries[old] -= 1
                entries[entry] += 1
                known.append(finding)
        return Matched(frozenset(known), +entries, +left)

    def render(self) -> str:
        """The file's text: sorted, an entry a line, so that two people's changes merge."""
        lines = [json.dumps(_item(entry, self.entries[entry])) for entry in sorted(self.entries)]
        findings = "".join(f"\n    {line}," for line in lines).rstrip(",")
        return f'{{\n  "schema_version": {VERSION},\n  "findings": [{findings}\n  ]\n}}\n'


class _Item(msgspec.Struct, forbid_unknown_fields=True):
    """An entry as the file has it."""

    path: str
    code: str
    class_name: str = msgspec.field(name="class")
    attribute: str
    line: str
    count: Annotated[int, msgspec.Meta(ge=1)]


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    schema_version: int
    findings: Sequence[_Item]


def read(path: str) -> Baseline:
    """The baseline at `path`, which is absolute. What is none is an error that says what to do."""
    try:
        with open(path, encoding="utf-8-sig") as stream:
            document = json.load(stream)
    except FileNotFoundError:
        raise _refused(path, "there is no baseline here; --write-baseline makes one") from None
    except OSError as error:
        raise _refused(path, f"cannot read this baseline: {(error.strerror or str(error)).lower()}") from None
    except json.JSONDecodeError as error:
        message = f"this baseline is not valid JSON: {error.msg}; if a merge left it so, keep the lines of both sides"
        raise _refused(f"{path}:{error.lineno}", message) from None
    except (ValueError, RecursionError):
        raise _refused(path, "this is no baseline; name another file, or remove this one and write it anew") from None
    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version != VERSION:
        remedy = "use the modelguard that wrote it, or remove it and write it anew with --write-baseline"
        raise _refused(path, f"this baseline has format {version}, and this modelguard reads format {VERSION}; {remedy}")
    return Baseline(path, _entries(path, document))


def _entries(path: str, document: Any) -> Counter[Entry]:
    try:
        items = msgspec.convert(document, _Document).findings
    except msgspec.ValidationError as error:
        raise _refused(path, f"this is no baseline: {error}; repair it, or remove it and write it anew") from None
    entries: Counter[Entry] = Counter()
    for item in items:
        entries[Entry(item.path, item.code, item.class_name, item.attribute, item.line)] += item.count
    return entries


def _item(entry: Entry, count: int) -> dict[str, str | int]:
    return {
        "path": entry.path,
        "code": entry.code,
        "class": entry.class_name,
        "attribute": entry.attribute,
        "line": entry.line,
        "count": count,
    }


def _refused(place: str, problem: str) -> ModelguardError:
    here = os.path.join(os.getcwd(), "")
    return ModelguardError(f"{place.removeprefix(here)}: {problem}")

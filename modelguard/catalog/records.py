"""What a record of the catalogue holds, and the records, read from `data/`, one TOML file each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from modelguard.toml_text import loads

SCHEMA_VERSION = 1
"""Grows when a field changes its meaning or goes; a new field leaves it alone."""

WRAPPER = "wrapper"
"""The tag of an error that only says that there was another one: whatever else a text tells of explains more."""

OWN = "modelguard"
"""The `repo` of modelguard's own errors."""

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Record:
    """One error. The names of the fields are those of the format in which catalogues are interchanged."""

    id: str
    repo: str
    """The repository whose code says the message."""
    slug: str
    errorMessage: str
    """The message as its source has it: what varies stands in braces."""
    messagePattern: str
    """A regular expression that finds the message in a text; its named groups are what varies."""
    errorType: str
    """`exception`, or `warning` for what is only logged."""
    errorClass: str
    severity: str
    filePath: str
    documentation: str
    """What the message means."""
    triggerScenarios: str
    commonSituations: str
    solutions: tuple[str, ...]
    """What to do, the best first."""
    exampleFix: str
    """Python: what both versions need, then `# Before` and the code that fails, then `# After` and the code that does not."""
    handlingStrategy: str
    validationCode: str
    """Python that passes where the error is gone; `model` and other names are those of the example."""
    preventionTips: tuple[str, ...]
    tags: tuple[str, ...]
    """Among them the codes of the rules that find the cause in the source."""
    backgroundTag: str
    """The subject under which the record is listed."""
    analyzedSha: str
    """The revision of the repository that `filePath` and `lineNumber` are of."""
    analyzedAt: str
    schemaVersion: int
    related: tuple[str, ...] = ()
    errorCode: str | None = None
    httpStatus: int | None = None
    lineNumber: int | None = None
    typeGuard: str | None = None
    tryCatchPattern: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The record as its JSON object."""
        return asdict(self)


@lru_cache(maxsize=1)
def records() -> Mapping[str, Record]:
    """All records, by their id."""
    read = [_record(path) for path in sorted(_DATA.glob("*.toml"))]
    return MappingProxyType({record.id: record for record in read})


def dataset_version() -> str:
    """Which state of the catalogue this is: the day of its youngest record, and a hash of all that it says."""
    import hashlib
    import json

    content = json.dumps([record.as_json() for record in records().values()], sort_keys=True)
    youngest = max(record.analyzedAt for record in records().values())
    return f"{youngest}+{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def _record(path: Path) -> Record:
    read = loads(path.read_text(encoding="utf-8"))
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in read.items()}
    return Record(**fields)

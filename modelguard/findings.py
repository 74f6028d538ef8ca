"""The one currency of the tool: what was found, where, how bad it is, and how it is known."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple


class Severity(enum.Enum):
    """How bad a finding is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for a note, 2 for an error: larger is worse."""
        return _RANK[self]

    def lowered(self) -> Severity:
        """One level less severe; a note stays a note."""
        return Severity.WARNING if self is Severity.ERROR else Severity.NOTE

    def at_least(self, other: Severity) -> bool:
        """Whether this is as severe as `other`, or worse."""
        return self.rank >= other.rank


_RANK = {Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}


class GuardContext(enum.Enum):
    """Under which condition a write runs."""

    UNCONDITIONAL = "unconditional"
    LAZY = "lazy"
    TRAINING_ONLY = "training-only"
    EAGER_ONLY = "eager-only"


class Effect(enum.Enum):
    """What a replayed CUDA graph makes of a write."""

    LOST = "lost"
    FROZEN = "frozen"
    REPLAYED = "replayed"


class Evidence(enum.Enum):
    """How a finding is known."""

    STATIC = "static"
    TRACE = "trace"
    DYNAMO = "dynamo"
    REPLAY = "replay"


class Cell(NamedTuple):
    """A code cell of a notebook: its number among all cells, from 1, and how many lines of code come `before` it."""

    number: int
    before: int


def cell_at(cells: Sequence[Cell], line: int) -> Cell | None:
    """Which of the `cells` of a notebook, in order, a line of its code lies in."""
    return next((cell for cell in reversed(cells) if cell.before < line), None)


def _line_in(cell: Cell | None, line: int) -> int:
    return line - cell.before if cell is not None else line


def _named(cell: Cell | None) -> str:
    return f"cell {cell.number}:" if cell is not None else ""


class Location(NamedTuple):
    """A span of source text: 1-based lines, 1-based columns counted in characters; the end column is exclusive.

    In a notebook, lines are counted through the code of all cells.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: Cell | None = None

    @property
    def line_in_cell(self) -> int:
        """The line as a person counts it: in a notebook from the beginning of the cell."""
        return _line_in(self.cell, self.line)

    @property
    def place(self) -> str:
        """Line and column, in a notebook behind the cell: `cell 3:4:9`."""
        return f"{_named(self.cell)}{self.line_in_cell}:{self.column}"


class Frame(NamedTuple):
    """One step of the way from an entry point to a write: in `function`, at `path`:`line`, the next step is called."""

    function: str
    path: str
    line: int
    cell: Cell | None = None

    @property
    def line_in_cell(self) -> int:
        """The line, in a notebook from the beginning of the cell."""
        return _line_in(self.cell, self.line)

    @property
    def place(self) -> str:
        """The line, in a notebook behind the cell: `cell 3:4`."""
        return f"{_named(self.cell)}{self.line_in_cell}"


class Applicability(enum.Enum):
    """Whether a fix can be applied unseen."""

    SAFE = "safe"
    """What the code computes and keeps stays the same, in eager mode, for all that the file itself does with it."""
    UNSAFE = "unsafe"
    """It may change: a person has to look at it."""


class Edit(NamedTuple):
    """Text that takes the place of a span, counted as in a `Location`; an empty span is where it is put in.

    Line ends in `content` are `\\n`; they become those of the file.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    content: str


@dataclass(frozen=True, slots=True)
class Fix:
    """What to change in the file of a finding so that the finding goes: `message` says it, and of an unsafe one also the risk."""

    message: str
    applicability: Applicability
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault at one place.

    `attribute` is the state path that is written (`self.rotary.cos`), `chain` the calls that lead from an entry point to the
    function that holds the write (empty when the entry point itself holds it).
    """

    code: str
    name: str
    severity: Severity
    message: str
    location: Location
    source_line: str = ""
    class_name: str | None = None
    attribute: str | None = None
    entry_points: tuple[str, ...] = ()
    chain: tuple[Frame, ...] = ()
    guard: GuardContext = GuardContext.UNCONDITIONAL
    carried: bool = False
    effect: Effect | None = None
    evidence: tuple[Evidence, ...] = (Evidence.STATIC,)
    help: str | None = None
    help_url: str | None = None
    fix: Fix | None = None
    """Set by whoever found it, where that is known at once; else worked out by `modelguard.fixes` when somebody asks."""

    @property
    def fingerprint(self) -> str:
        """An identity that survives line shifts: path, class, state path, code and the source line without its spacing."""
        parts = (
            self.location.path.replace("\\", "/"),
            self.class_name or "",
            self.attribute or "",
            self.code,
            self.squeezed_line,
        )
        import hashlib

        # Paths and attributes can hold halves of surrogate pairs, which UTF-8 has no bytes for.
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]

    @property
    def squeezed_line(self) -> str:
        """The source line without its spacing."""
        return _squeezed(self.source_line)

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        """Reading order: by file, then position, then code."""
        return (
            self.location.path,
            self.location.line,
            self.location.column,
            self.code,
            self.attribute or "",
        )


@lru_cache(maxsize=16)
def _squeezed(line: str) -> str:
    """A line without its spacing; one long line can hold thousands of findings."""
    return " ".join(line.split())


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something that kept the scan from looking at a file as it should, in one sentence with its remedy."""

    path: str
    message: str
    line: int | None = None
    severity: Severity = Severity.WARNING
    detail: str = ""
    """A traceback, where there is one."""


@dataclass(frozen=True, slots=True)
class ScanReport:
    """What a scan found and what it looked at."""

    findings: tuple[Finding, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    files: int = 0
    module_classes: int = 0
    entry_points: int = 0
    lines: int = 0
    timings: dict[str, float] = field(default_factory=dict)
    failing: int = 0
    """Findings at or above the severity from which a run fails."""
    whole: tuple[str, ...] = ()
    """Files that were looked at to their end, so that what is not among the findings is not in them."""
    baselined: int = 0
    """Findings that were left out because a baseline holds them."""
    unchanged: int = 0
    """Findings that were left out because their lines did not change."""

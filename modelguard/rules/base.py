"""What a rule is: its identity, its documentation, its examples and one question asked of what the scan saw."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from modelguard.findings import Applicability, Effect, Evidence, Severity
from modelguard.observation import Hindrance, Obstacle, StateWrite

HEADINGS = ("What it does", "Why it is bad", "Use instead", "Severity", "References")
"""The sections that the docstring of every rule holds, in this order, each under `## `."""


class Verdict(NamedTuple):
    """What a rule says: how bad, one sentence that names what was found and what will go wrong, what to do."""

    severity: Severity
    message: str
    help: str
    effect: Effect | None


class Repair(NamedTuple):
    """What a fix makes of an example: pieces of its text, and what stands there afterwards."""

    applicability: Applicability
    changes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Invalid:
    """Source in which the rule must report `attribute` on `line`, at `severity`, and nothing at warning or error elsewhere.

    `line` counts in `text`. `also` lists lines on which other findings are right. `repair` is what a fix must do, None
    where there must be none.
    """

    source: str
    line: int
    attribute: str = ""
    severity: Severity | None = None
    carried: bool | None = None
    also: tuple[int, ...] = ()
    repair: Repair | None = None

    @property
    def text(self) -> str:
        """The source as a file would hold it."""
        return _as_file(self.source)

    @property
    def repaired(self) -> str:
        """The text once the fix is applied."""
        text = self.text
        for before, after in self.repair.changes if self.repair is not None else ():
            text = text.replace(before, after, 1)
        return text


@dataclass(frozen=True, slots=True)
class Valid:
    """Source in which the rule must report nothing, and no rule a warning or an error."""

    source: str

    @property
    def text(self) -> str:
        """The source as a file would hold it."""
        return _as_file(self.source)


class Rule:
    """One kind of fault. The docstring of a subclass is its documentation page.

    Its first line is the summary; the rest are the sections of `HEADINGS`.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    """The severity of an ordinary case; `check` may say less or more."""
    since: ClassVar[str]
    evidence: ClassVar[Evidence] = Evidence.STATIC
    """How what it reports is known: all but a few rules read source. The examples of the others are targets of `confirm`."""
    INVALID: ClassVar[tuple[Invalid, ...]] = ()
    VALID: ClassVar[tuple[Valid, ...]] = ()

    def check(self, write: StateWrite) -> Verdict | None:
        """The verdict on `write`, or None where it is not this rule's matter."""
        raise NotImplementedError

    @classmethod
    def summary(cls) -> str:
        """The first line of the documentation."""
        return cls.documentation().splitlines()[0]

    @classmethod
    def fixes(cls) -> frozenset[Applicability]:
        """How safe the fixes are that some of its findings have: what the examples show."""
        return frozenset(example.repair.applicability for example in cls.INVALID if example.repair is not None)

    @classmethod
    def documentation(cls) -> str:
        """The documentation page, without indentation."""
        return inspect.cleandoc(cls.__doc__ or "")

    @classmethod
    def sections(cls) -> dict[str, str]:
        """The text under each heading of the documentation."""
        found: dict[str, str] = {}
        for part in cls.documentation().split("\n## ")[1:]:
            heading, _, body = part.partition("\n")
            found[heading.strip()] = body.strip()
        return found


class CaptureRule(Rule):
    """A rule about one kind of obstacle to capture: it has no say on writes."""

    hindrance: ClassVar[Hindrance]

    def check(self, write: StateWrite) -> None:
        return None

    def verdict(self, obstacle: Obstacle) -> Verdict:
        """What there is to say of an obstacle of this kind."""
        raise NotImplementedError


def _as_file(source: str) -> str:
    return textwrap.dedent(source).strip("\n") + "\n"

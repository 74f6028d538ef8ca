"""What a walk of one region saw: writes and reads of state, and from them the `StateWrite`s with what only the whole tells."""

from __future__ import annotations

from typing import NamedTuple

from modelguard.findings import Frame, GuardContext, Location
from modelguard.observation import Kind, Obstacle, Operation, Root, StateWrite
from modelguard.scan.paths import ITEM, WHOLE, Facts, Path


class Event(NamedTuple):
    """One write as it was met: `shown` is the path as the method that writes would call it, `guards` the tests around it."""

    operation: Operation
    path: Path
    shown: str
    location: Location
    source_line: str
    function: str
    class_name: str | None
    verb: str
    declared: int
    value: int
    owner: int
    inputs: bool
    facts: Facts
    block: int
    round_trip: bool
    chain: tuple[Frame, ...]


class Recorder:
    """Collects the events of one entry point."""

    def __init__(self, entry_point: str) -> None:
        self.entry_point = entry_point
        self.events: dict[tuple[object, ...], Event] = {}
        self.exposed: dict[Path, frozenset[Path]] = {}
        self.used: set[Path] = set()
        self.obstacles: dict[tuple[object, ...], Obstacle] = {}
        self.seen_of: dict[Path, frozenset[str] | None] = {}
        """The attributes that whoever reads the whole of something may read of it; None for any."""

    def write(self, event: Event) -> None:
        """Take in a write; of the same write met twice, the one under fewer guards and by the shorter way stays."""
        key = (event.location.path, event.location.line, event.location.column, event.path.holder(), event.operation)
        known = self.events.get(key)
        if known is None:
            self.events[key] = event
            return
        lighter = event if _weight(event) < _weight(known) else known
        self.events[key] = lighter._replace(
            declared=known.declared | event.declared,
            value=known.value | event.value,
            inputs=known.inputs or event.inputs,
            round_trip=known.round_trip or event.round_trip,
        )

    def obstacle(self, found: Obstacle) -> None:
        """Take in an obstacle; of the same one met twice, the one that is not for training alone, or nearer, stays."""
        key = (found.location, found.hindrance)
        known = self.obstacles.get(key)
        if known is None or (found.training_only, len(found.chain)) < (known.training_only, len(known.chain)):
            self.obstacles[key] = found

    def read(self, path: Path, definite: frozenset[Path], used: bool) -> None:
        """Take in a read.

        `definite` is what the step has written before it on every way; `used` says that more than the state's own update
        depends on it.
        """
        known = self.exposed.get(path)
        self.exposed[path] = definite if known is None else known & definite
        if used:
            self.used.add(path)

    def _carried(self, path: Path) -> bool:
        """Whether a step can read what `path` names before it writes it, and makes use of it."""
        if not any(self._reads(read, path) for read in self.used):
            return False
        return any(
            self._reads(read, path) and not any(written.covers(path) for written in definite)
            for read, definite in self.exposed.items()
        )

    def _reads(self, read: Path, written: Path) -> bool:
        """Whether a read of one path reads what is written at the other; an instance shows what its class holds."""
        if written.root is Root.CLASS and read.root is not Root.CLASS:
            return bool(written.steps) and written.steps[0] in read.steps
        if read.steps and read.steps[-1] == WHOLE:
            whole = read.parent()
            if not whole.related(written):
                return False
            names = self.seen_of.get(whole)
            return names is None or len(written.steps) <= len(whole.steps) or written.steps[len(whole.steps)] in names
        return written.covers(read)

    def state_writes(self) -> list[StateWrite]:
        """The writes, judged against all reads of the region."""
        carried: dict[Path, bool] = {}
        filled = {(event.block, event.path) for event in self.events.values() if event.block}
        result = []
        for event in self.events.values():
            holder = event.path.holder()
            if holder not in carried:
                carried[holder] = self._carried(holder)
            lazy, once = _lazy(event, filled)
            training = event.facts.training
            guard = (
                GuardContext.EAGER_ONLY
                if event.facts.eager
                else GuardContext.LAZY
                if lazy
                else GuardContext.TRAINING_ONLY
                if training
                else GuardContext.UNCONDITIONAL
            )
            result.append(
                StateWrite(
                    path=event.shown,
                    root=event.path.root,
                    operation=event.operation,
                    location=event.location,
                    source_line=event.source_line,
                    function=event.function,
                    class_name=event.class_name,
                    verb=event.verb,
                    declared=event.declared,
                    value=event.value,
                    owner=event.owner,
                    depends_on_inputs=event.inputs,
                    carried=carried[holder],
                    guard=guard,
                    training_only=training,
                    filled_once=once,
                    round_trip=event.round_trip,
                    entry_points=(self.entry_point,),
                    chain=event.chain,
                )
            )
        return result


def _weight(event: Event) -> tuple[int, int]:
    facts = event.facts
    return (facts.training + facts.eager + bool(facts.checks), len(event.chain))


def _lazy(event: Event, filled: set[tuple[int, Path]]) -> tuple[bool, bool]:
    """(whether a guard asks for the written state first, whether it only asks if the state is there at all)."""
    path = event.path
    plain = not event.value & ~(Kind.NUMBER | Kind.BOOL)
    lazy = False
    once = False
    sized = False
    for check in event.facts.checks:
        mine = check.path.related(path) and (len(check.path.steps) > 0 or check.path.root is not Root.SELF)
        # `if self.cos is None: self.cos = ...; self.sin = ...`: what is filled beside the state asked for is as lazy as it.
        beside = not mine and check.how == "missing" and _siblings(check.path, path) and (event.block, check.path) in filled
        if not (mine or beside):
            continue
        if check.how == "missing":
            lazy = once = True
        elif check.how == "size":
            lazy = sized = True
        elif not plain:
            lazy = sized = True
    return lazy, once and not sized


def _siblings(left: Path, right: Path) -> bool:
    return bool(left.steps and right.steps) and left.parent() == right.holder().parent() and left.steps[-1] != ITEM

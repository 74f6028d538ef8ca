"""The modules of a traced model as a tree, in which siblings that are alike are one branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STATUSES = (
    "graph-break",
    "disabled",
    "scripted",
    "recurrent",
    "left-to-python",
    "host-sync",
    "call-module",
    "split",
    "higher-order",
    "inlined",
    "never-reached",
)
"""The statuses of modules, the worst first."""

QUIET = frozenset(("higher-order", "inlined", "never-reached"))
"""Those with nothing in the way."""

SHAPES = {"static": "fixed sizes", "dynamic": "symbolic sizes"}

_RANKS = {status: rank for rank, status in enumerate(STATUSES)}
_MOST = 6


@dataclass(slots=True)
class Branch:
    """A module with those in it; several where siblings are alike."""

    names: list[str]
    record: Mapping[str, Any]
    children: list[Branch] = field(default_factory=list)

    @property
    def rank(self) -> int:
        """That of the worst status in it."""
        return min([_RANKS[self.record["status"]], *(child.rank for child in self.children)])

    @property
    def is_quiet(self) -> bool:
        """Is nothing in the way in all of it?"""
        return STATUSES[self.rank] in QUIET

    @property
    def ops(self) -> int:
        """Calls in graphs that it and those in it make."""
        return int(self.record["ops"]) + sum(child.ops * len(child.names) for child in self.children)

    @property
    def count(self) -> int:
        """The modules in it, itself included."""
        return 1 + sum(child.count * len(child.names) for child in self.children)

    @property
    def listed(self) -> str:
        """Its names for people: the first few."""
        more = len(self.names) - _MOST
        return ", ".join(self.names[:_MOST]) + (f" and {more} more" if more > 0 else "")

    def is_like(self, other: Branch) -> bool:
        """Would it be shown like another one?"""
        keys = ("class", "status", "reason", "ops")
        if any(self.record[key] != other.record[key] for key in keys) or len(self.children) != len(other.children):
            return False
        return all(
            mine.names == others.names and mine.is_like(others)
            for mine, others in zip(self.children, other.children, strict=True)
        )


def branches(modules: Sequence[Mapping[str, Any]]) -> Branch:
    """The model, from the records of its modules, in which each stands before those in it."""
    by_path = {each["path"]: Branch([each["path"].rpartition(".")[2]], each) for each in modules}
    for path, branch in by_path.items():
        if path:
            by_path[path.rpartition(".")[0]].children.append(branch)
    for branch in reversed(by_path.values()):
        branch.children = _joined(branch.children)
    return by_path[""]


def _joined(children: list[Branch]) -> list[Branch]:
    """Siblings that are alike, as the layers of a stack, in one."""
    found: list[Branch] = []
    for child in children:
        like = next((each for each in found if each.is_like(child)), None)
        if like is None:
            found.append(child)
        else:
            like.names += child.names
    return found

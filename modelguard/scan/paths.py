"""State paths, and what the tests around a statement ask of them."""

from __future__ import annotations

from typing import NamedTuple

from modelguard.observation import Root

ITEM = "[*]"
"""The step of a state path that stands for any item of a container."""

WHOLE = "**"
"""The step that stands for all that is below: a module that is called, an object that is handed to unknown code."""


class Path(NamedTuple):
    """A state path: a root and steps of attributes and items. `label` is what the root is called, `scope` makes it unique."""

    root: Root
    label: str
    scope: str
    steps: tuple[str, ...]

    def step(self, name: str) -> Path:
        """The path of an attribute or item of what this path names; items of items are one."""
        if name == ITEM and self.steps and self.steps[-1] == ITEM:
            return self
        return Path(self.root, self.label, self.scope, (*self.steps, name))

    def parent(self) -> Path:
        """The path without its last step."""
        return Path(self.root, self.label, self.scope, self.steps[:-1])

    def holder(self) -> Path:
        """The attribute that holds what this path names: the path without trailing item steps."""
        path = self
        while path.steps and path.steps[-1] == ITEM:
            path = path.parent()
        return path

    def related(self, other: Path) -> bool:
        """Whether one is the other or a part of it."""
        if self.root is not other.root or self.label != other.label or self.scope != other.scope:
            return False
        return all(mine == yours or _may_equal(mine, yours) for mine, yours in zip(self.steps, other.steps, strict=False))

    def covers(self, other: Path) -> bool:
        """Whether `other` is this or a part of it."""
        return self.related(other) and len(self.steps) <= len(other.steps)

    def __str__(self) -> str:
        return self.label + "".join(step if step == ITEM else f".{step}" for step in self.steps)


def _may_equal(left: str, right: str) -> bool:
    """Whether two steps may be the same attribute, where a name is only known in part (`cos_*`)."""
    if left in (ITEM, WHOLE) or right in (ITEM, WHOLE) or not ("*" in left or "*" in right):
        return False
    start, _, end = (left if "*" in left else right).partition("*")
    other = right if "*" in left else left
    return "*" in other or (other.startswith(start) and other.endswith(end))


class Check(NamedTuple):
    """Something a guard asks of a state path: `missing` (is it there at all), `size` (is it large enough, of the right dtype) or
    `compare` (of the value itself)."""

    path: Path
    how: str


class Facts(NamedTuple):
    """What holds on one branch of a test."""

    training: bool = False
    evaluating: bool = False
    eager: bool = False
    dead: bool = False
    checks: tuple[Check, ...] = ()

    def both(self, other: Facts) -> Facts:
        """What holds when both hold."""
        if other is NO_FACTS:
            return self
        if self is NO_FACTS:
            return other
        return Facts(
            self.training or other.training,
            self.evaluating or other.evaluating,
            self.eager or other.eager,
            self.dead or other.dead,
            self.checks + other.checks,
        )

    def either(self, other: Facts) -> Facts:
        """What holds when at least one holds: a check made in either counts."""
        return Facts(
            self.training and other.training,
            self.evaluating and other.evaluating,
            self.eager and other.eager,
            self.dead and other.dead,
            self.checks + other.checks,
        )


NO_FACTS = Facts()


class Test(NamedTuple):
    """What holds where a truth value is true, and where it is false."""

    true: Facts
    false: Facts

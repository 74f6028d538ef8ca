"""What each fix hands on: what it would do and at what risk, before it is written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from modelguard.findings import Applicability, Edit


class Plan(NamedTuple):
    """A fix that is there for the asking."""

    message: str
    risk: str | None
    """Why it is not safe, to stand behind a colon; None for one that is."""
    edits: Callable[[], tuple[Edit, ...]]

    @property
    def applicability(self) -> Applicability:
        """Whether the fix can be applied unseen."""
        return Applicability.SAFE if self.risk is None else Applicability.UNSAFE

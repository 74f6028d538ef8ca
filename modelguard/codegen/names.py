"""Names in generated code: which text means which Python object, and which identifiers a function's values get."""

from __future__ import annotations

import builtins
import keyword
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.fx.node import _get_qualified_name

SUBMODS = "__vllm_submods__"
CONSTS = "__vllm_consts__"
INLINED = "__vllm_inlined_submods__"
ROOTS = {"torch": torch, "operator": operator, "_operator": operator}
"""The names that generated code imports. `_operator` is how torch spells the module of `operator.add`."""

_OWN_PREFIX = "__vllm_"
_RESERVED = frozenset({*keyword.kwlist, *dir(builtins), *ROOTS})


def is_identifier(name: str) -> bool:
    """Can `name` stand in source and mean that very name? Python folds other spellings of a letter into one."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name != "__debug__"


def qualified_name(target: Callable[..., Any]) -> str | None:
    """The dotted name of `target` below `torch` or `operator`, or its name among the builtins.

    None if it has no such name, or if that name means something else: then it must be handed over as an object.
    """
    try:
        name = _get_qualified_name(target)
    except Exception:
        # Any object can be a target; what torch's lookup raises for one without `__name__` or `__module__` is not specified.
        return None
    root, *attributes = name.split(".")
    if not all(is_identifier(part) for part in (root, *attributes)):
        return None
    if not attributes:
        return name if getattr(builtins, name, None) is target else None
    if root not in ROOTS:
        return None
    found: object = ROOTS[root]
    for attribute in attributes:
        found = getattr(found, attribute, None)
    if found is not target:
        return None
    return ".".join(["operator" if root == "_operator" else root, *attributes])


def is_free(name: str) -> bool:
    """Can `name` be given to a value or function without hiding what generated code relies on?"""
    return is_identifier(name) and name not in _RESERVED and not name.startswith(_OWN_PREFIX)


class Names:
    """Gives each value of a function one identifier: the wanted one where it is legal and free."""

    def __init__(self, wanted: Iterable[str]) -> None:
        """`wanted` are all the names that will be asked for: none of them is given to another value."""
        self._wanted = {name for name in wanted if is_free(name)}
        self._given: set[str] = set()
        self._counts: dict[str, int] = {}

    def give(self, wanted: str) -> str:
        """An identifier that was not given before."""
        if wanted in self._wanted and wanted not in self._given:
            self._given.add(wanted)
            return wanted
        stem = re.sub(r"\W", "_", wanted, flags=re.ASCII).lstrip("_") or "value"
        if stem[0].isdigit():
            stem = f"_{stem}"
        count = self._counts.get(stem, 0)
        while True:
            count += 1
            name = f"{stem}_{count}"
            if name not in self._wanted and name not in self._given:
                self._counts[stem] = count
                self._given.add(name)
                return name

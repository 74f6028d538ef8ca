"""What an object reaches, functions' variables included, which `copy` and `vars` do not follow."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Mapping
from types import CellType, FunctionType, MethodType
from typing import Any

Memo = type(functools.lru_cache(len))
"""What `functools.lru_cache` makes of a function."""


def reached(value: Any) -> Iterator[Any]:
    """What is one step away from an object."""
    if isinstance(value, Mapping):
        yield from list(dict.values(value) if isinstance(value, dict) else value.values())
    elif isinstance(value, (list, tuple, deque, set, frozenset)):
        yield from list(value)
    elif isinstance(value, FunctionType):
        yield from (*(value.__closure__ or ()), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    elif isinstance(value, CellType):
        yield from content(value)
    elif isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, property):
        yield from (value.fget, value.fset)
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        yield from list(own.values())
    yield from (getattr(value, slot) for slot in slots(type(value)) if hasattr(value, slot))


def content(cell: CellType) -> tuple[Any, ...]:
    """What a variable of an enclosing function holds; nothing where it has no value yet."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def slots(kind: type) -> Iterator[str]:
    """The slots that a class and its bases declare, as attributes."""
    for base in kind.__mro__:
        declared = base.__dict__.get("__slots__", ())
        if base.__module__.split(".")[0] not in ("torch", "builtins"):
            for slot in (declared,) if isinstance(declared, str) else declared:
                is_private = slot.startswith("__") and not slot.endswith("__")
                name = f"_{base.__name__.lstrip('_')}{slot}" if is_private else slot
                if name not in ("__dict__", "__weakref__"):
                    yield name


def emptied(memo: Any) -> Any:
    """The same function with a cache of its own."""
    return functools.lru_cache(**memo.cache_parameters())(memo.__wrapped__)

"""Deep copies that include what functions close over.

`copy.deepcopy` takes a function as it is. A hook or callback that closes over its module then goes on acting on the original.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import torch

from modelguard.runtime.reaching import Memo, content, emptied, reached

Thing = TypeVar("Thing")


def deep_copied(thing: Thing, ready: Mapping[int, Any] | None = None) -> Thing:
    """A copy that shares nothing mutable with the original but classes and modules.

    Args:
        thing: what to copy.
        ready: copies to use, by the identity of their originals.

    Raises:
        Exception: whatever an object in it raises that cannot be copied.
    """
    memo: dict[int, Any] = dict(ready or {})
    cells: dict[int, tuple[CellType, CellType]] = {}
    for value in _all_reached(thing):
        if isinstance(value, ModuleType):
            memo[id(value)] = value
        elif isinstance(value, Memo):
            memo[id(value)] = emptied(value)
        elif isinstance(value, FunctionType) and value.__closure__:
            memo[id(value)] = _with_own_cells(value, cells)
    methods = _METHODS[MethodType]
    _METHODS[MethodType] = _copied_method
    try:
        copied = copy.deepcopy(thing, memo)
        for original, own in cells.values():
            for value in content(original):
                own.cell_contents = copy.deepcopy(value, memo)
    finally:
        _METHODS[MethodType] = methods
    return copied


_METHODS: dict[type, Any] = getattr(copy, "_deepcopy_dispatch")  # noqa: B009


def _copied_method(method: MethodType, memo: dict[int, Any]) -> MethodType:
    """Bound to a copy, as `copy` does it, and of the copied function."""
    return MethodType(memo.get(id(method.__func__), method.__func__), copy.deepcopy(method.__self__, memo))


def _with_own_cells(function: FunctionType, cells: dict[int, tuple[CellType, CellType]]) -> FunctionType:
    closure = function.__closure__ or ()
    own = tuple(cells.setdefault(id(cell), (cell, CellType()))[1] for cell in closure)
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, own)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(vars(function))
    made.__qualname__, made.__module__, made.__doc__ = function.__qualname__, function.__module__, function.__doc__
    return made


def _all_reached(thing: Any) -> Iterator[Any]:
    """All that is reached from something but through classes and modules, each once."""
    seen: set[int] = set()
    waiting = [thing]
    # What is made on the way lives as long, or another object could get its address.
    kept = []
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, (type, torch.Tensor, str, bytes, int, float)):
            continue
        seen.add(id(value))
        kept.append(value)
        yield value
        if not isinstance(value, ModuleType):
            waiting += reached(value)

"""Deep copies that include what functions close over.

`copy.deepcopy` takes a function as it is. A hook or callback that closes over its module then goes on acting on the original.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import torch
from torch import nn

from modelguard.runtime.errors import CopyError
from modelguard.runtime.reaching import Memo, content, emptied, reached, slots

Thing = TypeVar("Thing")


def deep_copied(thing: Thing, ready: Mapping[int, Any] | None = None) -> Thing:
    """A copy that shares nothing mutable with the original but classes and modules.

    Args:
        thing: what to copy.
        ready: copies to use, by the identity of their originals.

    Raises:
        CopyError: an object in it cannot be copied; the message has its path and class.
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
    except Exception as error:
        # Classes say in their own ways that they cannot be copied.
        path, culprit = _culprit(thing)
        raise CopyError(
            f"{path} ({type(culprit).__module__}.{type(culprit).__qualname__}) cannot be copied: {' '.join(str(error).split())}; "
            "detach what is computed with gradients, or give the class a __deepcopy__"
        ) from None
    finally:
        _METHODS[MethodType] = methods
    return copied


def _culprit(thing: Any) -> tuple[str, Any]:
    """The innermost part of `thing` that cannot be copied, and its path."""
    path, met = "", {id(thing)}
    while True:
        for suffix, part in _parts(thing):
            if id(part) not in met and not _can_be_copied(part):
                met.add(id(part))
                path, thing = f"{path}{suffix}" if path else _root(suffix, part), part
                break
        else:
            return path or "it", thing


def _root(suffix: str, part: Any) -> str:
    return "self" if isinstance(part, nn.Module) else f"input{suffix}"


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, dict):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, (list, tuple)):
        yield from ((f"[{index}]", value) for index, value in enumerate(thing))
    own = dict(vars(thing)) if hasattr(thing, "__dict__") and not isinstance(thing, (type, ModuleType)) else {}
    if isinstance(thing, nn.Module):
        for table in ("_parameters", "_buffers", "_modules"):
            own |= own.pop(table)
    yield from ((f".{name}", value) for name, value in own.items())
    yield from ((f".{slot}", getattr(thing, slot)) for slot in slots(type(thing)) if hasattr(thing, slot))


def _can_be_copied(part: Any) -> bool:
    try:
        copy.deepcopy(part)
    except Exception:
        return False
    return True


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

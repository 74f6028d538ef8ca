"""The Python state that can be reached from a module: which objects there are, and what each holds."""

from __future__ import annotations

import collections
import enum
import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

LIMIT = 200_000
"""Objects looked at in one walk, so that a model that holds a whole library still ends."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, enum.Enum, torch.dtype, torch.device, torch.Size)
_OPAQUE = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    types.GeneratorType,
    torch.Generator,
)
_OPAQUE_MODULES = tuple("torch. threading logging weakref functools _thread builtins importlib inspect typing".split())


class Node(NamedTuple):
    """One object met: by which path, and what it held (the values are kept, so that no id is given out twice)."""

    path: str
    value: Any
    held: dict[Any, Any]
    kept: tuple[Any, ...]


def token(value: Any, depth: int = 3) -> Any:
    """Something that equals itself as long as the value means the same: plain values by value, all else by identity."""
    if isinstance(value, float):
        return ("float", repr(value))
    if isinstance(value, _PLAIN):
        return (type(value).__name__, value)
    if type(value) is tuple and depth:
        return tuple(token(item, depth - 1) for item in value)
    return id(value)


def content(value: Any) -> dict[Any, Any] | None:
    """What an object holds, by key; None for what is not looked into."""
    if isinstance(value, torch.Tensor):
        return None
    if isinstance(value, nn.Module):
        return dict(vars(value))
    if isinstance(value, dict):
        return dict(value) if type(value) is dict else dict(dict.items(value))
    if isinstance(value, (list, collections.deque)):
        return dict(enumerate(list(value)))
    if type(value) is tuple:
        return dict(enumerate(value))
    if isinstance(value, (set, frozenset)):
        return {(token(item), "member"): item for item in list(value)}
    if isinstance(value, functools._lru_cache_wrapper):
        information = value.cache_info()
        return {"calls": information.hits + information.misses}
    if isinstance(value, _PLAIN) or isinstance(value, _OPAQUE):
        return None
    if type(value).__module__.startswith(_OPAQUE_MODULES):
        return None
    attributes = getattr(value, "__dict__", None)
    held = dict(attributes) if isinstance(attributes, dict) else {}
    for name in _slots(type(value)):
        if name not in held and (item := getattr(value, name, value)) is not value:
            held[name] = item
    return held or ({} if isinstance(attributes, dict) else None)


def _slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def tensor_identity(value: torch.Tensor) -> dict[Any, Any]:
    """What in a tensor changes when its storage is swapped under it."""
    try:
        storage = value.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        storage = id(value)
    return {
        "storage": storage,
        "shape": tuple(value.shape),
        "dtype": str(value.dtype),
        "requires_grad": value.requires_grad,
        "grad": id(value.grad) if value.is_leaf else None,
    }


def held_tokens(value: Any) -> dict[Any, Any] | None:
    """The shallow state of one object, comparable between two moments."""
    if isinstance(value, torch.Tensor):
        return tensor_identity(value)
    held = content(value)
    if held is None:
        return None
    return {_key(key): token(item) for key, item in held.items()}


def _key(key: Any) -> Any:
    return key if isinstance(key, (str, int)) else token(key)


def walk(roots: Iterable[tuple[str, Any]]) -> dict[int, Node]:
    """Every object that can be reached from the roots, by id; the first path met names it."""
    nodes: dict[int, Node] = {}
    pending: collections.deque[tuple[str, Any]] = collections.deque(roots)
    while pending and len(nodes) < LIMIT:
        path, value = pending.popleft()
        if id(value) in nodes:
            continue
        if isinstance(value, torch.Tensor):
            nodes[id(value)] = Node(path, value, tensor_identity(value), ())
            extra = {k: v for k, v in (getattr(value, "__dict__", None) or {}).items() if isinstance(v, torch.Tensor)}
            pending.extend((f"{path}.{name}", item) for name, item in extra.items())
            continue
        held = content(value)
        if held is None:
            continue
        tokens = {_key(key): token(item) for key, item in held.items()}
        nodes[id(value)] = Node(path, value, tokens, tuple(held.values()))
        for key, item in held.items():
            if isinstance(item, _PLAIN):
                continue
            pending.append((_extend(path, value, key), item))
    return nodes


def _extend(path: str, value: Any, key: Any) -> str:
    if isinstance(value, (dict, list, tuple, collections.deque, set, frozenset)):
        return f"{path}[{key!r:.60}]"
    return f"{path}.{key}"

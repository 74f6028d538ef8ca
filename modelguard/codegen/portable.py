"""Constants as plain values and tensors, which torch's safe loader reads back without running anything.

What is not plain becomes `(tag, ...)`, a tuple whose first item is one of the tags below; so do tuples themselves.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree

from modelguard.codegen.names import qualified_name

_PLAIN = (type(None), bool, float, str, complex, torch.dtype, torch.device, torch.Size)
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_DEEPEST = 200
_LONGEST_INT = 2000
"""Bits; the safe loader reads integers of at most 255 bytes."""


class NotPortable(Exception):
    """A constant cannot leave the process, or cannot come back; the text says which and why."""


def pack(value: Any, depth: int = 0) -> Any:
    """`value` as plain values.

    Raises:
        NotPortable: it, or something in it, is of no known kind.
    """
    if depth > _DEEPEST:
        raise NotPortable("its containers are nested too deeply, or hold themselves")
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if value.bit_length() <= _LONGEST_INT else ("int", hex(value))
    if kind is bytes:
        # The safe loader does not know how empty ones are pickled.
        return ("bytes", value.decode("latin-1"))
    if kind in _TENSORS:
        if not value.is_leaf:
            raise NotPortable("a tensor that was computed with gradients depends on others; detach it")
        if value.device.type == "meta" or value.is_quantized:
            raise NotPortable(f"a {value.device.type} tensor of type {value.dtype} has no content to keep")
        if kind is torch.nn.Parameter:
            return ("parameter", value.detach(), value.requires_grad)
        return ("leaf", value.detach()) if value.requires_grad else value
    if kind in _CONTAINERS:
        return (_CONTAINERS[kind], [pack(item, depth + 1) for item in value])
    if kind is dict:
        return ("dict", [(pack(key, depth + 1), pack(item, depth + 1)) for key, item in value.items()])
    if kind is slice:
        return ("slice", [pack(bound, depth + 1) for bound in (value.start, value.stop, value.step)])
    if kind is range:
        return ("range", [value.start, value.stop, value.step])
    if value is Ellipsis or value is NotImplemented:
        return ("name", ("builtins", repr(value)))
    if isinstance(value, (torch.layout, torch.memory_format)):
        return ("torch", str(value).removeprefix("torch."))
    if isinstance(value, _pytree.TreeSpec):
        return ("treespec", _dumped(value))
    if isinstance(value, enum.Flag):
        return ("flag", _reference(kind), value.value)
    if isinstance(value, enum.Enum):
        return ("enum", _reference(kind), value.name)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        _has_only(value, ())
        return ("namedtuple", _reference(kind), [pack(item, depth + 1) for item in value])
    if dataclasses.is_dataclass(kind) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        _has_only(value, names)
        if not all(hasattr(value, name) for name in names):
            raise NotPortable(f"{kind.__qualname__} has a field without a value")
        return ("dataclass", _reference(kind), [(name, pack(getattr(value, name), depth + 1)) for name in names])
    if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return ("torch", f"ops.{value}")
    if callable(value):
        return _named(value)
    raise NotPortable(f"{_shown(value)} is neither a plain value nor importable by name")


def unpack(packed: Any) -> Any:
    """What `pack` was given.

    Raises:
        NotPortable: it names something that does not exist here.
    """
    if type(packed) is not tuple:
        return packed
    tag, *content = packed
    try:
        return _UNPACKERS[tag](*content)
    except NotPortable:
        raise
    except Exception as error:
        # What is named is imported and called: it can raise anything.
        raise NotPortable(f"{tag} {_shown(content)}: {type(error).__name__}: {error}") from error


def _items(make: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    return lambda items: make(unpack(item) for item in items)


def _parameter(data: torch.Tensor, requires_grad: bool) -> torch.nn.Parameter:
    return torch.nn.Parameter(data, requires_grad=requires_grad)


def _leaf(data: torch.Tensor) -> torch.Tensor:
    return data.requires_grad_()


def _named_tuple(reference: tuple[str, str], items: list[Any]) -> Any:
    kind = _resolved(reference)
    if len(items) != len(kind._fields):
        raise NotPortable(f"`{'.'.join(reference)}` has other fields by now")
    # Its own `__new__` may change what it is given.
    return tuple.__new__(kind, map(unpack, items))


def _dataclass(reference: tuple[str, str], fields: list[tuple[str, Any]]) -> Any:
    kind = _resolved(reference)
    if [name for name, _ in fields] != [field.name for field in dataclasses.fields(kind)]:
        raise NotPortable(f"`{'.'.join(reference)}` has other fields by now")
    # `__init__` and `__post_init__` ran when the value was made, and may not take what they made of it.
    made = object.__new__(kind)
    for name, item in fields:
        object.__setattr__(made, name, unpack(item))
    return made


def _torch_object(name: str) -> Any:
    found: Any = torch
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
        if found is None:
            raise NotPortable(f"torch.{name} does not exist here; import the library that registers it, or use the same torch")
    return found


_CONTAINERS: dict[type, str] = {tuple: "tuple", list: "list", set: "set", frozenset: "frozenset"}
_UNPACKERS: dict[str, Callable[..., Any]] = {
    "int": lambda text: int(text, 16),
    "bytes": lambda text: text.encode("latin-1"),
    "parameter": _parameter,
    "leaf": _leaf,
    "tuple": _items(tuple),
    "list": _items(list),
    "set": _items(set),
    "frozenset": _items(frozenset),
    "dict": lambda pairs: {unpack(key): unpack(item) for key, item in pairs},
    "slice": lambda bounds: slice(*map(unpack, bounds)),
    "range": lambda bounds: range(*bounds),
    "torch": _torch_object,
    "treespec": lambda text: _pytree.treespec_loads(text),
    "flag": lambda reference, value: _resolved(reference)(value),
    "enum": lambda reference, name: _resolved(reference)[name],
    "namedtuple": _named_tuple,
    "dataclass": _dataclass,
    "name": lambda reference: _resolved(reference),
}


def _dumped(spec: _pytree.TreeSpec) -> str:
    try:
        text = _pytree.treespec_dumps(spec)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise NotPortable(f"the structure of the arguments or results has no text: {error}") from None
    if _pytree.treespec_loads(text) != spec:
        # JSON makes lists of tuples that are keys.
        raise NotPortable("the structure of the arguments or results has keys that come back different; use texts or numbers")
    return text


def _named(value: Callable[..., Any]) -> tuple[Any, ...]:
    try:
        return ("name", _reference(value))
    except NotPortable:
        # Functions of torch that are written in C++ name no module.
        name = qualified_name(value)
        if name is None or not name.startswith("torch."):
            raise
        return ("torch", name.removeprefix("torch."))


def _reference(value: Any) -> tuple[str, str]:
    """The module and qualified name under which `value` can be imported."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise NotPortable(f"{_shown(value)} has no name to import it by")
    if module == "__main__":
        raise NotPortable(f"`{name}` is defined in the script that runs; move it to a module that can be imported")
    found: Any = sys.modules.get(module)
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    if found is not value:
        raise NotPortable(f"`{module}.{name}` cannot be imported by that name; define it at the top of its module")
    return module, name


def _resolved(reference: tuple[str, str]) -> Any:
    module, name = reference
    try:
        found: Any = importlib.import_module(module)
        for attribute in name.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError):
        raise NotPortable(f"`{module}.{name}` cannot be imported here") from None
    return found


def _has_only(value: object, names: Sequence[str]) -> None:
    """Raises NotPortable if an object has attributes besides those: they would be lost."""
    others = sorted(getattr(value, "__dict__", {}).keys() - set(names))
    if others:
        raise NotPortable(f"{_shown(value)} has attributes besides its fields ({', '.join(others)}), which would be lost")


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return f"{text[:57]}..." if len(text) > 60 else text

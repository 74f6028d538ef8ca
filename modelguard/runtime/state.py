"""All that a model keeps between steps, as a table from path to value."""

from __future__ import annotations

import functools
import numbers
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any

import torch
from torch import nn

from modelguard.runtime.dynamo import hooks_of
from modelguard.runtime.reaching import Memo, content, emptied, reached, slots
from modelguard.runtime.side_effects import is_model

_ATOMS = (numbers.Number, str, bytes, type(None), torch.dtype, torch.device, torch.Size, Enum, range)
_SKIPPED = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType, torch.Generator)
_CODE = (types.FunctionType, types.MethodType, types.CellType, functools.partial, property, staticmethod, classmethod, Memo)
_CONTAINERS = (Mapping, list, tuple, deque, set, frozenset)
_RECORDS = frozenset(("argparse", "types"))
"""Modules of Python's own whose objects are plain records; those of others, such as loggers and locks, are nobody's state."""

_DEEPEST = 30
_OWN_TABLES = frozenset(vars(nn.Module())) - {"training"}
"""What torch keeps in each module for itself."""


def state_of(model: nn.Module) -> dict[str, Any]:
    """Path to value: tensors as they are, not copied; atoms; and how many items each container has.

    Besides the module's tree: the objects it reaches, its classes' attributes, the globals of the Python modules that define
    them, and the variables that their functions close over.
    """
    table: dict[str, Any] = {}
    walker = _Walker(table)
    walker.add("self", model, 0)
    owners = _owners(model)
    tops = _tops(owners)
    for owner in owners:
        name = owner.__name__ if isinstance(owner, type) else owner.__name__.rpartition(".")[2]
        for key, value in list(vars(owner).items()):
            if not key.startswith("__") and _is_own(value, tops):
                walker.add(f"{name}.{key}", value, 1)
    return table


def table_of(path: str, value: Any) -> dict[str, Any]:
    """The same of any value, such as what a model returns or is given."""
    table: dict[str, Any] = {}
    _Walker(table).add(path, value, 0)
    return table


def tensors_of(value: Any) -> list[torch.Tensor]:
    """All tensors in a value, in an order that its structure gives."""
    return [item for item in table_of("", value).values() if isinstance(item, torch.Tensor)]


def copied(table: Mapping[str, Any]) -> dict[str, Any]:
    """The same with tensors of its own, for comparing later."""
    return {path: value.detach().clone() if isinstance(value, torch.Tensor) else value for path, value in table.items()}


def storages(table: Mapping[str, Any]) -> dict[int, str]:
    """The path of each piece of memory, by its address."""
    found: dict[int, str] = {}
    for path, value in table.items():
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            found.setdefault(value.untyped_storage()._cdata, path)
    return found


class _Walker:
    def __init__(self, table: dict[str, Any]) -> None:
        self._table = table
        self._seen: dict[int, object] = {}

    def add(self, path: str, value: Any, depth: int) -> None:
        if isinstance(value, (torch.Tensor, *_ATOMS)):
            self._table[path] = value
            return
        if id(value) in self._seen or depth > _DEEPEST or _is_opaque(value):
            return
        # Kept alive, or another object could get its address.
        self._seen[id(value)] = value
        for key, item in _parts(value, self._table, path):
            self.add(f"{path}{key}", item, depth + 1)


def _parts(value: Any, table: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, _CODE):
        yield from _variables(value)
    elif isinstance(value, Mapping):
        table[f"len({path})"] = len(value)
        for index, (key, item) in enumerate(_pairs(value)):
            yield f"[{_key(key, index)}]", item
    elif isinstance(value, (list, tuple, deque)):
        table[f"len({path})"] = len(value)
        for index, item in enumerate(list(value)):
            yield f"[{index}]", item
    elif isinstance(value, (set, frozenset)):
        atoms = all(isinstance(item, _ATOMS) for item in value)
        table[path] = frozenset(value) if atoms else len(value)
    elif isinstance(value, nn.Module):
        for attributes in (value._parameters, value._buffers, value._modules):
            yield from ((dotted(key), item) for key, item in list(attributes.items()))
        yield from ((f".{name}", list(getattr(value, name).values())) for name in hooks_of(value))
    elif (raw := _bytes(value)) is not None:
        table[path] = raw
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict) and not _is_torchs(value):
        for key, item in list(own.items()):
            # Records that are dictionaries as well hold everything twice.
            if not (isinstance(value, nn.Module) and key in _OWN_TABLES) and not (isinstance(value, dict) and key in value):
                yield f".{key}", item
    yield from ((f".{slot}", getattr(value, slot)) for slot in slots(type(value)) if hasattr(value, slot))


def _variables(code: Any) -> Iterator[tuple[str, Any]]:
    """What a function keeps between calls: variables of enclosing functions, and default values that can change."""
    if _is_torchs(code):
        # A decorator of torch's, which has affairs of its own.
        yield from (("", item) for item in [getattr(code, "__wrapped__", None)] if item is not None)
    elif isinstance(code, types.FunctionType):
        for name, cell in zip(code.__code__.co_freevars, code.__closure__ or (), strict=True):
            yield from ((f".{name}", item) for item in content(cell) if name != "__class__")
        for item in (*(code.__defaults__ or ()), *(code.__kwdefaults__ or {}).values()):
            if not isinstance(item, _ATOMS):
                yield ".__defaults__", item
    else:
        yield from (("", item) for item in reached(code) if not isinstance(item, _ATOMS))


def _is_torchs(value: object) -> bool:
    return isinstance(value, types.FunctionType) and not is_model(value.__code__.co_filename)


def _bytes(value: Any) -> bytes | None:
    """The content of arrays that are not torch's."""
    try:
        view = memoryview(value)
    except (TypeError, ValueError, BufferError):
        return None
    return None if "O" in view.format else view.tobytes()


def dotted(name: str) -> str:
    """The step from a module to a child, in a path."""
    return f"[{name}]" if name.isdigit() else f".{name}"


def _key(key: object, index: int) -> str:
    plain = isinstance(key, _ATOMS) or (isinstance(key, tuple) and all(isinstance(part, _ATOMS) for part in key))
    return repr(key) if plain else f"{type(key).__name__} {index}"


def _is_opaque(value: object) -> bool:
    if isinstance(value, _SKIPPED):
        return True
    if isinstance(value, (nn.Module, *_CONTAINERS, *_CODE)):
        return False
    top = type(value).__module__.split(".")[0]
    if top == "torch":
        return True
    return top in sys.stdlib_module_names and top not in _RECORDS and _bytes(value) is None


def _owners(model: nn.Module) -> list[Any]:
    """The classes of a model's modules that are neither torch's nor Python's, and the Python modules that define them."""
    classes = {base: None for module in model.modules() for base in type(module).__mro__ if not _is_foreign(base)}
    modules = {sys.modules[base.__module__]: None for base in classes if base.__module__ in sys.modules}
    # Those that are no modules themselves, such as a context that layers share.
    others = {
        value: None
        for module in modules
        for value in list(vars(module).values())
        if isinstance(value, type) and value.__module__ == module.__name__
    }
    return [*{**classes, **others}, *modules]


def _is_foreign(kind: type) -> bool:
    top = kind.__module__.split(".")[0]
    return top == "torch" or top in sys.stdlib_module_names


def _tops(owners: list[Any]) -> frozenset[str]:
    names = (owner.__module__ if isinstance(owner, type) else owner.__name__ for owner in owners)
    return frozenset((*(name.split(".")[0] for name in names), "torch", *_RECORDS))


def _is_own(value: Any, tops: frozenset[str]) -> bool:
    """Is it a plain value, or of the model's own packages? What else there is in a module is nobody's state, such as a client."""
    if isinstance(value, _SKIPPED):
        return False
    if isinstance(value, (types.FunctionType, Memo)):
        return str(value.__module__).split(".")[0] in tops - {"torch"}
    if isinstance(value, (torch.Tensor, *_ATOMS, *_CONTAINERS, *_CODE)):
        return True
    return type(value).__module__.split(".")[0] in tops or _bytes(value) is not None


@contextmanager
def apart(model: nn.Module) -> Iterator[None]:
    """Let copies of a model run without leaving traces in what all copies share.

    Class attributes, globals, what they hold and what functions close over are put back at the end; memos of functions are empty
    at the start, and those of before are back at the end.
    """
    owners = _owners(model)
    restorers = _restorers(owners)
    try:
        yield
    finally:
        for restore in reversed(restorers):
            restore()


def _restorers(owners: list[Any]) -> list[Callable[[], None]]:
    tops = _tops(owners)
    restorers: list[Callable[[], None]] = []
    fresh: dict[int, Any] = {}
    kept: dict[int, Any] = {}
    waiting: list[Any] = []
    for owner in owners:
        before = {name: value for name, value in vars(owner).items() if not name.startswith("__")}
        restorers.append(functools.partial(_put_names, owner, before))
        for name, value in before.items():
            inner = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            if isinstance(inner, Memo):
                empty = fresh.setdefault(id(inner), emptied(inner))
                setattr(owner, name, empty if inner is value else type(value)(empty))
        waiting += before.values()
    while waiting:
        value = waiting.pop()
        if id(value) in kept or isinstance(value, _ATOMS) or not (isinstance(value, _CODE) or _is_own(value, tops)):
            continue
        kept[id(value)] = value
        restorers += _putting_back(value)
        waiting += reached(value)
        if isinstance(value, types.CellType):
            for memo in content(value):
                if isinstance(memo, Memo):
                    value.cell_contents = fresh.setdefault(id(memo), emptied(memo))
    return restorers


def _putting_back(value: Any) -> Iterator[Callable[[], None]]:
    """What gives one object back what it holds now, not what that holds in turn."""
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided and not value.is_quantized:
            yield functools.partial(_put_tensor, value, value.data, value.detach().clone())
    elif isinstance(value, types.CellType):
        yield functools.partial(_put_content, value, content(value))
    elif isinstance(value, dict):
        yield functools.partial(_put_items, value, dict(_pairs(value)), functools.partial(_fill, value))
    elif isinstance(value, set):
        yield functools.partial(_put_items, value, value.copy(), value.update)
    elif isinstance(value, (list, deque)):
        yield functools.partial(_put_items, value, value.copy(), value.extend)
    elif isinstance(value, bytearray) or hasattr(value, "__array_interface__"):
        with suppress(TypeError, ValueError):
            yield functools.partial(_put_bytes, memoryview(value).cast("B"), bytes(memoryview(value)))
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        yield functools.partial(_put_items, own, own.copy(), own.update)
    for slot in slots(type(value)):
        if hasattr(value, slot):
            yield functools.partial(object.__setattr__, value, slot, getattr(value, slot))


def _put_names(owner: Any, before: Mapping[str, Any]) -> None:
    for name, value in list(vars(owner).items()):
        if name not in before and not name.startswith("__") and not isinstance(value, (*_SKIPPED, *_CODE)):
            delattr(owner, name)
    for name, value in before.items():
        if vars(owner).get(name) is not value:
            setattr(owner, name, value)


def _put_tensor(tensor: torch.Tensor, memory: torch.Tensor, values: torch.Tensor) -> None:
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        if tensor.data_ptr() != memory.data_ptr() or tensor.size() != memory.size() or tensor.stride() != memory.stride():
            tensor.data = memory
        # Behind autograd's back: writing what was there is no reason to call a saved tensor changed.
        if not torch.equal(tensor, values):
            tensor.data.copy_(values)


def _put_content(cell: types.CellType, before: tuple[Any, ...]) -> None:
    for value in before:
        cell.cell_contents = value


def _put_items(container: Any, before: Any, fill: Callable[[Any], None]) -> None:
    # What did not change is not touched: somebody may be reading it.
    if len(container) != len(before) or any(map(_is_other, _items(container), _items(before))):
        container.clear()
        fill(before)


def _items(container: Any) -> list[Any]:
    return [part for pair in _pairs(container) for part in pair] if isinstance(container, dict) else list(container)


def _pairs(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """Keys and values as they lie there: a subclass may make something new of each item that is asked for."""
    return list(dict.items(mapping) if isinstance(mapping, dict) else mapping.items())


def _fill(container: dict[Any, Any], before: dict[Any, Any]) -> None:
    plain = OrderedDict if isinstance(container, OrderedDict) else dict
    for key, value in before.items():
        plain.__setitem__(container, key, value)


def _is_other(value: object, before: object) -> bool:
    return value is not before


def _put_bytes(memory: memoryview, before: bytes) -> None:
    if not memory.readonly:
        memory[:] = before

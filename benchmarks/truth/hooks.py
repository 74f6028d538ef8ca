"""Hooks that see writes as they happen: attribute stores, registrations, and kernels that write memory of the state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from truth.record import Observer, SharedState


def store_kind(owner: Any, attribute: str, old: Any, new: Any) -> str:
    """What is being replaced, in the words of the rules."""
    if not isinstance(owner, nn.Module):
        return "foreign"
    if attribute in owner._buffers:
        return "buffer"
    if attribute in owner._parameters or isinstance(new, nn.Parameter):
        return "parameter"
    if isinstance(new, nn.Module):
        return "module"
    if isinstance(old, torch.Tensor) or isinstance(new, torch.Tensor):
        return "tensor"
    return "python"


@contextmanager
def attribute_hooks(observer: Observer) -> Iterator[None]:
    """Sees each `__setattr__`, `__delattr__` and registration on modules and on the plain objects they hold."""
    kinds: set[type] = {nn.Module}
    for node in observer.nodes.values():
        kind = type(node.value)
        if kind.__flags__ & (1 << 9) and not issubclass(kind, (nn.Module, torch.Tensor, dict, list, set, SharedState)):
            kinds.add(kind)
    with ExitStack() as undo:
        for kind in kinds:
            _hook_stores(observer, kind, undo)
        for method in ("register_buffer", "register_parameter", "add_module"):
            _hook_registration(observer, method, undo)
        for method in _HOOKS:
            _hook_hooking(observer, method, undo)
        yield


def _hook_stores(observer: Observer, kind: type, undo: ExitStack) -> None:
    store, delete = kind.__setattr__, kind.__delattr__

    def hooked_store(self: Any, name: str, value: Any) -> None:
        if observer.active and id(self) in observer.nodes:
            old = getattr(self, "__dict__", {}).get(name)
            observer.store(self, name, store_kind(self, name, old, value))
        store(self, name, value)
        if observer.active:
            observer.adopt(self, name, value)

    def hooked_delete(self: Any, name: str) -> None:
        observer.store(self, name, "deleted")
        delete(self, name)

    for name, replacement in (("__setattr__", hooked_store), ("__delattr__", hooked_delete)):
        own = kind.__dict__.get(name)
        try:
            setattr(kind, name, replacement)
        except (TypeError, AttributeError):
            continue
        undo.callback(_restore, kind, name, own)


def _restore(kind: type, name: str, own: Any) -> None:
    if own is None:
        delattr(kind, name)
    else:
        setattr(kind, name, own)


def _hook_registration(observer: Observer, method: str, undo: ExitStack) -> None:
    original = getattr(nn.Module, method)

    def hooked(self: nn.Module, name: str, *args: Any, **kwargs: Any) -> Any:
        observer.store(self, name, "registered")
        result = original(self, name, *args, **kwargs)
        if observer.active and args:
            observer.adopt(self, name, args[0])
        return result

    setattr(nn.Module, method, hooked)
    undo.callback(setattr, nn.Module, method, original)


_HOOKS = (
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_backward_hook",
    "register_state_dict_post_hook",
)


def _hook_hooking(observer: Observer, method: str, undo: ExitStack) -> None:
    original = getattr(nn.Module, method)

    def hooked(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        observer.store(self, method, "hook")
        return original(self, *args, **kwargs)

    setattr(nn.Module, method, hooked)
    undo.callback(setattr, nn.Module, method, original)


_LYING = {"native_batch_norm": (3, 4), "cudnn_batch_norm": (3, 4), "_batch_norm_impl_index": (3, 4)}
"""Kernels that write running statistics and do not say so in their schema."""
_TRAINING_ARGUMENT = 5
_SWAPS = {"set_", "resize_", "resize_as_", "set_data", "swap_"}


class KernelWatch(TorchDispatchMode):
    """Sees each kernel whose mutated argument shares memory with the state."""

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self.observer = observer
        self.written: dict[Any, tuple[list[int], list[str]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.observer.active:
            for value in self._mutated(func, args, kwargs):
                self._check(func, value)
        return func(*args, **kwargs)

    def _mutated(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
        places = self.written.get(func)
        if places is None:
            places = self.written[func] = _written_arguments(func)
        name = getattr(func, "__name__", "").split(".")[0]
        if name in _LYING and len(args) > _TRAINING_ARGUMENT and args[_TRAINING_ARGUMENT]:
            yield from (args[index] for index in _LYING[name] if isinstance(args[index], torch.Tensor))
        values = [args[index] for index in places[0] if index < len(args)] + [kwargs[key] for key in places[1] if key in kwargs]
        for value in values:
            if isinstance(value, torch.Tensor):
                yield value
            elif isinstance(value, (list, tuple)):
                yield from (item for item in value if isinstance(item, torch.Tensor))

    def _check(self, func: Any, value: torch.Tensor) -> None:
        observer = self.observer
        try:
            known = observer.storages.get(value.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError):
            return
        if known is None:
            return
        path, kind = known
        name = getattr(func, "__name__", str(func)).split(".")[0]
        kind = "swapped" if name in _SWAPS and kind == "in-place" else kind
        observer.note(kind, path, name, observer.blame())


def _written_arguments(func: Any) -> tuple[list[int], list[str]]:
    schema = getattr(func, "_schema", None)
    if schema is None:
        return [], []
    positions, names = [], []
    for index, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            names.append(argument.name)
            if not argument.kwarg_only:
                positions.append(index)
    return positions, names

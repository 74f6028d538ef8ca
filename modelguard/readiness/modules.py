"""The modules of a model by path, and whose code a line of source is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.fx import Node

ROOT = ""
"""The path of the model itself, as `named_modules` has it."""

_START = re.compile(r"(?P<scope>[LG])\['(?P<name>\w+)'\]")
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<key>[^\]]*)\]")


class ModuleTree:
    """A model's modules, each under the first of its paths."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.by_path: dict[str, nn.Module] = dict(model.named_modules())
        self._paths = {id(module): path for path, module in self.by_path.items()}
        self._owners: dict[tuple[str, str], list[tuple[range, type]]] = {}
        for kind in dict.fromkeys(base for module in self.by_path.values() for base in type(module).__mro__):
            for code in _codes(kind):
                self._owners.setdefault((code.co_filename, code.co_name), []).append((_lines(code), kind))

    def path_of(self, module: nn.Module) -> str | None:
        """Where it is; None if it is not of this model."""
        return self._paths.get(id(module))

    def running(self, path: str, line: int, function: str) -> list[str]:
        """The modules whose own method a line of source belongs to."""
        for lines, kind in self._owners.get((path, function), ()):
            if line in lines and kind is not nn.Module:
                return [name for name, module in self.by_path.items() if isinstance(module, kind)]
        return []

    def of_node(self, node: Node, variables: tuple[Mapping[str, object], Mapping[str, object]], base: str | None) -> list[str]:
        """The modules that a node of a graph is in, the outermost first.

        Args:
            variables: the locals and globals that Dynamo's names of modules are to be read in; empty for other tracers.
            base: the module that these names start at, whose own code names nothing.
        """
        stack = node.meta.get("nn_module_stack")
        entries = (
            [entry for entry in stack.values() if isinstance(entry, tuple) and len(entry) == 2] if isinstance(stack, dict) else []
        )
        found = [] if base is None else [base]
        for name, _ in entries:
            path = self._named(str(name), variables)
            if path is not None and path not in found:
                found.append(path)
        return found

    def _named(self, name: str, variables: tuple[Mapping[str, object], Mapping[str, object]]) -> str | None:
        """The path of a module by a tracer's name for it: a path of its own, or Dynamo's `L['self'].layers[0].norm`."""
        start = _START.match(name)
        if start is None:
            return name if name in self.by_path else None
        found = variables[start["scope"] == "G"].get(start["name"])
        for step in _STEP.finditer(name, start.end()):
            found = _step(found, step["name"] or step["key"].strip("'\""))
        return self.path_of(found) if isinstance(found, nn.Module) else None

    def base(self, variables: Mapping[str, object]) -> str | None:
        """The module whose method has these local variables."""
        candidates = [variables.get("self"), *variables.values()]
        return next(
            (path for each in candidates if isinstance(each, nn.Module) and (path := self.path_of(each)) is not None), None
        )


@dataclass(slots=True)
class Ran:
    """What one eager call of a model did, module by module."""

    functions: dict[str, int]
    """How many of torch's functions the module itself called, by path."""

    outputs: dict[str, Any]
    """What it returned first."""

    def below(self, path: str) -> int:
        """How many functions a module and those in it called."""
        start = f"{path}." if path else ""
        return sum(count for name, count in self.functions.items() if name == path or name.startswith(start))


class _Counting(torch.overrides.TorchFunctionMode):
    def __init__(self, stack: list[str], counts: dict[str, int]) -> None:
        self._stack = stack
        self._counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._stack and not _is_reading(func):
            self._counts[self._stack[-1]] = self._counts.get(self._stack[-1], 0) + 1
        return func(*args, **(kwargs or {}))


def ran(tree: ModuleTree, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Ran:
    """Call a model eagerly, and tell what its modules did. The model is changed as by any call: pass the tree of a copy."""
    stack: list[str] = []
    counts: dict[str, int] = {}
    outputs: dict[str, Any] = {}
    with ExitStack() as undone:
        for path, module in tree.by_path.items():
            hooked = module
            if isinstance(module, torch.jit.ScriptModule):
                # It takes no hooks.
                hooked = _Calling(module)
                undone.enter_context(standing_in(tree, path, hooked))
            undone.callback(hooked.register_forward_pre_hook(_entered(path, stack, counts)).remove)
            undone.callback(hooked.register_forward_hook(_left(path, stack, outputs), always_call=True).remove)
        with torch.no_grad(), _Counting(stack, counts):
            tree.model(*args, **kwargs)
    return Ran(counts, outputs)


class _Calling(nn.Module):
    """A plain module that calls another one, which is none of its children."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._called = (module,)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._called[0](*args, **kwargs)


@contextmanager
def standing_in(tree: ModuleTree, path: str, other: nn.Module) -> Iterator[None]:
    """Have another module in the place of one, wherever that is a child."""
    module = tree.by_path[path]
    places = [
        (parent, name)
        for parent in tree.by_path.values()
        if not isinstance(parent, torch.jit.ScriptModule)
        for name, child in parent._modules.items()
        if child is module
    ]
    for parent, name in places:
        parent._modules[name] = other
    try:
        yield
    finally:
        for parent, name in places:
            parent._modules[name] = module


def _entered(path: str, stack: list[str], counts: dict[str, int]) -> Any:
    def note(module: nn.Module, args: Any) -> None:
        stack.append(path)
        counts.setdefault(path, 0)

    return note


def _left(path: str, stack: list[str], outputs: dict[str, Any]) -> Any:
    def note(module: nn.Module, args: Any, output: Any) -> None:
        stack.pop()
        outputs.setdefault(path, output)

    return note


def _step(value: object, name: str) -> object:
    """What a name or index leads to from a value, without running code of the model."""
    if isinstance(value, nn.Module):
        return value._modules.get(name, vars(value).get(name, value if name == "_modules" else None))
    if isinstance(value, Mapping):
        return value.get(name)
    if isinstance(value, (list, tuple)) and name.isdecimal() and int(name) < len(value):
        return value[int(name)]
    return getattr(value, "__dict__", {}).get(name)


def _is_reading(function: Any) -> bool:
    """Is it a tensor's property, such as `shape`, that no graph has a node for?"""
    return getattr(function, "__name__", "") == "__get__"


def _codes(kind: type) -> Iterator[CodeType]:
    for value in vars(kind).values():
        function = inspect.unwrap(value) if isinstance(value, FunctionType) else getattr(value, "fget", value)
        if isinstance(function, FunctionType):
            yield from _nested(function.__code__)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _nested(each)


def _lines(code: CodeType) -> range:
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return range(min(lines, default=0), max(lines, default=0) + 1)


def shown(path: str) -> str:
    """A module's path for people."""
    return path or "the model itself"


def same_code(tree: ModuleTree, path: str) -> Iterable[str]:
    """The modules that run the same `forward` as the one at `path`."""
    forward = inspect.getattr_static(type(tree.by_path[path]), "forward")
    return [name for name, module in tree.by_path.items() if inspect.getattr_static(type(module), "forward") is forward]

"""What is known of a model's state while it runs, and whom to blame for a write."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import nn

from truth.graph import Node, walk
from truth.sources import Sources

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Write(NamedTuple):
    """One statement that wrote: `name` is the file as `package/path.py`."""

    name: str
    line: int
    kind: str
    owner: str
    attribute: str


@dataclass
class Record:
    """All that was seen of one model."""

    writes: set[Write] = field(default_factory=set)
    executed: set[tuple[str, int]] = field(default_factory=set)
    unattributed: set[str] = field(default_factory=set)
    calls: int = 0


class Observer:
    """Knows the state of one model while it runs, and whom to blame for a write."""

    def __init__(self, sources: Sources, record: Record) -> None:
        self.sources = sources
        self.record = record
        self.nodes: dict[int, Node] = {}
        self.storages: dict[int, tuple[str, str]] = {}
        self.explained: set[tuple[int, str]] = set()
        self.active = False
        self.call_impl = nn.Module._call_impl.__code__

    def look(self, root: nn.Module, call: Call) -> dict[int, Node]:
        """Takes in what can be reached now, from the module first and from the arguments."""
        self.nodes = walk([("self", root), ("arg", call[0]), ("arg", call[1]), *shared_state(root, self.sources)])
        self.storages = {}
        for node in self.nodes.values():
            if isinstance(node.value, torch.Tensor):
                self.storages.setdefault(node.held["storage"], (node.path, _tensor_kind(node.path)))
        self.explained = set()
        return self.nodes

    def blame(self) -> tuple[str, int, bool] | None:
        """The innermost frame in an observed package, and whether a module of torch stands between it and the write."""
        frame: FrameType | None = sys._getframe(2)
        foreign = False
        while frame is not None:
            code: CodeType = frame.f_code
            name = self.sources.name_of(code.co_filename)
            if name is not None:
                return name, frame.f_lineno, foreign
            foreign = foreign or code is self.call_impl
            frame = frame.f_back
        return None

    def note(self, kind: str, owner: str, attribute: str, place: tuple[str, int, bool] | None) -> None:
        if place is None:
            self.record.unattributed.add(f"{kind} {owner}.{attribute}")
            return
        name, line, foreign = place
        statement = self.sources.statement_at(name, line)
        self.record.writes.add(Write(name, statement.first, "library-module" if foreign else kind, owner, attribute))

    def store(self, owner: Any, attribute: str, kind: str) -> None:
        """An attribute of something reachable is stored or deleted."""
        node = self.nodes.get(id(owner))
        if node is None or not self.active:
            return
        self.explained.add((id(owner), attribute))
        if isinstance(owner, nn.Module):
            self.explained.update((id(table), attribute) for table in (owner._buffers, owner._parameters, owner._modules))
        kind = "argument" if node.path.startswith("arg") else kind
        self.note(kind, type(owner).__qualname__, attribute, self.blame())

    def adopt(self, owner: Any, attribute: str, value: Any) -> None:
        """A tensor that was just stored in the state is state from now on."""
        if isinstance(value, torch.Tensor) and id(owner) in self.nodes:
            path = f"{self.nodes[id(owner)].path}.{attribute}"
            self.storages.setdefault(value.untyped_storage()._cdata, (path, _tensor_kind(path)))
            self.nodes.setdefault(id(value), Node(path, value, {}, ()))


def _tensor_kind(path: str) -> str:
    return "argument-in-place" if path.startswith("arg") else "in-place"


def shared_state(root: nn.Module, sources: Sources) -> list[tuple[str, Any]]:
    """Classes of the tree and globals of the files they come from, as dictionaries to look at."""
    found: dict[str, Any] = {}
    for module in root.modules():
        for kind in type(module).__mro__:
            origin = sys.modules.get(kind.__module__)
            filename = getattr(origin, "__file__", None)
            if origin is None or filename is None or sources.name_of(filename) is None or filename.endswith("__init__.py"):
                continue
            found.setdefault(f"class {kind.__qualname__}", SharedState(kind))
            found.setdefault(f"global {kind.__module__}", SharedState(origin))
    return list(found.items())


class SharedState:
    """A class or a file's globals, as an object whose attributes are those that may be state."""

    def __init__(self, holder: Any) -> None:
        self.holder = holder

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return {
            name: value
            for name, value in list(vars(self.holder).items())
            if not name.startswith("__") and (_may_be_state(value) or isinstance(value, functools._lru_cache_wrapper))
        }


def _may_be_state(value: Any) -> bool:
    return not callable(value) and not isinstance(value, (property, classmethod, staticmethod))

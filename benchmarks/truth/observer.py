"""Runs a model and records each write to its state, with the statement that made it.

Three observers run together: hooks on attribute stores, a dispatch mode that sees kernels writing memory of the state, and, in a
second run over a rebuilt model, a line tracer that compares what the first run saw changing. The tracer also records
which statements ran.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from truth.graph import Node, content, held_tokens, token, walk
from truth.sources import Sources

Call = tuple[tuple[Any, ...], dict[str, Any]]
Build = Callable[[], tuple[nn.Module, list[Call]]]

WATCHED_PER_CLASS = 4
"""Instances of one class and attribute that the tracer compares; the others do the same at the same lines."""


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
            if not name.startswith("__") and not callable(value) and not isinstance(value, (property, classmethod, staticmethod))
        }


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


class Change(NamedTuple):
    """Something that differed after a call: by path, since ids do not survive a rebuild."""

    path: str
    key: Any
    group: tuple[str, str]


def changes_of(before: dict[int, Node], explained: set[tuple[int, str]]) -> tuple[list[Change], list[Change]]:
    """What changed in objects known before, without and with an attribute store that explains it."""
    silent: list[Change] = []
    stored: list[Change] = []
    for key, node in before.items():
        now = held_tokens(node.value)
        if now is None or now == node.held:
            continue
        for name in {*now, *node.held}:
            if now.get(name, "missing") == node.held.get(name, "missing"):
                continue
            change = Change(node.path, name, (type(node.value).__qualname__ + "@" + _shape(node.path), str(name)))
            (stored if (key, name) in explained else silent).append(change)
    return silent, stored


def _shape(path: str) -> str:
    return "".join("#" if character.isdigit() else character for character in path)


@dataclass
class Watch:
    """One object and the keys of it that are compared at each line."""

    path: str
    value: Any
    keys: set[Any]
    silent: bool
    last: dict[Any, Any] = field(default_factory=dict)

    def look(self) -> dict[Any, Any]:
        held = content(self.value) if not isinstance(self.value, torch.Tensor) else None
        if held is None:
            return held_tokens(self.value) or {}
        if isinstance(self.value, (dict, list, set)) or type(self.value).__name__ == "deque":
            return {key if isinstance(key, (str, int)) else repr(token(key)): _deep(item) for key, item in held.items()}
        return {key: _deep(held[key]) for key in self.keys if key in held}


def _deep(value: Any, depth: int = 2) -> Any:
    """An item's token with what it holds, if it is a container: `(token, contents)`."""
    if isinstance(value, torch.Tensor):
        return (id(value), tuple(held_tokens(value).values()))  # type: ignore[union-attr]
    if isinstance(value, nn.Module) or depth == 0:
        return (token(value), None)
    if isinstance(value, (dict, list, set)) or type(value).__name__ == "deque":
        held = content(value) or {}
        return (id(value), tuple((token(key), _deep(item, depth - 1)) for key, item in held.items()))
    return (token(value), None)


class LineTracer:
    """Compares the watched objects at every line of the observed packages, and records which lines ran."""

    def __init__(self, observer: Observer, watches: list[Watch]) -> None:
        self.observer = observer
        self.watches = watches
        self.stack: list[list[Any]] = []
        self.executed: set[tuple[str, int]] = set()
        for watch in watches:
            watch.last = watch.look()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = self.observer.sources.name_of(frame.f_code.co_filename)
        if name is None:
            return None
        self._compare()
        self.stack.append([name, frame.f_lineno])
        return self._local

    def _local(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._compare()
            top = self.stack[-1]
            top[1] = frame.f_lineno
            self.executed.add((top[0], frame.f_lineno))
        elif event == "return":
            self._compare()
            self.stack.pop()
        return self._local

    def _compare(self) -> None:
        for watch in self.watches:
            now = watch.look()
            if now != watch.last:
                self._blame(watch, now)
                watch.last = now

    def _blame(self, watch: Watch, now: dict[Any, Any]) -> None:
        if not self.stack:
            return
        name, line = self.stack[-1]
        for key in {*now, *watch.last}:
            old, new = watch.last.get(key), now.get(key)
            if old == new:
                continue
            rebound = old is None or new is None or not isinstance(old, tuple) or not isinstance(new, tuple) or old[0] != new[0]
            if rebound and not watch.silent:
                continue
            self.observer.note(_change_kind(watch, rebound), watch.path, str(key), (name, line, False))


def _change_kind(watch: Watch, rebound: bool) -> str:
    if watch.path.startswith("arg"):
        return "argument"
    if watch.path.startswith(("class ", "global ")):
        return "shared"
    if isinstance(watch.value, torch.Tensor):
        return "swapped"
    if "_hooks" in watch.path:
        return "hook"
    if watch.path.endswith(("._buffers", "._parameters", "._modules")):
        return "registered"
    if isinstance(watch.value, nn.Module):
        return "attribute" if rebound else "container"
    if isinstance(watch.value, (dict, list, set)) or type(watch.value).__name__ == "deque":
        return "container"
    return "foreign"


def observe(build: Build, sources: Sources, training: bool) -> Record:
    """Runs the calls of a case twice, first to see what changes, then with the tracer to see where."""
    record = Record()
    silent: list[list[Change]] = []
    stored: list[list[Change]] = []
    root, calls = _fresh(build, training)
    for call in calls:
        try:
            before, explained = _run(Observer(sources, record), root, call, training, None)
        except Exception:
            if not silent:
                raise
            break
        found = changes_of(before, explained)
        silent.append(found[0])
        stored.append(found[1])
        del before
    del root
    gc.collect()
    root, calls = _fresh(build, training)
    record.calls = len(silent)
    for call, changes in zip(calls[: record.calls], zip(silent, stored, strict=True), strict=True):
        _run(Observer(sources, record), root, call, training, changes)
    return record


def _fresh(build: Build, training: bool) -> tuple[nn.Module, list[Call]]:
    torch.manual_seed(0)
    root, calls = build()
    root.train(training)
    torch.manual_seed(1)
    return root, calls


def _run(
    observer: Observer, root: nn.Module, call: Call, training: bool, changes: tuple[list[Change], list[Change]] | None
) -> tuple[dict[int, Node], set[tuple[int, str]]]:
    before = observer.look(root, call)
    watches = [] if changes is None else _watches(before, *changes)
    with attribute_hooks(observer), KernelWatch(observer), torch.set_grad_enabled(training):
        observer.active = True
        tracer = None if changes is None else LineTracer(observer, watches)
        try:
            if tracer is not None:
                sys.settrace(tracer)
            root(*call[0], **call[1])
        finally:
            sys.settrace(None)
            observer.active = False
            if tracer is not None:
                for name, line in tracer.executed:
                    observer.record.executed.add((name, observer.sources.statement_at(name, line).first))
    return before, observer.explained


def _watches(nodes: dict[int, Node], silent: list[Change], stored: list[Change]) -> list[Watch]:
    by_path = {node.path: node.value for node in nodes.values()}
    found: dict[tuple[str, bool], Watch] = {}
    seen: dict[tuple[tuple[str, str], bool], int] = {}
    for changes, is_silent in ((silent, True), (stored, False)):
        for change in changes:
            seen[change.group, is_silent] = count = seen.get((change.group, is_silent), 0) + 1
            if count > WATCHED_PER_CLASS or change.path not in by_path:
                continue
            watch = found.setdefault((change.path, is_silent), Watch(change.path, by_path[change.path], set(), is_silent))
            watch.keys.add(change.key)
    return list(found.values())

"""A line tracer that compares what is known to change, for writes that no hook sees, and records which lines ran."""

from __future__ import annotations

import collections
import functools
import re
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import nn

from truth.graph import Node, content, held_tokens, token
from truth.record import Observer

WATCHED_PER_CLASS = 4
"""Instances of one class and attribute that the tracer compares; the others do the same at the same lines."""

CONTAINERS = (dict, list, set, collections.deque)

WATCHED_LENGTH = 200
"""Longer containers are compared only if they were seen to change."""


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
    """One object and the keys of it that are compared at each line; of a cheap one only the length."""

    path: str
    value: Any
    keys: set[Any]
    silent: bool
    cheap: bool = False
    last: dict[Any, Any] = field(default_factory=dict)

    def look(self) -> dict[Any, Any]:
        if self.cheap:
            return {"length": len(self.value)}
        held = content(self.value) if not isinstance(self.value, torch.Tensor) else None
        if held is None:
            return held_tokens(self.value) or {}
        if isinstance(self.value, CONTAINERS):
            return {key if isinstance(key, (str, int)) else repr(token(key)): _deep(item) for key, item in held.items()}
        return {key: _deep(held[key]) for key in self.keys if key in held}


def _deep(value: Any, depth: int = 2) -> Any:
    """An item's token with what it holds, if it is a container: `(token, contents)`."""
    if isinstance(value, torch.Tensor):
        return (id(value), tuple(held_tokens(value).values()))  # type: ignore[union-attr]
    if isinstance(value, nn.Module) or depth == 0:
        return (token(value), None)
    if isinstance(value, CONTAINERS):
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
            self.observer.note(_change_kind(watch, key, rebound), watch.path, str(key), (name, line, False))


def _change_kind(watch: Watch, key: Any, rebound: bool) -> str:
    if isinstance(watch.value, functools._lru_cache_wrapper):
        return "memoised"
    if watch.path.startswith("arg"):
        return "argument"
    if watch.path.startswith(("class ", "global ")):
        return "shared"
    if isinstance(watch.value, torch.Tensor):
        return {"grad": "grad", "requires_grad": "requires-grad"}.get(key, "swapped")
    if "_hooks" in watch.path:
        return "hook"
    if watch.path.endswith(("._buffers", "._parameters", "._modules")):
        return "registered"
    if isinstance(watch.value, nn.Module):
        return "attribute" if rebound else "container"
    if isinstance(watch.value, CONTAINERS):
        return "container"
    return "foreign"


def watches_of(nodes: dict[int, Node], silent: list[Change], stored: list[Change]) -> list[Watch]:
    """What to compare at each line: all that was seen to change, and containers that may change and change back."""
    by_path = {node.path: node.value for node in nodes.values()}
    found: dict[tuple[str, bool], Watch] = {}
    seen: collections.Counter[tuple[tuple[str, str], bool]] = collections.Counter()
    for changes, is_silent in ((silent, True), (stored, False)):
        for change in changes:
            seen[change.group, is_silent] += 1
            if seen[change.group, is_silent] > WATCHED_PER_CLASS or change.path not in by_path:
                continue
            watch = found.setdefault((change.path, is_silent), Watch(change.path, by_path[change.path], set(), is_silent))
            watch.keys.add(change.key)
    for node in nodes.values():
        if not isinstance(node.value, CONTAINERS) or len(node.value) > WATCHED_LENGTH or not node.path.startswith("self"):
            continue
        if (node.path, True) in found or re.search(r"(_parameters|_buffers|_modules|_hooks\w*|_set)$|config", node.path):
            continue
        group = ("container", _shape(node.path))
        seen[group, True] += 1
        if seen[group, True] <= WATCHED_PER_CLASS:
            found[node.path, True] = Watch(node.path, node.value, set(), True, cheap=True)
    return list(found.values())

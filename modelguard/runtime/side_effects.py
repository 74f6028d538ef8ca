"""What compiled code writes into objects that outlive the call: path, attribute, operation, file and line."""

from __future__ import annotations

import inspect
import linecache
import os
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from traceback import FrameSummary, StackSummary
from types import CodeType, FrameType, ModuleType

import torch
from torch import nn

from modelguard.runtime import dynamo
from modelguard.runtime.epilogue import written

_TORCH = os.path.dirname(torch.__file__) + os.sep
_RUNTIME = os.path.dirname(__file__) + os.sep
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = os.path.join(_STANDARD, "site-packages") + os.sep

_TABLE = re.compile(r"(?:\.__dict__\[')?\.?\b(?:_modules|_buffers|_parameters)\b(?:'\])?\['([^']*)'\]")
_TABLES = re.compile(r"\.(?:_modules|_buffers|_parameters)$")
_OWN = re.compile(r"\.__dict__\['([^']*)'\]")
_VARIABLE = re.compile(r"\b[LG]\['([^']*)'\]")
_BEHIND_NAME = re.compile(r"\W.*", re.DOTALL)
_LAST = re.compile(r"(.*)\.([^.\[\]]+(?:\[.*\])?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in the model's code."""

    path: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class SideEffect:
    """A write that outlives the call."""

    object_path: str
    """What is written to: `self.layers[0].norm`, the name of an argument, of a class, or of a Python module."""

    attribute: str | None
    """What of it: an attribute, with the key or index where it is an item that is written to; None for an argument itself."""

    operation: str
    """`rebound`, `created`, `deleted`, `changed` (a container's items) or `advanced` (an iterator)."""

    stack: tuple[Frame, ...]
    """From `forward` to the write, in code that is neither torch's nor Python's own; empty where it is not known."""

    @property
    def path(self) -> str:
        """Object and attribute in one."""
        return self.object_path if self.attribute is None else f"{self.object_path}.{self.attribute}"

    def __str__(self) -> str:
        if not self.stack:
            return f"{self.path} is {self.operation} (this version of torch does not tell where)"
        place = self.stack[-1]
        return f"{self.path} is {self.operation} at {place.path}:{place.line} in {place.function}"


def side_effects(compiled: CodeType, module: nn.Module, frame: FrameType | None) -> tuple[SideEffect, ...]:
    """What code that Dynamo just compiled for a module writes; `frame` is the one that called the bytecode hook.

    A write that leaves what was there, such as a flag that is raised and lowered again, is none.
    """
    listed = dynamo.side_effect_sources(compiled)
    if listed == ():
        return ()
    mutations = dynamo.mutations(frame, listed or ())
    if mutations is None:
        return of_bytecode(compiled)
    paths = {id(child): _dotted("self", name) for name, child in module.named_modules()}
    effects = (effect for mutation in mutations for effect in _effects(mutation, paths))
    return tuple(dict.fromkeys(effect for effect in effects if not _is_own_dict(effect, compiled)))


def of_bytecode(compiled: CodeType) -> tuple[SideEffect, ...]:
    """The same from the instructions alone, for a torch that tells no more: without places, and with what nets to nothing."""
    found = []
    for path, attribute, operation in written(compiled):
        owner, name = (_tidied(path), attribute) if attribute is not None else _split(_tidied(path))
        found.append(SideEffect(owner, name, operation, ()))
    return tuple(dict.fromkeys(effect for effect in found if not _is_own_dict(effect, compiled)))


def _is_own_dict(effect: SideEffect, code: CodeType) -> bool:
    """Is it on the dict of `**kwargs`, which is a new one in each call?"""
    if not code.co_flags & inspect.CO_VARKEYWORDS or effect.attribute is not None:
        return False
    before = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    return effect.object_path == code.co_varnames[before]


def _effects(mutation: dynamo.Mutation, paths: dict[int, str]) -> Iterator[SideEffect]:
    path = _TABLES.sub("", _path(mutation, paths)) if mutation.attribute is not None else _path(mutation, paths)
    owner, name = (path, mutation.attribute) if mutation.attribute is not None else _split(path)
    stacks = [stack for stack in map(_trimmed, _stacks(mutation.stacks, name)) if stack]
    for stack in stacks or [()]:
        yield SideEffect(owner, name, mutation.operation, stack)


def _path(mutation: dynamo.Mutation, paths: dict[int, str]) -> str:
    """Where a mutated object is found, from the nearest thing on the way to it that has a name."""
    text = mutation.source
    for source, thing in mutation.ancestors:
        known = paths.get(id(thing)) or (thing.__name__ if isinstance(thing, (type, ModuleType)) else None)
        if known is not None:
            rest = text.replace(source, "", 1) if source != "G" else re.sub(_VARIABLE, r".\1", text, count=1)
            return known + _tidied(rest)
    return _tidied(text)


def _tidied(text: str) -> str:
    """An expression of Dynamo as a model's author would write it."""
    text = _TABLE.sub(lambda match: _dotted("", match[1]), text)
    return _VARIABLE.sub(r"\1", _OWN.sub(r".\1", text))


def _dotted(path: str, name: str) -> str:
    """The path of a module below another, by the name that `named_modules` gives it."""
    return path + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in name.split(".") if part)


def _split(path: str) -> tuple[str, str | None]:
    match = _LAST.fullmatch(path)
    return (path, None) if match is None else (match[1], match[2])


def _stacks(stacks: tuple[StackSummary, ...], name: str | None) -> list[StackSummary]:
    """Those stacks of an object's writes that are on the attribute, as far as the source lines tell."""
    word = re.compile(rf"\b{_BEHIND_NAME.sub('', name or '')}\b")
    return [stack for stack in stacks if any(word.search(_text(frame)) for frame in stack)] or list(stacks)


def _text(frame: FrameSummary) -> str:
    if not is_model(frame.filename):
        return ""
    last = getattr(frame, "end_lineno", None) or frame.lineno or 0
    return "".join(linecache.getline(frame.filename, line) for line in range(frame.lineno or 0, last + 1))


def _trimmed(stack: StackSummary) -> tuple[Frame, ...]:
    return tuple(Frame(each.filename, each.lineno or 0, each.name) for each in stack if is_model(each.filename))


def is_model(path: str) -> bool:
    """Whether a file is neither torch's, nor this package's, nor Python's own."""
    return not path.startswith((_TORCH, _RUNTIME)) and (path.startswith(_PACKAGES) or not path.startswith(_STANDARD))

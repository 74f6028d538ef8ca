"""TARGET, as commands take it: where a model is, and what to call it with."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from modelguard.errors import ModelguardError

SHAPES = "a module; (module, args), optionally with kwargs; or (module, calls), optionally with calls of other sizes"


class TargetError(ModelguardError):
    """A target is not there, fails, or is not of a known shape."""

    several_lines = True


@dataclass(frozen=True, slots=True)
class Target:
    """A model, and example calls of it."""

    model: torch.nn.Module
    calls: list[tuple[Any, ...]]
    """Positional arguments, one tuple a step; empty if the target gave none."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of each call."""
    others: list[tuple[Any, ...]] = field(default_factory=list)
    """Calls of other sizes, to make in between."""


def load_target(target: str) -> Target:
    """Import what `target` names, call it, and read what it returns.

    Args:
        target: `package.module:callable` or `path/to/file.py:callable`. What it prints goes to stderr.

    Raises:
        TargetError: it cannot be imported or called, with the traceback of the user's own code; or it returns something else than
            a module; `(module, args)` or `(module, args, kwargs)`; `(module, calls)` or `(module, calls, other_calls)`.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise TargetError(f"{target!r} names no model; write package.module:callable or path/to/file.py:callable")
    with users_code(f"importing {place}"), redirect_stdout(sys.stderr):
        module = _imported(place)
    build: object = module
    for attribute in name.split("."):
        build = getattr(build, attribute, None)
    if not callable(build):
        problem = "has no" if build is None else "is not callable:"
        raise TargetError(f"{place} {problem} {name!r}; {_offers(module)}")
    with users_code(f"calling {target}"), redirect_stdout(sys.stderr):
        # A module class is called like any function that returns a module; a module itself is the model.
        returned = build if isinstance(build, torch.nn.Module) else build()
    return _read(target, returned)


@contextmanager
def users_code(doing: str) -> Iterator[None]:
    """Turn what the user's code raises into an error that shows its traceback, without the frames around it.

    Raises:
        TargetError: the code in the block raised something, or left by `sys.exit`.
    """
    try:
        yield
    except ModelguardError as error:
        if isinstance(error, TargetError) or error.__cause__ is None:
            raise
        raise TargetError(f"{error}\n{_shown(error.__cause__)}") from error
    except (Exception, SystemExit) as error:
        raise TargetError(f"{doing} failed:\n{_shown(error)}") from error


def _shown(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith((_OWN_FOLDER, _TORCH_FOLDER, "<frozen importlib"))]
    return ("".join(traceback.format_list(users)) + "".join(traceback.format_exception_only(error))).rstrip()


_TORCH_FOLDER = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _imported(place: str) -> ModuleType:
    if not place.endswith(".py"):
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        return importlib.import_module(place)
    if not os.path.isfile(place):
        raise TargetError(f"there is no file {place}; write path/to/file.py:callable")
    folder, file = os.path.split(os.path.abspath(place))
    if folder not in sys.path:
        # As `python path/to/file.py` does: what lies beside the file can be imported.
        sys.path.insert(0, folder)
    name = file.removesuffix(".py")
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == os.path.join(folder, file):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, file))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Never in place of another module of that name, such as `inspect.py`; what pickles or resolves names needs the entry.
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


def _offers(module: ModuleType) -> str:
    own = ((name, value) for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    names = [name for name, value in own if callable(value) and not name.startswith("_")]
    return f"it has {', '.join(names)}" if names else "it defines nothing that can be called"


def _read(target: str, returned: object) -> Target:
    if isinstance(returned, torch.nn.Module):
        return Target(returned, [])
    if not isinstance(returned, tuple) or not returned or not isinstance(returned[0], torch.nn.Module) or len(returned) > 3:
        raise TargetError(f"{target} returned {_kind(returned)}; it must return {SHAPES}")
    model, *rest = returned
    if not rest:
        return Target(model, [])
    first, second = rest[0], rest[1] if len(rest) == 2 else None
    if isinstance(first, list):
        others = [] if second is None else second
        for calls in (first, others):
            if not isinstance(calls, list) or not all(isinstance(call, tuple) for call in calls):
                raise TargetError(f"{target}: calls must be lists of tuples of arguments, one a step; got {_kind(returned)}")
        if not first:
            raise TargetError(f"{target} returned no calls; give at least one tuple of arguments")
        return Target(model, first, others=others)
    if not isinstance(first, tuple) or not isinstance(second, (dict, type(None))):
        raise TargetError(f"{target} returned {_kind(returned)}; it must return {SHAPES}")
    return Target(model, [first], kwargs=dict(second or {}))


def _kind(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(type(item).__name__ for item in value) + ")"
    return f"something of type {type(value).__name__}" if value is not None else "None"

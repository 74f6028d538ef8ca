"""A stand-in for torchvision, for packages that import it for their data half only."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from torch import nn


class _Anything(type):
    """A class whose attributes are all classes like it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _made_up(name)


def _made_up(name: str) -> _Anything:
    def accept(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        nn.Module.__init__(self)

    return _Anything(name, (nn.Module,), {"__init__": accept})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] != "torchvision":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        def __getattr__(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return _made_up(name)

        vars(module)["__getattr__"] = __getattr__
        vars(module)["__version__"] = "0.0"


@contextmanager
def torchvision_or_stand_in() -> Iterator[None]:
    """Inside, torchvision can be imported, though it may be hollow; afterwards a hollow one is gone."""
    if importlib.util.find_spec("torchvision") is not None:
        yield
        return
    finder = _Finder()
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]

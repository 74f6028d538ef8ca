"""What callers hand in, looked at before anything is done with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from modelguard.runtime.errors import ModuleError, OptionError


def a_module(module: object, done: str) -> nn.Module:
    """The same, if it is a module; `done` is the participle of what would be done with it.

    Raises:
        ModuleError: it is none, such as the class of one.
    """
    if isinstance(module, nn.Module):
        return module
    what = f"the class {module.__name__}; make an instance" if isinstance(module, type) else f"of type {type(module).__name__}"
    raise ModuleError(f"only an instance of torch.nn.Module can be {done}; this is {what}")


def tuples(name: str, calls: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same, if each is a tuple of arguments.

    Raises:
        OptionError: one is something else, such as the only argument itself.
    """
    for place, call in enumerate(calls):
        if not isinstance(call, (tuple, list)):
            raise OptionError(
                f"each call is a tuple of arguments, and {name}[{place}] is of type {type(call).__name__}; "
                "for a single argument, write (x,)"
            )
    return [tuple(call) for call in calls]

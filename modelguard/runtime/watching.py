"""Watches a running model: what is compiled inside a block, and writes state."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from torch import nn

from modelguard.runtime import dynamo
from modelguard.runtime.bytecode_hook import bytecode_hook
from modelguard.runtime.errors import OptionError, StateWriteError
from modelguard.runtime.given import a_module
from modelguard.runtime.observing import Compilations
from modelguard.runtime.side_effects import SideEffect


class StateWriteWarning(UserWarning):
    """Code was compiled that writes state."""


@contextmanager
def watch(model: nn.Module, action: Literal["raise", "warn"] = "raise") -> Iterator[Compilations]:
    """Tell of every compilation inside the block whose code writes state, with any backend. It costs nothing otherwise.

    Args:
        model: whose modules' paths are told; other modules are told by Dynamo's names.
        action: `raise` ends the block with an error once the block is done with what it was doing; `warn` warns at once.

    Yields:
        What is found so far, in `found`.

    Raises:
        ModuleError: `model` is no module, such as the class of one.
        StateWriteError: at the end of the block, if `action` is `raise` and there was such code.
    """
    if action not in ("raise", "warn"):
        raise OptionError(f"there is no action {action!r}; choose 'raise' or 'warn'")
    taken = Compilations(a_module(model, "watched"), _warn if action == "warn" else None)
    with bytecode_hook(taken), dynamo.raised_limits():
        yield taken
    if action == "raise" and taken.found:
        raise StateWriteError(tuple(taken.found), "")


def _warn(effect: SideEffect) -> None:
    if effect.stack:
        # Dynamo's frames lie between here and the write, whose place is that of the warning.
        place = effect.stack[-1]
        message = f"compiled code writes state: {effect.path} is {effect.operation} in {place.function}"
        warnings.warn_explicit(message, StateWriteWarning, place.path, place.line)
    else:
        warnings.warn(f"compiled code writes state: {effect}", StateWriteWarning, stacklevel=2)

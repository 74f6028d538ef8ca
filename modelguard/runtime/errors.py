"""What can be wrong with a wrapper, its module, or what was compiled; each message says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelguard.errors import ModelguardError

if TYPE_CHECKING:
    from modelguard.runtime.side_effects import SideEffect


class CompilationModeError(ModelguardError, RuntimeError):
    """A wrapper was asked for in the mode that compiles nothing."""


class OptionError(ModelguardError, ValueError):
    """An option has a value that is not allowed, or contradicts another one."""


class ModuleError(ModelguardError, TypeError):
    """What was given is no module, or its `forward` cannot be compiled on its own."""


class ForwardHooksError(ModelguardError, RuntimeError):
    """The module has hooks around `forward`, which a call of the compiled `forward` alone would skip."""


class NothingCompiledError(ModelguardError, RuntimeError):
    """Dynamo let `forward` run as it is."""


class RecompileError(ModelguardError, RuntimeError):
    """What was compiled once does not hold for these arguments."""


class CopyError(ModelguardError, TypeError):
    """A model or its inputs cannot be copied, so nothing can be tried on a copy."""


class StateWriteError(ModelguardError, RuntimeError):
    """Compiled code writes state, and is meant for a CUDA graph.

    `side_effects` are the writes, `source` the compiled code as text, which is long; empty where several were compiled.
    """

    def __init__(self, side_effects: tuple[SideEffect, ...], source: str) -> None:
        super().__init__(side_effects, source)
        self.side_effects = side_effects
        self.source = source

    def __str__(self) -> str:
        writes = "\n".join(f"  {effect}" for effect in self.side_effects)
        return (
            "forward writes state, and a replayed CUDA graph runs no Python that would write it again:\n"
            f"{writes}\n"
            "Write into a registered buffer in place (`self.x.copy_(...)`), pass the state in and out, or move the write out of "
            "forward."
        )

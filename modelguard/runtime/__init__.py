"""A module at run time: its `forward` compiled once, and what the compiled code writes. Importing this imports torch."""

from modelguard.runtime.bytecode_hook import bytecode_hook
from modelguard.runtime.compiled import CompilationMode, CompiledForward, can_wrap
from modelguard.runtime.errors import (
    CompilationModeError,
    ForwardHooksError,
    ModuleError,
    NothingCompiledError,
    OptionError,
    RecompileError,
    StateWriteError,
)
from modelguard.runtime.side_effects import Frame, SideEffect
from modelguard.runtime.watching import StateWriteWarning, watch

__all__ = [
    "CompilationMode",
    "CompilationModeError",
    "CompiledForward",
    "ForwardHooksError",
    "Frame",
    "ModuleError",
    "NothingCompiledError",
    "OptionError",
    "RecompileError",
    "SideEffect",
    "StateWriteError",
    "StateWriteWarning",
    "bytecode_hook",
    "can_wrap",
    "watch",
]

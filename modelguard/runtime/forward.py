"""A module's `forward` as a function that can be compiled on its own."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

from torch import nn

from modelguard import own_code
from modelguard.runtime import dynamo
from modelguard.runtime.errors import ForwardHooksError, ModuleError


@dataclass(frozen=True, slots=True)
class Forward:
    """A Python function, and what it is called with first: the module, or nothing where `forward` takes no `self`."""

    function: FunctionType
    receiver: tuple[object, ...]

    def copied(self) -> FunctionType:
        """The function anew, with a code object that belongs to one wrapper."""
        return own_code.copied(self.function)


def forward_of(module: nn.Module) -> Forward:
    """What a call of `module.forward` runs: the method of its class or of a base, or what was set on the instance."""
    name = type(module).__name__
    if not dynamo.has_forward(module):
        raise ModuleError(f"{name} defines no forward, so there is nothing to compile; wrap the modules that do")
    forward: Any = module.forward
    receiver: tuple[object, ...] = ()
    if isinstance(forward, MethodType):
        forward, receiver = forward.__func__, (forward.__self__,)
    if not isinstance(forward, FunctionType):
        raise ModuleError(
            f"{name}.forward is a {type(forward).__name__}, which has no Python bytecode to compile; "
            "define it with `def`, or call what it holds from a `def`"
        )
    return Forward(forward, receiver)


def refuse_hooks(module: nn.Module) -> None:
    """Refuse a module whose hooks a call of its `forward` alone would skip."""
    tables = [*dynamo.hooks_of(module), *(["global hooks of all modules"] if dynamo.has_global_hooks() else [])]
    if tables:
        raise ForwardHooksError(
            f"{type(module).__name__} has hooks ({', '.join(tables)}), which run around forward and would be skipped; "
            "remove them, do their work in forward, or wrap a module that calls this one"
        )

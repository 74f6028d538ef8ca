"""A module's `forward` as a function with a code object of its own.

Dynamo keeps what it compiled, its guards and its limits with the code object. One that belongs to a single wrapper cannot be
mixed up with another instance's, and everything that was kept with it goes when it goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from torch import nn

from modelguard.runtime import dynamo
from modelguard.runtime.errors import ForwardHooksError, ModuleError


@dataclass(frozen=True, slots=True)
class Forward:
    """A Python function, and what it is called with first: the module, or nothing where `forward` takes no `self`."""

    function: FunctionType
    receiver: tuple[object, ...]

    def copied(self) -> FunctionType:
        """The function anew. One that Dynamo would trace through a frame that it shares is called from a frame of its own."""
        function = _through(self.function) if dynamo.is_wrapped(self.function) else self.function
        return with_code(function, function.__code__.replace())


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


def with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """A function that runs `code` with the globals, defaults and closure of another."""
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _through(function: FunctionType) -> FunctionType:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    assert isinstance(forward, FunctionType)
    return forward

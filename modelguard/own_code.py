"""Python functions with a code object of their own.

Dynamo keeps what it compiled, its guards and its limits with the code object. One that has a single user cannot be mixed up with
another's, and everything that was kept with it can be dropped with it.
"""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

import torch._dynamo.config
import torch._dynamo.eval_frame
import torch._dynamo.trace_rules

_config: Any = torch._dynamo.config


def copied(function: FunctionType) -> FunctionType:
    """The function anew. One that Dynamo would trace through a frame that it shares is called from a frame of its own."""
    own = _through(function) if _is_wrapped(function) else function
    return with_code(own, own.__code__.replace())


def with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """A function that runs `code` with the globals, defaults and closure of another."""
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def forget(code: CodeType) -> None:
    """Have Dynamo drop what it compiled for a code object. It never does by itself: two of its tables keep each other alive."""
    reset = getattr(torch._dynamo.eval_frame, "reset_code", None)
    if reset is not None:
        reset(code)


def _is_wrapped(function: FunctionType) -> bool:
    """Whether Dynamo would trace a function through a frame of its own, which all such functions share."""
    return bool(_config.wrap_top_frame) or bool(torch._dynamo.trace_rules.check(function))


def _through(function: FunctionType) -> FunctionType:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    assert isinstance(forward, FunctionType)
    return forward

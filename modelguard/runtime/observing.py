"""What Dynamo says a model's calls write, and which lines of its source they run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

from modelguard.runtime import dynamo
from modelguard.runtime.bytecode_hook import bytecode_hook
from modelguard.runtime.side_effects import SideEffect, side_effects


class Compilations:
    """A bytecode hook that keeps the side effects of everything that is compiled, each once."""

    def __init__(self, model: nn.Module, each: Callable[[SideEffect], None] | None = None) -> None:
        """`each` is called for every new one, while it is compiled."""
        self.found: dict[SideEffect, None] = {}
        self.graphs = 0
        self._model = model
        self._each = each

    def __call__(self, original: CodeType, compiled: CodeType) -> None:
        self.graphs += 1
        for effect in side_effects(compiled, self._model, sys._getframe(1)):
            if effect not in self.found:
                self.found[effect] = None
                if self._each is not None:
                    self._each(effect)


def side_effects_of(
    model: nn.Module, calls: Sequence[tuple[Any, ...]], kwargs: Mapping[str, Any] | None = None
) -> tuple[list[SideEffect], str | None]:
    """Compile a model, call it, and tell what the compiled code writes.

    The model is changed as by any call: pass a copy. Everything that Dynamo had compiled in this process is dropped, and so is
    what it compiles here.

    Returns:
        The side effects of all graphs, and why Dynamo stopped, if it did.
    """
    dynamo.reset()
    taken = Compilations(model)
    problem = None
    try:
        with bytecode_hook(taken), dynamo.raised_limits(), dynamo.quiet(), torch.no_grad():
            compiled = torch.compile(model, backend="eager")
            for call in calls:
                compiled(*call, **(kwargs or {}))
    except Exception as error:
        # Dynamo runs the model's code, which can raise anything; eager steps tell whether it is the model's fault.
        problem = dynamo.cause(error)
    finally:
        dynamo.reset()
    return list(taken.found), problem


@contextmanager
def lines_run(paths: Sequence[str]) -> Iterator[dict[str, set[int]]]:
    """The lines of these files that run inside the block, by path."""
    run: dict[str, set[int]] = {path: set() for path in paths}
    previous = sys.gettrace()

    def trace_line(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            run[frame.f_code.co_filename].add(frame.f_lineno)
        return trace_line

    def trace_call(frame: FrameType, event: str, argument: Any) -> Any:
        return trace_line if frame.f_code.co_filename in run else None

    sys.settrace(trace_call)
    try:
        yield run
    finally:
        sys.settrace(previous)

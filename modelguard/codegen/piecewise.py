"""Trace, cut, generate and run in one call."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException
from torch.fx import GraphModule

from modelguard.codegen.emit import generate_execution_code
from modelguard.codegen.execute import compile_execution_fn
from modelguard.codegen.split import SplittingOp, split_graph
from modelguard.codegen.trace import forget, own_copy, untraceable
from modelguard.errors import ModelguardError


@dataclass(frozen=True, slots=True)
class Generated:
    """A graph in pieces, and the code that runs them."""

    split_gm: GraphModule
    code: str
    submod_names: list[str]
    consts: list[Any]
    fn: Callable[..., Any]
    """Takes what the graph takes."""


def generate(graph: GraphModule, splitting_ops: Sequence[SplittingOp] = ()) -> Generated:
    """Cut a graph at operators (`split_graph`), generate its code and bind it to the graph's own submodules.

    Raises:
        SplitError: the graph cannot be cut there.
        CodegenError: no code can be generated for it.
    """
    split_gm = split_graph(graph, splitting_ops) if splitting_ops else graph
    code, submod_names, consts = generate_execution_code(split_gm)
    fn = compile_execution_fn(code, dict(split_gm.named_modules()), submod_names, consts)
    return Generated(split_gm, code, submod_names, consts, fn)


_MOST_SHAPES = 2048
"""Graphs that a model may have; Dynamo's own limit is for models that are traced again by mistake."""


def _generated(
    owner: weakref.ref[Piecewise], splitting_ops: Sequence[SplittingOp], graph: GraphModule, example_inputs: list[Any]
) -> Callable[..., Any]:
    made = generate(graph, splitting_ops)
    piecewise = owner()
    if piecewise is not None:
        piecewise.generated.append(made)
    return made.fn


class Piecewise:
    """A model that runs as generated code: traced by Dynamo whole when it is called, as serving engines do, and cut at operators.

    Called with other shapes than before, it is traced again, as `torch.compile` does.
    """

    def __init__(
        self, model: Callable[..., Any], splitting_ops: Sequence[SplittingOp] = (), *, dynamic: bool | None = None
    ) -> None:
        """`dynamic` is `torch.compile`'s: whether to trace for all shapes at once."""
        self.generated: list[Generated] = []
        """What was generated so far, a graph each."""
        function, bound = own_copy(model)
        # Dynamo keeps every backend that it was given, and what that holds.
        backend = functools.partial(_generated, weakref.ref(self), splitting_ops)
        # The limit is a parameter that torch's own types lack.
        compile: Any = torch.compile
        compiled = compile(function, fullgraph=True, dynamic=dynamic, backend=backend, recompile_limit=_MOST_SHAPES)
        self._run = functools.partial(compiled, *bound)
        weakref.finalize(self, forget, function.__code__).atexit = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model.

        Raises:
            TraceError: it cannot be traced whole.
            SplitError: its graph cannot be cut.
            CodegenError: no code can be generated for it.
        """
        try:
            return self._run(*args, **kwargs)
        except BackendCompilerFailed as error:
            if isinstance(error.inner_exception, ModelguardError):
                raise error.inner_exception from None
            raise untraceable("dynamo", error) from error
        except TorchDynamoException as error:
            raise untraceable("dynamo", error) from error

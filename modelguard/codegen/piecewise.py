"""Trace, cut, generate and run in one call."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.exc import BackendCompilerFailed, FailOnRecompileLimitHit, TorchDynamoException
from torch.fx import GraphModule

from modelguard import own_code
from modelguard.codegen.emit import generate_execution_code
from modelguard.codegen.errors import TraceError
from modelguard.codegen.execute import compile_execution_fn
from modelguard.codegen.split import SplittingOp, split_graph
from modelguard.codegen.trace import own_copy, untraceable
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
        self._splitting_ops = splitting_ops
        function, bound = own_copy(model)
        # Dynamo keeps the backend for good, and what it compiled until it is told to forget it.
        backend: Any = weakref.WeakMethod(self._backend)
        compile: Any = torch.compile
        compiled = compile(
            function,
            fullgraph=True,
            dynamic=dynamic,
            backend=lambda *traced: backend()(*traced),
            recompile_limit=sys.maxsize,
        )
        self._run = functools.partial(compiled, *bound)
        weakref.finalize(self, own_code.forget, function.__code__).atexit = False

    def _backend(self, graph: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.generated.append(generate(graph, self._splitting_ops))
        return self.generated[-1].fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model.

        Raises:
            TraceError: it cannot be traced whole, or was for as many different arguments as Dynamo keeps graphs for.
            SplitError: its graph cannot be cut.
            CodegenError: no code can be generated for it.
        """
        try:
            return self._run(*args, **kwargs)
        except BackendCompilerFailed as error:
            if isinstance(error.inner_exception, ModelguardError):
                raise error.inner_exception from None
            raise untraceable("dynamo", error) from error
        except FailOnRecompileLimitHit as error:
            raise TraceError(
                f"the model was traced {len(self.generated)} times, for other arguments each, and Dynamo keeps no more of them; "
                "trace it for all sizes at once (`dynamic=True`), or raise torch._dynamo.config.accumulated_recompile_limit"
            ) from error
        except TorchDynamoException as error:
            raise untraceable("dynamo", error) from error

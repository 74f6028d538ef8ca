"""A user's model as one graph, by any of torch's tracers."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Literal, get_args

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from modelguard import own_code
from modelguard.codegen.errors import TraceError
from modelguard.codegen.graphs import runs_forward

Tracer = Literal["dynamo", "export", "fx", "make_fx"]
TRACERS: tuple[str, ...] = get_args(Tracer)


@dataclass(frozen=True, slots=True)
class Traced:
    """A model's graph."""

    graph: GraphModule
    inputs: list[Any]
    """What the graph takes for the example arguments. Dynamo's takes the parameters and buffers, too."""


class _Captured(Exception):
    """Ends a call of a model once its graph is known, before anything is computed."""


def trace(
    model: torch.nn.Module | Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    tracer: Tracer = "dynamo",
) -> Traced:
    """Trace a model into one graph.

    Args:
        model: the module or function.
        args: example arguments, of the shapes to trace for.
        kwargs: example keyword arguments.
        tracer: `dynamo` is what serving engines and `torch.compile` use, with `fullgraph=True` and static shapes; `export` is
            `torch.export`; `fx` is `torch.fx.symbolic_trace`, which never runs the model; `make_fx` records one run's operators.

    Raises:
        TraceError: the model has no single graph; the message has the tracer's reason.
    """
    keywords = dict(kwargs or {})
    if not isinstance(args, (tuple, list)):
        raise TraceError(f"`args` are the arguments of a call in a tuple, such as `(x,)`; got a {type(args).__name__}")
    if tracer not in TRACERS:
        raise TraceError(f"there is no tracer {tracer!r}; there are {', '.join(TRACERS)}")
    try:
        if tracer == "dynamo":
            return _dynamo(model, args, keywords)
        if tracer == "make_fx":
            return _make_fx(model, args, keywords)
        if tracer == "fx":
            return _fx(model, args, keywords)
        if not isinstance(model, torch.nn.Module):
            raise TraceError("torch.export takes modules only; wrap the function in one, or use another tracer")
        graph = torch.export.export(model, tuple(args), keywords).module(check_guards=False)
    except (TraceError, _Captured):
        raise
    except Exception as error:
        # The tracer runs the user's code, which can raise anything.
        raise untraceable(tracer, error) from error
    return Traced(graph, [*args, *keywords.values()])


def untraceable(tracer: Tracer, error: Exception) -> TraceError:
    """What a tracer raised, as an error of ours."""
    reason = str(error).strip() or type(error).__name__
    return TraceError(f"the model cannot be traced into one graph by {tracer}: {type(error).__name__}: {reason}")


def _make_fx(model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced:
    def positional(*inputs: Any) -> Any:
        return model(*inputs[: len(args)], **dict(zip(kwargs, inputs[len(args) :], strict=True)))

    inputs = [*args, *kwargs.values()]
    with _kept(model), torch.no_grad():
        return Traced(make_fx(positional)(*inputs), inputs)


def _fx(model: torch.nn.Module | Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced:
    inputs: list[Any] = []
    # It runs nothing, so it needs no arguments; those that are given go to placeholders by their names.
    if args or kwargs:
        bound = inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model).bind(*args, **kwargs)
        bound.apply_defaults()
        inputs = [*bound.args, *bound.kwargs.values()]
    root = model if isinstance(model, torch.nn.Module) else torch.nn.Module()
    with _kept(model):
        traced = _Tracer().trace(model)
        # The tracer makes constants attributes of the model, and `forward` may have bound others to what stands for values.
        made = dict(vars(root))
    targets = {str(node.target) for node in traced.nodes if node.op in ("get_attr", "call_module")}
    constants = {name: value for name, value in made.items() if name not in vars(root)}
    held = {target: constants[target] if target in constants else operator.attrgetter(target)(root) for target in targets}
    graph = GraphModule(held, traced, type(root).__name__)
    graph.training = root.training
    return Traced(graph, inputs)


class _Tracer(torch.fx.Tracer):
    """Notes what is read of buffers, or what `forward` computes of them would be worked out while it is traced."""

    proxy_buffer_attributes = True


@contextmanager
def _kept(model: Callable[..., Any]) -> Iterator[None]:
    """Put back what tracing does to a model: attributes bound, also by the tracer, and tensors written in place."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    tables = [table for module in modules for table in (vars(module), module._buffers, module._parameters, module._modules)]
    before = [(table, dict(table)) for table in tables]
    values = [(tensor, tensor.detach().clone(), tensor._version) for module in modules for tensor in _own_tensors(module)]
    try:
        yield
    finally:
        for table, items in before:
            table.clear()
            table.update(items)
        with torch.no_grad():
            for tensor, value, version in values:
                if tensor._version != version:
                    tensor.detach().copy_(value)


def _own_tensors(module: torch.nn.Module) -> list[torch.Tensor]:
    """What a module holds that a call may write. A parameter that is written is no matter of a trace without gradients."""
    held = [*module._buffers.values(), *vars(module).values()]
    return [
        value for value in held if isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_inference()
    ]


def _dynamo(model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced:
    captured: list[Traced] = []

    def backend(graph: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        def stop(*inputs: Any) -> None:
            captured.append(Traced(graph, list(inputs)))
            raise _Captured

        return stop

    function, bound = own_copy(model)
    try:
        torch.compile(function, fullgraph=True, dynamic=False, backend=backend)(*bound, *args, **kwargs)
    except _Captured:
        # Dynamo keeps the backend for good, and so whatever is left in its list.
        return captured.pop()
    finally:
        own_code.forget(function.__code__)
    raise TraceError("the model computes nothing with tensors, so it has no graph")


def own_copy(model: Callable[..., Any]) -> tuple[FunctionType, tuple[Any, ...]]:
    """A function that does what `model` does, and what to call it with first.

    Dynamo finds nothing with its code object, and keeps there what it compiles, model and all, until `own_code.forget`.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    called = model.forward if isinstance(model, torch.nn.Module) and runs_forward(model) else model
    bound = (called.__self__,) if isinstance(called, MethodType) else ()
    function = called.__func__ if isinstance(called, MethodType) else called
    if not isinstance(function, FunctionType):
        assert isinstance(call, FunctionType)
        function, bound = call, ()
    return own_code.copied(function), bound

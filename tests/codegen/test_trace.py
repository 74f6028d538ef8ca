"""`trace`: one graph by each of torch's tracers, what it takes, and what is told when there is none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from codegen_checks import bound
from torch.utils._pytree import tree_leaves

from modelguard.codegen import Traced, TraceError, trace

TRACERS = ("dynamo", "export", "fx", "make_fx")


def run(traced: Traced) -> torch.Tensor:
    """The one tensor that the graph returns; Dynamo's return tuples."""
    (result,) = tree_leaves(bound(traced.graph)(*traced.inputs))
    return result


class Scaled(torch.nn.Module):
    """Takes keywords, makes a constant, and has a default."""

    def forward(self, x: torch.Tensor, scale: Any = 2.0, shift: Any = 0.0) -> torch.Tensor:
        return x * scale + shift + torch.tensor([1.0, 2.0])


@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize(
    "kwargs",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"scale": torch.tensor(3.0)}, id="one"),
        pytest.param({"shift": torch.tensor(5.0)}, id="the second"),
        pytest.param({"shift": torch.tensor(5.0), "scale": torch.tensor(3.0)}, id="in another order"),
    ],
)
def test_inputs_are_what_the_graph_takes_in_its_order(tracer: Any, kwargs: dict[str, Any]) -> None:
    model, x = Scaled(), torch.randn(2)
    traced = trace(model, (x,), kwargs, tracer=tracer)
    expected = model(x, **kwargs)
    assert torch.equal(run(traced), expected)


@pytest.mark.parametrize("tracer", TRACERS)
def test_the_model_is_left_as_it_was(tracer: Any) -> None:
    model = Scaled()
    before = dict(vars(model))
    trace(model, (torch.randn(2),), tracer=tracer)
    assert vars(model) == before


@pytest.mark.parametrize("tracer", ["dynamo", "fx", "make_fx"])
def test_functions(tracer: Any) -> None:
    traced = trace(lambda x, y: x @ y, (torch.eye(2), torch.ones(2, 2)), tracer=tracer)
    assert torch.equal(run(traced), torch.ones(2, 2))


def test_dynamo_s_graph_takes_what_a_closure_holds() -> None:
    hidden = torch.randn(3)

    def model(x: torch.Tensor) -> torch.Tensor:
        return x + hidden

    traced = trace(model, (torch.zeros(3),))
    assert torch.equal(run(traced), hidden)


class Breaks(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if float(x.sum()) > 0 else x - 1


@pytest.mark.parametrize(
    ("model", "args", "tracer", "message"),
    [
        pytest.param(Breaks(), (torch.ones(2),), "dynamo", "cannot be traced into one graph by dynamo", id="dynamo"),
        pytest.param(Breaks(), (torch.ones(2),), "export", "cannot be traced into one graph by export", id="export"),
        pytest.param(Breaks(), (torch.ones(2),), "fx", "cannot be traced into one graph by fx", id="fx"),
        pytest.param(Breaks(), (1, 2), "fx", "too many positional arguments", id="too many arguments"),
        pytest.param(lambda x: x, (torch.ones(2),), "export", "torch.export takes modules only", id="a function"),
        pytest.param(lambda: 3, (), "dynamo", "computes nothing with tensors", id="no tensors"),
        pytest.param(Scaled(), (torch.ones(2),), "jit", "there is no tracer 'jit'", id="no such tracer"),
    ],
)
def test_what_has_no_graph(model: Any, args: tuple[Any, ...], tracer: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        trace(model, args, tracer=tracer)

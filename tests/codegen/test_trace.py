"""`trace`: one graph by each of torch's tracers, what it takes, and what is told when there is none."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from codegen_checks import bound
from torch.utils._pytree import tree_leaves

from modelguard.codegen import Traced, TraceError, generate, trace

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


class Moving(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(x)
        self.var.lerp_(x.var(0), 0.1)
        self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        self.seen += 1
        return (x - self.mean) / (self.var + 1e-5).sqrt()


@pytest.mark.parametrize("tracer", TRACERS)
def test_what_a_model_keeps_is_as_it_was_and_its_graph_computes_with_it(tracer: Any) -> None:
    model, x = Moving(), torch.linspace(-1, 2, 12).view(3, 4)
    mean, before = model.mean, copy.deepcopy(model.state_dict())
    traced = trace(model, (x,), tracer=tracer)
    assert model.mean is mean and model.seen == 0 and all(type(value) is torch.Tensor for value in model._buffers.values())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    expected = copy.deepcopy(model)(x)
    returned = generate(traced.graph).fn(*traced.inputs)
    torch.testing.assert_close(returned[0] if isinstance(returned, tuple) else returned, expected)


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
        pytest.param(Scaled(), torch.ones(2), "dynamo", r"in a tuple, such as `\(x,\)`; got a Tensor", id="a bare tensor"),
        pytest.param(lambda: 3, (), "dynamo", "computes nothing with tensors", id="no tensors"),
        pytest.param(Scaled(), (torch.ones(2),), "jit", "there is no tracer 'jit'", id="no such tracer"),
    ],
)
def test_what_has_no_graph(model: Any, args: Any, tracer: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        trace(model, args, tracer=tracer)

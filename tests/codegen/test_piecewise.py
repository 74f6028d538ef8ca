"""`Piecewise`: traced again for other arguments, and nothing of it stays behind; no more does of `trace`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo import config

from modelguard.codegen import Piecewise, TraceError, trace

X = torch.ones(3)


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * self.weight


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda model: Piecewise(model, ["relu"])(X), id="piecewise"),
        pytest.param(lambda model: Piecewise(lambda x: model(x))(X), id="piecewise of a function"),
        pytest.param(lambda model: trace(model, (X,)), id="dynamo"),
        pytest.param(lambda model: trace(model, (X,), tracer="export"), id="export"),
    ],
)
def test_models_and_weights_go_with_what_was_made_of_them(use: Callable[[Any], object]) -> None:
    made: list[weakref.ref[Any]] = []
    for _ in range(4):
        model = Scale()
        made += [weakref.ref(model), weakref.ref(model.weight)]
        use(model)
    del model
    gc.collect()
    assert [each() for each in made if each() is not None] == []


def test_what_was_traced_lives_as_long_as_it_is_held() -> None:
    piecewise, traced = Piecewise(Scale()), trace(Scale(), (X,))
    gc.collect()
    assert torch.equal(piecewise(X), 2 * X)
    assert torch.equal(piecewise(-X), 0 * X)
    assert len(piecewise.generated) == 1
    assert any(torch.equal(each, 2 * X) for each in traced.inputs)


def test_it_is_traced_again_for_each_size() -> None:
    piecewise = Piecewise(lambda x: x + 1, dynamic=False)
    for size in [*range(1, 2 * config.recompile_limit), 1]:
        assert torch.equal(piecewise(torch.ones(size)), torch.full((size,), 2.0))
    assert len(piecewise.generated) == 2 * config.recompile_limit - 1


def test_more_graphs_than_dynamo_keeps_are_told() -> None:
    piecewise = Piecewise(lambda x: x + 1, dynamic=False)
    with config.patch(accumulated_recompile_limit=2), pytest.raises(TraceError, match=r"was traced 2 times.*dynamic=True"):
        for size in range(1, 4):
            piecewise(torch.ones(size))

"""Whole models, by each tracer that takes them: cut, generated and run, equal to eager and to the Interpreter."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from codegen_checks import ConvNet, Decoder, Experts, assert_same, bound, check, generated
from torch.fx import Interpreter
from torch.utils._pytree import tree_leaves

from modelguard.codegen import Piecewise, generate, split_graph, trace

TRACERS = ("dynamo", "export", "fx", "make_fx")


@pytest.fixture(autouse=True)
def dynamo_knows_nothing() -> None:
    """Dynamo notes by file and line which shapes change."""
    torch._dynamo.reset()


class Case:
    """A model, made anew with the same weights each time, since training writes to buffers."""

    def __init__(
        self, kind: Callable[[], torch.nn.Module], make_input: Callable[[], torch.Tensor], ops: list[str], tracers: Any
    ) -> None:
        self.kind, self.make_input, self.ops, self.tracers = kind, make_input, ops, tracers

    def model(self, train: bool = False) -> torch.nn.Module:
        torch.manual_seed(0)
        return self.kind().double().train(train)

    def input(self) -> torch.Tensor:
        torch.manual_seed(1)
        return self.make_input()


CASES = {
    "decoder": Case(
        Decoder,
        lambda: torch.randint(17, (2, 5)),
        [
            "scaled_dot_product_attention",
            "aten::scaled_dot_product_attention",
            "aten::_scaled_dot_product_flash_attention_for_cpu",
        ],
        # Its shapes are numbers to a mask, which the symbolic tracer has not.
        ("dynamo", "export", "make_fx"),
    ),
    "convolutional": Case(
        ConvNet,
        lambda: torch.randn(4, 3, 8, 8, dtype=torch.float64),
        ["conv2d", "aten::conv2d", "aten::convolution", "first", "second"],
        TRACERS,
    ),
    "experts": Case(
        Experts,
        lambda: torch.randn(6, 8, dtype=torch.float64),
        ["softmax", "aten::softmax", "aten::_softmax"],
        TRACERS,
    ),
}
ROWS = [
    pytest.param(case, tracer, train, id=f"{name}-{tracer}-{'train' if train else 'eval'}")
    for name, case in CASES.items()
    for tracer in case.tracers
    for train in ((False, True) if name == "convolutional" else (False,))
]


class Doubling:
    """An object that is called."""

    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * self.by


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("split", [True, False], ids=["split", "whole"])
@pytest.mark.parametrize(("case", "tracer", "train"), ROWS)
def test_models(case: Case, tracer: Any, train: bool, split: bool) -> None:
    eager = case.model(train)
    expected = eager(case.input())

    def run(how: Callable[[Any], Callable[..., Any]]) -> tuple[Any, dict[str, torch.Tensor]]:
        model = case.model(train)
        traced = trace(model, (case.input(),), tracer=tracer)
        gm = split_graph(traced.graph, case.ops if split else [])
        # `make_fx` runs the model while it traces it.
        for buffer, before in zip(model.buffers(), case.model(train).buffers(), strict=True):
            buffer.data.copy_(before)
        return how(gm)(*traced.inputs), state(model)

    mine = run(bound)
    theirs = run(lambda gm: Interpreter(gm).run)
    (result,) = tree_leaves(mine[0])
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    assert_same(mine[0], theirs[0])
    assert_same(mine[1], theirs[1])
    torch.testing.assert_close(mine[1], dict(eager.state_dict()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_models_are_cut_where_they_should_be(name: str) -> None:
    case = CASES[name]
    cuts = {"decoder": 2, "convolutional": 2, "experts": 1}[name]
    traced = trace(case.model(), (case.input(),))
    split = split_graph(traced.graph, case.ops)
    code = check(split, *traced.inputs)
    # A convolution is the first thing that the network does.
    assert len(code.names) == 2 * cuts + (name != "convolutional")


@pytest.mark.parametrize("name", CASES)
def test_in_one_call(name: str) -> None:
    case = CASES[name]
    traced = trace(case.model(), (case.input(),))
    made = generate(traced.graph, case.ops)
    assert (made.code, made.submod_names) == generated(made.split_gm)[:2]
    torch.testing.assert_close(made.fn(*traced.inputs)[0], case.model()(case.input()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", CASES)
def test_piecewise(name: str, train: bool) -> None:
    case = CASES[name]
    eager, model = case.model(train), case.model(train)
    piecewise = Piecewise(model, case.ops)
    for _ in range(2):
        torch.testing.assert_close(piecewise(case.input()), eager(case.input()), rtol=1e-12, atol=1e-12)
    assert len(piecewise.generated) == 1
    torch.testing.assert_close(state(model), state(eager), rtol=1e-12, atol=1e-12)
    smaller = case.input()[:-1]
    torch.testing.assert_close(piecewise(smaller), eager(smaller), rtol=1e-12, atol=1e-12)
    assert len(piecewise.generated) == 2


def test_piecewise_of_many_instances_of_a_class() -> None:
    """Dynamo keeps few graphs for one function, and may not count those of other instances."""
    for _ in range(12):
        model = CASES["experts"].model()
        x = CASES["experts"].input()
        torch.testing.assert_close(Piecewise(model, ["softmax"])(x), model(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["module with hooks", "object", "partial", "bound method"])
def test_piecewise_of_what_is_no_plain_function(kind: str) -> None:
    hooked = torch.nn.Linear(3, 3)
    hooked.register_forward_hook(lambda module, args, result: result + 1)
    called = {
        "module with hooks": hooked,
        "object": Doubling(2.0),
        "partial": functools.partial(torch.add, other=3, alpha=2),
        "bound method": Doubling(4.0).__call__,
    }[kind]
    x = torch.randn(2, 3)
    torch.testing.assert_close(Piecewise(called, ["relu"])(x), called(x))
    traced = trace(called, (x,))
    torch.testing.assert_close(bound(traced.graph)(*traced.inputs)[0], called(x))


def test_piecewise_learns() -> None:
    case = CASES["experts"]
    eager, model = case.model(), case.model()
    piecewise = Piecewise(model, case.ops)
    for each, run in ((eager, eager), (model, piecewise)):
        optimizer = torch.optim.SGD(each.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            run(case.input()).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(state(model), state(eager), rtol=1e-9, atol=1e-9)


def test_piecewise_of_all_shapes_at_once() -> None:
    case = CASES["decoder"]
    model = case.model()
    piecewise = Piecewise(model, case.ops, dynamic=True)
    for length in (3, 4, 7):
        tokens = torch.randint(17, (2, length))
        torch.testing.assert_close(piecewise(tokens), model(tokens), rtol=1e-12, atol=1e-12)
    assert len(piecewise.generated) == 1


def test_piecewise_takes_functions_and_keywords() -> None:
    piecewise = Piecewise(lambda x, *, scale: {"y": torch.relu(x).sin() * scale}, ["relu"])
    x = torch.randn(3)
    result = piecewise(x, scale=2.0)
    torch.testing.assert_close(result, {"y": torch.relu(x).sin() * 2.0})
    assert piecewise.generated[0].submod_names == ["submod_0", "submod_1"]

"""Graphs are cut at operators into pieces that run in the order of the original."""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from codegen_checks import assert_same, bound, check, double, graph_of
from torch.fx import Graph, GraphModule

from modelguard.codegen import SplitError, UncutWarning, absent_ops, split_graph, trace

X = torch.linspace(-2, 2, 8).view(2, 4)


def pieces(split: GraphModule) -> list[list[str]]:
    """What each piece calls, in the order in which the pieces are called."""
    calls = [node for node in split.graph.nodes if node.op == "call_module"]
    bodies = [split.get_submodule(node.target).graph.nodes for node in calls]
    return [[LETTERS.get(node.name, node.name) for node in body if node.op.startswith("call_")] for body in bodies]


def steps() -> GraphModule:
    """a function, an operator, a method and a module, between others."""

    def build(graph: Graph) -> object:
        x = graph.placeholder("x")
        a = graph.call_function(double, (x,))
        b = graph.call_function(torch.nn.functional.gelu, (a,))
        c = graph.call_function(torch.ops.aten.add.Tensor, (b, 1))
        d = graph.call_method("sigmoid", (c,))
        e = graph.call_module("layers.norm", (d,))
        return graph.call_function(operator.neg, (e,))

    gm = graph_of(build, layers=torch.nn.ModuleDict({"norm": torch.nn.LayerNorm(4)}))
    return gm


LETTERS = {"double": "a", "gelu": "b", "add_tensor": "c", "sigmoid": "d", "layers_norm": "e", "neg": "f"}


NAMED = {
    "function": (double, "a"),
    "function of torch": (torch.nn.functional.gelu, "b"),
    "function's dotted name": ("torch.nn.functional.gelu", "b"),
    "function's bare name": ("gelu", "b"),
    "user's bare name": ("double", "a"),
    "overload": (torch.ops.aten.add.Tensor, "c"),
    "overload packet": (torch.ops.aten.add, "c"),
    "overload as the dispatcher has it": ("aten::add.Tensor", "c"),
    "packet as the dispatcher has it": ("aten::add", "c"),
    "overload with dots": ("aten.add.Tensor", "c"),
    "packet with dots": ("aten.add", "c"),
    "packet's bare name": ("add", "c"),
    "overload's dotted name": ("torch.ops.aten.add.Tensor", "c"),
    "packet's dotted name": ("torch.ops.aten.add", "c"),
    "blanks": (" aten::add ", "c"),
    "method": ("sigmoid", "d"),
    "module": ("layers.norm", "e"),
    "operator": (operator.neg, "f"),
    "operator's dotted name": ("operator.neg", "f"),
    "operator's bare name": ("neg", "f"),
}


@pytest.mark.parametrize("tuple_return", [False, True])
@pytest.mark.parametrize(("op", "name"), NAMED.values(), ids=NAMED)
def test_each_way_of_naming_an_operator(op: Any, name: str, tuple_return: bool) -> None:
    gm = steps()
    split = split_graph(gm, [op], tuple_return=tuple_return)
    before, after = "abcdef".split(name)
    assert pieces(split) == [list(part) for part in (before, name, after) if part]
    check(split, X)


OTHERS = {
    "none": [],
    "names of nothing": ["aten::mm", "torch.ops.nobody.nothing", "torch.no.such", "no_such", "layers", "norm"],
    "callables of nothing": [torch.relu, torch.ops.aten.mm, torch.ops.aten.add.Scalar, len],
    "part of a name": ["gel", "aten::add.Tens", "aten::ad", "sig", "layers.nor"],
}


@pytest.mark.filterwarnings("ignore::modelguard.codegen.UncutWarning")
@pytest.mark.parametrize("ops", OTHERS.values(), ids=OTHERS)
def test_without_a_match_it_is_one_piece(ops: list[Any]) -> None:
    split = split_graph(steps(), ops)
    assert pieces(split) == [list("abcdef")]
    check(split, X)


def test_names_that_a_graph_does_not_call_can_be_asked_for() -> None:
    assert absent_ops(steps(), ["gelu", "gleu", "aten::add", torch.relu, double]) == ["gleu", str(torch.relu)]


SLIPS = {
    "letters": (["gleu", double], "calls no gleu.*did you mean gelu"),
    "another namespace": (["mine::gelu", double], "calls no mine::gelu.*did you mean gelu"),
    "aten for a function": (["aten::gelu", double], "calls no aten::gelu.*did you mean gelu"),
    "nothing is cut": (["flash_attention"], "calls no flash_attention.*it calls double, gelu, aten::add"),
    "both spellings": (["gelu", "aten::gelu"], None),
    "another model's": (["flash_attention", "gelu"], None),
}


@pytest.mark.parametrize(("ops", "message"), SLIPS.values(), ids=SLIPS)
def test_what_looks_like_a_slip_is_warned_of(ops: list[Any], message: str | None) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        split_graph(steps(), ops)
    if message is None:
        assert told == []
    else:
        (each,) = told
        assert re.search(message, str(each.message)) and each.category is UncutWarning and each.filename == __file__


def test_several_names_in_one_are_refused() -> None:
    with pytest.raises(SplitError, match="more than one name"):
        split_graph(steps(), ["gelu,double"])


SEVERAL = {
    "first": ([double], ["a", "bcdef"]),
    "last": ([operator.neg], ["abcde", "f"]),
    "adjacent": (["gelu", "aten::add"], ["a", "b", "c", "def"]),
    "first and last": ([operator.neg, double], ["a", "bcde", "f"]),
    "all": ([double, "gelu", "aten::add", "sigmoid", "layers.norm", "neg"], list("abcdef")),
    "every other": ([double, "aten::add", "layers.norm"], list("abcdef")),
    "twice named": (["gelu", torch.nn.functional.gelu], ["a", "b", "cdef"]),
}


@pytest.mark.parametrize(("ops", "expected"), SEVERAL.values(), ids=SEVERAL)
def test_several_operators(ops: list[Any], expected: list[str]) -> None:
    split = split_graph(steps(), ops)
    assert pieces(split) == [list(piece) for piece in expected]
    check(split, X)


@pytest.mark.parametrize("op", ["", "  ", "torch.ops.", 3, None, ("gelu",)], ids=repr)
def test_what_is_no_operator(op: Any) -> None:
    with pytest.raises(SplitError, match="is no operator; give its name"):
        split_graph(steps(), [op])


def test_a_bare_string_is_not_taken_for_its_letters() -> None:
    with pytest.raises(SplitError, match="a list of operators"):
        split_graph(steps(), "gelu")


def test_the_original_is_left_as_it_was() -> None:
    gm = steps()
    text, nodes, modules = gm.print_readable(print_output=False), list(gm.graph.nodes), dict(gm.named_modules())
    metas = [dict(node.meta) for node in nodes]
    split_graph(gm, ["gelu"])
    assert gm.print_readable(print_output=False) == text and list(gm.graph.nodes) == nodes
    assert dict(gm.named_modules()) == modules and [node.meta for node in nodes] == metas
    assert not any("_fx_partition" in vars(node) for node in nodes)
    gm.graph.lint()


def writes(graph: Graph) -> object:
    """Views and writes to them, whose order alone makes the result."""
    x = graph.placeholder("x")
    base = graph.call_function(torch.ops.aten.mul.Tensor, (x, 1))
    view = graph.call_function(operator.getitem, (base, 0))
    graph.call_function(torch.ops.aten.add_.Tensor, (view, 10))
    a = graph.call_function(torch.ops.aten.sin.default, (base,))
    graph.call_function(torch.ops.aten.mul_.Tensor, (base, 2))
    graph.call_method("zero_", (view,))
    b = graph.call_function(torch.ops.aten.cos.default, (base,))
    graph.call_function(torch.ops.aten.add_.Tensor, (base, 5))
    return a, b, base, view


@pytest.mark.parametrize("tuple_return", [False, True])
@pytest.mark.parametrize(
    "ops",
    [
        ["aten::sin"],
        ["aten::add_"],
        ["aten::mul_", "zero_"],
        ["aten::sin", "aten::cos"],
        ["aten::add_", "aten::mul_", "zero_", "sin"],
    ],
    ids=" ".join,
)
def test_writes_keep_their_order(ops: list[str], tuple_return: bool) -> None:
    gm = graph_of(writes)
    split = split_graph(gm, ops, tuple_return=tuple_return)
    assert_same(bound(split)(X.clone()), bound(gm)(X.clone()))
    check(split, X)


def test_what_takes_results_apart_stays_with_the_call() -> None:
    def build(graph: Graph) -> object:
        x = graph.placeholder("x")
        both = graph.call_function(torch.max, (x, 0))
        values = graph.call_function(operator.getitem, (both, 0))
        indices = graph.call_function(operator.getitem, (both, 1))
        later = graph.call_function(operator.getitem, (x, 0))
        return graph.call_function(torch.add, (values, indices)), later, both

    split = split_graph(graph_of(build), [torch.max])
    assert pieces(split) == [["max_1", "getitem", "getitem_1"], ["getitem_2", "add"]]


class Regions(torch.nn.Module):
    """Autocast and `no_grad`, entered before and left after the cut."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
            z = torch.relu(y)
            w = self.layer(z)
        with torch.no_grad():
            v = torch.relu(w.float())
            u = v * 2
        return u, self.layer(x) + w.float()


@pytest.mark.parametrize("ops", [["relu"], ["linear"], ["mul"], ["relu", "linear", "add"], ["float"]], ids=" ".join)
@pytest.mark.parametrize("grad", [False, True])
def test_regions(ops: list[str], grad: bool) -> None:
    x = X.clone().requires_grad_(grad)
    traced = trace(Regions(), (x,))
    whole, split = traced.graph, split_graph(traced.graph, ops)
    grad_before = torch.is_grad_enabled()
    result = bound(split)(*traced.inputs)
    assert_same(result, bound(whole)(*traced.inputs))
    assert torch.is_grad_enabled() is grad_before and not torch.is_autocast_enabled("cpu")


def relu_of(graph: Graph, x: Any) -> Any:
    return graph.call_function(torch.relu, (x,))


RETURNS = {
    "an input": (lambda graph, x, weight: (x, graph.call_function(torch.relu, (x,)))),
    "a parameter": (lambda graph, x, weight: (weight, graph.call_function(torch.relu, (x,)))),
    "both, nested": (lambda graph, x, weight: {"a": [x, (weight,)], "b": graph.call_function(torch.relu, (x,))}),
    "a constant": (lambda graph, x, weight: (1, None, graph.call_function(torch.relu, (x,)))),
    "an input alone": (lambda graph, x, weight: x),
    "a parameter alone": (lambda graph, x, weight: weight),
    "nothing": (lambda graph, x, weight: None),
    "no value": (lambda graph, x, weight: ()),
    "the parameter of a piece": lambda graph, x, weight: (graph.call_function(torch.mul, (relu_of(graph, x), weight)), weight),
}


@pytest.mark.parametrize("tuple_return", [False, True])
@pytest.mark.parametrize("result", RETURNS.values(), ids=RETURNS)
def test_what_graphs_return(result: Callable[..., object], tuple_return: bool) -> None:
    def build(graph: Graph) -> object:
        return result(graph, graph.placeholder("x"), graph.get_attr("weight"))

    gm = graph_of(build, weight=torch.nn.Parameter(torch.full((4,), 3.0)))
    split = split_graph(gm, ["relu"], tuple_return=tuple_return)
    assert_same(bound(split)(X), bound(gm)(X))
    check(split, X)


def test_structured_arguments_and_results_stay() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any, *, scale: Any) -> Any:
            return {"sum": torch.relu(x["a"]).sin() * scale[0], "same": x["b"]}

    args, kwargs = ({"a": X, "b": [X, 1]},), {"scale": (X,)}
    gm = torch.export.export(Model(), args, kwargs).module(check_guards=False)
    split = split_graph(gm, ["aten::relu"])
    assert_same(split(*args, **kwargs), Model()(*args, **kwargs))
    assert_same(bound(split)(*args, **kwargs), Model()(*args, **kwargs))
    assert len(pieces(split)) == 2


def test_a_graph_of_nothing_is_returned_as_it_is() -> None:
    gm = graph_of(lambda graph: graph.placeholder("x"))
    assert_same(bound(split_graph(gm, ["relu"]))(X), X)


def test_pieces_of_a_model_run_in_eight_layers() -> None:
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Dropout(0.5))]
    torch.manual_seed(0)
    model = torch.nn.Sequential(*layers).eval()
    gm = torch.fx.symbolic_trace(model)
    split = split_graph(gm, [str(number) for number in range(1, 24, 3)])
    assert len(pieces(split)) == 17 and list(map(len, pieces(split))) == [1, 1, *[2, 1] * 7, 1]
    check(split, X)
    assert_same(bound(split)(X), model(X))


def test_modules_whose_paths_differ_by_a_dot_alone() -> None:
    def build(graph: Graph) -> object:
        x = graph.placeholder("x")
        for path in ("a.b", "a_b", "a_b_1", "a.b_1", "a_b", "a.b"):
            x = graph.call_module(path, (x,))
        return x

    torch.manual_seed(0)
    inner = torch.nn.ModuleDict({"b": torch.nn.Linear(4, 4), "b_1": torch.nn.Linear(4, 4)})
    gm = graph_of(build, a=inner, a_b=torch.nn.Linear(4, 4), a_b_1=torch.nn.Linear(4, 4))
    split = split_graph(gm, ["a.b"])
    assert len(pieces(split)) == 3
    assert_same(bound(split)(X), bound(gm)(X))
    check(split, X)


def test_parameters_and_buffers_are_the_original_s() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.BatchNorm1d(4))
    gm = torch.fx.symbolic_trace(model)
    split = split_graph(gm, ["1"])
    tensors = {id(value) for value in (*model.parameters(), *model.buffers())}
    assert {id(value) for value in (*split.parameters(), *split.buffers())} == tensors
    bound(split)(X)
    assert model[2].num_batches_tracked == 1

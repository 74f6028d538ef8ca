"""The generated text and its two tables are vLLM's: code made by either side runs under the other's executor."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from codegen_checks import Decoder, assert_same, check, generated, graph_of, reference_execution_fn
from torch.fx import Graph, GraphModule, Proxy

from modelguard.codegen import (
    compile_execution_fn,
    generate_execution_code,
    generate_execution_code_with_name,
    split_graph,
    trace,
)


class Mode(enum.Enum):
    SUM = 1
    MEAN = 2


MODE_NAMES = (Mode.SUM, Mode.MEAN)


def pooled(x: Any, mode: Mode) -> Any:
    return x.sum() if mode is Mode.SUM else x.mean()


def stitched() -> GraphModule:
    """A leaf called twice, another once, `getitem` and an operator between."""

    def build(graph: Graph) -> object:
        x, y = graph.placeholder("x"), graph.placeholder("y")
        parts = graph.call_function(torch.chunk, (x, 2))
        first = graph.call_function(operator.getitem, (parts, 0))
        a = graph.call_module("leaf", (first,))
        b = graph.call_module("other.inner", (a,))
        c = graph.call_module("leaf", (b,))
        return (graph.call_function(torch.add, (c, y), {"alpha": 2}),)

    return graph_of(build, leaf=torch.nn.ReLU(), other=torch.nn.ModuleDict({"inner": torch.nn.Tanh()}))


def inlined() -> GraphModule:
    """A graph module as child, between two leaves."""

    def child(graph: Graph) -> object:
        x = graph.placeholder("x")
        return graph.call_function(torch.sigmoid, (graph.call_function(torch.neg, (x,)),))

    def build(graph: Graph) -> object:
        x = graph.placeholder("x")
        a = graph.call_module("before", (x,))
        b = graph.call_module("child", (a,))
        return graph.call_module("after", (b,))

    return graph_of(build, before=torch.nn.ReLU(), child=graph_of(child), after=torch.nn.Tanh())


def with_consts() -> GraphModule:
    """One object used by the graph and by its child, which come in the order of first use."""

    def child(graph: Graph) -> object:
        x = graph.placeholder("x")
        return graph.call_function(pooled, (x, Mode.MEAN)), graph.call_function(pooled, (x, Mode.SUM))

    def build(graph: Graph) -> object:
        x = graph.placeholder("x")
        a = graph.call_function(pooled, (x, Mode.SUM))
        return a, graph.call_module("child", (x,)), graph.call_function(torch.sum, (x,), {"dtype": torch.float64})

    return graph_of(build, child=graph_of(child))


GOLDEN = {
    "stitched": (
        stitched,
        """\
import torch
import operator

def execution_fn(x, y, *, __vllm_submods__):
    chunk = torch.chunk(x, 2)
    del x
    getitem = chunk[0]
    del chunk
    leaf = __vllm_submods__[0](getitem)
    del getitem
    other_inner = __vllm_submods__[1](leaf)
    del leaf
    leaf_1 = __vllm_submods__[0](other_inner)
    del other_inner
    add = torch.add(leaf_1, y, alpha=2)
    del leaf_1, y
    return (add,)
""",
        ["leaf", "other.inner"],
        [],
    ),
    "inlined": (
        inlined,
        """\
import torch
import operator

def __vllm_inlined_submods__1(x):
    neg = torch.neg(x)
    del x
    sigmoid = torch.sigmoid(neg)
    del neg
    return sigmoid

def execution_fn(x, *, __vllm_submods__):
    before = __vllm_submods__[0](x)
    del x
    child = __vllm_inlined_submods__1(before)
    del before
    after = __vllm_submods__[2](child)
    del child
    return after
""",
        ["before", "child", "after"],
        [],
    ),
    "consts": (
        with_consts,
        """\
import torch
import operator

def __vllm_inlined_submods__0(x):
    pooled = __vllm_consts__[0](x, __vllm_consts__[2])
    pooled_1 = __vllm_consts__[0](x, __vllm_consts__[1])
    del x
    return (pooled, pooled_1)

def execution_fn(x, *, __vllm_submods__):
    pooled = __vllm_consts__[0](x, __vllm_consts__[1])
    child = __vllm_inlined_submods__0(x)
    sum_1 = torch.sum(x, dtype=__vllm_consts__[3])
    del x
    return (pooled, child, sum_1)
""",
        ["child"],
        [pooled, Mode.SUM, Mode.MEAN, torch.float64],
    ),
    "nothing": (
        lambda: graph_of(lambda graph: None),
        """\
import torch
import operator

def execution_fn(*, __vllm_submods__):
    pass
""",
        [],
        [],
    ),
}


@pytest.mark.parametrize(("make", "text", "names", "consts"), GOLDEN.values(), ids=GOLDEN)
def test_golden(make: Callable[[], GraphModule], text: str, names: list[str], consts: list[Any]) -> None:
    code = generated(make())
    assert code.text == text
    assert code.names == names
    assert len(code.consts) == len(consts) and all(map(operator.is_, code.consts, consts))


def test_the_named_function_comes_without_imports_and_extends_the_consts_it_is_given() -> None:
    gm = graph_of(lambda graph: graph.call_function(pooled, (graph.placeholder("x"), Mode.SUM)))
    consts: list[Any] = ["before", Mode.SUM]
    index = {id(Mode.SUM): 1}
    text, names, returned = generate_execution_code_with_name(gm, "piece", False, consts, index)
    assert text == ("\ndef piece(x):\n    pooled = __vllm_consts__[2](x, __vllm_consts__[1])\n    del x\n    return pooled\n")
    assert returned is consts and consts == ["before", Mode.SUM, pooled] and names == []
    assert index == {id(Mode.SUM): 1, id(pooled): 2}


STRICT = {
    "call_module": (
        lambda graph: graph.call_module("leaf", (graph.placeholder("x"),)),
        "call_module is not allowed for codegen target leaf.",
    ),
    "call_method": (
        lambda graph: graph.call_method("relu", (graph.placeholder("x"),)),
        "Unsupported node from codegen: %relu : [num_users=1] = call_method[target=relu](args = (%x,), kwargs = {})",
    ),
    "get_attr": (
        lambda graph: graph.get_attr("weight"),
        "Unsupported node from codegen: %weight : [num_users=1] = get_attr[target=weight]",
    ),
}


@pytest.mark.parametrize(("build", "message"), STRICT.values(), ids=STRICT)
def test_strictness_is_the_reference_s(build: Callable[[Graph], object], message: str) -> None:
    gm = graph_of(build, leaf=torch.nn.ReLU(), weight=torch.nn.Parameter(torch.ones(2)))
    with pytest.raises(RuntimeError) as raised:
        generate_execution_code_with_name(gm, "piece", with_submod=False)
    assert str(raised.value) == message
    generate_execution_code_with_name(gm, "piece", with_submod=True)


def test_a_graph_module_child_is_refused_too_where_submodules_are() -> None:
    with pytest.raises(RuntimeError, match=r"^call_module is not allowed for codegen target before\.$"):
        generate_execution_code_with_name(inlined(), "piece", with_submod=False)


def test_an_inlined_child_s_place_needs_no_callable() -> None:
    code = generated(inlined())
    x = torch.randn(3)
    callables = {"before": torch.relu, "after": torch.tanh}
    expected = torch.tanh(torch.sigmoid(-torch.relu(x)))
    assert torch.equal(compile_execution_fn(code.text, callables, code.names, code.consts)(x), expected)


def test_a_missing_callable_keeps_its_place_and_is_told_when_it_is_called() -> None:
    code = generated(stitched())
    fn = compile_execution_fn(code.text, {"other.inner": torch.tanh}, code.names, code.consts)
    with pytest.raises(RuntimeError, match="submodule `leaf` was given no callable"):
        fn(torch.randn(4), torch.randn(2))
    swapped = compile_execution_fn(code.text, {"leaf": torch.tanh, "other.inner": torch.relu}, code.names, code.consts)
    x, y = torch.randn(4), torch.randn(2)
    assert torch.equal(swapped(x, y)[0], torch.tanh(torch.relu(torch.tanh(x[:2]))) + 2 * y)


def test_callables_that_are_empty_are_callables() -> None:
    gm = graph_of(lambda graph: graph.call_module("nothing", (graph.placeholder("x"),)), nothing=torch.nn.Sequential())
    check(gm, torch.randn(2))


OLD_CODE = """\
import torch
import operator

def execution_fn(x, *, __vllm_submods__):
    a = __vllm_submods__[0](x)
    del x
    return a
"""


@pytest.mark.parametrize(
    "arguments", [pytest.param((), id="absent"), pytest.param((None,), id="None"), pytest.param(([],), id="empty")]
)
def test_code_without_consts_needs_none(arguments: tuple[Any, ...]) -> None:
    assert compile_execution_fn(OLD_CODE, {"a": lambda x: x + 1}, ["a"], *arguments)(1) == 2


HAND_WRITTEN = {
    "submodules, getitem and tuples": (
        """\
import torch
import operator

def execution_fn(x, s0, *, __vllm_submods__):
    submod_0 = __vllm_submods__[0](x, s0)
    del x
    getitem = submod_0[0]
    getitem_1 = submod_0[1]
    del submod_0
    submod_1 = __vllm_submods__[1](getitem, getitem_1)
    del getitem, getitem_1
    add = operator.add(submod_1, s0)
    del submod_1, s0
    return (add,)
""",
        {"submod_0": lambda x, s: (x * s, x - s), "submod_1": lambda a, b: a / b},
        ["submod_0", "submod_1"],
        None,
        (8, 2),
    ),
    "inlined functions": (
        """\
import torch
import operator

def __vllm_inlined_submods__0(x):
    relu = torch.relu(x)
    add = torch.ops.aten.add.Tensor(relu, x, alpha=2)
    return (add,)

def execution_fn(x, *, __vllm_submods__):
    submod_0 = __vllm_inlined_submods__0(x)
    getitem = submod_0[0]
    submod_1 = __vllm_submods__[1](getitem)
    return submod_1
""",
        {"submod_1": torch.tanh},
        ["submod_0", "submod_1"],
        None,
        (torch.arange(-2.0, 3.0),),
    ),
    "consts": (
        """\
import torch
import operator

def __vllm_inlined_submods__0(x):
    to = torch.ops.aten.to.dtype(x, __vllm_consts__[0])
    return to

def execution_fn(x, *, __vllm_submods__):
    submod_0 = __vllm_inlined_submods__0(x)
    zeros = torch.zeros(__vllm_consts__[1], dtype=__vllm_consts__[0])
    return [submod_0, zeros, {'a': (__vllm_consts__[2],)}]
""",
        {},
        ["submod_0"],
        [torch.float64, torch.Size([2]), slice(1, None)],
        (torch.ones(2),),
    ),
    "locals that are named as the modules": (
        """\
import torch
import operator

def __vllm_inlined_submods__0(operator):
    return operator.neg()

def execution_fn(torch, *, __vllm_submods__):
    cos = torch.cos()
    operator_1 = operator.add(cos, __vllm_inlined_submods__0(torch))
    return operator_1
""",
        {},
        ["submod_0"],
        None,
        (torch.arange(3.0),),
    ),
}


@pytest.mark.parametrize(("code", "callables", "names", "consts", "inputs"), HAND_WRITTEN.values(), ids=HAND_WRITTEN)
def test_source_of_the_reference_s_shape_runs_here(
    code: str, callables: dict[str, Any], names: list[str], consts: list[Any] | None, inputs: tuple[Any, ...]
) -> None:
    ours = compile_execution_fn(code, callables, names, consts)(*inputs)
    reference = reference_execution_fn(code, callables, names, consts)(*inputs)
    assert_same(ours, reference)


@pytest.mark.parametrize("make", [make for make, *_ in GOLDEN.values()], ids=GOLDEN)
def test_our_source_runs_under_the_reference_s_executor(make: Callable[[], GraphModule]) -> None:
    gm = make()
    inputs = [torch.randn(4), torch.randn(2)][: sum(node.op == "placeholder" for node in gm.graph.nodes)]
    check(gm, *inputs)


@pytest.mark.parametrize("tracer", ["dynamo", "export", "fx", "make_fx"])
def test_two_traces_of_one_model_give_equal_code(tracer: Any) -> None:
    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            filled = torch.full((3,), float("-inf"), dtype=torch.float32, device="cpu")
            return torch.softmax((x * self.scale).to(torch.float64), -1) + filled.to(torch.float64)

    model = Masked()
    first, second = (
        generate_execution_code(split_graph(trace(model, (torch.randn(3),), tracer=tracer).graph, ["softmax", "_softmax"]))
        for _ in range(2)
    )
    assert first[:2] == second[:2]
    # `make_fx` wraps the parameter again for each trace; values are what counts.
    assert len(first[2]) == len(second[2])
    for one, other in zip(first[2], second[2], strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_a_decoder_s_pieces_keep_their_order_in_the_names() -> None:
    traced = trace(Decoder(), (torch.arange(6).view(2, 3),))
    split = split_graph(traced.graph, ["scaled_dot_product_attention"])
    code = check(split, *traced.inputs)
    assert code.names == [f"submod_{number}" for number in range(5)]
    assert [f"def __vllm_inlined_submods__{number}(" in code.text for number in range(5)] == [True] * 5


def test_a_method_s_chain_through_proxies_is_one_statement_each() -> None:
    graph = Graph()
    x = Proxy(graph.placeholder("x"))
    graph.output((x.relu() + 1)[1:, None].node)
    text = generated(GraphModule(torch.nn.Module(), graph)).text
    assert "    relu = x.relu()\n" in text and "    add = operator.add(relu, 1)\n" in text
    assert "    getitem = add[1:, None]\n" in text

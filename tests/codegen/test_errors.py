"""What cannot be generated or bound is told by one error, which names node, module, line of source and remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from codegen_checks import generated, graph_of
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import CodeGen

from modelguard.codegen import (
    CodegenError,
    Piecewise,
    SplitError,
    TraceError,
    compile_execution_fn,
    generate_execution_code,
    generate_execution_code_with_name,
    split_graph,
)
from modelguard.errors import ModelguardError

STACK = """\
  File "/models/decoder.py", line 10, in forward
    x = self.layer(x)
  File "/models/layer.py", line 20, in forward
    return torch.relu(x)
"""


def relu() -> GraphModule:
    """`relu(x)`, as Dynamo notes it."""
    gm = graph_of(lambda graph: graph.call_function(torch.relu, (graph.placeholder("x"),)))
    node = list(gm.graph.nodes)[1]
    node.meta |= {
        "stack_trace": STACK,
        "nn_module_stack": {"a": ("L['self']", GraphModule), "b": ("L['self'].layer", torch.nn.ReLU)},
    }
    return gm


def unknown_kind(gm: GraphModule, node: Node) -> None:
    node.op = "call_fonction"


def not_callable(gm: GraphModule, node: Node) -> None:
    node.target = 3


def no_name(gm: GraphModule, node: Node) -> None:
    node.op, node.target = "call_method", torch.relu


def no_such_module(gm: GraphModule, node: Node) -> None:
    node.op, node.target = "call_module", "layers.0"


def no_such_attribute(gm: GraphModule, node: Node) -> None:
    node.op, node.target, node.args = "get_attr", "weight", ()


def no_module(gm: GraphModule, node: Node) -> None:
    gm.weight = torch.nn.Parameter(torch.ones(2))
    node.op, node.target = "call_module", "weight"


def no_object(gm: GraphModule, node: Node) -> None:
    node.op, node.target, node.args = "call_method", "relu", ()


def defined_later(gm: GraphModule, node: Node) -> None:
    node.prepend(later := gm.graph.call_function(torch.ones, (2,)))
    node.args = (later,)
    node.append(later)


def erased(gm: GraphModule, node: Node) -> None:
    with gm.graph.inserting_before(node):
        gone = gm.graph.call_function(torch.ones, (2,))
    node.args = (gone,)
    gone._remove_from_list()


def foreign(gm: GraphModule, node: Node) -> None:
    node.args = (Graph().placeholder("other"),)


def itself(gm: GraphModule, node: Node) -> None:
    node.op, node.target = "call_module", "me"
    gm.add_module("me", gm)


def too_deep(gm: GraphModule, node: Node) -> None:
    value: Any = 1
    for _ in range(150):
        value = [value]
    node.args = (value,)


FAULTS = {
    "unknown kind": (unknown_kind, "Unsupported node from codegen: ", "There is no kind 'call_fonction'"),
    "not callable": (not_callable, "it calls 3, which is not callable", "graph.lint"),
    "target that is no name": (no_name, "its target <built-in method relu", "graph.lint"),
    "missing module": (no_such_module, "`layers.0` does not exist in the graph module", "Add it with `add_submodule`"),
    "missing attribute": (no_such_attribute, "`weight` does not exist in the graph module", "register_buffer"),
    "module that is none": (no_module, "`weight` is called but is no module, it is a Parameter", "Call a module"),
    "method of nothing": (no_object, "method `relu` is called on nothing", "Give it its object"),
    "used before it is defined": (defined_later, "it uses `ones`, which is defined later or was erased", "graph.lint"),
    "erased": (erased, "it uses `ones`, which is defined later or was erased", "graph.lint"),
    "of another graph": (foreign, "it uses `other`, which belongs to another graph", "graph.lint"),
    "holds itself": (itself, "holds itself", "unroll it"),
    "nested too deeply": (too_deep, "nests containers too deeply", "Build it in several steps"),
}


@pytest.mark.parametrize("depth", [0, 2], ids=["root", "child"])
@pytest.mark.parametrize(("fault", "problem", "remedy"), FAULTS.values(), ids=FAULTS)
def test_errors_name_node_module_line_and_remedy(
    fault: Callable[[GraphModule, Node], None], problem: str, remedy: str, depth: int
) -> None:
    gm = relu()
    node = list(gm.graph.nodes)[1]
    fault(gm, node)
    for _ in range(depth):
        gm = graph_of(lambda graph: graph.call_module("child", (graph.placeholder("x"),)), child=gm)
    with pytest.raises(CodegenError) as raised:
        generate_execution_code(gm)
    error, text = raised.value, str(raised.value)
    assert isinstance(error, RuntimeError) and isinstance(error, ModelguardError)
    assert problem in text and remedy in text
    assert "node `relu`" in text and "module L['self'].layer (ReLU)" in text
    assert "/models/layer.py:20, in forward: return torch.relu(x)" in text
    assert error.node is node and error.module_path == "L['self'].layer (ReLU)"
    assert (error.source.path, error.source.line) == ("/models/layer.py", 20)
    assert "\n" not in text


def test_modules_that_hold_each_other() -> None:
    first, second = relu(), relu()
    for gm, other in ((first, second), (second, first)):
        node = list(gm.graph.nodes)[1]
        node.op, node.target = "call_module", "other"
        gm.add_module("other", other)
    with pytest.raises(CodegenError, match=r"module `.*` holds itself"):
        generate_execution_code(first)


def test_modules_nested_without_end() -> None:
    gm = relu()
    for _ in range(3000):
        # Not through the constructor, which asks for each module of a root.
        parent = graph_of(lambda graph: graph.call_module("child", (graph.placeholder("x"),)), child=torch.nn.Identity())
        parent._modules["child"] = gm
        gm = parent
    with pytest.raises(CodegenError, match=r"modules are nested too deeply. Inline them"):
        generate_execution_code(gm)


def test_what_nodes_say_of_themselves_may_be_anything() -> None:
    gm = relu()
    node = list(gm.graph.nodes)[1]
    not_callable(gm, node)
    for meta in (
        {},
        {"stack_trace": None, "nn_module_stack": None},
        {"stack_trace": "no frame", "nn_module_stack": {}},
        {"stack_trace": 3, "nn_module_stack": {"a": 3}},
        {"stack_trace": 'File "\udcff", line 3, in f\n', "nn_module_stack": {"a": ("", "torch.nn.ReLU")}},
    ):
        node.meta = meta
        with pytest.raises(CodegenError, match="node `relu`") as raised:
            generate_execution_code(gm)
        str(raised.value).encode()


@pytest.mark.parametrize("default", ["too deep", "too deep in a child"])
def test_a_default_that_is_nested_too_deeply(default: str) -> None:
    value: Any = 1
    for _ in range(150):
        value = (value,)
    gm = graph_of(lambda graph: graph.placeholder("x", default_value=value))
    if default == "too deep in a child":
        gm = graph_of(lambda graph: graph.call_module("child"), child=gm)
    with pytest.raises(CodegenError, match=r"nests containers too deeply .*node `x`"):
        generate_execution_code(gm)


@pytest.mark.parametrize(
    "targets",
    [
        pytest.param([("x", (1,)), ("y", ())], id="default before none"),
        pytest.param([("*args", ()), ("*more", ())], id="two stars"),
        pytest.param([("**rest", ()), ("x", ())], id="after the rest"),
        pytest.param([("***x", ())], id="three stars"),
    ],
)
def test_placeholders_that_no_function_can_take(targets: list[tuple[str, Any]]) -> None:
    gm = graph_of(lambda graph: [graph.create_node("placeholder", target, default) for target, default in targets])
    with pytest.raises(CodegenError, match="node `"):
        generate_execution_code(gm)


NAMES = ["", "a b", "class", "1x", "é", "None", "__debug__", "torch", "operator", "float", "slice", "getattr", "a.b", "x\n"]
NAMES += ["__vllm_submods__", "__vllm_consts__"]


def test_the_reference_names_children_so() -> None:
    assert "def __vllm_inlined_submods__3(x):" in generate_execution_code_with_name(relu(), "__vllm_inlined_submods__3", False)[0]
    with pytest.raises(CodegenError, match="cannot be the name"):
        generate_execution_code_with_name(relu(), "__vllm_inlined_submods__0", True)


@pytest.mark.parametrize("with_submod", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_names_that_a_function_cannot_have(name: str, with_submod: bool) -> None:
    with pytest.raises(CodegenError, match=r"cannot be the name of the function\. Give an ASCII identifier"):
        generate_execution_code_with_name(relu(), name, with_submod)


def test_a_graph_whose_forward_has_an_unknown_writer() -> None:
    class Own(CodeGen):
        """Someone's own calling convention."""

    gm = relu()
    gm.graph.set_codegen(Own())
    with pytest.raises(CodegenError, match=r"written by a Own.*Set it back"):
        generate_execution_code(gm)


CODE = """\
import torch
import operator

def execution_fn(x, *, __vllm_submods__):
    a = {}
    return a
"""

BROKEN = {
    "no Python": ("def execution_fn(:", "the generated source line 1 is not Python"),
    "cut off": (CODE.format("x")[:-20] + "\n    (", "the generated source line [0-9]+ is not Python"),
    "indentation": ("def execution_fn():\n  a = 1\n   b = 2", "the generated source line 3 is not Python"),
    "null": ("def execution_fn(): pass\0", "is not Python"),
    "brackets": (CODE.format("(" * 500 + ")" * 500), "is not Python"),
    "operators": (CODE.format("x" + "+x" * 100_000), "is not Python"),
    "half a character": (CODE.format("'\udcff'"), "is not Python"),
    "nothing": ("", "the source defines no function `execution_fn`"),
    "another function": ("def forward(x): pass", "the source defines no function `execution_fn`"),
    "no function": ("execution_fn = 3", "the source defines no function `execution_fn`"),
    "return outside": (CODE.format("x") + "return 3", "is not Python"),
    "unknown overload": (
        CODE.format("torch.ops.aten.add.Tenser(x, x)"),
        r"calls `torch.ops.aten.add.Tenser`, which does not exist",
    ),
    "unknown operator": (CODE.format("torch.ops.nobody.nothing(x)"), r"calls `torch.ops.nobody.nothing`, which does not exist"),
    "unknown overload of an unknown operator": (CODE.format("torch.ops.no.op.default(x)"), r"calls `torch.ops.no.op"),
    "unknown function": (CODE.format("operator.addd(x, x)"), "calls `operator.addd`, which does not exist here"),
    "unknown module": (CODE.format("torch.no.such.thing(x)"), r"calls `torch.no.such.thing`, which does not exist here"),
    "submodule beyond the names": (CODE.format("__vllm_submods__[1](x)"), "uses submodule 1 of 1"),
    "constant beyond the consts": (CODE.format("__vllm_consts__[2]"), "uses constant 2 of 2"),
}


@pytest.mark.parametrize(("code", "message"), BROKEN.values(), ids=BROKEN)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_source_that_cannot_be_bound(code: str, message: str) -> None:
    with pytest.raises(CodegenError, match=message):
        compile_execution_fn(code, {}, ["a"], [1, 2])


def test_constants_are_needed_where_code_uses_them() -> None:
    with pytest.raises(CodegenError, match=r"uses constant 0 of 0. Pass the consts"):
        compile_execution_fn(CODE.format("__vllm_consts__[0]"), {}, [])


def test_source_that_fails_while_it_is_defined() -> None:
    with pytest.raises(CodegenError, match="ZeroDivisionError"):
        compile_execution_fn("x = 1 / 0\ndef execution_fn(): pass", {}, [])


def test_lint_failures_are_those_of_lint() -> None:
    """What `lint` passes is generated."""
    gm = relu()
    gm.graph.lint()
    generated(gm)
    x, node, _ = gm.graph.nodes
    node.args = (graph_of(lambda graph: graph.placeholder("x")).graph.find_nodes(op="placeholder")[0],)
    with pytest.raises(RuntimeError):
        gm.graph.lint()
    with pytest.raises(CodegenError):
        generated(gm)
    node.args = (x,)
    generated(gm)


@pytest.mark.parametrize(
    "generate",
    [
        generate_execution_code,
        lambda module: generate_execution_code_with_name(module, "run", False),
        lambda module: split_graph(module, ["relu"]),
    ],
    ids=["code", "named", "split"],
)
def test_a_module_without_a_graph_is_told_how_to_get_one(generate: Callable[[Any], object]) -> None:
    with pytest.raises(CodegenError, match=r"a ReLU has no graph.*trace\(model, args\)\.graph` makes one"):
        generate(torch.nn.ReLU())


def branching(x: torch.Tensor) -> torch.Tensor:
    return x if x.sum() > 0 else -x


def test_piecewise_raises_errors_of_ours() -> None:
    with pytest.raises(TraceError, match=r"cannot be traced into one graph by dynamo: .*[Dd]ata-dependent"):
        Piecewise(branching)(torch.ones(2))
    with pytest.raises(SplitError, match="3 is no operator"):
        Piecewise(torch.nn.ReLU(), [3])(torch.ones(2))  # type: ignore[list-item]


def test_piecewise_passes_on_what_the_model_itself_raises() -> None:
    run = Piecewise(lambda x, index: x[index])
    run(torch.ones(3), torch.tensor(1))
    with pytest.raises(IndexError):
        run(torch.ones(3), torch.tensor(7))

"""Graphs of every tracer and every kind of node run as the Interpreter runs them, bit for bit."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from codegen_checks import assert_same, bound, check, double, generated, graph_of
from torch._higher_order_ops.while_loop import while_loop
from torch.fx import Graph, GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.split_module import split_module

from modelguard.codegen import CodegenError, compile_execution_fn, split_graph, trace

Pair = collections.namedtuple("Pair", ["first", "second"])
X = torch.linspace(-2, 2, 8).view(2, 4)


@dataclasses.dataclass(frozen=True)
class Settings:
    """A constant of a user's own class."""

    scale: float
    mode: str = "plain"


class Mode(enum.Enum):
    HALF = 0.5
    TWICE = 2.0


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


class Kernel:
    """As Triton's: an object without `__name__` that is called."""

    def __call__(self, x: Any, *, factor: float = 3.0) -> Any:
        return x * factor


class Wrapper:
    """As a decorated kernel: an object that carries the names of what it wraps."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs) + 1


def scaled(x: Any, by: Any) -> Any:
    if isinstance(by, Settings):
        return x * by.scale
    if isinstance(by, Mode):
        return x * by.value
    return x * (2 if by == Flags.A | Flags.B else 3)


def given(*args: Any, **kwargs: Any) -> Any:
    """What it was given, so that each argument is compared."""
    return args, kwargs


def calls(*args: Any, **kwargs: Any) -> Callable[[Graph], object]:
    """A graph of one call that returns its arguments, of which `...` stands for the placeholder."""

    def build(graph: Graph) -> object:
        return graph.call_function(given, (graph.placeholder("x"), *args), kwargs)

    return build


def on_x(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[[Graph], object]:
    # `fx` makes a node's name of the function's, which not every object has.
    return lambda graph: graph.create_node("call_function", function, (graph.placeholder("x"), *args), kwargs, name="called")


CONSTANTS = {
    "inf": math.inf,
    "-inf": -math.inf,
    "nan": math.nan,
    "-0.0": -0.0,
    "smallest float": 5e-324,
    "complex": complex(-0.0, math.inf),
    "complex nan": complex(math.nan, -0.0),
    "nan in containers": [math.nan, (math.inf,), {"a": -math.inf}],
    "huge int": 10**5000,
    "negative huge int": -(10**5000),
    "64 bits": 2**64,
    "bool": True,
    "None": None,
    "ellipsis": ...,
    "not implemented": NotImplemented,
    "string of every kind": "".join(map(chr, range(0x500))) + "\u2028\u2029\udcff\U0001f600'\"\\{}%" * 3,
    "long string": "é\n" * 10_000,
    "bytes": bytes(range(256)),
    "empty tuple": (),
    "tuple of one": (1,),
    "empty containers": ([], {}, ()),
    "nested": {"a": [1, (2, {"b": (3,)})], 4: None, None: 5, (1, "c"): 6, 1.5: math.inf},
    "slice": slice(1, None, -2),
    "slices in containers": (slice(None), [slice(1)]),
    "slice of odd bounds": slice("a", (1, 2), slice(3)),
    "range": range(3, 9, 2),
    "enum": Mode.HALF,
    "flags": Flags.A | Flags.B,
    "Size": torch.Size([2, 3]),
    "empty Size": torch.Size([]),
    "named tuple": Pair(1, 2.5),
    "dataclass": Settings(2.0),
    "dtype": torch.float16,
    "device": torch.device("cpu"),
    "layout": torch.strided,
    "memory format": torch.channels_last,
    "class": dict,
    "builtin": len,
    "frozen set": frozenset({1, 2}),
}


@pytest.mark.parametrize("value", CONSTANTS.values(), ids=CONSTANTS)
@pytest.mark.parametrize("where", ["argument", "keyword", "default", "output"])
def test_constants(value: Any, where: str) -> None:
    def build(graph: Graph) -> object:
        if where == "default":
            return graph.call_function(given, (graph.create_node("placeholder", "x", (value,)),))
        x = graph.placeholder("x")
        if where == "output":
            return (x, value)
        return graph.call_function(given, (x, value)) if where == "argument" else graph.call_function(given, (x,), {"key": value})

    check(graph_of(build), *(() if where == "default" else (X,)))


def test_a_constant_keeps_its_identity() -> None:
    shared = Settings(3.0)
    gm = graph_of(lambda graph: (shared, [shared, graph.call_function(given, (shared,))]))
    code = check(gm)
    assert len(code.consts) == 2
    first, (second, ((third,), _)) = bound(gm, code)()
    assert first is second is third is shared


FUNCTIONS = {
    "operator": on_x(operator.neg),
    "torch": on_x(torch.relu),
    "functional": on_x(torch.nn.functional.gelu),
    "builtin": on_x(abs),
    "overload": on_x(torch.ops.aten.add.Tensor, 2, alpha=3),
    "packet": on_x(torch.ops.aten.relu),
    "math": lambda graph: graph.call_function(
        math.floor, (graph.call_method("item", (graph.call_method("sum", (graph.placeholder("x"),)),)),)
    ),
    "a user's": on_x(double),
    "lambda": on_x(lambda x: x - 1),
    "partial": on_x(functools.partial(torch.add, other=2, alpha=3)),
    "object": on_x(Kernel(), factor=2.0),
    "decorated object": on_x(Wrapper(torch.relu)),
    "object that calls itself relu": on_x(Wrapper(torch.nn.functional.relu)),
    "bound method": on_x(X.add),
    "class": on_x(Pair, 2),
    "dataclass": lambda graph: graph.call_function(scaled, (graph.placeholder("x"), graph.call_function(Settings, (2.0,)))),
    "module": on_x(torch.nn.Tanh()),
    "method of Tensor": on_x(torch.Tensor.add, 2),
    "method of Tensor in Python": on_x(torch.Tensor.norm),
    "descriptor": on_x(torch.Tensor.T.__get__),
    "getattr": on_x(getattr, "shape"),
    "setitem": lambda graph: (
        (x := graph.placeholder("x")),
        graph.call_function(operator.setitem, (x, (slice(None), 0), 7.0)),
    ),
    "nested function of torch": on_x(torch.nn.functional.max_pool1d, 2),
    "segment reduce": lambda graph: graph.call_function(
        torch.segment_reduce, (graph.placeholder("x"), "sum"), {"lengths": graph.call_function(torch.tensor, ([1, 1],))}
    ),
    "mask": on_x(torch.masked_fill, X > 0, -math.inf),
    "enum": on_x(scaled, Mode.TWICE),
    "flags": on_x(scaled, Flags.A | Flags.B),
    "settings": on_x(scaled, Settings(2.5)),
}


@pytest.mark.parametrize("build", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions(build: Callable[[Graph], object]) -> None:
    check(graph_of(build), X)


def test_an_object_with_another_s_name_is_not_taken_for_it() -> None:
    gm = graph_of(on_x(Wrapper(torch.relu)))
    assert_same(bound(gm)(X), torch.relu(X) + 1)


INDICES = {
    "int": 0,
    "negative": -1,
    "slice": slice(0, 1),
    "full slice": slice(None),
    "step": slice(None, None, 2),
    "tuple": (0, 1),
    "tuple of one": (0,),
    "empty tuple": (),
    "ellipsis": ...,
    "ellipsis in tuple": (..., 0),
    "None": None,
    "mixed": (slice(None), None, slice(1, 3)),
    "list": [0, 1],
    "list in tuple": ([0, 1], [1, 0]),
    "bool": True,
    "tensor": torch.tensor([1, 0]),
    "tensor in tuple": (slice(None), torch.tensor([1, 0])),
    "slice of slices": (slice(0, 1, None), slice(-2, None)),
    "tuple in tuple": ((0, 1), 0),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_getitem(index: Any) -> None:
    check(graph_of(on_x(operator.getitem, index)), X)


NODE_INDICES = {
    "node": lambda n: n,
    "slice from a node": lambda n: slice(n, None),
    "slice to a node": lambda n: slice(None, n),
    "slice by a node": lambda n: slice(None, None, n),
    "slice in a tuple": lambda n: (slice(None), slice(n, None)),
    "node in a tuple": lambda n: (0, n),
    "node in a list": lambda n: ([n, 0],),
}


@pytest.mark.parametrize("index", NODE_INDICES.values(), ids=NODE_INDICES)
def test_getitem_by_nodes(index: Callable[[Any], Any]) -> None:
    def build(graph: Graph) -> object:
        x, n = graph.placeholder("x"), graph.placeholder("n")
        return graph.call_function(operator.getitem, (x, index(n)))

    check(graph_of(build), X, 1)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(([1, 2, 3], 1), id="a list"),
        pytest.param(({"a": 1}, "a"), id="a dict"),
        pytest.param(((1, 2), slice(1, None)), id="a tuple"),
        pytest.param(("text", 0), id="a string"),
        pytest.param((torch.Size([3, 4]), 1), id="a size"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_getitem_of_constants(args: tuple[Any, ...]) -> None:
    check(graph_of(lambda graph: graph.call_function(operator.getitem, args)))


ARGUMENTS_WITH_NODES = {
    "named tuple": lambda n: Pair(n, 2),
    "named tuple of a slice": lambda n: Pair(slice(n, None), [n]),
    "named tuple of a list in a slice": lambda n: Pair(slice([n], {"a": n}), 2),
    "slice": lambda n: slice(n, n, None),
    "slice in a list": lambda n: [slice(None, n)],
    "dict": lambda n: {"a": n, "b": {"c": [n]}},
    "nested": lambda n: ([n, (n,)], {"a": (n, None)}),
}


@pytest.mark.parametrize("argument", ARGUMENTS_WITH_NODES.values(), ids=ARGUMENTS_WITH_NODES)
def test_arguments_that_hold_nodes(argument: Callable[[Any], Any]) -> None:
    check(graph_of(lambda graph: graph.call_function(given, (argument(graph.placeholder("x")),))), X)
    check(graph_of(lambda graph: (argument(graph.placeholder("x")),)), X)


class Odd:
    """Has methods of any name."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__") and name not in ("__mangled__", "__debug__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: (name, args, kwargs)


ODD_NAMES = [
    "class",
    "not a name",
    "a.b",
    "",
    "1st",
    "é",
    "ﬁ",
    "__private",
    "__mangled__",
    "print",
    "None",
    "__debug__",
    'q"\n\\',
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_methods_with_odd_names(name: str) -> None:
    gm = graph_of(lambda graph: graph.create_node("call_method", name, (graph.placeholder("x"), 1), {"k": 2}, name="result"))
    check(gm, Odd())


@pytest.mark.parametrize("this", [3, -3, 2.5, "text", (1,), None, math.inf, X], ids=repr)
@pytest.mark.filterwarnings("error")
def test_methods_of_constants(this: Any) -> None:
    name = "__hash__" if not isinstance(this, torch.Tensor) else "sum"
    check(graph_of(lambda graph: graph.call_method(name, (this,))))


@pytest.mark.parametrize("name", [*ODD_NAMES, "self", "torch", "args"])
def test_keywords_with_odd_names(name: str) -> None:
    check(graph_of(lambda graph: graph.call_function(given, (graph.placeholder("x"),), {"a": 1, name: 2, "z": 3})), X)


PLACEHOLDERS = [
    "torch", "operator", "print", "float", "slice", "getattr", "__debug__", "__vllm_submods__", "__vllm_consts__",
    "__vllm_inlined_submods__0", "execution_fn", "self", "_", "x_1", "__builtins__", "__import__", "int", "match",
]  # fmt: skip


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_placeholders_that_hide_other_names(name: str) -> None:
    def child(graph: Graph) -> object:
        x = graph.create_node("placeholder", "x", name=name)
        return graph.call_function(torch.add, (x, graph.call_function(operator.getitem, (x, slice(0, 1)))))

    def build(graph: Graph) -> object:
        x, y = graph.create_node("placeholder", "x", name=name), graph.create_node("placeholder", "y", name=f"{name}_1")
        a = graph.call_function(torch.relu, (graph.call_module("child", (x,)),))
        b = graph.call_function(operator.add, (a, math.inf))
        c = graph.call_function(given, (slice(y, None), Mode.HALF))
        return b, c, graph.call_module("leaf", (y,)), graph.call_method("odd name", (graph.call_function(Odd),))

    check(graph_of(build, child=graph_of(child), leaf=torch.nn.ReLU()), X, X + 1)


@pytest.mark.parametrize("name", ["class", "None", "import", "é", "ﬁ", "a b", "1x", "", "a.b", "\uff58", "x\n"])
def test_values_with_names_that_are_none(name: str) -> None:
    """`fx` makes legal names, but a node can be renamed, and its `Interpreter` never looks."""
    gm = graph_of(lambda graph: graph.call_function(torch.relu, (graph.placeholder("x"),)))
    for node in gm.graph.nodes:
        if node.op != "output":
            node._name = name
    check(gm, X)


def test_names_that_are_wanted_twice() -> None:
    def build(graph: Graph) -> object:
        x = graph.placeholder("x")
        return [graph.call_function(torch.add, (x, number)) for number in range(4)]

    gm = graph_of(build)
    for node, name in zip(gm.graph.nodes, ("x", "x", "x_1", "x", "x_2", "out"), strict=True):
        node._name = name
    check(gm, X)


DEFAULTS = {
    "number": (2.0, (X,)),
    "None": (None, (X,)),
    "inf": (math.inf, (X,)),
    "object": (Mode.HALF, (X,)),
    "list": ([1, 2], (X,)),
    "given": (2.0, (X, 3.0)),
}


@pytest.mark.parametrize(("default", "inputs"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults(default: Any, inputs: tuple[Any, ...]) -> None:
    def build(graph: Graph) -> object:
        x, y = graph.placeholder("x"), graph.placeholder("y", default_value=default)
        return graph.call_function(given, (x, y))

    check(graph_of(build), *inputs)


STARS = {
    "*args": ([("*args", ())], (1, 2), {}),
    "no *args": ([("*args", ())], (), {}),
    "x, *args": ([("x", ()), ("*args", ())], (1, 2, 3), {}),
    "**kwargs": ([("**kwargs", ())], (), {"a": 1, "class": 2}),
    "all": ([("x", ()), ("y", (5,)), ("*args", ()), ("**kwargs", ())], (1, 2, 3), {"b": 4}),
    "defaults": ([("x", ()), ("y", (5,)), ("*args", ()), ("**kwargs", ())], (1,), {"b": 4}),
    "keyword": ([("x", ()), ("y", (5,))], (), {"x": 1, "y": 2}),
}


@pytest.mark.parametrize(("placeholders", "args", "kwargs"), STARS.values(), ids=STARS)
def test_stars_and_keywords(placeholders: list[tuple[str, Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """As the graph module's own `forward`: the Interpreter knows no `**kwargs`."""

    def build(graph: Graph) -> object:
        return [graph.create_node("placeholder", target, default) for target, default in placeholders]

    child = graph_of(build)
    assert_same(bound(child)(*args, **kwargs), child(*args, **kwargs))
    parent = graph_of(lambda graph: graph.call_module("child", args, kwargs), child=child)
    assert_same(bound(parent)(), child(*args, **kwargs))
    if "**kwargs" not in dict(placeholders):
        check(parent)


def test_children_take_keywords_by_the_placeholders_targets() -> None:
    def build(graph: Graph) -> object:
        taken = [graph.create_node("placeholder", target, (), name=name) for target, name in (("a", "b_1"), ("b", "a_1"))]
        rest = graph.placeholder("**rest")
        return [*taken, rest]

    child = graph_of(build)
    for kwargs in ({"a": 1, "b": 2}, {"b": 1, "a": 2, "c": 3}, {"a": 1, "b": 2, "not a name": 4, "class": 5}):
        parent = graph_of(lambda graph, kwargs=kwargs: graph.call_module("child", (), kwargs), child=child)
        check(parent)


def test_a_keyword_for_the_rest_that_is_a_parameter_s_name_in_the_source() -> None:
    def build(graph: Graph) -> object:
        return [graph.create_node("placeholder", "torch", (), name="torch"), graph.placeholder("**rest")]

    child = graph_of(build)
    check(graph_of(lambda graph: graph.call_module("child", (1,), {"rest": 3, "operator": 4}), child=child))
    with pytest.raises(CodegenError, match="keyword `torch_1`"):
        generated(graph_of(lambda graph: graph.call_module("child", (1,), {"torch_1": 2}), child=child))


STRUCTURES = {
    "no placeholder": (lambda graph: graph.call_function(torch.ones, (2,)), ()),
    "nothing": (lambda graph: None, ()),
    "no output": (lambda graph: (graph.call_function(torch.relu, (graph.placeholder("x"),)), None)[1], (X,)),
    "output of a placeholder": (lambda graph: graph.placeholder("x"), (X,)),
    "output of a constant": (lambda graph: (1, None), ()),
    "unused placeholder": (lambda graph: [graph.placeholder("x"), graph.placeholder("y")][1], (X, X + 1)),
    "one value many times": (lambda graph: (lambda x: [x, (x, {"a": x})])(graph.placeholder("x")), (X,)),
}


@pytest.mark.parametrize(("build", "inputs"), STRUCTURES.values(), ids=STRUCTURES)
def test_structures(build: Callable[[Graph], object], inputs: tuple[Any, ...]) -> None:
    check(graph_of(build), *inputs)


def test_values_nobody_uses_have_their_effects() -> None:
    def build(graph: Graph) -> object:
        x, unused = graph.placeholder("x"), graph.placeholder("unused")
        graph.call_method("add_", (x, 1))
        graph.call_function(torch.relu, (unused,))
        graph.get_attr("weight")
        return x

    check(graph_of(build, weight=torch.nn.Parameter(torch.ones(2))), X, X)


def test_what_comes_after_the_output_is_not_run() -> None:
    gm = graph_of(lambda graph: graph.call_function(torch.relu, (graph.placeholder("x"),)))
    with gm.graph.inserting_after(list(gm.graph.nodes)[-1]):
        x, *_ = gm.graph.nodes
        gm.graph.call_method("add_", (x, 1))
        gm.graph.call_function(operator.truediv, (1, 0))
    code = check(gm, X)
    assert code.text.splitlines()[-1] == "    return relu"


def test_get_attr_before_placeholders_and_of_every_member() -> None:
    class Inner(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((4,), 2.0))
            self.register_buffer("shift", torch.ones(4))
            self.plain = 3.5

    def build(graph: Graph) -> object:
        weight, shift = graph.get_attr("inner.weight"), graph.get_attr("inner.shift")
        plain, again = graph.get_attr("inner.plain"), graph.get_attr("inner.weight")
        x = graph.placeholder("x")
        return graph.call_function(given, (x, weight, shift, plain, again))

    gm = graph_of(build, inner=Inner())
    code = check(gm, X)
    assert code.consts[:2] == [gm.inner.weight, gm.inner.shift] and code.consts[0] is gm.inner.weight


def nested(depth: int) -> GraphModule:
    """Graph modules in one another, each with a leaf of its own, called twice."""

    def build(graph: Graph) -> object:
        x = graph.placeholder("x")
        y = graph.create_node("placeholder", "y", (0.5,))
        a = graph.call_module("leaf", (graph.call_function(torch.add, (x, y)),))
        if not depth:
            return a
        b = graph.call_module("child", (a,))
        c = graph.call_module("child", (b,), {"y": 2.0})
        return graph.call_function(torch.add, (c, graph.get_attr("weight")))

    members: dict[str, Any] = {"leaf": torch.nn.Linear(4, 4)}
    if depth:
        members |= {"child": nested(depth - 1), "weight": torch.nn.Parameter(torch.randn(4))}
    return graph_of(build, **members)


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_nested_graph_modules(depth: int) -> None:
    code = check(nested(depth), X)
    assert code.text.count("def ") == depth + 1
    assert len(code.names) == len(set(code.names)) == 2 * depth + 1


def test_a_child_that_is_shared_under_two_paths_is_generated_once() -> None:
    child = nested(0)

    def build(graph: Graph) -> object:
        x = graph.placeholder("x")
        return graph.call_module("b.inner", (graph.call_module("a", (x,)),))

    code = check(graph_of(build, a=child, b=torch.nn.ModuleDict({"inner": child})), X)
    assert code.text.count("def ") == 2


def test_a_leaf_that_is_shared_under_two_paths() -> None:
    leaf = torch.nn.Linear(4, 4)

    def build(graph: Graph) -> object:
        return graph.call_module("b", (graph.call_module("a", (graph.placeholder("x"),)),))

    check(graph_of(build, a=leaf, b=leaf), X)


def test_a_child_with_hooks_runs_them() -> None:
    child = graph_of(on_x(torch.relu))
    child(X)
    child.register_forward_hook(lambda module, args, result: result + 1)
    check(graph_of(lambda graph: graph.call_module("child", (graph.placeholder("x"),)), child=child), X)


def test_a_child_with_a_forward_of_its_own_runs_it() -> None:
    child = graph_of(on_x(torch.relu))
    child.forward = torch.tanh
    check(graph_of(lambda graph: graph.call_module("child", (graph.placeholder("x"),)), child=child), X)


# Tracers


class Net(torch.nn.Module):
    """A bit of everything that tracers note differently."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("mask", torch.tensor([0.0, -math.inf, 0.0, 0.0]))

    def forward(self, x: torch.Tensor) -> Any:
        y = self.norm(self.linear(x))
        y = torch.softmax(y + self.mask, -1)
        a, b = y.chunk(2, -1)
        return {"sum": a + b, "parts": [a, (b[..., 0], y.shape[-1])]}


def net() -> Net:
    torch.manual_seed(0)
    return Net()


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("tracer", ["dynamo", "fx", "make_fx"])
def test_tracers(tracer: Any, train: bool) -> None:
    model = net().train(train)
    traced = trace(model, (X,), tracer=tracer)
    if tracer == "dynamo":
        check(traced.graph, *traced.inputs)
        return
    # These graphs hold the model's buffers, which training writes to.
    results = []
    for run in (bound(traced.graph), Interpreter(traced.graph).run, traced.graph):
        model.load_state_dict(net().state_dict())
        results.append((run(X), {name: buffer.clone() for name, buffer in model.named_buffers()}))
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])


def structured(x: Any, *, scale: Any = 2.0, options: Any = None) -> Any:
    total = x["a"] * scale + sum(x["b"])
    return {"total": total, "same": (x["a"],), "shift": total + options[0]}


class Structured(torch.nn.Module):
    def forward(self, x: Any, scale: Any = 2.0, *, options: Any = None) -> Any:
        return structured(x, scale=scale, options=options)


class Flat(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y


class Taking(torch.nn.Module):
    def forward(self, x: torch.Tensor, *args: torch.Tensor, k: Any = 1.0, **kwargs: torch.Tensor) -> Any:
        return x + sum(args) * k, {key: value * 2 for key, value in kwargs.items()}


class Three(torch.nn.Module):
    def forward(self, args: tuple[torch.Tensor], options: dict[str, torch.Tensor]) -> Any:
        return [args[0] + options["a"]]


EXPORTED = {
    "flat": (Flat(), (X, X + 1), {}),
    "flat by keyword": (Flat(), (X,), {"y": X + 1}),
    "dict and list": (Structured(), ({"a": X, "b": [X, X + 1]},), {"options": (X,)}),
    "keywords": (Structured(), ({"a": X, "b": [X]},), {"options": (X,), "scale": torch.tensor(3.0)}),
    "named tuple": (Structured(), ({"a": X, "b": Pair(X, X)}, torch.tensor(1.0)), {"options": [X, None]}),
    "stars": (Taking(), (X, X + 1, X + 2), {"k": torch.tensor(2.0), "other": X}),
    "a tuple and a dict": (Three(), ((X,), {"a": X}), {}),
    "a constant": (Flat(), (X, 3.0), {}),
}


@pytest.mark.parametrize("guards", [True, False], ids=["guards", "no guards"])
@pytest.mark.parametrize(("model", "args", "kwargs"), EXPORTED.values(), ids=EXPORTED)
def test_export(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], guards: bool) -> None:
    gm = torch.export.export(model, args, kwargs).module(check_guards=guards)
    code = generated(gm)
    fn = bound(gm, code)
    expected = model(*args, **kwargs)
    assert_same(gm(*args, **kwargs), expected)
    if "args" not in gm.graph._codegen.pytree_info.orig_args and not isinstance(model, Taking):
        assert_same(fn(*args, **kwargs), expected)
    assert_same(fn(*args, *kwargs.values()), expected)


def test_an_exported_child_is_inlined_with_its_structure() -> None:
    args, kwargs = ({"a": X, "b": [X, X + 1]},), {"options": (X,)}
    child = torch.export.export(Structured(), args, kwargs).module(check_guards=False)
    # Export checks inputs in hooks, and what has hooks is called as it is.
    child._forward_pre_hooks.clear()
    child._forward_hooks.clear()

    def build(graph: Graph) -> object:
        x = graph.placeholder("x")
        return graph.call_module("child", ({"a": x, "b": [x, X + 1]},), {"options": (x,)})

    gm = graph_of(build, child=child)
    code = generated(gm)
    # The Interpreter hands on read-only containers, which the child does not take.
    assert_same(bound(gm, code)(X), child(*args, **kwargs))
    assert code.text.count("def ") == 2


def test_concrete_arguments() -> None:
    def function(x: Any, y: Any, flag: bool) -> Any:
        return (x["a"] + y if flag else x["a"] - y, {"b": x["b"]})

    gm = torch.fx.symbolic_trace(function, concrete_args={"x": {"a": torch.fx.PH, "b": torch.fx.PH}, "flag": False})
    inputs = ({"a": X, "b": X + 1}, X + 2, False)
    assert_same(bound(gm)(*inputs), gm(*inputs))

    class Module(torch.nn.Module):
        def forward(self, x: Any, y: Any, flag: bool) -> Any:
            return function(x, y, flag)

    gm = torch.fx.symbolic_trace(Module(), concrete_args={"x": {"a": torch.fx.PH, "b": torch.fx.PH}, "flag": False})
    assert_same(bound(gm)(*inputs), gm(*inputs))
    gm = torch.fx.symbolic_trace(lambda x, flag: x + 1 if flag else x - 1, concrete_args={"flag": True})
    assert_same(bound(gm)(X, True), gm(X, True))


def test_make_fx_of_structured_arguments() -> None:
    gm = make_fx(lambda x, y: {"r": x["a"] @ y[0], "s": [y[1]]})({"a": X}, (X.t(), X))
    inputs = ({"a": X}, (X.t(), X))
    assert_same(bound(gm)(*inputs), gm(*inputs))


def test_make_fx_with_symbolic_shapes() -> None:
    gm = make_fx(lambda x: x.view(-1).new_full((x.shape[0] * 2,), math.inf), tracing_mode="symbolic")(X)
    check(gm, X)


class Sines(torch.autograd.Function):
    """An operator with its own derivative."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * ctx.saved_tensors[0].cos()


@torch.compiler.nested_compile_region
def region(layer: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x).relu()


class Ops(torch.nn.Module):
    """A layer, and something done with it."""

    def __init__(self, run: Callable[[torch.nn.Linear, torch.Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 4)
        self.run = run

    def forward(self, x: torch.Tensor) -> Any:
        return self.run(self.layer, x)


def autocast(layer: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    with torch.no_grad():
        z = y.float() * 2
    return z + y.float()


HIGHER_ORDER = {
    "cond": lambda layer, x: torch.cond(x.sum() > 0, lambda x: layer(x).sin(), lambda x: x.cos(), (x,)),
    "while_loop": lambda layer, x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.sin()), (torch.tensor(0), x)),
    "checkpoint": lambda layer, x: torch.utils.checkpoint.checkpoint(
        lambda y: torch.relu(layer(y)), x, use_reentrant=False
    ).sin(),
    "autograd function": lambda layer, x: Sines.apply(layer(x)) * 2,
    "nested region": lambda layer, x: region(layer, region(layer, x)).sin(),
    "autocast": autocast,
    "custom op": lambda layer, x: torch.ops.modelguard_tests.plus(layer(x), 2.0),
    "map": lambda layer, x: torch.func.vmap(lambda row: layer(row).relu())(x),
}


@torch.library.custom_op("modelguard_tests::plus", mutates_args=())
def plus(x: torch.Tensor, by: float) -> torch.Tensor:
    """An operator of a user's library."""
    return x + by


plus.register_fake(lambda x, by: torch.empty_like(x))
plus.register_autograd(lambda ctx, grad: (grad, None))


@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
@pytest.mark.parametrize("grad", [False, True], ids=["no grad", "grad"])
@pytest.mark.parametrize("run", HIGHER_ORDER.values(), ids=HIGHER_ORDER)
def test_higher_order_operators(run: Callable[..., Any], grad: bool, split: bool) -> None:
    x = X.clone().requires_grad_(grad)
    traced = trace(Ops(run), (x,))
    gm = split_graph(traced.graph, ["sin", "relu", "mul"]) if split else traced.graph
    code = generated(gm)
    results, grads = [], []
    for function in (bound(gm, code), Interpreter(gm).run):
        x.grad = None
        result = function(*traced.inputs)
        results.append(result)
        # The backward of a nested region works while it is compiled only.
        if grad and run is not HIGHER_ORDER["nested region"]:
            sum(value.sum() for value in result if value.requires_grad).backward()
            grads.append(x.grad)
    assert_same(results[0], results[1])
    if grads:
        assert_same(grads[0], grads[1])


@pytest.mark.parametrize("kind", ["cond", "custom op"])
def test_export_of_higher_order_operators(kind: str) -> None:
    gm = torch.export.export(Ops(HIGHER_ORDER[kind]), (X,)).module()
    check(gm, X, run=lambda gm, *inputs: gm(*inputs))


def test_dynamic_shapes() -> None:
    captured: list[GraphModule] = []
    inputs: list[Any] = []

    def backend(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        captured.append(gm)

        def run(*args: Any) -> Any:
            inputs[:] = args
            return bound(split_graph(gm, ["sin"]))(*args)

        return run

    def model(x: torch.Tensor, n: int) -> Any:
        y = x[: x.shape[0] - 1].sin()
        return y.view(-1, 2)[1:] * n, y.new_zeros(x.shape[0] + n), x.shape[0] * n

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for rows, n in ((4, 3), (7, 5), (5, 2)):
        x = torch.randn(rows, 4)
        assert_same(compiled(x, n), model(x, n))
        for gm in (captured[-1], split_graph(captured[-1], ["sin"])):
            assert_same(bound(gm)(*inputs), Interpreter(gm).run(*inputs))
    assert any(isinstance(value, int) for value in inputs)


@pytest.mark.parametrize("tuple_return", [False, True])
@pytest.mark.parametrize("pieces", [1, 2, 3, 7])
def test_split_module(pieces: int, tuple_return: bool) -> None:
    model = net().eval()
    gm = torch.fx.symbolic_trace(model)
    numbers = {node: number * pieces // len(gm.graph.nodes) for number, node in enumerate(gm.graph.nodes)}
    split = split_module(gm, model, numbers.__getitem__, tuple_return=tuple_return)
    code = check(split, X)
    assert "submod_0" in code.names


# Deep nesting


def test_nesting_up_to_what_python_reads() -> None:
    value: Any = 1
    for _ in range(50):
        value = [value]
    check(graph_of(calls(value)), X)


def test_source_loads_without_the_library_s_state() -> None:
    code = generated(graph_of(on_x(torch.relu)))
    assert compile_execution_fn(code.text, {}, [])(X) is not None

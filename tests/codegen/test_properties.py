"""Random graphs run as the Interpreter runs them; random damage to artifacts is found."""

from __future__ import annotations

import ast
import collections
import enum
import functools
import hashlib
import math
import operator
import tempfile
from pathlib import Path
from typing import Any

import torch
from codegen_checks import bound, generated, reference_execution_fn
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.immutable_collections import immutable_dict, immutable_list

from modelguard.codegen import ArtifactError, load_artifact, save_artifact, split_graph

Pair = collections.namedtuple("Pair", ["first", "second"])


class Mode(enum.Enum):
    ONE = 1
    INF = math.inf


def canonical(value: Any) -> str:
    """A text that is equal for equal values of equal types only."""
    if isinstance(value, Value):
        return f"<{value.digest}>"
    kind = {immutable_list: list, immutable_dict: dict}.get(type(value), type(value))
    if isinstance(value, dict):
        return f"{kind}{{{', '.join(f'{canonical(key)}: {canonical(item)}' for key, item in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"{kind}({', '.join(map(canonical, value))})"
    if isinstance(value, slice):
        return f"slice({canonical((value.start, value.stop, value.step))})"
    return f"{kind}:{value!r}" if kind is not int else f"int:{value:x}"


LOG: list[str] = []
"""What was run, in order."""


class Value:
    """Stands for a tensor: it was made by operations on others, and all that it was made of is in its digest."""

    def __init__(self, *made_of: Any) -> None:
        self.digest = hashlib.sha1(canonical(made_of).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        LOG.append(self.digest)

    def __getitem__(self, index: Any) -> Value:
        return Value("[]", self, index)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: Value(name, self, args, kwargs)

    def __neg__(self) -> Value:
        return Value("-", self)


class Op:
    """As a Triton kernel: a callable object without a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Op({self.name})"

    def __call__(self, *args: Any, **kwargs: Any) -> Value:
        return Value(self.name, args, kwargs)


class Leaf(torch.nn.Module):
    """A submodule that is no graph."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, *args: Any, **kwargs: Any) -> Value:
        return Value("leaf", self.name, args, kwargs)


def function(*args: Any, **kwargs: Any) -> Value:
    return Value("function", args, kwargs)


def both(*args: Any) -> tuple[Value, Value]:
    return Value("first", args), Value("second", args)


SHARED = (Op("shared"), Pair(1, 2), torch.float16, torch.Size([1, 2]), range(3))
FUNCTIONS = (
    function,
    both,
    Op("a"),
    Op("b"),
    functools.partial(function, 1),
    lambda x, *rest, **kw: Value("lambda", x, rest, kw),
)
NAMES = (
    "x", "y", "x_1", "torch", "operator", "print", "float", "slice", "class", "None", "é", "a b", "1st", "_", "__debug__", "self",
    "__vllm_submods__", "__vllm_consts__", "__vllm_inlined_submods__0", "execution_fn", "getattr", "",
)  # fmt: skip
METHODS = ("relu", "class", "odd name", "é", "print")

leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from([10**900, -(10**900)]), st.floats(), st.just(-0.0),
    st.complex_numbers(), st.text(max_size=5), st.binary(max_size=5), st.just(...), st.sampled_from([*Mode, *SHARED]),
)  # fmt: skip


def arguments(nodes: list[Node]) -> st.SearchStrategy[Any]:
    """Values that hold nodes anywhere, also where a node's argument needs a slice or a named tuple for it."""
    some = leaves if not nodes else st.one_of(st.sampled_from(nodes), leaves)
    hashable = st.one_of(st.integers(), st.text(max_size=3), st.tuples(st.booleans(), st.none()))
    return st.recursive(
        some,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(hashable, inner, max_size=2),
            st.builds(slice, inner, inner, inner),
            st.builds(Pair, inner, inner),
        ),
        max_leaves=5,
    )


@st.composite
def graph_modules(draw: Any, depth: int = 2, awkward: bool = True) -> GraphModule:
    """A graph of all kinds of nodes, with leaves and, down to `depth`, graphs as children."""
    root = torch.nn.Module()
    root.weight, root.other = Value("weight", depth), Value("other", depth)
    root.leaf, root.nested = Leaf("leaf"), torch.nn.ModuleDict({"leaf": Leaf("nested")})
    children = [draw(graph_modules(depth - 1, awkward)) for _ in range(draw(st.integers(0, 2)))] if depth else []
    for place, child in enumerate(children):
        root.add_module(f"child_{place}", child)
    if len(children) == 2 and draw(st.booleans()):
        root.child_1 = children[1] = children[0]
    graph = Graph()
    nodes: list[Node] = []
    made: list[Node] = []
    pairs: list[Node] = []
    required = draw(st.integers(0, 3))
    for place in range(required + draw(st.integers(0, 1))):
        default = () if place < required else (draw(arguments([])),)
        nodes.append(graph.create_node("placeholder", f"p{place}", default))
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["function", "function", "method", "getitem", "attr", "leaf", "child", "pair", "part"]))
        args = tuple(draw(st.lists(arguments(nodes), max_size=3)))
        keys = st.sampled_from(("a", "torch", *(("class", "odd key", "é") if awkward else ())))
        kwargs = draw(st.dictionaries(keys, arguments(nodes), max_size=2))
        # What a parent hands on can be anything; what was made here has methods and items.
        this = draw(st.sampled_from(made)) if made else None
        known = len(nodes)
        if kind == "attr":
            nodes.append(graph.get_attr(draw(st.sampled_from(["weight", "other"]))))
        elif kind == "leaf":
            nodes.append(graph.call_module(draw(st.sampled_from(["leaf", "nested.leaf"])), args, kwargs))
        elif kind == "child" and children:
            place = draw(st.integers(0, len(children) - 1))
            taken = [node for node in children[place].graph.nodes if node.op == "placeholder"]
            count = draw(st.integers(sum(not node.args for node in taken), len(taken)))
            split = draw(st.integers(0, count))
            values = [draw(arguments(nodes)) for _ in range(count)]
            by_name = {str(node.target): value for node, value in zip(taken[split:], values[split:], strict=False)}
            # What a child returns can be anything, so it is only handed on.
            result = graph.call_module(f"child_{place}", tuple(values[:split]), by_name)
            nodes.append(graph.create_node("call_function", function, (result,), {}, name=f"of_{result.name}"))
        elif kind == "pair" and this is not None:
            pairs.append(graph.call_function(both, (this, *args)))
        elif kind == "part" and pairs:
            nodes.append(graph.call_function(operator.getitem, (draw(st.sampled_from(pairs)), draw(st.integers(0, 1)))))
        elif kind == "method" and this is not None:
            name = draw(st.sampled_from(METHODS if awkward else METHODS[:1]))
            nodes.append(graph.create_node("call_method", name, (this, *args), kwargs, name=f"m{len(graph.nodes)}"))
        elif kind == "getitem" and this is not None:
            nodes.append(graph.call_function(operator.getitem, (this, draw(arguments(nodes)))))
        elif kind == "function":
            target = draw(st.sampled_from([target for target in FUNCTIONS if target is not both]))
            nodes.append(graph.create_node("call_function", target, args or (1,), kwargs, name=f"f{len(graph.nodes)}"))
        made += nodes[known:]
    if draw(st.booleans()) or nodes:
        graph.output(draw(arguments([*nodes, *pairs])))
    if awkward:
        for node in graph.nodes:
            if draw(st.integers(0, 3)) == 0:
                node._name = draw(st.sampled_from(NAMES))
    return _LazyGraphModule(root, graph)


class Reference(Interpreter):
    """The Interpreter, also for the graphs of children: `fx` cannot spell all that it can run."""

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        child = self.fetch_attr(target)
        if not isinstance(child, GraphModule):
            return super().call_module(target, args, kwargs)
        names = [str(node.target) for node in child.graph.nodes if node.op == "placeholder"]
        return Reference(child).run(*args, *(kwargs[name] for name in names[len(args) :] if name in kwargs))


def inputs_of(gm: GraphModule) -> list[Value]:
    return [Value("input", node.target) for node in gm.graph.nodes if node.op == "placeholder" and not node.args]


def logged(run: Any, inputs: list[Value]) -> tuple[str, list[str]]:
    LOG.clear()
    result = canonical(run(*inputs))
    return result, list(LOG)


SETTINGS = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(graph_modules())
def test_random_graphs(gm: GraphModule) -> None:
    inputs = inputs_of(gm)
    expected = logged(Reference(gm).run, inputs)
    code = generated(gm)
    assert code.text == generated(gm).text and len(set(map(id, code.consts))) == len(code.consts)
    tree = ast.parse(code.text)
    event(f"functions: {len(tree.body) - 2}")
    assert logged(bound(gm, code), inputs) == expected
    modules = dict(gm.named_modules())
    assert logged(reference_execution_fn(code.text, modules, code.names, code.consts), inputs) == expected


@SETTINGS
@given(graph_modules(depth=1, awkward=False), st.data())
def test_random_cuts(gm: GraphModule, data: st.DataObject) -> None:
    inputs = inputs_of(gm)
    expected = logged(Reference(gm).run, inputs)
    named = ["relu", "leaf", "nested.leaf", "child_0", "function", both, operator.getitem, *FUNCTIONS[2:]]
    ops = data.draw(st.lists(st.sampled_from(named), max_size=4))
    split = split_graph(gm, ops, tuple_return=data.draw(st.booleans()))
    event(f"pieces: {sum(node.op == 'call_module' for node in split.graph.nodes)}")
    code = generated(split)
    assert logged(bound(split, code), inputs) == expected
    modules = dict(split.named_modules())
    assert logged(reference_execution_fn(code.text, modules, code.names, code.consts), inputs) == expected
    assert logged(Reference(gm).run, inputs) == expected
    assert generated(gm).text == generated(gm).text


plain = st.recursive(
    st.one_of(leaves.filter(lambda value: not isinstance(value, Op)), st.sampled_from([slice(1, None), function, Mode.INF])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=2),
        st.builds(slice, inner, inner, inner),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=20), st.lists(st.text(max_size=5), max_size=3), st.lists(plain, max_size=4))
def test_artifacts_come_back(code: str, names: list[str], consts: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        content_hash = save_artifact(path, code, names, consts)
        found = load_artifact(path, content_hash)
    assert (found.code, found.submod_names) == (code, names)
    assert canonical(found.consts) == canonical(consts)


with tempfile.TemporaryDirectory() as _folder:
    _CONTENT = ("code", ["a", "b"], [1, math.inf, Mode.INF, Pair(1, slice(2)), torch.arange(3)])
    save_artifact(Path(_folder) / "a", *_CONTENT)
    ARTIFACT = (Path(_folder) / "a").read_bytes()

positions = st.one_of(st.integers(0, 120), st.integers(0, len(ARTIFACT) - 1))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["change", "cut", "add", "end"]), positions, st.binary(min_size=1, max_size=1))
def test_damaged_artifacts_are_refused(how: str, place: int, byte: bytes) -> None:
    start, rest = ARTIFACT[:place], ARTIFACT[place:]
    damaged = {"change": start + byte + rest[1:], "cut": start + rest[1:], "add": start + byte + rest, "end": start}[how]
    assume(damaged != ARTIFACT)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        path.write_bytes(damaged)
        try:
            found = load_artifact(path)
        except ArtifactError:
            return
    assert (found.code, found.submod_names) == _CONTENT[:2]
    assert canonical(found.consts) == canonical(_CONTENT[2])

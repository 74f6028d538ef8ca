"""Each value is freed right after its last use, and one that nobody uses at once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from codegen_checks import Decoder, bound, generated, graph_of, reference_execution_fn
from torch.fx import Graph, GraphModule

from modelguard.codegen import split_graph, trace

takes_arguments_along = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="before Python 3.11 a call keeps its arguments until it is done"
)


class Recorder:
    """An operator that notes, whenever it is called, which of the values it made so far are alive."""

    def __init__(self) -> None:
        self.made: dict[str, weakref.ref[torch.Tensor]] = {}
        self.alive: dict[str, set[str]] = {}

    def __call__(self, name: str, *values: Any) -> torch.Tensor:
        self.alive[name] = {made for made, value in self.made.items() if value() is not None}
        result = torch.zeros(1)
        self.made[name] = weakref.ref(result)
        return result

    def call(self, graph: Graph, name: str, *values: Any) -> Any:
        """A node that makes the value `name`."""
        return graph.create_node("call_function", self, (name, *values), name=name)


def runs(gm: GraphModule) -> list[Callable[..., Any]]:
    text, names, consts = generated(gm)
    return [bound(gm), reference_execution_fn(text, dict(gm.named_modules()), names, consts)]


def chain(recorder: Recorder, graph: Graph) -> object:
    a = recorder.call(graph, "a", graph.placeholder("x"))
    b = recorder.call(graph, "b", a)
    recorder.call(graph, "unused", b)
    c = recorder.call(graph, "c", a)
    d = recorder.call(graph, "d", [b, {"k": (b,)}])
    recorder.call(graph, "unused_2")
    return [recorder.call(graph, "e"), c, d]


ALIVE = {
    "a": set(),
    "b": {"a"},
    "unused": {"a", "b"},
    "c": {"a", "b"},
    "d": {"b", "c"},
    "unused_2": {"c", "d"},
    "e": {"c", "d"},
}


def test_values_are_freed_after_their_last_use() -> None:
    recorder = Recorder()
    for run in runs(graph_of(lambda graph: chain(recorder, graph))):
        recorder.made.clear()
        result = run(1)
        assert recorder.alive == ALIVE
        assert [name for name, value in recorder.made.items() if value() is not None] == ["c", "d", "e"]
        del result
        assert [name for name, value in recorder.made.items() if value() is not None] == []


@pytest.mark.parametrize("depth", [1, 3])
def test_inside_inlined_children(depth: int) -> None:
    recorder = Recorder()
    gm = graph_of(lambda graph: chain(recorder, graph))
    for _ in range(depth):
        gm = graph_of(lambda graph: graph.call_module("child", (graph.placeholder("x"),)), child=gm)
    for run in runs(gm):
        recorder.made.clear()
        run(1)
        assert recorder.alive == ALIVE


def test_what_a_child_returns_is_freed_by_its_caller() -> None:
    recorder = Recorder()

    def child(graph: Graph) -> object:
        x = graph.placeholder("x")
        return recorder.call(graph, "first", x), recorder.call(graph, "second", x)

    def build(graph: Graph) -> object:
        parts = graph.call_module("child", (graph.placeholder("x"),))
        first = graph.call_method("__getitem__", (parts, 0))
        recorder.call(graph, "after")
        recorder.call(graph, "use", first)
        graph.call_module("child", (1,))
        return recorder.call(graph, "last")

    gm = graph_of(build, child=graph_of(child))
    for run in runs(gm):
        recorder.made.clear()
        run(1)
        assert recorder.alive["after"] == {"first"}
        assert recorder.alive["last"] == {"first", "second"} - {"first", "second"}


def in_a_fresh_process(call: str) -> None:
    """Dynamo's hook on frames stays where a compilation raised, and under it each call keeps its arguments until it is done."""
    child = [sys.executable, "-c", f"import test_liveness; test_liveness.{call}"]
    done = subprocess.run(child, cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@takes_arguments_along
@pytest.mark.parametrize("used", [True, False], ids=["used", "unused"])
def test_inputs_are_freed(used: bool) -> None:
    """An input that its caller gave up is freed after its last use, an unused one before anything runs."""
    in_a_fresh_process(f"see_inputs_freed({used})")


def see_inputs_freed(used: bool) -> None:
    recorder = Recorder()

    def build(graph: Graph) -> object:
        x = graph.placeholder("x")
        recorder.call(graph, "before")
        recorder.call(graph, "use", *([x] if used else []))
        return recorder.call(graph, "after")

    for run in runs(graph_of(build))[:1]:
        recorder.made.clear()
        given = [torch.ones(1)]
        recorder.made["x"] = weakref.ref(given[0])
        run(given.pop())
        assert recorder.alive == {"before": {"x"} if used else set(), "use": {"x"} if used else set(), "after": set()}


@takes_arguments_along
def test_structured_inputs_are_freed() -> None:
    in_a_fresh_process("see_structured_inputs_freed()")


def see_structured_inputs_freed() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> torch.Tensor:
            return (x["a"].sin() + x["b"]).cos()

    gm = torch.export.export(Model(), ({"a": torch.ones(2), "b": torch.ones(2)},)).module(check_guards=False)
    recorder = Recorder()
    _, add, cosine = (node for node in gm.graph.nodes if node.op == "call_function")
    with gm.graph.inserting_before(add):
        recorder.call(gm.graph, "after_sine")
    with gm.graph.inserting_before(cosine):
        recorder.call(gm.graph, "after_add")
    given = [{"a": torch.ones(2), "b": torch.ones(2)}]
    recorder.made |= {name: weakref.ref(value) for name, value in given[0].items()}
    bound(gm)(given.pop())
    assert recorder.alive == {"after_sine": {"b"}, "after_add": set()} or recorder.alive["after_add"] == {"after_sine"}


def models() -> dict[str, GraphModule]:
    recorder = Recorder()
    decoder = trace(Decoder(), (torch.arange(6).view(2, 3),)).graph
    return {
        "chain": graph_of(lambda graph: chain(recorder, graph)),
        "decoder": decoder,
        "split decoder": split_graph(decoder, ["scaled_dot_product_attention"]),
        "fx decoder": trace(torch.nn.TransformerEncoderLayer(8, 2), (torch.randn(2, 3, 8),), tracer="export").graph,
    }


@pytest.mark.parametrize("kind", ["chain", "decoder", "split decoder", "fx decoder"])
def test_the_text_has_a_del_for_each_value_right_after_its_last_use(kind: str) -> None:
    code = generated(models()[kind])
    for function in ast.parse(code.text).body[2:]:
        assert isinstance(function, ast.FunctionDef)
        statements = function.body
        names = [{node.id: type(node.ctx) for node in ast.walk(line) if isinstance(node, ast.Name)} for line in statements]
        values = {argument.arg for argument in function.args.args}
        values |= {name for line in names for name, context in line.items() if context is ast.Store}
        for value in values:
            uses = [place for place, line in enumerate(names) if value in line]
            deletions = [place for place in uses if names[place][value] is ast.Del]
            if isinstance(statements[uses[-1]], ast.Return):
                assert deletions == []
                continue
            before = uses[-2] if len(uses) > 1 else -1
            assert deletions == [before + 1] == uses[-1:], value


def test_models_keep_nothing_but_results() -> None:
    traced = trace(Decoder(), (torch.arange(6).view(2, 3),))
    gm = split_graph(traced.graph, ["scaled_dot_product_attention"])
    seen: list[weakref.ref[torch.Tensor]] = []

    def watched(module: torch.nn.Module) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            result = module(*args)
            seen.extend(weakref.ref(value) for value in (result if isinstance(result, tuple) else (result,)))
            return result

        return run

    code = generated(gm)
    text = re.sub(r"__vllm_inlined_submods__(\d+)\(", r"__vllm_submods__[\1](", code.text[code.text.index("def execution_fn") :])
    fn = reference_execution_fn(text, {name: watched(gm.get_submodule(name)) for name in code.names}, code.names, code.consts)
    with torch.no_grad():
        result = fn(*traced.inputs)
    alive = [value() for value in seen if value() is not None]
    assert len(seen) > 5 and len(alive) == 1 and alive[0] is result[0]

"""Generated code can be read in tracebacks, by `inspect` and in pdb, and leaves nothing behind."""

from __future__ import annotations

import gc
import inspect
import io
import linecache
import pdb
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from codegen_checks import bound, generated, graph_of
from torch.fx import Graph, GraphModule

from modelguard.codegen import compile_execution_fn, split_graph, trace

X = torch.ones(2, 4)


class Fails(torch.nn.Module):
    """Its graph fails for another shape."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        return y @ torch.ones(4, 4)


def line_of(text: str) -> int:
    lines, start = inspect.getsourcelines(Fails)
    return start + next(place for place, line in enumerate(lines) if text in line)


def failing() -> Callable[..., Any]:
    traced = trace(Fails(), (X,))
    return bound(split_graph(traced.graph, ["relu"]))


def sources() -> set[str]:
    return {name for name in linecache.cache if name.startswith("<modelguard")}


@pytest.fixture
def collector_off() -> Iterator[None]:
    """What is freed is freed by itself."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_traceback_shows_the_generated_line_and_the_model_s() -> None:
    with pytest.raises(RuntimeError) as raised:
        failing()(torch.ones(2, 3))
    text = "".join(traceback.format_exception(raised.value))
    assert "in execution_fn\n    submod_1 = __vllm_inlined_submods__1(submod_0" in text
    assert "matmul = operator.matmul(y, " in text or "@" in text
    place = f"# {__file__}:{line_of('y @ torch')}, in forward: return y @ torch.ones(4, 4)"
    assert place in text


def test_a_traceback_shows_its_lines_when_the_function_is_gone() -> None:
    fn = failing()
    try:
        fn(torch.ones(2, 3))
    except RuntimeError as error:
        caught = error
    del fn
    assert "submod_1 = __vllm_inlined_submods__1(" in "".join(traceback.format_exception(caught))


def test_errors_of_submodules_show_the_line_that_calls_them() -> None:
    def build(graph: Graph) -> object:
        return graph.call_module("leaf", (graph.call_function(torch.neg, (graph.placeholder("x"),)),))

    gm = graph_of(build, leaf=torch.nn.Linear(4, 4))
    with pytest.raises(RuntimeError) as raised:
        bound(gm)(torch.ones(2, 3))
    assert "    leaf = __vllm_submods__[0](neg)\n" in "".join(traceback.format_exception(raised.value))


def test_inspect_finds_the_source() -> None:
    gm = graph_of(lambda graph: graph.call_function(torch.neg, (graph.placeholder("x"),)))
    code = generated(gm)
    fn = bound(gm, code)
    assert fn.source == code.text
    assert inspect.getsource(fn) == code.text[code.text.index("def execution_fn") :]
    assert list(inspect.signature(fn).parameters) == ["x"]


def test_lines_of_strings_with_every_kind_of_line_end() -> None:
    """Python ends lines at fewer characters than `str.splitlines` does."""
    code = (
        "def execution_fn(x, *, __vllm_submods__):\n"
        "    a = '\x0c\x1c\x1d\u2028\x85'  # \x0b\u2029\n"
        "    raise ValueError(a)\n"
        "    return a\n"
    )
    with pytest.raises(ValueError) as raised:
        compile_execution_fn(code, {}, [])(1)
    assert "    raise ValueError(a)\n" in "".join(traceback.format_exception(raised.value))


def stepped(fn: Callable[..., Any], commands: str, *args: Any) -> str:
    output = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=output, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    debugger.prompt = "> "
    debugger.runcall(fn, *args)
    return output.getvalue()


def nested() -> GraphModule:
    child = graph_of(lambda graph: graph.call_function(torch.abs, (graph.placeholder("y"),)))

    def build(graph: Graph) -> object:
        x = graph.placeholder("x")
        a = graph.call_function(torch.neg, (x,))
        b = graph.call_module("child", (a,))
        return graph.call_function(torch.add, (b, graph.get_attr("weight")))

    return graph_of(build, child=child, weight=torch.nn.Parameter(torch.ones(4)))


def test_pdb_steps_through_lines() -> None:
    output = stepped(bound(nested()), "next\nnext\nstep\nstep\np y.shape\nlist\nup\ncontinue\n", X)
    for line in (
        "-> neg = torch.neg(x)",
        "-> del x",
        "-> child = __vllm_inlined_submods__0(neg)",
        "-> abs_1 = torch.abs(y)",
        "torch.Size([2, 4])",
        "  ->\t    abs_1 = torch.abs(y)",
    ):
        assert line in output, output


def test_names_in_the_source_mean_something_in_pdb() -> None:
    commands = (
        "next\np torch.neg(neg).sum().item()\np __vllm_consts__[0].shape\np len(__vllm_submods__)\np operator.add(1, 2)\nc\n"
    )
    output = stepped(bound(nested()), f"step\n{commands}", X)
    assert "NameError" not in output and "torch.Size([4])" in output and "\n> 3\n" in output


def test_pdb_breaks_at_a_line() -> None:
    fn = bound(nested())
    line = next(n for n, text in enumerate(fn.source.splitlines(), 1) if "add = torch.add" in text)
    output = stepped(fn, f"break {line}\ncontinue\nlist\ncontinue\n", X)
    assert "-> add = torch.add(child, weight)" in output, output


def test_lines_are_gone_with_the_function(collector_off: None) -> None:
    before = sources()
    fn = bound(nested())
    (name,) = sources() - before
    assert name == fn.__code__.co_filename
    linecache.checkcache()
    assert name in linecache.cache
    del fn
    assert sources() == before


class Watched:
    """A constant, or a callable, that can be watched."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.mark.parametrize("called", [True, False], ids=["called", "not called"])
def test_a_thousand_functions_leave_nothing(collector_off: None, called: bool) -> None:
    def child(graph: Graph, const: Watched) -> object:
        return graph.create_node("call_function", const, (graph.call_module("leaf", (graph.placeholder("x"),)),), name="c")

    before = sources()
    alive: list[weakref.ref[Any]] = []
    text, names, _ = generated(
        graph_of(
            lambda graph: graph.call_module("child", (graph.placeholder("x"),)),
            child=graph_of(lambda graph: child(graph, Watched()), leaf=torch.nn.ReLU()),
        )
    )
    for _ in range(1000):
        leaf, const, tensor = torch.nn.ReLU(), Watched(), torch.ones(1)
        fn = compile_execution_fn(text, {"child.leaf": leaf}, names, [const, tensor])
        if called:
            fn(X)
        alive += [weakref.ref(leaf), weakref.ref(const), weakref.ref(tensor), weakref.ref(fn), weakref.ref(fn.__code__)]
        del leaf, const, tensor, fn
    assert [value for value in alive if value() is not None] == []
    assert sources() == before


def test_generation_and_failure_leave_nothing(collector_off: None) -> None:
    before = sources()
    gm = graph_of(lambda graph: graph.call_function(torch.neg, (graph.placeholder("x"),)))
    watched = weakref.ref(gm)
    bound(gm)(X)
    del gm
    gc.collect()
    assert watched() is None
    for code in ("def execution_fn(:", "def execution_fn(): return torch.ops.no.op()", "1 / 0\ndef execution_fn(): pass"):
        with pytest.raises(RuntimeError):
            compile_execution_fn(code, {}, [])
    assert sources() == before

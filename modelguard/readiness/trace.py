"""A model traced by Dynamo: whole, in pieces where it breaks, and again past each obstacle until all are known."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from traceback import StackSummary
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

from modelguard.codegen.places import source_place
from modelguard.readiness.modules import ModuleTree, Ran, same_code, standing_in
from modelguard.readiness.obstacles import (
    DISABLED,
    HOST_SYNC,
    RECURRENT,
    SCRIPTED,
    SIZES,
    Obstacle,
    frames_of,
    kind_of,
    reason_of,
    title_of,
)
from modelguard.runtime import dynamo
from modelguard.runtime.dynamo import Refusal
from modelguard.runtime.side_effects import Frame

_MOST_ATTEMPTS = 64
"""Traces that are made to find all obstacles of a model; each gets past one."""

Call = tuple[tuple[Any, ...], Mapping[str, Any]]


@dataclass(slots=True)
class Graph:
    """A graph that a tracer made."""

    graph: GraphModule
    inputs: list[Any]
    modules: dict[Node, list[str]]
    """The modules that each node is in, the outermost first."""

    base: str | None = None
    """The module whose call was traced, where that is known."""


@dataclass(slots=True)
class Traced:
    """What came of tracing a model."""

    is_whole: bool
    """Is it one graph, with nothing left to Python?"""

    graphs: list[Graph] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    output: Any = None
    """What the call of the traced model returned."""

    recompiled: list[str] = field(default_factory=list)
    """Dynamo's messages on code that other calls had it compile again."""


def traced(
    tree: ModuleTree,
    calls: Sequence[Call],
    did: Ran,
    *,
    dynamic: bool,
    run: Callable[[GraphModule, list[Any]], Callable[..., Any]],
) -> Traced:
    """Trace a model as serving engines do, and if it is not one graph, as `torch.compile` does.

    Args:
        tree: the model; calls of it change it, so pass a copy's.
        calls: what to call it with; the first one is traced, the others tell of recompilations.
        did: what an eager call did.
        dynamic: with symbolic sizes.
        run: makes what runs in a graph's place.
    """
    found = Traced(False)
    refused = _whole(tree, calls[0], found, dynamic=dynamic, run=run)
    found.is_whole = refused is None
    if refused is None:
        found.obstacles = _distinct([each for graph in found.graphs for each in data_dependent(graph)])
        if len(calls) > 1:
            found.recompiled = _recompiled(tree, calls, dynamic=dynamic)
    else:
        found.graphs.clear()
        _in_pieces(tree, calls[0], found, dynamic=dynamic, run=run)
        first = _distinct(list(_all_obstacles(tree, calls[0], did, dynamic=dynamic)))
        # What follows a break on its own line, such as the block of a `with`, is a consequence.
        lines = {each.line for each in first}
        found.obstacles = [*first, *(each for each in _distinct(found.obstacles) if each.line is None or each.line not in lines)]
    dynamo.reset()
    if dynamic:
        found.obstacles = [replace(each, shapes="dynamic") for each in found.obstacles]
    return found


def _whole(
    tree: ModuleTree, call: Call, found: Traced, *, dynamic: bool, run: Callable[[GraphModule, list[Any]], Callable[..., Any]]
) -> BaseException | None:
    """Trace it into one graph. Returns what stopped that."""
    dynamo.reset()
    compiled = torch.compile(tree.model, fullgraph=True, dynamic=dynamic, backend=_backend(tree, found, run))
    try:
        with torch.no_grad(), dynamo.noting_modules():
            torch.manual_seed(0)
            found.output = compiled(*call[0], **call[1])
    except Exception as error:
        # Dynamo's refusals, and whatever the model's code raises on what a tracer gives it.
        return error
    return None


def _in_pieces(
    tree: ModuleTree, call: Call, found: Traced, *, dynamic: bool, run: Callable[[GraphModule, list[Any]], Callable[..., Any]]
) -> None:
    """Trace what can be traced, as many graphs."""
    dynamo.reset()
    compiled = torch.compile(tree.model, dynamic=dynamic, backend=_backend(tree, found, run))
    with dynamo.graph_breaks() as breaks, dynamo.noting_modules(), torch.no_grad():
        try:
            compiled(*call[0], **call[1])
        except Exception as error:
            refused = dynamo.refusal(error)
            breaks.append(refused or Refusal(type(error).__name__, str(error), StackSummary(), ()))
    found.obstacles = [_obstacle(tree, each) for each in breaks]


def _recompiled(tree: ModuleTree, calls: Sequence[Call], *, dynamic: bool) -> list[str]:
    dynamo.reset()
    compiled = torch.compile(tree.model, dynamic=dynamic, backend="eager")
    with dynamo.recompilations() as told, dynamo.raised_limits(), torch.no_grad():
        for args, kwargs in calls:
            compiled(*args, **kwargs)
    return told


def _backend(
    tree: ModuleTree, found: Traced, run: Callable[[GraphModule, list[Any]], Callable[..., Any]]
) -> Callable[[GraphModule, list[Any]], Callable[..., Any]]:
    def take(graph: GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        variables = dynamo.traced_values(sys._getframe(1))
        base = tree.base(variables[0])
        modules = {node: tree.of_node(node, variables, base) for node in graph.graph.nodes}
        found.graphs.append(Graph(graph, list(inputs), modules, base))
        return run(graph, inputs)

    return take


# All obstacles. A trace ends at the first one, and where Dynamo breaks its graph it often gives up the rest of the function. So
# each obstacle is got past, in the tracer's own way where it has one, else by putting what the module returned in its place.


def _all_obstacles(tree: ModuleTree, call: Call, did: Ran, *, dynamic: bool) -> Iterator[Obstacle]:
    allowed: set[str] = set()
    stubbed: set[str] = set()
    for _ in range(_MOST_ATTEMPTS):
        refused, graphs = _refusal(tree, call, did, frozenset(allowed), frozenset(stubbed), dynamic=dynamic)
        if refused is None:
            for graph in graphs:
                yield from data_dependent(graph)
            return
        obstacle = _obstacle(tree, refused)
        yield obstacle
        behind = obstacle.kind.behind
        if behind is not None and behind not in allowed:
            allowed.add(behind)
            continue
        path = _stubbable(tree, refused, obstacle, did, stubbed)
        if path is None:
            # It is in the model's own code, which nothing can stand in for.
            return
        stubbed.update(name for name in same_code(tree, path) if name in did.outputs and name)


def _stubbable(tree: ModuleTree, refused: Refusal, obstacle: Obstacle, did: Ran, stubbed: set[str]) -> str | None:
    """The innermost module around an obstacle that something can stand in for."""
    around = [path for module in refused.modules if (path := tree.path_of(module))]
    inner = [obstacle.module] if obstacle.module else []
    for path in (*inner, *reversed(around)):
        if path not in stubbed and path in did.outputs:
            return path
    return None


def _refusal(
    tree: ModuleTree, call: Call, did: Ran, allowed: frozenset[str], stubbed: frozenset[str], *, dynamic: bool
) -> tuple[Refusal | None, list[Graph]]:
    """What stops a trace that gets past some obstacles, and the graph if nothing does."""
    dynamo.reset()
    found = Traced(False)
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(dynamo.allowing(allowed))
        stack.enter_context(dynamo.noting_modules())
        for path in stubbed:
            stack.enter_context(standing_in(tree, path, _Returning(did.outputs[path])))
        try:
            backend = _backend(tree, found, _nothing)
            torch.compile(tree.model, fullgraph=True, dynamic=dynamic, backend=backend)(*call[0], **call[1])
        except _Traced:
            pass
        except Exception as error:
            return dynamo.refusal(error), []
    return None, found.graphs


class _Traced(Exception):
    """Ends a call once its graph is known."""


def _nothing(graph: GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    def stop(*args: Any) -> None:
        raise _Traced

    return stop


class _Returning(nn.Module):
    """Stands in for a module: returns what that returned, and does nothing."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self._output = output

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._output


def _obstacle(tree: ModuleTree, refused: Refusal) -> Obstacle:
    stack = frames_of(refused.stack)
    title = title_of(refused)
    kind = kind_of(title, refused.message)
    within = [path for module in refused.modules if (path := tree.path_of(module)) is not None]
    running = tree.running(stack[-1].path, stack[-1].line, stack[-1].function) if stack else []
    at = next((path for path in reversed(within) if path in running), None)
    if at is None:
        at = running[0] if running else within[-1] if within else None
    if kind is RECURRENT or kind is SCRIPTED or kind is DISABLED:
        # It is the child that is at fault, which its parent's code calls.
        at = next((path for path in tree.by_path if path and _is_child_at_fault(tree, path, at, kind)), at)
    modules = tuple(name for name in running if name != at) if at in running else ()
    return Obstacle(kind, title, reason_of(refused.message), refused.message, stack, at, modules)


def data_dependent(graph: Graph) -> Iterator[Obstacle]:
    """Values and sizes in a graph that only a device knows: Dynamo traces them, and a CUDA graph cannot hold them."""
    for node in graph.graph.graph.nodes:
        if not node.meta.get("unbacked_bindings"):
            continue
        place = source_place(node)
        name = called_name(node)
        is_value = isinstance(node.meta.get("example_value"), (torch.SymInt, torch.SymFloat, torch.SymBool))
        what = "a value that Python asks the device for" if is_value else "a result whose size depends on values"
        stack = () if place is None else (Frame(place.path, place.line, place.function),)
        within = graph.modules[node]
        yield Obstacle(
            HOST_SYNC if is_value else SIZES,
            "data-dependent output",
            f"`{name}` gives {what}: Dynamo traces it, and a CUDA graph cannot hold it",
            "",
            stack,
            within[-1] if within else None,
            is_in_graph=True,
        )


def called_name(node: Node) -> str:
    """What a node calls, for people."""
    if isinstance(node.target, str):
        return node.target
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target)
    return str(getattr(node.target, "__name__", node.target))


def _is_child_at_fault(tree: ModuleTree, path: str, parent: str | None, kind: Any) -> bool:
    if parent is None or path.rpartition(".")[0] != parent:
        return False
    module = tree.by_path[path]
    if kind is RECURRENT:
        return isinstance(module, nn.RNNBase)
    if kind is SCRIPTED:
        return isinstance(module, torch.jit.ScriptModule)
    return is_disabled(module)


def is_disabled(module: nn.Module) -> bool:
    """Is its `forward` decorated with `torch.compiler.disable`?"""
    return bool(getattr(module.forward, "_torchdynamo_disable", False))


def _distinct(obstacles: Sequence[Obstacle]) -> list[Obstacle]:
    """Each obstacle once, told with the longest way to it."""
    found: dict[tuple[object, ...], Obstacle] = {}
    for each in obstacles:
        known = found.get(each.place)
        if known is None or len(each.stack) > len(known.stack):
            found[each.place] = each if known is None or each.module is not None else replace(each, module=known.module)
    return list(found.values())

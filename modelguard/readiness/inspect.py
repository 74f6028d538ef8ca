"""What became of each module of a model when it was traced, and how much of it is in one graph."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

from modelguard.readiness.modules import ModuleTree, Ran, same_code
from modelguard.readiness.obstacles import DISABLED, RECURRENT, SCRIPTED, Obstacle
from modelguard.readiness.trace import Graph, Traced, is_disabled

INSIDE = ("inlined", "higher-order")
"""Those of a module that is part of a graph."""


@dataclass(frozen=True, slots=True)
class Module:
    """What became of one module."""

    path: str
    class_name: str
    status: str
    reason: str
    """Why, in a few words; empty where the status says it."""

    ops: int
    """Calls in graphs that its own code makes."""

    functions: int
    """torch's functions that its own code called eagerly."""

    graphs: tuple[int, ...]
    """The numbers of the graphs that it is in."""

    source: tuple[str, int] | None
    """The file and line of its `forward`."""


@dataclass(frozen=True, slots=True)
class Score:
    """How much of a model is in its largest graph."""

    graphs: int
    ops: int
    """Of the largest graph."""

    share_of_ops: float
    """Of all calls that graphs make and modules outside of graphs made eagerly."""

    share_of_modules: float
    """Of the modules that were called."""


def inspected(tree: ModuleTree, traced: Traced, did: Ran, tracer: str) -> list[Module]:
    """All modules of a model, in the order of its tree."""
    own, graphs, leaves, nested = _where(traced.graphs)
    faults = {each.module: each for each in reversed(traced.obstacles) if each.module is not None}
    broken = {path for each in traced.obstacles for path in (each.module, *each.modules) if path is not None}
    bases = {graph.base for graph in traced.graphs}
    found = []
    for path, module in tree.by_path.items():
        twin = _twin(tree, path, bases, graphs) if path not in graphs and path in did.functions else path
        fault = faults.get(path) or next((each for each in traced.obstacles if path in each.modules), None)
        status, reason = _status(
            path, module, twin, graphs, leaves, nested, did, fault if path in broken else None, traced, tracer
        )
        found.append(
            Module(
                path,
                type(module).__qualname__ if not isinstance(module, torch.jit.ScriptModule) else module.original_name,
                status,
                reason,
                own.get(twin, 0),
                did.functions.get(path, 0),
                tuple(sorted(graphs.get(twin, ()))),
                _source(module),
            )
        )
    return found


def scored(modules: Sequence[Module], traced: Traced, did: Ran) -> Score:
    """How much is in the largest graph."""
    counts = [sum(is_call(node) for node in each.graph.graph.nodes) for each in traced.graphs]
    largest = max(range(len(counts)), key=counts.__getitem__, default=-1)
    outside = 0 if traced.is_whole else sum(each.functions for each in modules if not each.graphs)
    total = sum(counts) if traced.is_whole else max(sum(counts) + outside, did.below(""))
    called = [each for each in modules if each.path in did.functions]
    inside = sum(traced.is_whole or (largest in each.graphs and each.status not in ("split", "graph-break")) for each in called)
    ops = counts[largest] if counts else 0
    return Score(len(counts), ops, ops / total if total else 1.0, inside / len(called) if called else 1.0)


def is_call(node: Node) -> bool:
    """Does a node call something?"""
    return node.op in ("call_function", "call_method", "call_module")


def leaf_rule(tracer: str, module: nn.Module) -> str:
    """Why a tracer left a module as a call."""
    if tracer == "fx" and type(module).__module__.startswith("torch.nn"):
        return "torch.fx leaves the layers of torch.nn as they are (`Tracer.is_leaf_module`)"
    if isinstance(module, GraphModule):
        return "it is a graph module of its own, such as a piece of a split graph"
    if isinstance(module, torch.jit.ScriptModule):
        return "it is scripted"
    return "the tracer takes it for a leaf"


def _twin(tree: ModuleTree, path: str, bases: set[str | None], graphs: Mapping[str, set[int]]) -> str:
    """The module whose graphs stand for one that has none: Dynamo compiles a call once for all modules that run the same code."""
    for around in (path, *_parents(path)):
        for other in same_code(tree, around):
            name = other + path[len(around) :]
            if other in bases and name in graphs:
                return name
    return path


def _where(traced: Sequence[Graph]) -> tuple[dict[str, int], dict[str, set[int]], set[str], set[str]]:
    """By module: how many calls of its own, in which graphs; and which are called whole, or inside a higher-order operator."""
    own: dict[str, int] = {}
    graphs: dict[str, set[int]] = {}
    leaves: set[str] = set()
    nested: set[str] = set()
    for number, graph in enumerate(traced):
        for node, paths in graph.modules.items():
            if not is_call(node):
                continue
            if paths:
                own[paths[-1]] = own.get(paths[-1], 0) + 1
            for path in paths:
                graphs.setdefault(path, set()).add(number)
            if node.op == "call_module":
                leaves.add(paths[-1] if paths and not _is_path(graph.graph, node) else str(node.target))
                graphs.setdefault(str(node.target), set()).add(number)
            if isinstance(node.target, torch._ops.HigherOrderOperator):
                nested.update(_inside(graph.graph, node))
    for path in list(graphs):
        # What holds a module that is in a graph is in it, too.
        for parent in _parents(path):
            graphs.setdefault(parent, set()).update(graphs[path])
    return own, graphs, leaves, nested


def _is_path(graph: GraphModule, node: Node) -> bool:
    return not str(node.target).startswith("L__")


def _inside(graph: GraphModule, node: Node) -> Iterator[str]:
    for argument in node.all_input_nodes:
        if argument.op == "get_attr":
            yield str(argument.target)


def _parents(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition(".")[0]
        yield path


def _status(
    path: str,
    module: nn.Module,
    twin: str,
    graphs: Mapping[str, set[int]],
    leaves: set[str],
    nested: set[str],
    did: Ran,
    fault: Obstacle | None,
    traced: Traced,
    tracer: str,
) -> tuple[str, str]:
    if isinstance(module, torch.jit.ScriptModule):
        return SCRIPTED.name, "`torch.jit.script` hides its code from the tracer"
    if is_disabled(module):
        return DISABLED.name, "`torch.compiler.disable` is on its `forward`"
    if fault is not None and fault.kind is RECURRENT and isinstance(module, nn.RNNBase):
        return RECURRENT.name, fault.reason
    if fault is not None:
        return "host-sync" if fault.is_in_graph else "graph-break", fault.reason
    is_called = path in did.functions
    if path in leaves:
        return "call-module", leaf_rule(tracer, module)
    if twin in graphs:
        return ("split", f"it is in {len(graphs[twin])} graphs") if len(graphs[twin]) > 1 else ("inlined", "")
    if path in nested:
        return "higher-order", ""
    if not is_called:
        return "never-reached", ""
    if did.below(path) == 0:
        return "inlined", "it calls no operator"
    if traced.is_whole:
        # Its calls came to nothing that a graph would hold, such as constants.
        return "inlined", "no call of it is left in the graph"
    return "left-to-python", "it runs in no graph: what calls it was given up by the tracer"


def _source(module: nn.Module) -> tuple[str, int] | None:
    forward: Any = inspect.getattr_static(type(module), "forward", None)
    code = getattr(inspect.unwrap(forward) if callable(forward) else None, "__code__", None)
    return None if code is None else (code.co_filename, code.co_firstlineno)

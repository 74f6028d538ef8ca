"""The process in which `modelguard ready` runs a target: `python -m modelguard.readiness.child REQUEST RESULT`."""

from __future__ import annotations

import inspect
import os
import re
import sys
from typing import Any

import torch
from torch import nn

from modelguard.catalog import match
from modelguard.codegen import TraceError, trace
from modelguard.codegen.trace import Tracer
from modelguard.readiness.check import Checked, Checking, difference
from modelguard.readiness.inspect import Module, inspected, scored
from modelguard.readiness.modules import ModuleTree, ran
from modelguard.readiness.obstacles import UNTRACEABLE, Obstacle, frames_of_error, reason_of
from modelguard.readiness.trace import Call, Graph, Traced, data_dependent, traced
from modelguard.runtime.copying import deep_copied
from modelguard.runtime.inputs import called_target
from modelguard.runtime.process import answer
from modelguard.runtime.side_effects import Frame
from modelguard.runtime.state import apart
from modelguard.runtime.targets import users_code

_RECOMPILED = re.compile(r"Recompiling function (?P<function>\S+) in (?P<path>.*):(?P<line>\d+)")


def observe(request: dict[str, Any]) -> dict[str, Any]:
    """Load the target, trace it with fixed and with symbolic sizes, inspect and check what came of it."""
    target, guesses = called_target(request["target"], request["inputs"])
    target.model.train(request["train"])
    calls: list[Call] = [(args, target.kwargs) for args in (*target.calls, *target.others)]
    with users_code("calling the model eagerly"), apart(target.model):
        model, (args, kwargs) = deep_copied((target.model, calls[0]))
        torch.manual_seed(0)
        did = ran(ModuleTree(model), args, kwargs)
    runs = []
    for dynamic in (False, True) if request["tracer"] == "dynamo" and request["dynamic"] else (False,):
        with users_code("tracing the model"), apart(target.model):
            model, own = deep_copied((target.model, calls))
            tree = ModuleTree(model)
            checking = Checking(request["split_ops"])
            if request["tracer"] == "dynamo":
                found = traced(tree, own, did, dynamic=dynamic, run=checking)
            else:
                found = _by_other(tree, own[0], request["tracer"], checking)
        modules = inspected(tree, found, did, request["tracer"])
        score = scored(modules, found, did)
        runs.append((found, modules, score, checking.found[-len(found.graphs) :] if found.graphs else [], tree))
    obstacles = list(runs[0][0].obstacles)
    known = {each.place for each in obstacles}
    obstacles += [each for run in runs[1:] for each in run[0].obstacles if each.place not in known]
    found, modules, score, checked, tree = runs[0]
    return {
        "tracer": request["tracer"],
        "torch": torch.__version__,
        "guessed_inputs": guesses,
        "runs": [
            {
                "shapes": "dynamic" if number else "static",
                "one_graph": run[0].is_whole,
                "graphs": run[2].graphs,
                "ops_of_largest": run[2].ops,
                "share_of_ops": round(run[2].share_of_ops, 4),
                "share_of_modules": round(run[2].share_of_modules, 4),
                "max_abs_error": _finite(difference(did.outputs.get(""), run[0].output)) if run[0].is_whole else None,
            }
            for number, run in enumerate(runs)
        ],
        "modules": [_module(each) for each in modules],
        "obstacles": [_obstacle(each, tree) for each in obstacles],
        "graphs": [_graph(each, number) for number, each in enumerate(checked)],
        "recompiles": [record for message in found.recompiled for record in _recompile(message)],
        "sources": _sources(target.model),
    }


def _by_other(tree: ModuleTree, call: Call, tracer: Tracer, checking: Checking) -> Traced:
    found = Traced(False)
    try:
        with torch.no_grad():
            made = trace(tree.model, call[0], call[1], tracer=tracer)
    except TraceError as error:
        cause = error.__cause__ or error
        stack = frames_of_error(cause)
        running = tree.running(stack[-1].path, stack[-1].line, stack[-1].function) if stack else []
        module = running[0] if running else None
        found.obstacles = [
            Obstacle(UNTRACEABLE, type(cause).__name__, reason_of(str(cause)), str(cause), stack, module, tuple(running[1:]))
        ]
        return found
    graph = Graph(made.graph, made.inputs, {node: tree.of_node(node, ({}, {}), None) for node in made.graph.graph.nodes})
    found.graphs = [graph]
    found.is_whole = True
    found.obstacles = list(data_dependent(graph))
    with torch.no_grad():
        torch.manual_seed(0)
        found.output = checking(made.graph, made.inputs)(*made.inputs)
    return found


def _module(module: Module) -> dict[str, Any]:
    return {
        "path": module.path,
        "class": module.class_name,
        "status": module.status,
        "reason": module.reason,
        "ops": module.ops,
        "functions": module.functions,
        "graphs": list(module.graphs),
        "source": None if module.source is None else {"path": module.source[0], "line": module.source[1]},
    }


def _obstacle(obstacle: Obstacle, tree: ModuleTree) -> dict[str, Any]:
    module = None if obstacle.module is None else tree.by_path.get(obstacle.module)
    return {
        "kind": obstacle.kind.name,
        "title": obstacle.title,
        "reason": obstacle.reason,
        "message": obstacle.message,
        "remedy": obstacle.kind.remedy,
        "shapes": obstacle.shapes,
        "module": obstacle.module,
        "class": None if module is None else type(module).__qualname__,
        "modules": list(obstacle.modules),
        "in_graph": obstacle.is_in_graph,
        "record": _record(obstacle),
        "stack": [_frame(frame) for frame in obstacle.stack],
    }


def _record(obstacle: Obstacle) -> str | None:
    """The record of the error catalogue that tells of it."""
    if obstacle.is_in_graph:
        # What capture says once it comes to this.
        return "torch-stream-capturing"
    matches = match(obstacle.message)
    return matches[0].record.id if matches else None


def _frame(frame: Frame) -> dict[str, Any]:
    return {"path": frame.path, "line": frame.line, "function": frame.function}


def _graph(checked: Checked, number: int) -> dict[str, Any]:
    return {
        "number": number,
        "ops": checked.ops,
        "inputs": checked.inputs,
        "refused": checked.refused,
        "max_abs_error": _finite(checked.max_abs_error),
        "generated_us": None if checked.seconds is None else round(checked.seconds[0] * 1e6, 3),
        "graph_module_us": None if checked.seconds is None else round(checked.seconds[1] * 1e6, 3),
        "pieces": [
            {"name": each.name, "ops": each.ops, "splits": each.splits, "calls": list(each.calls), "refused": each.refused}
            for each in checked.pieces
        ],
        "leftovers": [
            {
                "operation": each.operation,
                "target": each.target,
                "module": each.module,
                "frame": None if each.frame is None else _frame(each.frame),
            }
            for each in checked.leftovers
        ],
        "code": checked.code,
    }


def _finite(error: float | None) -> float | None:
    # JSON has no infinity.
    return None if error is None or error == float("inf") else error


def _recompile(message: str) -> list[dict[str, Any]]:
    match = _RECOMPILED.match(message)
    if match is None:
        return []
    reasons = [line.strip().removeprefix("- ") for line in message.splitlines()[1:] if line.strip().startswith("- ")]
    return [{"function": match["function"], "path": match["path"], "line": int(match["line"]), "reasons": reasons}]


def _sources(model: nn.Module) -> list[str]:
    found: dict[str, None] = {}
    for module in model.modules():
        try:
            path = inspect.getsourcefile(type(module))
        except TypeError:
            continue
        if path is not None and os.path.isfile(path) and not type(module).__module__.startswith("torch."):
            found[path] = None
    return list(found)


if __name__ == "__main__":
    sys.exit(answer(observe, *sys.argv[1:]))

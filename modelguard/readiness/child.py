"""The process in which `modelguard ready` runs a target: `python -m modelguard.readiness.child REQUEST RESULT`."""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from modelguard.catalog import match
from modelguard.codegen import TraceError, trace
from modelguard.codegen.trace import Tracer
from modelguard.readiness.check import Checked, Checking, difference
from modelguard.readiness.inspect import Module, inspected, scored
from modelguard.readiness.modules import ROOT, ModuleTree, Ran, ran
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
    started = time.monotonic()
    target, guesses = called_target(request["target"], request["inputs"])
    target.model.train(request["train"])
    calls: list[Call] = [(args, target.kwargs) for args in (*target.calls, *target.others)]
    with users_code("calling the model eagerly"), apart(target.model):
        model, (args, kwargs) = deep_copied((target.model, calls[0]))
        torch.manual_seed(0)
        did = ran(ModuleTree(model), args, kwargs)
    fixed = _run(target.model, calls, did, request, dynamic=False)
    runs = [fixed.record(did, "static")]
    obstacles = list(fixed.found.obstacles)
    if request["tracer"] == "dynamo" and request["dynamic"]:
        try:
            # Symbolic sizes can take many times as long; what is known by then is to be told.
            with _limited((request["timeout"] - (time.monotonic() - started)) / 2):
                symbolic = _run(target.model, calls, did, request, dynamic=True)
        except _TooLong as error:
            runs.append({"shapes": "dynamic", "stopped": str(error), **dict.fromkeys(_RESULTS)})
        else:
            runs.append(symbolic.record(did, "dynamic"))
            known = {each.place for each in obstacles}
            obstacles += [each for each in symbolic.found.obstacles if each.place not in known]
    return {
        "tracer": request["tracer"],
        "torch": torch.__version__,
        "guessed_inputs": guesses,
        "runs": runs,
        "modules": [_module(each) for each in fixed.modules],
        "obstacles": [_obstacle(each, fixed.tree) for each in obstacles],
        "graphs": [_graph(each, number) for number, each in enumerate(fixed.checked)],
        "recompiles": [record for message in fixed.found.recompiled for record in _recompile(message)],
        "sources": _sources(target.model),
    }


_RESULTS = ("one_graph", "graphs", "ops_of_largest", "share_of_ops", "share_of_modules", "max_abs_error")


@dataclass(frozen=True, slots=True)
class _Run:
    """One way to trace a model, and what came of it."""

    tree: ModuleTree
    found: Traced
    modules: list[Module]
    checked: list[Checked]

    def record(self, did: Ran, shapes: str) -> dict[str, Any]:
        """Its scores."""
        score = scored(self.modules, self.found, did)
        is_whole = self.found.is_whole
        values = (
            is_whole,
            score.graphs,
            score.ops,
            round(score.share_of_ops, 4),
            round(score.share_of_modules, 4),
            _finite(difference(did.outputs.get(ROOT), self.found.output)) if is_whole else None,
        )
        return {"shapes": shapes, "stopped": None, **dict(zip(_RESULTS, values, strict=True))}


def _run(model: nn.Module, calls: list[Call], did: Ran, request: dict[str, Any], *, dynamic: bool) -> _Run:
    checking = Checking(request["split_ops"])
    with users_code("tracing the model"), apart(model):
        own_model, own_calls = deep_copied((model, calls))
        tree = ModuleTree(own_model)
        if request["tracer"] == "dynamo":
            found = traced(tree, own_calls, did, dynamic=dynamic, run=checking)
        else:
            found = _by_other(tree, own_calls[0], request["tracer"], checking)
    # The first attempt to trace it whole is checked, too.
    checked = checking.found[len(checking.found) - len(found.graphs) :]
    return _Run(tree, found, inspected(tree, found, did, request["tracer"]), checked)


class _TooLong(BaseException):
    """Ends what takes too long; no Exception, which Dynamo would take for the model's own."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End a block after some time, where the system has such a clock."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def end(*_: object) -> None:
        raise _TooLong(f"it took more than {seconds:.0f} seconds; raise --timeout, or leave it out with --static")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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

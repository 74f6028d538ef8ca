"""The process in which a target runs: `python -m modelguard.runtime.child REQUEST RESULT`, two JSON files.

It may hang, eat memory, exit or die; its parent (`runtime.confirm`) tells which.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import sys
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from modelguard.errors import ModelguardError
from modelguard.runtime.copying import deep_copied
from modelguard.runtime.inputs import described_call, guessed
from modelguard.runtime.observing import lines_run, side_effects_of
from modelguard.runtime.replay import Replay, replay
from modelguard.runtime.side_effects import SideEffect
from modelguard.runtime.state import apart
from modelguard.runtime.targets import Target, load_target, users_code

_COMPILED_CALLS = 3
"""Calls that are made of the compiled model: the first, and two in which what it depends on may have changed."""


def main(request_path: str, result_path: str) -> int:
    """Run one request."""
    with open(request_path, encoding="utf-8") as stream:
        request = json.load(stream)
    _limit_memory(request["memory"])
    # That a graph breaks is no matter of this command; what breaks it is told by the tracer's log in detail.
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    try:
        result = observe(request)
    except ModelguardError as error:
        result = {"error": f"{error}{_hint(str(error), request)}"}
    except MemoryError:
        result = {"error": f"MemoryError{_hint('MemoryError', request)}"}
    with open(f"{result_path}.part", "w", encoding="utf-8") as stream:
        json.dump(result, stream)
    os.replace(f"{result_path}.part", result_path)
    return 0


def observe(request: dict[str, Any]) -> dict[str, Any]:
    """Load the target, compare replay with eager steps, and have Dynamo compile it."""
    target = load_target(request["target"])
    guesses: list[str] = []
    if not target.calls and not request["inputs"]:
        with users_code(f"guessing what to call {request['target']} with"):
            guesses = guessed(target.model)
    descriptions = request["inputs"] or guesses
    if descriptions or not target.calls:
        args, kwargs = described_call(target.model, descriptions)
        target = replace(target, calls=[args], kwargs=kwargs, others=[])
    calls = target.calls
    sources = _sources(target.model)
    with apart(target.model):
        seen = _lines(target, calls, sources)
    with users_code("comparing replay with eager steps"):
        compared = replay(
            target.model,
            calls,
            target.kwargs,
            others=target.others,
            steps=request["steps"],
            train=request["train"],
            device=request["device"],
        )
    with users_code("compiling it"), apart(target.model):
        effects, problem = side_effects_of(*deep_copied((target.model, calls[:_COMPILED_CALLS], target.kwargs)))
    return {
        "guessed_inputs": guesses,
        "classes": sorted({base.__qualname__ for module in target.model.modules() for base in _own_bases(type(module))}),
        "sources": sources,
        "lines": {path: sorted(lines) for path, lines in seen.items()},
        "replay": replay_record(compared),
        "side_effects": [effect_record(effect) for effect in effects],
        "dynamo_stopped": problem,
    }


def _hint(told: str, request: dict[str, Any]) -> str:
    is_memory = "MemoryError" in told or "can't allocate memory" in told
    return f"\nIts process may take {request['memory']} MiB; --memory-limit says so" if is_memory else ""


def replay_record(compared: Replay) -> dict[str, Any]:
    """A comparison as plain values."""
    error = compared.max_abs_error
    return {
        "verdict": compared.verdict.value,
        "device": compared.device,
        "step": compared.step,
        "where": list(compared.where),
        # JSON has no infinity.
        "max_abs_error": None if error is None or error == float("inf") else error,
        "freed": list(compared.freed),
        "stale": list(compared.stale),
        "host_reads": [
            {"operator": read.operator, **({} if read.place is None else {"path": read.place.path, "line": read.place.line})}
            for read in compared.host_reads
        ],
    }


def effect_record(effect: SideEffect) -> dict[str, Any]:
    """A side effect as plain values."""
    return {
        "object": effect.object_path,
        "attribute": effect.attribute,
        "operation": effect.operation,
        "stack": [{"path": frame.path, "line": frame.line, "function": frame.function} for frame in effect.stack],
    }


def _lines(target: Target, calls: list[tuple[Any, ...]], sources: list[str]) -> dict[str, set[int]]:
    """The lines that eager steps run, on a copy; what they raise is told by the comparison, step and all."""
    try:
        model, copies, kwargs, others = deep_copied((target.model, calls, target.kwargs, target.others))
        with lines_run(sources) as run, torch.no_grad():
            for call in [*copies, *others]:
                model(*call, **kwargs)
    except (Exception, SystemExit):
        return {}
    return run


def _sources(model: nn.Module) -> list[str]:
    """The files that define the model's classes, other than torch's."""
    found: dict[str, None] = {}
    for module in model.modules():
        for base in _own_bases(type(module)):
            try:
                path = inspect.getsourcefile(base)
            except TypeError:
                continue
            if path is not None and os.path.isfile(path):
                found[path] = None
    return list(found)


def _own_bases(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base is not object and base.__module__.split(".")[0] != "torch"]


def _limit_memory(megabytes: int) -> None:
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = megabytes << 20
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

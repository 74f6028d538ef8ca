"""The process in which `modelguard confirm` runs a target: `python -m modelguard.runtime.child REQUEST RESULT`."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any

from torch import nn

from modelguard.runtime.copying import deep_copied
from modelguard.runtime.inputs import called_target
from modelguard.runtime.observing import lines_run, side_effects_of
from modelguard.runtime.process import answer
from modelguard.runtime.replay import Replay, replay
from modelguard.runtime.side_effects import SideEffect
from modelguard.runtime.state import apart, dotted
from modelguard.runtime.targets import users_code

_COMPILED_CALLS = 3
"""Calls that are made of the compiled model: the first, and two in which what it depends on may have changed."""


def observe(request: dict[str, Any]) -> dict[str, Any]:
    """Load the target, compare replay with eager steps, and have Dynamo compile it."""
    target, guesses = called_target(request["target"], request["inputs"])
    sources = _sources(target.model)
    if request["train"] is not None:
        target.model.train(request["train"])
    with users_code("comparing replay with eager steps"), lines_run(sources) as seen:
        compared = replay(
            target.model,
            target.calls,
            target.kwargs,
            others=target.others,
            steps=request["steps"],
            device=request["device"],
            vary=request["vary"],
        )
    with users_code("compiling it"), apart(target.model):
        effects, problem = side_effects_of(*deep_copied((target.model, target.calls[:_COMPILED_CALLS], target.kwargs)))
    return {
        "guessed_inputs": guesses,
        "modules": _modules(target.model),
        "sources": sources,
        "lines": {path: sorted(lines) for path, lines in seen.items()},
        "replay": replay_record(compared),
        "side_effects": [effect_record(effect) for effect in effects],
        "dynamo_stopped": problem,
    }


def replay_record(compared: Replay) -> dict[str, Any]:
    """A comparison as plain values."""
    return {
        "verdict": compared.verdict.value,
        "device": compared.device,
        "step": compared.step,
        "where": list(compared.where),
        "max_abs_error": _number(compared.max_abs_error),
        "freed": list(compared.freed),
        "stale": list(compared.stale),
        "reason": compared.reason,
        "steps": [step.value for step in compared.steps],
        "host_reads": [
            {"operator": read.operator, **({} if read.place is None else {"path": read.place.path, "line": read.place.line})}
            for read in compared.host_reads
        ],
        "captured": compared.captured,
        "errors": [_number(error) for error in compared.errors],
    }


def _number(error: float | None) -> float | None:
    # JSON has no infinity.
    return None if error is None or error == float("inf") else error


def effect_record(effect: SideEffect) -> dict[str, Any]:
    """A side effect as plain values."""
    return {
        "object": effect.object_path,
        "attribute": effect.attribute,
        "operation": effect.operation,
        "stack": [{"path": frame.path, "line": frame.line, "function": frame.function} for frame in effect.stack],
    }


def _modules(model: nn.Module) -> dict[str, list[str]]:
    """The classes, other than torch's, of the module at each path."""
    return {
        "".join(("self", *(dotted(name) for name in path.split(".") if name))): [
            base.__qualname__ for base in _own_bases(type(module))
        ]
        for path, module in model.named_modules(remove_duplicate=False)
    }


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


if __name__ == "__main__":
    sys.exit(answer(observe, *sys.argv[1:]))

"""Assertions for tests of models: a captured step, replayed, does what eager steps do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from modelguard.runtime.copying import deep_copied
from modelguard.runtime.errors import OptionError
from modelguard.runtime.given import a_module
from modelguard.runtime.observing import side_effects_of
from modelguard.runtime.replay import STEPS, Replay, Verdict, replay
from modelguard.runtime.state import apart

_MOST = 6


def assert_replay_safe(
    model: nn.Module,
    *args: Any,
    calls: Sequence[tuple[Any, ...]] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    others: Sequence[tuple[Any, ...]] = (),
    steps: int = STEPS,
    train: bool | None = None,
    device: str | None = None,
    vary: bool = True,
) -> Replay:
    """Check that replaying one captured step gives what eager steps give, outputs and state.

    With CUDA (a model on a device) a CUDA graph is captured. Without, operators are recorded and run again, which shows lost and
    frozen writes and freed memory as well; what it returns says which (`device`).

    Args:
        model: left as it is; copies are run.
        args: the arguments of each step; floating-point values differ from step to step, unless `vary` is false.
        calls: arguments by step, in place of `args`.
        kwargs, others, steps, train, device, vary: as for `modelguard.runtime.replay`.

    Raises:
        AssertionError: they differ; the message names step, output and state.
        ModuleError: `model` is no module, such as the class of one.
        OptionError: an option has a value that is not allowed.
        ReplayError: the comparison cannot be made.
    """
    __tracebackhide__ = True
    if args and calls is not None:
        raise OptionError("give the arguments of every step as `calls`, or the same ones for all steps as `args`, not both")
    given = [args] if calls is None else calls
    result = replay(model, given, kwargs, others=others, steps=steps, train=train, device=device, vary=vary)
    if result.verdict is not Verdict.SAME:
        raise AssertionError(_told(type(model).__name__, result))
    return result


def assert_no_state_writes(model: nn.Module, *args: Any, kwargs: Mapping[str, Any] | None = None) -> None:
    """Check that compiling a call of a model yields no code that writes state. Tensors may be written in place.

    Args:
        model: left as it is; a copy is compiled, with whatever Dynamo had compiled in this process dropped.
        args: the arguments of the call.
        kwargs: its keyword arguments.

    Raises:
        AssertionError: there is such code; the message names object, attribute and line.
        ModuleError: `model` is no module, such as the class of one.
    """
    __tracebackhide__ = True
    a_module(model, "compiled")
    with apart(model):
        effects, problem = side_effects_of(*deep_copied((model, [args], dict(kwargs or {}))))
    if effects:
        writes = "\n".join(f"  {effect}" for effect in effects)
        raise AssertionError(
            f"{type(model).__name__} writes state when it is called, which a replayed CUDA graph loses:\n{writes}"
        )
    if problem is not None:
        raise AssertionError(f"{type(model).__name__} cannot be compiled, so what it writes is not known: {problem}")


def _told(name: str, result: Replay) -> str:
    how = "a CUDA graph" if result.device == "cuda" else "its recorded operators (there is no CUDA graph here)"
    lines = [f"{name} is not replay-safe: {result.verdict.value}, by {how}"]
    if result.step is not None:
        lines.append(f"  from step {result.step}: {_listed(result.where)}{_amount(result)}")
    if result.stale:
        lines.append(f"  state that differs: {_listed(result.stale)}")
    if result.freed:
        lines.append(f"  captured where it lay, and freed since: {_listed(result.freed)}")
    for read in result.host_reads:
        place = f" at {read.place.path}:{read.place.line}" if read.place is not None else ""
        lines.append(f"  capture on a device ends at `{read.operator}`{place}: Python asks for a value that a kernel computes")
    lines.append("`modelguard scan` on its source names the lines that write state")
    return "\n".join(lines)


def _amount(result: Replay) -> str:
    if result.max_abs_error is None:
        return ""
    return f": {result.reason}" if result.reason else f", by up to {result.max_abs_error:.3g}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")

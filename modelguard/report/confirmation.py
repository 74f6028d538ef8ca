"""What running a target showed, for people: its findings with their evidence, then the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelguard.findings import Finding, ScanReport
from modelguard.report import text
from modelguard.report.frame import printable

VERDICTS = {
    "same": "the same outputs and state as eager steps",
    "wrong-output": "other outputs than eager steps",
    "stale-state": "the same outputs, but other state than eager steps",
    "freed-memory": "memory is read that nobody owns any more",
    "shape-changes": "results of other sizes than were captured",
    "refused": "a device would refuse to capture this step",
}
DEVICES = {"tape": "tape, without CUDA", "cuda": "CUDA graph"}
_NOT_REPLAYED = {
    "warm-up": "warm-up",
    "captured": "captured",
    "eager": "eager, as their sizes do not come again",
}
_MOST = 6


def render(
    target: str,
    report: ScanReport,
    unconfirmed: Mapping[Finding, str],
    replay: Mapping[str, Any],
    side_effects: Sequence[Mapping[str, Any]],
    dynamo_stopped: str | None,
    guessed_inputs: Sequence[str],
) -> str:
    """The findings, the verdict of replay, and what Dynamo saw."""
    findings = text.render(report, show_notes=True, summary=False, unconfirmed=unconfirmed)
    lines = [f"inputs were guessed: {', '.join(guessed_inputs)}"] if guessed_inputs else []
    lines += [*_replay(target, replay), *_side_effects(side_effects, dynamo_stopped)]
    return findings + "".join(f"{printable(line)}\n" for line in lines)


def _replay(target: str, replay: Mapping[str, Any]) -> Iterator[str]:
    yield f"{target}: {replay['verdict']}: {VERDICTS[replay['verdict']]} ({DEVICES[replay['device']]})"
    yield f"  {_made(replay['steps'])}"
    if replay["step"] is not None:
        yield f"  from step {replay['step']}: {_listed(replay['where'])}{_amount(replay)}"
    if replay["stale"]:
        yield f"  state that differs: {_listed(replay['stale'])}"
    if replay["freed"]:
        yield f"  captured where it lay, and freed since: {_listed(replay['freed'])}"
    for read in replay["host_reads"]:
        place = f" at {read['path']}:{read['line']}" if "path" in read else ""
        yield f"  capture on a device ends at `{read['operator']}`{place}: Python asks for a value that a kernel computes"


def _amount(replay: Mapping[str, Any]) -> str:
    if replay["verdict"] != "wrong-output":
        return ""
    return f": {replay['reason']}" if replay["reason"] else f", by up to {replay['max_abs_error']:.3g}"


def _made(steps: Sequence[str]) -> str:
    """How many steps were replayed, and which were not."""
    others = ((told, [step for step, made in enumerate(steps) if made == kind]) for kind, told in _NOT_REPLAYED.items())
    listed = ", ".join(f"{told}: {_listed([str(step) for step in at])}" for told, at in others if at)
    return f"{steps.count('replayed')} of {text.plural(len(steps), 'step')} replayed ({listed})"


def _side_effects(side_effects: Sequence[Mapping[str, Any]], dynamo_stopped: str | None) -> Iterator[str]:
    if dynamo_stopped is not None:
        yield f"Dynamo stopped, so what it would have seen behind that is not known: {dynamo_stopped}"
    count = len(side_effects)
    yield f"Dynamo sees {text.plural(count, 'side effect')}" + (":" if count else "")
    for effect in side_effects:
        name = effect["object"] if effect["attribute"] is None else f"{effect['object']}.{effect['attribute']}"
        place = f" at {effect['stack'][-1]['path']}:{effect['stack'][-1]['line']}" if effect["stack"] else ""
        yield f"  {name} is {effect['operation']}{place}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")

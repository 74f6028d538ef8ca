"""From what regions showed to findings: one a write, one an obstacle, at the severity that the settings give it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from modelguard.findings import Finding, GuardContext
from modelguard.observation import Obstacle, Root, StateWrite
from modelguard.rules import judge, verdict_on
from modelguard.settings import Settings


def merge(merged: dict[tuple[object, ...], StateWrite], write: StateWrite) -> None:
    """A write is reported once, for all entry points and subclasses that reach it."""
    # The same attribute of several objects that one name may stand for is one write.
    key = (write.location, write.operation, write.path.rpartition(".")[2])
    known = merged.get(key)
    if known is None:
        merged[key] = write
        return
    if (known.root is Root.SELF) != (write.root is Root.SELF):
        # One name that may be the module or something handed in: the module is meant.
        merged[key] = known if known.root is Root.SELF else write
        return
    shorter = min(known, write, key=lambda each: (len(each.chain), len(each.path), each.path))
    merged[key] = replace(
        shorter,
        carried=known.carried or write.carried,
        declared=known.declared | write.declared,
        value=known.value | write.value,
        depends_on_inputs=known.depends_on_inputs or write.depends_on_inputs,
        training_only=known.training_only and write.training_only,
        filled_once=known.filled_once and write.filled_once,
        guard=_weaker(known.guard, write.guard),
        round_trip=known.round_trip or write.round_trip,
        entry_points=tuple(dict.fromkeys((*known.entry_points, *write.entry_points))),
    )


def merge_obstacle(merged: dict[tuple[object, ...], Obstacle], found: Obstacle) -> None:
    """An obstacle is reported once, for all entry points and subclasses that reach it."""
    key = (found.location, found.hindrance)
    known = merged.get(key)
    if known is None:
        merged[key] = found
        return
    merged[key] = replace(
        min(known, found, key=lambda each: len(each.chain)),
        training_only=known.training_only and found.training_only,
        entry_points=tuple(dict.fromkeys((*known.entry_points, *found.entry_points))),
    )


_GUARDS = (GuardContext.UNCONDITIONAL, GuardContext.LAZY, GuardContext.TRAINING_ONLY, GuardContext.EAGER_ONLY)


def _weaker(left: GuardContext, right: GuardContext) -> GuardContext:
    return left if _GUARDS.index(left) <= _GUARDS.index(right) else right


def finding_of(write: StateWrite, settings: Settings, seconds: dict[str, float] | None = None) -> Finding | None:
    """What the rules say of a write, at the severity that its guard leaves. `seconds` adds up, by code, what they have taken."""
    judged = judge(write, seconds)
    if judged is None:
        return None
    rule, verdict = judged
    severity = verdict.severity
    if write.training_only and not settings.training_step_captured:
        severity = severity.lowered()
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=settings.severity_of(rule.code, severity),
        message=verdict.message,
        location=write.location,
        source_line=write.source_line,
        class_name=write.class_name,
        attribute=write.path,
        entry_points=write.entry_points,
        chain=write.chain,
        guard=write.guard,
        carried=write.carried,
        effect=verdict.effect,
        help=verdict.help,
    )


def finding_of_obstacle(obstacle: Obstacle, settings: Settings) -> Finding:
    """What the rule of an obstacle says of it, at the severity that its guard leaves."""
    rule, verdict = verdict_on(obstacle)
    severity = verdict.severity
    if obstacle.training_only and not settings.training_step_captured:
        severity = severity.lowered()
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=settings.severity_of(rule.code, severity),
        message=verdict.message,
        location=obstacle.location,
        source_line=obstacle.source_line,
        class_name=obstacle.class_name,
        entry_points=obstacle.entry_points,
        chain=obstacle.chain,
        guard=GuardContext.TRAINING_ONLY if obstacle.training_only else GuardContext.UNCONDITIONAL,
        effect=verdict.effect,
        help=verdict.help,
    )


def once(findings: Iterable[Finding]) -> list[Finding]:
    """Of several findings on one statement's line for one attribute, the worst."""
    best: dict[tuple[str, int, str | None], Finding] = {}
    for finding in findings:
        key = (finding.location.path, finding.location.line, finding.attribute)
        known = best.get(key)
        if known is None or finding.severity.rank > known.severity.rank:
            best[key] = finding
    return list(best.values())

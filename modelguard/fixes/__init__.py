"""Fixes: edits that repair a finding in its file. Text in, edits out; nothing here reads or writes files.

What can be fixed, and whether that is safe, is told from the file's syntax tree alone (`applicability_of`), which is cheap enough
to mark findings with. LibCST writes the edits, and is imported when somebody asks for them (`fix_for`).
"""

from __future__ import annotations

from collections.abc import Callable

from modelguard.findings import Applicability, Finding, Fix
from modelguard.fixes import counter, in_place, local, registration
from modelguard.fixes.edits import apply, compatible
from modelguard.fixes.plans import Plan
from modelguard.fixes.source import Source, read

__all__ = ["CODES", "applicability_of", "apply", "compatible", "fix_for"]

_PLANS: dict[str, tuple[Callable[[Source, Finding], Plan | None], ...]] = {
    "MG101": (local.plan, in_place.plan),
    "MG103": (local.plan,),
    "MG104": (counter.plan,),
    "MG106": (registration.plan,),
}
"""What may repair the findings of a rule; the first that fits does."""


CODES = frozenset({*_PLANS, "MG902"})
"""The rules of which a finding may have a fix."""


def fix_for(finding: Finding, source: str) -> Fix | None:
    """The fix of a finding in `source`, the text of its file; None where there is none that stays within the file.

    There is none either where the line is no longer the one that the finding is about.
    """
    parsed = _parsed(finding, source)
    if parsed is None:
        return None
    if finding.fix is not None:
        return finding.fix
    plan = _plan(finding, parsed)
    if plan is None:
        return None
    message = plan.message if plan.risk is None else f"{plan.message}: {plan.risk}"
    return Fix(message, plan.applicability, plan.edits())


def applicability_of(finding: Finding, source: str) -> Applicability | None:
    """Whether there is a fix, and how safe it is, without writing it."""
    parsed = _parsed(finding, source)
    if parsed is None:
        return None
    known = finding.fix or _plan(finding, parsed)
    return known.applicability if known is not None else None


def _parsed(finding: Finding, source: str) -> Source | None:
    """The source of a finding that may have a fix, if its line is still there."""
    parsed = read(source) if finding.code in CODES else None
    at = finding.location.line - 1
    return parsed if parsed is not None and parsed.lines[at : at + 1] == [finding.source_line] else None


def _plan(finding: Finding, source: Source) -> Plan | None:
    plans = (planner(source, finding) for planner in _PLANS.get(finding.code, ()))
    return next((plan for plan in plans if plan is not None), None)

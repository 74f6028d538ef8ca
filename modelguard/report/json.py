"""Findings for programs: the shape that docs/json-output.md describes and schema.json fixes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from modelguard import __version__
from modelguard.findings import Diagnostic, Edit, Finding, Fix, Frame, Location, ScanReport, Severity

SCHEMA_VERSION = 1
"""Grows when a field changes its meaning or goes; a new field leaves it alone."""


def render(report: ScanReport) -> str:
    """The report as a JSON object. Plain ASCII, so that no terminal or pipe can spoil it."""
    counts = Counter(finding.severity for finding in report.findings)
    return _dump(
        {
            "schema_version": SCHEMA_VERSION,
            "modelguard_version": __version__,
            "findings": [_finding(finding) for finding in report.findings],
            "diagnostics": [_diagnostic(diagnostic) for diagnostic in report.diagnostics],
            "summary": {
                "files": report.files,
                "module_classes": report.module_classes,
                "entry_points": report.entry_points,
                "errors": counts[Severity.ERROR],
                "warnings": counts[Severity.WARNING],
                "notes": counts[Severity.NOTE],
                "baselined": report.baselined,
                "unchanged": report.unchanged,
            },
        }
    )


def render_confirmation(
    target: str,
    report: ScanReport,
    unconfirmed: Mapping[Finding, str],
    replay: Mapping[str, Any],
    side_effects: Sequence[Mapping[str, Any]],
    dynamo_stopped: str | None,
    guessed_inputs: Sequence[str],
) -> str:
    """What running a target showed, as a JSON object."""
    return _dump(
        {
            "schema_version": SCHEMA_VERSION,
            "modelguard_version": __version__,
            "target": target,
            "guessed_inputs": list(guessed_inputs),
            "device": replay["device"],
            "replay": {key: value for key, value in replay.items() if key != "device"},
            "side_effects": list(side_effects),
            "dynamo_stopped": dynamo_stopped,
            "findings": [{**_finding(finding), "unconfirmed": unconfirmed.get(finding)} for finding in report.findings],
        }
    )


def render_readiness(target: str, report: ScanReport, is_ready: bool, record: Mapping[str, Any]) -> str:
    """What tracing a target showed, as a JSON object."""
    return _dump(
        {
            "schema_version": SCHEMA_VERSION,
            "modelguard_version": __version__,
            "target": target,
            "ready": is_ready,
            **{key: value for key, value in record.items() if key != "sources"},
            "findings": [_finding(finding) for finding in report.findings],
        }
    )


def _dump(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def _finding(finding: Finding) -> dict[str, Any]:
    where = finding.location
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "message": finding.message,
        "path": where.path,
        "cell": where.cell.number if where.cell else None,
        "line": where.line_in_cell,
        "column": where.column,
        "end_line": where.line_in_cell + where.end_line - where.line,
        "end_column": where.end_column,
        "class": finding.class_name,
        "attribute": finding.attribute,
        "entry_points": list(finding.entry_points),
        "call_chain": [_frame(frame) for frame in finding.chain],
        "guard_context": finding.guard.value,
        "carried": finding.carried,
        "effect": finding.effect.value if finding.effect else None,
        "evidence": [evidence.value for evidence in finding.evidence],
        "help": finding.help,
        "help_url": finding.help_url,
        "fingerprint": finding.fingerprint,
        "fix": _fix(finding.fix, where) if finding.fix is not None else None,
    }


def _frame(frame: Frame) -> dict[str, Any]:
    cell = frame.cell.number if frame.cell else None
    return {"function": frame.function, "path": frame.path, "cell": cell, "line": frame.line_in_cell}


def _fix(fix: Fix, where: Location) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "message": fix.message,
        "edits": [_edit(edit, where) for edit in fix.edits],
    }


def _edit(edit: Edit, where: Location) -> dict[str, Any]:
    # Fixes change the class that holds the finding, and so stay within its cell.
    cell, before = where.cell or (None, 0)
    lines = {"line": edit.line - before, "end_line": edit.end_line - before}
    return {"path": where.path, "cell": cell, **edit._asdict(), **lines}


def _diagnostic(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "path": diagnostic.path,
        "line": diagnostic.line,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
    }

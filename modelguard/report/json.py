"""Findings for programs: the shape that docs/json-output.md describes and schema.json fixes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from modelguard import __version__
from modelguard.findings import Diagnostic, Finding, Fix, ScanReport, Severity

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
        "line": where.line,
        "column": where.column,
        "end_line": where.end_line,
        "end_column": where.end_column,
        "class": finding.class_name,
        "attribute": finding.attribute,
        "entry_points": list(finding.entry_points),
        "call_chain": [{"function": frame.function, "path": frame.path, "line": frame.line} for frame in finding.chain],
        "guard_context": finding.guard.value,
        "carried": finding.carried,
        "effect": finding.effect.value if finding.effect else None,
        "evidence": [evidence.value for evidence in finding.evidence],
        "help": finding.help,
        "help_url": finding.help_url,
        "fingerprint": finding.fingerprint,
        "fix": _fix(finding.fix, where.path) if finding.fix is not None else None,
    }


def _fix(fix: Fix, path: str) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "message": fix.message,
        "edits": [{"path": path, **edit._asdict()} for edit in fix.edits],
    }


def _diagnostic(diagnostic: Diagnostic) -> dict[str, Any]:
    return {
        "path": diagnostic.path,
        "line": diagnostic.line,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
    }

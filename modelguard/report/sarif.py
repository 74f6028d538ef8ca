"""Findings in SARIF 2.1.0, the format of code scanning services and of editors that show their results."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from modelguard import __version__
from modelguard.findings import Diagnostic, Finding, Fix, Frame, Location, ScanReport, Severity
from modelguard.report.places import repository_path, well_formed
from modelguard.rules import by_code
from modelguard.rules.base import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

FINGERPRINT = "modelguard/v1"
"""The name of `Finding.fingerprint` among partial fingerprints; its number grows when fingerprints are made otherwise."""

_ROOT = "%SRCROOT%"
"""What services call the top of the repository."""

_PROBLEMS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "recommendation"}


def render(report: ScanReport) -> str:
    """The report as a log with one run, in plain ASCII. Of the rules it describes those that have findings."""
    codes = sorted({finding.code for finding in report.findings})
    run = {
        "tool": {"driver": {"name": "modelguard", "version": __version__, "rules": [_rule(by_code[code]) for code in codes]}},
        "invocations": [
            {
                "executionSuccessful": all(each.severity is not Severity.ERROR for each in report.diagnostics),
                "toolExecutionNotifications": [_notification(diagnostic) for diagnostic in report.diagnostics],
            }
        ],
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The folder that modelguard ran in: the top of the repository."}}},
        # Python's strings are counted so, and UTF-16 is what a reader would take them for.
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in report.findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary()},
        "fullDescription": {"text": " ".join(rule.sections()["What it does"].split())},
        "help": {"text": rule.documentation(), "markdown": rule.documentation()},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"tags": ["pytorch", "cuda-graphs", rule.name], "problem.severity": _PROBLEMS[rule.severity]},
    }


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    place = _location(finding.location)
    if finding.class_name:
        place["logicalLocations"] = [{"fullyQualifiedName": well_formed(finding.class_name), "kind": "type"}]
    message = finding.message + (f"\nhelp: {finding.help}" if finding.help else "")
    if finding.location.cell is not None:
        message = f"{finding.location.place}: {message}"
    result = {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": finding.severity.value,
        "message": {"text": well_formed(message)},
        "locations": [place],
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
        "properties": {
            "attribute": finding.attribute and well_formed(finding.attribute),
            "entryPoints": [well_formed(entry_point) for entry_point in finding.entry_points],
            "guardContext": finding.guard.value,
            "carried": finding.carried,
            "effect": finding.effect.value if finding.effect else None,
            "evidence": [evidence.value for evidence in finding.evidence],
        },
    }
    if finding.fix is not None and finding.location.cell is None:
        result["fixes"] = [_fix(finding.fix, finding.location.path)]
    if finding.chain:
        result["codeFlows"] = [{"threadFlows": [{"locations": list(_flow(finding))}]}]
    return result


def _fix(fix: Fix, path: str) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": {
                "startLine": edit.line,
                "startColumn": edit.column,
                "endLine": edit.end_line,
                "endColumn": edit.end_column,
            },
            "insertedContent": {"text": well_formed(edit.content)},
        }
        for edit in fix.edits
    ]
    return {
        "description": {"text": well_formed(f"{fix.message} ({fix.applicability.value})")},
        "artifactChanges": [{"artifactLocation": _artifact(path), "replacements": replacements}],
    }


def _flow(finding: Finding) -> Iterator[dict[str, Any]]:
    """The calls from the entry point to the write, and the write."""
    for depth, frame in enumerate(finding.chain):
        yield {"location": _call(frame), "nestingLevel": depth}
    write = _location(finding.location) | {"message": {"text": well_formed(f"{finding.attribute or 'state'} is written")}}
    yield {"location": write, "nestingLevel": len(finding.chain), "importance": "essential"}


def _call(frame: Frame) -> dict[str, Any]:
    physical = {"artifactLocation": _artifact(frame.path), "region": {"startLine": frame.line if frame.cell is None else 1}}
    return {"physicalLocation": physical, "message": {"text": well_formed(f"in {frame.function}, this call leads to the write")}}


def _location(where: Location) -> dict[str, Any]:
    if where.cell is not None:
        # Regions are of the file, which is JSON; the message names the place in the cell.
        return {"physicalLocation": {"artifactLocation": _artifact(where.path), "region": {"startLine": 1}}}
    region = {
        "startLine": where.line,
        "startColumn": where.column,
        "endLine": where.end_line,
        "endColumn": where.end_column,
    }
    return {"physicalLocation": {"artifactLocation": _artifact(where.path), "region": region}}


def _artifact(path: str) -> dict[str, str]:
    """Where a file lies: below the root, or else anywhere on this machine."""
    place = Path(repository_path(path))
    if place.is_absolute() or ".." in place.parts:
        return {"uri": Path(os.path.abspath(place)).as_uri()}
    return {"uri": quote(os.fsencode(place.as_posix())), "uriBaseId": _ROOT}


def _notification(diagnostic: Diagnostic) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(diagnostic.path)}
    if diagnostic.line is not None:
        physical["region"] = {"startLine": diagnostic.line}
    return {
        "level": diagnostic.severity.value,
        "message": {"text": well_formed(diagnostic.message)},
        "locations": [{"physicalLocation": physical}],
    }

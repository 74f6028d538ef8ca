"""Findings for GitLab: a code quality report, which merge requests show."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from modelguard.findings import Finding, ScanReport, Severity
from modelguard.report.places import repository_path, well_formed

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def render(report: ScanReport) -> str:
    """The findings as a JSON array, in plain ASCII. Diagnostics have no place in this format; they are told on stderr."""
    seen: Counter[str] = Counter()
    issues = []
    for finding in report.findings:
        seen[finding.fingerprint] += 1
        issues.append(_issue(finding, seen[finding.fingerprint]))
    return json.dumps(issues, indent=2) + "\n"


def _issue(finding: Finding, occurrence: int) -> dict[str, Any]:
    # GitLab shows one issue of a fingerprint; equal lines of a class are several.
    counter = f"-{occurrence}" if occurrence > 1 else ""
    where = finding.location
    message = f"{finding.code} {finding.name}: {finding.message}"
    return {
        # The lines of a notebook's file are others than those of its cells.
        "description": well_formed(message if where.cell is None else f"{where.place}: {message}"),
        "check_name": finding.code,
        "fingerprint": finding.fingerprint + counter,
        "severity": _SEVERITIES[finding.severity],
        "location": {
            "path": well_formed(repository_path(where.path)),
            "lines": {"begin": where.line if where.cell is None else 1},
        },
    }

"""Findings one a line: `path:line:column: CODE message`, as editors and `grep` take them."""

from __future__ import annotations

from modelguard.findings import Finding, ScanReport
from modelguard.report.frame import printable


def render(report: ScanReport) -> str:
    """The findings, and nothing else: a clean report is empty."""
    return "".join(f"{printable(_line(finding))}\n" for finding in report.findings)


def _line(finding: Finding) -> str:
    where = finding.location
    return f"{where.path}:{where.place}: {finding.code} {finding.message}"

"""Findings for people, by file: the path once, and below it a line for each finding."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from modelguard.findings import Finding, ScanReport
from modelguard.report.frame import printable


def render(report: ScanReport) -> str:
    """The findings in their order, which is by file; a clean report is empty."""
    files = groupby(report.findings, key=lambda finding: finding.location.path)
    return "\n".join("".join(f"{line}\n" for line in _file(path, list(findings))) for path, findings in files)


def _file(path: str, findings: list[Finding]) -> Iterator[str]:
    places = [finding.location.place for finding in findings]
    width, widest = max(map(len, places)), max(len(finding.severity.value) for finding in findings)
    yield f"{printable(path)}:"
    for where, finding in zip(places, findings, strict=True):
        severity = finding.severity.value
        yield f"  {where:<{width}}  {severity:<{widest}}  {finding.code} {finding.name}: {printable(finding.message)}"

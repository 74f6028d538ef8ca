"""How many findings each rule has, most first."""

from __future__ import annotations

from collections import Counter

from modelguard.findings import ScanReport, Severity
from modelguard.report.text import plural


def render(report: ScanReport) -> str:
    """A line for each rule with findings: their number, by severity where there are several, the code and the name."""
    counts = Counter((finding.code, finding.name) for finding in report.findings)
    severities = Counter((finding.code, finding.severity) for finding in report.findings)
    width = len(str(max(counts.values(), default=0)))
    lines = []
    for (code, name), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        parts = [plural(severities[code, each], each.value) for each in Severity if severities[code, each]]
        lines.append(f"{count:>{width}}  {code}  {name}  ({', '.join(parts)})")
    if lines:
        lines.append(f"{len(report.findings):>{width}}  in {plural(report.files, 'file')}, notes included")
    return "".join(f"{line}\n" for line in lines) or "no findings\n"

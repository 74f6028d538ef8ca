"""What a scan found, as a page."""

from __future__ import annotations

from collections import Counter

from modelguard.findings import ScanReport, Severity
from modelguard.report import text
from modelguard.report.html.findings import listed, place
from modelguard.report.html.markup import element
from modelguard.report.html.page import Section, heading, page


def render(report: ScanReport) -> str:
    """The page of a report; notes are folded."""
    counts = Counter(finding.severity for finding in report.findings)
    found = [text.plural(counts[severity], severity.value) for severity in Severity if counts[severity]]
    looked_at = (
        f"{text.plural(report.files, 'file')}, {text.plural(report.module_classes, 'module class')}, "
        f"{text.plural(report.entry_points, 'entry point')}"
    )
    return page(
        "modelguard scan",
        heading("scan", looked_at, not report.failing, ", ".join(found) or "No findings", None),
        listed(report.findings),
        _diagnostics(report),
    )


def _diagnostics(report: ScanReport) -> Section | None:
    if not report.diagnostics:
        return None
    rows = [
        element(
            "li",
            element("span", each.severity.value, class_=f"severity {each.severity.value}"),
            " ",
            element("code", each.path if each.line is None else place(each.path, each.line)),
            f": {each.message}",
        )
        for each in report.diagnostics
    ]
    return Section("diagnostics", "What could not be looked at", element("ul", rows, class_="plain"), len(rows))

"""Findings for whatever shows test results: a JUnit XML report in which each finding is a test that failed."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree as ET

from modelguard.findings import Diagnostic, Finding, ScanReport, Severity
from modelguard.report.places import repository_path

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no way to write."""


def render(report: ScanReport) -> str:
    """The report as one test suite, in plain ASCII: also what could not be scanned, as errors, and what was skipped.

    A clean report holds one test that passed: services take a suite without tests for a run that went wrong.
    """
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name="modelguard")
    seen: Counter[tuple[str, str]] = Counter()
    for finding in report.findings:
        path = repository_path(finding.location.path)
        seen[path, _name(finding)] += 1
        _add_finding(suite, finding, path, seen[path, _name(finding)])
    for diagnostic in report.diagnostics:
        _add_diagnostic(suite, diagnostic)
    if not len(suite):
        ET.SubElement(suite, "testcase", classname="modelguard", name="no findings")
    counts = {
        "tests": str(len(suite)),
        "failures": str(len(suite.findall("*/failure"))),
        "errors": str(len(suite.findall("*/error"))),
        "skipped": str(len(suite.findall("*/skipped"))),
    }
    root.attrib |= {"name": "modelguard", **counts}
    suite.attrib |= counts
    ET.indent(root)
    content: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=True)
    return content.decode("ascii") + "\n"


def _add_finding(suite: ET.Element, finding: Finding, path: str, occurrence: int) -> None:
    # Services know a test again by its name, which must not change when lines move, and show one of each name.
    counter = f" ({occurrence})" if occurrence > 1 else ""
    where = finding.location
    case = _case(suite, path, _name(finding) + counter, where.line if where.cell is None else None)
    failure = ET.SubElement(case, "failure", message=_safe(finding.message), type=finding.severity.value)
    lines = [f"{path}:{where.place}: {finding.code} {finding.name}: {finding.message}"]
    lines += [f"in: {frame.function} ({repository_path(frame.path)}:{frame.place})" for frame in finding.chain]
    if finding.help:
        lines.append(f"help: {finding.help}")
    failure.text = _safe("\n".join(lines))


def _add_diagnostic(suite: ET.Element, diagnostic: Diagnostic) -> None:
    case = _case(suite, repository_path(diagnostic.path), "scan", diagnostic.line)
    outcome = "error" if diagnostic.severity is Severity.ERROR else "skipped"
    ET.SubElement(case, outcome, message=_safe(diagnostic.message))


def _case(suite: ET.Element, path: str, name: str, line: int | None) -> ET.Element:
    attributes = {"classname": _safe(path), "name": _safe(name), "file": _safe(path)}
    if line is not None:
        attributes["line"] = str(line)
    return ET.SubElement(suite, "testcase", attributes)


def _name(finding: Finding) -> str:
    about = [part for part in (finding.class_name, finding.attribute) if part]
    return f"{finding.code} {finding.name}" + (f": {' '.join(about)}" if about else "")


def _safe(text: str) -> str:
    """`text` with what XML cannot hold spelled out."""
    return _NOT_XML.sub(lambda hit: hit[0].encode("unicode_escape").decode("ascii"), text)

"""The JUnit report: XML whatever a report holds, with names that stay when lines move."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from modelguard.findings import Diagnostic, Finding, Location, ScanReport, Severity
from modelguard.report.junit import render


def finding(line: int = 12, path: str = "norm.py", message: str = "`self.mean` is rebound", **values: Any) -> Finding:
    severity = values.pop("severity", Severity.ERROR)
    return Finding("MG101", "buffer-rebound", severity, message, Location(path, line, 9, line, 18), **values)


def suite_of(*findings: Finding, diagnostics: tuple[Diagnostic, ...] = ()) -> ET.Element:
    """The one suite of a report."""
    (suite,) = ET.fromstring(render(ScanReport(findings, diagnostics)))
    return suite


def test_a_clean_report_is_one_test_that_passes() -> None:
    (case,) = suite_of()
    assert (case.get("name"), list(case)) == ("no findings", [])


def test_each_finding_is_a_failure_and_each_diagnostic_an_outcome() -> None:
    suite = suite_of(
        finding(),
        finding(severity=Severity.WARNING),
        diagnostics=(Diagnostic("gone", "no such file", severity=Severity.ERROR), Diagnostic("a.ipynb", "skipped")),
    )
    assert [case[0].tag for case in suite] == ["failure", "failure", "error", "skipped"]
    assert [case[0].get("type") for case in suite][:2] == ["error", "warning"]
    counts = {"tests": "4", "failures": "2", "errors": "1", "skipped": "1"}
    assert {name: suite.get(name) for name in counts} == counts


def test_names_are_unique_and_do_not_depend_on_the_line() -> None:
    names = [case.get("name") for case in suite_of(finding(3), finding(4), finding(5, class_name="Norm", attribute="self.a"))]
    assert names == ["MG101 buffer-rebound", "MG101 buffer-rebound (2)", "MG101 buffer-rebound: Norm self.a"]
    assert [case.get("name") for case in suite_of(finding(30), finding(40))] == names[:2]


@given(st.text(st.sampled_from("<>&\"']]>\0\x1b\x85\ufffe\ud800\U0001f600\r\n") | st.characters()))
def test_every_character_makes_xml(text: str) -> None:
    (case,) = suite_of(finding(path=f"{text}.py", message=text, help=text, attribute=text))
    (failure,) = case
    assert failure.tag == "failure"
    plain = "".join(char for char in text if char.isalnum() and char < "\ud800")
    assert all(char in (failure.get("message") or "") for char in plain)

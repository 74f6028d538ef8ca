"""The GitLab report, compared with a golden file. `MODELGUARD_UPDATE_GOLDEN=1 pytest` rewrites it; read the difference."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from modelguard.findings import Diagnostic, Finding, Location, ScanReport, Severity
from modelguard.report.gitlab import render

GOLDEN = Path(__file__).parent / "golden" / "gitlab.json"


def finding(path: str = "models/norm.py", line: int = 12, message: str = "`self.mean` is rebound", **values: Any) -> Finding:
    severity = values.pop("severity", Severity.ERROR)
    return Finding("MG101", "buffer-rebound", severity, message, Location(path, line, 9, line, 18), **values)


REPORT = ScanReport(
    findings=(
        finding(source_line="        self.mean = x", class_name="Norm", attribute="self.mean", help="use copy_"),
        finding(line=15, severity=Severity.WARNING),
        finding(line=16, severity=Severity.NOTE),
        finding("models/a,b: 100%/größe_日本語 \udcff\n.py", message="50% of `größe`,\r\nor: \udcff"),
    ),
    diagnostics=(Diagnostic("gone", "no such file", severity=Severity.ERROR),),
    files=2,
)


def issues(*findings: Finding) -> list[dict[str, Any]]:
    parsed: list[dict[str, Any]] = json.loads(render(ScanReport(findings=findings)))
    return parsed


def test_golden() -> None:
    rendered = render(REPORT)
    assert rendered.isascii()
    if os.environ.get("MODELGUARD_UPDATE_GOLDEN"):
        GOLDEN.write_text(rendered, encoding="utf-8")
    assert rendered == GOLDEN.read_text(encoding="utf-8")


def test_a_clean_report_is_an_empty_array() -> None:
    assert json.loads(render(ScanReport(files=3))) == []


def test_every_value() -> None:
    found = finding()
    assert issues(found) == [
        {
            "description": "MG101 buffer-rebound: `self.mean` is rebound",
            "check_name": "MG101",
            "fingerprint": found.fingerprint,
            "severity": "major",
            "location": {"path": "models/norm.py", "lines": {"begin": 12}},
        }
    ]


@pytest.mark.parametrize(
    ("severity", "name"),
    [(Severity.ERROR, "major"), (Severity.WARNING, "minor"), (Severity.NOTE, "info")],
    ids=["error", "warning", "note"],
)
def test_severity(severity: Severity, name: str) -> None:
    assert issues(finding(severity=severity))[0]["severity"] == name


def test_equal_fingerprints_are_counted() -> None:
    one, other = finding(line=3), finding("b.py")
    same = one.fingerprint
    assert finding(line=30).fingerprint == same != other.fingerprint
    found = issues(one, other, finding(line=30), finding(line=40))
    assert [issue["fingerprint"] for issue in found] == [same, other.fingerprint, f"{same}-2", f"{same}-3"]


def test_halves_of_surrogate_pairs_are_spelled_out() -> None:
    (issue,) = issues(finding("\udcff.py", message="\ud800, \U0001f600"))
    assert issue["location"]["path"] == r"\udcff.py"
    assert issue["description"].endswith("\\ud800, \U0001f600")


def test_paths_are_those_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inside = [os.path.join(os.curdir, "a", "b.py"), os.path.join(os.getcwd(), "a", "b.py"), os.path.join("a", "b.py")]
    outside = tmp_path.parent / "elsewhere.py"
    found = issues(*(finding(path) for path in [*inside, str(outside)]))
    assert [issue["location"]["path"] for issue in found] == ["a/b.py", "a/b.py", "a/b.py", outside.as_posix()]

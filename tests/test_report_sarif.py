"""The SARIF report: valid by the published schema, with places and columns that a reader finds again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import modelguard
from modelguard.findings import Applicability, Diagnostic, Edit, Finding, Fix, Frame, Location, ScanReport, Severity
from modelguard.report.sarif import render
from modelguard.rules import by_code

SCHEMA = json.loads((Path(__file__).parent / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)


def finding(path: str = "models/norm.py", code: str = "MG101", **values: Any) -> Finding:
    severity = values.pop("severity", Severity.ERROR)
    location = values.pop("location", Location(path, 12, 9, 12, 18))
    return Finding(code, by_code[code].name, severity, values.pop("message", "`self.mean` is rebound"), location, **values)


def run_of(*findings: Finding, diagnostics: tuple[Diagnostic, ...] = ()) -> dict[str, Any]:
    """The run of a report, which fits the schema."""
    document = json.loads(render(ScanReport(findings, diagnostics)))
    VALIDATOR.validate(document)
    (run,) = document["runs"]
    return run  # type: ignore[no-any-return]


def uris(run: dict[str, Any]) -> list[dict[str, str]]:
    return [result["locations"][0]["physicalLocation"]["artifactLocation"] for result in run["results"]]


def test_a_clean_report() -> None:
    run = run_of()
    assert run["results"] == run["tool"]["driver"]["rules"] == []
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


@pytest.mark.parametrize("code", by_code)
def test_every_rule_can_be_described(code: str) -> None:
    run = run_of(finding(code=code))
    (rule,) = run["tool"]["driver"]["rules"]
    assert (rule["id"], rule["name"]) == (code, by_code[code].name)
    assert rule["defaultConfiguration"]["level"] == by_code[code].severity.value
    assert "## Why it is bad" in rule["help"]["markdown"]


def test_results_point_at_their_rules() -> None:
    run = run_of(finding(code="MG104"), finding(code="MG101"), finding(code="MG104"))
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["MG101", "MG104"]
    assert [rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"]] == [True] * 3


def test_the_chain_is_a_code_flow_that_ends_at_the_write() -> None:
    chain = (Frame("Net.forward", "models/net.py", 40), Frame("Norm.step", "models/norm.py", 7))
    (result,) = run_of(finding(chain=chain, attribute="self.norm.mean"))["results"]
    ((flow,),) = [each["threadFlows"] for each in result["codeFlows"]]
    physical = [step["location"]["physicalLocation"] for step in flow["locations"]]
    assert [(each["artifactLocation"]["uri"], each["region"]["startLine"]) for each in physical] == [
        ("models/net.py", 40),
        ("models/norm.py", 7),
        ("models/norm.py", 12),
    ]
    assert physical[-1] == result["locations"][0]["physicalLocation"]
    assert "codeFlows" not in run_of(finding())["results"][0]


def test_fingerprints_stay_when_lines_move() -> None:
    one, moved = finding(), finding(location=Location("models/norm.py", 90, 9, 90, 18))
    assert [result["partialFingerprints"] for result in run_of(one, moved)["results"]] == [{"modelguard/v1": one.fingerprint}] * 2


def test_diagnostics_are_notifications() -> None:
    problem = Diagnostic("gone", "no such file", severity=Severity.ERROR)
    (invocation,) = run_of(diagnostics=(problem, Diagnostic("a.py", "x", 3)))["invocations"]
    assert not invocation["executionSuccessful"]
    assert [each["level"] for each in invocation["toolExecutionNotifications"]] == ["error", "warning"]


def test_paths_below_the_working_directory_are_relative_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    inside = [os.path.join(os.curdir, "a", "b.py"), os.path.join(os.getcwd(), "a", "b.py"), os.path.join("a", "b.py")]
    outside = [os.path.join(os.pardir, "c d.py"), str(tmp_path / "c d.py")]
    found = uris(run_of(*(finding(path) for path in [*inside, *outside])))
    assert found == [{"uri": "a/b.py", "uriBaseId": "%SRCROOT%"}] * 3 + [{"uri": (tmp_path / "c d.py").as_uri()}] * 2


@given(
    st.text(
        st.sampled_from("%:?#[]@ &é\\日\udcff.a") | st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1
    )
)
def test_every_name_comes_back(name: str) -> None:
    path = f"{name}x.py"
    (location,) = uris(run_of(finding(path, message=name)))
    split = urlsplit(location["uri"])
    assert (split.scheme, split.netloc, split.query, split.fragment) == ("", "", "", "")
    assert location["uri"].isascii()
    assert os.fsdecode(unquote_to_bytes(split.path)) == path


def test_columns_count_characters_also_beyond_the_basic_plane(tmp_path: Path) -> None:
    line = '        x = "\N{MUSICAL SYMBOL G CLEF}é"; self.n = x'
    source = f"from torch import nn\n\n\nclass M(nn.Module):\n    def forward(self, x):\n{line}\n"
    (tmp_path / "m.py").write_text(source, encoding="utf-8")
    run = run_of(*modelguard.scan([tmp_path / "m.py"]).findings)
    region = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert run["columnKind"] == "unicodeCodePoints"
    assert line[region["startColumn"] - 1 : region["endColumn"] - 1].startswith("self.n")


def test_fixes_hold_their_edits() -> None:
    edit = Edit(12, 9, 12, 18, "self.mean.copy_(mean)\n")
    (result,) = run_of(finding(fix=Fix("write it in place", Applicability.UNSAFE, (edit,))))["results"]
    (fix,) = result["fixes"]
    assert fix["description"]["text"] == "write it in place (unsafe)"
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"] == result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 12, "startColumn": 9, "endLine": 12, "endColumn": 18},
            "insertedContent": {"text": "self.mean.copy_(mean)\n"},
        }
    ]
    assert "fixes" not in run_of(finding())["results"][0]

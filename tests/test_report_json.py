"""The JSON report: its shape, its schema and its documentation agree."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from modelguard import __version__
from modelguard.findings import (
    Diagnostic,
    Effect,
    Evidence,
    Finding,
    Frame,
    GuardContext,
    Location,
    ScanReport,
    Severity,
)
from modelguard.report.json import render

SCHEMA: dict[str, Any] = json.loads(files("modelguard.report").joinpath("schema.json").read_text(encoding="utf-8"))
DOCUMENT = (Path(__file__).parent.parent / "docs" / "json-output.md").read_text(encoding="utf-8")

BARE = Finding("MG104", "python-state-changed", Severity.NOTE, "says little", Location("a.py", 1, 1, 1, 2))
FULL = Finding(
    "MG101",
    "buffer-rebound",
    Severity.ERROR,
    "buffer `self.mean` is rebound",
    Location("models/é \udcff.py", 12, 9, 13, 4),
    source_line="        self.mean = (",
    class_name="Norm",
    attribute="self.mean",
    entry_points=("Norm.forward", "SubNorm.forward"),
    chain=(Frame("Norm.forward", "models/norm.py", 7),),
    guard=GuardContext.TRAINING_ONLY,
    carried=True,
    effect=Effect.LOST,
    evidence=(Evidence.STATIC, Evidence.REPLAY),
    help="use copy_",
    help_url="https://example.com/MG101",
)
REPORT = ScanReport(
    findings=(BARE, FULL),
    diagnostics=(Diagnostic("b.py", "does not parse", 3), Diagnostic("gone", "no such file", severity=Severity.ERROR)),
    files=2,
    module_classes=1,
    entry_points=1,
    lines=40,
)


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(ScanReport(), id="empty"),
        pytest.param(ScanReport(findings=(BARE,)), id="bare"),
        pytest.param(REPORT, id="full"),
    ],
)
def test_the_report_fits_the_schema(report: ScanReport) -> None:
    jsonschema.validate(json.loads(render(report)), SCHEMA)


def test_every_value() -> None:
    text = render(REPORT)
    assert text.isascii()
    document = json.loads(text)
    assert document["schema_version"] == 1
    assert document["modelguard_version"] == __version__
    assert document["findings"][1] == {
        "code": "MG101",
        "name": "buffer-rebound",
        "severity": "error",
        "message": "buffer `self.mean` is rebound",
        "path": "models/é \udcff.py",
        "cell": None,
        "line": 12,
        "column": 9,
        "end_line": 13,
        "end_column": 4,
        "class": "Norm",
        "attribute": "self.mean",
        "entry_points": ["Norm.forward", "SubNorm.forward"],
        "call_chain": [{"function": "Norm.forward", "path": "models/norm.py", "cell": None, "line": 7}],
        "guard_context": "training-only",
        "carried": True,
        "effect": "lost",
        "evidence": ["static", "replay"],
        "help": "use copy_",
        "help_url": "https://example.com/MG101",
        "fingerprint": FULL.fingerprint,
        "fix": None,
    }
    assert document["diagnostics"] == [
        {"path": "b.py", "line": 3, "severity": "warning", "message": "does not parse"},
        {"path": "gone", "line": None, "severity": "error", "message": "no such file"},
    ]
    assert document["summary"] == {
        "files": 2,
        "module_classes": 1,
        "entry_points": 1,
        "errors": 1,
        "warnings": 0,
        "notes": 1,
        "baselined": 0,
        "unchanged": 0,
    }


@pytest.mark.parametrize("part", [None, "finding", "diagnostic", "summary"])
def test_the_schema_requires_every_field_and_the_documentation_names_it(part: str | None) -> None:
    schema = SCHEMA["$defs"][part] if part else SCHEMA
    assert set(schema["required"]) == set(schema["properties"])
    assert [name for name in schema["properties"] if f"`{name}`" not in DOCUMENT and f'"{name}"' not in DOCUMENT] == []


def test_the_documented_example_fits_the_schema() -> None:
    example = DOCUMENT.split("```json\n")[1].split("```")[0]
    jsonschema.validate(json.loads(example), SCHEMA)


def test_the_schema_is_a_schema_and_refuses_what_is_not_a_report() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema_version": 1}, SCHEMA)

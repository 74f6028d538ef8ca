"""The GitHub report, compared with a golden file and read back as GitHub's runner reads it.

`MODELGUARD_UPDATE_GOLDEN=1 pytest` rewrites the golden file; read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelguard.findings import Diagnostic, Finding, Location, ScanReport, Severity
from modelguard.report.github import render

GOLDEN = Path(__file__).parent / "golden" / "github.txt"

ODD = "50% of `größe`,\r\nor: '%0A', \udcff ::error::"


def finding(path: str = "models/norm.py", severity: Severity = Severity.ERROR, **values: str) -> Finding:
    texts = {"message": "buffer `self.mean` is rebound", "help": "use copy_"} | values
    return Finding("MG101", "buffer-rebound", severity, location=Location(path, 12, 9, 12, 18), **texts)  # type: ignore[arg-type]


REPORT = ScanReport(
    findings=(
        finding(),
        finding(severity=Severity.WARNING, help=""),
        finding(severity=Severity.NOTE),
        Finding("MG105", "container-mutated", Severity.ERROR, "`self.l` grows", Location("models/norm.py", 14, 9, 16, 10)),
        finding("models/a,b: 100%/größe_日本語 \udcff\n.py", message=ODD, help=ODD),
    ),
    diagnostics=(
        Diagnostic("b.py", "does not parse", 3),
        Diagnostic("gone: 1,5%", "no such file;\ncheck the spelling", severity=Severity.ERROR),
    ),
    files=2,
)


def read(line: str) -> tuple[str, dict[str, str], str]:
    """Command, properties and message of a workflow command, by the steps of GitHub's runner."""
    command, _, message = line.removeprefix("::").partition("::")
    name, _, listed = command.partition(" ")
    properties = dict(pair.split("=", 1) for pair in listed.split(","))
    for escape, character in [("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")]:
        properties = {key: value.replace(escape, character) for key, value in properties.items()}
    for escape, character in [("%0D", "\r"), ("%0A", "\n"), ("%25", "%")]:
        message = message.replace(escape, character)
    return name, properties, message


def test_golden() -> None:
    # Halves of surrogate pairs leave the program as escapes, as on stdout.
    written = render(REPORT).encode("utf-8", "backslashreplace")
    if os.environ.get("MODELGUARD_UPDATE_GOLDEN"):
        GOLDEN.write_bytes(written)
    assert written == GOLDEN.read_bytes()


def test_a_clean_report_is_empty() -> None:
    assert render(ScanReport(files=3)) == ""


@pytest.mark.parametrize(
    ("severity", "command"),
    [(Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.NOTE, "notice")],
    ids=["error", "warning", "note"],
)
def test_severity(severity: Severity, command: str) -> None:
    report = ScanReport(findings=(finding(severity=severity),), diagnostics=(Diagnostic("a.py", "x", severity=severity),))
    assert [read(line)[0] for line in render(report).splitlines()] == [command, command]


def test_a_span_of_several_lines_has_no_columns() -> None:
    several = ScanReport(findings=(Finding("MG105", "x", Severity.ERROR, "m", Location("a.py", 14, 9, 16, 10)),))
    _, properties, message = read(render(several).rstrip("\n"))
    assert properties == {"file": "a.py", "line": "14", "endLine": "16", "title": "modelguard (MG105)"}
    assert message == "a.py:14:9: MG105 x: m"


def test_a_diagnostic_without_a_line() -> None:
    _, properties, message = read(render(ScanReport(diagnostics=(Diagnostic("gone", "no such file"),))).rstrip("\n"))
    assert properties == {"file": "gone", "title": "modelguard"}
    assert message == "gone: no such file"


TEXT = st.text(st.sampled_from("%:,=\r\n0123ADCa é\udcff") | st.characters())


@given(path=TEXT.map("m{}.py".format).map(lambda path: path.replace("/", "").replace("\\", "")), message=TEXT, help=TEXT)
def test_every_character_comes_back(path: str, message: str, help: str) -> None:
    rendered = render(ScanReport(findings=(finding(path, message=message, help=help),)))
    assert rendered.endswith("\n")
    assert not {"\r", "\n"} & set(rendered[:-1])
    _, properties, read_message = read(rendered[:-1])
    assert properties["file"] == path
    assert properties["endColumn"] == "18"
    assert read_message == f"{path}:12:9: MG101 buffer-rebound: {message}" + (f"\nhelp: {help}" if help else "")


def test_paths_are_those_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [os.path.join(os.curdir, "a", "b.py"), os.path.join(os.getcwd(), "a", "b.py"), os.path.join("a", "b.py")]
    rendered = render(ScanReport(findings=tuple(finding(path) for path in paths)))
    assert [read(line)[1]["file"] for line in rendered.splitlines()] == ["a/b.py"] * 3

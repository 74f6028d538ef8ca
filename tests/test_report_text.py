"""The text report, compared with golden files. `MODELGUARD_UPDATE_GOLDEN=1 pytest` rewrites them; read the difference."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from modelguard.findings import Diagnostic, Finding, Frame, Location, ScanReport, Severity
from modelguard.report.text import render, render_diagnostic

GOLDEN = Path(__file__).parent / "golden"

SOURCE = """\
import torch
from torch import nn


class Norm(nn.Module):
    def forward(self, x):
\tself.mean = x.mean()\t# tabs
        self.größe_日本語 = x; self.n = 1
        self.cache = torch.cat(
            [self.cache, x],
        )
        self.steps += 1
        self.wide = WIDE
        self.note = \x1b[31mred\u202e
        return x
""".replace("WIDE", "[" + "1, " * 80 + "2]")


def finding(line: int, needle: str, severity: Severity = Severity.ERROR, **attributes: object) -> Finding:
    """A finding on the statement that begins with `needle`."""
    text = SOURCE.split("\n")[line - 1]
    column = text.index(needle) + 1
    location = Location("norm.py", line, column, line, column + len(needle))
    values: dict[str, object] = {"help": "write it in place: `copy_`", "source_line": text} | attributes
    message = f"`{needle.split(' ')[0]}` is bound to another tensor, which a replayed graph never sees"
    return Finding("MG101", "buffer-rebound", severity, message, location, **values)  # type: ignore[arg-type]


def report(*findings: Finding) -> ScanReport:
    return ScanReport(findings=findings, files=3, module_classes=1, entry_points=2)


LONG_CHAIN = (Frame("Norm.forward", "norm.py", 7), Frame("step", "lib/helpers.py", 120))

REPORTS = {
    "clean": report(),
    "tabs": report(finding(7, "self.mean = x.mean()")),
    "wide-characters": report(finding(8, "self.größe_日本語 = x"), finding(8, "self.n = 1", Severity.WARNING)),
    "many-lines": report(
        Finding(
            "MG105",
            "container-mutated",
            Severity.ERROR,
            "`self.cache` grows",
            Location("norm.py", 9, 9, 11, 10),
            help="preallocate it",
        )
    ),
    "chain": report(finding(12, "self.steps += 1", chain=LONG_CHAIN)),
    "long-line": report(finding(13, "self.wide"), finding(13, "1, 2]")),
    "control-characters": report(finding(14, "self.note")),
    "no-help": report(finding(12, "self.steps", help=None)),
    "file-gone": report(
        Finding("MG104", "state", Severity.ERROR, "lost", Location("gone.py", 3, 5, 3, 9), source_line="    self = 1"),
        Finding("MG104", "state", Severity.ERROR, "lost, without a source line", Location("gone.py", 3, 5, 3, 9)),
    ),
    "file-changed": report(
        Finding("MG104", "state", Severity.ERROR, "beyond the line", Location("norm.py", 1, 50, 1, 60)),
        Finding("MG104", "state", Severity.ERROR, "beyond the file", Location("norm.py", 500, 1, 500, 2)),
    ),
    "notes-hidden": report(finding(12, "self.steps"), finding(8, "self.n = 1", Severity.NOTE)),
}


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "norm.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def check_golden(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("MODELGUARD_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", REPORTS)
def test_golden(name: str) -> None:
    check_golden(name, render(REPORTS[name]))


def test_notes_shown() -> None:
    check_golden("notes-shown", render(REPORTS["notes-hidden"], show_notes=True))


def test_without_summary() -> None:
    assert render(REPORTS["clean"], summary=False) == ""
    assert render(REPORTS["chain"], summary=False).endswith("help: write it in place: `copy_`\n\n")


@pytest.mark.parametrize("name", REPORTS)
def test_color_adds_nothing_but_colors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")  # the caller decides, not the writer
    monkeypatch.setenv("COLUMNS", "20")
    colored = render(REPORTS[name], color=True)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert [line.rstrip() for line in plain.split("\n")] == render(REPORTS[name]).split("\n")
    assert ("\x1b[1;31m" in colored) == (name != "clean")


@pytest.mark.parametrize(
    ("diagnostic", "text"),
    [
        (Diagnostic("a.py", "does not parse", 3), "a.py:3: warning: does not parse"),
        (Diagnostic("gone", "no such file", severity=Severity.ERROR), "gone: error: no such file"),
        (Diagnostic("a\x1b[0m\n.py", "x"), "a\N{REPLACEMENT CHARACTER}[0m .py: warning: x"),
    ],
    ids=["line", "no-line", "control-characters"],
)
def test_diagnostic(diagnostic: Diagnostic, text: str) -> None:
    assert render_diagnostic(diagnostic) == text


@pytest.mark.parametrize("filling", ["y = 1; ", "y = '漢字\t\u0301'; ", "\u0301"], ids=["plain", "wide", "combining"])
def test_thousands_of_findings_on_one_long_line(tmp_path: Path, filling: str) -> None:
    line = "".join(f"{filling}self.a{number} = x; " for number in range(1_000)).rstrip()
    (tmp_path / "norm.py").write_text(line, encoding="utf-8")
    columns = [match.start() + 1 for match in re.finditer(r"self\.a\d+", line)]
    findings = [
        Finding("MG104", "state", Severity.ERROR, "lost", Location("norm.py", 1, column, 1, column + 8), source_line=line)
        for column in columns
    ]
    shown = render(report(*findings)).split("\n")
    assert len({finding.fingerprint for finding in findings}) == 1
    assert [text for text in shown[2:-2:5] if "self.a" not in text or len(text) > 400] == []
    frame, carets = shown[5 * 500 + 2], shown[5 * 500 + 3]
    assert frame.startswith(" 1 | ...") and frame.endswith("...")
    if filling.isascii():
        assert frame[carets.index("^") : carets.rindex("^") + 1] == "self.a50"


def test_a_long_line_of_a_file_that_changed(tmp_path: Path) -> None:
    (tmp_path / "norm.py").write_text("x" * 100_000)
    shown = render(report(Finding("MG104", "state", Severity.ERROR, "lost", Location("norm.py", 1, 200_000, 1, 200_001))))
    assert max(len(line) for line in shown.split("\n")) < 200


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system")
def test_a_pipe_is_not_opened_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    where = Location("pipe.py", 3, 5, 3, 9)
    shown = render(report(Finding("MG104", "state", Severity.ERROR, "lost", where, source_line="    self.n = 1")))
    assert " 3 |     self.n = 1\n" in shown

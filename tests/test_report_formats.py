"""One report in every format, compared with golden files.

`MODELGUARD_UPDATE_GOLDEN=1 pytest` rewrites them; read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

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
from modelguard.report import formats

GOLDEN = Path(__file__).parent / "golden" / "formats"

REPORT = ScanReport(
    findings=(
        Finding(
            "MG101",
            "buffer-rebound",
            Severity.ERROR,
            "buffer `self.norm.mean` is rebound in `step`",
            Location("models/norm.py", 12, 9, 12, 18),
            source_line="        self.mean = x.mean(0)",
            class_name="Norm",
            attribute="self.norm.mean",
            entry_points=("Net.forward",),
            chain=(Frame("Net.forward", "models/net.py", 40), Frame("Norm.step", "models/norm.py", 7)),
            carried=True,
            effect=Effect.LOST,
            evidence=(Evidence.STATIC, Evidence.REPLAY),
            help="write it in place: `self.norm.mean.copy_(...)`",
        ),
        Finding(
            "MG104",
            "python-state-changed",
            Severity.WARNING,
            "`self.größe` & <co> change",
            Location("models/norm.py", 140, 13, 141, 2),
            source_line="            self.größe += (",
            class_name="Norm",
            attribute="self.größe",
            guard=GuardContext.TRAINING_ONLY,
        ),
        Finding("MG108", "buffer-written-in-place", Severity.NOTE, "in place", Location("models/norm.py", 150, 9, 150, 18)),
        Finding(
            "MG101",
            "buffer-rebound",
            Severity.ERROR,
            "50% of it,\r\nor: \x1b[31m \udcff",
            Location("models/a, b: 100%_日本語 \udcff.py", 3, 5, 3, 9),
        ),
    ),
    diagnostics=(
        Diagnostic("models/book.ipynb", "skipped: a notebook"),
        Diagnostic("gone", "no such file or directory", 2, severity=Severity.ERROR),
    ),
    files=2,
    module_classes=1,
    entry_points=1,
)


# What a page holds is looked at in test_report_html.py.
@pytest.mark.parametrize("name", [name for name in formats.NAMES if name != "html"])
def test_golden(name: str) -> None:
    # Halves of surrogate pairs leave the program as escapes, as on stdout.
    written = formats.render(name, REPORT).replace(__version__, "VERSION").encode("utf-8", "backslashreplace")
    golden = GOLDEN / name
    if os.environ.get("MODELGUARD_UPDATE_GOLDEN"):
        golden.write_bytes(written)
    assert written == golden.read_bytes()


@pytest.mark.parametrize("name", ["html", "json", "sarif", "gitlab", "junit"])
def test_what_programs_read_is_ascii(name: str) -> None:
    assert formats.render(name, REPORT).isascii()


@pytest.mark.parametrize("name", ["concise", "grouped", "github"])
def test_a_clean_report_is_empty(name: str) -> None:
    assert formats.render(name, ScanReport(files=3, module_classes=2)) == ""


@pytest.mark.parametrize("name", ["concise", "grouped", "text"])
def test_no_finding_spreads_over_lines_or_steers_a_terminal(name: str) -> None:
    rendered = formats.render(name, REPORT)
    assert [char for char in rendered if not char.isprintable() and char not in "\n\udcff"] == []


def test_concise_has_a_line_for_each_finding() -> None:
    lines = formats.render("concise", REPORT).splitlines()
    assert len(lines) == len(REPORT.findings)
    assert lines[0] == "models/norm.py:12:9: MG101 buffer `self.norm.mean` is rebound in `step`"

"""Every way to stop a capture is seen where the analysis is sure of it, and what only looks like one is left alone."""

from __future__ import annotations

import capture_cases
import pytest
from marked import read, shown

from modelguard.scan.engine import scan_source
from modelguard.settings import Settings

CASES = {
    f"{name.lower()}-{case}": source
    for name, table in vars(capture_cases).items()
    if name.isupper()
    for case, source in table.items()
}
ONLY_CAPTURE = Settings(select=("MG2",))


@pytest.mark.parametrize("marked", CASES.values(), ids=list(CASES))
def test_capture(marked: str) -> None:
    source = read(marked)
    report = scan_source(source.text, path="net.py", settings=ONLY_CAPTURE)
    assert shown(report.findings) == source.expected
    assert report.diagnostics == ()


def test_the_training_step_may_be_captured_too() -> None:
    text = read(capture_cases.GUARDS["training"]).text
    captured = Settings(select=("MG2",), training_step_captured=True)
    assert [finding.severity.value for finding in scan_source(text, "net.py", captured).findings] == ["warning"]


def test_one_line_is_reported_once() -> None:
    text = read(capture_cases.BRANCHES["item-on-the-same-line"]).text
    assert len(scan_source(text, "net.py", ONLY_CAPTURE).findings) == 1


def test_table_holds_no_case_twice() -> None:
    assert len(set(CASES.values())) == len(CASES) >= 100

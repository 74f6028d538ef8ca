"""Every way to write state is seen, with the guard around it, and what is no state write is left alone."""

from __future__ import annotations

import guard_cases
import pytest
import reach_cases
from marked import read, shown

from modelguard.scan.engine import scan_source
from modelguard.settings import Settings

TABLES = {name.lower(): table for cases in (reach_cases, guard_cases) for name, table in vars(cases).items() if name.isupper()}
CASES = {f"{name}-{case}": source for name, table in TABLES.items() for case, source in table.items()}
ONLY_STATE = Settings(select=("MG1", "MG9"))
each_case = pytest.mark.parametrize("marked", CASES.values(), ids=list(CASES))


@each_case
def test_reach(marked: str) -> None:
    source = read(marked)
    report = scan_source(source.text, path="net.py", settings=ONLY_STATE)
    assert shown(report.findings) == source.expected
    assert report.diagnostics == ()


def test_tables_hold_no_case_twice() -> None:
    assert len(set(CASES.values())) == len(CASES) >= 120
    assert [case for case in guard_cases.CLEAN.values() if "# <-" in case] == []

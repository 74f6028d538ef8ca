"""Edits applied to texts of every kind, and fixes that cannot be applied together."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelguard.findings import Applicability, Edit, Fix
from modelguard.fixes import apply, compatible

LINES = st.text(
    st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)) | st.sampled_from("\t\f\v\x1c\u2028é€😀\ufeff")
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@pytest.mark.parametrize(
    ("source", "edits", "expected"),
    [
        pytest.param("a = 1\n", [Edit(1, 5, 1, 6, "2")], "a = 2\n", id="one-character"),
        pytest.param("a\r\nb\r\n", [Edit(2, 1, 2, 2, "c\nd")], "a\r\nc\r\nd\r\n", id="crlf"),
        pytest.param("a\rb\r", [Edit(2, 2, 2, 2, "\nc")], "a\rb\rc\r", id="cr"),
        pytest.param("a", [Edit(1, 2, 1, 2, "b\n")], "ab\n", id="no-line-end"),
        pytest.param("", [Edit(1, 1, 1, 1, "a")], "a", id="empty"),
        pytest.param("\ufeffa = 1\n", [Edit(1, 1, 1, 2, "b")], "\ufeffb = 1\n", id="byte-order-mark"),
        pytest.param("x = 'é😀'; y\n", [Edit(1, 11, 1, 12, "z")], "x = 'é😀'; z\n", id="columns-are-characters"),
        pytest.param("\tx\n\f\ty\n", [Edit(2, 3, 2, 4, "z")], "\tx\n\f\tz\n", id="tabs-and-form-feeds"),
        pytest.param("a\u2028b\nc\n", [Edit(2, 1, 2, 2, "d")], "a\u2028b\nd\n", id="unicode-separator"),
        pytest.param("a\nb\nc\n", [Edit(2, 1, 3, 1, "")], "a\nc\n", id="line-removed"),
        pytest.param("ab\n", [Edit(1, 2, 1, 3, "d"), Edit(1, 1, 1, 2, "c")], "cd\n", id="in-any-order"),
        pytest.param("ab\n", [Edit(1, 1, 1, 2, "c"), Edit(1, 1, 1, 2, "c")], "cb\n", id="the-same-twice"),
        pytest.param("a\n", [Edit(2, 1, 2, 1, "b\n")], "a\nb\n", id="at-the-end"),
    ],
)
def test_apply(source: str, edits: list[Edit], expected: str) -> None:
    assert apply(source, edits) == expected


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param([Edit(1, 1, 1, 3, "x"), Edit(1, 2, 1, 4, "y")], id="overlap"),
        pytest.param([Edit(1, 1, 1, 3, "x"), Edit(1, 1, 1, 3, "y")], id="two-contents"),
        pytest.param([Edit(4, 1, 4, 1, "x")], id="below-the-text"),
        pytest.param([Edit(2, 3, 2, 4, "x")], id="beyond-the-line"),
        pytest.param([Edit(1, 0, 1, 1, "x")], id="column-0"),
        pytest.param([Edit(1, 3, 1, 2, "x")], id="backwards"),
    ],
)
def test_edits_that_make_no_sense(edits: list[Edit]) -> None:
    with pytest.raises(ValueError):
        apply("abcd\ne\n", edits)


@given(st.lists(LINES, min_size=1, max_size=6), ENDS, st.booleans(), st.data())
def test_what_lies_outside_of_an_edit_stays(lines: list[str], end: str, bom: bool, data: st.DataObject) -> None:
    lines[0] = lines[0].lstrip("\ufeff")
    text = end.join(lines)
    line, end_line = sorted(data.draw(st.lists(st.integers(1, len(lines)), min_size=2, max_size=2)))
    columns = [data.draw(st.integers(1, len(lines[at - 1]) + 1)) for at in (line, end_line)]
    if line == end_line:
        columns.sort()
    content = data.draw(st.text("ab\n"))
    changed = apply("\ufeff" * bom + text, [Edit(line, columns[0], end_line, columns[1], content)])
    before = end.join([*lines[: line - 1], lines[line - 1][: columns[0] - 1]])
    after = end.join([lines[end_line - 1][columns[1] - 1 :], *lines[end_line:]])
    line_end = end if len(lines) > 1 else "\n"
    assert changed == "\ufeff" * bom + before + content.replace("\n", line_end) + after
    assert set(re.findall("\r\n|\r|\n", changed)) <= {line_end}


def fix(*edits: Edit) -> Fix:
    return Fix("repair", Applicability.SAFE, edits)


def test_fixes_that_touch_wait_for_another_round() -> None:
    first, touching, apart = (
        fix(Edit(1, 1, 1, 5, "a"), Edit(9, 1, 9, 1, "b")),
        fix(Edit(1, 5, 1, 6, "c")),
        fix(Edit(1, 7, 1, 8, "d")),
    )
    at_the_same_place = fix(Edit(9, 1, 9, 1, "e"))
    assert compatible([first, touching, apart, at_the_same_place]) == [True, False, True, False]


def test_one_fix_for_two_findings_repairs_both() -> None:
    assert compatible([fix(Edit(1, 1, 1, 5, "a")), fix(Edit(1, 1, 1, 5, "a"))]) == [True, True]

"""Suppressions: what a comment covers, what is left of the findings, and comments that are written for them."""

from __future__ import annotations

import ast
import pickle
import re
import sys
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelguard.findings import Finding, Location, Severity
from modelguard.rules import by_code
from modelguard.rules.base import Rule
from modelguard.suppressions import add_ignores, apply, read
from modelguard.suppressions.reading import Suppression

ABOUT_SUPPRESSIONS = ("MG902", "MG903")


def finding(line: int, code: str = "MG104") -> Finding:
    rule = by_code[code]
    return Finding(code, rule.name, rule.severity, "...", Location("net.py", line, 1, line, 2))


def everything(code: str) -> bool:
    return True


def left(text: str, found: Iterable[Finding], selected: Callable[[str], bool] = everything) -> list[tuple[int, str]]:
    kept = apply("net.py", found, read(text), text.split("\n"), selected)
    return [(each.location.line, each.code) for each in kept]


def messages(text: str, found: Iterable[Finding] = ()) -> list[tuple[str, str | None]]:
    kept = apply("net.py", found, read(text), text.split("\n"), everything)
    return [(each.message, each.help) for each in kept if each.code in ABOUT_SUPPRESSIONS]


def reaches(text: str) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in read(text)]


@pytest.mark.parametrize(
    ("comment", "codes", "reason"),
    [
        pytest.param("# modelguard: ignore[MG101]", ("MG101",), "", id="one-code"),
        pytest.param("# modelguard: ignore[MG101, MG104] why not", ("MG101", "MG104"), "why not", id="two-codes-and-a-reason"),
        pytest.param("# modelguard: ignore[MG101 MG104;MG105,]", ("MG101", "MG104", "MG105"), "", id="other-separators"),
        pytest.param("# modelguard: ignore[MG1]", ("MG1",), "", id="beginning"),
        pytest.param("# modelguard: ignore[buffer-rebound]", ("buffer-rebound",), "", id="name"),
        pytest.param("# modelguard: ignore[MG101, MG101]", ("MG101",), "", id="twice-the-same"),
        pytest.param("#modelguard:ignore[MG101]why", ("MG101",), "why", id="no-spaces"),
        pytest.param("#  ModelGuard :\tIGNORE [ mg101 ] : why", ("mg101",), "why", id="case-and-spaces"),
        pytest.param("# modelguard: ignore[MG101] see #12 and [2]", ("MG101",), "see #12 and [2]", id="reason-with-signs"),
        pytest.param("# type: ignore # modelguard: ignore[MG101]", ("MG101",), "", id="behind-another-comment"),
        pytest.param("## modelguard: ignore[MG101]", ("MG101",), "", id="two-hashes"),
        pytest.param("# modelguard: ignore", (), "", id="blanket"),
        pytest.param("# modelguard: ignore[]", (), "", id="empty-brackets"),
        pytest.param("# modelguard: ignore MG101", (), "MG101", id="no-brackets"),
        pytest.param("# modelguard: ignore[MG101 never closed", (), "[MG101 never closed", id="open-bracket"),
        pytest.param("# noqa: MG101", ("MG101",), "", id="noqa"),
        pytest.param("# NOQA:mg101,E501 , MG104 and so on", ("mg101", "MG104"), "", id="noqa-with-other-tools"),
        pytest.param("# E501 # noqa: MG101", ("MG101",), "", id="noqa-behind-another-comment"),
    ],
)
def test_what_a_comment_names(comment: str, codes: tuple[str, ...], reason: str) -> None:
    (found,) = read(f"x = 1  {comment}\n")
    assert (found.codes, found.reason, found.first, found.last, found.is_file) == (codes, reason, 1, 1, False)
    assert found.noqa is ("noqa" in comment.lower())


@pytest.mark.parametrize(
    "comment",
    [
        pytest.param("# noqa", id="bare-noqa"),
        pytest.param("# noqa: E501", id="another-tool"),
        pytest.param("# noqa: E501 # MG101", id="code-outside-the-noqa"),
        pytest.param("# ruff: noqa: MG101", id="noqa-of-ruff-for-the-file"),
        pytest.param("# modelguard: ignored[MG101]", id="another-word"),
        pytest.param("# modelguard: ignore-files[MG101]", id="another-word-for-the-file"),
        pytest.param("# modelguard ignore[MG101]", id="no-colon"),
        pytest.param("# see modelguard: ignore[MG101]", id="in-prose"),
        pytest.param("# MG101", id="only-a-code"),
    ],
)
def test_what_is_no_suppression(comment: str) -> None:
    assert read(f"x = 1  {comment}\n") == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('x = "# modelguard: ignore[MG101]"\n', id="string"),
        pytest.param('"""\n# modelguard: ignore[MG101]\n"""\n', id="docstring"),
        pytest.param('x = f"""\n{x} # noqa: MG101\n"""\n', id="f-string"),
        pytest.param("x = '''\n# modelguard: ignore-file\n'''\n", id="file-in-a-string"),
        pytest.param("x = 'a\\\n# noqa: MG101'\n", id="string-over-a-backslash"),
    ],
)
def test_a_comment_inside_a_string_is_none(text: str) -> None:
    assert read(text) == ()


def test_several_in_one_comment() -> None:
    text = "x = 1  # noqa: MG101, E501  # modelguard: ignore[MG104] because  # modelguard: ignore[MG105]\n"
    found = read(text)
    assert [(each.codes, each.reason, each.noqa) for each in found] == [
        (("MG101",), "", True),
        (("MG104",), "because", False),
        (("MG105",), "", False),
    ]
    assert [text[each.column - 1 : each.end_column - 1] for each in found] == [
        "# noqa: MG101, E501",
        "# modelguard: ignore[MG104] because",
        "# modelguard: ignore[MG105]",
    ]


C = "# modelguard: ignore[MG104]"

REACHES = [
    pytest.param(f"a = 1\nb = 2  {C}\nc = 3\n", (2, 2), id="behind-a-statement"),
    pytest.param(f"f(  {C}\n  1,\n)\n", (1, 3), id="first-line-of-a-call"),
    pytest.param(f"f(\n  1,  {C}\n)\n", (1, 3), id="middle-line-of-a-call"),
    pytest.param(f"f(\n  1,\n)  {C}\nb = 1\n", (1, 3), id="last-line-of-a-call"),
    pytest.param(f"f(\n  {C}\n  1,\n)\nb = 1\n", (1, 4), id="alone-in-brackets"),
    pytest.param(f"f([{{\n  1: (2,  {C}\n)}}\n])\nb = 1\n", (1, 4), id="nested-brackets"),
    pytest.param(f"a = 1 + \\\n  2  {C}\nb = 1\n", (1, 2), id="backslash"),
    pytest.param(f"a = 1 \\\n  {C}\nb = 1\n", (1, 2), id="backslash-before-the-comment"),
    pytest.param(f'a = """\n\n"""  {C}\nb = 1\n', (1, 3), id="multi-line-string"),
    pytest.param(f"a = 1; b = (\n  2)  {C}\nc = 1\n", (1, 2), id="semicolons"),
    pytest.param(f"if a:  {C}\n  b = 1\n", (1, 1), id="if-header"),
    pytest.param(f"if (a and\n    b):  {C}\n  c = 1\n", (1, 2), id="multi-line-if-header"),
    pytest.param(f"if a: b = 1  {C}\nc = 1\n", (1, 1), id="if-on-one-line"),
    pytest.param(f"def f(\n  a,  {C}\n  b=1,\n):\n  c = 1\n", (1, 4), id="def-header"),
    pytest.param(f"class A(  {C}\n  B\n):\n  c = 1\n", (1, 3), id="class-header"),
    pytest.param(f"async def f():\n  async with a as b:  {C}\n    c = 1\n", (2, 2), id="async-with"),
    pytest.param(f"for a in b:  {C}\n  c\nelse:\n  d\n", (1, 1), id="for"),
    pytest.param(f"if a:\n  b\nelse:  {C}\n  c\n", (3, 3), id="else"),
    pytest.param(f"match a:\n  case [b]:  {C}\n    c\n", (2, 2), id="case"),
    pytest.param(f"match a:\n  {C}\n  case [b]:\n    c\n", (3, 3), id="alone-above-case"),
    pytest.param(f"if (n := 1) > 0 and (\n  m := n):  {C}\n  pass\n", (1, 2), id="walrus"),
    pytest.param(f"type A = list[  {C}\n  int\n]\n", (1, 3), id="type-alias"),
    pytest.param(f"f = lambda: (  {C}\n  1)\n", (1, 2), id="lambda"),
    pytest.param(f"{C}\na = 1\nb = 2\n", (2, 2), id="alone"),
    pytest.param(f"{C}\n\n# more\n\n  # and more\na = (\n1)\n", (6, 7), id="alone-above-blanks-and-comments"),
    pytest.param(f"{C}\n@a\n@b(\n  1\n)\n# c\n\ndef f(\n):\n  d\n", (2, 9), id="alone-above-decorators"),
    pytest.param(f"@a\n{C}\n@b\ndef f():\n  d\n", (3, 4), id="alone-between-decorators"),
    pytest.param(f"@a\n{C}\nclass A:\n  d\n", (3, 3), id="alone-below-decorators"),
    pytest.param(f"@a  {C}\ndef f():\n  d\n", (1, 1), id="behind-a-decorator"),
    pytest.param(f"@a(\n  {C}\n  1)\ndef f():\n  d\n", (1, 3), id="in-a-decorator"),
    pytest.param(f"@a\ndef f():  {C}\n  d\n", (2, 2), id="behind-a-decorated-header"),
    pytest.param(f"def f():\n  a = 1\n  {C}\n\n\nb = 1\n", (6, 6), id="alone-at-the-end-of-a-block"),
    pytest.param(f"if a:\n    {C}\n    b = 1\n", (3, 3), id="alone-at-the-start-of-a-block"),
    pytest.param(f"a = 1\n{C}\n", (0, 0), id="end-of-the-file"),
    pytest.param(f"a = 1\n{C}", (0, 0), id="end-of-the-file-without-a-line-end"),
    pytest.param(f"{C}", (0, 0), id="nothing-else"),
    pytest.param(f"a = 1  {C}", (1, 1), id="no-line-end"),
    pytest.param(f"a = 1\n   {C}\n    \n", (0, 0), id="blank-line-at-the-end"),
    pytest.param(f"\f\na = (1,\f\n  2)  {C}\n", (2, 3), id="form-feed"),
    pytest.param(f"if a:\n\tb = 1\t{C}\n\tc = 1\n", (2, 2), id="tabs"),
    pytest.param(f"\ufeffa = 1  {C}\n", (1, 1), id="byte-order-mark"),
    pytest.param(f"größe = 'ä'  {C}\n", (1, 1), id="other-letters"),
    pytest.param(f"a = (1,  {C}\n2\n", (1, 3), id="never-closed"),
    pytest.param(f"a = 1  {C}\nif b:\n    c\n  d\n", (1, 1), id="broken-further-down"),
]


@pytest.mark.parametrize(("text", "reach"), REACHES)
def test_reach(text: str, reach: tuple[int, int]) -> None:
    (found,) = read(text)
    if text.startswith("a = (1,  #"):
        # Nothing is found in such a file; how far its last statement goes, the versions of Python see differently.
        assert found.first == 1
        return
    assert (found.first, found.last) == reach


@pytest.mark.parametrize(("text", "reach"), REACHES)
def test_the_place_of_a_suppression(text: str, reach: tuple[int, int]) -> None:
    (found,) = read(text)
    line = text.removeprefix("\ufeff").split("\n")[found.line - 1]
    assert line[found.column - 1 : found.end_column - 1] == C


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        pytest.param("# modelguard: ignore-file[MG104]\na = 1\nb = 1", (1, 3), id="top"),
        pytest.param("a = 1\nb = 1\n# modelguard: ignore-file[MG104]", (1, 3), id="bottom"),
        pytest.param("a = (\n# modelguard: ignore-file[MG104]\n)", (1, 3), id="in-brackets"),
        pytest.param("a = 1  # modelguard: ignore-file[MG104]", (0, 0), id="behind-code"),
    ],
)
def test_reach_of_a_whole_file(text: str, reach: tuple[int, int]) -> None:
    (found,) = read(text)
    assert (found.first, found.last) == reach and found.is_file


def test_suppressions_are_plain_data() -> None:
    found = read(f"a = 1  {C} because\n")
    assert pickle.loads(pickle.dumps(found)) == found
    assert hash(found) == hash((Suppression(1, 8, 43, ("MG104",), "because", 1, 1, False, False),))


SOUP = ["# modelguard: ignore", "[MG104]", "-file", "# noqa: MG101", "\n", "\n  ", "x = 1", "(", ")", "[", "]", '"""', "'", "\\"]
SOUP += ["\t", "\f", "\r", "\0", ";", ":", "if x", "@", "f'{", "}", "def f", "\ufeff", "\ud800", "ä", "match x", " ", "$", "?"]
soups = st.lists(st.sampled_from(SOUP), max_size=25).map("".join)
any_text = st.text(st.characters(exclude_categories=()), max_size=60)


@given(soups | any_text | st.tuples(any_text, soups).map("".join))
def test_reading_never_fails(text: str) -> None:
    lines = text.removeprefix("\ufeff").split("\n")
    for each in read(text):
        assert 0 <= each.first <= each.last <= len(lines)
        assert lines[each.line - 1][each.column - 1] == "#" and each.column < each.end_column


@given(soups, st.lists(st.builds(finding, st.integers(1, 8), st.sampled_from(["MG101", "MG104", "MG901"])), max_size=4))
def test_applying_only_takes_away_or_adds_about_suppressions(text: str, found: list[Finding]) -> None:
    kept = apply("net.py", found, read(text), text.split("\n"), everything)
    assert [each for each in kept if each.code not in ABOUT_SUPPRESSIONS] == [each for each in found if each in kept]
    assert [each for each in found if each.code == "MG901"] == [each for each in kept if each.code == "MG901"]


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        pytest.param(f"a = 1  {C}", [(1, "MG104")], [], id="suppressed"),
        pytest.param(f"a = 1  {C}\nb = 1", [(1, "MG104"), (2, "MG104")], [(2, "MG104")], id="another-line"),
        pytest.param(f"a = 1  {C}", [(1, "MG104"), (1, "MG101")], [(1, "MG101")], id="another-code"),
        pytest.param(f"a = 1  {C}", [(1, "MG101")], [(1, "MG101"), (1, "MG902")], id="unused"),
        pytest.param(f"a = (  {C}\n1,\n2)", [(3, "MG104")], [], id="last-line-of-the-statement"),
        pytest.param(f"if a:  {C}\n  b = 1", [(2, "MG104")], [(2, "MG104"), (1, "MG902")], id="not-the-body"),
        pytest.param("a = 1  # modelguard: ignore[MG1]", [(1, "MG104"), (1, "MG105")], [], id="beginning"),
        pytest.param("a = 1  # modelguard: ignore[mg10]", [(1, "MG104"), (1, "MG111")], [(1, "MG111")], id="longer-beginning"),
        pytest.param("a = 1  # modelguard: ignore[Python-State-Changed]", [(1, "MG104")], [], id="name"),
        pytest.param("a = 1  # modelguard: ignore[MG104, MG105]", [(1, "MG104")], [(1, "MG902")], id="one-of-two-unused"),
        pytest.param("a = 1  # modelguard: ignore[MG104, MG1]", [(1, "MG104")], [], id="twice-suppressed"),
        pytest.param(f"{C}\na = 1  {C}", [(2, "MG104")], [], id="two-comments"),
        pytest.param("# modelguard: ignore-file[MG104]\na\nb", [(2, "MG104"), (3, "MG104")], [], id="file"),
        pytest.param("# modelguard: ignore-file\na\nb", [(2, "MG104"), (3, "MG101")], [], id="bare-file"),
        pytest.param("# modelguard: ignore-file\na\nb", [], [(1, "MG902")], id="bare-file-unused"),
        pytest.param("a  # modelguard: ignore-file[MG104]", [(1, "MG104")], [(1, "MG104"), (1, "MG902")], id="file-behind-code"),
        pytest.param("a  # modelguard: ignore-file", [(1, "MG104")], [(1, "MG104"), (1, "MG902")], id="bare-file-behind-code"),
        pytest.param("a = 1  # noqa: MG104", [(1, "MG104")], [], id="noqa"),
        pytest.param("a = 1  # noqa: mg1, E501", [(1, "MG104")], [], id="noqa-beginning"),
        pytest.param("a = 1  # noqa: MG104, E501", [], [(1, "MG902")], id="noqa-unused"),
        pytest.param("a = 1  # noqa: MG999, E501", [], [(1, "MG903")], id="noqa-unknown"),
        pytest.param("a = 1  # noqa", [(1, "MG104")], [(1, "MG104")], id="noqa-bare"),
        pytest.param("a = 1  # modelguard: ignore", [(1, "MG104")], [(1, "MG104"), (1, "MG903")], id="blanket"),
        pytest.param("a = 1  # modelguard: ignore[E501]", [(1, "MG104")], [(1, "MG104"), (1, "MG903")], id="unknown"),
        pytest.param("a  # modelguard: ignore[MG1O4, MG105]", [], [(1, "MG903"), (1, "MG902")], id="unknown-and-unused"),
        pytest.param("a = 1  # modelguard: ignore[MG901]", [(1, "MG901")], [(1, "MG901")], id="unparsable"),
        pytest.param("# modelguard: ignore-file\na = 1", [(2, "MG901")], [(2, "MG901")], id="unparsable-file"),
        pytest.param(f"a = 1  {C}", [(9, "MG901")], [(9, "MG901")], id="nothing-is-unused-where-not-all-was-looked-at"),
        pytest.param("a = 1  # modelguard: ignore[MG104, MG902]", [], [], id="may-be-unused"),
        pytest.param("a = 1  # modelguard: ignore[MG902]", [], [], id="only-may-be-unused"),
        pytest.param("a = 1  # modelguard: ignore[MG9]", [], [], id="beginning-of-both"),
        pytest.param("a = 1  # modelguard: ignore[MG]", [], [(1, "MG902")], id="beginning-of-all-unused"),
        pytest.param("a = 1  # modelguard: ignore[MG]", [(1, "MG104")], [], id="beginning-of-all"),
        pytest.param("a = 1  # modelguard: ignore[MG903]", [], [(1, "MG902")], id="about-nothing-unknown"),
        pytest.param("a = 1  # modelguard: ignore[XY1, MG903]", [], [], id="may-be-unknown"),
        pytest.param(f"# modelguard: ignore-file[MG902]\na  {C}", [], [], id="unused-ones-are-left-alone-in-the-file"),
        pytest.param("# modelguard: ignore-file[MG903]\na  # modelguard: ignore", [], [], id="unknown-ones-too"),
    ],
)
def test_what_is_left(text: str, found: list[tuple[int, str]], expected: list[tuple[int, str]]) -> None:
    assert left(text, [finding(*each) for each in found]) == expected


@pytest.mark.parametrize(
    ("comment", "wanted", "expected"),
    [
        pytest.param("ignore[MG104]", {"MG902"}, [], id="code-not-looked-for"),
        pytest.param("ignore[MG104, MG105]", {"MG902", "MG105"}, ["MG902"], id="one-of-them-looked-for"),
        pytest.param("ignore[MG1]", {"MG902", "MG104"}, [], id="not-all-of-a-beginning-looked-for"),
        pytest.param("ignore[MG903]", {"MG902"}, [], id="mistakes-not-looked-for"),
        pytest.param("ignore[MG104]", {"MG104"}, [], id="unused-not-wanted"),
        pytest.param("ignore[XY1]", {"MG902", "MG104"}, [], id="unknown-not-wanted"),
        pytest.param("ignore", {"MG902", "MG104"}, [], id="blanket-not-wanted"),
    ],
)
def test_only_what_is_selected_is_said(comment: str, wanted: set[str], expected: list[str]) -> None:
    kept = left(f"a = 1  # modelguard: {comment}", [], wanted.__contains__)
    assert [code for _, code in kept] == expected


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        pytest.param(
            f"a = 1  {C}", "nothing is found on line 1 that `MG104` would suppress", "remove the comment", id="unused-on-a-line"
        ),
        pytest.param(
            "a = (  # modelguard: ignore[MG105, lazy-cache] why\n)",
            "nothing is found on lines 1 to 2 that `MG105` or `lazy-cache` would suppress",
            "remove the comment",
            id="unused-on-lines",
        ),
        pytest.param(
            "b = 1  # noqa: MG101, MG104",
            "nothing is found on line 1 that `MG101` would suppress",
            "remove `MG101` from the comment",
            id="one-unused",
        ),
        pytest.param(
            "# modelguard: ignore-file[MG101]\n",
            "nothing is found in this file that `MG101` would suppress",
            "remove the comment",
            id="unused-in-the-file",
        ),
        pytest.param(
            "a  # modelguard: ignore-file",
            "`ignore-file` does not count behind code, so there is nothing for this comment to suppress",
            "move it to a line of its own",
            id="file-behind-code",
        ),
        pytest.param(
            f"a = 1\n{C}",
            "no statement follows this comment, so there is nothing for `MG104` to suppress",
            "remove the comment",
            id="at-the-end",
        ),
        pytest.param(
            "b = 1  # modelguard: ignore[MG1O4]",
            "`MG1O4` is neither a code nor the name of a rule, so it suppresses nothing",
            "did you mean `MG104`?",
            id="unknown",
        ),
        pytest.param(
            "a = 1  # modelguard: ignore[bufer-rebound, lazycache]",
            "`bufer-rebound` and `lazycache` are neither codes nor names of rules, so they suppress nothing",
            "did you mean `buffer-rebound` and `lazy-cache`?",
            id="two-unknown",
        ),
        pytest.param(
            "a = 1  # modelguard: ignore[F401]",
            "`F401` is neither a code nor the name of a rule, so it suppresses nothing",
            "`modelguard rules` lists the codes and names that a suppression can hold",
            id="nothing-alike",
        ),
        pytest.param(
            "b = 1  # modelguard: ignore",
            "this comment names no code, so it suppresses nothing",
            "write `# modelguard: ignore[MG104] reason`, or repair what is found",
            id="blanket",
        ),
        pytest.param(
            "a = 1  # modelguard: ignore",
            "this comment names no code, so it suppresses nothing",
            "remove it: nothing is found on the statement that it covers",
            id="blanket-on-nothing",
        ),
    ],
)
def test_what_is_said(text: str, message: str, advice: str) -> None:
    found = [finding(1)] if text.startswith("b") else []
    assert messages(text, found) == [(message, advice)]


def test_a_finding_about_a_suppression_shows_the_comment() -> None:
    text = f"a = 1\nb = 2  {C}  \n"
    (found,) = apply("net.py", [], read(text), text.split("\n"), everything)
    assert (found.code, found.name, found.severity) == ("MG902", "unused-suppression", Severity.WARNING)
    assert found.location == Location("net.py", 2, 8, 2, 8 + len(C))
    assert found.source_line == f"b = 2  {C}  "


@pytest.mark.parametrize(
    ("rule", "example"),
    [
        pytest.param(by_code[code], n, id=f"{code}-{n + 1}")
        for code in ABOUT_SUPPRESSIONS
        for n in range(len(by_code[code].INVALID))
    ],
)
def test_the_examples_of_the_rules_about_suppressions(rule: Rule, example: int) -> None:
    # All but what the scan itself finds, which the tests of the rules show.
    invalid = rule.INVALID[example]
    unfound = {finding(each.last) for each in read(invalid.text) if 0 < each.first == each.last == invalid.line}
    assert (invalid.line, rule.code) in left(invalid.text, [] if rule.code == "MG902" else unfound)


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        pytest.param("a = 1\nb = 2\n", [2], f"a = 1\nb = 2  {C} why\n", id="behind"),
        pytest.param("a = 1", [1], f"a = 1  {C} why", id="no-line-end"),
        pytest.param("a = 1  \t\n", [1], f"a = 1  {C} why\n", id="spaces-at-the-end"),
        pytest.param("a = 1\r\nb = 2\r\n", [1], f"a = 1  {C} why\r\nb = 2\r\n", id="crlf"),
        pytest.param("a = 1\rb = 2", [2], f"a = 1\rb = 2  {C} why", id="carriage-returns"),
        pytest.param("\ufeffa = 1\n", [1], f"\ufeffa = 1  {C} why\n", id="byte-order-mark"),
        pytest.param("f(\n  1,\n)\n", [2], f"f(\n  1,\n)  {C} why\n", id="last-line-of-the-statement"),
        pytest.param('a = """\nx\n"""\n', [1], f'a = """\nx\n"""  {C} why\n', id="multi-line-string"),
        pytest.param("a = 1  # note\n", [1], f"a = 1  # note  {C} why\n", id="behind-another-comment"),
        pytest.param("a = 1 + \\\n  2\n", [1], f"a = 1 + \\\n  2  {C} why\n", id="backslash"),
        pytest.param("a = 1 \\\n\nb = 2\n", [1], f"{C} why\na = 1 \\\n\nb = 2\n", id="empty-line-behind-a-backslash"),
        pytest.param(f"if a:\n\tb = {'1' * 90}\n", [2], f"if a:\n\t{C} why\n\tb = {'1' * 90}\n", id="too-long"),
        pytest.param(f"a = {'1' * 90}\r\n", [1], f"{C} why\r\na = {'1' * 90}\r\n", id="too-long-crlf"),
        pytest.param(f"a = {'1' * 90}", [1], f"{C} why\na = {'1' * 90}", id="too-long-no-line-end"),
        pytest.param(
            f"if a:\n  \\\n  b = {'1' * 90}\n",
            [3],
            f"if a:\n  {C} why\n  \\\n  b = {'1' * 90}\n",
            id="too-long-below-a-backslash",
        ),
        pytest.param(f"a = '''\n{'x' * 120}'''\n", [1], f"{C} why\na = '''\n{'x' * 120}'''\n", id="too-long-string"),
        pytest.param("@a\n@b\ndef f():\n  c\n", [2], f"@a\n@b  {C} why\ndef f():\n  c\n", id="decorator"),
        pytest.param("a = 1; b = 2\n", [1], f"a = 1; b = 2  {C} why\n", id="semicolon"),
        pytest.param("a = 1\nb = 2\n", [1, 2, 2], f"a = 1  {C} why\nb = 2  {C} why\n", id="several"),
        pytest.param("a  # modelguard: ignore[MG101]\n", [1], "a  # modelguard: ignore[MG101, MG104] why\n", id="merged"),
        pytest.param("a  # modelguard: ignore[MG101] so\n", [1], "a  # modelguard: ignore[MG101, MG104] so\n", id="reason-kept"),
        pytest.param(
            "f(  # modelguard: ignore[MG101]  # noqa: E501\n)\n",
            [2],
            "f(  # modelguard: ignore[MG101, MG104] why  # noqa: E501\n)\n",
            id="merged-between-comments",
        ),
        pytest.param("'a'#modelguard:ignore so\n", [1], "'a'#modelguard:ignore[MG104] so\n", id="blanket-merged"),
        pytest.param("a  # modelguard: ignore[ ]\n", [1], "a  # modelguard: ignore[MG104] why\n", id="empty-brackets-merged"),
        pytest.param(
            "# modelguard: ignore[MG101]\n@a\ndef f(b=c):\n  d\n",
            [2, 3],
            "# modelguard: ignore[MG101, MG104] why\n@a\ndef f(b=c):\n  d\n",
            id="merged-above-decorators",
        ),
        pytest.param("a  # noqa: MG101\n", [1], f"a  # noqa: MG101  {C} why\n", id="noqa-is-left-alone"),
        pytest.param("a = 1\n\n# b\n", [2, 3, 4, 99], "a = 1\n\n# b\n", id="no-statement-there"),
        pytest.param("", [1], "", id="empty"),
    ],
)
def test_added_comments(text: str, lines: list[int], expected: str) -> None:
    assert add_ignores(text, [finding(line) for line in lines], "why") == expected


@pytest.mark.parametrize("code", ["MG901", "MG902", "MG903"])
def test_what_gets_no_comment(code: str) -> None:
    assert add_ignores("a = 1\n", [finding(1, code)], "why") == "a = 1\n"


@pytest.mark.parametrize(
    ("reason", "comment"),
    [
        pytest.param("", C, id="none"),
        pytest.param("  two\nlines\r\nand\fmore ", f"{C} two lines and more", id="lines"),
        pytest.param("a\0b\u2028c\ud800d", f"{C} ab cd", id="unprintable"),
        pytest.param("größer", f"{C} größer", id="other-letters"),
    ],
)
def test_the_reason_stays_on_its_line(reason: str, comment: str) -> None:
    assert add_ignores("a = 1\n", [finding(1)], reason) == f"a = 1  {comment}\n"


def test_codes_of_one_statement_share_a_comment() -> None:
    found = [finding(3, "MG105"), finding(1, "MG101"), finding(2, "MG105")]
    assert add_ignores("f(\n1,\n)\n", found) == "f(\n1,\n)  # modelguard: ignore[MG101, MG105]\n"


# Statements of a `forward` that write state, in forms that are hard to put a comment to; `LONG` leaves no room for one.
LONG = "0" * 100
STATEMENTS = [
    "self.n += 1",
    "self.n = \\\n  self.n + 1",
    "self.n += 1 \\\n",
    "\\\nself.n += 1",
    "self.n += 1; self.m += 1; x = x + 1;",
    f"self.n += int('{LONG}')",
    f"\\\nself.n += int('{LONG}')",
    "self.n = (\n  self.n\n  # between\n  + 1\n)",
    "self.text = '''\n  # modelguard: ignore[MG104]\n\\\n'''",
    f"self.text = '''\n{LONG}{LONG}'''",
    "self.seen.append(\n  x,  # an item\n)",
    "self.seen.append(lambda: (\n  x))",
    "if x is None: self.n += 1",
    "if (\n  x is None\n):\n  self.n += 1\nelif self.m:\n  self.m += 1\nelse: self.m = 0",
    "for self.n in range(3):\n  pass",
    f"for self.n in range({LONG}):\n\tself.m += 1\n",
    "with x as self.held, \\\n    x as self.other:\n  self.n += 1",
    "while (y := x): self.n = y",
    "match x:\n  case [first]:\n    self.n = first\n  case _: self.m = 1",
    "@self.seen.append\n@(lambda f: self.seen.append(f))\ndef inner(a=self.seen.append(x)):\n  self.n += 1\ninner()",
    "# modelguard: ignore[MG101]\nself.n += 1",
    "# modelguard: ignore\n\nself.seen.append(x)",
    "self.n += 1  # modelguard: ignore[MG1O4]  # noqa: E501",
    "self.n += 1  # type: ignore[misc]",
    "self.n += 1  \t",
    "\f        self.n += 1\f",
    "x = [self.seen.append(y)\n  for y in x]",
    "self.a, (self.b, *self.c) = (\n  1, x)",
    "del self.gone,\\\n  x",
    'self.text = f"""{\n  self.seen.append(x)\n}"""' if sys.version_info >= (3, 12) else 'self.text = f"""{x}\n"""',
]

HEAD = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = self.m = 0
        self.seen = []

    def forward(self, x):
"""


def module_of(statements: list[str], end: str) -> str:
    """A file whose `forward` holds the statements; only lines outside of strings and backslashes are indented."""
    lines = []
    for statement in statements:
        lines += ["        " + line for line in statement.split("\n")] if "'''" not in statement else ["        " + statement]
    return (HEAD + "\n".join([*lines, "        return x"])).replace("\n", end)


def scanned(text: str) -> list[Finding]:
    """What the scan finds and no comment suppresses, apart from what is said about the comments."""
    from modelguard.scan.engine import scan_source

    plain = re.sub("\r\n?", "\n", text)
    found = scan_source(text, "net.py").findings
    kept = apply("net.py", found, read(plain), plain.split("\n"), everything)
    return [each for each in kept if each.code not in ABOUT_SUPPRESSIONS]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["", "because", "see # 12: [x] \\", "wörter " * 12]),
)
def test_added_comments_suppress_and_change_nothing_else(statements: list[str], end: str, reason: str) -> None:
    text = module_of(statements, end)
    found = scanned(text)
    added = add_ignores(text, found, reason)
    assert ast.dump(ast.parse(added)) == ast.dump(ast.parse(text))
    assert [(each.location.line, each.code) for each in scanned(added)] == []
    assert set(re.findall("\r\n|\r|\n", added)) == {end}
    assert add_ignores(added, scanned(added), reason) == added


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_of_the_table_holds_a_finding(statement: str) -> None:
    assert {each.code for each in scanned(module_of([statement], "\n"))} - {"MG901"} != set()


@given(soups, st.lists(st.builds(finding, st.integers(1, 8)), max_size=4), any_text)
def test_adding_comments_never_fails(text: str, found: list[Finding], reason: str) -> None:
    added = add_ignores(text, found, reason)
    try:
        tree = ast.dump(ast.parse(text))
    except (SyntaxError, ValueError):
        return
    assert ast.dump(ast.parse(added)) == tree


COUNTING = module_of(["self.n += 1  # modelguard: ignore[MG104] a statistic", "self.seen.append(x)  # noqa: MG104"], "\n")


def test_the_scan_heeds_comments() -> None:
    from modelguard.scan.engine import scan_source

    found = scan_source(COUNTING, "net.py").findings
    assert [(each.location.line, each.code) for each in found] == [(13, "MG105"), (13, "MG902")]


def test_the_scan_leaves_out_what_is_not_selected() -> None:
    from modelguard.scan.engine import scan_source
    from modelguard.settings import Settings

    assert scan_source(COUNTING, "net.py", Settings(ignore=("MG105", "MG9"))).findings == ()
    found = scan_source(COUNTING, "net.py", Settings(select=("MG902", "MG105"))).findings
    assert [(each.location.line, each.code) for each in found] == [(13, "MG105")]

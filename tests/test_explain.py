"""`modelguard explain` and `modelguard rules`."""

from __future__ import annotations

import json

import pytest

from modelguard.cli.main import main
from modelguard.rules import by_code
from modelguard.rules.pages import page

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("spelling", ["MG109", "mg109", "lazy-cache", "LAZY-CACHE"])
def test_explain_prints_the_page(spelling: str, capsys: Captured) -> None:
    assert main(["explain", spelling]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (page(by_code["MG109"]), "")


@pytest.mark.parametrize("code", by_code)
def test_explain_as_json(code: str, capsys: Captured) -> None:
    assert main(["explain", code, "--output-format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    rule = by_code[code]
    assert record["schema_version"] == 1
    assert (record["code"], record["name"], record["severity"]) == (rule.code, rule.name, rule.severity.value)
    assert [example["line"] for example in record["invalid"]] == [example.line for example in rule.INVALID]
    assert [example["source"] for example in record["valid"]] == [example.text for example in rule.VALID]


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        pytest.param("bufer-rebound", ["'bufer-rebound'", "did you mean buffer-rebound"], id="name"),
        pytest.param("MG11", ["did you mean MG110 or MG111 or MG112?"], id="beginning-of-a-code"),
        pytest.param("M101", ["did you mean MG101"], id="letter-missing"),
        pytest.param("xyzzy", ["`modelguard rules` lists them"], id="nonsense"),
        pytest.param("", ["`modelguard rules` lists them"], id="empty"),
    ],
)
def test_an_unknown_rule_is_a_usage_error(spelling: str, words: list[str], capsys: Captured) -> None:
    assert main(["explain", spelling]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [word for word in words if word not in err] == []


def test_explain_wants_a_rule_or_a_message(capsys: Captured) -> None:
    assert main(["explain"]) == 2
    assert "Missing argument 'CODE|MESSAGE" in capsys.readouterr().err


def test_rules_prints_a_line_for_each_rule(capsys: Captured) -> None:
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [[rule.code, rule.name, rule.severity.value] for rule in by_code.values()]
    assert [line.endswith(rule.summary()) for line, rule in zip(lines, by_code.values(), strict=True)] == [True] * len(lines)
    assert len({line.index(rule.summary()) for line, rule in zip(lines, by_code.values(), strict=True)}) == 1


def test_rules_as_json(capsys: Captured) -> None:
    assert main(["rules", "--output-format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["schema_version"] == 1
    assert [rule["code"] for rule in record["rules"]] == list(by_code)
    assert set(record["rules"][0]) == {"code", "name", "severity", "summary", "since"}

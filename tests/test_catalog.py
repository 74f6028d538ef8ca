"""The records of the error catalogue: their form, their pages, and `modelguard catalog`."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from modelguard.catalog import Record, by_id, dataset_version, records, tagged
from modelguard.catalog.pages import page, pages
from modelguard.cli.main import main
from modelguard.rules import by_code, rule_names

try:
    import re._constants as sre
    import re._parser as sre_parser
except ImportError:
    import sre_constants as sre
    import sre_parse as sre_parser

Captured = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parent.parent
SCHEMA: dict[str, Any] = json.loads(files("modelguard.catalog").joinpath("schema.json").read_text(encoding="utf-8"))
OF_TORCH = [record for record in records().values() if record.repo == "pytorch/pytorch"]

each_record = pytest.mark.parametrize("record", records().values(), ids=list(records()))


def exported(capsys: Captured) -> dict[str, Any]:
    assert main(["catalog"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_export_fits_the_schema(capsys: Captured) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = exported(capsys)
    jsonschema.validate(document, SCHEMA)
    assert [record["id"] for record in document["records"]] == sorted(records())
    assert document["datasetVersion"] == dataset_version()
    assert set(SCHEMA["$defs"]["record"]["required"]) == set(SCHEMA["$defs"]["record"]["properties"])


def test_the_export_as_a_table(capsys: Captured) -> None:
    assert main(["catalog", "--output-format", "text"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[record.id, record.severity] for record in records().values()]


def test_the_documentation_names_every_field() -> None:
    text = (ROOT / "docs" / "json-output.md").read_text(encoding="utf-8")
    fields = [*SCHEMA["properties"], *SCHEMA["$defs"]["record"]["properties"], "match", "others"]
    assert [name for name in fields if f"`{name}`" not in text] == []


@each_record
def test_identity(record: Record) -> None:
    family = {"vllm-project/vllm": "vllm", "pytorch/pytorch": "torch", "modelguard": "modelguard"}[record.repo]
    assert record.id == f"{family}-{record.slug}"
    assert by_id(record.id.upper()) is by_id(record.slug) is record


def test_ids_are_the_names_of_the_files() -> None:
    folder = files("modelguard.catalog").joinpath("data")
    assert sorted(path.name for path in folder.iterdir()) == [f"{record}.toml" for record in records()]


@each_record
def test_what_a_record_names_exists(record: Record) -> None:
    assert record.id not in record.related
    assert [other for other in record.related if other not in records()] == []
    assert [tag for tag in record.tags if tag.startswith("MG") and tag not in by_code] == []


@each_record
def test_a_record_reads_well(record: Record) -> None:
    sentences = (record.documentation, record.triggerScenarios, record.commonSituations, record.handlingStrategy)
    for text in (*sentences, *record.solutions, *record.preventionTips):
        assert text.strip()[-1] in ".`:)" and text.count("`") % 2 == 0, text
    assert 2 <= len(record.solutions) <= 4
    assert len({record.documentation, *record.solutions}) == 1 + len(record.solutions)


@pytest.mark.parametrize("record", OF_TORCH, ids=[record.id for record in OF_TORCH])
def test_a_message_of_torch_stands_where_the_record_says(record: Record) -> None:
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("torch is not installed")
    if record.errorCode is not None:
        registry = json.loads((Path(spec.origin).parent / "_dynamo" / "graph_break_registry.json").read_text(encoding="utf-8"))
        assert registry[record.errorCode][0]["Gb_type"] == record.errorMessage
    if record.lineNumber is not None:
        path = Path(spec.origin).parent.parent / record.filePath
        line = path.read_text(encoding="utf-8").splitlines()[record.lineNumber - 1]
        pieces = {record.errorMessage[start : start + 8] for start in range(len(record.errorMessage) - 7)}
        assert [piece for piece in pieces if piece in line], line


def test_pages_have_not_drifted() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "errors").glob("*.md")}
    assert there == pages(rule_names()), "run `python -m modelguard.rules.pages`"


@each_record
def test_a_page_links_the_rules_and_theirs_link_back(record: Record) -> None:
    text = page(record, rule_names())
    for tag in record.tags:
        assert (f"(../rules/{tag}.md)" in text) == (tag in by_code)
        if tag in by_code:
            rule_page = (ROOT / "docs" / "rules" / f"{tag}.md").read_text(encoding="utf-8")
            assert f"(../errors/{record.id}.md)" in rule_page
            assert record in tagged(tag)


def test_every_record_is_in_the_index() -> None:
    index = pages({})["index.md"]
    assert [record for record in records() if index.count(f"({record}.md)") != 1] == []


def repeats(parsed: Any) -> list[tuple[int, Any]]:
    """How often each repeated part of a pattern may come, with what is repeated; all levels."""
    found = []
    for operator, argument in parsed:
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            found.append((argument[1], argument[2]))
            found += repeats(argument[2])
        elif operator is sre.SUBPATTERN:
            found += repeats(argument[3])
        elif operator is sre.BRANCH:
            found += [repeat for branch in argument[1] for repeat in repeats(branch)]
        else:
            assert operator in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN), f"{operator} needs thought"
    return found


def begins(parsed: Any) -> int:
    """How many fixed characters a pattern must find, at least, before anything may vary."""
    count = 0
    for operator, argument in parsed:
        if operator is sre.BRANCH:
            return count + min(begins(branch) for branch in argument[1])
        if operator is sre.SUBPATTERN:
            return count + begins(argument[3])
        if operator is not sre.LITERAL:
            break
        count += 1
    return count


@each_record
def test_a_pattern_takes_linear_time(record: Record) -> None:
    """What may come any number of times is white space alone; all else is bounded, not nested, and begins after fixed words."""
    parsed = sre_parser.parse(record.messagePattern)
    for most, part in repeats(parsed):
        if most is sre.MAXREPEAT:
            assert list(part) == [(sre.IN, [(sre.CATEGORY, sre.CATEGORY_SPACE)])]
        elif most > 1:
            assert most <= 1200 and repeats(part) == []
    assert begins(parsed) >= 2


@each_record
def test_a_pattern_may_be_wrapped_between_any_two_words(record: Record) -> None:
    assert " " not in re.sub(r"\[[^\]]*\]", "", record.messagePattern), "write \\s+"

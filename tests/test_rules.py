"""Every rule: its examples, its documentation, and that no write falls between two rules."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from modelguard.findings import Effect, Evidence, Finding, GuardContext, Location, Severity
from modelguard.fixes import apply, fix_for
from modelguard.observation import Kind, Operation, Root, StateWrite
from modelguard.rules import RULES, by_code, find, judge, nearest, rule_names
from modelguard.rules.base import HEADINGS, Invalid, Rule, Valid
from modelguard.rules.pages import main, page, pages, readme

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "rules"
FILE_RULES = {"MG901"}
READ_SOURCE = [rule for rule in by_code.values() if rule.evidence is Evidence.STATIC]
JUDGES_WRITES = [rule for rule in by_code.values() if rule.code not in FILE_RULES]

each_rule = pytest.mark.parametrize("rule", by_code.values(), ids=list(by_code))
each_invalid = pytest.mark.parametrize(
    ("rule", "example"),
    [
        pytest.param(rule, example, id=f"{rule.code}-{number}")
        for rule in READ_SOURCE
        for number, example in enumerate(rule.INVALID, 1)
    ],
)
each_valid = pytest.mark.parametrize(
    ("rule", "example"),
    [
        pytest.param(rule, example, id=f"{rule.code}-{number}")
        for rule in READ_SOURCE
        for number, example in enumerate(rule.VALID, 1)
    ],
)


def scanned(source: str) -> list[Finding]:
    from modelguard.scan.engine import scan_source

    return list(scan_source(source, path="example.py").findings)


def serious(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity.at_least(Severity.WARNING)]


def shown(findings: list[Finding]) -> list[tuple[int, str, str | None, str]]:
    return [(f.location.line, f.code, f.attribute, f.severity.value) for f in findings]


@each_invalid
def test_invalid_example_is_reported(rule: Rule, example: Invalid) -> None:
    findings = scanned(example.text)
    hits = [
        finding
        for finding in findings
        if finding.code == rule.code and finding.location.line == example.line and (finding.attribute or "") == example.attribute
    ]
    assert len(hits) == 1, shown(findings)
    if example.severity is not None:
        assert hits[0].severity is example.severity
    if example.carried is not None:
        assert hits[0].carried is example.carried
    assert {f.location.line for f in serious(findings)} - {example.line, *example.also} == set(), shown(findings)


@each_valid
def test_valid_example_is_not_reported(rule: Rule, example: Valid) -> None:
    findings = scanned(example.text)
    assert shown([f for f in findings if f.code == rule.code or f in serious(findings)]) == []


@each_invalid
def test_invalid_example_reports_a_line_that_holds_the_attribute(rule: Rule, example: Invalid) -> None:
    line = example.text.splitlines()[example.line - 1]
    last = example.attribute.replace("[*]", "").rpartition(".")[2]
    reached_by_name = "setattr" in line or "delattr" in line or "buffer.set_(" in line
    assert last in line or reached_by_name


@pytest.mark.parametrize(
    "source",
    [example.text for rule in JUDGES_WRITES for example in (*rule.INVALID, *rule.VALID)]
    + [example.text for code in sorted(FILE_RULES) for example in by_code[code].VALID],
)
def test_example_is_python(source: str) -> None:
    ast.parse(source)
    assert "import" in source


@each_rule
def test_examples_are_plenty_and_distinct(rule: Rule) -> None:
    least = 3 if rule in READ_SOURCE else 1
    assert len(rule.INVALID) >= least and len(rule.VALID) >= least
    sources = [example.text for example in (*rule.INVALID, *rule.VALID)]
    assert len(set(sources)) == len(sources)


@each_rule
def test_identity(rule: Rule) -> None:
    module = type(rule).__module__.rpartition(".")[2]
    assert re.fullmatch(r"MG\d{3}", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    assert module == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"
    assert type(rule).__name__ == "".join(part.capitalize() for part in rule.name.split("-"))


def test_codes_and_names_are_unique() -> None:
    assert len(by_code) == len(RULES) == len({rule.name for rule in RULES})
    assert list(by_code) == sorted(by_code)
    assert rule_names()["MG101"] == "buffer-rebound"


@each_rule
def test_documentation(rule: Rule) -> None:
    assert tuple(rule.sections()) == HEADINGS
    assert all(rule.sections().values())
    assert rule.summary().endswith(".")
    assert "http" in rule.sections()["References"]
    assert rule.sections()["Severity"].lower().startswith(rule.severity.value)


@each_rule
def test_page_holds_the_examples_and_marks_the_reported_line(rule: Rule) -> None:
    text = page(rule)
    reported = rule.INVALID[0].text.splitlines()[rule.INVALID[0].line - 1]
    assert text.startswith(f"# {rule.name} ({rule.code})\n")
    assert f"{reported}  # {rule.code}\n" in text
    assert rule.VALID[0].text in text
    assert "\n\n\n\n" not in text


def test_documentation_pages_have_not_drifted() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    assert there == pages(), "run `python -m modelguard.rules.pages`"


def test_table_in_the_readme_has_not_drifted() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text == readme(text), "run `python -m modelguard.rules.pages`"
    assert all(f"[{code}](docs/rules/{code}.md)" in text for code in by_code)


@pytest.mark.parametrize("text", ["", "<!-- rules: end -->\n<!-- rules: begin -->\n", "<!-- rules: begin -->\n"])
def test_a_readme_without_its_markers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="rules: begin"):
        readme(text)


def test_writing_the_pages_removes_those_of_rules_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "MG000.md").write_text("gone", encoding="utf-8")
    assert main([str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == set(pages())


@pytest.mark.parametrize(
    ("text", "code"),
    [("MG101", "MG101"), ("mg101", "MG101"), (" buffer-rebound ", "MG101"), ("Lazy-Cache", "MG109"), ("MG1", None), ("", None)],
)
def test_find(text: str, code: str | None) -> None:
    found = find(text)
    assert (found.code if found else None) == code


@pytest.mark.parametrize(
    ("text", "best"),
    [("MG10l", "MG1"), ("bufer-rebound", "buffer-rebound"), ("lazy", "lazy-cache"), ("mg9", "MG901")],
)
def test_nearest(text: str, best: str) -> None:
    assert nearest(text)[0].startswith(best)


def test_nearest_offers_nothing_for_nonsense() -> None:
    assert nearest("xyzzy") == [] == nearest("")


def test_importing_the_rules_is_light() -> None:
    heavy = "torch", "libcst", "rich", "msgspec", "click", "difflib", "json", "modelguard.rules.pages"
    script = f"import sys, modelguard.rules; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def write(operation: Operation = Operation.REBIND, path: str = "self.x", root: Root = Root.SELF, **more: object) -> StateWrite:
    base = StateWrite(path, root, operation, Location("net.py", 3, 9, 3, 20), f"{path} = y", "Net.forward", "Net")
    return replace(base, **more)  # type: ignore[arg-type]


K = Kind
LAZY = {"guard": GuardContext.LAZY}
FILLED = {"guard": GuardContext.LAZY, "filled_once": True}
ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


@pytest.mark.parametrize(
    ("seen", "code", "severity"),
    [
        pytest.param(write(declared=K.BUFFER, value=K.TENSOR), "MG101", ERROR, id="buffer"),
        pytest.param(write(declared=K.BUFFER | K.NONE, value=K.UNKNOWN), "MG101", ERROR, id="buffer-or-none"),
        pytest.param(write(declared=K.PARAMETER, value=K.PARAMETER), "MG102", ERROR, id="parameter"),
        pytest.param(write(declared=K.TENSOR, value=K.TENSOR), "MG103", WARNING, id="tensor"),
        pytest.param(write(declared=K.TENSOR, value=K.UNKNOWN, carried=True), "MG103", ERROR, id="tensor-carried"),
        pytest.param(write(declared=K.NONE, value=K.UNKNOWN, depends_on_inputs=True), "MG103", WARNING, id="from-inputs"),
        pytest.param(
            write(declared=K.NUMBER, value=K.UNKNOWN, depends_on_inputs=True), "MG104", WARNING, id="number-from-inputs"
        ),
        pytest.param(write(Operation.AUGMENT, declared=K.NUMBER, value=K.TENSOR), "MG103", WARNING, id="number-becomes-tensor"),
        pytest.param(write(Operation.AUGMENT, declared=K.NUMBER, value=K.NUMBER, carried=True), "MG104", ERROR, id="counter"),
        pytest.param(write(Operation.AUGMENT, declared=K.UNKNOWN, value=K.NUMBER), "MG104", WARNING, id="augmented-unknown"),
        pytest.param(write(declared=K.BOOL, value=K.BOOL, **FILLED), "MG104", WARNING, id="flag-under-its-own-check"),
        pytest.param(write(declared=K.LIST, value=K.LIST, carried=True), "MG104", ERROR, id="list-bound-anew"),
        pytest.param(write(Operation.MODE, declared=K.MODULE, verb="eval", carried=True), "MG104", WARNING, id="mode"),
        pytest.param(write(Operation.MUTATE, declared=K.LIST, verb="append"), "MG105", WARNING, id="append"),
        pytest.param(write(Operation.ITEM, declared=K.DICT, carried=True), "MG105", ERROR, id="item"),
        pytest.param(write(Operation.ITEM, declared=K.UNKNOWN), "MG105", WARNING, id="item-of-unknown"),
        pytest.param(write(Operation.GROW, declared=K.GROWING_DICT, **LAZY), "MG105", WARNING, id="grow"),
        pytest.param(write(Operation.AUGMENT, declared=K.LIST, value=K.LIST), "MG105", WARNING, id="list-augmented"),
        pytest.param(write(Operation.REGISTER, verb="register_buffer", **FILLED), "MG106", ERROR, id="register-lazily"),
        pytest.param(write(Operation.REGISTER, verb="register_forward_hook", value=K.FUNCTION), "MG106", WARNING, id="hook"),
        pytest.param(write(Operation.REGISTER, verb="setattr", value=K.FUNCTION), "MG106", WARNING, id="method-replaced"),
        pytest.param(write(value=K.MODULE, declared=K.NONE), "MG106", ERROR, id="module"),
        pytest.param(write(value=K.MODULE, declared=K.NONE, **FILLED), "MG109", WARNING, id="module-once"),
        pytest.param(write(value=K.MODULE, declared=K.NONE, owner=K.OBJECT), "MG112", WARNING, id="module-on-an-object"),
        pytest.param(write(value=K.UNKNOWN, declared=K.MODULE), "MG106", ERROR, id="module-replaced"),
        pytest.param(write(path="self.child.forward"), "MG106", WARNING, id="forward-replaced"),
        pytest.param(write(value=K.FUNCTION, declared=K.FUNCTION), "MG106", WARNING, id="function-replaced"),
        pytest.param(write(value=K.FUNCTION, declared=K.FUNCTION | K.NONE, **FILLED), "MG109", WARNING, id="function-once"),
        pytest.param(write(value=K.PARAMETER, declared=K.TENSOR | K.PARAMETER), "MG106", ERROR, id="now-a-parameter"),
        pytest.param(write(value=K.NONE, declared=K.MODULE), "MG104", WARNING, id="module-dropped"),
        pytest.param(write(value=K.PARAMETER, declared=K.TENSOR), "MG106", ERROR, id="tensor-becomes-parameter"),
        pytest.param(write(Operation.MUTATE, declared=K.MODULE, verb="append"), "MG106", ERROR, id="module-list"),
        pytest.param(write(Operation.SWAP, declared=K.PARAMETER, verb="data"), "MG107", ERROR, id="data"),
        pytest.param(write(Operation.SWAP, declared=K.PARAMETER, verb="augmented data"), "MG107", WARNING, id="data-augmented"),
        pytest.param(write(Operation.SWAP, declared=K.MODULE, verb="to"), "MG107", ERROR, id="module-moved"),
        pytest.param(write(Operation.IN_PLACE, declared=K.BUFFER, verb="copy_", **LAZY), "MG108", NOTE, id="in-place"),
        pytest.param(write(Operation.AUGMENT, declared=K.TENSOR | K.NONE, value=K.TENSOR), "MG108", NOTE, id="tensor-augmented"),
        pytest.param(
            write(Operation.IN_PLACE, "state", Root.ARGUMENT, owner=K.NOTHING, round_trip=True), "MG108", WARNING, id="round-trip"
        ),
        pytest.param(write(Operation.IN_PLACE, "TABLE", Root.GLOBAL), "MG108", NOTE, id="global-in-place"),
        pytest.param(write(declared=K.NONE, value=K.TENSOR, **FILLED), "MG109", WARNING, id="filled-once"),
        pytest.param(
            write(declared=K.NONE, value=K.TENSOR, depends_on_inputs=True, **FILLED), "MG109", ERROR, id="from-first-input"
        ),
        pytest.param(write(declared=K.BUFFER, value=K.TENSOR, **LAZY), "MG109", ERROR, id="dtype-follows"),
        pytest.param(write(Operation.CACHE_PROPERTY, filled_once=True), "MG109", WARNING, id="cached-property"),
        pytest.param(write(Operation.DELETE, declared=K.BUFFER), "MG110", ERROR, id="delete"),
        pytest.param(write(Operation.DELETE, "meta.x", Root.ARGUMENT, owner=K.OBJECT), "MG110", ERROR, id="delete-foreign"),
        pytest.param(write(Operation.ITEM, "MASKS", Root.GLOBAL, declared=K.DICT, **LAZY), "MG111", WARNING, id="global-lazily"),
        pytest.param(write(Operation.AUGMENT, "Net.n", Root.CLASS, declared=K.NUMBER, carried=True), "MG111", ERROR, id="class"),
        pytest.param(write(path="self.config.kind", owner=K.CONFIG, value=K.STRING, **FILLED), "MG112", NOTE, id="config-once"),
        pytest.param(write(path="self.config.kind", owner=K.CONFIG, depends_on_inputs=True), "MG112", WARNING, id="config"),
        pytest.param(write(path="self.meta.x", owner=K.OBJECT, carried=True), "MG112", ERROR, id="object-carried"),
        pytest.param(write(path="self.meta.x", owner=K.UNKNOWN, value=K.TENSOR), "MG112", WARNING, id="unknown-owner"),
        pytest.param(
            write(Operation.ITEM, "extra", Root.ARGUMENT, declared=K.DICT, owner=K.NOTHING), "MG112", NOTE, id="dict-handed-in"
        ),
        pytest.param(write(Operation.MUTATE, declared=K.UNKNOWN, verb="update"), "MG113", WARNING, id="unknown-update"),
        pytest.param(write(Operation.MEMOISE, "mask", Root.GLOBAL), "MG114", ERROR, id="memoised"),
    ],
)
def test_verdict(seen: StateWrite, code: str, severity: Severity) -> None:
    decided = judge(seen)
    assert decided is not None
    rule, verdict = decided
    assert (rule.code, verdict.severity) == (code, severity)


@pytest.mark.parametrize("operation", Operation, ids=lambda operation: operation.value)
def test_no_write_falls_between_the_rules(operation: Operation) -> None:
    kinds = [1 << bit for bit in range(18)] + [K.NOTHING, K.BUFFER | K.NONE, K.TENSOR | K.NUMBER, K.DICT | K.UNKNOWN]
    owners = [K.MODULE, K.NOTHING, K.OBJECT, K.CONFIG, K.UNKNOWN, K.DICT]
    unclaimed = []
    for root, declared, value, owner in itertools.product(Root, kinds, kinds, owners):
        for guard, filled_once, depends in itertools.product(
            (GuardContext.UNCONDITIONAL, GuardContext.LAZY), (False, True), (False, True)
        ):
            seen = StateWrite(
                "self.x.y",
                root,
                operation,
                Location("net.py", 3, 9, 3, 20),
                "self.x.y = z",
                "Net.forward",
                "Net",
                verb="append",
                declared=declared,
                value=value,
                owner=owner,
                depends_on_inputs=depends,
                guard=guard,
                filled_once=filled_once,
            )
            if judge(seen) is None:
                unclaimed.append((root, declared, value, owner, guard))
    assert unclaimed == []


@pytest.mark.parametrize("verb", ["", "append", "register_buffer", "register_forward_hook", "data", "augmented data", "to"])
def test_verdicts_read_well(verb: str) -> None:
    kinds = [1 << bit for bit in range(18)]
    more = [{}, LAZY, FILLED, {"carried": True}, {"round_trip": True}, {"depends_on_inputs": True}]
    for operation, root, declared, flags in itertools.product(Operation, Root, kinds, more):
        for owner in (K.MODULE, K.OBJECT, K.CONFIG, K.NOTHING):
            seen = write(operation, root=root, declared=declared, value=declared, owner=owner, verb=verb, **flags)
            decided = judge(seen)
            assert decided is not None
            message, advice = decided[1].message, decided[1].help
            assert "`self.x`" in message and "`Net.forward`" in message
            for text in (message, advice):
                assert text == " ".join(text.split()) and text.count("`") % 2 == 0
                assert not text.endswith(".") and ". " not in text
                assert not text[0].isupper() or text.startswith("Python")
                assert "..(" not in text and "`.(" not in text


def test_an_in_place_write_is_replayed_and_a_rebinding_is_lost() -> None:
    effects = {
        seen.operation: decided[1].effect
        for seen in (
            write(Operation.IN_PLACE, declared=K.BUFFER),
            write(declared=K.BUFFER),
            write(Operation.AUGMENT, declared=K.NUMBER),
        )
        if (decided := judge(seen)) is not None
    }
    assert effects == {Operation.IN_PLACE: Effect.REPLAYED, Operation.REBIND: Effect.LOST, Operation.AUGMENT: Effect.FROZEN}


EXAMPLES = [pytest.param(rule, example, id=f"{rule.code}-{at}") for rule in RULES for at, example in enumerate(rule.INVALID)]


@pytest.mark.parametrize(("rule", "example"), [each for each in EXAMPLES if each.values[0].evidence is Evidence.STATIC])
def test_the_fix_of_an_example(rule: Rule, example: Invalid) -> None:
    found = [
        (finding, fix)
        for finding in scanned(example.text)
        if finding.code == rule.code and finding.location.line == example.line and (finding.attribute or "") == example.attribute
        for fix in [fix_for(finding, example.text)]
    ]
    (_, fix) = found[0]
    assert (fix.applicability if fix is not None else None) == (example.repair.applicability if example.repair else None)
    if fix is not None:
        assert apply(example.text, fix.edits) == example.repaired != example.text


def test_an_unparsable_file_is_no_matter_of_writes() -> None:
    rule = by_code["MG901"]
    assert rule.check(write()) is None

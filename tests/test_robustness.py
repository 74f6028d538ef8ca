"""The same write is found however it is spelled, named and placed; no source, however odd, stops a scan."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Literal

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from marked import in_net, read, shown, whole
from test_reach import CASES

from modelguard.errors import SourceError
from modelguard.findings import Finding, ScanReport, Severity
from modelguard.scan.engine import scan_paths, scan_source
from modelguard.scan.extraction import Copies, extract
from modelguard.scan.symbols import Opened, SourceFile
from modelguard.settings import Settings

SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
fast = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
each_case = pytest.mark.parametrize("marked", CASES.values(), ids=list(CASES))


def scan(source: str) -> ScanReport:
    return scan_source(source, path="net.py")


def known(findings: tuple[Finding, ...]) -> list[tuple[object, ...]]:
    """All of a finding but its place and its words."""
    return sorted(
        (f.code, f.severity.value, f.attribute or "", f.carried, f.guard.value, str(f.class_name), len(f.chain)) for f in findings
    )


# One write in many spellings. A layer takes (the name that means the module, the lines that write) one step further from `self`.

PLAIN = [
    "{net}.mean = {value}",
    "{net}.mean: torch.Tensor = {value}",
    "{net}.mean, unused = {value}, 1",
    "[unused, {net}.mean] = [1, {value}]",
    "unused = {net}.mean = {value}",
    "for {net}.mean in ({value},):\n    pass",
    'setattr({net}, "mean", {value})',
    '{net}.__setattr__("mean", {value})',
    'object.__setattr__({net}, "mean", {value})',
    'nn.Module.__setattr__({net}, "mean", {value})',
    '{net}.__dict__["mean"] = {value}',
    "{net}.__dict__.update(mean={value})",
    'vars({net})["mean"] = {value}',
    '{net}._buffers["mean"] = {value}',
    "{net}._buffers.update(mean={value})",
    'attribute = "mean"\nsetattr({net}, attribute, {value})',
    "if x.numel():\n    {net}.mean = {value}",
    "{net}.mean = value = {value}",
]
ALIASING = [
    "{new} = {net}\n{body}",
    "{new}, unused = {net}, x\n{body}",
    "(unused, ({new}, other)) = (x, ({net}, x))\n{body}",
    "({new} := {net})\n{body}",
    "if ({new} := {net}) is not None:\n    {body4}",
    "for {new} in [{net}]:\n    {body4}",
    "for unused, {new} in enumerate([{net}]):\n    {body4}",
    "for unused, {new} in zip(x, ({net},)):\n    {body4}",
    "{new} = {net} if x.numel() else {net}\n{body}",
    "{new} = x.numel() and {net} or {net}\n{body}",
    "{new} = [{net}][0]\n{body}",
    '{new} = {{"net": {net}}}["net"]\n{body}',
    "{new} = same({net})\n{body}",
    "with entered({net}) as {new}:\n    {body4}",
    "with contextlib.nullcontext({net}) as {new}:\n    {body4}",
    "while True:\n    {new} = {net}\n    {body4}\n    break",
    "try:\n    {new} = {net}\nfinally:\n    pass\n{body}",
    "match {net}:\n    case {new}:\n        {body8}",
]
CALLING = [
    "def {new}_write({new}, x):\n    {body4}\n{new}_write({net}, x)",
    "def {new}_write(x, {new}={net}):\n    {body4}\n{new}_write(x)",
    "def {new}_write(*, x, {new}):\n    {body4}\n{new}_write({new}={net}, x=x)",
    "def {new}_write(x):\n    {new} = {net}\n    {body4}\n{new}_write(x)",
    "def {new}_write({new}, x):\n    {body4}\nfunctools.partial({new}_write, {net})(x)",
    "def {new}_write({new}):\n    {body4}\n    return x\nlist(map({new}_write, [{net}]))",
    "def {new}_write({new}):\n    {body4}\n    yield x\nlist({new}_write({net}))",
    "def {new}_write({new}):\n    {body4}\n    return x\n[{new}_write(each) for each in ({net},)]",
    "def {new}_write({new}, x):\n    {body4}\n(lambda one: {new}_write(one, x))({net})",
    "def {new}_write({new}, x):\n    {body4}\napply({new}_write, {net}, x)",
]
OUTSIDE = [
    "@METHOD {net}.{new}_write(x)",
    "@METHOD type({net}).{new}_write({net}, x)",
    "@METHOD {new}_bound = {net}.{new}_write\n{new}_bound(x)",
    '@METHOD getattr({net}, "{new}_write")(x)',
    "@FUNCTION {new}_write({net}, x)",
    "@FUNCTION {new}_write({new}={net}, x=x)",
    "@FUNCTION {new}_write(*({net}, x))",
    "@FUNCTION unused = [{new}_write({net}, x)]",
]
BEFORE = """
def same(net):
    return net


def apply(function, *args):
    return function(*args)


@contextlib.contextmanager
def entered(net):
    yield net
"""


def spelled(layers: list[str], plain: str) -> str:
    """A module in which one write is spelled `plain`, behind `layers` of aliases and calls, the outermost first."""
    names = ["self", *(f"net{number}" for number in range(len(layers)))]
    body = plain.format(net=names[-1], value="x.mean(0)")
    before, methods = BEFORE, ""
    for layer, net, new in reversed(list(zip(layers, names, names[1:], strict=False))):
        place, _, form = layer.partition(" ") if layer.startswith("@") else ("", "", layer)
        if place == "@METHOD":
            methods += f"\ndef {new}_write({new}, x):\n{indent(body, '    ')}\n"
        elif place == "@FUNCTION":
            before += f"\n\ndef {new}_write({new}, x):\n{indent(body, '    ')}\n"
        deeper = {f"body{by}": body.replace("\n", "\n" + " " * by) for by in (4, 8)}
        body = form.format(net=net, new=new, body=body, **deeper)
    methods += f"\ndef forward(self, x):\n{indent(body, '    ')}\n    return x - self.mean\n"
    return in_net(methods, before)


ONE_WRITE = [("MG101", Severity.ERROR, "self.mean")]


def serious(report: ScanReport) -> list[tuple[str, Severity, str | None]]:
    return [(f.code, f.severity, f.attribute) for f in report.findings if f.severity is not Severity.NOTE]


@pytest.mark.parametrize("plain", PLAIN)
def test_one_write_in_many_spellings(plain: str) -> None:
    assert serious(scan(spelled([], plain))) == ONE_WRITE


@pytest.mark.parametrize("layer", [*ALIASING, *CALLING, *OUTSIDE])
def test_one_write_behind_many_aliases(layer: str) -> None:
    assert serious(scan(spelled([layer], PLAIN[0]))) == ONE_WRITE


@fast
@given(st.lists(st.sampled_from([*ALIASING, *CALLING, *OUTSIDE]), max_size=3), st.sampled_from(PLAIN))
def test_spellings_combine(layers: list[str], plain: str) -> None:
    assert serious(scan(spelled(layers, plain))) == ONE_WRITE


# Names


class Renamed(ast.NodeTransformer):
    """Gives every parameter and local of some names another one, wherever they stand."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        self.generic_visit(node)
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        self.generic_visit(node)
        node.arg = self.names.get(node.arg or "", node.arg)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.Nonlocal:
        node.names = [self.names.get(name, name) for name in node.names]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        # What a class body binds is an attribute, not a local.
        bound = [(part, part.targets) for part in node.body if isinstance(part, ast.Assign)]
        for part, _ in bound:
            part.targets = []
        self.generic_visit(node)
        for part, targets in bound:
            part.targets = targets
        return node


LOCALS = "self net x y module layer value items kept history names name index forward args kwargs mask node row".split()


def renamed(source: str, names: dict[str, str]) -> str:
    return ast.unparse(Renamed(names).visit(ast.parse(source)))


def restored(findings: tuple[Finding, ...], names: dict[str, str]) -> list[tuple[object, ...]]:
    """All of the findings but their words, under the names that `names` replaced."""
    back = {new: old for old, new in names.items()}
    result = []
    for code, severity, attribute, *rest in known(findings):
        first, dot, last = str(attribute).partition(".")
        result.append((code, severity, back.get(first, first) + dot + last, *rest))
    return sorted(result)


@each_case
def test_other_names_change_nothing(marked: str) -> None:
    source = read(marked).text
    names = {name: f"q{number}" for number, name in enumerate(LOCALS)}
    assert restored(scan(renamed(source, names)).findings, names) == known(scan(renamed(source, {})).findings)


@fast
@given(st.sampled_from(list(CASES.values())), st.permutations(LOCALS))
def test_swapped_names_change_nothing(marked: str, order: list[str]) -> None:
    source = read(marked).text
    names = dict(zip(LOCALS, (f"{name}_" for name in order), strict=True))
    assert restored(scan(renamed(source, names)).findings, names) == known(scan(renamed(source, {})).findings)


# Places


def statements(source: str) -> Iterator[tuple[int, int]]:
    """(line, column) of the statements that something can be put before."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and not getattr(node, "decorator_list", []):
            line = lines[node.lineno - 1]
            if not line[: node.col_offset].strip() and not line.lstrip().startswith("elif"):
                yield node.lineno, node.col_offset


UNRELATED = ["", "# a remark on self.mean = x", "pass", "unrelated = 1", "str()", "assert True", "import json", "y: int"]


@fast
@given(st.sampled_from(list(CASES.values())), st.data())
def test_fingerprints_survive_unrelated_lines(marked: str, data: st.DataObject) -> None:
    source = read(marked).text
    lines = source.split("\n")
    places = data.draw(st.lists(st.sampled_from(sorted(set(statements(source)))), min_size=1, max_size=6, unique=True))
    for number, column in sorted(places, reverse=True):
        lines.insert(number - 1, " " * column + data.draw(st.sampled_from(UNRELATED)))
    before, after = scan(source).findings, scan("\n".join(lines)).findings
    assert [f.fingerprint for f in after] == [f.fingerprint for f in before]
    moved = [sum(number <= f.location.line for number, _ in places) for f in before]
    assert [f.location.line for f in after] == [f.location.line + by for f, by in zip(before, moved, strict=True)]


@each_case
def test_a_subclass_that_changes_nothing_adds_nothing(marked: str) -> None:
    source = read(marked).text
    names = [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    more = "".join(f"\n\nclass More{name}({name}):\n    def described(self):\n        return 1\n" for name in names)
    before, after = scan(source).findings, scan(source + more).findings
    assert known(after) == known(before)
    assert [f for f, more in zip(before, after, strict=True) if not set(f.entry_points) <= set(more.entry_points)] == []


# Any Python

NAMES = "self x a b Net Other helper torch nn super print setattr list type".split()
ATTRIBUTES = "mean n items cache layers training data forward step shape update append __dict__ __class__ add_".split()
CONSTANTS = ["0", "-1", "None", "True", "'mean'", "...", "1.5", "b''", "f'{x!r:>{a}}'"]
EXPRESSIONS = [
    "({e}).{a}",
    "({e}).{a}({e})",
    "({e}).{a}({e}, {a}={e})",
    "({e})[{e}]",
    "({e})[{e}:, ...]",
    "({e})({e})",
    "({e})(*{e}, **{e})",
    "setattr({e}, '{a}', {e})",
    "getattr({e}, '{a}', {e})",
    "({e}, {e})",
    "[{e}, *{e}]",
    "{{{e}: {e}, **{e}}}",
    "{{{e}, {e}}}",
    "({e}) + ({e})",
    "not ({e})",
    "({e}) is not ({e})",
    "({e}) in ({e}) < ({e})",
    "(({e}) and not ({e}) or ({e}))",
    "(({e}) if ({e}) else ({e}))",
    "[{e} for {t} in {e} if {e}]",
    "{{{e}: {e} for {t} in {e} for {t} in {e}}}",
    "list({e} for {t} in {e})",
    "(lambda {n}, *args, b={e}: {e})",
    "({n} := {e})",
    "(yield {e})",
    "(yield from {e})",
    "(await {e})",
]
TARGETS = ["({e}).{a}", "({e})[{e}]", "[{t}, *{t}]", "({t}, {t})", "{n}", "{n}"]
STATEMENTS = [
    "{t} = {e}",
    "{t} = {t} = {e}",
    "{s} += {e}",
    "{s}: {e} = {e}",
    "del {s}",
    "{e}",
    "return {e}",
    "raise {e} from {e}",
    "assert {e}, {e}",
    "global a, step",
    "nonlocal b",
    "import helper, torch.nn as b",
    "from . import Other as a, step",
    "from .a import *",
    "break",
    "continue",
    "if {e}:\n{b}\nelif {e}:\n{b}\nelse:\n{b}",
    "for {t} in {e}:\n{b}\nelse:\n{b}",
    "while {e}:\n{b}",
    "with {e} as {t}, {e}:\n{b}",
    "try:\n{b}\nexcept ({e}) as a:\n{b}\nexcept AttributeError:\n{b}\nelse:\n{b}\nfinally:\n{b}",
    "match {e}:\n    case [a, *b] if {e}:\n{B}\n    case Net(n=x) | {{'k': x, **x}}:\n{B}",
    "@helper\n@({e})\ndef {n}({n}1, a={e}, /, b={e}, *args, x: {e}, **kw):\n{b}",
    "async def {n}():\n{b}",
    "class {n}({e}, metaclass={e}):\n{b}",
]


class Soup:
    """Draws Python that parses and means nothing; `left` is how much deeper it may go."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def fill(self, form: str, left: int) -> str:
        parts = re.split(r"(\{[a-zB]\})", form)
        return "".join(self.part(part[1], left) if re.fullmatch(r"\{\w\}", part) else _unescaped(part) for part in parts)

    def part(self, kind: str, left: int) -> str:
        if kind == "n":
            return self.draw(st.sampled_from(["self", "x", "a", "b", "Other", "helper"]))
        if kind == "a":
            return self.draw(st.sampled_from(ATTRIBUTES))
        if kind == "b" or kind == "B":
            return indent(self.body(left - 1), " " * (4 if kind == "b" else 8))
        if kind == "t" or kind == "s":
            forms = TARGETS if kind == "t" else TARGETS[:2]
            return self.fill(self.draw(st.sampled_from(forms if left > 0 else ["self.{a}", "{n}.{a}"])), left - 1)
        if left <= 0:
            return self.draw(st.sampled_from(NAMES + CONSTANTS))
        return self.fill(self.draw(st.sampled_from(EXPRESSIONS)), left - self.draw(st.integers(1, 3)))

    def body(self, left: int) -> str:
        forms = STATEMENTS if left > 0 else STATEMENTS[:8]
        return "\n".join(self.fill(self.draw(st.sampled_from(forms)), left) for _ in range(self.draw(st.integers(1, 3))))


def _unescaped(form: str) -> str:
    return form.replace("{{", "{").replace("}}", "}")


SOUP = st.composite(lambda draw: Soup(draw).body(3))()


def misplaced(report: ScanReport, source: str) -> list[Finding]:
    """The findings that stand where there is no such text."""
    lines = source.split("\n")
    wrong = []
    for finding in report.findings:
        _, line, column, end_line, end_column, _ = finding.location
        inside = 1 <= line <= end_line <= len(lines) and end_column <= len(lines[end_line - 1]) + 1
        forward = (line, column) < (end_line, end_column) and 1 <= column <= len(lines[line - 1])
        if not inside or not forward or finding.source_line != lines[line - 1]:
            wrong.append(finding)
    return wrong


@settings(fast, max_examples=200, phases=(Phase.generate,), report_multiple_bugs=False)
@given(SOUP, SOUP, SOUP)
def test_any_python_is_scanned(forward: str, helper: str, outside: str) -> None:
    methods = f"def forward(self, x, b=None):\n{indent(forward, '    ')}\n\ndef step(self, a=0):\n{indent(helper, '    ')}"
    source = in_net(methods, f"def helper(a):\n{indent(outside, '    ')}")
    try:
        ast.parse(source)
    except SyntaxError:
        assume(False)
    report = scan(source)
    assert misplaced(report, source) == []
    assert report.module_classes >= 2
    assert [f for f in report.findings if f.code == "MG901"] == [] == list(report.diagnostics)


@fast
@given(st.text())
def test_any_text_is_scanned(text: str) -> None:
    report = scan(text)
    try:
        ast.parse(text.encode("utf-8", "surrogatepass"))
    except (SyntaxError, ValueError):
        assert [f.code for f in report.findings] == ["MG901"]
    else:
        assert report.findings == ()


@fast
@given(st.binary())
def test_any_bytes_are_scanned(content: bytes) -> None:
    report = scan_source(content, path="net.py")
    assert [f.code for f in report.findings if f.location.path != "net.py" or f.code != "MG901"] == []


# Bad input, on disk

SOUND = whole("""
    class Sound(nn.Module):
        def forward(self, x):
            self.last = x.detach()  # <- MG103 warning self.last
            return x
""")


def beside_sound(tmp_path: Path, content: bytes) -> ScanReport:
    """Scan a folder that holds a bad file and a sound one; the sound one must be scanned whatever the other is."""
    source = read(SOUND)
    (tmp_path / "sound.py").write_text(source.text, encoding="utf-8")
    (tmp_path / "bad.py").write_bytes(content)
    report = scan_paths([tmp_path])
    assert shown(f for f in report.findings if f.location.path.endswith("sound.py")) == source.expected
    return report


def of_bad(report: ScanReport) -> list[Finding]:
    return [f for f in report.findings if f.location.path.endswith("bad.py")]


def said_of_bad(report: ScanReport) -> list[str]:
    """What findings and diagnostics say of the bad file as a whole."""
    named = [d.message for d in report.diagnostics if d.path.endswith("bad.py")]
    return named + [f.message for f in of_bad(report) if f.code == "MG901"]


def state_of_bad(report: ScanReport) -> list[str]:
    """The state that the bad file is told to write."""
    return [f.attribute for f in of_bad(report) if f.attribute is not None]


DEEP = 1_000
NESTED = {
    "parentheses": f"y = {'(' * DEEP}x{')' * DEEP}",
    "lists": f"y = {'[' * DEEP}x{']' * DEEP}",
    "sum": "y = " + " + ".join(["x"] * DEEP),
    "and": "y = " + " and ".join(["x"] * DEEP),
    "negations": "y = " + "not " * DEEP + "x",
    "minus": "y = " + "-" * DEEP + "x",
    "attributes": "y = x" + ".a" * DEEP,
    "items": "y = x" + "[0]" * DEEP,
    "calls": "y = x" + ".a()" * DEEP,
    "calls-in-calls": f"y = {'f(' * DEEP}x{')' * DEEP}",
    "lambdas": "y = " + "lambda: " * DEEP + "x",
    "conditionals": "y = " + "x if x else " * DEEP + "x",
    "elif": "if x == 0:\n    pass\n" + "".join(f"elif x == {n}:\n    y = {n}\n" for n in range(1, DEEP)),
    "comparisons": "y = " + " < ".join(["x"] * DEEP),
    "strings": "y = " + "\n    ".join(["("] + ["'a'"] * DEEP + [")"]),
    "statements": "\n".join(f"y = {n}" for n in range(5 * DEEP)),
    "assignments": " = ".join([f"y{n}" for n in range(DEEP)]) + " = x",
    "arguments": f"f({', '.join(f'a{n}=x' for n in range(DEEP))})",
    "with": "with " + ", ".join(["x"] * DEEP) + ":\n    pass",
}


@pytest.mark.parametrize("body", NESTED.values(), ids=list(NESTED))
@pytest.mark.parametrize("place", ["file", "forward", "helper"])
def test_deep_nesting(tmp_path: Path, body: str, place: str) -> None:
    keep = "self.last = x.detach()"
    if place == "file":
        source = f"def f(x):\n{indent(body, '    ')}\n\n\n{read(SOUND).text}"
    elif place == "forward":
        source = in_net(f"def forward(self, x, f=None):\n{indent(body, '    ')}\n    {keep}")
    else:
        source = in_net(
            f"def step(self, x, f=None):\n{indent(body, '    ')}\n\ndef forward(self, x):\n    self.step(x)\n    {keep}"
        )
    report = beside_sound(tmp_path, source.encode())
    try:
        ast.parse(source)
    except (SyntaxError, RecursionError, MemoryError):
        assert said_of_bad(report) != []
    else:
        assert said_of_bad(report) != [] or state_of_bad(report) == ["self.last"]


BLOCKS = ["if x:", "for x in x:", "while x:", "with x:", "try:", "def f():", "class F:", "async def f():"]


@pytest.mark.parametrize("head", BLOCKS)
def test_deep_blocks(tmp_path: Path, head: str) -> None:
    lines = [" " * depth + head for depth in range(90)]
    after = [" " * depth + "finally: pass" for depth in reversed(range(90))] if head == "try:" else []
    body = "\n".join([*lines, " " * 90 + "self.last = x.detach()", *after])
    report = beside_sound(tmp_path, in_net(f"def forward(self, x):\n{indent(body, '    ')}").encode())
    runs = [["self.last"]] if head.endswith("x:") or head == "try:" else [[], ["self.last"]]
    assert said_of_bad(report) != [] or state_of_bad(report) in runs


@pytest.mark.parametrize("depth", [30, 300, 3_000])
def test_a_long_line_of_helpers(depth: int) -> None:
    helpers = "\n\n".join(f"def step{n}(self, x):\n    return self.step{n + 1}(x)" for n in range(depth))
    forward = "def forward(self, x):\n    self.last = x\n    return self.step0(x)"
    source = in_net(f"{forward}\n\n{helpers}\n\ndef step{depth}(self, x):\n    return x")
    assert [f.attribute for f in scan(source).findings if f.code != "MG901"] == ["self.last"]


@pytest.mark.parametrize("depth", [30, 300])
def test_a_long_line_of_bases(depth: int) -> None:
    bases = "".join(f"\n\nclass B{n + 1}(B{n}):\n    pass\n" for n in range(depth))
    first = "class B0(nn.Module):\n    def __init__(self):\n        self.register_buffer('mean', None)\n"
    last = f"\n\nclass Net(B{depth}):\n    def forward(self, x):\n        self.mean = x\n        return x\n"
    assert serious(scan(whole(first + bases + last))) == ONE_WRITE


def test_a_generated_megabyte(tmp_path: Path) -> None:
    table = "TABLE = {\n" + "".join(f"    'key{n}': [{n}, {n}, {n}, {n}],\n" for n in range(20_000)) + "}\n"
    methods = "".join(f"    def step{n}(self, x):\n        y = x + {n}\n        return y\n\n" for n in range(5_000))
    source = read(SOUND).text + "\n" + methods + "\n" + table
    assert len(source) > 1_000_000
    assert [f.attribute for f in of_bad(beside_sound(tmp_path, source.encode()))] == ["self.last"]


WRITES = """\
from torch import nn


class Net(nn.Module):
\tdef forward(self, x):
\t\t"é"; self.last = x.detach()
\t\treturn x
"""
ENCODED = {
    "line-feeds": WRITES.encode(),
    "crlf": WRITES.replace("\n", "\r\n").encode(),
    "carriage-returns": WRITES.replace("\n", "\r").encode(),
    "mixed-line-ends": WRITES.replace("\n", "\r\n", 3).encode(),
    "no-last-line-end": WRITES.rstrip("\n").encode(),
    "bom": b"\xef\xbb\xbf" + WRITES.encode(),
    "latin-1": ("# coding: latin-1\n" + WRITES).encode("latin-1"),
    "cp1252-on-the-second-line": ("#!/usr/bin/python\n# vim: fileencoding=cp1252\n" + WRITES).encode("cp1252"),
    "form-feed": WRITES.replace("\n\n\n", "\n\f\n\n").encode(),
    "form-feed-before-the-line": WRITES.replace('\t\t"é"', '\f\t\t"é"').encode(),
    "vertical-tab-in-a-comment": ("# a \v b \x1c c \u2028 d \x85\n" + WRITES).encode(),
    "line-continued": WRITES.replace("self.last = x", "self.last = \\\n\t\t\tx").encode(),
    "spaces-and-tabs": WRITES.replace("\t\t", " \t ").encode(),
}


@pytest.mark.parametrize("content", ENCODED.values(), ids=list(ENCODED))
def test_encodings_and_line_ends(tmp_path: Path, content: bytes) -> None:
    report = beside_sound(tmp_path, content)
    (finding,) = of_bad(report)
    assert (finding.code, finding.attribute) == ("MG103", "self.last")
    lines = (
        content.decode("cp1252" if b"coding" in content else "utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    )
    line = next(number for number, line in enumerate(lines, 1) if "self.last" in line)
    assert finding.source_line == lines[line - 1]
    assert (finding.location.line, finding.location.column) == (line, lines[line - 1].index("self.last") + 1)
    assert finding.location.end_column == finding.location.column + len("self.last")


@pytest.mark.parametrize(
    ("before", "spelled"),
    [
        pytest.param("y = 'é'; ", "self.last = x", id="two-bytes"),
        pytest.param("y = '汉字'; ", "self.last = x", id="three-bytes"),
        pytest.param("y = '😀'; ", "self.last = x", id="four-bytes"),
        pytest.param("y = 'é'; y = 'é'; ", "setattr(self, 'last', x)", id="call"),
        pytest.param("y = 'e\u0301'; ", "self.last = x", id="combining"),
        pytest.param("größe = 'ß'; ", "self.last = größe", id="identifier"),
    ],
)
def test_columns_count_characters(before: str, spelled: str) -> None:
    source = whole(f"class Net(nn.Module):\n    def forward(self, x):\n        {before}{spelled}\n        return x\n")
    (finding,) = scan(source).findings
    line = source.split("\n")[finding.location.line - 1]
    covered = line[finding.location.column - 1 : finding.location.end_column - 1]
    assert covered in ("self.last", "setattr(self, 'last', x)")


@pytest.mark.parametrize(
    ("content", "line", "word"),
    [
        pytest.param(b"x = 1\0\n", 1, "NUL", id="nul"),
        pytest.param(b"x = 1\ny = '\xe9'\n", 2, "0xe9", id="not-utf-8"),
        pytest.param(b"# coding: klingon\n", 1, "klingon", id="unknown-encoding"),
        pytest.param("x = 1".encode("utf-16"), 1, "UTF-16", id="utf-16"),
        pytest.param(b"def f(:\n", 1, "syntax", id="syntax"),
        pytest.param(b"def f():\nreturn 1\n", 2, "indent", id="indentation"),
        pytest.param(b"print 'hello'\n", 1, "print", id="python-2"),
        pytest.param(b"if x:\n\ty\n        z\n", 3, "tab", id="tabs-and-spaces"),
        pytest.param(b"x = '''\n", 1, "string", id="unterminated"),
        pytest.param(b"<<<<<<< HEAD\nx = 1\n", 1, "syntax", id="conflict"),
        pytest.param(b"x = 0777\n", 1, "zero", id="old-octal"),
        pytest.param(b"PK\x03\x04\xff\xfe" * 100, 1, "", id="archive"),
    ],
)
def test_what_is_no_python_is_named_with_its_line(tmp_path: Path, content: bytes, line: int, word: str) -> None:
    (finding,) = of_bad(beside_sound(tmp_path, content))
    assert (finding.code, finding.location.line) == ("MG901", line)
    assert word.lower() in finding.message.lower()
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize("content", [b"", b"\n", b"\f\n", b"# nothing\n", b"\xef\xbb\xbf", b'"""Words."""'], ids=repr)
def test_an_empty_file_is_nothing_to_complain_of(tmp_path: Path, content: bytes) -> None:
    report = beside_sound(tmp_path, content)
    assert (of_bad(report), said_of_bad(report), report.files) == ([], [], 2)


@pytest.mark.parametrize("action", ["always", "error"])
def test_what_the_parser_warns_of_is_not_passed_on(action: Literal["always", "error"]) -> None:
    source = read(SOUND).text + "\n\nPATTERN = '\\('\nSAME = PATTERN is 'a'\nassert (PATTERN, 'always')\n"
    source = source.replace("self.last = x.detach()", "self.last = x.detach(); y = '\\('")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        report = scan(source)
    assert [f.code for f in report.findings] == ["MG103"]
    assert [str(warning.message) for warning in caught] == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system")
def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "circle.py").symlink_to(tmp_path / "circle.py")
    report = beside_sound(tmp_path, b"")
    assert report.files == 2


def test_a_long_line_of_bases_in_reverse(tmp_path: Path) -> None:
    chain = "\n".join(f"class B{number}(B{number - 1}): pass" for number in range(2_000, 0, -1))
    (tmp_path / "chain.py").write_text(f"import torch\n{chain}\nclass B0(torch.nn.Module): pass\n")
    (tmp_path / "net.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        self.a = x\n        return x\n"
    )
    report = scan_paths([str(tmp_path)], Settings())
    assert [(os.path.basename(f.location.path), f.attribute) for f in report.findings] == [("net.py", "self.a")]


def test_star_imports_in_circles(tmp_path: Path) -> None:
    """Five files that each import everything from the other four have thousands of paths through them, and five files."""
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").touch()
    for number in range(5):
        stars = "".join(f"from .m{other} import *\n" for other in range(5) if other != number)
        (package / f"m{number}.py").write_text(stars + ("def put(m, x):\n    m.b = x\n" if number == 4 else ""))
    (package / "net.py").write_text(
        "from .m0 import *\nimport torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
        "        self.a = gone(x)\n        put(self, x)\n        return x\n"
    )
    report = scan_paths([str(tmp_path)], Settings())
    assert {f.attribute for f in report.findings} == {"self.a", "self.b"}


def test_the_lines_of_a_file_that_changed_can_be_asked_for(tmp_path: Path) -> None:
    """A walk that began before the change goes on to ask for places in it."""
    path = tmp_path / "net.py"
    text = "def forward(self, x):\n    self.last = x\n    return x\n"

    def gone() -> str:
        raise SourceError(str(path), None, "this file changed while it was scanned")

    facts, _ = extract(str(path), text, ast.parse(text), Copies())
    file = SourceFile(str(path), facts, gone, Opened())
    assert len(file.lines) == len(text.split("\n"))
    assert set(file.lines) == {""}


def test_calls_that_are_not_followed_are_told(tmp_path: Path) -> None:
    """Helpers that hand the module on and on: the write at the end is not seen, and the run must not look clean."""
    chain = "".join(f"def f{i}(m, x):\n    return f{i + 1}(m, x)\n\n\n" for i in range(40))
    last = "def f40(m, x):\n    m.count += 1\n    return x * m.count\n\n\n"
    net = whole("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

            def forward(self, x):
                return f0(self, x)
    """)
    report = scan_source(f"{chain}{last}{read(net).text}")
    assert [finding.code for finding in report.findings] == ["MG901"]
    assert "`Net.forward` makes too many calls" in report.findings[0].message

"""The examples run, each twin equals its hazard in eager mode, and the scan tells the two apart."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from modelguard.findings import Finding, Severity

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PATHS = sorted(EXAMPLES.glob("*.py"))
each_example = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def load(path: Path) -> ModuleType:
    """A fresh copy of the example, so that no class attribute or memo is left from another run."""
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def steps(path: Path, builder: str) -> list[Any]:
    torch = pytest.importorskip("torch")
    example = load(path)
    torch.manual_seed(0)
    module, calls = getattr(example, builder)()
    return [module(*args) for args in calls]


def lines_behind(tree: ast.Module, start: str) -> set[int]:
    """The lines of every top-level definition that `start` mentions, directly or through another one."""
    definitions = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    waiting, reached = [start], set()
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        mentioned = {n.id for n in ast.walk(definitions[name]) if isinstance(n, ast.Name)}
        waiting.extend(mentioned & definitions.keys())
    return {line for name in reached for line in range(definitions[name].lineno, (definitions[name].end_lineno or 0) + 1)}


def serious_findings(path: Path) -> list[Finding]:
    from modelguard.scan.engine import scan_paths

    report = scan_paths([path])
    return [f for f in report.findings if f.severity.at_least(Severity.WARNING)]


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert len(PATHS) >= 10
    assert [path.name for path in PATHS if f"`{path.name}`" not in listed] == []


@each_example
def test_twin_equals_hazard(path: Path) -> None:
    torch = pytest.importorskip("torch")
    hazard, twin = steps(path, "build"), steps(path, "build_fixed")
    assert len(hazard) == len(twin) >= 4
    for step, (expected, actual) in enumerate(zip(hazard, twin, strict=True)):
        torch.testing.assert_close(actual, expected, msg=lambda text, at=step: f"step {at}: {text}")


@each_example
def test_scan_reports_the_hazard_and_not_the_twin(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    in_hazard, in_twin = lines_behind(tree, "build"), lines_behind(tree, "build_fixed")
    found = {f.location.line: f.code for f in serious_findings(path)}
    assert found.keys() & in_hazard, "the hazard is not reported"
    assert {line: code for line, code in found.items() if line in in_twin} == {}
    assert found.keys() <= in_hazard


def test_the_output_that_the_readme_shows_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    from modelguard.report.text import render
    from modelguard.scan.engine import scan_paths

    root = EXAMPLES.parent
    monkeypatch.chdir(root)
    start, _, rest = (root / "README.md").read_text(encoding="utf-8").partition("```\nexamples/")
    shown = ("examples/" + rest.partition("\n```\n")[0]).splitlines()
    printed = iter(render(scan_paths(["examples"])).splitlines())
    assert start and len(shown) > 10
    assert [line for line in shown if line != "..." and line not in printed] == []

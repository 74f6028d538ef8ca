"""What scans of one process leave each other changes no result: each must find what a scan finds that knows of none before it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from modelguard.findings import ScanReport
from modelguard.rules import RULES
from modelguard.scan.engine import scan_source
from modelguard.scan.kept import Kept

EXAMPLES = Path(__file__).parent.parent / "examples"

BASE = """\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.seen = []

    def note(self, x):
        self.seen.append(x)
"""
NET = """\
from base import Base


class Net(Base):
    def forward(self, x):
        self.mean = self.mean + x
        self.note(x)
        return self.mean
"""


def found(report: ScanReport) -> list[object]:
    return [*report.findings, *report.diagnostics, report.files, report.module_classes, report.entry_points]


def same(kept: Kept, text: str, path: Path, alone: bool = True, **beside: str) -> list[object]:
    given = {str(path.parent / f"{name}.py"): content for name, content in beside.items()}
    known = scan_source(text, str(path), beside=given, kept=kept, alone=alone)
    assert found(known) == found(scan_source(text, str(path), beside=given, alone=alone))
    return [finding.code for finding in known.findings]


def edits(text: str, seed: int) -> list[str]:
    """The text after each of some edits: lines that go, come again, are written twice, indented, or typed from the left."""
    chance = random.Random(seed)
    lines, texts = text.split("\n"), []
    for _ in range(12):
        at = chance.randrange(len(lines))
        new = lines[:]
        match chance.randrange(4):
            case 0:
                del new[at]
            case 1:
                new.insert(at, lines[at])
            case 2:
                new[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
            case _:
                new.insert(at, "")
        texts.append("\n".join(new))
        if chance.random() < 0.3:
            lines = new
    return [*texts, text]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_typing_in_an_example(rule: object, tmp_path: Path) -> None:
    kept = Kept()
    for example in rule.INVALID[:4]:  # type: ignore[attr-defined]
        for seed, text in enumerate(edits(example.text, len(example.text))):
            same(kept, text, tmp_path / "model.py", alone=seed % 4 != 0)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_typing_in_a_file(path: Path) -> None:
    kept = Kept()
    for text in edits(path.read_text(), 7):
        same(kept, text, path)


def test_a_base_that_changes_in_memory_and_on_disk(tmp_path: Path) -> None:
    kept, net, base = Kept(), tmp_path / "net.py", tmp_path / "base.py"
    base.write_text(BASE)
    assert same(kept, NET, net) == ["MG101"]
    assert same(kept, NET, net, base=BASE.replace('self.register_buffer("mean", torch.zeros(4))', "self.mean = 0")) == ["MG104"]
    assert same(kept, NET + "\n", net) == ["MG101"]
    base.write_text("Base = object\n")
    assert same(kept, NET, net) == []
    os.unlink(base)
    assert same(kept, NET, net) == []


def test_files_that_import_each_other(tmp_path: Path) -> None:
    kept, net = Kept(), tmp_path / "net.py"
    (tmp_path / "base.py").write_text(BASE + "\nfrom net import Net\n\n\nclass More(Net):\n    pass\n")
    for text in (NET, NET.replace("self.note(x)", "pass"), NET.replace("(Base)", "(object)"), NET):
        for alone in (True, False):
            same(kept, text, net, alone)


def test_one_file_after_another(tmp_path: Path) -> None:
    kept = Kept()
    (tmp_path / "base.py").write_text(BASE)
    for text in (NET, NET.replace("mean", "means"), NET):
        same(kept, text, tmp_path / "net.py")
        same(kept, BASE + f"\n# {len(text)}\n", tmp_path / "base.py", net=text)


def test_who_reaches_into_a_file_is_looked_up_again_when_it_is_told(tmp_path: Path) -> None:
    kept, base = Kept(), tmp_path / "base.py"
    (tmp_path / ".git").mkdir()
    base.write_text(BASE)
    assert same(kept, BASE, base, alone=False) == []
    (tmp_path / "net.py").write_text(NET)
    kept.forget()
    assert same(kept, BASE, base, alone=False) == ["MG105"]
    assert str(tmp_path / "net.py") in kept.asked


def test_what_a_scan_asked_for(tmp_path: Path) -> None:
    kept = Kept()
    (tmp_path / "base.py").write_text(BASE)
    (tmp_path / "other.py").write_text("")
    for _ in range(2):
        same(kept, NET, tmp_path / "net.py")
        assert {os.path.basename(path) for path in kept.asked} == {"net.py", "base.py"}

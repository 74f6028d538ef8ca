"""Files named on their own: what the rest of their project makes of them is found as if all of it were scanned."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelguard.findings import Severity
from modelguard.scan import engine
from modelguard.scan.engine import scan_paths

BASE = """
from torch import nn

class Base(nn.Module):
    def refresh(self, x):
        self.mean = 0.9 * self.mean + x.mean()

def bump(module):
    module.count += 1
"""
INIT = """
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(1))
        self.count = 0
"""
NET = f"""
import torch
from base import Base

class Net(Base):{INIT}
    def forward(self, x):
        self.refresh(x)
        return x * self.mean
"""
SOURCES = {
    "subclass": {"net.py": NET},
    "renamed": {"net.py": NET.replace("import Base", "import Base as Root").replace("(Base)", "(Root)")},
    "two-levels": {
        "mid.py": "from base import Base\n\nclass Mid(Base):\n    pass\n",
        "net.py": NET.replace("from base import Base", "from mid import Mid").replace("(Base)", "(Mid)"),
    },
    "helper": {
        "net.py": f"""
import torch
import base

class Net(torch.nn.Module):{INIT}
    def forward(self, x):
        base.bump(self)
        return x * self.count
"""
    },
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.modelguard]\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / "base.py").write_text(BASE)
    return tmp_path


def write(project: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (project / name).write_text(text)


@pytest.mark.parametrize("files", SOURCES.values(), ids=SOURCES.keys())
def test_a_base_or_helper_on_its_own_is_judged_by_what_uses_it(project: Path, files: dict[str, str]) -> None:
    write(project, files)
    whole = [finding for finding in scan_paths(["."]).findings if finding.location.path == "base.py"]
    assert len(whole) == 1
    report = scan_paths(["base.py"])
    assert list(report.findings) == whole
    assert report.files == 1


def test_what_uses_it_is_not_reported_itself(project: Path) -> None:
    write(project, {"net.py": NET.replace("return", "self.count += 1\n        return self.count *")})
    assert {finding.location.path for finding in scan_paths(["."]).findings} == {"base.py", "net.py"}
    assert {finding.location.path for finding in scan_paths(["base.py"]).findings} == {"base.py"}


def test_without_a_project_nothing_around_a_file_is_read(project: Path) -> None:
    write(project, SOURCES["subclass"])
    (project / ".git").rmdir()
    assert scan_paths(["base.py"]).findings == ()


def test_too_many_users_are_counted_and_left_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_MOST_OTHERS", 2)
    write(project, {f"net{number}.py": NET for number in range(5)})
    report = scan_paths(["base.py"])
    assert [(said.severity, said.message.partition(" ")[0]) for said in report.diagnostics] == [(Severity.NOTE, "3")]
    assert len(report.findings) == 1

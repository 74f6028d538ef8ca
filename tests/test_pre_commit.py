"""The hooks for pre-commit, installed and run by pre-commit itself, in a repository that uses them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
    pytest.mark.skipif(find_spec("pre_commit") is None, reason="needs pre-commit"),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a checkout"),
]

BASE = """\
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def remember(self, x):
        self.last = x
"""
NORM = """\
from layers.base import Base


class Norm(Base):
    def forward(self, x):
        self.remember(x)
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean
"""
COUNTER = """\
from torch import nn


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return x * self.steps
"""
CLEAN = """\
from torch import nn


class Double(nn.Module):
    def forward(self, x):
        return 2 * x
"""
FILES = {
    "layers/__init__.py": "",
    "layers/base.py": BASE,
    "norm.py": NORM,
    "counter.py": COUNTER,
    "clean.py": CLEAN,
    "legacy/counter.py": COUNTER,
    "notes.txt": "no Python\n",
}

CONFIGURATION = """\
repos:
  - repo: {repository}
    rev: {revision}
    hooks:
      - id: modelguard
        args: [--exclude, legacy/]
"""


def environment(home: Path) -> dict[str, str]:
    """An environment in which git and pre-commit know nothing of the user, nor of a repository whose hook runs the tests."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("GIT_DIR", "GIT_INDEX", "GIT_WORK", "SKIP"))
    }
    who = {f"GIT_{role}_{what}": "test@example.com" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    config = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return kept | who | config | {"PRE_COMMIT_HOME": str(home), "PRE_COMMIT_COLOR": "never"}


class Repository:
    """A git repository, and pre-commit in it."""

    def __init__(self, path: Path, home: Path) -> None:
        self.path = path
        self.home = home
        self._environment = environment(home)
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=all")

    def git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(
            command, cwd=self.path, env=self._environment, check=True, capture_output=True, text=True, encoding="utf-8"
        ).stdout

    def pre_commit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pre_commit", *arguments]
        return subprocess.run(
            command, cwd=self.path, env=self._environment, capture_output=True, text=True, encoding="utf-8", errors="replace"
        )


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository of modelguard as it stands: of a changed checkout, pre-commit would leave out what git does not know yet."""
    folder = tmp_path_factory.mktemp("modelguard")
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    for name in filter(None, os.fsdecode(listing).split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return Repository(folder, tmp_path_factory.mktemp("home"))


@pytest.fixture
def models(tmp_path: Path, hooks: Repository) -> Repository:
    """A repository of models, which shares what pre-commit installs with `hooks`."""
    folder = tmp_path / "models"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return Repository(folder, hooks.home)


def findings(ran: subprocess.CompletedProcess[str]) -> list[tuple[str, str]]:
    """File and code of each finding, in order."""
    found = re.findall(r"^(\S+?):\d+:\d+: \w+\[(MG\d+)\]", ran.stdout, re.MULTILINE)
    assert bool(found) == ("- exit code: 1" in ran.stdout), ran.stdout + ran.stderr
    assert ran.returncode == bool(found), ran.stdout + ran.stderr
    return [(path.replace("\\", "/"), code) for path, code in found]


def test_files_that_are_named(hooks: Repository, models: Repository) -> None:
    """That `mean` is a buffer, only the base says, which lies in a file that is not named and not reported."""
    ran = models.pre_commit("try-repo", str(hooks.path), "modelguard", "--files", "norm.py", "clean.py", "notes.txt")
    assert findings(ran) == [("norm.py", "MG101")]


def test_notebooks_that_are_named(hooks: Repository, models: Repository) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": COUNTER}
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (models.path / "book.ipynb").write_text(json.dumps(book))
    ran = models.pre_commit("try-repo", str(hooks.path), "modelguard", "--files", "book.ipynb")
    assert "book.ipynb:cell 1:10:9: error[MG104]" in ran.stdout


def test_the_whole_repository(hooks: Repository, models: Repository) -> None:
    ran = models.pre_commit("try-repo", str(hooks.path), "modelguard-all", "--all-files")
    places = [("counter.py", "MG104"), ("layers/base.py", "MG103"), ("legacy/counter.py", "MG104"), ("norm.py", "MG101")]
    assert findings(ran) == places


def test_files_that_are_staged(hooks: Repository, models: Repository) -> None:
    """pre-commit names the staged files; what `--exclude` fits is left out all the same, even where that leaves nothing."""
    revision = hooks.git("rev-parse", "HEAD").strip()
    configuration = CONFIGURATION.format(repository=hooks.path.as_posix(), revision=revision)
    assert staged(models, **{".pre-commit-config.yaml": configuration}) == []
    models.git("commit", "--quiet", "--message=configured")

    assert staged(models, **{"legacy/counter.py": COUNTER + "\n"}) == []
    assert staged(models, **{"norm.py": NORM + "\n", "clean.py": CLEAN + "\n"}) == [("norm.py", "MG101")]
    models.git("commit", "--quiet", "--message=changed")

    base = BASE.replace('self.register_buffer("mean", torch.zeros(4))', "self.mean = torch.zeros(4)")
    (models.path / "layers" / "base.py").write_text(base, encoding="utf-8")
    models.git("commit", "--quiet", "--all", "--message=no buffer")
    assert staged(models, **{"norm.py": NORM}) == [("norm.py", "MG103")]


def test_a_baseline(hooks: Repository, models: Repository) -> None:
    """Only staged files are named: what the baseline holds of others is not called gone, and a renamed file keeps its entry."""
    (models.path / "modelguard.toml").write_text('baseline = "modelguard-baseline.json"\n')
    command = [sys.executable, "-m", "modelguard", "scan", "--no-cache", "--write-baseline"]
    written = subprocess.run(command, cwd=models.path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert "4 findings (4 taken in, 0 taken out)" in written.stderr
    configuration = CONFIGURATION.format(repository=hooks.path.as_posix(), revision=hooks.git("rev-parse", "HEAD").strip())
    (models.path / ".pre-commit-config.yaml").write_text(configuration, encoding="utf-8")
    models.git("add", "--all")
    models.git("commit", "--quiet", "--message=baseline")

    assert staged(models, **{"norm.py": NORM.replace("class", "\n\nclass")}) == []
    models.git("mv", "counter.py", "steps.py")
    ran = models.pre_commit("run", "--verbose")
    assert (findings(ran), "2 findings in the baseline" in ran.stdout, "no longer" in ran.stdout) == ([], True, False)
    assert staged(models, **{"clean.py": COUNTER.replace("Counter", "Other")}) == [("clean.py", "MG104")]


def staged(models: Repository, **files: str) -> list[tuple[str, str]]:
    """What the configured hooks find once `files` are written and staged."""
    for name, text in files.items():
        (models.path / name).write_text(text, encoding="utf-8")
        models.git("add", name)
    return findings(models.pre_commit("run"))

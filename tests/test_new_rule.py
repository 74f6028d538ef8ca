"""`modelguard dev new-rule`: a file that passes the linters, is among the rules, and fails its tests until it is filled in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modelguard.cli.main import main

ROOT = Path(__file__).parents[1]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of this repository, as far as a new rule concerns it."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "modelguard", tmp_path / "modelguard", ignore=ignored)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "tests").mkdir()
    for name in ("pyproject.toml", "README.md", "tests/test_rules.py", "tests/conftest.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True)


def test_a_new_rule_is_well_formed_and_waits_to_be_filled_in(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev", "new-rule", "MG198", "stream-swapped"]) == 0
    path = os.path.join("modelguard", "rules", "mg198_stream_swapped.py")
    assert f"{path}: fill in what is marked TODO" in capsys.readouterr().out
    listed = run("modelguard", "rules")
    assert "MG198  stream-swapped" in listed.stdout, listed.stderr
    for check in (["check"], ["format", "--check"]):
        done = run("ruff", *check, "--no-cache", "modelguard/rules")
        assert done.returncode == 0, done.stdout
    done = run("mypy", "--strict", "--cache-dir", os.devnull, "--follow-imports", "silent", path, "modelguard/rules/__init__.py")
    assert done.returncode == 0, done.stdout
    done = run("pytest", "-q", "-p", "no:cacheprovider", "tests/test_rules.py", "-k", "MG198 or drifted")
    failed = {line.split()[1].partition("::")[2] for line in done.stdout.splitlines() if line.startswith("FAILED")}
    assert {"test_the_fix_of_an_example[MG198-0]", "test_documentation[MG198]"} <= failed, done.stdout


def test_what_is_there_is_not_overwritten(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = checkout / "modelguard" / "rules" / "mg198_stream_swapped.py"
    path.write_text("# mine\n")
    table = (checkout / "modelguard" / "rules" / "__init__.py").read_bytes()
    assert main(["dev", "new-rule", "MG198", "stream-swapped"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert path.read_text() == "# mine\n"
    assert (checkout / "modelguard" / "rules" / "__init__.py").read_bytes() == table


@pytest.mark.parametrize(
    ("code", "name", "words"),
    [
        ("MG11", "stream-swapped", "'MG11' is no code"),
        ("mg198", "stream-swapped", "'mg198' is no code"),
        ("MG101", "stream-swapped", "MG101 is buffer-rebound"),
        ("MG198", "StreamSwapped", "'StreamSwapped' is no name"),
        ("MG198", "../stream-swapped", "is no name"),
        ("MG198", "buffer-rebound", "buffer-rebound is the name of MG101"),
    ],
)
def test_codes_and_names_are_checked(code: str, name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev", "new-rule", code, name]) == 2
    assert words in capsys.readouterr().err


def test_outside_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["dev", "new-rule", "MG198", "stream-swapped"]) == 2
    assert "at the top of a checkout" in capsys.readouterr().err

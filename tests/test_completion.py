"""`modelguard completion`: the scripts load, and what they ask for is answered."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modelguard.cli.main import main
from modelguard.report import formats
from modelguard.rules import by_code


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`modelguard` on the path of shells."""
    script = tmp_path / "modelguard"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m modelguard "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


def answers(shell: str, words: str) -> list[str]:
    """What modelguard tells a shell about the last of the words."""
    asked = words.split(" ")
    environment = {
        **os.environ,
        "_MODELGUARD_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": asked[-1] if shell == "fish" else str(len(asked) - 1),
    }
    done = subprocess.run([sys.executable, "-m", "modelguard"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    return lines[1::3] if shell == "zsh" else [line.partition(",")[2].partition("\t")[0] for line in lines if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("modelguard comp", ["completion"], id="command"),
        pytest.param("modelguard scan --exte", ["--extend-select"], id="option"),
        pytest.param("modelguard scan --select mg10", [code for code in by_code if code.startswith("MG10")], id="code"),
        pytest.param("modelguard scan --ignore MG101,MG11", [f"MG101,{code}" for code in by_code if "MG11" in code], id="codes"),
        pytest.param("modelguard explain MG9", ["MG901", "MG902", "MG903"], id="explain"),
        pytest.param("modelguard scan --output-format g", [name for name in formats.NAMES if name[0] == "g"], id="format"),
        pytest.param("modelguard nonsense --x", [], id="nonsense"),
    ],
)
def test_what_a_shell_is_told(shell: str, words: str, expected: list[str]) -> None:
    assert sorted(answers(shell, words)) == sorted(expected)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed_and_loads(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_MODELGUARD_COMPLETE={shell}_complete" in script
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(program: None) -> None:
    script = """
    eval "$(modelguard completion bash)"
    COMP_WORDS=(modelguard scan --select MG90) COMP_CWORD=3
    _modelguard_completion modelguard
    echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("MG901 MG902 MG903\n", "")


def test_other_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err

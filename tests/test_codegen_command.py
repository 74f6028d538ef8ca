"""`modelguard codegen TARGET`: what it prints, keeps and says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from modelguard.codegen import compile_execution_fn, load_artifact

ROOT = Path(__file__).parents[1]

MODEL = """\
import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 4)

    def forward(self, x, scale=1.0):
        return torch.relu(self.up(x)).sin() * scale


class Branching(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


def build():
    print("building")
    return Gated(), (torch.ones(2, 4),)


def with_keywords():
    return Gated(), (torch.ones(2, 4),), {"scale": 2.0}


def with_calls():
    return Gated(), [(torch.ones(2, 4),), (torch.zeros(2, 4),)]


def bare():
    return Gated()


def branching():
    return Branching(), (torch.ones(2),)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        return x + self.n


def counting():
    return Counter(), (torch.ones(2),)


def locked():
    model = Gated()
    model.up.lock = __import__("threading").Lock()
    return model, (torch.ones(2, 4),)


def fails():
    raise ValueError("no weights here")


def leaves():
    raise SystemExit(3)


def odd():
    return {"model": Gated()}


def odd_calls():
    return Gated(), [torch.ones(2, 4)]


answer = 42
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "gated.py"
    path.write_text(MODEL)
    return str(path)


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modelguard", "codegen", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


@pytest.mark.parametrize("tracer", ["dynamo", "export", "fx", "make_fx"])
def test_it_prints_the_code_of_a_model_and_nothing_else(model: str, tracer: str) -> None:
    done = run(f"{model}:build", "--tracer", tracer)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("import torch\nimport operator\n\ndef execution_fn(")
    compile(done.stdout, "printed", "exec")
    assert "building" in done.stderr


@pytest.mark.parametrize("function", ["with_keywords", "with_calls"])
def test_it_takes_what_a_target_may_return(model: str, function: str) -> None:
    assert run(f"{model}:{function}").returncode == 0


def test_a_target_may_be_a_module_of_the_working_directory(model: str) -> None:
    done = run("gated:build", cwd=Path(model).parent)
    assert done.returncode == 0, done.stderr
    assert "execution_fn" in done.stdout


def test_fx_needs_no_arguments(model: str) -> None:
    assert run(f"{model}:bare", "--tracer", "fx").returncode == 0


def test_it_cuts_at_the_operators_it_is_told(model: str) -> None:
    done = run(f"{model}:build", "--split-op", "torch.relu", "--split-op", "relo")
    assert done.returncode == 0
    assert [name for name in ("submod_0", "submod_1", "submod_2", "submod_3") if f"{name} =" in done.stdout] == [
        "submod_0",
        "submod_1",
        "submod_2",
    ]
    assert "the graph calls no relo" in done.stderr


def test_it_writes_files(model: str, tmp_path: Path) -> None:
    code, artifact = tmp_path / "code.py", tmp_path / "model.artifact"
    done = run(f"{model}:build", "--tracer", "make_fx", "--output-file", str(code), "--save", str(artifact))
    assert (done.returncode, done.stdout) == (0, "")
    kept = load_artifact(artifact)
    assert kept.code == code.read_text()
    assert callable(compile_execution_fn(kept.code, {}, kept.submod_names, kept.consts))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{model}", "names no model; write package.module:callable or path/to/file.py:callable"),
        ("{model}:", "names no model"),
        ("{model}:biuld", "has no 'biuld'; it has Gated, Branching, build"),
        ("{model}:answer", "is not callable: 'answer'"),
        ("{model}x.py:build", "there is no file"),
        ("no_such_package.models:build", "No module named 'no_such_package'"),
        ("{model}:fails", "ValueError: no weights here"),
        ("{model}:leaves", "SystemExit: 3"),
        ("{model}:odd", "returned something of type dict; it must return a module"),
        ("{model}:odd_calls", "calls must be lists of tuples"),
        ("{model}:bare", "gives no arguments to trace the model with"),
        ("{model}:branching", "cannot be traced into one graph by dynamo"),
    ],
)
def test_what_is_wrong_with_a_target_is_told_in_its_own_terms(model: str, target: str, message: str) -> None:
    done = run(target.format(model=model))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "modelguard/cli" not in done.stderr


def test_the_users_own_line_is_shown(model: str) -> None:
    done = run(f"{model}:fails")
    assert re.search(r'File ".*gated\.py", line \d+, in fails\n +raise ValueError', done.stderr)


def test_files_that_cannot_be_written_are_told(model: str, tmp_path: Path) -> None:
    done = run(f"{model}:build", "--output-file", str(tmp_path / "missing" / "code.py"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot write" in done.stderr


def test_state_that_the_code_does_not_write_is_told(model: str) -> None:
    done = run(f"{model}:counting")
    assert done.returncode == 0
    assert re.search(r"self\.n is rebound at .*gated\.py:\d+ in forward: generated code is not sure to do so", done.stderr)
    assert "rebound" not in run(f"{model}:build").stderr


def test_a_model_that_cannot_be_copied_has_code_all_the_same(model: str) -> None:
    done = run(f"{model}:locked")
    assert done.returncode == 0 and "def execution_fn(" in done.stdout
    assert "whether the model writes state was not looked at: self.up.lock (_thread.lock) cannot be copied" in done.stderr


@pytest.mark.parametrize("page", ["README.md", "docs/codegen.md"])
def test_the_documented_code_runs(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "modelguard.codegen" in block]
    script = tmp_path / "documented.py"
    script.write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "def execution_fn(" in done.stdout

"""The entry points in `hooks/` and for pre-commit: what they declare, and their shell lines, run on a small model."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="needs PyYAML, which pre-commit brings")

ROOT = Path(__file__).parent.parent
MODEL = """\
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean
"""

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


ACTION = load("hooks/github/action.yml")
JOB = load("hooks/gitlab/modelguard.gitlab-ci.yml")["modelguard"]
HOOKS = load(".pre-commit-hooks.yaml")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a fault in `models` and in `tests`, and nothing to report elsewhere."""
    repository = tmp_path / "repository"
    for folder in ("models", "tests", "lib"):
        (repository / folder).mkdir(parents=True)
    (repository / "models" / "norm.py").write_text(MODEL)
    (repository / "tests" / "norm_test.py").write_text(MODEL)
    (repository / "lib" / "clean.py").write_text(MODEL.replace("self.mean = 0.9", "mean = 0.9"))
    monkeypatch.chdir(repository)
    return repository


def bash(lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs shell lines as the services do: stop at the first that fails. `modelguard` is that of this environment."""
    path = os.pathsep.join([environment.pop("FIRST", ""), os.path.dirname(sys.executable), os.environ["PATH"]]).lstrip(os.pathsep)
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lines]
    environment = {**os.environ, **environment, "PATH": path}
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment)


def recorder(folder: Path, name: str) -> str:
    """A folder for PATH whose program `name` prints its arguments, one a line, and does nothing."""
    folder.mkdir()
    program = folder / name
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    return str(folder)


def step(number: int, inputs: Mapping[str, str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a step of the action, with what GitHub would put for its inputs."""
    declared = ACTION["runs"]["steps"][number]
    given = {name: str(value["default"]) for name, value in ACTION["inputs"].items()} | dict(inputs)
    variables = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda hit: given[hit[1]], value) for name, value in declared["env"].items()
    }
    assert "${{" not in declared["run"]
    github = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTION_PATH": str(ROOT / "hooks" / "github"),
        "GITHUB_WORKSPACE": os.getcwd(),
    }
    return bash(declared["run"], **github, **variables, **environment)


def test_the_action_declares_what_github_requires() -> None:
    assert {"name", "description", "inputs", "runs"} <= set(ACTION)
    assert set(ACTION["inputs"]) == {"paths", "args", "version"}
    assert all(isinstance(value["default"], str) and value["description"] for value in ACTION["inputs"].values())
    assert ACTION["runs"]["using"] == "composite"
    for declared in ACTION["runs"]["steps"]:
        assert declared["shell"] == "bash"
        assert "${{" not in declared["run"], "what a user gives must reach the shell as a variable, not as code"


@pytest.mark.parametrize(
    ("inputs", "status", "files"),
    [
        pytest.param({}, 1, ["models/norm.py", "tests/norm_test.py"], id="all"),
        pytest.param({"paths": "models lib"}, 1, ["models/norm.py"], id="paths"),
        pytest.param({"args": "--exclude *_test.py --exclude=models/"}, 0, [], id="patterns"),
        pytest.param({"args": "--fail-on never", "paths": "models"}, 0, ["models/norm.py"], id="options"),
        pytest.param({"args": "--output sarif=modelguard.sarif", "paths": "models"}, 1, ["models/norm.py"], id="sarif"),
        pytest.param({"paths": "lib; touch harm $(touch harm)"}, 2, [], id="no-code"),
    ],
)
def test_the_action_annotates(inputs: dict[str, str], status: int, files: list[str]) -> None:
    ran = step(1, inputs)
    assert ran.returncode == status, ran.stderr
    commands = [line for line in ran.stdout.splitlines() if "(MG" in line]
    assert [re.match(r"::error file=([^,]+),line=11,", line)[1] for line in commands] == files  # type: ignore[index]
    assert not Path("harm").exists()


@pytest.mark.parametrize("version", ["", "git+https://example.com/modelguard@v1"], ids=["own", "given"])
def test_the_action_installs(version: str, tmp_path: Path) -> None:
    ran = step(0, {"version": version}, FIRST=recorder(tmp_path / "bin", "python"))
    assert ran.returncode == 0, ran.stderr
    *command, what = ran.stdout.splitlines()
    assert command == ["-m", "pip", "install", "--quiet"]
    assert what == version if version else Path(what).resolve() == ROOT.resolve()


def test_the_job_publishes_its_report_even_on_failure() -> None:
    assert {"stage", "image", "before_script", "script"} <= set(JOB)
    assert JOB["artifacts"]["when"] == "always"
    report = JOB["artifacts"]["reports"]["codequality"]
    assert f"--output-file {report}" in "\n".join(JOB["script"])


@pytest.mark.parametrize(
    ("variables", "status", "files"),
    [
        pytest.param({}, 1, ["models/norm.py", "tests/norm_test.py"], id="all"),
        pytest.param({"MODELGUARD_PATHS": "models lib"}, 1, ["models/norm.py"], id="paths"),
        pytest.param({"MODELGUARD_ARGS": "--exclude *_test.py --exclude=models/"}, 0, [], id="patterns"),
        pytest.param({"MODELGUARD_PATHS": "lib"}, 0, [], id="clean"),
    ],
)
def test_the_job_writes_its_report(variables: dict[str, str], status: int, files: list[str]) -> None:
    ran = bash("\n".join(JOB["script"]), **JOB["variables"] | variables)
    assert ran.returncode == status, ran.stderr
    issues = json.loads(Path(JOB["artifacts"]["reports"]["codequality"]).read_text(encoding="utf-8"))
    assert [issue["location"] for issue in issues] == [{"path": path, "lines": {"begin": 11}} for path in files]
    assert {issue["check_name"] for issue in issues} <= {"MG101"}


def test_the_job_installs_what_it_is_told(tmp_path: Path) -> None:
    pip = recorder(tmp_path / "bin", "pip")
    lines = "\n".join(JOB["before_script"])
    told = bash(lines, FIRST=pip, MODELGUARD_PACKAGE="git+https://example.com/modelguard@v1")
    assert told.stdout.splitlines() == ["install", "--quiet", "git+https://example.com/modelguard@v1"]
    untold = bash(lines, FIRST=pip, MODELGUARD_PACKAGE="")
    assert untold.returncode != 0
    assert "set this variable" in untold.stderr


@pytest.mark.parametrize(
    ("id", "arguments"),
    [("modelguard", ["scan", "--force-exclude"]), ("modelguard-all", ["scan", "--force-exclude", "."])],
)
def test_the_pre_commit_hooks(id: str, arguments: Sequence[str]) -> None:
    (hook,) = [hook for hook in HOOKS if hook["id"] == id]
    assert hook["entry"].split() == ["modelguard", *arguments]
    assert (hook["language"], hook["types_or"], hook["require_serial"]) == ("python", ["python", "pyi", "jupyter"], True)
    assert hook.get("pass_filenames", True) == (id == "modelguard")


def test_the_documented_examples_are_yaml() -> None:
    readme = (ROOT / "hooks" / "README.md").read_text(encoding="utf-8")
    examples = [yaml.safe_load(example) for example in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL)]
    pre_commit, github, scanning, gitlab = examples
    assert {hook["id"] for repository in pre_commit["repos"] for hook in repository["hooks"]} <= {hook["id"] for hook in HOOKS}
    assert set(github["steps"][-1]["with"]) <= set(ACTION["inputs"])
    action, upload = scanning["steps"]
    assert action["with"] == {"args": f"--output sarif={upload['with']['sarif_file']}"}
    assert set(gitlab["modelguard"]["variables"]) == {*JOB["variables"], "MODELGUARD_PACKAGE"}

"""`modelguard ready TARGET`: what it prints, and how it ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from modelguard.readiness.child import observe
from modelguard.readiness.ready import Readiness, judged
from modelguard.rules import by_code
from modelguard.settings_files import Overrides, SettingsFiles

MODELS = Path(__file__).with_name("ready_models.py")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TRACED = [code for code in by_code if code.startswith("MG3")]

SCHEMA: dict[str, Any] = {
    "schema_version": int,
    "modelguard_version": str,
    "target": str,
    "ready": bool,
    "tracer": str,
    "torch": str,
    "guessed_inputs": [str],
    "runs": [
        {
            "shapes": str,
            "stopped": (str, type(None)),
            "one_graph": (bool, type(None)),
            "graphs": (int, type(None)),
            "ops_of_largest": (int, type(None)),
            "share_of_ops": (float, type(None)),
            "share_of_modules": (float, type(None)),
            "max_abs_error": (float, type(None)),
        }
    ],
    "modules": [
        {
            "path": str,
            "class": str,
            "status": str,
            "reason": str,
            "ops": int,
            "functions": int,
            "graphs": [int],
            "source": (dict, type(None)),
        }
    ],
    "obstacles": [
        {
            "kind": str,
            "title": str,
            "reason": str,
            "message": str,
            "remedy": str,
            "shapes": str,
            "module": (str, type(None)),
            "class": (str, type(None)),
            "modules": [str],
            "in_graph": bool,
            "record": (str, type(None)),
            "stack": [{"path": str, "line": int, "function": str}],
        }
    ],
    "graphs": [
        {
            "number": int,
            "ops": int,
            "inputs": int,
            "refused": (str, type(None)),
            "max_abs_error": (float, type(None)),
            "generated_us": (float, type(None)),
            "graph_module_us": (float, type(None)),
            "pieces": [{"name": str, "ops": int, "splits": bool, "calls": [str], "refused": (str, type(None))}],
            "leftovers": [
                {"operation": str, "target": str, "module": (str, type(None)), "frame": (dict, type(None))},
            ],
            "code": str,
        }
    ],
    "recompiles": [{"function": str, "path": str, "line": int, "reasons": [str]}],
    "findings": [dict],
}


def fits(value: Any, schema: Any) -> bool:
    if isinstance(schema, dict):
        return value.keys() == schema.keys() and all(fits(value[key], schema[key]) for key in schema)
    if isinstance(schema, list):
        return all(fits(item, schema[0]) for item in value)
    return isinstance(value, schema)


def run(where: str, *options: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "modelguard", "ready", where, *options],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        check=False,
    )


def readiness(where: str, tracer: str = "dynamo") -> Readiness:
    """As `ready`, in this process."""
    asked = {"target": where, "inputs": [], "train": False, "tracer": tracer, "dynamic": False, "split_ops": [], "timeout": 300}
    return judged(where, observe(asked), SettingsFiles(Overrides(), None, True))


def test_a_model_with_obstacles() -> None:
    done = run(f"{MODELS}:build")
    assert done.returncode == 1
    assert "ready_models.py:build: not ready: " in done.stdout and "7 obstacles (dynamo, torch 2." in done.stdout
    assert "fixed sizes: " in done.stdout and "symbolic sizes: " in done.stdout
    tree = done.stdout.partition("\n\n")[2].partition("\n\n")[0].splitlines()
    assert tree[0].startswith("Several  host-sync")
    assert re.match(r"├── layers \(ModuleList\)  inlined$", tree[1])
    assert re.match(r"│   └── 0, 1 \(Noisy\)  graph-break  ", tree[2])
    assert any(re.match(r"[├└]── recurrent \(LSTM\)  recurrent  ", line) for line in tree)
    assert len(re.findall(r"ready_models\.py:\d+:\d+: error\[MG30[45]\]", done.stdout)) == 7
    assert "help: keep the value in a tensor on the device" in done.stdout
    assert "`modelguard explain torch-rnn` says more" in done.stdout
    assert "\nhere\n" not in done.stdout


def test_a_good_model() -> None:
    done = run(f"{MODELS}:good", "--split-op", "linear", "--color", "always")
    assert done.returncode == 0
    assert "ready_models.py:good: ready: 1 graph (dynamo" in done.stdout
    assert "\x1b[" in done.stdout


def test_json_has_all_of_it() -> None:
    done = run(f"{MODELS}:build", "--output-format", "json", "--static")
    record = json.loads(done.stdout)
    assert fits(record, SCHEMA), record
    assert done.returncode == 1 and not record["ready"]
    assert {each["code"] for each in record["findings"]} == {"MG303", "MG304", "MG305"}
    assert all(each["evidence"] == ["trace"] for each in record["findings"])


def test_suppressions_and_settings_count(tmp_path: Path) -> None:
    source = """
        import torch
        from torch import nn


        class Net(nn.Module):
            def forward(self, x):
                return x * x.sum().item()


        def build():
            return Net(), (torch.ones(2),)
        """
    path = tmp_path / "suppressed.py"
    path.write_text(textwrap.dedent(source))
    assert run(f"{path}:build", "--static").returncode == 1
    path.write_text(textwrap.dedent(source).replace("item()\n", "item()  # modelguard: ignore[MG305] on purpose\n"))
    assert run(f"{path}:build", "--static").returncode == 0
    path.write_text(textwrap.dedent(source))
    (tmp_path / "modelguard.toml").write_text('ignore = ["MG305"]\n')
    assert run(f"{path}:build", "--static").returncode == 0


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    if "def build(" not in path.read_text(encoding="utf-8"):
        pytest.skip("it is no target")
    assert readiness(f"{path}:build").record["runs"]


BAD = {
    "missing": ("nowhere.py:build", (), "there is no file nowhere.py"),
    "fails": ("{models}:fails", (), "ValueError: no weights"),
    "eager": ("{models}:wrong", (), "calling the model eagerly failed:"),
    "ends": ("{models}:ends", (), "ended with status 0 and told nothing"),
    "hangs": ("{models}:hangs", ("--timeout", "8"), "took more than 8 seconds"),
    "input": ("{models}:fine", ("--input", "y=float32[2]"), "does not take y=float32[2]"),
    "split": ("{models}:fine", ("--split-op", "a,b"), "more than one name"),
}

HOSTILE = """
import os, time
import torch
from torch import nn


def fails():
    raise ValueError("no weights")


def wrong():
    return nn.Linear(2, 2), (torch.ones(3),)


def ends():
    os._exit(0)


def hangs():
    time.sleep(60)


def fine():
    return nn.Linear(2, 2), (torch.ones(2),)
"""


@pytest.mark.parametrize(("where", "options", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_with_a_target_is_told(where: str, options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    models = tmp_path / "hostile.py"
    models.write_text(HOSTILE)
    done = run(where.format(models=models), *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "modelguard/readiness" not in done.stderr


INVALID = [(code, example) for code in TRACED for example in by_code[code].INVALID]
VALID = [(code, example) for code in TRACED for example in by_code[code].VALID]


def written(tmp_path: Path, text: str) -> tuple[str, str]:
    name = re.sub(r"\W", "_", tmp_path.name)
    path = tmp_path / f"example_{name}.py"
    path.write_text(text, encoding="utf-8")
    return f"{path}:build", "fx" if 'TRACER = "fx"' in text else "dynamo"


@pytest.mark.parametrize(("code", "example"), INVALID, ids=[code for code, _ in INVALID])
def test_invalid_examples(code: str, example: Any, tmp_path: Path) -> None:
    found = readiness(*written(tmp_path, example.text)).report.findings
    assert (code, example.line) in [(each.code, each.location.line) for each in found]


@pytest.mark.parametrize(("code", "example"), VALID, ids=[code for code, _ in VALID])
def test_valid_examples(code: str, example: Any, tmp_path: Path) -> None:
    assert [each for each in readiness(*written(tmp_path, example.text)).report.findings if each.code == code] == []

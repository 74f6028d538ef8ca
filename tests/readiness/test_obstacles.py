"""Each kind of obstacle is told with its line; all of a model are told in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import ready_models
import torch
from ready_models import OBSTACLES, Forward, Several, with_forward
from torch import nn

from modelguard.readiness import leftover_modules
from modelguard.readiness.child import observe

MODELS = Path(__file__).with_name("ready_models.py")


def observed(model: nn.Module, *calls: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch, **request: Any) -> dict[str, Any]:
    """What the process of a target tells, in this one."""
    monkeypatch.setattr(ready_models, "build", lambda: (model, list(calls)))
    asked = {
        "target": "ready_models:build",
        "inputs": [],
        "train": False,
        "tracer": "dynamo",
        "dynamic": False,
        "split_ops": [],
        "timeout": 300,
    }
    return observe({**asked, **request})


def lines_of(record: dict[str, Any]) -> list[tuple[str, str]]:
    """The kinds of a record's obstacles, each with the text of the line that it is at."""
    source = MODELS.read_text(encoding="utf-8").splitlines()
    ends = [each["stack"][-1] for each in record["obstacles"]]
    assert {Path(end["path"]) for end in ends} <= {MODELS}
    return [(each["kind"], source[end["line"] - 1].strip()) for each, end in zip(record["obstacles"], ends, strict=True)]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("forward", "kind", "in_graph"), OBSTACLES.values(), ids=OBSTACLES)
def test_each_kind_is_told(forward: Forward, kind: str, in_graph: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    record = observed(with_forward(forward), (torch.ones(2, 4),), monkeypatch=monkeypatch)
    (told,) = record["obstacles"]
    assert (told["kind"], told["in_graph"], told["module"]) == (kind, in_graph, "")
    assert told["stack"][-1]["function"] == forward.__name__ and Path(told["stack"][-1]["path"]) == MODELS
    assert told["reason"] and "\n" not in told["reason"] and "0x" not in told["reason"] and told["remedy"]
    assert record["runs"][0]["one_graph"] is in_graph
    assert record["modules"][0]["status"] == ("host-sync" if in_graph else "graph-break")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_obstacles_of_a_model_are_told_in_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    record = observed(Several(), (torch.ones(2, 4),), monkeypatch=monkeypatch)
    assert sorted(lines_of(record)) == [
        ("data-dependent-branch", "if x.sum() > 0:"),
        ("data-dependent-size", "return x.nonzero().sum()"),
        ("disabled", "x = self.disabled(x)"),
        ("host-sync", "return x * x.sum().item()"),
        ("printing", 'print("here")'),
        ("recurrent", "x, _ = self.recurrent(x)"),
        ("scripted", "x = self.scripted(x)"),
    ]
    assert {each["path"]: each["status"] for each in record["modules"]} == {
        "": "host-sync",
        "layers": "inlined",
        "layers.0": "graph-break",
        "layers.0.up": "inlined",
        "layers.1": "graph-break",
        "layers.1.up": "inlined",
        "disabled": "disabled",
        "recurrent": "recurrent",
        "scripted": "scripted",
        "sized": "host-sync",
        "sized.up": "never-reached",
        "unused": "never-reached",
    }
    assert not record["runs"][0]["one_graph"] and record["runs"][0]["graphs"] > 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_modules_that_are_left_can_be_asked_for() -> None:
    model = Several()
    assert leftover_modules(model, torch.ones(2, 4)) == {
        "": "host-sync",
        "layers.0": "graph-break",
        "layers.1": "graph-break",
        "disabled": "disabled",
        "recurrent": "recurrent",
        "scripted": "scripted",
        "sized": "host-sync",
    }
    assert leftover_modules(*ready_models.good()[:1], *ready_models.good()[1]) == {}

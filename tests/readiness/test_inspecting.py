"""What became of each module, graph and piece."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ready_models import Net
from test_obstacles import observed
from torch import nn
from torch.utils.checkpoint import checkpoint

from modelguard.codegen import split_graph, trace
from modelguard.readiness import codegen_ready, leftover_modules

X = torch.linspace(-1, 1, 8).view(2, 4)


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.up(x)).softmax(-1)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = checkpoint(self.inner, x, use_reentrant=False)
        return result + 1


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Linear(4, 4)
        self.after = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.before(x)
        torch._dynamo.graph_break()
        return self.after(self.before(x))


class Given(nn.Module):
    """Gives up the rest of its loop, in which its child runs."""

    def __init__(self) -> None:
        super().__init__()
        self.child = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            torch._dynamo.graph_break()
            x = self.child(x)
        return x


def statuses(record: dict[str, Any]) -> dict[str, str]:
    return {each["path"]: each["status"] for each in record["modules"]}


def test_dynamo_inlines_all(monkeypatch: pytest.MonkeyPatch) -> None:
    record = observed(Stack(), (X,), monkeypatch=monkeypatch, dynamic=True)
    assert set(statuses(record).values()) == {"inlined"}
    assert [(run["shapes"], run["one_graph"], run["share_of_ops"], run["share_of_modules"]) for run in record["runs"]] == [
        ("static", True, 1.0, 1.0),
        ("dynamic", True, 1.0, 1.0),
    ]
    assert {each["path"]: each["ops"] for each in record["modules"]} == {"": 1, "up": 1, "rest": 0, "rest.0": 1, "rest.1": 1}
    assert record["obstacles"] == [] and record["runs"][0]["max_abs_error"] == 0


def test_fx_leaves_layers_as_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    record = observed(Stack(), (X,), monkeypatch=monkeypatch, tracer="fx")
    assert statuses(record) == {
        "": "inlined",
        "up": "call-module",
        "rest": "inlined",
        "rest.0": "call-module",
        "rest.1": "call-module",
    }
    assert "is_leaf_module" in record["modules"][1]["reason"]
    assert [each["target"] for each in record["graphs"][0]["leftovers"]] == ["up", "rest.0", "rest.1", "softmax"]


@pytest.mark.parametrize("tracer", ["export", "make_fx"])
def test_other_tracers_make_one_graph(tracer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = observed(Stack(), (X,), monkeypatch=monkeypatch, tracer=tracer)
    assert record["runs"][0]["one_graph"] and set(statuses(record).values()) == {"inlined"}
    assert record["graphs"][0]["max_abs_error"] == 0


def test_what_a_tracer_cannot_take_is_told_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rows(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for row in x:
                x = x + row
            return x

    record = observed(Rows(), (X,), monkeypatch=monkeypatch, tracer="fx")
    (told,) = record["obstacles"]
    assert (told["kind"], told["module"]) == ("untraceable", "")
    assert told["stack"][-1]["function"] == "forward" and told["stack"][-1]["path"] == __file__
    assert not record["runs"][0]["one_graph"] and record["graphs"] == []


def test_modules_in_several_graphs_and_in_none(monkeypatch: pytest.MonkeyPatch) -> None:
    record = observed(Broken(), (X,), monkeypatch=monkeypatch)
    assert statuses(record) == {"": "graph-break", "before": "split", "after": "inlined"}
    assert [each["graphs"] for each in record["modules"]] == [[0, 1], [0, 1], [1]]
    run = record["runs"][0]
    assert (run["graphs"], run["ops_of_largest"], run["share_of_ops"]) == (2, 2, round(2 / 3, 4))
    assert leftover_modules(Broken(), X) == {"": "graph-break", "before": "split"}


def test_a_child_whose_caller_was_given_up_is_compiled_on_its_own_or_left(monkeypatch: pytest.MonkeyPatch) -> None:
    record = observed(Given(), (X,), monkeypatch=monkeypatch)
    assert statuses(record)[""] == "graph-break"
    assert [each["kind"] for each in record["obstacles"]] == ["explicit-break"]


def test_higher_order_operators_are_gone_into(monkeypatch: pytest.MonkeyPatch) -> None:
    record = observed(Checkpointed(), (X,), monkeypatch=monkeypatch)
    assert record["runs"][0]["one_graph"] and statuses(record)[""] == "inlined"
    assert statuses(record)["inner"] in ("inlined", "higher-order")
    assert record["graphs"][0]["refused"] is None and record["graphs"][0]["max_abs_error"] == 0


def test_pieces_are_checked_strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    record = observed(Stack(), (X,), monkeypatch=monkeypatch, split_ops=["relu"])
    (graph,) = record["graphs"]
    assert [(each["name"], each["ops"], each["splits"]) for each in graph["pieces"]] == [
        ("submod_0", 1, False),
        ("submod_1", 1, True),
        ("submod_2", 2, False),
    ]
    assert [each["refused"] is None for each in graph["pieces"]] == [True, True, False]
    assert graph["pieces"][2]["refused"].startswith("Unsupported node from codegen")
    assert graph["generated_us"] > 0 and graph["graph_module_us"] > 0 and "def execution_fn" in graph["code"]


def test_calls_that_compile_again_are_told_with_their_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    record = observed(Stack(), (X,), (X[:1],), monkeypatch=monkeypatch)
    (told,) = record["recompiles"]
    assert told["function"] == "forward" and told["path"] == __file__
    assert any("size mismatch" in reason for reason in told["reasons"])
    assert observed(Stack(), (X,), (X + 1,), monkeypatch=monkeypatch)["recompiles"] == []


def test_dynamic_sizes_have_obstacles_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sized(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * len(str(x.shape[0]))

    record = observed(Sized(), (X,), monkeypatch=monkeypatch, dynamic=True)
    assert [run["one_graph"] for run in record["runs"]] == [True, False]
    assert {each["shapes"] for each in record["obstacles"]} == {"dynamic"}


def test_readiness_of_a_graph() -> None:
    traced = trace(Stack(), (X,), tracer="fx").graph
    assert not codegen_ready(traced) and codegen_ready(traced, with_submod=True)
    plain = trace(lambda x: torch.relu(x), (X,)).graph
    assert codegen_ready(plain)
    split = split_graph(traced, ["softmax"])
    assert codegen_ready(split, with_submod=True) and not codegen_ready(split)


def test_symbolic_sizes_that_take_too_long_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    record = observed(Stack(), (X,), monkeypatch=monkeypatch, dynamic=True, timeout=0)
    fixed, symbolic = record["runs"]
    assert fixed["one_graph"] and fixed["stopped"] is None
    assert "raise --timeout" in symbolic["stopped"] and symbolic["one_graph"] is None

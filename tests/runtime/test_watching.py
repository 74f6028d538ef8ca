"""Watching a model while others compile it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from modelguard.runtime import ModuleError, OptionError, StateWriteError
from modelguard.runtime import dynamo as torchs
from modelguard.runtime.watching import StateWriteWarning, watch


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: Any) -> Any:
        self.n += 1  # THE WRITE
        return x * self.n


LINE = next(number for number, line in enumerate(open(__file__, encoding="utf-8"), 1) if "# THE WRITE" in line)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Identity(), Counter()])

    def forward(self, x: Any) -> Any:
        return self.layers[1](x)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torchs.reset()
    yield
    assert not torch._dynamo.convert_frame._bytecode_hooks
    torchs.reset()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", lambda graph, example: graph.forward], ids=["eager", "aot", "own"])
def test_a_write_is_named(backend: Any) -> None:
    model = Outer()
    with pytest.raises(StateWriteError) as caught, watch(model):
        torch.compile(model, backend=backend)(torch.ones(2))
    (effect,) = caught.value.side_effects
    assert (effect.object_path, effect.attribute, effect.operation) == ("self.layers[1]", "n", "rebound")
    assert (effect.stack[-1].path, effect.stack[-1].line) == (__file__, LINE)
    assert f"{__file__}:{LINE}" in str(caught.value)


def test_a_warning_comes_at_once() -> None:
    model = Outer()
    with (
        pytest.warns(StateWriteWarning, match=r"self\.layers\[1\]\.n is rebound in forward$") as told,
        watch(model, "warn") as seen,
    ):
        torch.compile(model, backend="eager")(torch.ones(2))
        assert [effect.attribute for effect in seen.found] == ["n"]
    assert [(each.filename, each.lineno) for each in told] == [(__file__, LINE)]


def test_other_models_compiled_in_the_block_are_told_too() -> None:
    with pytest.raises(StateWriteError, match=r"n is rebound at"), watch(nn.Identity()):
        torch.compile(Counter(), backend="eager")(torch.ones(2))


def test_good_models_and_code_compiled_before_are_quiet() -> None:
    good, old = torch.compile(nn.Linear(2, 2), backend="eager"), torch.compile(Counter(), backend="eager")
    old(torch.ones(2))
    torch.compile(nn.Sequential(nn.ReLU()), backend="eager")(torch.ones(2))
    with warnings.catch_warnings(), watch(nn.Identity()) as seen:
        warnings.simplefilter("error", StateWriteWarning)
        good(torch.ones(2))
    assert seen.found == {}


def test_the_block_s_own_error_comes_through() -> None:
    model = Outer()
    with pytest.raises(ZeroDivisionError), watch(model):
        torch.compile(model, backend="eager")(torch.ones(2))
        1 / 0  # noqa: B018


def test_nested_watches_both_tell() -> None:
    model = Outer()
    with pytest.raises(StateWriteError), watch(model) as outer, pytest.raises(StateWriteError), watch(model.layers[1]) as inner:
        torch.compile(model, backend="eager")(torch.ones(2))
    assert [effect.path for effect in (*outer.found, *inner.found)] == ["self.layers[1].n", "self.n"]


def test_a_class_is_no_model() -> None:
    with pytest.raises(ModuleError, match="can be watched; this is the class Outer; make an instance"), watch(Outer):  # type: ignore[arg-type]
        pass


def test_an_action_that_is_none() -> None:
    with pytest.raises(OptionError, match="no action 'log'"), watch(nn.Identity(), "log"):  # type: ignore[arg-type]
        pass

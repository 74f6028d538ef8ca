"""What can be wrapped, in which mode, and what is said about everything else."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modelguard.errors import ModelguardError
from modelguard.runtime import (
    CompilationMode,
    CompilationModeError,
    CompiledForward,
    ForwardHooksError,
    ModuleError,
    OptionError,
    can_wrap,
)


class Scale(nn.Module):
    def __init__(self, by: int = 2) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


X = torch.arange(3.0)


@pytest.mark.parametrize("mode", [None, "none", CompilationMode.NONE])
def test_mode_that_compiles_nothing(mode: Any) -> None:
    assert not can_wrap(mode)
    with pytest.raises(RuntimeError, match=r"^Compilation mode cannot be NO_COMPILATION") as caught:
        CompiledForward(Scale(), mode)
    assert isinstance(caught.value, CompilationModeError)
    assert isinstance(caught.value, ModelguardError)
    assert "can_wrap(mode)" in str(caught.value)


@pytest.mark.parametrize("mode", ["stock", "once", CompilationMode.STOCK, CompilationMode.ONCE])
def test_mode_that_compiles(mode: Any) -> None:
    assert can_wrap(mode)
    wrapper = CompiledForward(Scale(), mode, backend="eager")
    assert wrapper.mode is CompilationMode(mode)
    assert not wrapper.compiled
    assert torch.equal(wrapper(X), X * 2)
    assert torch.equal(wrapper(X + 1), (X + 1) * 2)
    assert wrapper.compiled


@pytest.mark.parametrize("mode", ["ONCE", "", "twice", 2])
def test_mode_that_does_not_exist(mode: Any) -> None:
    with pytest.raises(OptionError, match="there is no compilation mode"):
        can_wrap(mode)
    with pytest.raises(OptionError, match="choose 'stock' or 'once'"):
        CompiledForward(Scale(), mode)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"evaluate_shape_guards": True}, "evaluate_shape_guards needs bytecode_hook=False"),
        ({"mode": "stock", "evaluate_shape_guards": True}, "evaluate_shape_guards belongs to mode 'once'"),
        ({"mode": "stock", "cuda_graphs": True}, "cuda_graphs needs mode 'once'"),
        ({"options": {"guard_filter_fn": len}}, "mode 'once' chooses the guards itself"),
    ],
)
def test_options_that_contradict(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        CompiledForward(Scale(), **options)


class Callme:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x


def with_forward(forward: Any) -> nn.Module:
    module = Scale()
    module.forward = forward
    return module


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: 3, "this is of type int"),
        (lambda: Scale, "this is the class Scale; make an instance"),
        (lambda: Scale().forward, "this is of type method"),
        (nn.Module, "Module defines no forward"),
        (lambda: nn.ModuleList([Scale()]), "ModuleList defines no forward"),
        (lambda: with_forward(functools.partial(torch.add, other=1)), "Scale.forward is a partial"),
        (lambda: with_forward(Callme()), "Scale.forward is a Callme"),
        (lambda: with_forward(torch.relu), "Scale.forward is a builtin_function_or_method"),
    ],
)
def test_what_cannot_be_wrapped(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        CompiledForward(make())


REGISTER = [
    lambda module: module.register_forward_hook(lambda module, args, output: output + 1),
    lambda module: module.register_forward_pre_hook(lambda module, args: None),
    lambda module: module.register_full_backward_hook(lambda module, before, after: None),
    lambda module: module.register_full_backward_pre_hook(lambda module, before: None),
]


@pytest.mark.parametrize("register", REGISTER)
def test_hooks_are_refused_and_not_skipped(register: Callable[[nn.Module], Any]) -> None:
    module = Scale()
    handle = register(module)
    with pytest.raises(ForwardHooksError, match="Scale has hooks"):
        CompiledForward(module)
    handle.remove()
    wrapper = CompiledForward(module, backend="eager")
    wrapper(X)
    handle = register(module)
    with pytest.raises(ForwardHooksError):
        wrapper(X)
    handle.remove()
    assert torch.equal(wrapper(X), X * 2)


def test_hooks_of_children_run() -> None:
    module = nn.Sequential(Scale(3))
    module[0].register_forward_hook(lambda module, args, output: output + 1)
    wrapper = CompiledForward(module, backend="eager")
    for _ in range(2):
        assert torch.equal(wrapper(X), X * 3 + 1)


def test_properties_cannot_be_set() -> None:
    wrapper = CompiledForward(Scale())
    for name in ("module", "mode", "compiled", "bytecode", "side_effects"):
        with pytest.raises(AttributeError):
            setattr(wrapper, name, None)


@pytest.mark.parametrize(
    ("name", "is_able"), [("NO_COMPILATION", False), ("STOCK_TORCH_COMPILE", True), ("DYNAMO_TRACE_ONCE", True)]
)
def test_vllms_names_of_modes_are_taken(name: str, is_able: bool) -> None:
    assert can_wrap(name) is is_able
    if is_able:
        assert torch.equal(CompiledForward(Scale(), name, backend="eager")(X), X * 2)


def test_the_documented_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "compiled-forward.md").read_text(encoding="utf-8")
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "RecompileError" in block]
    exec(block, {"__name__": "documented"})
    assert "Short.forward was compiled once, and that does not hold for these arguments:" in capsys.readouterr().out


def test_repr_tells_what_it_is() -> None:
    wrapper = CompiledForward(Scale(), backend="eager")
    assert repr(wrapper) == "<CompiledForward of Scale.forward, once, not compiled>"
    wrapper(X)
    assert repr(wrapper) == "<CompiledForward of Scale.forward, once, compiled>"

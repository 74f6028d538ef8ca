"""What is called safe is: models run before and after, with gradients, and nobody can tell the difference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelguard import fixes
from modelguard.findings import Applicability
from modelguard.scan.engine import scan_source

REGISTERED = (
    *("torch.zeros(())", "torch.ones(3)", "torch.tensor(0)", "torch.tensor(1.5)", "torch.arange(3)", "torch.eye(3)"),
    *(
        "torch.zeros(3, dtype=torch.long)",
        "torch.zeros(3, dtype=torch.bool)",
        "torch.ones(3).double()",
        "shared",
        "SHARED.clone()",
    ),
    *("torch.full((3,), 2)", "torch.ones(1).expand(3)", "torch.zeros(3, requires_grad=True)", "torch.zeros(3, dtype=kind)"),
)
STORED = (
    *(
        "self.b + 1",
        "self.b * 0.5",
        "1 - self.b",
        "-self.b",
        "self.b - self.b",
        "self.b * self.k",
        "self.b + self.rate",
        "self.b / 2",
    ),
    *(
        "self.b // 2",
        "self.b % 3",
        "self.b ** 2",
        "self.b.clone()",
        "self.b.abs()",
        "self.b.clamp(0, 2)",
        "self.b.clamp(0.0, 2.5)",
    ),
    *("torch.roll(self.b, 1)", "self.b.flip(0)", "torch.zeros_like(self.b)", "torch.zeros_like(self.b, dtype=torch.float)"),
    *("torch.tanh(self.b)", "torch.maximum(self.b, self.b + 1)", "self.b + True", "self.b + x.mean()", "self.b * self.other"),
    *("self.b + self.weight", "torch.ones(3)", "self.b.detach()", "self.b.to(torch.float64)", "self.b.double()", "self.b.half()"),
    *("self.b.to(x.device)", "self.b.to(x.dtype)", "self.b.to('cpu')", "self.b[None] + 1", "torch.add(self.b, self.b)", "self.b"),
)
RETURNED = (
    *("x + self.b", "x - self.b", "x * self.b", "self.b * x", "x / (self.b + 1)", "self.b", "[self.b]", "self.b.clone()", "x"),
    *(
        "self.b.view(-1) + x.sum()",
        "self.b.sum() * x",
        "x ** self.b",
        "torch.maximum(x, self.b)",
        "torch.clamp(x, self.b)",
        "+self.b",
    ),
    *("x.clamp(self.b)", "self.b.T", "self.b.reshape(-1)", "x * self.b.tanh()", "x > self.b", "f'{self.b}'", "self.b.clamp(x)"),
    *("x * self.b if self.b.sum() > 0 else x", "self.get() + x", "self.other.b + x", "(x * self.b).sum() + self.b.mean()"),
)
BEFORE = ("pass", "old = self.b", "self.kept.append(self.b)", "x = x * self.b", "x = x + self.b", "y = self.b + 1")
MODEL = """\
import torch
from torch import nn

SHARED = torch.zeros(3)


class Net(nn.Module):
    def __init__(self, kind=torch.float):
        super().__init__()
        shared = torch.zeros(3)
        self.kept = [shared]
        self.k = 2
        self.rate = 0.5
        self.register_buffer("b", {registered})
        self.register_buffer("other", torch.ones(3))
        self.weight = nn.Parameter(torch.ones(3))

    def get(self):
        return self.{got}

    def forward(self, x):
        {before}
        self.b = {stored}
        return {returned}, {also}
"""


def steps(source: str) -> list[Any]:
    """What two forwards and one backward through both make of the model, twice: outputs then and later, gradients, errors."""
    import torch

    names: dict[str, Any] = {}
    exec(compile(source, "net.py", "exec"), names)
    seen: list[Any] = []
    held: list[Any] = []
    try:
        net = names["Net"]()
        for dtype in (torch.float, torch.half, torch.float):
            x = torch.full((3,), 1.001, dtype=dtype, requires_grad=True)
            for _ in range(2):
                held.append(net(x))
                seen.append(repr(held[-1]))
            tensors = [
                value for output in held[-2:] for value in output if isinstance(value, torch.Tensor) and value.requires_grad
            ]
            if tensors:
                torch.stack([tensor.float().sum() for tensor in tensors]).sum().backward()
            seen.append(x.grad)
    except Exception as error:
        seen.append(type(error).__name__)
    return [str(seen), str(held)]


def check(registered: str, before: str, stored: str, returned: str, also: str, got: str) -> bool:
    """Whether there is a safe fix; if so, it was tried."""
    source = MODEL.format(registered=registered, before=before, stored=stored, returned=returned, also=also, got=got)
    for finding in scan_source(source, "net.py").findings:
        fix = fixes.fix_for(finding, source)
        if fix is not None and fix.applicability is Applicability.SAFE:
            assert steps(fixes.apply(source, fix.edits)) == steps(source), source
            return True
    return False


@settings(deadline=None, max_examples=300)
@given(*map(st.sampled_from, (REGISTERED, BEFORE, STORED, RETURNED, ("old", "None"), ("b", "other"))))
def test_a_safe_fix_changes_nothing(registered: str, before: str, stored: str, returned: str, also: str, got: str) -> None:
    pytest.importorskip("torch")
    check(registered, before, stored, returned, "old" if before.startswith("old") else "None", got)


def test_there_are_safe_fixes() -> None:
    pytest.importorskip("torch")
    stored = ("self.b + 1", "self.b * self.k", "torch.roll(self.b, 1)", "self.b.to(x.device)")
    found = [check("torch.ones(3)", "pass", each, "x + self.b", "None", "other") for each in stored]
    assert all(found)

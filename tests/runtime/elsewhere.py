"""Code of models that is not in the file of their tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

STEPS = 0


def note(module: Any, value: torch.Tensor) -> None:
    module.seen = value  # here: helper


def step() -> None:
    global STEPS
    STEPS += 1  # here: step


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1  # here: base
        return x + 1


class Inner(nn.Module):
    """Has what a parent calls, and what changes it."""

    def __init__(self) -> None:
        super().__init__()
        self.cos = torch.ones(3)
        self.memo: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cos = x * 2  # here: inner
        return x + 1

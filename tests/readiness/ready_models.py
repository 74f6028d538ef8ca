"""Models with one obstacle each, by the name of its kind, and one with all of them."""

from __future__ import annotations

import logging
import os
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

LOG = logging.getLogger(__name__)

Forward = Callable[[Any, Any], Any]


@torch.library.custom_op("modelguard_ready_tests::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@torch.library.custom_op("modelguard_ready_tests::unknown_size", mutates_args=())
def unknown_size(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@unknown_size.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.compiler.disable
def disabled(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def branch(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x if x.sum() > 0 else -x


def loop(self: Any, x: torch.Tensor) -> torch.Tensor:
    while x.sum() < 100:
        x = x * 2 + 1
    return x


def any_of(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x if (x > 0).any() else x + 1


def item(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()


def as_float(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x * float(x.sum())


def tolist(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x * x.flatten().tolist()[0]


def equal(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x if torch.equal(x, self.ones) else x + 1


def nonzero(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x.nonzero().sum()


def masked(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].sum()


def unique(self: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.unique(x).sum()


def sized_by_an_operator(self: Any, x: torch.Tensor) -> torch.Tensor:
    return unknown_size(x) * 2


def calls_disabled(self: Any, x: torch.Tensor) -> torch.Tensor:
    return disabled(x) * 2


def prints(self: Any, x: torch.Tensor) -> torch.Tensor:
    print("here")
    return x + 1


def logs(self: Any, x: torch.Tensor) -> torch.Tensor:
    LOG.warning("here")
    return x + 1


def warns(self: Any, x: torch.Tensor) -> torch.Tensor:
    warnings.warn("here", stacklevel=2)
    return x + 1


def without_fake(self: Any, x: torch.Tensor) -> torch.Tensor:
    return no_fake(x) * 2


def breaks(self: Any, x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    return x + 1


def clock(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x * time.time()


def draws(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x * random.random()


def reads_a_file(self: Any, x: torch.Tensor) -> torch.Tensor:
    with open(os.devnull) as stream:
        return x * len(stream.read())


def makes_a_module(self: Any, x: torch.Tensor) -> torch.Tensor:
    return nn.Linear(4, 4)(x)


OBSTACLES: dict[str, tuple[Forward, str, bool]] = {
    "branch": (branch, "data-dependent-branch", False),
    "loop": (loop, "data-dependent-branch", False),
    "any": (any_of, "data-dependent-branch", False),
    "item": (item, "host-sync", True),
    "float": (as_float, "host-sync", True),
    "tolist": (tolist, "host-sync", False),
    "equal": (equal, "host-sync", False),
    "nonzero": (nonzero, "data-dependent-size", True),
    "mask": (masked, "data-dependent-size", True),
    "unique": (unique, "data-dependent-size", True),
    "operator's size": (sized_by_an_operator, "data-dependent-size", True),
    "disabled function": (calls_disabled, "disabled", False),
    "print": (prints, "printing", False),
    "logging": (logs, "printing", False),
    "warning": (warns, "printing", False),
    "no fake kernel": (without_fake, "no-fake-kernel", False),
    "graph_break": (breaks, "explicit-break", False),
    "clock": (clock, "clock-or-randomness", False),
    "random": (draws, "clock-or-randomness", False),
    "file": (reads_a_file, "untraceable-call", False),
    "module": (makes_a_module, "unsupported-python", False),
}
"""`forward`, the kind of its obstacle, and whether Dynamo has it in its graph all the same."""


class Net(nn.Module):
    """Any `forward`, with a layer to call."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.register_buffer("ones", torch.ones(4))


def with_forward(forward: Forward) -> nn.Module:
    """A module whose class has that `forward`."""
    return type(forward.__name__.title().replace("_", ""), (Net,), {"forward": forward})()


class Disabled(nn.Module):
    @torch.compiler.disable
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(x)
        print("here")
        if x.sum() > 0:
            x = x + 1
        return x.relu()


class Several(nn.Module):
    """Seven obstacles, two of them in a loop over layers, where Dynamo gives the rest up."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Noisy(), Noisy()])
        self.disabled = Disabled()
        self.recurrent = nn.LSTM(4, 4)
        self.scripted = torch.jit.script(nn.ReLU())
        self.sized = with_forward(nonzero)
        self.unused = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        x = self.disabled(x)
        x, _ = self.recurrent(x)
        x = self.scripted(x)
        x = x + self.sized(x)
        return x * x.sum().item()


def build() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return Several(), (torch.ones(2, 4),)


def good() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (torch.ones(2, 3, 8),)

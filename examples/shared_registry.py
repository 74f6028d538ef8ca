"""Layers that hand the values of the first layer to all later ones through a registry on the class.

With one graph for each layer, as piecewise capture makes them, the registry holds what the last eager step put there: the
later layers mix in values of another request. The twin passes the values from layer to layer.
"""

from typing import ClassVar

import torch
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


class RegistryLayer(nn.Module):
    shared: ClassVar[dict[str, torch.Tensor]] = {}

    def __init__(self, index: int, dim: int = 4) -> None:
        super().__init__()
        self.index = index
        self.value = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = self.value(x)
        if self.index == 0:
            RegistryLayer.shared["first_value"] = value
        return x + 0.5 * (value + RegistryLayer.shared["first_value"])


class RegistryStack(nn.Module):
    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(RegistryLayer(index) for index in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class PassingLayer(nn.Module):
    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.value = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, first_value: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        value = self.value(x)
        if first_value is None:
            first_value = value
        return x + 0.5 * (value + first_value), first_value


class PassingStack(nn.Module):
    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(PassingLayer() for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first_value = None
        for layer in self.layers:
            x, first_value = layer(x, first_value)
        return x


def inputs() -> Calls:
    return [(torch.randn(2, 4),) for _ in range(4)]


def build() -> tuple[nn.Module, Calls]:
    return RegistryStack(), inputs()


def build_fixed() -> tuple[nn.Module, Calls]:
    return PassingStack(), inputs()

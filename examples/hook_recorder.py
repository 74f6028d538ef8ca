"""A regression head that penalises the activations of its body, which forward hooks record.

The hooks run inside forward but are Python: under replay the list keeps the tensors of the capture. What is read from it
outside the graph, such as `model.activations` in a monitoring loop, belongs to whichever step last ran there. The twin runs
the layers itself and keeps what it needs in locals.
"""

import torch
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


class Regression(nn.Module):
    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, dim), nn.Tanh())
        self.head = nn.Linear(dim, 1)


class HookedRegression(Regression):
    def __init__(self) -> None:
        super().__init__()
        self.activations: list[torch.Tensor] = []
        for layer in self.body:
            layer.register_forward_hook(self._record)

    def _record(self, module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        self.activations.append(output)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.activations.clear()
        prediction = self.head(self.body(x))
        penalty = torch.stack([kept.pow(2).mean() for kept in self.activations]).sum()
        return prediction, penalty


class ExplicitRegression(Regression):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        activations = []
        for layer in self.body:
            x = layer(x)
            activations.append(x)
        penalty = torch.stack([kept.pow(2).mean() for kept in activations]).sum()
        return self.head(x), penalty


def inputs() -> Calls:
    return [(torch.randn(2, 4),) for _ in range(4)]


def build() -> tuple[nn.Module, Calls]:
    return HookedRegression(), inputs()


def build_fixed() -> tuple[nn.Module, Calls]:
    return ExplicitRegression(), inputs()

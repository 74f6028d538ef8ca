"""Attention scores that are clamped only where one of them is out of range.

Whether to clamp is decided by the host, which must read a tensor for it: capture of a CUDA graph fails there, Dynamo breaks its
graph, and a graph captured otherwise keeps the branch of the captured step. Nothing is stored. The twin clamps on the device:
what is in range stays as it is.
"""

import torch
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


class Scores(nn.Module):
    def __init__(self, dim: int = 4, limit: float = 2.0) -> None:
        super().__init__()
        self.limit = limit
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)

    def scores(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.query(tokens) @ self.key(tokens).transpose(-2, -1)


class ClampedWhenNeeded(Scores):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores = self.scores(tokens)
        if scores.abs().max() > self.limit:
            scores = scores.clamp(-self.limit, self.limit)
        return scores.softmax(-1) @ tokens


class ClampedAlways(Scores):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores = self.scores(tokens).clamp(-self.limit, self.limit)
        return scores.softmax(-1) @ tokens


def sequences() -> Calls:
    return [(scale * torch.randn(2, 5, 4),) for scale in (0.1, 1.0, 9.0, 0.1)]


def build() -> tuple[nn.Module, Calls]:
    return ClampedWhenNeeded(), sequences()


def build_fixed() -> tuple[nn.Module, Calls]:
    return ClampedAlways(), sequences()

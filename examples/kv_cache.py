"""An attention layer that keeps its keys and values, with the write position in a Python int.

The cache itself is a buffer written in place, which a graph replays. The position is not: the slice bounds were burnt in
at capture, so every replay overwrites the same slot and attends to the same prefix, and decoding degrades without an error.
The twin takes the position as a tensor and masks what lies behind it.
"""

import torch
import torch.nn.functional as F
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


class Projections(nn.Module):
    def __init__(self, dim: int = 8, slots: int = 16) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.register_buffer("keys", torch.zeros(slots, dim), persistent=False)
        self.register_buffer("values", torch.zeros(slots, dim), persistent=False)


class OffsetAttention(Projections):
    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        end = self.length + x.shape[0]
        self.keys[self.length : end] = k
        self.values[self.length : end] = v
        self.length = end
        scores = q @ self.keys[:end].t() * x.shape[-1] ** -0.5
        return self.out(F.softmax(scores, dim=-1) @ self.values[:end])


class PositionAttention(Projections):
    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        self.keys.index_copy_(0, position, k)
        self.values.index_copy_(0, position, v)
        scores = q @ self.keys.t() * x.shape[-1] ** -0.5
        unwritten = torch.arange(self.keys.shape[0], device=x.device) > position
        scores = scores.masked_fill(unwritten, float("-inf"))
        return self.out(F.softmax(scores, dim=-1) @ self.values)


def tokens() -> list[torch.Tensor]:
    return [torch.randn(1, 8) for _ in range(6)]


def build() -> tuple[nn.Module, Calls]:
    return OffsetAttention(), [(token,) for token in tokens()]


def build_fixed() -> tuple[nn.Module, Calls]:
    return PositionAttention(), [(token, torch.tensor([at])) for at, token in enumerate(tokens())]

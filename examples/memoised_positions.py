"""Sinusoid positions from a function under lru_cache.

The cache is the only owner of the tensor it hands out. A graph that was captured on a cache hit holds a bare address; when
a new length evicts the entry, the memory is reused and the graph adds somebody else's numbers to the tokens. Nothing in
the class stores anything. The twin owns its table as a buffer.
"""

import functools
import math

import torch
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


def sinusoid(length: int, dim: int) -> torch.Tensor:
    position = torch.arange(length).float().unsqueeze(1)
    rate = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10_000.0) / dim))
    return torch.stack(((position * rate).sin(), (position * rate).cos()), dim=-1).flatten(1)


@functools.lru_cache(maxsize=2)
def cached_sinusoid(length: int, dim: int) -> torch.Tensor:
    return sinusoid(length, dim)


class MemoisedPositions(nn.Module):
    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = cached_sinusoid(x.shape[-2], x.shape[-1])
        return self.norm(x + positions)


class BufferedPositions(nn.Module):
    def __init__(self, dim: int = 6, max_length: int = 16) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("positions", sinusoid(max_length, dim), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.positions[: x.shape[-2]])


def sequences() -> Calls:
    return [(torch.randn(1, length, 6),) for length in (3, 3, 5, 9, 3)]


def build() -> tuple[nn.Module, Calls]:
    return MemoisedPositions(), sequences()


def build_fixed() -> tuple[nn.Module, Calls]:
    return BufferedPositions(), sequences()

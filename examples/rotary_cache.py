"""A rotary embedding that grows its cos/sin table when a longer sequence comes.

Graphs captured for short sequences hold the addresses of the first table. The first long prompt replaces it, the
allocator hands its memory to somebody else, and every later replay of the short graphs rotates by whatever lies there.
The twin builds the table once, for the longest sequence it will ever serve.
"""

import torch
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def angles(length: int, dim: int, base: float) -> torch.Tensor:
    frequencies = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
    return torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)


class GrowingRotary(nn.Module):
    def __init__(self, dim: int = 8, base: float = 10_000.0) -> None:
        super().__init__()
        self.dim, self.base = dim, base
        self.max_seq_len_cached = 0
        self.register_buffer("cos_cached", None, persistent=False)
        self.register_buffer("sin_cached", None, persistent=False)

    def _set_cos_sin_cache(self, seq_len: int, dtype: torch.dtype) -> None:
        table = angles(seq_len, self.dim, self.base)
        self.max_seq_len_cached = seq_len
        self.cos_cached = table.cos().to(dtype)
        self.sin_cached = table.sin().to(dtype)

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        seq_len = q.shape[-2]
        if seq_len > self.max_seq_len_cached:
            self._set_cos_sin_cache(seq_len, q.dtype)
        return q * self.cos_cached[:seq_len] + rotate_half(q) * self.sin_cached[:seq_len]


class StaticRotary(nn.Module):
    def __init__(self, dim: int = 8, base: float = 10_000.0, max_seq_len: int = 32) -> None:
        super().__init__()
        table = angles(max_seq_len, dim, base)
        self.register_buffer("cos_cached", table.cos(), persistent=False)
        self.register_buffer("sin_cached", table.sin(), persistent=False)

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        seq_len = q.shape[-2]
        cos = self.cos_cached[:seq_len].to(q.dtype)
        sin = self.sin_cached[:seq_len].to(q.dtype)
        return q * cos + rotate_half(q) * sin


def queries() -> Calls:
    return [(torch.randn(1, 2, length, 8),) for length in (4, 4, 12, 4)]


def build() -> tuple[nn.Module, Calls]:
    return GrowingRotary(), queries()


def build_fixed() -> tuple[nn.Module, Calls]:
    return StaticRotary(), queries()

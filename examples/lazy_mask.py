"""A causal self-attention that makes its mask on demand, whenever the sequence is longer than the last one.

The branch is taken while the graph is recorded or never: a graph captured for a short sequence keeps the address of its
mask after a longer one has replaced it. The twin keeps one mask of the largest size and slices it.
"""

import torch
import torch.nn.functional as F
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


def causal(length: int, device: torch.device | None = None) -> torch.Tensor:
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


class SelfAttention(nn.Module):
    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)

    def attend(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class LazyMaskAttention(SelfAttention):
    def __init__(self) -> None:
        super().__init__()
        self._mask = None

    def _causal_mask(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[-2]
        if self._mask is None or self._mask.size(0) < length or self._mask.device != x.device:
            self._mask = causal(length, x.device)
        return self._mask[:length, :length]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attend(x, self._causal_mask(x))


class StaticMaskAttention(SelfAttention):
    def __init__(self, max_length: int = 16) -> None:
        super().__init__()
        self.register_buffer("mask", causal(max_length), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[-2]
        return self.attend(x, self.mask[:length, :length])


def sequences() -> Calls:
    return [(torch.randn(2, length, 8),) for length in (3, 3, 7, 3)]


def build() -> tuple[nn.Module, Calls]:
    return LazyMaskAttention(), sequences()


def build_fixed() -> tuple[nn.Module, Calls]:
    return StaticMaskAttention(), sequences()

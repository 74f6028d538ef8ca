"""A masked convolution of an autoregressive model, which masks its own weight before each use.

Assigning to `.data` gives the parameter new memory. The captured convolution reads memory that nobody owns any more, and
the optimizer and weight loader, which write to the parameter, no longer reach it. The twin masks into a local.
"""

import torch
import torch.nn.functional as F
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


class CausalKernel(nn.Conv1d):
    def __init__(self, channels: int = 2, width: int = 5) -> None:
        super().__init__(channels, channels, width, padding=width // 2)
        mask = torch.ones_like(self.weight)
        mask[..., width // 2 :] = 0
        self.register_buffer("mask", mask)


class SelfMaskingConv(CausalKernel):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.weight.data = self.weight.data * self.mask
        return super().forward(x)


class MaskedConv(CausalKernel):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv1d(x, self.weight * self.mask, self.bias, padding=self.padding)


def signals() -> Calls:
    return [(torch.randn(1, 2, 9),) for _ in range(4)]


def build() -> tuple[nn.Module, Calls]:
    return SelfMaskingConv(), signals()


def build_fixed() -> tuple[nn.Module, Calls]:
    return MaskedConv(), signals()

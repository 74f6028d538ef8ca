"""A vector quantiser whose codebook follows its inputs by a moving average while training.

Rebinding the buffers leaves a captured training step reading the codebook of the step before the capture: the codes never
move again, and the loss looks like a plateau. The twin writes the same numbers into the memory the graph knows.
"""

import torch
import torch.nn.functional as F
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


class Quantiser(nn.Module):
    def __init__(self, n_codes: int = 4, dim: int = 3, decay: float = 0.9) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("codebook", torch.randn(n_codes, dim))
        self.register_buffer("usage", torch.ones(n_codes))

    def nearest(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x, self.codebook).argmin(dim=-1)

    def statistics(self, x: torch.Tensor, codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = F.one_hot(codes, self.usage.shape[0]).to(x.dtype)
        return chosen.sum(0), chosen.t() @ x


class ReboundCodebook(Quantiser):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        codes = self.nearest(x)
        if self.training:
            count, total = self.statistics(x.detach(), codes)
            self.usage = self.decay * self.usage + (1 - self.decay) * count
            mean = total / self.usage.unsqueeze(-1)
            self.codebook = self.decay * self.codebook + (1 - self.decay) * mean
        return x + (self.codebook[codes] - x).detach()


class CopiedCodebook(Quantiser):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        codes = self.nearest(x)
        if self.training:
            count, total = self.statistics(x.detach(), codes)
            self.usage.copy_(self.decay * self.usage + (1 - self.decay) * count)
            mean = total / self.usage.unsqueeze(-1)
            self.codebook.copy_(self.decay * self.codebook + (1 - self.decay) * mean)
        return x + (self.codebook[codes] - x).detach()


def batches() -> Calls:
    return [(torch.randn(6, 3),) for _ in range(5)]


def build() -> tuple[nn.Module, Calls]:
    return ReboundCodebook(), batches()


def build_fixed() -> tuple[nn.Module, Calls]:
    return CopiedCodebook(), batches()

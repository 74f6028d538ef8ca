"""A denoiser that counts its own sampling steps to pick the timestep embedding.

The count is a Python int: a captured graph holds the embedding row of the captured step, so every replay denoises for the
same noise level. The twin counts in a tensor, and the graph itself moves on.
"""

import torch
import torch.nn.functional as F
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


class Denoiser(nn.Module):
    def __init__(self, dim: int = 4, n_steps: int = 8) -> None:
        super().__init__()
        self.n_steps = n_steps
        self.embedding = nn.Embedding(n_steps, dim)
        self.body = nn.Linear(dim, dim)

    def denoise(self, sample: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        return sample - 0.1 * F.silu(self.body(sample + condition))


class SelfCountingDenoiser(Denoiser):
    def __init__(self) -> None:
        super().__init__()
        self.step_index = 0

    def forward(self, sample: torch.Tensor) -> torch.Tensor:
        condition = self.embedding.weight[self.step_index]
        self.step_index = (self.step_index + 1) % self.n_steps
        return self.denoise(sample, condition)


class TensorCountingDenoiser(Denoiser):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step_index", torch.zeros(1, dtype=torch.long))

    def forward(self, sample: torch.Tensor) -> torch.Tensor:
        condition = self.embedding(self.step_index)
        self.step_index.add_(1).remainder_(self.n_steps)
        return self.denoise(sample, condition)


def samples() -> Calls:
    return [(torch.randn(2, 4),) for _ in range(10)]


def build() -> tuple[nn.Module, Calls]:
    return SelfCountingDenoiser(), samples()


def build_fixed() -> tuple[nn.Module, Calls]:
    return TensorCountingDenoiser(), samples()

"""An expert router that asks the device for values, and one that is a single graph (`modelguard ready` on either)."""

import torch
from torch import nn


class Router(nn.Module):
    """Sends tokens to an expert each, in Python: the branch and the sizes depend on values."""

    def __init__(self, width: int, n_experts: int, limit: float = 5.0) -> None:
        super().__init__()
        self.gate = nn.Linear(width, n_experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(n_experts))
        self.limit = limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.gate(x)
        if scores.max() > self.limit:
            scores = scores.clamp(max=self.limit)
        chosen = scores.argmax(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().squeeze(-1)
            out[rows] = expert(x[rows])
        return out


class CapturableRouter(nn.Module):
    """Runs every expert on all tokens and keeps what is wanted: fixed sizes, and no question to the device."""

    def __init__(self, width: int, n_experts: int, limit: float = 5.0) -> None:
        super().__init__()
        self.gate = nn.Linear(width, n_experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(n_experts))
        self.limit = limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.gate(x).clamp(max=self.limit)
        chosen = scores.argmax(-1, keepdim=True)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            out = torch.where(chosen == number, expert(x), out)
        return out


def _calls() -> list[tuple[torch.Tensor]]:
    return [(torch.randn(8, 16),) for _ in range(4)]


def build() -> tuple[nn.Module, list[tuple[torch.Tensor]]]:
    """The router with obstacles."""
    return Router(16, 4), _calls()


def build_fixed() -> tuple[nn.Module, list[tuple[torch.Tensor]]]:
    """The one without."""
    return CapturableRouter(16, 4), _calls()

"""A tracker head that averages its last few embeddings, kept in a Python list.

append and pop run on the host. Under replay the list stays what it was at capture: the average mixes the current frame
with the frames that came before the capture, for ever. The twin writes a ring buffer at a position held in a tensor.
"""

import torch
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


class Tracker(nn.Module):
    def __init__(self, dim: int = 4, window: int = 3) -> None:
        super().__init__()
        self.dim, self.window = dim, window
        self.embed = nn.Linear(dim, dim)


class ListTracker(Tracker):
    def __init__(self) -> None:
        super().__init__()
        self.history: list[torch.Tensor] = []

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        embedding = self.embed(frame)
        self.history.append(embedding)
        if len(self.history) > self.window:
            self.history.pop(0)
        return torch.stack(self.history).mean(0)


class RingTracker(Tracker):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("history", torch.zeros(self.window, self.dim), persistent=False)
        self.register_buffer("seen", torch.zeros(1, dtype=torch.long), persistent=False)

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        embedding = self.embed(frame)
        self.history.index_copy_(0, self.seen % self.window, embedding.unsqueeze(0))
        self.seen.add_(1)
        return self.history.sum(0) / self.seen.clamp(max=self.window)


def frames() -> Calls:
    return [(torch.randn(4),) for _ in range(7)]


def build() -> tuple[nn.Module, Calls]:
    return ListTracker(), frames()


def build_fixed() -> tuple[nn.Module, Calls]:
    return RingTracker(), frames()

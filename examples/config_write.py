"""An attention scale that follows the longest prompt so far, remembered in the shared configuration.

The configuration is a plain object that every layer reads. A graph holds the scale of its capture, so requests served by
replay and requests served eagerly disagree once a longer prompt has come. The twin keeps the length in a tensor.
"""

from dataclasses import dataclass

import torch
from torch import nn

Calls = list[tuple[torch.Tensor, ...]]


@dataclass
class Config:
    hidden_size: int = 8
    trained_length: int = 4
    longest_prompt: int = 4


class Scorer(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.query = nn.Linear(config.hidden_size, config.hidden_size)


class ConfigScaledScorer(Scorer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[-2] > self.config.longest_prompt:
            self.config.longest_prompt = x.shape[-2]
        scale = (self.config.longest_prompt / self.config.trained_length) ** 0.5
        return self.query(x) @ x.transpose(-1, -2) * scale


class TensorScaledScorer(Scorer):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.register_buffer("longest_prompt", torch.tensor(float(config.longest_prompt)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.longest_prompt.clamp_(min=x.shape[-2])
        scale = (self.longest_prompt / self.config.trained_length).sqrt()
        return self.query(x) @ x.transpose(-1, -2) * scale


def prompts() -> Calls:
    return [(torch.randn(1, length, 8),) for length in (3, 6, 3, 9, 3)]


def build() -> tuple[nn.Module, Calls]:
    return ConfigScaledScorer(Config()), prompts()


def build_fixed() -> tuple[nn.Module, Calls]:
    return TensorScaledScorer(Config()), prompts()

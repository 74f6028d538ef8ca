"""The cases: each builds a small model with random weights, and the calls to make of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from truth.observer import Build


class Case(NamedTuple):
    """One model: `name` starts with the distribution that it comes from."""

    name: str
    build: Build


PACKAGES = (
    "transformers",
    "diffusers",
    "timm",
    "vector_quantize_pytorch",
    "x_transformers",
    "rotary_embedding_torch",
    "local_attention",
    "ema_pytorch",
    "hyper_connections",
)
"""The packages whose source is observed and scanned, where they are installed."""


def all_cases(widely: bool) -> Iterator[Case]:
    """Every case of every library that is installed."""
    from truth import cases_diffusers, cases_small, cases_timm, cases_transformers

    yield from cases_small.cases()
    yield from cases_timm.cases(widely)
    yield from cases_diffusers.cases()
    yield from cases_transformers.cases(widely)

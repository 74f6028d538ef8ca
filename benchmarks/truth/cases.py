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
    "performer_pytorch",
    "reformer_pytorch",
    "routing_transformer",
    "linear_attention_transformer",
    "sinkhorn_transformer",
    "memorizing_transformers_pytorch",
    "titans_pytorch",
    "vit_pytorch",
    "byol_pytorch",
    "snac",
    "st_moe_pytorch",
    "mixture_of_experts",
    "perceiver_pytorch",
    "product_key_memory",
    "axial_positional_embedding",
    "linformer",
)
"""The packages whose source is observed and scanned, where they are installed."""


def all_cases(widely: bool) -> Iterator[Case]:
    """Every case of every library that is installed."""
    from truth import cases_diffusers, cases_more, cases_small, cases_timm, cases_transformers

    yield from cases_small.cases()
    yield from cases_more.cases()
    yield from cases_timm.cases(widely)
    yield from cases_diffusers.cases()
    yield from cases_transformers.cases(widely)

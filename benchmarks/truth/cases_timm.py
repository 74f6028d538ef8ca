"""The smallest models of every file of timm, on small images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import nn

from truth.cases import Case
from truth.record import Call
from truth.torchvision_stub import torchvision_or_stand_in


def import_timm() -> Any:
    """timm, with a stand-in for torchvision where that is not installed."""
    with torchvision_or_stand_in():
        import timm
    return timm


SMALL = re.compile(r"(^test_|atto|femto|pico|nano|tiny|mini|small|xxs|xs|_s\b|_t\b|_n\b|18|26|19|21|34|b0|050|micro|lite)")


@cache
def fitting(name: str) -> tuple[dict[str, int], int, int]:
    """Options, pixels and channels with which a model runs: small images where it takes them."""
    timm = import_timm()
    for options, pixels in (({"img_size": 64}, 64), ({}, 64), ({"img_size": 96}, 96), ({}, None)):
        try:
            model = timm.create_model(name, pretrained=False, num_classes=5, **options)
        except Exception:
            continue
        channels, _, default = model.pretrained_cfg.get("input_size", (3, 224, 224))
        if _runs(model, channels, pixels or default):
            return options, pixels or default, channels
    raise ValueError("no size found that it accepts")


def build(name: str) -> tuple[nn.Module, list[Call]]:
    """A model with calls on two batches and, where it can, on larger images."""
    options, size, channels = fitting(name)
    model = import_timm().create_model(name, pretrained=False, num_classes=5, **options)
    calls: list[Call] = [((torch.randn(batch, channels, size, size),), {}) for batch in (2, 3)]
    calls.append(((torch.randn(2, channels, size + 32, size + 32),), {}))
    return model, calls


def _runs(model: nn.Module, channels: int, size: int) -> bool:
    try:
        with torch.no_grad():
            model.eval()(torch.randn(1, channels, size, size))
    except Exception:
        return False
    return True


def cases(widely: bool) -> Iterator[Case]:
    """Two models of each file, the smallest by name; widely: six."""
    timm = import_timm()
    for module in timm.list_modules():
        names = sorted(timm.list_models(module=module), key=lambda name: (not SMALL.search(name), len(name), name))
        for name in names[: 6 if widely else 2]:
            yield Case(f"timm:{module}:{name}", partial(build, name))

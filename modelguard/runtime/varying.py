"""Other inputs, made from the ones of a single call: equal steps would hide what a replay gets wrong."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""

_SLOW = 64
"""Values shrink to this share of themselves and a step: 64/65, 64/66, ..."""


def varied(call: Call, step: int, kept: Collection[int | str]) -> Call:
    """A call's floating-point values as they might be at another step.

    In each tensor, the values go round in the last dimension, and shrink a little. So they stay in their range, keep their sign,
    and nothing becomes infinite that was not. A tensor of zeros, ones and infinities is taken for a mask: it goes round and no
    more, unless all its values are the same. Integers are indices, and stay.

    Args:
        call: stays as it is.
        step: counted from 0, for which the values are those of the call.
        kept: places or names of arguments that stay the same objects, since a call changes them.
    """
    args, kwargs = call
    made: dict[int, torch.Tensor] = {}

    def other(tensor: torch.Tensor) -> torch.Tensor:
        # What is given twice is one tensor at each step.
        return made.setdefault(id(tensor), _other(tensor, step))

    return (
        tuple(value if place in kept else tree_map_only(torch.Tensor, other, value) for place, value in enumerate(args)),
        {name: value if name in kept else tree_map_only(torch.Tensor, other, value) for name, value in kwargs.items()},
    )


def _other(tensor: torch.Tensor, step: int) -> torch.Tensor:
    is_plain = type(tensor) is torch.Tensor and tensor.layout is torch.strided and not tensor.is_meta and tensor.numel()
    if not is_plain or not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        values = tensor.roll(step, -1) if tensor.dim() else tensor.clone()
        if not _is_mask(values):
            # By way of a type that every kernel knows.
            wide = torch.complex64 if tensor.is_complex() else torch.float64
            values = values.to(wide).mul_(_SLOW / (_SLOW + step)).to(tensor.dtype)
        # In the memory format of the original.
        made = tensor.detach().clone().copy_(values)
    return made.requires_grad_(tensor.requires_grad)


def _is_mask(values: torch.Tensor) -> bool:
    size = values.abs().to(torch.float64)
    is_marked = ((size == 0) | (size == 1) | size.isinf()).all()
    return bool(is_marked) and bool((size != size.flatten()[0]).any())

"""Inputs described on a command line: `x=float32[2,16]`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch

from modelguard.errors import ModelguardError

_DESCRIBED = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)\s*=\s*)?(?P<dtype>\w+)\[(?P<sizes>[\d,\s]*)\]")
_LARGEST_INDEX = 2
"""Integers are drawn below it: they are mostly indices, and the smallest table has two rows."""


class InputError(ModelguardError):
    """A described input is none."""


def tensors_of(descriptions: Sequence[str]) -> tuple[torch.Tensor, ...]:
    """Random tensors of described types and sizes, in order. Names are for the reader.

    Raises:
        InputError: a description is not `name=dtype[size,size]`.
    """
    return tuple(_tensor(description) for description in descriptions)


def _tensor(description: str) -> torch.Tensor:
    match = _DESCRIBED.fullmatch(description.strip())
    dtype = getattr(torch, match["dtype"], None) if match else None
    if match is None or not isinstance(dtype, torch.dtype):
        raise InputError(
            f"{description!r} describes no tensor; write name=dtype[sizes], such as x=float32[2,16] or ids=int64[1,8]"
        )
    try:
        return _drawn(dtype, [int(size) for size in match["sizes"].split(",") if size.strip()])
    except (RuntimeError, NotImplementedError, MemoryError) as error:
        raise InputError(f"{description!r} cannot be made: {error}") from None


def _drawn(dtype: torch.dtype, sizes: list[int]) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    if dtype is torch.bool:
        return torch.rand(sizes) < 0.5
    return torch.randint(0, _LARGEST_INDEX, sizes).to(dtype)

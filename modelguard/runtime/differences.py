"""What is not the same in two tables of outputs or state: how far apart numbers are, and what else differs."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

_RELATIVE, _ABSOLUTE = 1e-5, 1e-6
_MISSING = object()
_LONGEST = 40

NO_NUMBER = "NaN or infinite where eager has numbers"


@dataclass(frozen=True, slots=True)
class Difference:
    """A path at which two tables differ."""

    where: str
    error: float
    """How far apart numbers are; infinite where no amount says it."""
    reason: str = ""
    """What differs, where no amount says it."""


def differences(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    """What differs in `theirs`, which was replayed, from `mine`, which eager steps left."""
    for path in dict.fromkeys((*mine, *theirs)):
        expected, found = mine.get(path, _MISSING), theirs.get(path, _MISSING)
        if path.startswith("len("):
            # How many items there are is told by the container's own name.
            if expected != found:
                yield Difference(path[len("len(") : -1], math.inf, _items(expected, found))
            continue
        error, reason = _apart(expected, found)
        if error:
            yield Difference(path, error, reason)


def _apart(expected: Any, found: Any) -> tuple[float, str]:
    """0 where two values are the same for all purposes; else how far apart they are, or what differs."""
    if expected is _MISSING or found is _MISSING:
        return math.inf, "missing, eager has it" if found is _MISSING else "there, eager has none"
    if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
        return _tensors_apart(expected, found)
    if type(expected) is not type(found):
        return math.inf, f"another type: {type(found).__name__}, eager has {type(expected).__name__}"
    if isinstance(expected, (int, float)) and not isinstance(expected, bool):
        return _numbers_apart(expected, found)
    return (0.0, "") if expected == found else (math.inf, f"another value: {_short(found)}, eager has {_short(expected)}")


def _numbers_apart(expected: float, found: float) -> tuple[float, str]:
    if expected == found or (expected != expected and found != found):
        return 0.0, ""
    # Integers may be larger than any float.
    error = float(min(abs(expected - found), sys.maxsize)) if isinstance(expected, int) else abs(expected - found)
    return (error, "") if math.isfinite(error) else (math.inf, _no_number(math.isfinite(expected)))


def _tensors_apart(expected: torch.Tensor, found: torch.Tensor) -> tuple[float, str]:
    if expected.is_nested and found.is_nested:
        expected, found = torch.nested.to_padded_tensor(expected, 0.0), torch.nested.to_padded_tensor(found, 0.0)
    if expected.dtype != found.dtype:
        return math.inf, f"another dtype: {found.dtype}, eager has {expected.dtype}"
    if expected.shape != found.shape:
        return math.inf, f"another size: {list(found.shape)}, eager has {list(expected.shape)}"
    if expected.layout is not torch.strided or found.layout is not torch.strided:
        expected, found = expected.to_dense(), found.to_dense()
    if expected.is_meta or torch.equal(expected, found):
        return 0.0, ""
    wide = torch.complex128 if expected.is_complex() else torch.float64
    is_exact = not (expected.is_floating_point() or expected.is_complex())
    expected, found = expected.to(wide), found.to(wide)
    if not is_exact and torch.allclose(expected, found, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True):
        return 0.0, ""
    error = float((expected - found).abs().max())
    if not math.isfinite(error):
        return math.inf, _no_number(bool((torch.isfinite(expected) & ~torch.isfinite(found)).any()))
    # Integers that differ by less than so large a float tells apart.
    return error or 1.0, ""


def _no_number(is_eager_finite: bool) -> str:
    return NO_NUMBER if is_eager_finite else "other values where eager has NaN or infinity"


def _items(expected: Any, found: Any) -> str:
    if expected is _MISSING or found is _MISSING:
        return "missing, eager has it" if found is _MISSING else "there, eager has none"
    return f"{found} items, eager has {expected}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."

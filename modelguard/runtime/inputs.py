"""Inputs of a model that come without any: described on a command line, as `x=float32[2,16]`, or guessed from the model."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from modelguard.errors import ModelguardError
from modelguard.runtime.copying import deep_copied
from modelguard.runtime.state import apart
from modelguard.runtime.targets import Target, load_target, users_code

_DESCRIBED = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)\s*=\s*)?(?P<dtype>\w+)\[(?P<sizes>[\d,\s]*)\]")
_LARGEST_INDEX = 2
"""Integers are drawn below it: they are mostly indices, and the smallest table has two rows."""

_BATCH, _LENGTH, _SIDE = 2, 8, 32
"""Sizes of guessed inputs that no layer prescribes."""

_INDICES = re.compile(r"(.*_)?(ids?|idx|index|indices|tokens?|positions?|labels?)")
_NOT_A_TENSOR = (bool, int, float, complex, str, bytes, list, dict, "bool", "int", "float", "complex", "str", "bytes")


class InputError(ModelguardError):
    """A described input is none, does not fit the model, or none can be guessed."""

    several_lines = True


def called_target(name: str, descriptions: Sequence[str]) -> tuple[Target, list[str]]:
    """A target with what to call it with: what is described, else its own calls, else what can be guessed, which is told.

    Raises:
        TargetError: it cannot be loaded.
        InputError: what is described does not fit it, or nothing can be guessed.
    """
    target = load_target(name)
    guesses: list[str] = []
    if not target.calls and not descriptions:
        with users_code(f"guessing what to call {name} with"):
            guesses = guessed(target.model)
    if descriptions or not target.calls:
        args, kwargs = described_call(target.model, descriptions or guesses)
        target = replace(target, calls=[args], kwargs=kwargs, others=[])
    return target, guesses


def described_call(model: nn.Module, descriptions: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Random tensors of described types and sizes, as what `model` is called with: those with a name by it, others in order.

    Raises:
        InputError: a description is not `name=dtype[size,size]`, or `forward` does not take these.
    """
    named: dict[str, torch.Tensor] = {}
    positional = []
    for description in descriptions:
        name, tensor = _tensor(description)
        if name is None:
            positional.append(tensor)
        elif name in named:
            raise InputError(f"{name!r} is described twice")
        else:
            named[name] = tensor
    signature = inspect.signature(model.forward)
    try:
        bound = signature.bind(*positional, **named)
    except TypeError as error:
        raise InputError(
            f"{type(model).__name__}.forward{signature} does not take {', '.join(descriptions)}: {error}; "
            "name them as it does, or leave out the names and keep the order"
        ) from None
    return bound.args, bound.kwargs


def guessed(model: nn.Module) -> list[str]:
    """Descriptions of inputs that `model` can be called with, from what `forward` calls them and what its layers take.

    Each guess is tried on a copy, the likeliest first.

    Raises:
        InputError: `forward` takes what cannot be guessed, or fails with each guess.
    """
    remedy = "let it return (module, args), or describe them, as in --input x=float32[2,16]"
    names = []
    for parameter in inspect.signature(model.forward).parameters.values():
        if parameter.default is not parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.annotation in _NOT_A_TENSOR:
            raise InputError(
                f"no arguments are given, and `{parameter.name}` of {type(model).__name__}.forward is no tensor; {remedy}"
            )
        names.append(parameter.name)
    tried: dict[tuple[str, ...], str] = {}
    for floating in _likely(model):
        guess = tuple(f"{name}={_indices() if _INDICES.fullmatch(name) else floating}" for name in names)
        if guess in tried:
            continue
        with apart(model):
            problem = _problem(model, guess)
        if problem is None:
            return list(guess)
        tried[guess] = problem
    guess, problem = next(iter(tried.items()))
    raise InputError(f"no arguments are given, and with what could be guessed ({', '.join(guess)}) it fails: {problem}\n{remedy}")


def _likely(model: nn.Module) -> Iterator[str]:
    """What the first layer takes comes first, then what fits the sizes of parameters and buffers."""
    tensors = [*model.parameters(), *model.buffers()]
    dtype = next((str(each.dtype).removeprefix("torch.") for each in tensors if each.is_floating_point()), "float32")
    for module in model.modules():
        taken = _taken(module)
        if taken is not None:
            yield taken.replace("float", dtype)
            break
    sizes = dict.fromkeys(size for each in tensors for size in reversed(each.shape))
    for size in [*list(sizes)[:_LENGTH], 1]:
        yield f"{dtype}[{_BATCH},{size}]"
    for size in list(sizes)[:_LENGTH]:
        yield f"{dtype}[{_BATCH},{_LENGTH},{size}]"
    yield f"{dtype}[{_BATCH},3,{_SIDE},{_SIDE}]"
    yield _indices()


def _taken(module: nn.Module) -> str | None:
    """What a layer takes; None for one that takes anything."""
    for kind, name, dimensions in _CHANNELS:
        if isinstance(module, kind):
            return f"float[{','.join(map(str, [_BATCH, getattr(module, name), *[_SIDE] * dimensions]))}]"
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return _indices()
    if isinstance(module, nn.LayerNorm):
        return f"float[{','.join(map(str, [_BATCH, *module.normalized_shape]))}]"
    for other, name in _FEATURES:
        if isinstance(module, other):
            return f"float[{_BATCH},{_LENGTH},{getattr(module, name)}]"
    return None


_CHANNELS = (
    (nn.Linear, "in_features", 0),
    (nn.Conv1d, "in_channels", 1),
    (nn.Conv2d, "in_channels", 2),
    (nn.Conv3d, "in_channels", 3),
    (nn.BatchNorm1d, "num_features", 0),
    (nn.BatchNorm2d, "num_features", 2),
    (nn.GroupNorm, "num_channels", 2),
)
_FEATURES = ((nn.RNNBase, "input_size"), (nn.MultiheadAttention, "embed_dim"))


def _indices() -> str:
    return f"int64[{_BATCH},{_LENGTH}]"


def _problem(model: nn.Module, guess: Sequence[str]) -> str | None:
    """Why a model cannot be called like that."""
    try:
        args, kwargs = described_call(model, guess)
        copied = deep_copied(model)
        with torch.no_grad():
            copied(*args, **kwargs)
    except Exception as error:
        # The model's own code may raise anything for what it was not made for.
        return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
    return None


def _tensor(description: str) -> tuple[str | None, torch.Tensor]:
    match = _DESCRIBED.fullmatch(description.strip())
    dtype = getattr(torch, match["dtype"], None) if match else None
    if match is None or not isinstance(dtype, torch.dtype):
        raise InputError(
            f"{description!r} describes no tensor; write name=dtype[sizes], such as x=float32[2,16] or ids=int64[1,8]"
        )
    try:
        return match["name"], _drawn(dtype, [int(size) for size in match["sizes"].split(",") if size.strip()])
    except (RuntimeError, NotImplementedError, MemoryError) as error:
        raise InputError(f"{description!r} cannot be made: {error}") from None


def _drawn(dtype: torch.dtype, sizes: list[int]) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    if dtype is torch.bool:
        return torch.rand(sizes) < 0.5
    return torch.randint(0, _LARGEST_INDEX, sizes).to(dtype)

"""MG114: a memoised function that hands out a tensor."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Operation, StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict


class MemoisedTensor(Rule):
    """A memoised function hands out a tensor in `forward`.

    ## What it does

    Reports a call, in `forward` or in what runs on its behalf, of a function under `functools.lru_cache`,
    `functools.cache` or a decorator like them, when it returns a tensor.

    ## Why it is bad

    There is no assignment to see, yet there is state: the cache owns the tensor. On a hit the captured graph records a
    bare address. When the cache evicts the entry, because its size is bounded or somebody clears it, nobody owns that
    memory, and replay reads whatever has been put there. On a miss at capture, the tensor lies in memory of the graph,
    and the cache hands it to everybody else.

    ## Use instead

    Memoise the numbers and build the tensor from them in each call, or build the tensor once in `__init__` and keep it
    as a buffer.

    ## Severity

    Error. A call that only training reaches is reported one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [aiter: garbage read under replay after an eviction](https://github.com/ROCm/aiter/issues/5193)
    """

    code = "MG114"
    name = "memoised-tensor"
    severity = Severity.ERROR
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import functools

            import torch
            from torch import nn


            @functools.lru_cache(maxsize=8)
            def split_points(parts, total):
                return torch.arange(parts + 1) * (total // parts)


            class Split(nn.Module):
                def forward(self, x):
                    return x + split_points(2, x.shape[0])
            """,
            line=14,
            attribute="split_points",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            from functools import cache as memo

            import torch
            from torch import nn


            class Causal(nn.Module):
                @memo
                def mask(self, length):
                    full = torch.ones(length, length)
                    return full.tril()

                def forward(self, x):
                    return self.mask(x.shape[0]) @ x
            """,
            line=14,
            attribute="self.mask",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import functools

            import torch
            from torch import nn


            def angles(length, dim):
                ramp = torch.outer(torch.arange(length), torch.ones(dim))
                return ramp.cos(), ramp.sin()


            cached_angles = functools.lru_cache(maxsize=None)(angles)


            class Rotary(nn.Module):
                def _rotate(self, x):
                    cos, sin = cached_angles(x.shape[0], x.shape[1])
                    return x * cos + x.roll(1, -1) * sin

                def forward(self, x):
                    return self._rotate(x)
            """,
            line=17,
            attribute="cached_angles",
            severity=Severity.ERROR,
        ),
    )

    VALID = (
        Valid(
            """
            import functools

            import torch
            from torch import nn


            @functools.lru_cache(maxsize=8)
            def split_size(parts, total):
                return max(1, total // parts)


            class Split(nn.Module):
                def forward(self, x):
                    size = split_size(2, x.shape[0])
                    return x + torch.arange(3, device=x.device) * size
            """
        ),
        Valid(
            """
            from functools import cache

            import torch
            from torch import nn


            @cache
            def causal(limit):
                return torch.ones(limit, limit).tril()


            class Causal(nn.Module):
                def __init__(self, limit):
                    super().__init__()
                    self.register_buffer("mask", causal(limit), persistent=False)

                def forward(self, x):
                    length = x.shape[0]
                    return self.mask[:length, :length] @ x
            """
        ),
        Valid(
            """
            import functools

            import torch
            from torch import nn


            def causal(length):
                return torch.ones(length, length).tril()


            @functools.lru_cache
            def wide_dtype(name):
                return torch.float64 if name == "double" else torch.float32


            class Causal(nn.Module):
                def forward(self, x):
                    mask = causal(x.shape[0]).to(wide_dtype("double"))
                    return mask @ x.to(mask.dtype)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if write.operation is not Operation.MEMOISE:
            return None
        message = (
            f"memoised function `{write.path}` returns a tensor in `{write.function}`: only its cache keeps that tensor alive, "
            "so replay reads freed memory once the entry is evicted"
        )
        advice = (
            f"memoise the numbers and build the tensor in each call, or call `{write.path}` once in `__init__` and keep the "
            "result as a buffer"
        )
        return Verdict(Severity.ERROR, message, advice, Effect.FROZEN)

"""MG109: state that the first call, or the first longer call, fills."""

from __future__ import annotations

from modelguard.findings import Effect, GuardContext, Severity
from modelguard.observation import Kind, Operation, Root, StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict
from modelguard.rules.reading import fills_once, holds, is_shared, within

_FILLING = (Operation.REBIND, Operation.ITEM, Operation.MUTATE)


class LazyCache(Rule):
    """State is filled or grown on demand in `forward`, under a check of that same state.

    ## What it does

    Reports attributes and containers that are written under a check of themselves: `is None`, `hasattr`, `not in`, a
    comparison of length, dtype or device, a `try` that catches the missing key. A `cached_property` that is first read
    in the step counts too.

    ## Why it is bad

    Capture sees one side of the check. If it is the filling side, the tensor lies in memory of the graph and every
    replay computes it again; if it is the other, the graph holds the address of what happened to be cached. When a
    longer input makes eager mode fill it anew, every graph that was captured before reads memory that has been freed.

    State that is filled once, from nothing that the inputs decide, is right as long as a warm-up call comes before
    capture.

    ## Use instead

    Build it in `__init__` for the largest size that is served, as a buffer, and slice it. Where the size comes from
    outside, give the module a method that is called before capture.

    ## Severity

    Error; warning when it is filled once and does not depend on the inputs. A write that only training reaches is reported
    one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [transformers: frequencies created on the first call](https://github.com/huggingface/transformers/pull/30775)
    - [gpt-oss: cos and sin of the longest length so far](https://github.com/openai/gpt-oss/pull/43)
    """

    code = "MG109"
    name = "lazy-cache"
    severity = Severity.ERROR
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Rotary(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.dim = dim
                    self.cos = None

                def forward(self, x):
                    length = x.shape[0]
                    if self.cos is None or self.cos.shape[0] < length:
                        self.cos = torch.outer(torch.arange(length), torch.ones(self.dim)).cos()
                    return x * self.cos[:length]
            """,
            line=14,
            attribute="self.cos",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Frequencies(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.dim = dim
                    self.register_buffer("freq", None, persistent=False)

                def forward(self, position):
                    if self.freq is None:
                        ramp = torch.arange(0, self.dim, 2, device=position.device)
                        self.freq = 1.0 / (10000.0 ** (ramp / self.dim))
                    return torch.outer(position, self.freq).cos()
            """,
            line=14,
            attribute="self.freq",
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Causal(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.masks = {}

                def _mask(self, length):
                    if length not in self.masks:
                        self.masks[length] = torch.ones(length, length).tril()
                    return self.masks[length]

                def forward(self, x):
                    return self._mask(x.shape[0]) @ x
            """,
            line=12,
            attribute="self.masks",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Positions(nn.Module):
                def __init__(self, limit, width):
                    super().__init__()
                    self.register_buffer("table", torch.randn(limit, width), persistent=False)

                def forward(self, x):
                    if self.table.dtype != x.dtype:
                        self.table = self.table.to(x.dtype)
                    return x + self.table[: x.shape[0]]
            """,
            line=12,
            attribute="self.table",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            from functools import cached_property

            import torch
            from torch import nn


            class Hadamard(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.width = width

                @cached_property
                def matrix(self):
                    return torch.ones(self.width, self.width).triu()

                def forward(self, x):
                    return x @ self.matrix
            """,
            line=17,
            attribute="self.matrix",
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            from torch import nn


            class StepInfo:
                slots = None


            class DeltaAttention(nn.Module):
                def _slots(self, info: StepInfo, table):
                    if info.slots is None:
                        info.slots = table * 2
                    return info.slots

                def forward(self, x, table, info: StepInfo):
                    return x + self._slots(info, table)
            """,
            line=11,
            attribute="info.slots",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Causal(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.masks = {}

                def forward(self, x):
                    length = x.shape[0]
                    try:
                        mask = self.masks[length]
                    except KeyError:
                        mask = torch.ones(length, length).tril()
                        self.masks[length] = mask
                    return mask @ x
            """,
            line=16,
            attribute="self.masks",
            severity=Severity.ERROR,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Rotary(nn.Module):
                def __init__(self, dim, limit=4096):
                    super().__init__()
                    cos = torch.outer(torch.arange(limit), torch.ones(dim)).cos()
                    self.register_buffer("cos", cos, persistent=False)

                def forward(self, x):
                    return x * self.cos[: x.shape[0]]
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Masked(nn.Module):
                def forward(self, x, mask=None):
                    if mask is None:
                        mask = torch.ones(x.shape[0], x.shape[0]).tril()
                    return mask @ x
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Prepared(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.mask = None

                def prepare(self, limit):
                    if self.mask is None or self.mask.shape[0] < limit:
                        self.mask = torch.ones(limit, limit).tril()

                def forward(self, x):
                    if self.mask is None:
                        raise RuntimeError("call prepare() before the first step")
                    length = x.shape[0]
                    return self.mask[:length, :length] @ x
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Causal(nn.Module):
                def __init__(self, depth):
                    super().__init__()
                    self.windows = [2**level for level in range(depth)]

                def forward(self, x):
                    masks = {}
                    for window in self.windows:
                        if window not in masks:
                            masks[window] = torch.ones(x.shape[0], x.shape[0]).tril(-window)
                        x = masks[window] @ x
                    return x
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if not self._fills_on_demand(write):
            return None
        if fills_once(write):
            what = "the tensor" if within(write.value, Kind.ANY_TENSOR) else "a tensor that is stored here"
            message = (
                f"`{write.path}` is filled on first use in `{write.function}`: if the captured call is the first one, {what} "
                "lies in the graph's own memory, which every replay overwrites"
            )
            advice = f"build `{write.path}` in `__init__`, or make a warm-up call before the step is captured"
            return Verdict(Severity.WARNING, message, advice, Effect.FROZEN)
        message = (
            f"`{write.path}` is updated on demand in `{write.function}`: capture records one outcome of its check for good, and "
            "a graph captured before an update goes on using the old value, which may have been freed"
        )
        advice = (
            f"build `{write.path}` in `__init__` for the largest size (a tensor as a buffer, which is sliced here), "
            "or update it in a method that is called before the step is captured"
        )
        return Verdict(Severity.ERROR, message, advice, Effect.FROZEN)

    @staticmethod
    def _fills_on_demand(write: StateWrite) -> bool:
        if is_shared(write) or holds(write.owner, Kind.CONFIG):
            return write.operation is Operation.CACHE_PROPERTY
        if write.operation is Operation.CACHE_PROPERTY:
            return True
        if write.operation not in _FILLING or write.guard is not GuardContext.LAZY:
            return False
        if write.root is Root.ARGUMENT and write.operation is not Operation.REBIND:
            # A container that the caller hands in, or has in an object, is the caller's cache: MG112 notes what is put into it.
            return False
        plain = within(write.declared, Kind.NUMBER | Kind.BOOL) and within(write.value, Kind.NUMBER | Kind.BOOL)
        return not (plain and write.root is Root.SELF)

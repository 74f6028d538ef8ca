"""MG107: a tensor that stays the same object and gets other memory."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Kind, Operation, StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict
from modelguard.rules.reading import holds, local_name

_AUGMENTED = "augmented data"


class StorageSwapped(Rule):
    """A tensor of the module is given another storage in `forward`.

    ## What it does

    Reports `self.weight.data = ...`, `set_`, `resize_`, `torch.utils.swap_tensors` and a child moved or cast with
    `.to(...)`, `.half()`, `.cuda()` and the like, when they run on behalf of `forward`.

    ## Why it is bad

    The tensor object stays the same, so nothing in Python notices: no guard fails, and Dynamo's record of side effects
    does not hold the change. But a CUDA graph holds the address of the old memory. Replay reads it after it was freed
    and handed to another tensor, and what comes out is garbage without an error.

    `p.data *= mask` writes in place and then stores the same memory back. The kernel is replayed, yet the store is
    hidden from autograd, and CUDA graph trees refuse it.

    ## Use instead

    Compute into a local name and use the functional form (`F.linear(x, self.weight * self.mask)`), or write into the
    tensor under `torch.no_grad()` with `copy_` or `mul_`. Move and cast modules before the step is captured.

    ## Severity

    Error; warning for an augmented assignment to `.data`. A write that only training reaches is reported one level
    lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [PyTorch: a convolution that masks its weight through `.data`](https://github.com/pytorch/pytorch/issues/183313)
    """

    code = "MG107"
    name = "storage-swapped"
    severity = Severity.ERROR
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn


            class MaskedLinear(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(width, width))
                    self.register_buffer("mask", torch.ones(width, width).tril())

                def forward(self, x):
                    self.weight.data = self.weight.data * self.mask
                    return F.linear(x, self.weight)
            """,
            line=13,
            attribute="self.weight",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class MaskedConv(nn.Conv1d):
                def __init__(self):
                    super().__init__(2, 2, 3, padding=1)
                    self.register_buffer("mask", torch.ones_like(self.weight).tril())

                def forward(self, x):
                    self.weight.data *= self.mask
                    return super().forward(x)
            """,
            line=11,
            attribute="self.weight",
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Workspace(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("scratch", torch.empty(0))

                def forward(self, x):
                    scratch = self.scratch
                    scratch.resize_(x.shape)
                    torch.mul(x, 2, out=scratch)
                    return scratch.sum()
            """,
            line=12,
            attribute="self.scratch",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Offloaded(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.expert = nn.Linear(width, width)

                def forward(self, x):
                    self.expert.to(x.device)
                    return self.expert(x)
            """,
            line=11,
            attribute="self.expert",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Paged(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("page", torch.zeros(width))

                def forward(self, x, pages, number):
                    self.page.set_(pages[number])
                    return x + self.page
            """,
            line=11,
            attribute="self.page",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class DoubleBuffered(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("front", torch.zeros(width))

                def _flip(self, back):
                    torch.utils.swap_tensors(self.front, back)

                def forward(self, x, back):
                    self._flip(back)
                    return x + self.front
            """,
            line=11,
            attribute="self.front",
            severity=Severity.ERROR,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn


            class MaskedLinear(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(width, width))
                    self.register_buffer("mask", torch.ones(width, width).tril())

                def forward(self, x):
                    return F.linear(x, self.weight * self.mask)
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Peeking(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(width, width))

                def forward(self, x):
                    weight = self.weight.data
                    weight = weight / weight.norm()
                    return x @ weight
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Workspace(nn.Module):
                def forward(self, x):
                    scratch = torch.empty(0, device=x.device)
                    scratch.resize_(x.shape)
                    torch.mul(x, 2, out=scratch)
                    return scratch.sum()
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Loaded(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(width, width))

                def load_shard(self, shard):
                    self.weight.data = shard

                def forward(self, x):
                    x = x.to(self.weight.dtype)
                    return x @ self.weight
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if write.operation is not Operation.SWAP:
            return None
        path = write.path.removesuffix(".data")
        if write.verb == _AUGMENTED:
            message = (
                f"`{write.path}` is changed by an augmented assignment to its `.data` in `{write.function}`: the kernel is "
                "replayed, but autograd does not see it and CUDA graph trees refuse the store to `.data`"
            )
            advice = (
                f"compute into a local name (`{local_name(path)} = ...`), or write `{path}.mul_(...)` under `torch.no_grad()`"
            )
            return Verdict(Severity.WARNING, message, advice, Effect.REPLAYED)
        if holds(write.declared, Kind.MODULE):
            message = (
                f"module `{write.path}` is moved or cast by `.{write.verb or 'to'}(...)` in `{write.function}`: its tensors "
                "get other memory, and a captured graph goes on using the old memory after it was freed"
            )
            advice = f"move or cast `{write.path}` once, before the step is captured, and cast the input instead"
            return Verdict(Severity.ERROR, message, advice, Effect.LOST)
        message = (
            f"`{write.path}` is given other memory {_how(write)} in `{write.function}`: a captured graph goes on using the "
            "old memory after it was freed"
        )
        advice = (
            f"write into the memory it has with `{path}.copy_(...)` under `torch.no_grad()`, "
            f"or compute into a local name (`{local_name(path)} = ...`)"
        )
        return Verdict(Severity.ERROR, message, advice, Effect.LOST)


def _how(write: StateWrite) -> str:
    if write.verb in ("", "data", ".data"):
        return "through `.data`"
    if write.verb.endswith("swap_tensors"):
        return "by `swap_tensors(...)`"
    return f"by `.{write.verb}(...)`"

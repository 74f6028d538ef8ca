"""MG108: a kernel that writes memory which outlives the step."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Kind, Operation, Root, StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict
from modelguard.rules.reading import holds, tensor_word, writes_in_place


class BufferWrittenInPlace(Rule):
    """A tensor that outlives the step is written in place in `forward`.

    ## What it does

    Reports in-place kernels (`copy_`, `add_`, `index_copy_`, ...), item and slice writes, `+=` on a tensor and `out=`
    on a buffer, a parameter, a tensor attribute or an argument.

    ## Why it is bad

    It is the right way to change state: the kernel is part of the graph and is replayed on the same address. It is a
    note because it has costs that are easy to miss. `torch.compile(mode="reduce-overhead")` skips CUDA graphs for a
    graph that mutates its inputs, `torch.export` turns the buffer into an input and an output, and warm-up steps before
    capture change it too, so it needs a reset before serving.

    A tensor that `forward` creates when it is missing, writes, and hands back is worse: in the next call it lies in
    memory of an earlier graph run.

    ## Use instead

    Nothing, where later steps are meant to see the write. Where they are not, write into a new tensor or return the
    value. Let the caller create state that comes in as an argument, once, before capture.

    ## Severity

    Note; warning for an argument that `forward` itself creates when it is missing and hands back.

    ## References

    - [CUDAGraph Trees: input mutation](https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html)
    - [PyTorch: augmented assignment to a buffer](https://github.com/pytorch/pytorch/issues/111676)
    - [PyTorch: state made inside the compiled function and written to](https://github.com/pytorch/pytorch/issues/192748)
    """

    code = "MG108"
    name = "buffer-written-in-place"
    severity = Severity.NOTE
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class RunningNorm(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("mean", torch.zeros(width))

                def forward(self, x):
                    self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
                    return x - self.mean
            """,
            line=11,
            attribute="self.mean",
            severity=Severity.NOTE,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class KeyCache(nn.Module):
                def __init__(self, slots, width):
                    super().__init__()
                    self.register_buffer("keys", torch.zeros(slots, width))

                def forward(self, x, slot):
                    keys = self.keys
                    keys[slot] = x
                    return x @ keys.t()
            """,
            line=12,
            attribute="self.keys",
            severity=Severity.NOTE,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Ledger(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("total", torch.zeros(width))

                def forward(self, x):
                    self.total += x
                    return self.total.clone()
            """,
            line=11,
            attribute="self.total",
            severity=Severity.NOTE,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Ledger(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("total", torch.zeros(width))

                def forward(self, x):
                    torch.add(self.total, x, out=self.total)
                    return self.total.clone()
            """,
            line=11,
            attribute="self.total",
            severity=Severity.NOTE,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Positive(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.weight = nn.Parameter(torch.rand(width))

                def forward(self, x):
                    with torch.no_grad():
                        self.weight.clamp_(min=0)
                    return x * self.weight
            """,
            line=12,
            attribute="self.weight",
            severity=Severity.NOTE,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Explicit(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)

                def forward(self, x, state=None):
                    if state is None:
                        state = torch.zeros_like(x)
                    state.copy_(state + self.proj(x))
                    return x + state, state
            """,
            line=13,
            attribute="state",
            severity=Severity.WARNING,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Ledger(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("start", torch.zeros(width))

                def forward(self, x):
                    total = self.start.clone()
                    total += x
                    total.clamp_(min=0)
                    return total
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Explicit(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)

                def forward(self, x, state=None):
                    if state is None:
                        state = torch.zeros_like(x)
                    state = state + self.proj(x)
                    return x + state, state
            """
        ),
        Valid(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn


            class Block(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.weight = nn.Parameter(torch.rand(width))

                def forward(self, x):
                    hidden = self.proj(x)
                    hidden.relu_()
                    hidden[..., 0] = 0.0
                    return F.relu(hidden * self.weight, inplace=True)
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Resettable(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("total", torch.zeros(width))

                def reset(self):
                    self.total.zero_()

                def forward(self, x):
                    return x + self.total
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if not writes_in_place(write):
            return None
        if write.operation is not Operation.IN_PLACE and holds(write.owner, Kind.CONFIG):
            return None
        if write.root is Root.ARGUMENT:
            return self._argument(write)
        word = tensor_word(write.declared)
        if word == "parameter":
            advice = (
                f"nothing to change if the step is meant to train `{write.path}`; "
                "otherwise compute into a local name and use the functional form"
            )
        else:
            advice = f"nothing to change if later steps need `{write.path}`; otherwise write into a new tensor and return it"
        if write.verb == "[...] =":
            advice += "; an index that moves from step to step must be a tensor (`index_copy_`), not a Python number"
        item = write.operation is Operation.ITEM or write.verb == "[...] ="
        replayed = (
            "this is replayed, at the place it had at capture where the index is a Python number" if item else "this is replayed"
        )
        message = (
            f"{word} `{write.path}` is written in place in `{write.function}`: {replayed}, but "
            '`torch.compile(mode="reduce-overhead")` may skip CUDA graphs because of it, and warm-up calls before capture '
            "write it too"
        )
        return Verdict(Severity.NOTE, message, advice, Effect.REPLAYED)

    @staticmethod
    def _argument(write: StateWrite) -> Verdict:
        if write.round_trip:
            message = (
                f"`{write.path}` is created in `{write.function}` when it is missing, written in place and handed back: in the "
                "next call it lies in memory of an earlier graph run, which replay overwrites"
            )
            advice = (
                f"let the caller create `{write.path}` once before capture, or return a new tensor instead of writing into it"
            )
            return Verdict(Severity.WARNING, message, advice, Effect.REPLAYED)
        message = (
            f"argument `{write.path}` is written in place in `{write.function}`: this is replayed on the memory that was "
            "captured, so the caller must pass the same tensor to every step"
        )
        advice = f"keep one static tensor for `{write.path}` and copy each step's values into it, or return a new tensor"
        return Verdict(Severity.NOTE, message, advice, Effect.REPLAYED)

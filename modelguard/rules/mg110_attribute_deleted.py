"""MG110: an attribute that the step removes."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Operation, StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict
from modelguard.rules.reading import local_name


class AttributeDeleted(Rule):
    """An attribute of the module is deleted in `forward`.

    ## What it does

    Reports `del self.x`, `delattr(self, "x")` and the same on children and other objects that outlive the step.

    ## Why it is bad

    The deletion happens once, while the graph is captured. If the attribute held the last reference to a tensor, the
    graph goes on reading its memory after it was handed to another tensor. If a check of the attribute chooses a
    branch, replay keeps the branch that capture took.

    ## Use instead

    Leave the attribute and let a local name go out of scope. Drop what is no longer needed outside of the captured
    step.

    ## Severity

    Error. A write that only training reaches is reported one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    """

    code = "MG110"
    name = "attribute-deleted"
    severity = Severity.ERROR
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Prompted(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.prompt = torch.zeros(width)

                def forward(self, x):
                    if hasattr(self, "prompt"):
                        x = x + self.prompt
                        del self.prompt
                    return x
            """,
            line=13,
            attribute="self.prompt",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Masked(nn.Module):
                def __init__(self, limit):
                    super().__init__()
                    self.register_buffer("mask", torch.ones(limit))

                def _release(self):
                    delattr(self, "mask")

                def forward(self, x):
                    mask = getattr(self, "mask", None)
                    if mask is None:
                        return x
                    self._release()
                    return x * mask
            """,
            line=11,
            attribute="self.mask",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Encoder(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.memory = torch.zeros(width)


            class Decoder(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.encoder = Encoder(width)

                def forward(self, x):
                    encoder = self.encoder
                    if hasattr(encoder, "memory"):
                        x = x + encoder.memory
                        del encoder.memory
                    return x
            """,
            line=20,
            attribute="self.encoder.memory",
            severity=Severity.ERROR,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Prompted(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("prompt", torch.zeros(width))

                def forward(self, x):
                    prompt = self.prompt.to(x.dtype)
                    x = x + prompt
                    del prompt
                    return x
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Masked(nn.Module):
                def __init__(self, limit):
                    super().__init__()
                    self.register_buffer("mask", torch.ones(limit))

                def release(self):
                    del self.mask

                def forward(self, x):
                    return x * self.mask
            """
        ),
        Valid(
            """
            from types import SimpleNamespace

            from torch import nn


            class Scratch(nn.Module):
                def forward(self, x):
                    work = SimpleNamespace(twice=x * 2)
                    parts = {"twice": work.twice, "once": x}
                    del work.twice
                    del parts["twice"]
                    return parts["once"]
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if write.operation is not Operation.DELETE:
            return None
        message = (
            f"`{write.path}` is deleted in `{write.function}`: replay does not run the deletion, and if it frees a tensor, the "
            "captured graph goes on reading memory that by then belongs to another tensor"
        )
        advice = f"leave `{write.path}` in place and use a local name (`{local_name(write.path)} = ...`) for what is short-lived"
        return Verdict(Severity.ERROR, message, advice, Effect.LOST)

"""MG202: a test of a tensor's data."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Hindrance, Obstacle
from modelguard.rules.base import CaptureRule, Invalid, Valid, Verdict


class DataDependentBranch(CaptureRule):
    """A branch in `forward` depends on a tensor's data.

    ## What it does

    Reports `if`, `while`, `assert`, `and`, `or`, `not` and conditional expressions that ask for the truth of a tensor, or of
    a number that was read from one. Tests of sizes, dtypes, `None`, types and settings are none.

    ## Why it is bad

    The host has to wait for the tensor, which a CUDA graph cannot hold; the branch that was taken while it was captured is
    the one that every replay takes. Dynamo breaks its graph, or fails where it must not. With guards dropped, the first
    step decides for all others.

    ## Use instead

    Compute both sides and choose by `torch.where` or a product, or use `torch.cond`. Check what callers hand in before the
    captured step, or guard the check by `if not torch.compiler.is_compiling()`. Use `torch._assert_async` to assert.

    ## Severity

    Warning. What only training reaches is reported one level lower.

    ## References

    - [Dynamo: data-dependent control flow](https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html)
    - [torch.cond](https://docs.pytorch.org/docs/stable/cond.html)
    - [A rope that branches on the largest position](https://github.com/huggingface/diffusers/issues/13633)
    """

    code = "MG202"
    name = "data-dependent-branch"
    severity = Severity.WARNING
    since = "0.1"
    hindrance = Hindrance.BRANCH

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Clip(nn.Module):
                def forward(self, x: torch.Tensor) -> torch.Tensor:
                    if (x.abs() > 10.0).any():
                        x = x.clamp(-10.0, 10.0)
                    return x
            """,
            line=7,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Stretched(nn.Module):
                def forward(self, position):
                    length = torch.max(position) + 1
                    factor = 4.0 if length > 6 else 1.0
                    return position / factor
            """,
            line=8,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Initialised(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("ready", torch.tensor(False))
                    self.bias = nn.Parameter(torch.zeros(4))

                def forward(self, x):
                    return x + self.bias if self.ready else x
            """,
            line=12,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Noisy(nn.Module):
                def forward(self, x):
                    chance = torch.rand(())
                    if self.training and chance < 0.1:
                        return x
                    return x * 2
            """,
            line=8,
            severity=Severity.NOTE,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Clip(nn.Module):
                def forward(self, x: torch.Tensor) -> torch.Tensor:
                    large = (x.abs() > 10.0).any()
                    return torch.where(large, x.clamp(-10.0, 10.0), x)
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Masked(nn.Module):
                def __init__(self, config):
                    super().__init__()
                    self.config = config

                def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
                    if mask is not None and self.config.use_mask:
                        x = x * mask
                    if x.dtype != torch.float32 or not isinstance(x, torch.Tensor):
                        raise TypeError("give a float tensor")
                    return x
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Checked(nn.Module):
                def forward(self, x: torch.Tensor) -> torch.Tensor:
                    if not torch.compiler.is_compiling() and x.isnan().any():
                        raise ValueError("not a number")
                    return x * 2
            """
        ),
    )

    def verdict(self, obstacle: Obstacle) -> Verdict:
        asked = "a number that was read from a tensor" if obstacle.verb == "number" else "a tensor's data"
        message = (
            f"`{obstacle.subject}` asks for {asked} to choose a branch in `{obstacle.function}`: replay keeps the branch that "
            "capture took, and Dynamo breaks its graph"
        )
        advice = "compute both sides and choose by `torch.where`, use `torch.cond`, or decide before the captured step"
        return Verdict(Severity.WARNING, message, advice, Effect.FROZEN)

"""MG208: a test of the size of an input."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Hindrance, Obstacle
from modelguard.rules.base import CaptureRule, Invalid, Valid, Verdict


class ShapeBranch(CaptureRule):
    """A branch in `forward` depends on the size of an input.

    ## What it does

    Reports `if`, `while` and conditional expressions that compare a size computed from the inputs: `x.shape[0] > 1`,
    `x.numel() == 0`, `len(x)`. A test that only raises or warns is none, nor is one of the number of dimensions.

    ## Why it is bad

    One graph stands for one way through the branch. Dynamo guards on the size and compiles again for others; where guards
    are dropped, as in serving engines that mark the number of tokens as dynamic, the first trace decides for all sizes
    without a word. It matters only where that size varies from step to step.

    ## Use instead

    Make the condition independent of a size that varies, compute both sides, or move the choice into a custom operator.

    ## Severity

    Note.

    ## References

    - [vLLM: branching on the number of tokens](https://github.com/vllm-project/vllm/pull/28094)
    - [Dynamo: dynamic shapes](https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html)
    """

    code = "MG208"
    name = "shape-branch"
    severity = Severity.NOTE
    since = "0.1"
    hindrance = Hindrance.SIZE_BRANCH

    INVALID = (
        Invalid(
            """
            from torch import nn


            class ByTokens(nn.Module):
                def forward(self, x):
                    if x.size(0) % 4 == 0:
                        return x * 2
                    return x + 1
            """,
            line=6,
            severity=Severity.NOTE,
        ),
        Invalid(
            """
            from torch import nn


            class ByTokens(nn.Module):
                def forward(self, x):
                    batch, length, _ = x.shape
                    scale = 1.0 if length > 16 else 0.5
                    return x * scale
            """,
            line=7,
            severity=Severity.NOTE,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class ByTokens(nn.Module):
                def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                    while len(y) < x.shape[0]:
                        y = torch.cat([y, y])
                    return x + y[: x.shape[0]]
            """,
            line=7,
            severity=Severity.NOTE,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class ByTokens(nn.Module):
                def forward(self, x):
                    even = torch.full((), x.size(0), device=x.device) % 4 == 0
                    return torch.where(even, x * 2, x + 1)
            """
        ),
        Valid(
            """
            from torch import nn


            class Checked(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.width = width
                    self.weight = nn.Parameter(nn.Linear(width, 1).weight)

                def forward(self, x):
                    if x.shape[-1] != self.width:
                        raise ValueError(f"expected {self.width} features, got {x.shape[-1]}")
                    assert x.shape[0] > 0
                    if self.weight.shape[0] == 1 and x.dim() == 2:
                        return x @ self.weight.T
                    return x
            """
        ),
        Valid(
            """
            from torch import nn


            class Depth(nn.Module):
                def __init__(self, layers):
                    super().__init__()
                    self.layers = nn.ModuleList(layers)

                def forward(self, x, count=2):
                    if len(self.layers) > count:
                        for layer in self.layers:
                            x = layer(x)
                    return x
            """
        ),
    )

    def verdict(self, obstacle: Obstacle) -> Verdict:
        message = (
            f"`{obstacle.subject}` in `{obstacle.function}` branches on the size of an input: with guards dropped, the branch of "
            "the first trace stands for all sizes"
        )
        advice = "make the condition independent of sizes that vary from step to step, or move the choice into a custom operator"
        return Verdict(Severity.NOTE, message, advice, Effect.FROZEN)

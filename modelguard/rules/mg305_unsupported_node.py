"""MG305: a traced graph holds what a CUDA graph, or generated code, cannot."""

from __future__ import annotations

from modelguard.findings import Evidence, Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict


class UnsupportedNode(Rule):
    """A traced graph holds what a CUDA graph, or generated code, cannot.

    ## What it does

    Reported by `modelguard ready`: the model is traced, but a node of its graph gives a value that Python has to wait for, or a
    result whose size only the device knows; or no code can be generated for it.

    ## Why it is bad

    A stream that is being captured refuses to wait for a value: `operation not permitted when stream is capturing`. Engines that
    capture whole graphs fail, those that split at such operators run them outside.

    ## Use instead

    Keep the value in a tensor, keep sizes fixed with a mask or padding, or work the number out before the step and pass it in.

    ## Severity

    Error.

    ## References

    - [PyTorch: CUDA graphs, constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs)
    """

    code = "MG305"
    name = "unsupported-node"
    severity = Severity.ERROR
    since = "0.1"
    evidence = Evidence.TRACE
    advice = "keep values on the device and sizes fixed"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    return x * x.sum().item()


            def build():
                return Net(), (torch.ones(2, 4),)
            """,
            line=7,
            attribute="",
        ),
    )
    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    return x * torch.sum(x)


            def build():
                return Net(), (torch.ones(2, 4),)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        return None

    @staticmethod
    def message(family: str, reason: str) -> str:
        """What the finding on a node says."""
        return f"the graph cannot be captured here ({family}): {reason}"

"""MG306: a tracer other than Dynamo cannot trace the model."""

from __future__ import annotations

from modelguard.findings import Evidence, Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict


class Untraceable(Rule):
    """A tracer other than Dynamo cannot trace the model.

    ## What it does

    Reported by `modelguard ready --tracer fx|export|make_fx`: the tracer gave up, and says why.

    ## Why it is bad

    There is no graph, and so nothing to generate or compile. These tracers stop at the first obstacle; Dynamo tells all of them.

    ## Use instead

    Trace with Dynamo first, and clear what it reports.

    ## Severity

    Error.

    ## References

    - [PyTorch: torch.fx, limitations of symbolic tracing](https://docs.pytorch.org/docs/stable/fx.html#limitations-of-symbolic-tracing)
    """

    code = "MG306"
    name = "untraceable"
    severity = Severity.ERROR
    since = "0.1"
    evidence = Evidence.TRACE
    advice = "trace with Dynamo first, which tells all obstacles"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    for row in x:
                        x = x + row
                    return x


            def build():
                return Net(), (torch.ones(2, 4),)


            TRACER = "fx"
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
                    for row in x:
                        x = x + row
                    return torch.relu(x)


            def build():
                return Net(), (torch.ones(2, 4),)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        return None

    @staticmethod
    def message(tracer: str, reason: str) -> str:
        """What the finding on a model without a graph says."""
        return f"{tracer} cannot trace the model: {reason}"

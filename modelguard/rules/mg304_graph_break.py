"""MG304: dynamo cannot trace the model into one graph, because of this line."""

from __future__ import annotations

from modelguard.findings import Evidence, Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict


class GraphBreak(Rule):
    """Dynamo cannot trace the model into one graph, because of this line.

    ## What it does

    Reported by `modelguard ready`: Dynamo refused what this line does. All such lines of a
    model are told in one run: each is got past, and the trace goes on behind it.

    ## Why it is bad

    Serving engines compile with `fullgraph=True` and fail here. `torch.compile` without it makes two graphs of
    one, runs Python in between, and has more launches, more guards and less to fuse.

    ## Use instead

    What the finding's help says, by the family of the obstacle: `torch.where` for branches on values, tensors kept on the device
    for `.item()`, logging outside of `forward`, plain modules for scripted ones.

    ## Severity

    Error.

    ## References

    - [PyTorch: graph breaks, common ones and what to do](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.graph_breaks_index.html)
    """

    code = "MG304"
    name = "graph-break"
    severity = Severity.ERROR
    since = "0.1"
    evidence = Evidence.TRACE
    advice = "what breaks the graph has to be written otherwise"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    if x.sum() > 0:
                        return x.relu()
                    return x


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
                    return torch.where(x.sum() > 0, torch.relu(x), x)


            def build():
                return Net(), (torch.ones(2, 4),)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        return None

    @staticmethod
    def message(family: str, reason: str) -> str:
        """What the finding on an obstacle says."""
        return f"Dynamo breaks the graph here ({family}): {reason}"

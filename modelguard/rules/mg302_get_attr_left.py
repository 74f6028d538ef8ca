"""MG302: a traced graph reads an attribute of the model by its name."""

from __future__ import annotations

from modelguard.findings import Evidence, Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict


class GetAttrLeft(Rule):
    """A traced graph reads an attribute of the model by its name.

    ## What it does

    Reported by `modelguard ready`: the graph has a `get_attr` node, which reads a parameter, a buffer, a constant tensor or the
    graph of a higher-order operator from the module.

    ## Why it is bad

    Code generators that inline a graph refuse the node. modelguard's own takes it: what is read becomes a constant of the
    code, as it is when the code is generated.

    ## Use instead

    Nothing, where the generator takes it. Else trace with Dynamo, whose graphs take parameters and buffers as inputs.

    ## Severity

    Note: it keeps nothing from being captured.

    ## References

    - [vLLM: piecewise compilation and its code generator](https://docs.vllm.ai/en/latest/design/torch_compile.html)
    """

    code = "MG302"
    name = "get-attr-left"
    severity = Severity.NOTE
    since = "0.1"
    evidence = Evidence.TRACE
    advice = "trace with Dynamo, whose graphs take parameters as inputs, where the generator refuses it"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(4))

                def forward(self, x):
                    return torch.relu(x) * self.scale


            def build():
                return Net(), (torch.ones(2, 4),)


            TRACER = "fx"
            """,
            line=10,
            attribute="",
        ),
    )
    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(4))

                def forward(self, x):
                    return torch.relu(x) * self.scale


            def build():
                return Net(), (torch.ones(2, 4),)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        return None

    @staticmethod
    def message(path: str) -> str:
        """What the finding on an attribute that is read says."""
        return f"the graph reads `{path}` from the module by name, which strict code generation refuses"

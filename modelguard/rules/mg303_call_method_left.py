"""MG303: a traced graph calls a method of a value."""

from __future__ import annotations

from modelguard.findings import Evidence, Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict


class CallMethodLeft(Rule):
    """A traced graph calls a method of a value.

    ## What it does

    Reported by `modelguard ready`: the graph has a `call_method` node, as Dynamo and `torch.fx` make of `x.view(...)`.

    ## Why it is bad

    Code generators that inline a graph refuse the node, and passes over operators have to know methods and functions apart.
    modelguard's own generator takes it.

    ## Use instead

    Nothing, where the generator takes it. Else have the graph functionalised (`torch.export`, AOTAutograd), which turns methods
    into operators.

    ## Severity

    Note: it keeps nothing from being captured.

    ## References

    - [vLLM: piecewise compilation and its code generator](https://docs.vllm.ai/en/latest/design/torch_compile.html)
    """

    code = "MG303"
    name = "call-method-left"
    severity = Severity.NOTE
    since = "0.1"
    evidence = Evidence.TRACE
    advice = "functionalise the graph, as torch.export does, where the generator refuses it"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    return x.flatten().relu()


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
                    return torch.relu(torch.flatten(x))


            def build():
                return Net(), (torch.ones(2, 4),)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        return None

    @staticmethod
    def message(name: str) -> str:
        """What the finding on a method call says."""
        return f"the graph calls the method `{name}`, which strict code generation refuses"

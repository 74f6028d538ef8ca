"""MG301: a traced graph calls a module in place of holding its operators."""

from __future__ import annotations

from modelguard.findings import Evidence, Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict


class CallModuleLeft(Rule):
    """A traced graph calls a module in place of holding its operators.

    ## What it does

    Reported by `modelguard ready`: the graph that the tracer made has a `call_module` node.
    `torch.fx` leaves the layers of `torch.nn` like this; Dynamo,
    which goes into all modules, leaves pieces of split graphs and what it was told to leave.

    ## Why it is bad

    Code generators that inline a graph refuse it (`call_module is not allowed for codegen target ...`), and passes over operators
    do not see what is inside. Each call also goes through `nn.Module.__call__`.

    ## Use instead

    Trace with Dynamo or `torch.export`, which inline modules; for `torch.fx`, a tracer whose `is_leaf_module` says no.

    ## Severity

    Warning.

    ## References

    - [vLLM: piecewise compilation and its code generator](https://docs.vllm.ai/en/latest/design/torch_compile.html)
    """

    code = "MG301"
    name = "call-module-left"
    severity = Severity.WARNING
    since = "0.1"
    evidence = Evidence.TRACE
    advice = "trace with Dynamo, which inlines modules, or generate with submodules allowed"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.up = nn.Linear(4, 4)

                def forward(self, x):
                    return torch.relu(self.up(x))


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
                    self.up = nn.Linear(4, 4)

                def forward(self, x):
                    return torch.relu(self.up(x))


            def build():
                return Net(), (torch.ones(2, 4),)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        return None

    @staticmethod
    def message(path: str, why: str) -> str:
        """What the finding on a module that was left says."""
        return f"module `{path}` is left as a call in the graph: {why}"

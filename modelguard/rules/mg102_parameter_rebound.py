"""MG102: a parameter that the step binds to another object."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Kind, Operation, StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict
from modelguard.rules.reading import holds, local_name


class ParameterRebound(Rule):
    """A parameter is bound to another object in `forward`.

    ## What it does

    Reports an assignment to an attribute that holds a parameter, on the module itself or on a child, also through a
    loop over `nn.ModuleList` or a local name for the child.

    ## Why it is bad

    The graph captures the address of the parameter. A new `nn.Parameter` has another address and another identity:
    replay keeps computing with the old weights, the optimizer keeps updating the old object, and `torch.compile`
    recompiles or, with its guards dropped, uses the object it traced.

    ## Use instead

    Compute the weight into a local name and pass it to the functional form (`F.linear(x, weight)`), or let
    `torch.nn.utils.parametrize` compute it on every access. To change the values for good, write into the parameter
    under `torch.no_grad()`.

    ## Severity

    Error. A write that only training reaches is reported one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [Parametrizations](https://docs.pytorch.org/tutorials/intermediate/parametrizations.html)
    """

    code = "MG102"
    name = "parameter-rebound"
    severity = Severity.ERROR
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn


            class UnitLinear(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(width, width))

                def forward(self, x):
                    self.weight = nn.Parameter(self.weight / self.weight.norm())
                    return F.linear(x, self.weight)
            """,
            line=12,
            attribute="self.weight",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Expert(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.gate = nn.Parameter(torch.rand(width))

                def forward(self, x):
                    return x * self.gate


            class Experts(nn.Module):
                def __init__(self, width, count):
                    super().__init__()
                    self.experts = nn.ModuleList(Expert(width) for _ in range(count))

                def forward(self, x):
                    for expert in self.experts:
                        expert.gate = nn.Parameter(expert.gate.clamp(min=0))
                        x = expert(x)
                    return x
            """,
            line=21,
            attribute="self.experts[*].gate",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Table(nn.Module):
                def __init__(self, rows, width):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(rows, width))


            class Tied(nn.Module):
                def __init__(self, rows, width):
                    super().__init__()
                    self.embed = Table(rows, width)
                    self.head = Table(rows, width)

                def forward(self, ids):
                    head = self.head
                    head.weight = self.embed.weight
                    return self.embed.weight[ids] @ head.weight.t()
            """,
            line=19,
            attribute="self.head.weight",
            severity=Severity.ERROR,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn


            class UnitLinear(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(width, width))

                def forward(self, x):
                    weight = self.weight / self.weight.norm()
                    return F.linear(x, weight)
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Expert(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.gate = nn.Parameter(torch.rand(width))

                def forward(self, x):
                    return x * self.gate


            class Experts(nn.Module):
                def __init__(self, width, count):
                    super().__init__()
                    self.experts = nn.ModuleList(Expert(width) for _ in range(count))

                @torch.no_grad()
                def clamp(self):
                    for expert in self.experts:
                        expert.gate.clamp_(min=0)

                def forward(self, x):
                    for expert in self.experts:
                        x = expert(x)
                    return x
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Table(nn.Module):
                def __init__(self, rows, width):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(rows, width))


            class Tied(nn.Module):
                def __init__(self, rows, width):
                    super().__init__()
                    self.embed = Table(rows, width)
                    self.head = Table(rows, width)
                    self.tie_weights()

                def tie_weights(self):
                    self.head.weight = self.embed.weight

                def forward(self, ids):
                    return self.embed.weight[ids] @ self.head.weight.t()
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if write.operation is not Operation.REBIND or not holds(write.declared, Kind.PARAMETER):
            return None
        local = local_name(write.path)
        message = (
            f"parameter `{write.path}` is rebound in `{write.function}`: a replayed CUDA graph and the optimizer keep the old "
            "parameter, so what is assigned here never reaches a replayed step"
        )
        advice = (
            f"compute the value into a local name (`{local} = ...`) and use the functional form, "
            f"or write into the parameter with `{write.path}.copy_(...)` under `torch.no_grad()`"
        )
        return Verdict(Severity.ERROR, message, advice, Effect.LOST)

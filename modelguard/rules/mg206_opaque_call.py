"""MG206: a call that no graph can hold."""

from __future__ import annotations

from modelguard.findings import Severity
from modelguard.observation import Hindrance, Obstacle
from modelguard.rules.base import CaptureRule, Invalid, Valid, Verdict

_PARALLEL = (
    "calls a child under a parallel wrapper, which scatters over threads or processes: no graph can hold it",
    "unwrap the child for serving, or wrap the whole model",
)
_RECURRENT = (
    "calls a recurrent module, which Dynamo does not trace: it breaks its graph here",
    "use `nn.LSTMCell` or its kin in a loop of fixed length, or keep the recurrent part outside of what is captured",
)
_WHY = {
    "DataParallel": _PARALLEL,
    "DistributedDataParallel": _PARALLEL,
    "RNN": _RECURRENT,
    "LSTM": _RECURRENT,
    "GRU": _RECURRENT,
    "scripted": (
        "calls a TorchScript module, which Dynamo does not trace: it breaks its graph here",
        "call the module itself, without scripting it",
    ),
    "disabled": (
        "is kept out of Dynamo's graphs, which breaks the one that is being made",
        "make it traceable, wrap it as a custom operator, or call it outside of the captured step",
    ),
}
_HOOK = (
    "registers a hook while the step runs: Dynamo cannot trace it, and each call adds one more unless it is removed",
    "register the hook once, after construction",
)


class OpaqueCall(CaptureRule):
    """Something is called in `forward` that no graph can hold.

    ## What it does

    Reports calls of functions and modules under `torch.compiler.disable`, of TorchScript modules, of `nn.RNN`, `nn.LSTM` and
    `nn.GRU`, of children wrapped in `nn.DataParallel` or `DistributedDataParallel`, and hooks that are registered in the step.

    ## Why it is bad

    Dynamo cannot trace into them: it breaks its graph, leaves a call of a module in it, or, where one graph is demanded,
    fails. `DataParallel` scatters over threads and devices in each call.

    ## Use instead

    Unwrap a parallel wrapper for serving. Give Dynamo the module and not its script. Write a recurrent step by `nn.LSTMCell`,
    or keep the recurrent part outside of what is captured. Register hooks once, after construction.

    ## Severity

    Warning. What only training reaches is reported one level lower.

    ## References

    - [torch.compiler.disable](https://docs.pytorch.org/docs/stable/generated/torch.compiler.disable.html)
    - [DataParallel left as one module call](https://github.com/pytorch/pytorch/issues/101609)
    - [A hook registered in forward](https://github.com/pytorch/pytorch/issues/149047)
    """

    code = "MG206"
    name = "opaque-call"
    severity = Severity.WARNING
    since = "0.1"
    hindrance = Hindrance.OPAQUE_CALL

    INVALID = (
        Invalid(
            """
            from torch import nn


            class Wrapped(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.DataParallel(nn.Linear(2, 2))

                def forward(self, x):
                    return self.body(x) + 1
            """,
            line=10,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            from torch import nn


            class Tagger(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.encoder = nn.LSTM(width, width)
                    self.head = nn.Linear(width, 4)

                def forward(self, x):
                    hidden, _ = self.encoder(x)
                    return self.head(hidden)
            """,
            line=11,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            @torch.compiler.disable
            def lookup(x):
                return x.sort()[0]


            class Sorted(nn.Module):
                def forward(self, x):
                    return lookup(x) * 2
            """,
            line=12,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Scripted(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.body = torch.jit.script(nn.Linear(width, width))

                def forward(self, x):
                    return self.body(x)
            """,
            line=11,
            severity=Severity.WARNING,
        ),
    )

    VALID = (
        Valid(
            """
            from torch import nn


            class Wrapped(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(2, 2)

                def forward(self, x):
                    return self.body(x) + 1


            def parallel():
                return nn.DataParallel(Wrapped())
            """
        ),
        Valid(
            """
            from torch import nn


            class Step(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.cell = nn.LSTMCell(width, width)

                def forward(self, x, state):
                    return self.cell(x, state)
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            @torch.jit.script
            def gated(x: torch.Tensor) -> torch.Tensor:
                return x * torch.sigmoid(x)


            @torch.compiler.disable
            def report(x):
                print(x)


            class Gated(nn.Module):
                def forward(self, x):
                    if not torch.compiler.is_compiling():
                        report(x)
                    return gated(x)
            """
        ),
    )

    def verdict(self, obstacle: Obstacle) -> Verdict:
        why, advice = _WHY.get(obstacle.verb, _HOOK)
        return Verdict(Severity.WARNING, f"`{obstacle.subject}(...)` in `{obstacle.function}` {why}", advice, None)

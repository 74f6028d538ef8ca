"""MG201: the host reads a tensor in the step."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Hindrance, Obstacle
from modelguard.rules.base import CaptureRule, Invalid, Valid, Verdict


class HostSync(CaptureRule):
    """The host reads a tensor's data in `forward`.

    ## What it does

    Reports what copies a tensor's data to Python and waits for the device: `.item()`, `.tolist()`, `.cpu()`, `.to("cpu")`,
    `.numpy()`, `int(x)`, `float(x)`, `bool(x)`, `range(x)`, `np.asarray(x)`, a tensor in a formatted text, as an index of a
    list or as the end of a slice, `torch.equal`, `torch.allclose`, and `torch.cuda.synchronize()`. Only what is surely a
    tensor counts: a size, a dtype or a number from the configuration is read without the device.

    ## Why it is bad

    A CUDA graph cannot hold it: capture fails with "operation not permitted when stream is capturing". Dynamo breaks the
    graph there, or keeps the number as a symbol that later code stumbles over. In eager mode the device idles until the
    host has its answer. Where guards are dropped, the number that the first step read stands for all later ones.

    ## Use instead

    Keep the value on the device (`torch.where`, `index_select`, arithmetic on tensors), or let the caller hand in the
    number beside the tensor. Keep a Python copy of a constant when the module is made.

    ## Severity

    Warning. What only training reaches is reported one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [Dynamo: graph breaks](https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html)
    - [A scale parameter that a kernel wrapper read back](https://github.com/sgl-project/sglang/pull/10056)
    """

    code = "MG201"
    name = "host-sync"
    severity = Severity.WARNING
    since = "0.1"
    hindrance = Hindrance.SYNC

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Scaled(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.tensor(0.5))

                def forward(self, x):
                    return x * self.scale.item()
            """,
            line=11,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Windowed(nn.Module):
                def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
                    longest = int(lengths.max())
                    return x[:, :longest]
            """,
            line=7,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import numpy as np
            import torch
            from torch import nn


            def peaks(values):
                return np.asarray(values).argmax(-1)


            class Peaks(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.body = nn.Linear(width, width)

                def forward(self, x):
                    logits = torch.relu(self.body(x))
                    return torch.from_numpy(peaks(logits))
            """,
            line=7,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Experts(nn.Module):
                def __init__(self, width, count):
                    super().__init__()
                    self.gate = nn.Linear(width, count)
                    self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

                def forward(self, x):
                    best = torch.softmax(self.gate(x), -1).mean(0).argmax()
                    return self.experts[best](x)
            """,
            line=13,
            severity=Severity.WARNING,
        ),
    )

    VALID = (
        Valid(
            """
            from torch import nn


            class Scaled(nn.Module):
                def __init__(self, scale=0.5):
                    super().__init__()
                    self.scale = scale

                def forward(self, x):
                    return x * float(self.scale)
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Windowed(nn.Module):
                def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
                    half = int(x.shape[1] * 0.5)
                    inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
                    return torch.where(inside, x, 0.0)[:, :half]
            """
        ),
        Valid(
            """
            import numpy as np
            import torch
            from torch import nn


            class Mel(nn.Module):
                def __init__(self, bins):
                    super().__init__()
                    self.centres = np.linspace(0.0, 1.0, bins)
                    self.config = {"offset": np.float32(0.5)}

                def forward(self, x):
                    first = float(self.centres[0])
                    return x * first + self.config["offset"].item()
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Scaled(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(()))

                def forward(self, x):
                    if not torch.compiler.is_compiling():
                        self.check(self.scale.item())
                    return x * self.scale

                def check(self, scale):
                    if scale <= 0:
                        raise ValueError(f"scale is {scale}")
            """
        ),
    )

    def verdict(self, obstacle: Obstacle) -> Verdict:
        where = f"in `{obstacle.function}` ({obstacle.verb})"
        if not obstacle.subject:
            message = f"the host waits for the device {where}: a CUDA graph cannot be captured here"
            return Verdict(Severity.WARNING, message, "synchronise outside of the captured step", None)
        message = (
            f"`{obstacle.subject}` is read by the host {where}: a CUDA graph cannot be captured here, and Dynamo breaks its "
            "graph or keeps what the first step read"
        )
        advice = "keep it a tensor and compute with it on the device, or let the caller hand in the number"
        return Verdict(Severity.WARNING, message, advice, Effect.FROZEN)

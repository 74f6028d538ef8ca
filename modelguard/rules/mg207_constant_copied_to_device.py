"""MG207: host memory that is copied to the device in each step."""

from __future__ import annotations

from modelguard.findings import Severity
from modelguard.observation import Hindrance, Obstacle
from modelguard.rules.base import CaptureRule, Invalid, Valid, Verdict


class ConstantCopiedToDevice(CaptureRule):
    """Host memory is copied to the device in `forward`.

    ## What it does

    Reports tensors that are made in host memory and then moved: `torch.tensor(value, device=...)` of a Python value,
    `x.new_tensor(...)`, `torch.arange(n).to(x.device)`, and `.to(...)` or `.cuda()` on a tensor attribute that is neither a
    buffer nor a parameter, so that `module.to(device)` left it behind.

    ## Why it is bad

    Each step waits for a copy from pageable memory, which a CUDA graph cannot hold: "cannot copy between CPU and CUDA tensors
    during CUDA graph capture unless the CPU tensor is pinned".

    ## Use instead

    Register a constant as a buffer. Make the tensor on the device: `torch.full((), value, device=x.device)`,
    `torch.arange(n, device=x.device)`, `x.new_full(...)`.

    ## Severity

    Warning. What only training reaches is reported one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [A position table that was no buffer](https://github.com/lyuwenyu/RT-DETR/issues/677)
    """

    code = "MG207"
    name = "constant-copied-to-device"
    severity = Severity.WARNING
    since = "0.1"
    hindrance = Hindrance.COPY

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Positions(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.table = torch.randn(width)

                def forward(self, x):
                    return x + self.table.to(x.device)
            """,
            line=11,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Scaled(nn.Module):
                def __init__(self, scale):
                    super().__init__()
                    self.scale = float(scale)

                def forward(self, x):
                    return x * torch.tensor(self.scale, device=x.device)
            """,
            line=11,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Indexed(nn.Module):
                def forward(self, x: torch.Tensor) -> torch.Tensor:
                    index = torch.arange(x.shape[1]).unsqueeze(0)
                    index = index.to(x.device)
                    return x + index
            """,
            line=8,
            severity=Severity.WARNING,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Positions(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("table", torch.randn(width), persistent=False)

                def forward(self, x):
                    return x + self.table.to(x.device)
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Scaled(nn.Module):
                def __init__(self, scale):
                    super().__init__()
                    self.scale = float(scale)

                def forward(self, x):
                    return x * torch.full((), self.scale, device=x.device)
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Indexed(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.table = torch.arange(4)

                def forward(self, x: torch.Tensor) -> torch.Tensor:
                    index = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
                    return x + index.to(x.dtype) + self.table.to(torch.float32)
            """
        ),
    )

    def verdict(self, obstacle: Obstacle) -> Verdict:
        message = (
            f"`{obstacle.subject}` is copied from host memory to the device in `{obstacle.function}` ({obstacle.verb}): every "
            "step waits for it, and a CUDA graph cannot be captured here"
        )
        advice = "register a constant as a buffer, or make the tensor on the device (`torch.full((), value, device=...)`)"
        return Verdict(Severity.WARNING, message, advice, None)

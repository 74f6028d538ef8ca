"""MG203: a result as large as a tensor's data says."""

from __future__ import annotations

from modelguard.findings import Severity
from modelguard.observation import Hindrance, Obstacle
from modelguard.rules.base import CaptureRule, Invalid, Valid, Verdict


class DataDependentShape(CaptureRule):
    """The size of a result in `forward` depends on a tensor's data.

    ## What it does

    Reports `nonzero`, `argwhere`, `masked_select`, `unique`, `bincount`, `torch.where` with one argument, `repeat_interleave`
    by a tensor without `output_size`, `one_hot` without `num_classes`, packed sequences, and reading `x[mask]` with a mask of
    truth values.

    ## Why it is bad

    The host must learn the size before it can go on, which a CUDA graph cannot hold, and the memory of a captured graph has
    one size. Dynamo breaks its graph, or goes on with a size that it does not know.

    ## Use instead

    Weight by the mask, or fill what is masked (`torch.where`, `masked_fill`), so that sizes stay. `torch.nonzero_static`,
    `output_size=` and `num_classes=` say the size up front.

    ## Severity

    Warning. What only training reaches is reported one level lower.

    ## References

    - [Data-dependent sizes under capture](https://github.com/pytorch/pytorch/issues/78549)
    - [torch.nonzero_static](https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html)
    """

    code = "MG203"
    name = "data-dependent-shape"
    severity = Severity.WARNING
    since = "0.1"
    hindrance = Hindrance.DYNAMIC_SHAPE

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Filter(nn.Module):
                def forward(self, count, value):
                    index = torch.nonzero(count > 0)
                    return value.sum() + index.numel()
            """,
            line=7,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Filter(nn.Module):
                def forward(self, x: torch.Tensor) -> torch.Tensor:
                    large = x.norm(dim=-1) > 1.0
                    kept = x[large]
                    return kept.mean(0)
            """,
            line=8,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            def flat(x, mask):
                return torch.masked_select(x, mask)


            class Pick(nn.Module):
                def forward(self, x, mask):
                    return flat(x, mask).sum()
            """,
            line=6,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Spread(nn.Module):
                def forward(self, x: torch.Tensor, durations: torch.Tensor) -> torch.Tensor:
                    return torch.repeat_interleave(x, durations, dim=1)
            """,
            line=7,
            severity=Severity.WARNING,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Filter(nn.Module):
                def forward(self, count, value):
                    weight = (count > 0).to(value.dtype)
                    return (value * weight).sum() + weight.sum()
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Filter(nn.Module):
                def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
                    large = x.norm(dim=-1) > 1.0
                    x = x[index]
                    x[~large] = 0.0
                    return torch.where(large[:, None], x, 0.0)[:, 0]
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Spread(nn.Module):
                def __init__(self, names):
                    super().__init__()
                    self.names = {name: index for index, name in enumerate(names)}

                def forward(self, x: torch.Tensor, name: str) -> torch.Tensor:
                    index = self.names[name]
                    x = torch.repeat_interleave(x, 2, dim=1)
                    return x + nn.functional.one_hot(torch.tensor(index), num_classes=4)[0, 0]
            """
        ),
    )

    def verdict(self, obstacle: Obstacle) -> Verdict:
        message = (
            f"`{obstacle.subject}` in `{obstacle.function}` has a size that depends on a tensor's data: the host must wait to "
            "learn it, so a CUDA graph cannot be captured here, and Dynamo may break its graph"
        )
        advice = "weight by the mask or fill what is masked (`torch.where`, `masked_fill`), or name the size up front"
        return Verdict(Severity.WARNING, message, advice, None)

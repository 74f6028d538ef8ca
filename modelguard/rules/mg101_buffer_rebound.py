"""MG101: a buffer that the step binds to another tensor."""

from __future__ import annotations

from modelguard.findings import Applicability, Effect, Severity
from modelguard.observation import Kind, Operation, StateWrite
from modelguard.rules.base import Invalid, Repair, Rule, Valid, Verdict
from modelguard.rules.reading import holds, local_name


class BufferRebound(Rule):
    """A registered buffer is bound to another tensor in `forward`.

    ## What it does

    Reports an assignment to an attribute that holds a buffer, wherever it runs on behalf of `forward`: as a plain
    assignment, in a tuple target, through `setattr`, in a helper function, a decorator or a base class.

    ## Why it is bad

    A CUDA graph captures the address of the buffer. The assignment is Python: it runs while the graph is captured and
    never again. Each replay reads the old tensor and writes its result to memory of the graph, while the module keeps
    whatever capture left behind. Eager mode is right, so no test of the model notices.

    A cast such as `self.table = self.table.to(x.dtype)` looks like a no-op and is not one: the new tensor has another
    address, and a graph that was captured before may read memory that has been handed to somebody else.

    ## Use instead

    Keep the buffer where it is and write into it (`self.mean.copy_(...)`, `self.count.add_(1)`), or bind the result to
    a local name when no later step needs it.

    ## Severity

    Error. A write that only training reaches is reported one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [vLLM: a buffer assigned to its own cast](https://github.com/vllm-project/vllm/pull/11596)
    - [PyTorch: the batch counter of a normalisation layer](https://github.com/pytorch/pytorch/pull/70444)
    """

    code = "MG101"
    name = "buffer-rebound"
    severity = Severity.ERROR
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class RunningNorm(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("mean", torch.zeros(width))

                def forward(self, x):
                    self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
                    return x - self.mean
            """,
            line=11,
            attribute="self.mean",
            severity=Severity.ERROR,
            carried=True,
            repair=Repair(
                Applicability.UNSAFE,
                (
                    (
                        "self.mean = 0.9 * self.mean + 0.1 * x.mean(0)",
                        "self.mean.copy_(0.9 * self.mean + 0.1 * x.mean(0))",
                    ),
                ),
            ),
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Delayed(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("bias", torch.linspace(0.0, 1.0, 8))

                def forward(self, x):
                    self.bias = torch.roll(self.bias, 1, 0)
                    return x + self.bias
            """,
            line=11,
            attribute="self.bias",
            severity=Severity.ERROR,
            carried=True,
            repair=Repair(
                Applicability.SAFE,
                (("self.bias = torch.roll(self.bias, 1, 0)", "self.bias.copy_(torch.roll(self.bias, 1, 0))"),),
            ),
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Rotary(nn.Module):
                def __init__(self, dim, limit):
                    super().__init__()
                    angles = torch.outer(torch.arange(limit), torch.rand(dim))
                    self.register_buffer("cos", angles.cos(), persistent=False)
                    self.register_buffer("sin", angles.sin(), persistent=False)

                def forward(self, q, position):
                    self.cos, self.sin = self.cos.to(q), self.sin.to(q)
                    return q * self.cos[position] + q.roll(1, -1) * self.sin[position]
            """,
            line=13,
            attribute="self.sin",
            severity=Severity.ERROR,
            repair=Repair(
                Applicability.UNSAFE,
                (("self.cos, self.sin = ", "self.cos, sin = "), ("* self.sin[position]", "* sin[position]")),
            ),
        ),
        Invalid(
            """
            import torch
            from torch import nn


            def follow(module, peak):
                module.scale = torch.maximum(module.scale * 0.99, peak)


            class Quantizer(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("scale", torch.ones(()))

                def forward(self, x):
                    follow(self, x.abs().amax())
                    return (x / self.scale).round() * self.scale
            """,
            line=6,
            attribute="self.scale",
            severity=Severity.ERROR,
            carried=True,
            repair=Repair(
                Applicability.UNSAFE,
                (
                    (
                        "module.scale = torch.maximum(module.scale * 0.99, peak)",
                        "module.scale.copy_(torch.maximum(module.scale * 0.99, peak))",
                    ),
                ),
            ),
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Positions(nn.Module):
                def __init__(self, limit, width):
                    super().__init__()
                    self.table = nn.Buffer(torch.randn(limit, width))

                def forward(self, x):
                    setattr(self, "table", self.table.to(x.dtype))
                    return x + self.table[: x.shape[0]]
            """,
            line=11,
            attribute="self.table",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Tracked(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("seen", torch.zeros(()))


            class Averager(Tracked):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)

                def forward(self, x):
                    if self.training:
                        self.seen = self.seen + 1
                    return self.proj(x) / self.seen
            """,
            line=18,
            attribute="self.seen",
            severity=Severity.WARNING,
            carried=True,
            repair=Repair(Applicability.UNSAFE, (("self.seen = self.seen + 1", "self.seen.copy_(self.seen + 1)"),)),
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class RunningNorm(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("mean", torch.zeros(width))

                def forward(self, x):
                    self.mean.copy_(0.9 * self.mean + 0.1 * x.mean(0))
                    return x - self.mean
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Rotary(nn.Module):
                def __init__(self, dim, limit):
                    super().__init__()
                    angles = torch.outer(torch.arange(limit), torch.rand(dim))
                    self.register_buffer("cos", angles.cos(), persistent=False)
                    self.register_buffer("sin", angles.sin(), persistent=False)

                def forward(self, q, position):
                    cos, sin = self.cos.to(q), self.sin.to(q)
                    return q * cos[position] + q.roll(1, -1) * sin[position]
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Refreshed(nn.Module):
                def __init__(self, limit):
                    super().__init__()
                    self.register_buffer("table", torch.arange(limit).float())

                def grow(self, limit):
                    self.table = torch.arange(limit).float()

                def forward(self, x):
                    return x + self.table[: x.shape[0]]


            def generate(model, x):
                model.grow(x.shape[0])
                return model(x)
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Scaled(torch.autograd.Function):
                @staticmethod
                def forward(self, x, scale):
                    self.scale = scale
                    return x * scale

                @staticmethod
                def backward(self, grad):
                    return grad * self.scale, None


            class Gate(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("scale", torch.ones(()))

                def forward(self, x):
                    return Scaled.apply(x, self.scale)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if write.operation is not Operation.REBIND or not holds(write.declared, Kind.BUFFER):
            return None
        if write.carried:
            consequence = "each replay starts again from the tensor it captured, so no step sees what the one before it stored"
            advice = (
                f"keep the memory and write into it: `{write.path}.copy_(...)`; "
                "if the size changes, build the buffer in `__init__` for the largest size and slice it"
            )
        else:
            consequence = (
                "the assignment is not replayed, so the module keeps the tensor of the captured step, and a graph captured "
                "earlier goes on reading the old tensor after it was freed"
            )
            advice = (
                f"bind the result to a local name (`{local_name(write.path)} = ...`), "
                f"or write into the buffer with `{write.path}.copy_(...)` if later steps need it"
            )
        message = f"buffer `{write.path}` is rebound in `{write.function}`: {consequence}"
        return Verdict(Severity.ERROR, message, advice, Effect.LOST)

"""MG103: a tensor that is kept in a plain attribute and bound anew by the step."""

from __future__ import annotations

from modelguard.findings import Applicability, Effect, Severity
from modelguard.observation import Kind, Operation, StateWrite
from modelguard.rules.base import Invalid, Repair, Rule, Valid, Verdict
from modelguard.rules.reading import holds, local_name, within


class TensorAttributeRebound(Rule):
    """A plain attribute that holds a tensor is bound to another tensor in `forward`.

    ## What it does

    Reports an assignment of a tensor to an attribute that is neither a buffer nor a parameter, and an augmented
    assignment that turns a Python number into a tensor (`self.total = 0.0` in `__init__`, `self.total += loss` in
    `forward`).

    ## Why it is bad

    The assignment is Python and is not replayed. If a later step reads the attribute, it reads the tensor of the
    captured step, whose memory belongs to the graph and is overwritten by the next replay. If no step reads it, whoever
    looks at it from outside (a hook, a loss, a logger) sees the result of the captured step for ever.

    ## Use instead

    Return the value, or keep it in a buffer of fixed size that is registered in `__init__` and written with `copy_`.
    Pass state that belongs to a request as an argument.

    ## Severity

    Error when a step can read what an earlier step wrote, else warning. A write that only training reaches is reported
    one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [diffusers: tensors of a rope child rewritten by its parent](https://github.com/huggingface/diffusers/pull/10959)
    - [torchvision: a list of anchors moved on every call](https://github.com/pytorch/vision/pull/9081)
    """

    code = "MG103"
    name = "tensor-attribute-rebound"
    severity = Severity.ERROR
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Recurrent(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.state = torch.zeros(width)

                def forward(self, x):
                    self.state = torch.tanh(self.proj(x) + self.state)
                    return self.state
            """,
            line=12,
            attribute="self.state",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Probed(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.last_hidden = None

                def forward(self, x):
                    hidden = torch.relu(self.proj(x))
                    self.last_hidden = hidden.detach()
                    return hidden
            """,
            line=13,
            attribute="self.last_hidden",
            severity=Severity.WARNING,
            carried=False,
        ),
        Invalid(
            """
            import torch
            import torch.nn.functional as F
            from torch import nn


            class Balanced(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.router = nn.Linear(width, 4)
                    self.penalty = 0.0

                def forward(self, x):
                    weights = F.softmax(self.router(x), dim=-1)
                    self.penalty += weights.var()
                    return weights - self.penalty
            """,
            line=14,
            attribute="self.penalty",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Rope(nn.Module):
                def __init__(self, length):
                    super().__init__()
                    self.rows = torch.rand(length)


            class Painter(nn.Module):
                def __init__(self, length):
                    super().__init__()
                    self.rope = Rope(length)

                def forward(self, x):
                    self.rope.rows = self.rope.rows.to(x.dtype)
                    return x + self.rope.rows[:, None]
            """,
            line=17,
            attribute="self.rope.rows",
            severity=Severity.ERROR,
            repair=Repair(
                Applicability.UNSAFE,
                (("self.rope.rows = ", "rows = "), ("x + self.rope.rows[:, None]", "x + rows[:, None]")),
            ),
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Accumulator(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.acc = torch.zeros(width)

                def forward(self, x):
                    def bump():
                        self.acc = self.acc + x

                    bump()
                    return self.acc * 2
            """,
            line=12,
            attribute="self.acc",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Memory(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self._memory = torch.zeros(1, width)

                @property
                def memory(self):
                    return self._memory

                @memory.setter
                def memory(self, value):
                    self._memory = value

                def forward(self, x):
                    self.memory = torch.cat([self.memory[1:], x])
                    return self.memory.mean(0)
            """,
            line=16,
            attribute="self._memory",
            severity=Severity.ERROR,
            carried=True,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Recurrent(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.register_buffer("state", torch.zeros(width))

                def forward(self, x):
                    self.state.copy_(torch.tanh(self.proj(x) + self.state))
                    return self.state.clone()
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Recurrent(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)

                def forward(self, x, state):
                    state = torch.tanh(self.proj(x) + state)
                    return state, state
            """
        ),
        Valid(
            """
            from types import SimpleNamespace

            import torch
            from torch import nn


            class Probed(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)

                def forward(self, x):
                    out = SimpleNamespace()
                    out.hidden = torch.relu(self.proj(x))
                    out.norm = out.hidden.norm()
                    return out
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Rope(nn.Module):
                def __init__(self, length):
                    super().__init__()
                    self.rows = torch.rand(length)


            class Painter(nn.Module):
                def __init__(self, length):
                    super().__init__()
                    self.rope = Rope(length)

                def forward(self, x):
                    rows = self.rope.rows.to(x.dtype)
                    rows = rows[:, None]
                    return x + rows
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if not self._binds_a_tensor(write):
            return None
        if write.carried:
            severity = Severity.ERROR
            consequence = "the assignment is not replayed, so every step reads the tensor of the captured step"
            advice = (
                f"register `{write.path}` as a buffer of fixed size in `__init__` and write into it with "
                f"`{write.path}.copy_(...)`, or take the state as an argument and return the new one"
            )
        else:
            severity = Severity.WARNING
            consequence = "the assignment is not replayed, so whoever reads it later gets the tensor of the captured step"
            advice = f"bind the value to a local name (`{local_name(write.path)} = ...`), and return it if others need it"
        noun, what = "tensor attribute", "is bound to another tensor"
        if write.operation is Operation.AUGMENT:
            noun, what = "number", "becomes a tensor"
        elif within(write.value, Kind.NONE):
            what = "is set to None"
        message = f"{noun} `{write.path}` {what} in `{write.function}`: {consequence}"
        return Verdict(severity, message, advice, Effect.LOST)

    @staticmethod
    def _binds_a_tensor(write: StateWrite) -> bool:
        if write.operation is Operation.AUGMENT:
            return holds(write.declared, Kind.NUMBER) and holds(write.value, Kind.ANY_TENSOR)
        if write.operation is not Operation.REBIND:
            return False
        if holds(write.value | write.declared, Kind.ANY_TENSOR):
            return True
        known_python = holds(write.declared, Kind.PYTHON & ~Kind.NONE) and within(write.declared, Kind.PYTHON)
        return write.value == Kind.UNKNOWN and write.depends_on_inputs and not known_python

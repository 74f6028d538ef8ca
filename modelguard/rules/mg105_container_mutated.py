"""MG105: a dict, list, set or deque of the module that the step changes."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Kind, Operation, StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict
from modelguard.rules.reading import change, container_word, holds


class ContainerMutated(Rule):
    """A dict, list, set or deque reached from `self` is changed in `forward`.

    ## What it does

    Reports item writes, mutating methods (`append`, `update`, `pop`, `setdefault`, ...), augmented assignments to a
    container and reads that make a `defaultdict` grow, also through a local name for the container.

    ## Why it is bad

    Containers live in Python, and replay runs no Python. A list of past hidden states stays as long as it was at
    capture, a dict keeps the tensors of the captured step, and those tensors lie in memory that the graph overwrites.

    ## Use instead

    Keep past values in a buffer of fixed size and write into it at a position that is a tensor
    (`self.history.index_copy_(0, position, x[None])`). Work on a copy when the change need not outlive the step.
    Collect statistics outside of the captured step, from what it returns.

    ## Severity

    Error when a step can read what an earlier step wrote, else warning. A write that only training reaches is reported
    one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [PyTorch: a list attribute that `forward` grows](https://github.com/pytorch/pytorch/issues/139160)
    - [Model Optimizer: masks kept in a dict](https://github.com/NVIDIA/Model-Optimizer/pull/1296)
    """

    code = "MG105"
    name = "container-mutated"
    severity = Severity.ERROR
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class History(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.trail = [torch.zeros(width)]

                def forward(self, x):
                    self.trail.append(x.mean(0))
                    return torch.stack(self.trail).mean(0)
            """,
            line=11,
            attribute="self.trail",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Chunked(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.conv = nn.Conv1d(width, width, 3)
                    self.tails = {"left": torch.zeros(1, width, 2)}

                def forward(self, x):
                    padded = torch.cat([self.tails["left"], x], dim=-1)
                    self.tails["left"] = x[..., -2:]
                    return self.conv(padded)
            """,
            line=13,
            attribute="self.tails",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            from torch import nn


            class Logged(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.stats = {}

                def forward(self, x):
                    y = self.proj(x)
                    self.stats.update(mean=y.mean().detach())
                    return y
            """,
            line=12,
            attribute="self.stats",
            severity=Severity.WARNING,
            carried=False,
        ),
        Invalid(
            """
            from collections import deque

            import torch
            from torch import nn


            class Window(nn.Module):
                def __init__(self, length, width):
                    super().__init__()
                    self.frames = deque([torch.zeros(width)], maxlen=length)

                def forward(self, x):
                    frames = self.frames
                    frames.appendleft(x)
                    return torch.stack(list(frames)).mean(0)
            """,
            line=14,
            attribute="self.frames",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            from collections import defaultdict

            from torch import nn


            class PerLength(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scales = defaultdict(lambda: 1.0)

                def forward(self, x):
                    return x * self.scales[x.shape[-1]]
            """,
            line=12,
            attribute="self.scales",
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Stack(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.hidden = []

                def remember(self, value):
                    self.hidden += [value]

                def forward(self, x):
                    self.remember(x)
                    return torch.cat(self.hidden)
            """,
            line=11,
            attribute="self.hidden",
            severity=Severity.ERROR,
            carried=True,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class History(nn.Module):
                def __init__(self, width, slots=16):
                    super().__init__()
                    self.register_buffer("trail", torch.zeros(slots, width))

                def forward(self, x, slot):
                    self.trail.index_copy_(0, slot, x.mean(0)[None])
                    return self.trail.mean(0)
            """
        ),
        Valid(
            """
            from torch import nn


            class Gathered(nn.Module):
                def __init__(self, width, depth):
                    super().__init__()
                    self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

                def forward(self, x, **options):
                    hidden = []
                    info = {}
                    for layer in self.layers:
                        x = layer(x)
                        hidden.append(x)
                    info.update(depth=len(hidden))
                    options.setdefault("scale", 1.0)
                    return x * options["scale"], hidden, info
            """
        ),
        Valid(
            """
            from torch import nn


            class Overridden(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.options = {"scale": 1.0, "shift": 0.0}

                def forward(self, x, **overrides):
                    options = dict(self.options)
                    options.update(overrides)
                    options["shift"] = options["shift"] + 1.0
                    return self.proj(x) * options["scale"] + options["shift"]
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Logged(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.stats = {}

                def record(self, y):
                    self.stats["mean"] = y.mean()

                def forward(self, x):
                    return self.proj(x)


            def evaluate(model, x):
                y = model(x)
                model.record(y)
                return y
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if not self._changes_a_container(write):
            return None
        word = container_word(write.declared)
        what = f"{word} `{write.path}` is changed by {change(write)} in `{write.function}`"
        if write.carried:
            severity = Severity.ERROR
            consequence = "replay runs no Python, so every step reads its contents as they were at capture"
            advice = (
                f"keep what later steps need in a buffer of fixed size and write into it in place, or pass the {word} in as an "
                "argument and let the caller change it"
            )
        else:
            severity = Severity.WARNING
            consequence = "replay runs no Python, so it keeps the contents of the captured step"
            advice = f"return the values and let the caller keep them, or work on a copy ({_copy(write)})"
        if write.operation is Operation.GROW:
            advice = f"read with `{write.path}.get(key, default)`, which adds nothing, or add all keys in `__init__`"
        return Verdict(severity, f"{what}: {consequence}", advice, Effect.LOST)

    @staticmethod
    def _changes_a_container(write: StateWrite) -> bool:
        if write.operation in (Operation.ITEM, Operation.GROW):
            return True
        return write.operation in (Operation.MUTATE, Operation.AUGMENT) and holds(write.declared, Kind.CONTAINER)


def _copy(write: StateWrite) -> str:
    word = container_word(write.declared)
    return f"`{write.path}.copy()`" if word in ("container", "deque", "defaultdict") else f"`{word}({write.path})`"

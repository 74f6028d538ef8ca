"""MG111: state in a class, a file or a closure, which no instance owns."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Kind, Operation, Root, StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict
from modelguard.rules.reading import change, fills_once, holds, is_shared, writes_in_place


class SharedStateChanged(Rule):
    """A class attribute, a module-level variable or a closure variable is changed in `forward`.

    ## What it does

    Reports writes to names that outlive the call and belong to no instance: `Layer.calls += 1`, `type(self).table =
    ...`, `global` and `nonlocal` variables, containers at the top of a file, the counters of a decorator.

    ## Why it is bad

    Replay runs none of it, so the state stays as it was at capture. All instances share it as well: layers that are
    captured one after the other each freeze another value, and what one model stores, another one reads.

    ## Use instead

    Keep state in a buffer of the instance and write into it in place, or pass it in. Fill tables at the top of the
    file, or before the step is captured.

    ## Severity

    Error when a step can read what an earlier step wrote, else warning. A write that only training reaches is reported
    one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [vLLM: layer names taken from a list on a shared object](https://github.com/vllm-project/vllm/pull/32805)
    - [PyTorch: a global list changed around a checkpointed `forward`](https://github.com/pytorch/pytorch/issues/168206)
    """

    code = "MG111"
    name = "shared-state-changed"
    severity = Severity.ERROR
    since = "0.1"

    INVALID = (
        Invalid(
            """
            from torch import nn


            class Staggered(nn.Module):
                turn = 0

                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)

                def forward(self, x):
                    Staggered.turn += 1
                    return self.proj(x) * Staggered.turn
            """,
            line=12,
            attribute="Staggered.turn",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            import torch
            from torch import nn

            MASKS = {}


            def causal_mask(length):
                if length not in MASKS:
                    MASKS[length] = torch.ones(length, length).tril()
                return MASKS[length]


            class Causal(nn.Module):
                def forward(self, x):
                    return causal_mask(x.shape[0]) @ x
            """,
            line=9,
            attribute="MASKS",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            from torch import nn

            STEP = 0


            class Scheduled(nn.Module):
                def forward(self, x):
                    global STEP
                    STEP = STEP + 1
                    return x / STEP
            """,
            line=9,
            attribute="STEP",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            import functools

            from torch import nn


            def every_other(forward):
                calls = 0

                @functools.wraps(forward)
                def wrapper(self, x):
                    nonlocal calls
                    calls += 1
                    return forward(self, x) if calls % 2 else x

                return wrapper


            class Skipping(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)

                @every_other
                def forward(self, x):
                    return self.proj(x)
            """,
            line=12,
            attribute="calls",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            from torch import nn

            SCOPES = []


            class Scope:
                def __init__(self, name):
                    self.name = name

                def __enter__(self):
                    SCOPES.append(self.name)
                    return self

                def __exit__(self, *exc):
                    return False


            class Scoped(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)

                def forward(self, x):
                    with Scope("proj"):
                        return self.proj(x)
            """,
            line=11,
            attribute="SCOPES",
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Shared(nn.Module):
                table = torch.zeros(8)

                def forward(self, x):
                    type(self).table = self.table + x
                    return self.table
            """,
            line=9,
            attribute="Shared.table",
            severity=Severity.ERROR,
            carried=True,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Staggered(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.register_buffer("turn", torch.zeros(()))

                def forward(self, x):
                    self.turn.add_(1)
                    return self.proj(x) * self.turn
            """
        ),
        Valid(
            """
            import torch
            from torch import nn

            LIMITS = {"short": 128, "long": 4096}
            LIMITS.update(huge=32768)


            class Limited(nn.Module):
                kind = "short"

                def forward(self, x):
                    limits = dict(LIMITS)
                    limits["short"] = limits["short"] // 2
                    return x[: limits[self.kind]]
            """
        ),
        Valid(
            """
            from torch import nn


            class Walked(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.tree = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

                def forward(self, x):
                    depth = 0
                    seen = []

                    def visit(layer, value):
                        nonlocal depth
                        depth += 1
                        seen.append(value)
                        return layer(value) / depth

                    for layer in self.tree:
                        x = visit(layer, x)
                    return x, seen
            """
        ),
        Valid(
            """
            from torch import nn


            class Numbered(nn.Module):
                count = 0

                def __init__(self, width):
                    super().__init__()
                    Numbered.count += 1
                    self.index = Numbered.count
                    self.proj = nn.Linear(width, width)

                def forward(self, x):
                    return self.proj(x) * self.index
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if not is_shared(write) or writes_in_place(write):
            return None
        owner = _owner(write)
        how = " by " + change(write) if write.operation in (Operation.MUTATE, Operation.ITEM) else ""
        settled = fills_once(write) and write.operation in (Operation.REBIND, Operation.ITEM)
        severity = Severity.ERROR if write.carried and not settled else Severity.WARNING
        consequence = "every step reads it as it was at capture" if write.carried else "it stays as it was at capture"
        message = (
            f"{owner} `{write.path}` is changed{how} in `{write.function}`: replay does not run this line, so {consequence}, "
            "for all instances that share it"
        )
        advice = f"keep the state in a buffer of the instance and write into it in place, or change `{write.path}` before capture"
        frozen = write.operation in (Operation.AUGMENT, Operation.REBIND, Operation.MODE)
        return Verdict(severity, message, advice, Effect.FROZEN if frozen else Effect.LOST)


def _owner(write: StateWrite) -> str:
    if write.root is Root.CLASS:
        return "class attribute"
    if write.root is Root.CLOSURE:
        return "closure variable"
    if write.path.endswith(".__defaults__"):
        return "default argument"
    return "module-level container" if holds(write.declared, Kind.CONTAINER) else "module-level variable"

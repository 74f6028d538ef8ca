"""MG104: numbers, flags, strings and whatever else the step keeps in Python."""

from __future__ import annotations

from modelguard.findings import Applicability, Effect, Severity
from modelguard.observation import Kind, Operation, StateWrite
from modelguard.rules.base import Invalid, Repair, Rule, Valid, Verdict
from modelguard.rules.reading import container_word, holds, local_name, within


class PythonStateChanged(Rule):
    """A number, flag, string or other Python value of the module is changed in `forward`.

    ## What it does

    Reports counters (`self.step += 1`), first-call flags (`self.ready = True`), remembered sizes and modes, containers
    that are replaced by new ones, and `.train()`, `.eval()` or `.requires_grad_()` called on a module, when they run on
    behalf of `forward`.

    ## Why it is bad

    A Python value is fixed in the captured kernels: a step counter used in tensor maths keeps its value at capture, a
    flag that chooses between two branches records one of them for ever, an offset into a cache makes every replay write
    the same slot. `torch.compile` recompiles for each new value; where its guards are dropped, the value of the first
    trace stays.

    ## Use instead

    Count in a buffer (`self.step.add_(1)`), pass the value as an argument, or change it outside of the captured step.
    One-time work belongs in `__init__` or in a method that is called after loading.

    ## Severity

    Error when a step can read what an earlier step wrote, else warning. A changed mode (`.eval()`) is a warning. A
    write that only training reaches is reported one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [PyTorch: one recompilation per call](https://github.com/pytorch/pytorch/issues/115711)
    - [torchtune: a cache with a Python write position](https://github.com/meta-pytorch/torchtune/pull/1663)
    """

    code = "MG104"
    name = "python-state-changed"
    severity = Severity.ERROR
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Annealed(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.step = 0

                def forward(self, x):
                    self.step += 1
                    return self.proj(x) / self.step
            """,
            line=12,
            attribute="self.step",
            severity=Severity.ERROR,
            carried=True,
            repair=Repair(
                Applicability.UNSAFE,
                (
                    ("self.step = 0", 'self.register_buffer("step", torch.tensor(0), persistent=False)'),
                    ("self.step += 1", "self.step.add_(1)"),
                ),
            ),
        ),
        Invalid(
            """
            from torch import nn


            class Counted(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.calls = 0

                def forward(self, x):
                    self.calls += 1
                    return self.proj(x)
            """,
            line=11,
            attribute="self.calls",
            severity=Severity.WARNING,
            repair=Repair(
                Applicability.UNSAFE,
                (
                    ("from torch import nn", "import torch\nfrom torch import nn"),
                    ("self.calls = 0", 'self.register_buffer("calls", torch.tensor(0), persistent=False)'),
                    ("self.calls += 1", "self.calls.add_(1)"),
                ),
            ),
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Calibrated(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("peak", torch.ones(()))
                    self.ready = False

                def forward(self, x):
                    if not self.ready:
                        self.peak.fill_(1.0)
                        self.ready = True
                    return x / self.peak
            """,
            line=14,
            attribute="self.ready",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class KeyCache(nn.Module):
                def __init__(self, slots, width):
                    super().__init__()
                    self.register_buffer("keys", torch.zeros(slots, width))
                    self.fill = 0

                def push(self, new):
                    end = self.fill + new.shape[0]
                    self.keys[self.fill : end] = new
                    self.fill = end
                    return self.keys


            class Attention(nn.Module):
                def __init__(self, slots, width):
                    super().__init__()
                    self.cache = KeyCache(slots, width)

                def forward(self, x):
                    return x @ self.cache.push(x).t()
            """,
            line=14,
            attribute="self.fill",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            from torch import nn


            class Shifted(nn.Module):
                def __init__(self, offset):
                    super().__init__()
                    self.offset = offset

                def forward(self, x):
                    self.offset += 1
                    return x + self.offset
            """,
            line=10,
            attribute="self.offset",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Frozen(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.backbone = nn.Linear(width, width)

                def forward(self, x):
                    self.backbone.eval()
                    return self.backbone(x)
            """,
            line=11,
            attribute="self.backbone",
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            from torch import nn


            class Phased(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.prefill = nn.Linear(width, width)
                    self.decode = nn.Linear(width, width)
                    self.phase = "prefill"

                def forward(self, x):
                    layer = self.prefill if self.phase == "prefill" else self.decode
                    self.phase = "decode"
                    return layer(x)
            """,
            line=13,
            attribute="self.phase",
            severity=Severity.ERROR,
            carried=True,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Annealed(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.register_buffer("step", torch.zeros(()))

                def forward(self, x):
                    self.step.add_(1)
                    return self.proj(x) / self.step
            """
        ),
        Valid(
            """
            from torch import nn


            class Annealed(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.first_step = 0

                def forward(self, x, step):
                    step = self.first_step + step
                    step += 1
                    return self.proj(x) / step
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Counted(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.calls = 0

                def forward(self, x):
                    if not torch.compiler.is_compiling():
                        self.calls += 1
                    return self.proj(x)
            """
        ),
        Valid(
            """
            import contextlib

            from torch import nn


            class Adapter(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.disabled = False

                @contextlib.contextmanager
                def off(self):
                    self.disabled = True
                    try:
                        yield
                    finally:
                        self.disabled = False

                def forward(self, x):
                    return x if self.disabled else self.proj(x)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if write.operation is Operation.MODE:
            return self._mode(write)
        if write.operation not in (Operation.REBIND, Operation.AUGMENT):
            return None
        if write.operation is Operation.AUGMENT and not holds(write.declared, Kind.PYTHON & ~Kind.NONE):
            return self._augmented_unknown(write)
        severity = Severity.ERROR if write.carried else Severity.WARNING
        if write.carried:
            consequence = "replay does not run this line, so every step computes with the value it had at capture"
        else:
            consequence = "replay does not run this line, so it stays at the value it had at capture"
        what = "replaced" if holds(write.value, Kind.CONTAINER | Kind.OBJECT | Kind.MODULE) else "changed"
        message = f"{_noun(write)} `{write.path}` is {what} in `{write.function}`: {consequence}"
        return Verdict(severity, message, _advice(write), Effect.FROZEN)

    @staticmethod
    def _mode(write: StateWrite) -> Verdict:
        verb = write.verb or "train"
        kept = "what takes gradients" if verb == "requires_grad_" else "the mode"
        message = (
            f"`.{verb}(...)` is called on `{write.path}` in `{write.function}`: "
            f"replay does not run the call, so {kept} stays as it was at capture"
        )
        advice = f"call `{write.path}.{verb}(...)` once, before the step is captured"
        return Verdict(Severity.WARNING, message, advice, Effect.FROZEN)

    @staticmethod
    def _augmented_unknown(write: StateWrite) -> Verdict:
        name = local_name(write.path)
        message = (
            f"`{write.path}` is changed by an augmented assignment in `{write.function}` and its type is unknown: "
            "a tensor is written in place, which replays correctly, but a number stays at its value at capture"
        )
        advice = (
            f"if it is a tensor, declare it (`{name}: torch.Tensor` in the class body) or write `{write.path}.add_(...)`; "
            "if it is a number, keep it in a buffer or pass it as an argument"
        )
        return Verdict(Severity.ERROR if write.carried else Severity.WARNING, message, advice, Effect.FROZEN)


def _noun(write: StateWrite) -> str:
    kind = write.value if write.value != Kind.UNKNOWN else write.declared
    if holds(kind, Kind.CONTAINER):
        return container_word(kind)
    if within(kind, Kind.BOOL | Kind.NONE) and holds(kind, Kind.BOOL):
        return "flag"
    if within(kind, Kind.NUMBER | Kind.BOOL | Kind.NONE) and holds(kind, Kind.NUMBER):
        return "Python number"
    return "attribute"


def _advice(write: StateWrite) -> str:
    kind, path = write.value | write.declared, write.path
    if within(kind & ~Kind.UNKNOWN, Kind.NUMBER | Kind.NONE) and holds(kind, Kind.NUMBER):
        if "[*]" in path:
            return f"set `{path}` in `__init__` or before the step is captured, or pass the number as an argument"
        in_place = f"{path}.add_(...)" if write.operation is Operation.AUGMENT else f"{path}.copy_(...)"
        return (
            f"keep it in a buffer, write `{in_place}` and index with it (`index_copy_`, not a slice); pass it as an argument; "
            "or keep it outside of the captured step"
        )
    if within(kind & ~Kind.UNKNOWN, Kind.BOOL | Kind.NONE) and holds(kind, Kind.BOOL):
        return f"do the one-time work before the step is captured and set `{path}` there, or pass the flag as an argument"
    if kind == Kind.UNKNOWN:
        return (
            f"bind the value to a local name (`{local_name(path)} = ...`), or set `{path}` outside of the captured step; "
            "if it is a tensor, keep it in a buffer and write into it in place"
        )
    return f"bind the value to a local name (`{local_name(path)} = ...`), or set `{path}` outside of the captured step"

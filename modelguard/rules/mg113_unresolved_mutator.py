"""MG113: a method with a mutator's name on something of unknown type."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Operation, StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict
from modelguard.rules.reading import local_name


class UnresolvedMutator(Rule):
    """A method that usually changes its object is called in `forward` on an attribute of unknown type.

    ## What it does

    Reports `self.x.update(...)`, `self.x.append(...)` and the like where nothing in the class tells what `self.x` is.

    ## Why it is bad

    If it is a container or another Python object, the change is not replayed and a captured step keeps the contents of
    its capture. If it is a module or a pure function, nothing is wrong. The analysis cannot tell, and being silent
    would hide the faults that the name gives away.

    ## Use instead

    Say what it is: annotate the attribute in the class body or the argument it comes from, or create it in `__init__`.
    Then the finding either disappears or becomes the one that names the fault.

    ## Severity

    Warning. A call that only training reaches is reported one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    """

    code = "MG113"
    name = "unresolved-mutator"
    severity = Severity.WARNING
    since = "0.1"

    INVALID = (
        Invalid(
            """
            from torch import nn


            class Tracked(nn.Module):
                def __init__(self, width, tracker):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.tracker = tracker

                def forward(self, x):
                    y = self.proj(x)
                    self.tracker.update(y.detach())
                    return y
            """,
            line=12,
            attribute="self.tracker",
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            from somewhere import make_store
            from torch import nn


            class Stored(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.store = make_store(width)

                def forward(self, x):
                    store = self.store
                    store.append(x)
                    return self.proj(x)
            """,
            line=13,
            attribute="self.store",
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            from torch import nn


            def note(module, value):
                module.sink.extend([value.detach()])


            class Noted(nn.Module):
                def __init__(self, width, sink=None):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.sink = sink

                def forward(self, x):
                    y = self.proj(x)
                    note(self, y)
                    return y
            """,
            line=5,
            attribute="self.sink",
            severity=Severity.WARNING,
        ),
    )

    VALID = (
        Valid(
            """
            from torch import nn


            class Scorer:
                def update(self, y):
                    return y.detach().norm()


            class Tracked(nn.Module):
                def __init__(self, width, tracker: Scorer):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.tracker = tracker

                def forward(self, x):
                    y = self.proj(x)
                    return y / self.tracker.update(y)
            """
        ),
        Valid(
            """
            import hashlib

            from torch import nn


            class Keyed(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.name = "keyed"

                def forward(self, x, bar=None):
                    digest = hashlib.sha256()
                    digest.update(self.name.encode())
                    if bar is not None:
                        bar.update(1)
                    return self.proj(x), digest.hexdigest()
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Codebook(nn.Module):
                def __init__(self, size, width):
                    super().__init__()
                    self.register_buffer("codes", torch.randn(size, width))

                def update(self, x):
                    return torch.cdist(x, self.codes).argmin(-1)


            class Quantizer(nn.Module):
                def __init__(self, size, width):
                    super().__init__()
                    self.codebook = Codebook(size, width)

                def forward(self, x):
                    return self.codebook.codes[self.codebook.update(x)]
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if write.operation is not Operation.MUTATE:
            return None
        name, verb = local_name(write.path), write.verb or "update"
        message = (
            f"`.{verb}(...)` is called on `{write.path}`, whose type is unknown, in `{write.function}`: if it changes the "
            "object, replay does not run it, and every step sees the contents of the captured one"
        )
        advice = (
            f"declare the type (`{name}: SomeClass` in the class body, or an annotated argument) or create `{write.path}` in "
            "`__init__`, so that the call can be followed"
        )
        return Verdict(Severity.WARNING, message, advice, Effect.LOST)

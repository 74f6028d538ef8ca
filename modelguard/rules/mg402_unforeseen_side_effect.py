"""MG402: Dynamo saw a write that the scan did not foresee."""

from __future__ import annotations

from modelguard.findings import Evidence, Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict


class UnforeseenSideEffect(Rule):
    """Compiled code writes state on a line where the scan found nothing.

    ## What it does

    Reported by `modelguard confirm`: among the side effects that Dynamo replays after its graph is one on an object that outlives
    the call, and no finding, suppressed or not, is on any line that leads to it.

    ## Why it is bad

    The write is lost when a CUDA graph is replayed, like those that the scan finds. It reaches its object by a way that the
    source does not show, such as a name that is only known at run time.

    ## Use instead

    What the rules for that kind of state say: keep it in a buffer and write it in place, pass it in and out, or move the write
    out of the captured step. If the scan should have seen it, please report it.

    ## Severity

    Error.

    ## References

    - [PyTorch: Dynamo, side effects](https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_dynamo_deepdive.html)
    """

    code = "MG402"
    name = "unforeseen-side-effect"
    severity = Severity.ERROR
    since = "0.1"
    evidence = Evidence.DYNAMO
    advice = "keep the state in a buffer and write it in place, pass it in and out, or write it outside of the captured step"

    INVALID = (
        # Which method is called is only known at run time.
        Invalid(
            """
            import torch
            from torch import nn

            TABLE = {}


            def advance(module):
                module.calls += 1


            class Counting(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.calls = 0

                def forward(self, x):
                    TABLE["advance"](self)
                    return x * self.calls


            TABLE.update({f"adv{'ance'}": advance})


            def build():
                return Counting(), (torch.ones(2),)
            """,
            line=8,
            attribute="self.calls",
        ),
    )
    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Counting(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("calls", torch.zeros(()))

                def forward(self, x):
                    self.calls += 1
                    return x * self.calls


            def build():
                return Counting(), (torch.ones(2),)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        return None

    @staticmethod
    def message(path: str, operation: str) -> str:
        """What the finding on a side effect says."""
        return f"`{path}` is {operation} by compiled code, on a line where the scan found nothing: a replayed graph loses it"

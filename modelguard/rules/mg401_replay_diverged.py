"""MG401: replay goes another way than eager steps, and nothing in the source says why."""

from __future__ import annotations

from collections.abc import Sequence

from modelguard.findings import Evidence, Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict

_MOST = 5


class ReplayDiverged(Rule):
    """A replayed model goes another way than an eager one, and no finding says why.

    ## What it does

    Reported by `modelguard confirm`: a captured step, replayed with new inputs, gave other outputs or left other state than the
    same steps made eagerly, and neither the scan nor Dynamo found a write that could be the cause. The message names the smallest
    set of state paths that differ or were freed.

    ## Why it is bad

    The model is wrong when its graph is replayed. That no write was found means that it hides where neither looks: in code made
    at run time, in an extension, in a value that Python computes anew at each step and capture freezes (a random number, the
    clock).

    ## Use instead

    Look at the named paths first, and at what feeds the named output. Compute with tensors what has to change from step to step,
    or pass it as an input.

    ## Severity

    Error.

    ## References

    - [PyTorch: CUDA graphs, constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    """

    code = "MG401"
    name = "replay-diverged"
    severity = Severity.ERROR
    since = "0.1"
    evidence = Evidence.REPLAY
    advice = "compute with tensors what changes from step to step, or pass it as an input"

    INVALID = (
        # A Python random number is drawn once, at capture.
        Invalid(
            """
            import random

            import torch
            from torch import nn


            class Jitter(nn.Module):
                def forward(self, x):
                    return x + random.random()


            def build():
                return Jitter(), (torch.zeros(2),)
            """,
            line=1,
            attribute="",
        ),
    )
    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Jitter(nn.Module):
                def forward(self, x):
                    return x + torch.rand(())


            def build():
                return Jitter(), (torch.zeros(2),)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        return None

    @staticmethod
    def message(target: str, verdict: str, where: Sequence[str], paths: Sequence[str]) -> str:
        """What the finding on a target says; `paths` differ or were freed."""
        named = ", ".join(f"`{path}`" for path in paths[:_MOST]) or ", ".join(f"`{place}`" for place in where[:_MOST])
        more = f" and {len(paths) - _MOST} more" if len(paths) > _MOST else ""
        what = {
            "wrong-output": "gives other outputs than eager steps",
            "stale-state": "leaves other state than eager steps",
            "freed-memory": "reads memory that nobody owns any more",
            "shape-changes": "computes results of other sizes than were captured",
        }[verdict]
        return f"replay of `{target}` {what} ({named}{more}), and no write was found that could be the cause"

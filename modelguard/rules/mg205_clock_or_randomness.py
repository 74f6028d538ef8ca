"""MG205: the clock, or randomness that is not torch's, is asked in the step."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Hindrance, Obstacle
from modelguard.rules.base import CaptureRule, Invalid, Valid, Verdict


class ClockOrRandomness(CaptureRule):
    """The clock or Python's or NumPy's randomness is asked in `forward`.

    ## What it does

    Reports `time.time`, `time.perf_counter`, `datetime.now` and the like, functions of `random`, `secrets` and `numpy.random`,
    and the generators of both, in code that runs on behalf of an entry point.

    ## Why it is bad

    A captured graph holds numbers, not the calls that gave them: every replay uses the time or the random number of the step
    that was captured. Dynamo breaks its graph at most of them.

    ## Use instead

    Draw random numbers by torch (`torch.rand`, `torch.randint`, on the device), whose generator advances under replay. Take
    times around the step, or by `torch.cuda.Event`.

    ## Severity

    Warning. What only training reaches is reported one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [Dynamo: unsupported functions](https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html)
    """

    code = "MG205"
    name = "clock-or-randomness"
    severity = Severity.WARNING
    since = "0.1"
    hindrance = Hindrance.CHANCE

    INVALID = (
        Invalid(
            """
            import random

            from torch import nn


            class Jitter(nn.Module):
                def forward(self, x):
                    return x * random.uniform(0.9, 1.1)
            """,
            line=8,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import time

            from torch import nn


            class Timed(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.body = nn.Linear(width, width)

                def forward(self, x):
                    start = time.perf_counter()
                    return self.body(x), start
            """,
            line=12,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import numpy as np
            from torch import nn


            class Jitter(nn.Module):
                def __init__(self, seed):
                    super().__init__()
                    self.generator = np.random.default_rng(seed)

                def forward(self, x):
                    return x + float(self.generator.normal())
            """,
            line=11,
            severity=Severity.WARNING,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Jitter(nn.Module):
                def forward(self, x):
                    return x * (0.9 + 0.2 * torch.rand((), device=x.device))
            """
        ),
        Valid(
            """
            import random

            import numpy as np
            from torch import nn


            class Shuffled(nn.Module):
                def __init__(self, count):
                    super().__init__()
                    self.order = list(np.random.permutation(count))
                    self.first = random.randrange(count)

                def forward(self, x):
                    return x[:, self.order] + self.first
            """
        ),
        Valid(
            """
            import random

            import torch
            from torch import nn


            class Dropped(nn.Module):
                def __init__(self, time):
                    super().__init__()
                    self.time = time

                def forward(self, x):
                    if not torch.compiler.is_compiling():
                        x = x + random.random()
                    return x + self.time
            """
        ),
    )

    def verdict(self, obstacle: Obstacle) -> Verdict:
        what = "asks the clock" if obstacle.verb == "clock" else "draws randomness that is not torch's"
        message = f"`{obstacle.subject}` {what} in `{obstacle.function}`: replay repeats the answer that capture got"
        advice = (
            "measure around the step, outside of what is captured"
            if obstacle.verb == "clock"
            else "draw it by torch (`torch.rand`, `torch.randint`), on the device"
        )
        return Verdict(Severity.WARNING, message, advice, Effect.FROZEN)

"""MG204: something is printed, logged or warned of in the step."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Hindrance, Obstacle
from modelguard.rules.base import CaptureRule, Invalid, Valid, Verdict


class OutputInForward(CaptureRule):
    """Something is printed or logged in `forward`.

    ## What it does

    Reports `print`, `warnings.warn`, the methods of loggers, `sys.stdout.write`, debuggers and the like in code that runs on
    behalf of an entry point. What comes right before a `raise`, or in an `except` block, is left alone.

    ## Why it is bad

    Dynamo splits the graph at each of them, unless it was told to ignore or to reorder them. Under replay the line never
    appears again: nobody sees the warning that matters in production.

    ## Use instead

    Check and warn when the module is made, or in the code that calls it. Raise where the input is wrong. Guard what is only
    for eager runs by `if not torch.compiler.is_compiling()`.

    ## Severity

    Warning. What only training reaches is reported one level lower.

    ## References

    - [Dynamo: logging and printing](https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html)
    - [Exceptions instead of warnings in generation helpers](https://github.com/huggingface/transformers/pull/29018)
    """

    code = "MG204"
    name = "output-in-forward"
    severity = Severity.WARNING
    since = "0.1"
    hindrance = Hindrance.OUTPUT

    INVALID = (
        Invalid(
            """
            import warnings

            from torch import nn


            class Chatty(nn.Module):
                def forward(self, x):
                    if x.ndim > 3:
                        warnings.warn("large input")
                    return x * 2
            """,
            line=9,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import logging

            from torch import nn

            logger = logging.getLogger(__name__)


            class Chatty(nn.Module):
                def forward(self, x):
                    logger.info("shape %s", tuple(x.shape))
                    return x * 2
            """,
            line=10,
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            from torch import nn


            def show(name, x):
                print(name, x.shape)
                return x


            class Chatty(nn.Module):
                def forward(self, x):
                    return show("x", x) * 2
            """,
            line=5,
            severity=Severity.WARNING,
        ),
    )

    VALID = (
        Valid(
            """
            import warnings

            from torch import nn


            class Quiet(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    if width > 4096:
                        warnings.warn("large module")
                    self.body = nn.Linear(width, width)

                def forward(self, x):
                    return self.body(x)
            """
        ),
        Valid(
            """
            import logging

            import torch
            from torch import nn

            logger = logging.getLogger(__name__)


            class Quiet(nn.Module):
                def forward(self, x):
                    if not torch.compiler.is_compiling():
                        logger.debug("eager step")
                    if x.ndim > 3:
                        logger.error("too many dimensions")
                        raise ValueError("too many dimensions")
                    return x * 2
            """
        ),
        Valid(
            """
            import torch
            from torch import nn


            class Exponents(nn.Module):
                def __init__(self, recorder):
                    super().__init__()
                    self.recorder = recorder

                def forward(self, x):
                    return torch.log(x) + x.log() + self.recorder.info

                def report(self, x):
                    print(x)
            """
        ),
    )

    def verdict(self, obstacle: Obstacle) -> Verdict:
        message = (
            f"`{obstacle.subject}` writes text in `{obstacle.function}`: Dynamo breaks its graph here, and replay writes nothing"
        )
        advice = "check and warn in `__init__` or in the caller, raise where the input is wrong, or leave it to eager runs"
        return Verdict(Severity.WARNING, message, advice, Effect.LOST)

"""MG901: a file that is not Python."""

from __future__ import annotations

from modelguard.findings import Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict


class UnparsableFile(Rule):
    """A file cannot be parsed, so nothing in it was looked at.

    ## What it does

    Reports a file with a syntax error at the place where Python gives up. The other files are scanned all the same.

    ## Why it is bad

    A model in this file has not been checked. Without this finding an unreadable file would look like a clean one.

    ## Use instead

    Correct the file, or leave it out with `--exclude`. Syntax that is newer than the Python that runs modelguard needs
    a newer Python to run it.

    ## Severity

    Warning.

    ## References

    - [The Python language reference](https://docs.python.org/3/reference/grammar.html)
    """

    code = "MG901"
    name = "unparsable-file"
    severity = Severity.WARNING
    since = "0.1"

    INVALID = (
        Invalid(
            """
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    return self.proj((x
            """,
            line=6,
            attribute="",
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    print x.shape
                    return x
            """,
            line=6,
            attribute="",
        ),
        Invalid(
            """
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    y = x + 1
                      return y
            """,
            line=7,
            attribute="",
        ),
    )

    VALID = (
        Valid(
            """
            from torch import nn


            class Net(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)

                def forward(self, x):
                    return self.proj((x))
            """
        ),
        Valid(
            """
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    match x.dim():
                        case 1:
                            return x[None]
                        case _:
                            return x
            """
        ),
        Valid(
            """
            # -*- coding: utf-8 -*-
            from torch import nn


            class Größe(nn.Module):
                def forward(self, x, *, scale=1.0):
                    return x * scale if (n := x.dim()) > 1 else x / n
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        return None

    @staticmethod
    def message(problem: str) -> str:
        """What the finding on a file says, where `problem` is what the parser said."""
        return f"cannot be parsed ({problem}), so nothing in this file was looked at"

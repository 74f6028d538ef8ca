"""MG903: a suppression that names no rule."""

from __future__ import annotations

from collections.abc import Sequence

from modelguard.findings import Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict


class UnknownCodeInSuppression(Rule):
    """A suppression names a code that no rule has, or no code at all.

    ## What it does

    Reports `# modelguard: ignore[...]` and `ignore-file[...]` comments with an entry that is neither a code, nor the beginning
    of a code, nor the name of a rule; `# modelguard: ignore` without codes; and `# noqa` comments with an unknown code that
    begins with MG and a digit. Other codes in a `# noqa` belong to other tools.

    ## Why it is bad

    Such an entry suppresses nothing. And a comment without codes would hide every fault that the statement may have later, which
    is why it is not accepted.

    ## Use instead

    Name the codes that are found on the statement, as `modelguard scan` prints them, and say why they are right there.

    ## Severity

    Warning.

    ## References

    - `docs/suppressions.md` says what a suppression can name
    - [Ruff: blanket-noqa](https://docs.astral.sh/ruff/rules/blanket-noqa/), the same idea in another linter
    """

    code = "MG903"
    name = "unknown-code-in-suppression"
    severity = Severity.WARNING
    since = "0.1"

    INVALID = (
        Invalid(
            """
            from torch import nn


            class Counting(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.calls = 0

                def forward(self, x):
                    self.calls += 1  # modelguard: ignore[MG1O4] a statistic
                    return x
            """,
            line=10,
            attribute="",
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            from torch import nn


            class Recorder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.seen = []

                def forward(self, x):
                    # modelguard: ignore
                    self.seen.append(x)
                    return x
            """,
            line=10,
            attribute="",
            also=(11,),
        ),
        Invalid(
            """
            from torch import nn


            class Double(nn.Module):
                def forward(self, x):
                    return x + x  # noqa: E501, MG999
            """,
            line=6,
            attribute="",
        ),
        Invalid(
            """
            # modelguard: ignore-file[F401]
            from torch import nn


            class Double(nn.Module):
                def forward(self, x):
                    return x + x
            """,
            line=1,
            attribute="",
        ),
    )

    VALID = (
        Valid(
            """
            from torch import nn


            class Counting(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.calls = 0

                def forward(self, x):
                    self.calls += 1  # modelguard: ignore[python-state-changed] a statistic that no kernel reads
                    return x
            """
        ),
        Valid(
            """
            from torch import nn


            class Recorder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.calls = 0
                    self.seen = []

                def forward(self, x):
                    # modelguard: ignore[MG1] never captured
                    self.calls, self.seen[:] = self.calls + 1, [x]
                    return x
            """
        ),
        Valid(
            """
            from torch import nn


            class Double(nn.Module):
                def forward(self, x):
                    return x + x  # noqa: E501, XY123
            """
        ),
        Valid(
            """
            # modelguard: ignore-file
            from torch import nn


            class Counting(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.calls = 0

                def forward(self, x):
                    self.calls += 1
                    return x * self.calls
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        return None

    @staticmethod
    def unknown(entries: Sequence[str]) -> str:
        """What the finding says of entries that mean no rule."""
        named = " and ".join(f"`{entry}`" for entry in entries)
        if len(entries) == 1:
            return f"{named} is neither a code nor the name of a rule, so it suppresses nothing"
        return f"{named} are neither codes nor names of rules, so they suppress nothing"

    @staticmethod
    def spelling(likely: Sequence[str]) -> str:
        """What to do about it, where `likely` is what was most likely meant."""
        if not likely:
            return "`modelguard rules` lists the codes and names that a suppression can hold"
        return f"did you mean {' and '.join(f'`{spelling}`' for spelling in likely)}?"

    @staticmethod
    def blanket() -> str:
        """What the finding says of a comment that names nothing."""
        return "this comment names no code, so it suppresses nothing"

    @staticmethod
    def instead_of_blanket(codes: Sequence[str]) -> str:
        """What to do about it, where `codes` are found on the statement."""
        if not codes:
            return "remove it: nothing is found on the statement that it covers"
        return f"write `# modelguard: ignore[{', '.join(codes)}] reason`, or repair what is found"

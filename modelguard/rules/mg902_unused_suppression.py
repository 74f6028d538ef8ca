"""MG902: a comment that suppresses nothing."""

from __future__ import annotations

from collections.abc import Sequence

from modelguard.findings import Applicability, Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Repair, Rule, Valid, Verdict


class UnusedSuppression(Rule):
    """A comment suppresses findings that are not there.

    ## What it does

    Reports `# modelguard: ignore[...]`, `# modelguard: ignore-file[...]` and `# noqa: MG...` comments that name a code of
    which nothing is found where they reach, and says which. Codes that this run does not look for (`--select`, `--ignore`) are
    passed over, and so are files of which a part could not be analysed.

    ## Why it is bad

    The fault that the comment excused is gone, or was never on this statement. Left in place, it will hide the next
    fault of that kind from you.

    ## Use instead

    Remove the comment, or the codes that the message names. If the finding is still reported nearby, move the comment: behind
    the statement, or alone on the line above it.

    ## Severity

    Warning.

    ## References

    - `docs/suppressions.md` says how far each comment reaches
    - [Ruff: unused-noqa](https://docs.astral.sh/ruff/rules/unused-noqa/), the same idea in another linter
    """

    code = "MG902"
    name = "unused-suppression"
    severity = Severity.WARNING
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class RunningNorm(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.register_buffer("mean", torch.zeros(width))

                def forward(self, x):
                    # modelguard: ignore[MG101] not captured
                    self.mean.copy_(0.9 * self.mean + 0.1 * x.mean(0))
                    return x - self.mean
            """,
            line=11,
            attribute="",
            severity=Severity.WARNING,
            repair=Repair(Applicability.SAFE, (("        # modelguard: ignore[MG101] not captured\n", ""),)),
        ),
        # The comment covers the `if`, not what stands below it.
        Invalid(
            """
            from torch import nn


            class Counting(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.calls = 0

                def forward(self, x):
                    if x.dim() > 1:  # modelguard: ignore[MG104] only for the log
                        self.calls += 1
                    return x * self.calls
            """,
            line=10,
            attribute="",
            also=(11,),
            repair=Repair(Applicability.SAFE, (("  # modelguard: ignore[MG104] only for the log", ""),)),
        ),
        Invalid(
            """
            from torch import nn


            class Recorder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.seen = []

                def forward(self, x):
                    self.seen.append(x)  # noqa: MG104, MG105
                    return x
            """,
            line=10,
            attribute="",
            repair=Repair(Applicability.SAFE, (("MG104, MG105", "MG105"),)),
        ),
        Invalid(
            """
            # modelguard: ignore-file[lazy-cache] filled at warm-up
            from torch import nn


            class Double(nn.Module):
                def forward(self, x):
                    return x + x
            """,
            line=1,
            attribute="",
            repair=Repair(Applicability.SAFE, (("# modelguard: ignore-file[lazy-cache] filled at warm-up\n", ""),)),
        ),
        Invalid(
            """
            from torch import nn


            class Double(nn.Module):
                def forward(self, x):
                    return x + x
                    # modelguard: ignore[MG104] the statement that stood here is gone
            """,
            line=7,
            attribute="",
            repair=Repair(
                Applicability.SAFE, (("        # modelguard: ignore[MG104] the statement that stood here is gone\n", ""),)
            ),
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
                    self.calls += 1  # modelguard: ignore[MG104] a statistic that no kernel reads
                    return x
            """
        ),
        Valid(
            """
            # modelguard: ignore-file[MG105] debugging aids
            from torch import nn


            class Recorder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.seen = []

                def forward(self, x):
                    self.seen.append(x)
                    return x
            """
        ),
        # Codes of other tools, and a `noqa` without codes, are no matter of modelguard's.
        Valid(
            """
            from torch import nn  # noqa: F401, E402


            class Double(nn.Module):
                def forward(self, x):
                    return x + x  # noqa
            """
        ),
        Valid(
            '''
            from torch import nn


            class Documented(nn.Module):
                """Write `# modelguard: ignore[MG104] reason` behind the statement."""

                def forward(self, x):
                    return x, "# modelguard: ignore[MG101]"
            '''
        ),
        # Said in so many words: it may be unused, for now.
        Valid(
            """
            from torch import nn


            class Counting(nn.Module):
                def forward(self, x):
                    calls = x.size(0)  # modelguard: ignore[MG104, MG902] becomes an attribute in the vendor's build
                    return x * calls
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        return None

    @staticmethod
    def message(entries: Sequence[str], first: int, last: int, is_file: bool) -> str:
        """What the finding says of the entries that suppressed nothing on the lines from `first` to `last`; 0 is no line."""
        named = " or ".join(f"`{entry}`" for entry in entries) or "this comment"
        if last == 0:
            why = "`ignore-file` does not count behind code" if is_file else "no statement follows this comment"
            return f"{why}, so there is nothing for {named} to suppress"
        place = "in this file" if is_file else f"on line {first}" if first == last else f"on lines {first} to {last}"
        return f"nothing is found {place} that {named} would suppress"

    @staticmethod
    def advice(entries: Sequence[str], some_are_used: bool, is_misplaced: bool) -> str:
        """What to do about it."""
        if is_misplaced:
            return "move it to a line of its own"
        if not some_are_used:
            return "remove the comment"
        return f"remove {' and '.join(f'`{entry}`' for entry in entries)} from the comment"

"""MG112: objects that are not modules and outlive the step."""

from __future__ import annotations

from modelguard.findings import Effect, Severity
from modelguard.observation import Kind, Operation, Root, StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict
from modelguard.rules.reading import container_word, holds, is_foreign

_CHANGES = (Operation.REBIND, Operation.AUGMENT, Operation.ITEM, Operation.MUTATE)


class ForeignStateChanged(Rule):
    """An object that is not a module, such as a configuration, is changed in `forward`.

    ## What it does

    Reports attributes and containers written on plain objects that are reached from `self` or handed in: `self.config.x
    = ...`, `self.state.position += 1`, a write in a method of such an object, an item written into a dict argument.

    ## Why it is bad

    Replay runs no Python: the object stays as capture left it, and whatever reads it, in this module or in another one
    that shares it, sees the captured step. A configuration that `forward` corrects also differs before and after the
    first call, so that a saved copy depends on whether the model has run.

    ## Use instead

    Compute the value in `__init__`, or into a local name. Return results rather than leave them on an object. State
    that one step hands to the next belongs in a buffer.

    ## Severity

    Warning; error when a step can read what an earlier step wrote. Note for a configuration value that does not depend on
    the inputs (each call stores the same again), and for an item written into a container that the caller handed in. A
    write that only training reaches is reported one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [SGLang: index arrays on a shared metadata object](https://github.com/sgl-project/sglang/pull/38994)
    """

    code = "MG112"
    name = "foreign-state-changed"
    severity = Severity.WARNING
    since = "0.1"

    INVALID = (
        Invalid(
            """
            from torch import nn


            class Cursor:
                def __init__(self):
                    self.position = 0


            class Streaming(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.cursor = Cursor()

                def forward(self, x):
                    y = self.proj(x) + self.cursor.position
                    self.cursor.position += x.shape[0]
                    return y
            """,
            line=17,
            attribute="self.cursor.position",
            severity=Severity.ERROR,
            carried=True,
        ),
        Invalid(
            """
            from torch import nn


            class Classifier(nn.Module):
                def __init__(self, config):
                    super().__init__()
                    self.config = config
                    self.labels = config.num_labels
                    self.head = nn.Linear(config.width, config.num_labels)

                def forward(self, x):
                    if self.config.problem_type is None:
                        self.config.problem_type = "regression" if self.labels == 1 else "classification"
                    return self.head(x)
            """,
            line=13,
            attribute="self.config.problem_type",
            severity=Severity.NOTE,
        ),
        Invalid(
            """
            from torch import nn


            class Report:
                shape = None


            class Watched(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.report = Report()

                def forward(self, x):
                    self.report.shape = x.shape
                    return self.proj(x)
            """,
            line=15,
            attribute="self.report.shape",
            severity=Severity.WARNING,
            carried=False,
        ),
        Invalid(
            """
            from torch import nn


            class Attention(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.query = nn.Linear(width, width)

                def forward(self, x, extra: dict):
                    scores = self.query(x) @ x.t()
                    extra["scores"] = scores
                    return scores.softmax(-1) @ x
            """,
            line=11,
            attribute="extra",
            severity=Severity.NOTE,
        ),
        Invalid(
            """
            from torch import nn


            class Meter:
                def __init__(self):
                    self.calls = 0

                def tick(self):
                    self.calls += 1
                    return self.calls


            class Metered(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.meter = Meter()

                def forward(self, x):
                    return self.proj(x) / self.meter.tick()
            """,
            line=9,
            attribute="self.calls",
            severity=Severity.ERROR,
            carried=True,
        ),
    )

    VALID = (
        Valid(
            """
            from torch import nn


            class Streaming(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)

                def forward(self, x, position):
                    y = self.proj(x) + position
                    return y, position + x.shape[0]
            """
        ),
        Valid(
            """
            from torch import nn


            class Classifier(nn.Module):
                def __init__(self, config):
                    super().__init__()
                    if config.problem_type is None:
                        config.problem_type = "regression" if config.num_labels == 1 else "classification"
                    self.config = config
                    self.head = nn.Linear(config.width, config.num_labels)

                def forward(self, x):
                    kind = self.config.problem_type
                    y = self.head(x)
                    return y if kind == "regression" else y.softmax(-1)
            """
        ),
        Valid(
            """
            import copy

            from torch import nn


            class Report:
                shape = None


            class Watched(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.proj = nn.Linear(width, width)
                    self.template = Report()

                def forward(self, x):
                    report = Report()
                    report.shape = x.shape
                    other = copy.copy(self.template)
                    other.shape = report.shape
                    return self.proj(x), report, other
            """
        ),
        Valid(
            """
            from torch import nn


            class Attention(nn.Module):
                def __init__(self, width, layer_idx):
                    super().__init__()
                    self.key = nn.Linear(width, width)
                    self.layer_idx = layer_idx

                def forward(self, x, past_key_values=None):
                    key = self.key(x)
                    if past_key_values is not None:
                        key = past_key_values.update(key, self.layer_idx)
                    return x @ key.t()
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if write.operation in _CHANGES and holds(write.owner, Kind.CONFIG):
            return self._configuration(write)
        if self._is_handed_in(write):
            return self._handed_in(write)
        if write.operation not in (*_CHANGES, Operation.GROW) or not is_foreign(write):
            return None
        consequence = "every step reads it as it was at capture" if write.carried else "it stays as it was at capture"
        severity = Severity.ERROR if write.carried else Severity.WARNING
        whose = "an object that is not a module" if holds(write.owner, Kind.OBJECT) else "an object of unknown type"
        message = f"`{write.path}`, on {whose}, is changed in `{write.function}`: replay does not run this line, so {consequence}"
        advice = (
            "keep what later steps need in a buffer of the module and write into it in place; "
            f"return `{write.path}` or use a local name if it belongs to this step alone"
        )
        return Verdict(severity, message, advice, Effect.LOST)

    @staticmethod
    def _is_handed_in(write: StateWrite) -> bool:
        if write.root is not Root.ARGUMENT or holds(write.owner, Kind.CONFIG):
            return False
        if write.operation in (Operation.ITEM, Operation.GROW):
            return True
        return write.operation in (Operation.MUTATE, Operation.AUGMENT) and holds(write.declared, Kind.CONTAINER)

    @staticmethod
    def _configuration(write: StateWrite) -> Verdict:
        if write.depends_on_inputs and write.operation in (Operation.REBIND, Operation.AUGMENT):
            severity = Severity.WARNING
            consequence = "replay does not run this line, so it keeps the value that the captured inputs gave it"
        else:
            severity = Severity.NOTE
            consequence = "replay does not run this line, so what the configuration says depends on whether the model ran before"
        message = f"configuration value `{write.path}` is changed in `{write.function}`: {consequence}"
        advice = f"set `{write.path}` in `__init__`, or use a local name for the value"
        return Verdict(severity, message, advice, Effect.FROZEN)

    @staticmethod
    def _handed_in(write: StateWrite) -> Verdict:
        word = container_word(write.declared)
        message = (
            f"{word} `{write.path}` that the caller handed in is changed in `{write.function}`: replay does not run this line, "
            "so the caller finds what the captured step put there"
        )
        return Verdict(Severity.NOTE, message, f"return the values instead of storing them in `{write.path}`", Effect.LOST)

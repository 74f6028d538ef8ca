"""What keeps a model from being one graph, in words of ours."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from dataclasses import dataclass
from traceback import StackSummary

import torch

from modelguard.runtime.dynamo import Refusal
from modelguard.runtime.side_effects import Frame

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_PACKAGES = os.sep + "site-packages" + os.sep


@dataclass(frozen=True, slots=True)
class Kind:
    """A family of obstacles: how it is called in output, and what to do about it."""

    name: str
    remedy: str
    behind: str | None = None
    """What of `dynamo.ALLOWED` has a trace go on through it."""


BRANCH = Kind(
    "data-dependent-branch",
    "compute both sides and choose with `torch.where`, or use `torch.cond`; where it only checks, use `torch._check` or drop it",
)
HOST_SYNC = Kind(
    "host-sync", "keep the value in a tensor on the device; pass in what Python needs, worked out before the step", "scalars"
)
SIZES = Kind(
    "data-dependent-size",
    "keep fixed sizes: `torch.where` or a mask in place of `nonzero` and boolean indexing, padding",
    "sizes",
)
DISABLED = Kind("disabled", "take `torch.compiler.disable` off, or move the call out of `forward`")
SCRIPTED = Kind("scripted", "use the plain module or function; `torch.jit.script` hides its code from the tracer")
RECURRENT = Kind(
    "recurrent", "unroll it with its cell, or set `torch._dynamo.config.allow_rnn` where the backend takes it", "recurrent"
)
PRINTING = Kind("printing", "log outside of `forward`, or behind `if not torch.compiler.is_compiling()`", "prints")
NO_FAKE = Kind(
    "no-fake-kernel",
    "register a fake implementation of the operator with `torch.library.register_fake`, which tells its output's size",
)
BREAK = Kind("explicit-break", "take the call of `graph_break` out")
SKIPPED = Kind(
    "untraceable-call",
    "call something that torch can trace, wrap it as an operator (`torch.library.custom_op`), or call it before `forward`",
)
STATE = Kind(
    "state", "register what is written as a buffer and write it in place, or pass it in and out; `modelguard confirm` names it"
)
FAILED = Kind(
    "fails-when-traced", "see that `forward` runs on fake tensors: sizes and devices have to agree without looking at values"
)
GUARD = Kind("size-branch", "let sizes that `forward` branches on be fixed, or promise them with `torch._check`", None)
UNTRACEABLE = Kind(
    "untraceable", "trace it with Dynamo (`--tracer dynamo`), which takes more of Python, or see to what the tracer says"
)
OTHER = Kind("unsupported-python", "write it in plainer Python, or move it out of `forward`")

_KINDS: tuple[tuple[str, Kind], ...] = (
    (r"[Dd]ata-dependent (branching|assertion)|Could not guard on data-dependent|GuardOnDataDependent", BRANCH),
    (r"\.item\(\)|tolist|Tensor\.numpy|Data dependent operator|index\(Tensor\)|non-scalar tensor|from_numpy", HOST_SYNC),
    (r"no meta kernel|fake tensors|[Ff]ake [Tt]ensor prop|FakeTensor example|UnsupportedFakeTensor|fake kernel", NO_FAKE),
    (r"Dynamic shape operator|Dynamic slicing|one_hot|data-dependent output shape", SIZES),
    (r"disable\(\)`d", DISABLED),
    (r"torch\.jit|TorchScript|FakeScriptObject", SCRIPTED),
    (r"RNN, GRU, or LSTM", RECURRENT),
    (r"logging\.Logger|debugging function|operator `print`|`print`|warnings", PRINTING),
    (r"_dynamo\.graph_break|skip_frame|step_unsupported|[Ff]orced graph break", BREAK),
    (r"[Ss]ide effect|mutation|[Mm]utate|non-constant attribute", STATE),
    (r"TorchRuntimeError|FakeTensor|FX node|Observed exception|TypeError from user code", FAILED),
    (r"ConstraintViolation|symbolic shapes|SymNode", GUARD),
    (r"marked as skipped|function call|builtin|trace numpy|ndarray|functions not implemented in python", SKIPPED),
)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One place that a tracer cannot get past."""

    kind: Kind
    title: str
    """The tracer's own name of it."""

    reason: str
    """The tracer's reason, in one sentence."""

    message: str
    """All that the tracer said."""

    stack: tuple[Frame, ...]
    """The calls that lead there, in code that is neither torch's nor Python's own, the innermost last."""

    module: str | None
    """The path of the module whose code it is in; None where that is not known."""

    modules: tuple[str, ...] = ()
    """All modules that run the same code."""

    shapes: str = "static"
    """`static` where sizes are fixed, `dynamic` where only symbolic ones meet it."""

    is_in_graph: bool = False
    """Does the tracer get past it, and a CUDA graph not?"""

    @property
    def place(self) -> tuple[object, ...]:
        """What two reports of one obstacle have in common."""
        last = self.stack[-1] if self.stack else None
        return (self.kind.name, last.path, last.line) if last is not None else (self.kind.name, self.reason)


def kind_of(title: str, message: str) -> Kind:
    """The family of what a tracer refused, by its own name for it and its reason."""
    text = f"{title}\n{reason_of(message)}"
    return next((kind for pattern, kind in _KINDS if re.search(pattern, text)), OTHER)


def reason_of(message: str) -> str:
    """A refusal in one sentence: its explanation where there is one, else its first line."""
    explained = re.search(r"^\s*Explanation: (.*?)(?=\n\s*(?:Hint|Developer debug context)|\n\s*\n|\Z)", message, re.M | re.S)
    told = explained[1] if explained else next((line for line in message.splitlines() if line.strip()), "")
    line = re.sub(r"(?:\w+ )?<\w+ (\S+) at 0x[0-9a-f]+>", r"`\1`", " ".join(told.split()))
    # The first sentence; what follows are hints and examples.
    return re.split(r"(?<=[\w`)\]'])\. (?=[A-Z])", line)[0].rstrip(".")


def title_of(refused: Refusal) -> str:
    """Dynamo's name of what was refused; the first line where that is of what lay behind a break in a called function."""
    first = refused.message.splitlines()[0] if refused.message else refused.kind
    return (
        first if refused.kind in ("graph break in loop", "Graph break in inlined function") and len(first) < 120 else refused.kind
    )


def frames_of(stack: StackSummary) -> tuple[Frame, ...]:
    """The user's own frames; those of torch, Python and this package are left out unless there are no others."""
    frames = [Frame(frame.filename, frame.lineno or 0, _function(frame.name)) for frame in stack]
    users = [frame for frame in frames if not _is_foreign(frame.path)]
    return tuple(users or frames)


def frames_of_error(error: BaseException) -> tuple[Frame, ...]:
    """The same of a traceback."""
    return frames_of(traceback.extract_tb(error.__traceback__))


def _is_foreign(path: str) -> bool:
    if path.startswith((_TORCH, _OWN, "<eval_with_key", "<frozen", "<modelguard")):
        return True
    return path.startswith(_STANDARD) and _PACKAGES not in path


def _function(name: str) -> str:
    """A function's name; Dynamo runs what follows a break as a function whose name tells the rest."""
    resumed = re.fullmatch(r"torch_dynamo_resume_in_(.*)_at_\d+", name)
    return resumed[1] if resumed else name

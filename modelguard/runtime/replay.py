"""A model stepped eagerly, and a copy of it captured once and replayed: do they agree?"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch import nn

from modelguard.errors import ModelguardError
from modelguard.runtime import state
from modelguard.runtime.copying import deep_copied
from modelguard.runtime.cuda_graph import CudaCapture
from modelguard.runtime.differences import NO_NUMBER, Difference, differences
from modelguard.runtime.errors import CopyError, OptionError
from modelguard.runtime.given import a_module, tuples
from modelguard.runtime.tape import HostRead, ShapeChanged, Tape
from modelguard.runtime.varying import Call, varied

WARM_UP = 1
"""Eager calls before the one that is captured: engines make them, and many a cache is filled by then."""

STEPS = 6
OTHERS_BEFORE = 3
"""Calls of other sizes are made before this step, counted from 0: after a replay, and before another."""

UNHELD = "a tensor that the model no longer holds"
"""In place of a path, for memory that was not reached from the model when it was captured."""


class Verdict(Enum):
    """How replay compares with eager steps, the worst first."""

    WRONG_OUTPUT = "wrong-output"
    STALE_STATE = "stale-state"
    FREED_MEMORY = "freed-memory"
    SHAPE_CHANGES = "shape-changes"
    REFUSED = "refused"
    SAME = "same"


class Step(Enum):
    """What became of a step on the replayed side."""

    WARM_UP = "warm-up"
    CAPTURED = "captured"
    REPLAYED = "replayed"

    EAGER = "eager"
    """Made eagerly like the warm-up, because no step of its sizes was captured."""


class ReplayError(ModelguardError):
    """A model cannot be compared: it cannot be copied, or fails when it is called eagerly."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of a comparison."""

    verdict: Verdict
    device: str
    """`cuda` or `tape`."""
    step: int | None = None
    """The first step, counted from 0, at which they part."""
    where: tuple[str, ...] = ()
    """Outputs (`output[0]`) or state paths (`self.count`) that differ; the operator, where capture was refused."""
    max_abs_error: float | None = None
    """The largest difference of an output; None where no output differs, infinite where one is no number."""
    freed: tuple[str, ...] = ()
    """State that was read where it lay at capture, and lies there no longer."""
    host_reads: tuple[HostRead, ...] = ()
    """Where capture on a device would have ended."""
    stale: tuple[str, ...] = ()
    """All state paths that differ after some step."""
    reason: str | None = None
    """What differs in an output, where no amount says it: the size, the type, or that one is no number."""
    steps: tuple[Step, ...] = ()
    """What became of each step that was made."""
    errors: tuple[float, ...] = ()
    """The largest difference of an output at each step that was made; 0 where none differs, infinite where one is no number."""

    @property
    def captured(self) -> int | None:
        """The first step that was captured."""
        return next((number for number, step in enumerate(self.steps) if step is Step.CAPTURED), None)


@dataclass(slots=True)
class _Run:
    """What one side did: outputs and plain state by step, all state after the last."""

    outputs: list[dict[str, Any]] = field(default_factory=list)
    plain: list[dict[str, Any]] = field(default_factory=list)
    """Without tensors, which would have to be copied at each step."""
    state: dict[str, Any] = field(default_factory=dict)

    def done(self, model: nn.Module, output: Any) -> None:
        """One more step."""
        self.outputs.append(state.copied(state.table_of("output", output)))
        table = state.state_of(model)
        self.plain.append({path: value for path, value in table.items() if not isinstance(value, torch.Tensor)})


def replay(
    model: nn.Module,
    calls: Sequence[tuple[Any, ...]],
    kwargs: Mapping[str, Any] | None = None,
    *,
    others: Sequence[tuple[Any, ...]] = (),
    steps: int = STEPS,
    train: bool | None = None,
    device: str | None = None,
    vary: bool = True,
) -> Replay:
    """Step copies of a model eagerly and replayed, with equal inputs and equal random numbers, and compare outputs and state.

    The first call is a warm-up. Of each size that comes again after it, the first call is captured and the later ones are
    replays, as an engine has a graph for each size. A call whose sizes come once is made eagerly on both sides.

    Args:
        model: left as it is.
        calls: positional arguments, one tuple a step. Fewer than it takes to replay are used in turn until there are `steps`.
        kwargs: keyword arguments of each call.
        others: calls of other sizes, made before step 3.
        steps: how many steps, at least 3, if there are fewer than 3 calls. Those are used in turn.
        train: put the copies into training mode, or into evaluation mode; None leaves them.
        device: `cuda` captures a CUDA graph, `tape` records operators; None takes CUDA where model and machine have it.
        vary: where there is one call, give its floating-point tensors other values at each step (`varying.varied`).

    Raises:
        ModuleError: `model` is no module.
        OptionError: `steps` or `device` has a value that is not allowed, or `calls` or `others` holds no tuples of arguments.
        ReplayError: the model cannot be copied or recorded, a call of it fails eagerly, or nothing could be replayed.
    """
    a_module(model, "replayed")
    chosen = _device(model, device)
    if steps < WARM_UP + 2:
        raise OptionError(f"steps={steps} leaves nothing to replay: one warms up, one is captured; give at least {WARM_UP + 2}")
    given: list[Call] = [(args, dict(kwargs or {})) for args in tuples("calls", calls)]
    between: list[Call] = [(args, dict(kwargs or {})) for args in tuples("others", others)]
    if not given:
        raise OptionError("there are no calls; give at least one tuple of arguments")
    with _kept_random_state():
        if len(given) == 1 and vary:
            with state.apart(model):
                kept = _changed(_copies(model, given, []), train)
            sequence = [given[0], *(varied(given[0], step, kept) for step in range(1, steps))]
        else:
            sequence = given if len(given) >= WARM_UP + 2 else list(itertools.islice(itertools.cycle(given), steps))
        with state.apart(model):
            eager = _eager(_copies(model, sequence, between), train)
        with state.apart(model):
            replayed = _replayed(_copies(model, sequence, between), train, chosen)
    return _judged(eager, *replayed, chosen)


@dataclass(frozen=True, slots=True)
class _Case:
    model: nn.Module
    calls: list[Call]
    others: list[Call]


def _copies(model: nn.Module, calls: list[Call], others: list[Call]) -> _Case:
    """Copied in one go, so that what they share they share in the copy."""
    try:
        return _Case(*deep_copied((model, calls, others), _parted(calls)))
    except CopyError as error:
        raise ReplayError(f"the model cannot be compared with itself: {error}") from None


def _parted(calls: list[Call]) -> dict[int, torch.Tensor]:
    """Copies of inputs that lie side by side in one piece of memory, such as rows of a batch: writing one would write others."""
    places: dict[int, set[tuple[int, ...]]] = {}
    tensors = [tensor for tensor in state.tensors_of(calls) if tensor.layout is torch.strided]
    for tensor in tensors:
        places.setdefault(tensor.untyped_storage()._cdata, set()).add((tensor.data_ptr(), *tensor.size(), *tensor.stride()))
    return {id(tensor): tensor.detach().clone() for tensor in tensors if len(places[tensor.untyped_storage()._cdata]) > 1}


def _changed(case: _Case, train: bool | None) -> set[int | str]:
    """The arguments, by place or name, that a call changes, such as a cache that the caller keeps."""
    args, kwargs = call = case.calls[0]
    arguments: dict[int | str, Any] = dict([*enumerate(args), *kwargs.items()])
    before = {key: state.copied(state.table_of("", value)) for key, value in arguments.items()}
    with _stepping(case.model, train):
        _seed(0)
        _called(case, call, "step 0")
    return {key for key, value in arguments.items() if any(differences(before[key], state.table_of("", value)))}


def _eager(case: _Case, train: bool | None) -> _Run:
    run = _Run()
    with _stepping(case.model, train):
        for step, call in enumerate(case.calls):
            _make_others(case, step)
            _seed(step)
            run.done(case.model, _called(case, call, f"step {step}"))
        run.state = state.copied(state.state_of(case.model))
    return run


def _called(case: _Case, call: Call, name: str) -> Any:
    try:
        return case.model(*call[0], **call[1])
    except Exception as error:
        raise ReplayError(f"{name} fails eagerly: {_told(error)}") from error


def _replayed(case: _Case, train: bool | None, device: str) -> tuple[_Run, _Graphs]:
    run, graphs = _Run(), _Graphs(device)
    with _stepping(case.model, train):
        for step, call in enumerate(case.calls):
            _make_others(case, step)
            _seed(step)
            graph = graphs.of(call)
            if graph is not None:
                output, made = graph.replay(call, graphs.freed), Step.REPLAYED
            elif step >= WARM_UP and any(_fits(later, call) for later in case.calls[step + 1 :]):
                output, made = graphs.capture(case.model, call), Step.CAPTURED
            else:
                output, made = _called(case, call, f"step {step}"), Step.WARM_UP if step < WARM_UP else Step.EAGER
            graphs.steps.append(made)
            if graphs.failure is not None:
                break
            run.done(case.model, output)
        run.state = state.copied(state.state_of(case.model))
    if graphs.failure is None and Step.REPLAYED not in graphs.steps:
        raise ReplayError("nothing was replayed: no two calls after the first have inputs of the same sizes; give more calls")
    return run, graphs


class _Graphs:
    """The captured steps, one for each size of inputs that comes again, and what became of all steps."""

    def __init__(self, device: str) -> None:
        self.steps: list[Step] = []
        self.freed: dict[str, None] = {}
        """What was captured where it lay, and has been freed since, in the order in which it was noticed."""
        self._device = device
        self._each: list[_Captured] = []

    @property
    def failure(self) -> Exception | None:
        return next((each.failure for each in self._each if each.failure is not None), None)

    @property
    def host_reads(self) -> tuple[HostRead, ...]:
        return tuple(dict.fromkeys(read for each in self._each for read in each.host_reads))

    def of(self, call: Call) -> _Captured | None:
        """The one that has the sizes of a call."""
        return next((each for each in self._each if _fits(call, each.call)), None)

    def capture(self, model: nn.Module, call: Call) -> Any:
        captured = _Captured(self._device, call, state.storages(state.state_of(model)))
        self._each.append(captured)
        return captured.record(model)


class _Captured:
    """A captured step: its inputs, which replays write into, and its outputs, which they write to."""

    def __init__(self, device: str, call: Call, names: dict[int, str]) -> None:
        self._graph: Tape | CudaCapture = CudaCapture() if device == "cuda" else Tape()
        self._outputs: Any = None
        self._names = names
        self.call = call
        self.failure: Exception | None = None
        self._own: dict[str, torch.Tensor] = {}
        """What the captured call's tensors held, where another call's are in their place."""

    @property
    def host_reads(self) -> list[HostRead]:
        return self._graph.host_reads

    def record(self, model: nn.Module) -> Any:
        args, kwargs = self.call
        try:
            self._outputs = self._graph.record(lambda: model(*args, **kwargs))
        except Exception as error:
            if isinstance(self._graph, Tape):
                # Eagerly it ran, and nothing here refuses to be captured.
                raise ReplayError(f"a step cannot be recorded: {_told(error)}") from error
            self.failure = error
        return self._outputs

    def replay(self, call: Call, freed: dict[str, None]) -> Any:
        """Replay it with the inputs of another call, and note in `freed` what it reads that nobody owns any more."""
        given = state.table_of("", call)
        for path, static in state.table_of("", self.call).items():
            value = given.get(path)
            if isinstance(static, torch.Tensor) and isinstance(value, torch.Tensor):
                self._give(path, static, value)
        freed.update(dict.fromkeys(self._names.get(address, UNHELD) for address in self._graph.freed()))
        self._graph.poison()
        try:
            self._graph.replay()
        except Exception as error:
            self.failure = error
        return self._outputs

    def _give(self, path: str, static: torch.Tensor, value: torch.Tensor) -> None:
        """Put a value where the graph reads it. What lies there already, such as a cache that the caller keeps, stays."""
        if static.data_ptr() != value.data_ptr():
            self._own.setdefault(path, static.detach().clone())
        elif path in self._own:
            value = self._own.pop(path)
        else:
            return
        with torch.inference_mode(static.is_inference()), torch.no_grad():
            _unexpanded(static).copy_(_unexpanded(value, static))


def _told(error: Exception) -> str:
    """An error in one line."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def _judged(eager: _Run, replayed: _Run, graphs: _Graphs, device: str) -> Replay:
    parted = list(_parted_ways(eager.outputs, replayed.outputs))
    failure, freed = graphs.failure, tuple(graphs.freed)
    stale = tuple(_stale(eager, replayed)) if failure is None else ()
    verdict = Verdict.SAME
    step: int | None = None
    where: tuple[str, ...] = ()
    error: float | None = None
    if parted:
        first = parted[0][0]
        where = tuple(dict.fromkeys(item.where for at, item in parted if at == first))
        verdict, step, error = Verdict.WRONG_OUTPUT, first, max(item.error for _, item in parted)
    elif isinstance(failure, ShapeChanged):
        verdict, step, where = Verdict.SHAPE_CHANGES, len(replayed.outputs), (str(failure),)
    elif failure is not None and freed:
        # An index read from garbage is out of range.
        verdict, step, where = Verdict.FREED_MEMORY, len(replayed.outputs), freed
    elif failure is not None:
        verdict, step, where = Verdict.REFUSED, len(replayed.outputs), (_told(failure),)
    elif stale:
        verdict, where = Verdict.STALE_STATE, stale
    elif freed:
        verdict, where = Verdict.FREED_MEMORY, freed
    elif graphs.host_reads:
        verdict, where = Verdict.REFUSED, tuple(read.operator for read in graphs.host_reads)
    errors = [0.0] * min(len(eager.outputs), len(replayed.outputs))
    for at, item in parted:
        errors[at] = max(errors[at], item.error)
    reason = _reason(parted, bool(freed))
    return Replay(
        verdict, device, step, where, error, freed, graphs.host_reads, stale, reason, tuple(graphs.steps), tuple(errors)
    )


def _reason(parted: list[tuple[int, Difference]], is_freed: bool) -> str | None:
    """What no amount says of the first output that has such a difference."""
    for step, item in parted:
        if item.reason:
            cause = ", because memory that was freed is read" if is_freed and item.reason == NO_NUMBER else ""
            return f"{item.reason}{cause}{f' (at step {step})' if step != parted[0][0] else ''}"
    return None


def _parted_ways(eager: list[Any], replayed: list[Any]) -> Iterator[tuple[int, Difference]]:
    for step, (expected, found) in enumerate(zip(eager, replayed, strict=False)):
        for difference in differences(expected, found):
            yield step, difference


def _stale(eager: _Run, replayed: _Run) -> list[str]:
    """The state paths that differ after any step. A counter that wraps around can be right again in the end."""
    tables = zip((*eager.plain, eager.state), (*replayed.plain, replayed.state), strict=True)
    return list(dict.fromkeys(item.where for mine, theirs in tables for item in differences(mine, theirs)))


def _unexpanded(tensor: torch.Tensor, like: torch.Tensor | None = None) -> torch.Tensor:
    """One of the elements that lie at one place, as in what `expand` makes: only such a view can be written to."""
    strides = (tensor if like is None else like).stride()
    return tensor[tuple(slice(0, None if stride else 1) for stride in strides)]


def _fits(call: Any, captured: Any) -> bool:
    """Has a call the sizes of the captured one? What only one of them holds by now, such as a result it keeps, is no size."""
    mine, theirs = _sizes(call), _sizes(captured)
    return all(mine[path] == theirs[path] for path in mine.keys() & theirs.keys())


def _sizes(call: Any) -> dict[str, Any]:
    table = state.table_of("", call)
    tensors = {path: (value.shape, value.dtype) for path, value in table.items() if isinstance(value, torch.Tensor)}
    return {**tensors, **{path: value for path, value in table.items() if path.startswith("len(")}}


def _make_others(case: _Case, step: int) -> None:
    if step == min(OTHERS_BEFORE, len(case.calls) - 1):
        for number, call in enumerate(case.others):
            _seed(1000 + number)
            _called(case, call, f"call {number} of other sizes")


class _stepping:
    """The mode that steps run in: without gradients, in training or evaluation mode."""

    def __init__(self, model: nn.Module, train: bool | None) -> None:
        if train is not None:
            model.train(train)
        self._no_grad = torch.no_grad()

    def __enter__(self) -> None:
        self._no_grad.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._no_grad.__exit__(*error)


def _seed(step: int) -> None:
    torch.manual_seed(1234 + step)
    random.seed(1234 + step)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(1234 + step)


class _kept_random_state:
    """What the comparison draws changes nothing for the caller."""

    def __enter__(self) -> None:
        self._python = random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy = None if numpy is None else (numpy.random, numpy.random.get_state())
        self._torch = torch.random.fork_rng()
        self._torch.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._torch.__exit__(*error)
        random.setstate(self._python)
        if self._numpy is not None:
            self._numpy[0].set_state(self._numpy[1])


def _device(model: nn.Module, device: str | None) -> str:
    on_cuda = any(value.is_cuda for value in (*model.parameters(), *model.buffers()))
    if device is None:
        return "cuda" if on_cuda and torch.cuda.is_available() else "tape"
    if device not in ("cuda", "tape"):
        raise OptionError(f"there is no device {device!r}; choose 'cuda' or 'tape'")
    if device == "cuda" and not torch.cuda.is_available():
        raise ReplayError("there is no CUDA device here; 'tape' compares without one")
    return device

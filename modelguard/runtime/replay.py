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
from modelguard.runtime.errors import OptionError
from modelguard.runtime.tape import HostRead, ShapeChanged, Tape

WARM_UP = 1
"""Eager calls before the one that is captured: engines make them, and many a cache is filled by then."""

STEPS = 6
OTHERS_BEFORE = 3
"""Calls of other sizes are made before this step, counted from 0: after a replay, and before another."""

UNHELD = "a tensor that the model no longer holds"
"""In place of a path, for memory that was not reached from the model when it was captured."""

_RELATIVE, _ABSOLUTE = 1e-5, 1e-6


class Verdict(Enum):
    """How replay compares with eager steps, the worst first."""

    WRONG_OUTPUT = "wrong-output"
    STALE_STATE = "stale-state"
    FREED_MEMORY = "freed-memory"
    SHAPE_CHANGES = "shape-changes"
    REFUSED = "refused"
    SAME = "same"


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
    captured: int | None = None
    """The step that was captured."""
    errors: tuple[float, ...] = ()
    """The largest difference of an output at each step that was made; 0 where none differs, infinite where one is no number."""


@dataclass(frozen=True, slots=True)
class _Difference:
    step: int
    where: str
    error: float


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
) -> Replay:
    """Step copies of a model eagerly and replayed, with equal inputs and equal random numbers, and compare outputs and state.

    The first call is a warm-up, the next one whose sizes come again is captured, the rest are replays. A call whose tensors have
    other shapes than the captured one is made eagerly on both sides, as an engine would that has no graph for it.

    Args:
        model: left as it is.
        calls: positional arguments, one tuple a step. Fewer than it takes to replay are used in turn until there are `steps`.
        kwargs: keyword arguments of each call.
        others: calls of other sizes, made before step 3.
        steps: how many steps, at least 3, if there are fewer than 3 calls. Those are used in turn.
        train: put the copies into training mode, or into evaluation mode; None leaves them.
        device: `cuda` captures a CUDA graph, `tape` records operators; None takes CUDA where model and machine have it.

    Raises:
        OptionError: `steps` or `device` has a value that is not allowed.
        ReplayError: the model cannot be copied or recorded, a call of it fails eagerly, or nothing could be replayed.
    """
    chosen = _device(model, device)
    if steps < WARM_UP + 2:
        raise OptionError(f"steps={steps} leaves nothing to replay: one warms up, one is captured; give at least {WARM_UP + 2}")
    sequence = list(calls) if len(calls) >= WARM_UP + 2 else list(itertools.islice(itertools.cycle(calls), steps))
    arguments = dict(kwargs or {})
    with _kept_random_state():
        with state.apart(model):
            eager = _eager(_copies(model, sequence, arguments, others), train)
        with state.apart(model):
            replayed = _replayed(_copies(model, sequence, arguments, others), train, chosen)
    return _judged(eager, *replayed, chosen)


@dataclass(frozen=True, slots=True)
class _Case:
    model: nn.Module
    calls: list[tuple[Any, ...]]
    kwargs: dict[str, Any]
    others: list[tuple[Any, ...]]


def _copies(model: nn.Module, calls: list[tuple[Any, ...]], kwargs: dict[str, Any], others: Sequence[tuple[Any, ...]]) -> _Case:
    """Copied in one go, so that what they share they share in the copy."""
    try:
        return _Case(*deep_copied((model, calls, kwargs, list(others)), _parted(calls)))
    except Exception as error:
        raise ReplayError(
            f"the model or its inputs cannot be copied ({_told(error)}); "
            "detach what is computed with gradients, or give the class a __deepcopy__"
        ) from error


def _parted(calls: list[tuple[Any, ...]]) -> dict[int, torch.Tensor]:
    """Copies of inputs that lie side by side in one piece of memory, such as rows of a batch: writing one would write others."""
    places: dict[int, set[tuple[int, ...]]] = {}
    tensors = [tensor for tensor in state.tensors_of(calls) if tensor.layout is torch.strided]
    for tensor in tensors:
        places.setdefault(tensor.untyped_storage()._cdata, set()).add((tensor.data_ptr(), *tensor.size(), *tensor.stride()))
    return {id(tensor): tensor.detach().clone() for tensor in tensors if len(places[tensor.untyped_storage()._cdata]) > 1}


def _eager(case: _Case, train: bool | None) -> _Run:
    run = _Run()
    with _stepping(case.model, train):
        for step, call in enumerate(case.calls):
            _make_others(case, step)
            _seed(step)
            run.done(case.model, _called(case, call, f"step {step}"))
        run.state = state.copied(state.state_of(case.model))
    return run


def _called(case: _Case, call: tuple[Any, ...], name: str) -> Any:
    try:
        return case.model(*call, **case.kwargs)
    except Exception as error:
        raise ReplayError(f"{name} fails eagerly: {_told(error)}") from error


def _replayed(case: _Case, train: bool | None, device: str) -> tuple[_Run, _Captured]:
    run, captured = _Run(), _Captured(device)
    with _stepping(case.model, train):
        for step, call in enumerate(case.calls):
            _make_others(case, step)
            _seed(step)
            if step >= WARM_UP and captured.call is None and any(_fits(later, call) for later in case.calls[step + 1 :]):
                captured.names = state.storages(state.state_of(case.model))
                captured.step = step
                output = captured.capture(case.model, call, case.kwargs)
            elif captured.call is None or not _fits(call, captured.call):
                output = _called(case, call, f"step {step}")
            else:
                output = captured.replay(call)
            if captured.failure is not None:
                break
            run.done(case.model, output)
        run.state = state.copied(state.state_of(case.model))
    if captured.failure is None and not captured.replays:
        raise ReplayError("nothing was replayed: no two calls after the first have inputs of the same sizes; give more calls")
    return run, captured


class _Captured:
    """The captured step: its inputs, which replays write into, and its outputs, which they write to."""

    def __init__(self, device: str) -> None:
        self._graph: Tape | CudaCapture = CudaCapture() if device == "cuda" else Tape()
        self._outputs: Any = None
        self.call: tuple[Any, ...] | None = None
        self.step: int | None = None
        self.names: dict[int, str] = {}
        self.freed: list[str] = []
        self.failure: Exception | None = None
        self.replays = 0
        self._own: dict[str, torch.Tensor] = {}
        """What the captured call's tensors held, where another call's are in their place."""

    @property
    def host_reads(self) -> tuple[HostRead, ...]:
        return tuple(dict.fromkeys(self._graph.host_reads))

    def capture(self, model: nn.Module, call: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.call = call
        try:
            self._outputs = self._graph.record(lambda: model(*call, **kwargs))
        except Exception as error:
            if isinstance(self._graph, Tape):
                # Eagerly it ran, and nothing here refuses to be captured.
                raise ReplayError(f"a step cannot be recorded: {_told(error)}") from error
            self.failure = error
        return self._outputs

    def replay(self, call: tuple[Any, ...]) -> Any:
        self.replays += 1
        given = state.table_of("", call)
        for path, static in state.table_of("", self.call).items():
            value = given.get(path)
            if isinstance(static, torch.Tensor) and isinstance(value, torch.Tensor):
                self._give(path, static, value)
        for address in self._graph.freed():
            name = self.names.get(address, UNHELD)
            if name not in self.freed:
                self.freed.append(name)
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


def _judged(eager: _Run, replayed: _Run, captured: _Captured, device: str) -> Replay:
    differences = list(_differences(eager.outputs, replayed.outputs))
    stale = tuple(_stale(eager, replayed)) if captured.failure is None else ()
    verdict = Verdict.SAME
    step: int | None = None
    where: tuple[str, ...] = ()
    error: float | None = None
    failure = captured.failure
    if differences:
        first = differences[0].step
        where = tuple(dict.fromkeys(item.where for item in differences if item.step == first))
        verdict, step, error = Verdict.WRONG_OUTPUT, first, max(item.error for item in differences)
    elif isinstance(failure, ShapeChanged):
        verdict, step, where = Verdict.SHAPE_CHANGES, len(replayed.outputs), (str(failure),)
    elif failure is not None and captured.freed:
        # An index read from garbage is out of range.
        verdict, step, where = Verdict.FREED_MEMORY, len(replayed.outputs), tuple(captured.freed)
    elif failure is not None:
        verdict, step, where = Verdict.REFUSED, len(replayed.outputs), (_told(failure),)
    elif stale:
        verdict, where = Verdict.STALE_STATE, stale
    elif captured.freed:
        verdict, where = Verdict.FREED_MEMORY, tuple(captured.freed)
    elif captured.host_reads:
        verdict, where = Verdict.REFUSED, tuple(read.operator for read in captured.host_reads)
    errors = [0.0] * min(len(eager.outputs), len(replayed.outputs))
    for item in differences:
        errors[item.step] = max(errors[item.step], item.error)
    freed = tuple(captured.freed)
    return Replay(verdict, device, step, where, error, freed, captured.host_reads, stale, captured.step, tuple(errors))


def _differences(eager: list[Any], replayed: list[Any]) -> Iterator[_Difference]:
    for step, (expected, found) in enumerate(zip(eager, replayed, strict=False)):
        for path, error in _differing(expected, found):
            yield _Difference(step, path, error)


def _stale(eager: _Run, replayed: _Run) -> list[str]:
    """The state paths that differ after any step. A counter that wraps around can be right again in the end."""
    tables = zip((*eager.plain, eager.state), (*replayed.plain, replayed.state), strict=True)
    return list(dict.fromkeys(path for mine, theirs in tables for path, _ in _differing(mine, theirs)))


_MISSING = object()


def _differing(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for path in dict.fromkeys((*mine, *theirs)):
        error = _error(mine.get(path, _MISSING), theirs.get(path, _MISSING))
        if error:
            # How many items there are is told by the container's own name.
            yield path.removeprefix("len(").removesuffix(")") if path.startswith("len(") else path, error


def _error(expected: Any, found: Any) -> float:
    """0 where two values are the same for all purposes; else how far apart they are."""
    if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
        if expected.is_nested and found.is_nested:
            expected, found = torch.nested.to_padded_tensor(expected, 0.0), torch.nested.to_padded_tensor(found, 0.0)
        if expected.shape != found.shape or expected.dtype != found.dtype:
            return float("inf")
        if expected.layout is not torch.strided or found.layout is not torch.strided:
            expected, found = expected.to_dense(), found.to_dense()
        if expected.is_meta or torch.equal(expected, found):
            return 0.0
        wide = torch.complex128 if expected.is_complex() else torch.float64
        is_exact = not (expected.is_floating_point() or expected.is_complex())
        expected, found = expected.to(wide), found.to(wide)
        if not is_exact and torch.allclose(expected, found, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True):
            return 0.0
        error = float((expected - found).abs().max())
        # Integers that differ by less than so large a float tells apart.
        return float("inf") if error != error else error or 1.0
    if type(expected) is not type(found):
        return float("inf")
    if isinstance(expected, float) and expected != expected and found != found:
        return 0.0
    return 0.0 if expected == found else float("inf")


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

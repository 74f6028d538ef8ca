"""Replay against eager steps: faulty models get their verdict, good ones `same`, and the caller finds all as it was."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MethodType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from modelguard.runtime import ModuleError, OptionError
from modelguard.runtime.replay import Replay, ReplayError, Verdict, replay

COUNT = 0
TABLE: dict[str, Any] = {"inner": [0]}
SHARED = torch.zeros(2)


class Made(nn.Module):
    """A model from a function, and from what it keeps."""

    def __init__(self, step: Callable[..., Any], **kept: Any) -> None:
        super().__init__()
        for name, value in kept.items():
            if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter) and name.startswith("buf"):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)
        self.step = step

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.step(self, *args, **kwargs)


def ramp(*sizes: int, start: float = 0.0) -> torch.Tensor:
    count = int(torch.Size(sizes).numel())
    return (torch.arange(count, dtype=torch.float32) + 1 + start).reshape(sizes)


def inputs(*sizes: int, count: int = 6) -> list[tuple[torch.Tensor, ...]]:
    return [(ramp(*sizes, start=number),) for number in range(count)]


def compared(model: nn.Module, calls: Any = None, **options: Any) -> Replay:
    return replay(model, inputs(2) if calls is None else calls, device="tape", **options)


# What goes wrong.


def rebinds(self: Any, x: Any) -> Any:
    self.buf = 0.5 * self.buf + x
    return self.buf


def counts(self: Any, x: Any) -> Any:
    self.n += 1
    return x * self.n


def appends(self: Any, x: Any) -> Any:
    self.items.append(x)
    return sum(self.items)


def keeps_in_dict(self: Any, x: Any) -> Any:
    last = self.table.get((1, 2), torch.zeros_like(x))
    self.table[(1, 2)] = x.clone()
    return x + last


def grows(self: Any, x: Any) -> Any:
    if self.rows is None or self.rows.shape[0] < x.shape[0]:
        self.rows = torch.arange(x.shape[0], dtype=torch.float32)
    return x + self.rows[: x.shape[0]]


def swaps_data(self: Any, x: Any) -> Any:
    self.weight.data = self.weight.data * 1.5
    return x * self.weight


@functools.lru_cache(maxsize=1)
def positions(length: int) -> torch.Tensor:
    return torch.arange(length, dtype=torch.float32)


def memoises(self: Any, x: Any) -> Any:
    return x + positions(x.shape[0])


def counts_on_object(self: Any, x: Any) -> Any:
    self.plain.calls += 1
    return x * self.plain.calls


def counts_globally(self: Any, x: Any) -> Any:
    global COUNT
    COUNT += 1
    TABLE["inner"][0] += 1
    return x * COUNT * TABLE["inner"][0]


def counts_on_class(self: Any, x: Any) -> Any:
    OnClass.total += 1
    return x * OnClass.total


class OnClass(Made):
    total: ClassVar[int] = 0


def counting_closure() -> Callable[..., Any]:
    count = 0

    def step(self: Any, x: Any) -> Any:
        nonlocal count
        count += 1
        return x * count

    return step


def class_in_a_function() -> nn.Module:
    count = 0

    class Local(nn.Module):
        def forward(self, x: Any) -> Any:
            nonlocal count
            count += 1
            return x * count

    return Local()


def default_argument(self: Any, x: Any, seen: list[int] = []) -> Any:  # noqa: B006
    seen.append(1)
    return x * len(seen)


class Default(Made):
    def forward(self, x: Any) -> Any:
        return default_argument(self, x)


def changes_array(self: Any, x: Any) -> Any:
    self.array[0] += 1
    return x * float(self.array[0])


def silent(name: str) -> Callable[..., Any]:
    def step(self: Any, x: Any) -> Any:
        if name == "attribute":
            self.n += 1
        elif name == "numpy integer":
            self.n = np.int64(self.n + 1)
        elif name == "array":
            self.array[0] += 1
        elif name == "container":
            self.items.append(1)
        elif name == "set":
            self.members.add(len(self.members))
        elif name == "plain object":
            self.plain.calls += 1
        elif name == "record":
            self.record.n += 1
        elif name == "class attribute":
            OnClass.total += 1
        elif name == "global":
            global COUNT
            COUNT += 1
        elif name == "tensor":
            self.t = x * 2
        elif name == "hook":
            self.register_forward_hook(lambda *_: None)
        elif name == "large integer":
            self.buf = self.buf + 1
        return x + 1

    return step


@dataclass
class Plain:
    calls: int = 0


WRONG = {
    "rebound buffer": (lambda: Made(rebinds, buf=torch.zeros(2)), {}, "self.buf"),
    "counter": (lambda: Made(counts, n=0), {}, "self.n"),
    "list": (lambda: Made(appends, items=[]), {}, "self.items"),
    "dict": (lambda: Made(keeps_in_dict, table={}), {}, None),
    "plain object": (lambda: Made(counts_on_object, plain=Plain()), {}, "self.plain.calls"),
    "class attribute": (lambda: OnClass(counts_on_class), {}, "OnClass.total"),
    "global": (lambda: Made(counts_globally), {}, "test_replay.COUNT"),
    "closure": (lambda: Made(counting_closure()), {}, "self.step.count"),
    "class in a function": (class_in_a_function, {}, "Local.forward.count"),
    "default argument": (lambda: Default(None), {}, "test_replay.default_argument.__defaults__"),
    "array": (lambda: Made(changes_array, array=np.zeros(1)), {}, "self.array"),
    "growing table": (lambda: Made(grows, rows=None), {"others": [(ramp(5),)]}, None),
    "data swapped": (lambda: Made(swaps_data, weight=nn.Parameter(torch.ones(2))), {}, "self.weight"),
    "memo evicted": (lambda: Made(memoises), {"others": [(ramp(5),)]}, None),
}


@pytest.mark.parametrize(("make", "options", "stale"), WRONG.values(), ids=WRONG)
def test_wrong_outputs(make: Callable[[], nn.Module], options: dict[str, Any], stale: str | None) -> None:
    result = compared(make(), **options)
    assert result.verdict is Verdict.WRONG_OUTPUT
    assert result.where == ("output",)
    assert result.step == (3 if options else 2)
    assert stale is None or stale in result.stale
    assert result.max_abs_error is not None and result.max_abs_error > 0
    assert result.errors[result.step] > 0 and max(result.errors) == result.max_abs_error
    assert not any(result.errors[: result.step])


STALE = {
    "attribute": ({"n": 0}, "self.n"),
    "numpy integer": ({"n": np.int64(0)}, "self.n"),
    "array": ({"array": np.zeros(1)}, "self.array"),
    "container": ({"items": []}, "self.items"),
    "set": ({"members": set()}, "self.members"),
    "plain object": ({"plain": Plain()}, "self.plain.calls"),
    "record": ({"record": SimpleNamespace(n=0)}, "self.record.n"),
    "class attribute": ({}, "OnClass.total"),
    "global": ({}, "test_replay.COUNT"),
    "hook": ({}, "self._forward_hooks"),
    "large integer": ({"buf": torch.tensor([1 << 60])}, "self.buf"),
}


@pytest.mark.parametrize(("name", "kept", "path"), [(name, *row) for name, row in STALE.items()], ids=STALE)
def test_stale_state(name: str, kept: dict[str, Any], path: str) -> None:
    result = compared(OnClass(silent(name), **kept))
    assert result.verdict is Verdict.STALE_STATE
    assert path in result.where and result.where == result.stale
    assert result.step is None and result.max_abs_error is None


def test_a_tensor_that_takes_the_captured_output_s_place_is_no_difference() -> None:
    assert compared(Made(silent("tensor"), t=torch.zeros(2))).verdict is Verdict.SAME


def test_freed_memory_is_told_where_no_output_shows_it() -> None:
    def step(self: Any, x: Any) -> Any:
        used = x + 0 * torch.nan_to_num(self.scale, 0.0, 0.0, 0.0)
        self.scale = torch.ones(2)
        return used

    result = compared(Made(step, scale=torch.ones(2)))
    assert result.verdict in (Verdict.FREED_MEMORY, Verdict.STALE_STATE)
    assert result.freed == ("self.scale",)


def test_an_index_read_from_freed_memory() -> None:
    def step(self: Any, x: Any) -> Any:
        self.order = self.order.clone()
        return x[self.order]

    result = compared(Made(step, order=torch.tensor([1, 0])))
    assert result.verdict is Verdict.FREED_MEMORY
    assert result.where == ("self.order",) and result.step == 2


def test_shape_changes() -> None:
    result = compared(Made(lambda self, x: torch.unique(x)), [(torch.tensor([1, 1]),)] * 2 + [(torch.tensor([1, 2]),)] * 3)
    assert result.verdict is Verdict.SHAPE_CHANGES
    assert result.step == 2


REFUSED = {
    "item": lambda self, x: x * x.sum().item(),
    "float": lambda self, x: x * float(x[0] * 0),
    "branch": lambda self, x: x if (x > 0).all() else -x,
    "tolist": lambda self, x: x + len(x.tolist()),
    "numpy": lambda self, x: x + len(x.numpy()),
    "cpu": lambda self, x: x.cpu() + 1,
    "printed": lambda self, x: x + len(f"{x}") - len(repr(x)),
    "nonzero": lambda self, x: torch.nonzero(x).sum() + x,
    "where": lambda self, x: torch.where(x > 0)[0] + x,
    "boolean mask": lambda self, x: x[x > 0].sum(),
    "boolean mask written": lambda self, x: x.clone().index_put_((x > 0,), torch.zeros(())),
    "masked_select": lambda self, x: x.masked_select(x > 0).sum(),
    "repeat_interleave": lambda self, x: x.repeat_interleave(torch.ones(2, dtype=torch.int64) + 0 * x.long()),
    "one_hot of unknown width": lambda self, x: F.one_hot(x.long() * 0),
}


@pytest.mark.parametrize("step", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("mode", [contextlib.nullcontext, torch.inference_mode], ids=["plain", "inference"])
def test_refused(step: Callable[..., Any], mode: Callable[[], Any], request: pytest.FixtureRequest) -> None:
    def within(self: Any, x: Any) -> Any:
        with mode():
            return step(self, x)

    result = compared(Made(within), [(ramp(2),)], vary=False)
    assert (result.verdict, result.stale, result.freed) == (Verdict.REFUSED, (), ())
    read = result.host_reads[0]
    assert read.place is not None and read.place.path == __file__
    assert read.place.line == step.__code__.co_firstlineno


def branches(self: Any, x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))


def test_the_sizes_that_come_again_are_captured() -> None:
    def step(self: Any, x: Any) -> Any:
        self.longest = max(self.longest, len(x))
        return x * self.longest

    result = compared(Made(step, longest=0), [(torch.ones(length),) for length in (3, 6, 3, 9, 3)])
    assert (result.verdict, result.step, result.captured) == (Verdict.WRONG_OUTPUT, 4, 2)


def test_the_error_of_each_step() -> None:
    def counted(self: Any, x: Any) -> Any:
        self.n += 1
        return torch.full_like(x, float(self.n) if self.n != 5 else float("nan"))

    result = compared(Made(counted, n=0))
    assert (result.captured, result.errors) == (1, (0.0, 0.0, 1.0, 2.0, float("inf"), 4.0))


def test_a_capture_that_fails_has_no_further_errors() -> None:
    def halves(self: Any, x: Any) -> Any:
        return x[x > 2].sum()

    result = compared(Made(halves), [(ramp(4, start=float(start)),) for start in (0, 0, 1, 0)])
    assert (result.verdict, result.step, result.captured, result.errors) == (Verdict.SHAPE_CHANGES, 2, 1, (0.0, 0.0))


def lengths(*each: int) -> list[tuple[torch.Tensor]]:
    return [(torch.ones(length),) for length in each]


SIZES = {
    "one": ((4,) * 4, "warm-up captured replayed replayed"),
    "mixed": ((4, 4, 5, 5, 5), "warm-up eager captured replayed replayed"),
    "each again": ((4, 4, 4, 5, 5, 4), "warm-up captured replayed captured replayed replayed"),
    "once": ((4, 4, 4, 5, 4), "warm-up captured replayed eager replayed"),
}


@pytest.mark.parametrize(("given", "steps"), SIZES.values(), ids=SIZES)
def test_what_becomes_of_each_step_is_told(given: tuple[int, ...], steps: str) -> None:
    result = compared(Made(lambda self, x: x * 2), lengths(*given))
    assert " ".join(step.value for step in result.steps) == steps
    assert result.verdict is Verdict.SAME


@pytest.mark.parametrize("size", [4, 5])
def test_each_size_that_comes_again_is_replayed(size: int) -> None:
    def step(self: Any, x: Any) -> Any:
        if len(x) == size:
            self.n += 1
            return x * self.n
        return x

    result = compared(Made(step, n=0), lengths(4, 4, 4, 5, 5, 5))
    assert (result.verdict, result.step) == (Verdict.WRONG_OUTPUT, {4: 2, 5: 4}[size])


def test_memory_that_two_graphs_captured_and_the_model_freed_is_told() -> None:
    result = compared(Made(grows, rows=torch.arange(6.0)), lengths(3, 3, 4, 3, 4, 9, 3, 4))
    assert (result.verdict, result.step, result.freed) == (Verdict.WRONG_OUTPUT, 6, ("self.rows",))


# One call, whose inputs vary.


def keys_by_position(self: Any, x: Any, **others: Any) -> Any:
    self.buf_keys[self.position] = x
    self.position += 1
    return self.buf_keys.max(0).values


def keys(**options: Any) -> Replay:
    x = torch.tensor([1.0, -2.0, 3.0])
    return compared(Made(keys_by_position, buf_keys=torch.zeros(8, 3), position=0), [(x,)], **options)


def test_a_single_call_varies_from_step_to_step() -> None:
    assert keys().verdict is Verdict.WRONG_OUTPUT
    assert keys(vary=False).verdict is Verdict.STALE_STATE


@dataclass
class Log:
    """What copies of a model write to, all of them."""

    seen: list[Any]

    def __deepcopy__(self, memo: Any) -> Log:
        return self


def seen_at_steps(*args: Any, **kwargs: Any) -> list[Any]:
    """What each step of a single call is given."""

    def step(self: Any, *args: Any, **kwargs: Any) -> None:
        self.log.seen.append([value.clone() if isinstance(value, torch.Tensor) else value for value in (*args, *kwargs.values())])

    log = Log([])
    replay(Made(step, log=log), [args], kwargs, steps=4, device="tape")
    return log.seen[1:5]


VALUES: dict[str, tuple[torch.Tensor, Callable[[torch.Tensor], bool]]] = {
    "any": (torch.randn(2, 3), lambda x: True),
    "all the same": (torch.ones(2), lambda x: bool((x > 0).all() and (x <= 1).all())),
    "scalar": (torch.tensor(0.5), lambda x: 0 < x <= 0.5),
    "probabilities": (torch.rand(2, 4).softmax(-1), lambda x: bool((x > 0).all() and (x <= 1).all())),
    "mask": (torch.tensor([[1.0, 0.0], [0.0, 1.0]]), lambda x: bool(((x == 0) | (x == 1)).all() and (x.sum(-1) == 1).all())),
    "added mask": (torch.ones(3, 3).tril().log(), lambda x: bool((x.isinf() | (x == 0)).all() and x.exp().sum(-1).min() == 1)),
    "half": (torch.rand(4).half(), lambda x: x.dtype is torch.float16),
    "float8": (torch.rand(4).to(torch.float8_e4m3fn), lambda x: x.dtype is torch.float8_e4m3fn),
    "complex": (torch.randn(3, dtype=torch.complex64), lambda x: x.is_complex()),
    "non-contiguous": (torch.rand(3, 2).t(), lambda x: True),
    "expanded": (torch.rand(1, 3).expand(2, 3), lambda x: True),
    "inference": (torch.inference_mode()(torch.rand)(3), lambda x: True),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("is_named", [False, True], ids=["positional", "keyword"])
def test_values_vary_within_what_they_are(name: str, is_named: bool) -> None:
    x, is_right = VALUES[name]
    seen = seen_at_steps(x=x) if is_named else seen_at_steps(x)
    values = [step[0].to(torch.complex64) for step in seen]
    assert torch.equal(values[0], x.to(torch.complex64))
    assert all(not torch.equal(one, other) for one, other in itertools.pairwise(values))
    assert all(is_right(step[0]) for step in seen)


@pytest.mark.parametrize("x", [torch.tensor([2, 3]), torch.tensor([True, False]), torch.zeros(0), 1.5, "text", None], ids=repr)
def test_what_is_no_floating_tensor_stays(x: Any) -> None:
    assert all(repr(step[0]) == repr(x) for step in seen_at_steps(x))


def test_nested_inputs_vary_and_what_is_given_twice_is_one() -> None:
    x = torch.rand(3)
    first, second = seen_at_steps({"x": [x]}, x)[:2]
    assert first[0]["x"][0] is not second[0]["x"][0]
    assert torch.equal(second[0]["x"][0], second[1]) and not torch.equal(first[1], second[1])


def test_a_cache_that_the_call_writes_is_the_same_at_each_step() -> None:
    def step(self: Any, x: Any, cache: Any, table: Any) -> Any:
        cache.add_(1)
        table.append(1)
        self.log.seen.append((float(cache[0]), len(table)))
        return x

    log = Log([])
    replay(Made(step, log=log), [(torch.rand(2), torch.zeros(2), [])], steps=4, device="tape")
    assert log.seen[1:5] == [(1, 1), (2, 2), (3, 3), (4, 4)]


# What differs, where no amount says it.

REASONS: dict[str, tuple[Callable[[int, torch.Tensor], Any], str]] = {
    "size": (lambda n, x: torch.ones(n, 4), "another size: [2, 4], eager has [3, 4]"),
    "dtype": (lambda n, x: x.half() if n == 2 else x, "another dtype: torch.float16, eager has torch.float32"),
    "type": (lambda n, x: None if n == 2 else x, "another type: NoneType, eager has Tensor"),
    "items": (lambda n, x: [x] * n, "2 items, eager has 3"),
    "text": (lambda n, x: str(n), "another value: '2', eager has '3'"),
    "NaN": (lambda n, x: x / (0 if n == 2 else 1), "NaN or infinite where eager has numbers"),
    "infinite number": (lambda n, x: math.inf if n == 2 else 1.0, "NaN or infinite where eager has numbers"),
    "number": (lambda n, x: x / (0 if n == 3 else 1), "other values where eager has NaN or infinity"),
}


@pytest.mark.parametrize(("output", "reason"), REASONS.values(), ids=REASONS)
def test_what_differs_is_told_where_no_amount_says_it(output: Callable[[int, torch.Tensor], Any], reason: str) -> None:
    def step(self: Any, x: Any) -> Any:
        self.n += 1
        return output(self.n, x)

    result = compared(Made(step, n=0), [(torch.ones(2),)], vary=False)
    assert (result.verdict, result.step, result.reason) == (Verdict.WRONG_OUTPUT, 2, reason)


def test_a_number_that_is_no_tensor_differs_by_an_amount() -> None:
    result = compared(Made(lambda self, x: setattr(self, "n", self.n + 1) or self.n, n=0), [(torch.ones(2),)])
    assert (result.verdict, result.max_abs_error, result.reason) == (Verdict.WRONG_OUTPUT, 4, None)


def test_freed_memory_is_told_as_the_cause_of_what_is_no_number() -> None:
    result = compared(Made(grows, rows=None), others=[(ramp(5),)])
    assert result.reason == "NaN or infinite where eager has numbers, because memory that was freed is read"


@pytest.mark.parametrize(
    ("model", "calls", "options", "error", "message"),
    [
        (nn.Linear, [(ramp(2),)], {}, ModuleError, "can be replayed; this is the class Linear; make an instance"),
        (lambda x: x, [(ramp(2),)], {}, ModuleError, "this is of type function"),
        (
            nn.Identity(),
            [ramp(2)] * 4,
            {},
            OptionError,
            r"a tuple of arguments, and calls\[0\] is of type Tensor; .*write \(x,\)",
        ),
        (nn.Identity(), [(ramp(2),)], {"others": (ramp(2),)}, OptionError, r"others\[0\] is of type Tensor"),
        (nn.Identity(), [], {}, OptionError, "there are no calls"),
    ],
    ids=["class", "function", "calls", "others", "no calls"],
)
def test_what_is_no_module_or_no_call_is_refused(
    model: Any, calls: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        replay(model, calls, **options)


def test_a_branch_by_tensor_is_refused_and_recorded_like_the_code_around_it() -> None:
    result = compared(Made(branches))
    assert (result.verdict, result.where) == (Verdict.REFUSED, ("cond",))


# What is right.


def attends(self: Any, x: Any) -> Any:
    q, k, v = self.qkv(x).chunk(3, -1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def cached(self: Any, x: Any) -> Any:
    self.buf_position.add_(1)
    self.buf_keys.index_copy_(0, self.buf_position, x[None])
    return self.buf_keys.sum(0)


def returns_views(self: Any, x: Any) -> Any:
    self.buf += x
    return x, x[:1], self.buf, self.buf[1:], {"t": x.t(), "none": None, "n": 3}


def generator(self: Any, x: Any) -> Iterator[Any]:
    return tuple(part * 2 for part in x)  # type: ignore[return-value]


def forces(self: Any, x: Any) -> Any:
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        return torch.autograd.grad((y**3).sum(), y)[0]


@torch.no_grad()
def decorated(self: Any, x: Any) -> Any:
    return self.inner(x)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Output:
    logits: Any
    extra: Any = None


def with_dataclass(self: Any, given: Output) -> Output:
    return Output(given.logits * 2, {"pair": Pair(given.logits, given.extra)})


def add_one_(x: Any) -> None:
    x.add_(1)


torch.library.define("modelguardtest::twice", "(Tensor x) -> Tensor")
torch.library.define("modelguardtest::add_one_", "(Tensor(a!) x) -> ()")
torch.library.impl("modelguardtest::twice", "CompositeExplicitAutograd")(lambda x: x * 2)
torch.library.impl("modelguardtest::add_one_", "CompositeExplicitAutograd")(add_one_)


def custom_ops(self: Any, x: Any) -> Any:
    torch.ops.modelguardtest.add_one_(self.buf)
    return torch.ops.modelguardtest.twice(x) + self.buf


def out_variants(self: Any, x: Any) -> Any:
    fresh = torch.empty(0)
    torch.add(x, 1, out=fresh)
    torch.mul(self.buf, 1.5, out=self.buf)
    return fresh + self.buf


def resized(self: Any, x: Any) -> Any:
    y = torch.empty(0)
    y.resize_(2).copy_(x)
    z = torch.empty(0)
    z.set_(y)
    return z + y.squeeze_()


def in_place_on_views(self: Any, x: Any) -> Any:
    self.buf[0].add_(x[0])
    self.buf.view(-1)[1:].mul_(0.5)
    self.buf.t().relu_()
    return self.buf


def filled_at_warm_up(self: Any, x: Any) -> Any:
    if self.mask is None:
        self.mask = torch.ones(2, 2).tril()
    return x * self.mask


def rebound_to_itself(self: Any, x: Any) -> Any:
    self.t = self.t.to(x.dtype)
    self.buf = self.buf
    return x + self.t + self.buf


def hooked() -> nn.Module:
    model = Made(lambda self, x: self.inner(x) * self.buf, inner=nn.Linear(2, 2), buf=torch.ones(2))
    model.inner.register_forward_hook(lambda module, args, output: output + model.buf.add_(1))
    return model


def patched() -> nn.Module:
    model = nn.Sequential(Made(lambda self, x: self.buf.add_(x), buf=torch.zeros(2)))
    original = model[0].forward

    def forward(self: Any, x: Any) -> Any:
        return original(x) * 2

    model[0].forward = MethodType(forward, model[0])
    return model


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    return model


def with_gradients() -> nn.Module:
    model = nn.Linear(2, 2)
    model(torch.ones(2)).sum().backward()
    return model


def from_numpy(self: Any, x: Any) -> Any:
    return x + torch.from_numpy(self.table)


def mutates_argument(self: Any, x: Any, cache: Any) -> Any:
    cache.add_(x)
    return cache * 2


def mutates_object(self: Any, x: Any, cache: Any) -> Any:
    cache.calls.add_(x)
    return cache.calls * 2


def inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2)


def inferred(self: Any, x: Any) -> Any:
    with torch.inference_mode():
        self.buf.add_(x)
        return F.linear(x, torch.ones(2, 2)).reshape(2, 1).squeeze() + self.buf


def autocast(inner: Callable[..., Any], x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return inner(inner(x))


AGAIN = [ramp(2), ramp(2, start=1), ramp(2, start=2)]
ROWS = torch.arange(12.0).reshape(6, 2)
WINDOWS = torch.arange(20.0)
CACHE = torch.zeros(2)
PLAIN = Plain(torch.zeros(2))  # type: ignore[arg-type]

GOOD: dict[str, tuple[Callable[[], nn.Module], Any, dict[str, Any]]] = {
    "buffer in place": (lambda: Made(lambda self, x: self.buf.mul_(0.5).add_(x), buf=torch.zeros(2)), None, {}),
    "kv cache in place": (
        lambda: Made(cached, buf_keys=torch.zeros(8, 2), buf_position=torch.zeros(1, dtype=torch.int64)),
        None,
        {},
    ),
    "batch norm": (lambda: nn.BatchNorm1d(2), inputs(4, 2), {"train": True}),
    "dropout": (lambda: nn.Dropout(0.5), inputs(64), {"train": True}),
    "numpy draws at warm-up": (lambda: Made(lambda self, x: x + torch.rand(2)), None, {}),
    "generator of its own": (
        lambda: Made(lambda self, x: x + torch.rand(2, generator=self.g), g=torch.Generator().manual_seed(1)),
        None,
        {},
    ),
    "rebound to itself": (lambda: Made(rebound_to_itself, t=torch.ones(2), buf=torch.ones(2)), None, {}),
    "filled at warm-up": (lambda: Made(filled_at_warm_up, mask=None), None, {}),
    "memo kept": (lambda: Made(memoises), None, {}),
    "argument mutated": (lambda: Made(mutates_argument), [(x[0], CACHE) for x in inputs(2)], {}),
    "argument's tensor mutated": (lambda: Made(mutates_object), [(x[0], PLAIN) for x in inputs(2)], {}),
    "one call": (lambda: Made(lambda self, x: self.buf.add_(x), buf=torch.zeros(2)), [(ramp(2),)], {}),
    "a call that comes again": (
        lambda: Made(lambda self, x: x.add_(1) * 2),
        [(AGAIN[number],) for number in (0, 1, 2, 1, 1, 0, 1)],
        {},
    ),
    "two calls": (lambda: Made(lambda self, x: x * 2), [(ramp(2),), (ramp(2, start=1),)], {}),
    "rows of one tensor": (lambda: Made(lambda self, x: x * 2), [(row,) for row in ROWS], {}),
    "windows of one tensor": (lambda: Made(lambda self, x: x * 2), [(WINDOWS[i : i + 4],) for i in range(6)], {}),
    "expanded": (
        lambda: Made(lambda self, x: x.sum(0) * 2),
        [(torch.full((1, 3), float(i)).expand(4, 3),) for i in range(6)],
        {},
    ),
    "views": (lambda: Made(returns_views, buf=torch.zeros(2)), None, {}),
    "non-contiguous": (lambda: Made(lambda self, x: x.t() @ x), [(x[0].t(),) for x in inputs(2, 3)], {}),
    "conjugated": (
        lambda: Made(lambda self, x: (x.conj() * 2, torch.view_as_real(x).sum(), x.conj().imag)),
        [(torch.complex(x[0], -x[0]).conj(),) for x in inputs(2)],
        {},
    ),
    "bool": (lambda: Made(lambda self, x: ~x), [(x[0] > 3,) for x in inputs(4)], {}),
    "integer": (lambda: Made(lambda self, x: x * 2 // 3), [(x[0].long(),) for x in inputs(4)], {}),
    "half": (lambda: Made(lambda self, x: x * 2), [(x[0].half(),) for x in inputs(4)], {}),
    "float8": (
        lambda: Made(lambda self, x: (x.float() * 2).to(x.dtype)),
        [(x[0].to(torch.float8_e4m3fn),) for x in inputs(4)],
        {},
    ),
    "0-dim": (lambda: Made(lambda self, x: x * 2), [(x[0],) for (x,) in inputs(1)], {}),
    "empty": (lambda: Made(lambda self, x: (x * 2, x.sum())), [(torch.zeros(0, 3),)] * 4, {}),
    "nan and inf": (lambda: Made(lambda self, x: (x / 0, x * float("nan"))), None, {}),
    "nested": (
        lambda: Made(lambda self, d, p: {"a": [d["x"] * 2, (p.first, None)], "b": Pair(p.second, d["n"])}),
        [({"x": x[0], "n": 3, "none": None}, Pair(x[0] + 1, x[0] + 2)) for x in inputs(2)],
        {},
    ),
    "dataclasses": (lambda: Made(with_dataclass), [(Output(x[0], x[0] + 1),) for x in inputs(2)], {}),
    "keywords": (
        lambda: Made(lambda self, x, *, scale, flag: x * scale if flag else x),
        None,
        {"kwargs": {"scale": ramp(2), "flag": True}},
    ),
    "plain arguments": (lambda: Made(lambda self, x, n, name: x * n), [(x[0], 3, "a") for x in inputs(2)], {}),
    "tied weights": (tied, None, {}),
    "hook closes over the model": (hooked, None, {}),
    "patched with a closure": (patched, None, {}),
    "sequence": (lambda: Made(generator), None, {}),
    "rnn": (lambda: nn.LSTM(2, 3), inputs(4, 1, 2), {}),
    "gru": (lambda: nn.GRU(2, 3, bidirectional=True), inputs(4, 1, 2), {}),
    "conv": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ConvTranspose2d(2, 1, 3)), inputs(1, 1, 5, 5), {}),
    "embedding": (lambda: nn.EmbeddingBag(8, 3), [(torch.tensor([[i, i + 1]]),) for i in range(6)], {}),
    "attention": (lambda: Made(attends, qkv=nn.Linear(4, 12)), inputs(1, 3, 4), {}),
    "transformer layer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        inputs(1, 3, 4),
        {"train": False},
    ),
    "multi-head attention": (lambda: nn.MultiheadAttention(4, 2), [(x[0],) * 3 for x in inputs(3, 1, 4)], {}),
    "checkpoint": (lambda: Made(lambda self, x: checkpoint(self.inner, x, use_reentrant=False), inner=nn.Linear(2, 2)), None, {}),
    "autocast": (lambda: Made(lambda self, x: autocast(self.inner, x), inner=nn.Linear(2, 2)), None, {}),
    "gradient inside": (lambda: Made(forces), None, {}),
    "gradients left": (with_gradients, None, {}),
    "inputs with gradients": (lambda: nn.Linear(2, 2), [(x[0].requires_grad_(),) for x in inputs(2)], {}),
    "no_grad decorator": (lambda: Made(decorated, inner=nn.Linear(2, 2)), None, {}),
    "inference mode inside": (lambda: Made(lambda self, x: inferred(self, x), buf=torch.zeros(2)), None, {}),
    "inference tensors": (lambda: Made(lambda self, x: x + self.buf, buf=inference_tensor()), [(inference_tensor(),)], {}),
    "custom ops": (lambda: Made(custom_ops, buf=torch.zeros(2)), None, {}),
    "out variants": (lambda: Made(out_variants, buf=torch.ones(2)), None, {}),
    "resize_ and set_": (lambda: Made(resized), None, {}),
    "views written in place": (lambda: Made(in_place_on_views, buf=torch.zeros(2, 2)), None, {}),
    "input returned": (lambda: Made(lambda self, x: (x, F.dropout(x, 0.5, False), x.contiguous(), x.add_(1))), None, {}),
    "one_hot": (
        lambda: Made(lambda self, x: F.one_hot(x, 9) + F.one_hot(x, num_classes=9)),
        [(torch.tensor([i]),) for i in range(6)],
        {},
    ),
    "from_numpy": (lambda: Made(from_numpy, table=np.ones(2, dtype=np.float32)), None, {}),
    "constants": (lambda: Made(lambda self, x: x * torch.tensor([1.0, 2.0]) + torch.arange(2)), None, {}),
    "scripted": (lambda: torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU())), None, {}),
    "compiled child": (
        lambda: Made(lambda self, x: self.inner(x), inner=torch.compile(nn.Linear(2, 2), backend="eager")),
        None,
        {},
    ),
    "meta": (lambda: Made(lambda self, x: x + len(self.buf), buf=torch.empty(2, device="meta")), None, {}),
    "vmap": (lambda: Made(lambda self, x: torch.vmap(lambda row: row * 2)(x)), inputs(3, 2), {}),
    "other sizes between": (lambda: Made(lambda self, x: x * 2), None, {"others": [(ramp(5),)]}),
    "other sizes among the calls": (lambda: Made(lambda self, x: x * 2), [*inputs(2), (ramp(3),), *inputs(2)], {}),
    "foreach": (lambda: Made(lambda self, x: torch._foreach_add_([self.buf], [x]) and self.buf, buf=torch.zeros(2)), None, {}),
    "module of Python's kept": (lambda: Made(lambda self, x: x * self.lib.pi, lib=__import__("math")), None, {}),
}


@pytest.mark.parametrize(("make", "calls", "options"), GOOD.values(), ids=GOOD)
def test_same(make: Callable[[], nn.Module], calls: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    result = compared(make(), calls, **options)
    assert (result.verdict, result.where, result.host_reads) == (Verdict.SAME, (), ())
    assert result == Replay(Verdict.SAME, "tape", steps=result.steps, errors=(0.0,) * len(result.errors))
    assert result.captured is not None and len(result.errors) > result.captured + 1
    assert (result.stale, result.freed, result.reason, result.max_abs_error) == ((), (), None, None)


def test_a_wrong_field_of_a_dataclass_is_told() -> None:
    def step(self: Any, x: Any) -> Output:
        self.n += 1
        return Output(x, {"late": [x * self.n]})

    result = compared(Made(step, n=0))
    assert result.where == ("output.extra['late'][0]",)


# What cannot be compared.


def fails_late(self: Any, x: Any) -> Any:
    self.n += 1
    if self.n == 4:
        raise ValueError("no more")
    return x


CANNOT: dict[str, tuple[Callable[[], nn.Module], Any, dict[str, Any], str]] = {
    "lock": (
        lambda: Made(lambda self, x: x, lock=__import__("threading").Lock()),
        None,
        {},
        r"self\.lock \(_thread\.lock\) cannot be copied: .*lock",
    ),
    "computed with gradients": (
        lambda: Made(lambda self, x: x, t=nn.Parameter(torch.ones(2)) * 2),
        None,
        {},
        "detach what is computed with gradients",
    ),
    "raises in step 3": (lambda: Made(fails_late, n=0), None, {}, "step 3 fails eagerly: ValueError: no more"),
    "raises for another size": (
        lambda: Made(lambda self, x: x + torch.ones(2)),
        None,
        {"others": [(ramp(3),)]},
        "call 0 of other sizes fails eagerly",
    ),
    "nothing to replay": (lambda: nn.Identity(), [(ramp(n),) for n in (1, 1, 2, 3)], {}, "nothing was replayed"),
    "sparse": (lambda: Made(lambda self, x: self.s @ x, s=torch.eye(2).to_sparse()), None, {}, "sparse_coo"),
    "quantised": (
        lambda: Made(lambda self, x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()),
        None,
        {},
        "qint8",
    ),
}


@pytest.mark.parametrize(("make", "calls", "options", "message"), CANNOT.values(), ids=CANNOT)
def test_no_comparison(make: Callable[[], nn.Module], calls: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ReplayError, match=message):
        replay(make(), inputs(2) if calls is None else calls, **{"device": "tape", **options})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_is_asked_for_where_there_is_none() -> None:
    with pytest.raises(ReplayError, match="no CUDA device here"):
        replay(nn.Identity(), inputs(2), device="cuda")


# What the caller finds afterwards.


def changes_everything(self: Any, x: Any) -> Any:
    global COUNT
    COUNT += 1
    TABLE["inner"][0] += 1
    TABLE["new"] = x
    OnClass.total += 1
    SHARED.add_(x)
    positions(x.shape[0])
    random.random()
    np.random.rand()
    self.buf.add_(x)
    self.items.append(x)
    self.plain.calls += 1
    return x.add_(torch.rand(2))


def test_the_caller_finds_all_as_it_was() -> None:
    positions.cache_clear()
    kept = positions(7)
    closure = counting_closure()
    model = OnClass(changes_everything, buf=torch.zeros(2), items=[], plain=Plain(), counting=closure)
    before = copy.deepcopy(model.state_dict())
    calls = inputs(2)
    own, memory = [tensor.clone() for (tensor,) in calls], SHARED.data_ptr()
    states = random.getstate(), torch.get_rng_state(), np.random.get_state()[1].copy()
    assert compared(model, calls, train=False).verdict is not Verdict.REFUSED
    assert model.training and model.items == [] and model.plain.calls == 0
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(torch.equal(tensor, old) for (tensor,), old in zip(calls, own, strict=True))
    assert (COUNT, TABLE, OnClass.total) == (0, {"inner": [0]}, 0)
    assert SHARED.tolist() == [0, 0] and SHARED.data_ptr() == memory
    assert positions.cache_info().currsize == 1 and positions(7) is kept
    assert random.getstate() == states[0] and torch.equal(torch.get_rng_state(), states[1])
    assert (np.random.get_state()[1] == states[2]).all()


def test_a_global_tensor_that_is_swapped_is_put_back() -> None:
    def step(self: Any, x: Any) -> Any:
        SHARED.data = torch.ones(5)
        return x

    memory = SHARED.data_ptr()
    compared(Made(step))
    assert SHARED.data_ptr() == memory and SHARED.tolist() == [0, 0]


def test_steps_and_others(capsys: pytest.CaptureFixture[str]) -> None:
    class Seeing(nn.Module):
        def forward(self, x: Any) -> Any:
            print(len(x), end=" ")
            return x

    replay(Seeing(), [(ramp(2),)], steps=4, others=[(ramp(3),)], device="tape", vary=False)
    assert capsys.readouterr().out == "2 2 2 3 2 2 2 3 "


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("model", "verdict"),
    [
        (lambda: Made(rebinds, buf=torch.zeros(2)), Verdict.WRONG_OUTPUT),
        (lambda: Made(counts, n=0), Verdict.WRONG_OUTPUT),
        (lambda: Made(lambda self, x: self.buf.mul_(0.5).add_(x), buf=torch.zeros(2)), Verdict.SAME),
        (lambda: nn.Dropout(0.5), Verdict.SAME),
        (lambda: Made(REFUSED["item"], buf=torch.zeros(2)), Verdict.REFUSED),
    ],
    ids=["rebound", "counter", "in place", "dropout", "item"],
)
def test_cuda_graphs(model: Callable[[], nn.Module], verdict: Verdict) -> None:
    result = replay(model().cuda(), [(x.cuda(),) for (x,) in inputs(2)], device="cuda")
    assert (result.verdict, result.device) == (verdict, "cuda")

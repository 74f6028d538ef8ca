"""Calls through compiled code give what the module gives, whoever calls, and leave nothing behind."""

from __future__ import annotations

import functools
import gc
import linecache
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn

from modelguard.runtime import CompiledForward, NothingCompiledError, RecompileError, bytecode_hook

HOOKS = torch._dynamo.convert_frame._bytecode_hooks
CONFIG = torch._dynamo.config
X = torch.arange(3.0)


class Backend:
    """The eager backend, counting how often it compiles; `before` runs ahead of each call of what it made."""

    def __init__(self, before: Callable[[], None] | None = None) -> None:
        self.count = 0
        self.limits: list[tuple[int, int]] = []
        self._before = before

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.count += 1
        self.limits.append((CONFIG.recompile_limit, CONFIG.accumulated_recompile_limit))

        def run(*args: Any) -> Any:
            if self._before is not None:
                self._before()
            return graph.forward(*args)

        return run


class Scale(nn.Module):
    def __init__(self, by: float = 2) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


class Derived(Scale):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.by


class Inherits(Derived):
    pass


class Nested(nn.Module):
    """Its children are of its own class."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.child = Nested(depth - 1) if depth else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * (self.depth + 2)
        return x if self.child is None else self.child(x)


def plus_one(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> torch.Tensor:
        return function(*args, **kwargs) + 1

    return called


class Decorated(Scale):
    @plus_one
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


class WithoutGradient(Scale):
    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


class CompiledByItself(Scale):
    @torch.compile(backend="eager")
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


class Static(nn.Module):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 5


class Arguments(Scale):
    def forward(self, x: torch.Tensor, *more: torch.Tensor, scale: float = 3, **named: torch.Tensor) -> torch.Tensor:
        return (x + sum(more)) * scale * self.by + named.get("self_", 0)


def on_instance(forward: Any) -> nn.Module:
    module = Scale()
    module.forward = forward
    return module


MODULES: list[Callable[[], nn.Module]] = [
    Scale,
    Derived,
    Inherits,
    lambda: Nested(2),
    Decorated,
    WithoutGradient,
    CompiledByItself,
    Static,
    Arguments,
    lambda: nn.Linear(3, 3),
    lambda: nn.Sequential(nn.Linear(3, 3), Scale(), Scale(3)),
    lambda: nn.LSTMCell(3, 3),
    nn.Identity,
    lambda: on_instance(lambda x: x * 7),
    lambda: on_instance(Scale(9).forward),
    lambda: on_instance(torch.no_grad()(lambda x: x * 7)),
]
IDS = (
    "scale derived inherits nested decorated no-grad compiled static arguments linear sequential lstm identity "
    "lambda other no-grad-lambda"
)


@pytest.mark.parametrize("by_hook", [True, False], ids=["bytecode", "callable"])
@pytest.mark.parametrize("make", MODULES, ids=IDS.split())
def test_any_forward_gives_what_it_gives_uncompiled(make: Callable[[], nn.Module], by_hook: bool) -> None:
    """Two of each, with parameters of their own, so that one cannot run what belongs to the other."""
    modules = [make(), make()]
    wrappers = [CompiledForward(module, backend="eager", bytecode_hook=by_hook) for module in modules]
    for _ in range(3):
        for module, wrapper in zip(modules, wrappers, strict=True):
            x = torch.rand(2, 3, requires_grad=True)
            torch.testing.assert_close(wrapper(x), module(x))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("make", [Scale, Derived, Decorated, WithoutGradient])
def test_instances_of_a_class_stay_apart(make: Callable[[float], Scale], backend: str) -> None:
    modules = [make(by) for by in (2.0, 3.0)]
    wrappers = [CompiledForward(module, backend=backend) for module in modules]
    for _ in range(2):
        for module, wrapper in zip(modules, wrappers, strict=True):
            torch.testing.assert_close(wrapper(X), module(X))


def test_wrappers_of_one_instance_stay_apart() -> None:
    module = Scale(2)
    first = CompiledForward(module, backend="eager")
    first(X)
    module.by = 3
    second = CompiledForward(module, backend="eager")
    assert torch.equal(second(X), X * 3)
    # What Python held at the first call is part of the code: there are no guards.
    assert torch.equal(first(X), X * 2)
    assert first.bytecode is not second.bytecode


def test_class_is_left_alone() -> None:
    code = Scale.forward.__code__
    module = Scale()
    with CompiledForward(module, backend="eager") as wrapper:
        wrapper(X)
        assert "forward" not in vars(module)
        assert Scale.forward.__code__ is code
        assert wrapper.bytecode is not None
        assert wrapper.bytecode.co_filename == __file__
    assert not torch._dynamo.eval_frame._debug_get_cache_entry_list(code)


def test_arguments_reach_forward_as_they_were_passed() -> None:
    module = Arguments()
    wrapper = CompiledForward(module, backend="eager")
    call = functools.partial(module, X, X + 1, scale=4, self_=X)
    assert torch.equal(wrapper(X, X + 1, scale=4, self_=X), call())
    assert torch.equal(wrapper(X, X + 1, scale=4, self_=X), call())


def test_parameters_get_gradients() -> None:
    module = nn.Linear(3, 1)
    wrapper = CompiledForward(module, backend="aot_eager")
    for _ in range(2):
        module.zero_grad()
        wrapper(X).sum().backward()
        assert module.weight.grad is not None
        torch.testing.assert_close(module.weight.grad, X[None])


def test_writes_are_made_at_every_call() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[torch.Tensor] = []
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.append(x)
            self.mean = self.mean + x
            return x + 1

    module = Counts()
    wrapper = CompiledForward(module, backend="eager")
    for _ in range(3):
        wrapper(X)
    assert torch.equal(module.mean, X * 3)


def test_compiles_once_and_calls_after_that_are_not_looked_at() -> None:
    backend = Backend()
    wrapper = CompiledForward(Scale(), backend=backend)
    for x in (X, torch.rand(5, 2), X.double()):
        assert torch.equal(wrapper(x), x * 2)
    with torch.no_grad():
        wrapper(X)
    torch._dynamo.reset()
    wrapper(X)
    assert backend.count == 1


def test_stock_keeps_guards_and_compiles_again() -> None:
    backend = Backend()
    module = Scale(2)
    wrapper = CompiledForward(module, "stock", backend=backend)
    assert torch.equal(wrapper(X), X * 2)
    module.by = 3
    assert torch.equal(wrapper(X), X * 3)
    assert backend.count == 2
    assert wrapper.bytecode is None


def test_stock_may_break_the_graph() -> None:
    class Breaks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + 1
            torch._dynamo.graph_break()
            return x * 2

    backend = Backend()
    assert torch.equal(CompiledForward(Breaks(), "stock", backend=backend)(X), (X + 1) * 2)
    assert backend.count == 2
    with pytest.raises(torch._dynamo.exc.Unsupported):
        CompiledForward(Breaks(), backend="eager")(X)


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.size(0) > 3 else x * 3


def dynamic(rows: int) -> torch.Tensor:
    x = torch.rand(rows, 2)
    torch._dynamo.mark_dynamic(x, 0)
    return x


def test_recompile_is_an_error_that_tells_the_guard() -> None:
    backend = Backend()
    wrapper = CompiledForward(Branches(), backend=backend, bytecode_hook=False, evaluate_shape_guards=True)
    for rows in (5, 6, 9):
        x = dynamic(rows)
        assert torch.equal(wrapper(x), x * 2)
    for _ in range(2):
        with pytest.raises(RecompileError, match=r"does not hold for these arguments:\n.*4 <= .*size"):
            wrapper(dynamic(2))
    assert torch.equal(wrapper(dynamic(7))[:0], torch.rand(0, 2))
    assert backend.count == 1
    assert torch.compiler.is_compiling() is False


def test_recompile_error_leaves_others_free_to_compile() -> None:
    wrapper = CompiledForward(Branches(), backend="eager", bytecode_hook=False, evaluate_shape_guards=True)
    wrapper(dynamic(5))
    with pytest.raises(RecompileError):
        wrapper(dynamic(2))
    other = CompiledForward(Branches(), backend="eager", bytecode_hook=False, evaluate_shape_guards=True)
    x = dynamic(2)
    assert torch.equal(other(x), x * 3)


def test_callable_without_guards_takes_anything() -> None:
    backend = Backend()
    wrapper = CompiledForward(Scale(), backend=backend, bytecode_hook=False)
    for x in (X, torch.rand(5, 2)):
        assert torch.equal(wrapper(x), x * 2)
    assert backend.count == 1


# --- threads and calls within calls


@pytest.mark.parametrize("options", [{}, {"bytecode_hook": False}, {"mode": "stock"}], ids=["bytecode", "callable", "stock"])
def test_threads_compile_once_between_them(options: dict[str, Any]) -> None:
    backend = Backend()
    wrapper = CompiledForward(Scale(), backend=backend, **options)
    start = threading.Barrier(8)

    def call(number: int) -> bool:
        start.wait()
        return all(torch.equal(wrapper(X + number), (X + number) * 2) for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(8)))
    assert backend.count == 1


def test_threads_compile_and_call_instances_of_one_class() -> None:
    modules = [Derived(by) for by in range(8)]
    wrappers = [CompiledForward(module, backend="eager") for module in modules]
    start = threading.Barrier(8)
    before = dict(HOOKS)

    def call(number: int) -> bool:
        start.wait()
        order = [*range(number, 8), *range(number)]
        return all(torch.equal(wrappers[each](X), X * each + each) for _ in range(20) for each in order)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(8)))
    assert dict(HOOKS) == before


def test_cleanup_under_calls_of_other_threads() -> None:
    wrapper = CompiledForward(Scale(), backend="eager")
    start = threading.Barrier(4)

    def call(number: int) -> bool:
        start.wait()
        results = []
        for _ in range(20):
            results.append(torch.equal(wrapper(X + number), (X + number) * 2))
            if number == 0:
                wrapper.cleanup()
        return all(results)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(4)))


def test_call_within_a_call() -> None:
    """The backend's code stands for a custom operator that calls the model again."""
    depth = 0
    inner: list[torch.Tensor] = []

    def again() -> None:
        nonlocal depth
        if depth:
            depth -= 1
            inner.append(wrapper(X + depth))

    wrapper = CompiledForward(Scale(), backend=Backend(again))
    wrapper(X)
    depth = 3
    assert torch.equal(wrapper(X), X * 2)
    assert [torch.equal(each, (X + by) * 2) for each, by in zip(inner, (0, 1, 2), strict=True)] == [True] * 3


def test_call_of_another_wrapper_within_the_first_call() -> None:
    other = CompiledForward(Scale(5), backend="eager")
    seen: list[torch.Tensor] = []

    def call() -> None:
        seen.append(torch.compiler.disable(other)(X))

    wrapper = CompiledForward(Scale(), backend=Backend(call))
    for _ in range(2):
        assert torch.equal(wrapper(X), X * 2)
    assert all(torch.equal(each, X * 5) for each in seen)


# --- what goes wrong


class Fails:
    """A backend that fails as often as it is told to."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        if self.times:
            self.times -= 1
            raise ValueError("the backend is tired")
        return graph.forward


def limits() -> dict[str, object]:
    return {name: getattr(CONFIG, name) for name in dir(CONFIG) if name.endswith("_limit")}


@pytest.mark.parametrize("options", [{}, {"bytecode_hook": False}, {"mode": "stock"}], ids=["bytecode", "callable", "stock"])
def test_failed_compilation_is_tried_again(options: dict[str, Any]) -> None:
    before, known = dict(HOOKS), limits()
    wrapper = CompiledForward(Scale(), backend=Fails(2), **options)
    for _ in range(2):
        with pytest.raises(Exception, match="the backend is tired"):
            wrapper(X)
        assert not wrapper.compiled
        assert wrapper.bytecode is None
        assert dict(HOOKS) == before
        assert limits() == known
    assert torch.equal(wrapper(X), X * 2)
    assert wrapper.compiled


def test_forward_that_raises_while_it_is_traced() -> None:
    class Raises(nn.Module):
        allowed = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.allowed:
                raise ValueError("not yet")
            return x + 1

    known = limits()
    module = Raises()
    wrapper = CompiledForward(module, backend="eager")
    with pytest.raises(Exception, match="not yet"):
        wrapper(X)
    assert not wrapper.compiled
    assert limits() == known
    module.allowed = True
    assert torch.equal(wrapper(X), X + 1)


@pytest.mark.parametrize("by_hook", [True, False], ids=["bytecode", "callable"])
def test_error_of_the_code_itself_is_no_reason_to_compile_again(by_hook: bool) -> None:
    fails = True

    def before() -> None:
        if fails:
            raise ZeroDivisionError("at run time")

    backend = Backend(before)
    wrapper = CompiledForward(Scale(), backend=backend, bytecode_hook=by_hook)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="at run time"):
            wrapper(X)
    fails = False
    assert torch.equal(wrapper(X), X * 2)
    assert backend.count == 1


def test_limits_are_raised_while_compiling_and_restored() -> None:
    backend = Backend()
    with CONFIG.patch(recompile_limit=0, accumulated_recompile_limit=1):
        known = limits()
        CompiledForward(Scale(), backend=backend)(X)
        assert limits() == known
    assert all(limit >= 2048 for limit in backend.limits[0])


def test_higher_limits_of_the_user_stay() -> None:
    backend = Backend()
    with CONFIG.patch(recompile_limit=10_000, accumulated_recompile_limit=20_000):
        CompiledForward(Scale(), backend=backend)(X)
    assert backend.limits == [(10_000, 20_000)]


def test_nothing_compiled_is_an_error() -> None:
    wrapper = CompiledForward(Scale(), backend="eager")
    with torch.compiler.set_stance("force_eager"), pytest.raises(NothingCompiledError, match="switched off"):
        wrapper(X)
    assert torch.equal(wrapper(X), X * 2)


def test_options_reach_the_backend_and_stay_the_caller_s() -> None:
    seen: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any], *, options: dict[str, Any]) -> Callable[..., Any]:
        seen.append(options)
        return graph.forward

    given = {"level": 3}
    CompiledForward(Scale(), backend=backend, options=given)(X)
    assert seen == [{"level": 3}]
    assert given == {"level": 3}


# --- what is left behind


def test_hook_is_gone_after_it_and_after_an_error() -> None:
    before = dict(HOOKS)
    with bytecode_hook(lambda original, compiled: None):
        assert len(HOOKS) == len(before) + 1
    assert dict(HOOKS) == before
    with pytest.raises(KeyError), bytecode_hook(lambda original, compiled: None):
        raise KeyError
    assert dict(HOOKS) == before


def test_cleanup_twice_and_a_call_after_it() -> None:
    backend = Backend()
    wrapper = CompiledForward(Scale(), backend=backend)
    wrapper.cleanup()
    with wrapper:
        wrapper(X)
    wrapper.cleanup()
    assert not wrapper.compiled
    assert wrapper.bytecode is None
    assert torch.equal(wrapper(X), X * 2)
    assert backend.count == 2


def dynamo_globals() -> list[str]:
    return [name for name in globals() if name.startswith("__compiled_fn")]


@pytest.mark.parametrize("cleans", [True, False], ids=["cleaned", "dropped"])
@pytest.mark.parametrize("options", [{}, {"bytecode_hook": False}, {"mode": "stock"}], ids=["bytecode", "callable", "stock"])
def test_many_wrappers_leave_nothing(options: dict[str, Any], cleans: bool) -> None:
    gc.collect()
    hooks, lines, left = dict(HOOKS), set(linecache.cache), len(dynamo_globals())
    made: list[weakref.ref[Any]] = []
    for number in range(200 if not options else 30):
        module = Scale(number)
        wrapper = CompiledForward(module, backend="eager", **options)
        wrapper(X)
        made += [weakref.ref(module), weakref.ref(wrapper)]
        if wrapper.bytecode is not None:
            made.append(weakref.ref(wrapper.bytecode))
        if cleans:
            wrapper.cleanup()
    del module, wrapper
    gc.collect()
    assert [each() for each in made if each() is not None] == []
    assert dict(HOOKS) == hooks
    # torch.fx puts the text of each of its graphs there, and leaves it.
    assert {name for name in set(linecache.cache) - lines if not name.startswith("<eval_with_key>")} <= {__file__}
    assert len(dynamo_globals()) == left


def test_wrapper_on_its_own_module_is_collected() -> None:
    module = Scale()
    module.fast = CompiledForward(module, backend="eager")
    module.fast(X)
    found = weakref.ref(module)
    del module
    gc.collect()
    assert found() is None


# --- dumps and ranges


def test_dump_is_a_new_file_for_each_compilation(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    for _ in range(2):
        with CompiledForward(Derived(), backend="eager", debug_dump=folder) as wrapper:
            wrapper(X)
            wrapper(X)
    CompiledForward(Derived(), "stock", backend="eager", debug_dump=str(folder))(X)
    assert sorted(path.name for path in folder.iterdir()) == [f"Derived.forward.{number}.py" for number in (1, 2, 3)]
    text = (folder / "Derived.forward.1.py").read_text()
    assert text.startswith(f"# Derived.forward of {__file__}:")
    assert "__compiled_fn" in text


def test_dump_of_code_that_is_refused(tmp_path: Path) -> None:
    class Writes(Scale):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.by = 4
            return x * 2

    wrapper = CompiledForward(Writes(), backend="eager", cuda_graphs=True, debug_dump=tmp_path)
    with pytest.raises(RuntimeError, match=r"self\.by is rebound"):
        wrapper(X)
    assert [path.name for path in tmp_path.iterdir()] == ["Writes.forward.1.py"]


def test_dump_says_where_depyf_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "depyf", None)
    CompiledForward(Scale(), backend="eager", debug_dump=tmp_path)(X)
    assert "is not installed" in (tmp_path / "Scale.forward.1.py").read_text()


def test_dump_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    wrapper = CompiledForward(Scale(), backend="eager", debug_dump=taken)
    with pytest.warns(RuntimeWarning, match=r"compiled code of Scale\.forward could not be written"):
        assert torch.equal(wrapper(X), X * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(wrapper(X), X * 2)


def test_range_is_harmless_without_cuda() -> None:
    wrapper = CompiledForward(Scale(), backend="eager", nvtx=True)
    for _ in range(2):
        assert torch.equal(wrapper(X), X * 2)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_compiled_code_can_be_captured() -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean.mul_(0.5).add_(x)
            return x - self.mean

    module, eager = Mean().cuda(), Mean().cuda()
    wrapper = CompiledForward(module, cuda_graphs=True, nvtx=True)
    x = torch.ones(3, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        wrapper(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = wrapper(x)
    module.mean.zero_()
    for step in range(3):
        x.fill_(step)
        graph.replay()
        torch.testing.assert_close(output, eager(x))


def test_recompile_error_says_what_fails_and_nothing_is_logged_of_it(caplog: pytest.LogCaptureFixture) -> None:
    wrapper = CompiledForward(Branches(), backend="eager", bytecode_hook=False, evaluate_shape_guards=True)
    wrapper(dynamic(5))
    with pytest.raises(RecompileError) as caught:
        wrapper(dynamic(2))
    assert "free but for what forward branches on" in str(caught.value) and "Compile with arguments" not in str(caught.value)
    assert [record for record in caplog.records if "recompile_limit" in record.getMessage()] == []

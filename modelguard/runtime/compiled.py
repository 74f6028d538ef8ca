"""A module's `forward`, compiled once, and called from then on without Dynamo."""

from __future__ import annotations

import inspect
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import CodeType, FunctionType, MethodType, TracebackType
from typing import Any

import torch
from torch import nn

from modelguard.own_code import forget, with_code
from modelguard.runtime import dynamo
from modelguard.runtime.bytecode_hook import bytecode_hook
from modelguard.runtime.decompile import decompiled
from modelguard.runtime.dump import dump
from modelguard.runtime.errors import (
    CompilationModeError,
    NothingCompiledError,
    OptionError,
    RecompileError,
    StateWriteError,
)
from modelguard.runtime.forward import Forward, forward_of, refuse_hooks
from modelguard.runtime.given import a_module
from modelguard.runtime.side_effects import SideEffect, side_effects


class CompilationMode(Enum):
    """How much of `torch.compile` a wrapper uses."""

    NONE = "none"
    """Nothing is compiled: there is nothing to wrap."""

    STOCK = "stock"
    """`torch.compile` as it is, with its guards and recompiles."""

    ONCE = "once"
    """One graph without guards, compiled by the first call, for all calls."""

    @classmethod
    def _missing_(cls, value: object) -> CompilationMode | None:
        return _VLLM_NAMES.get(value) if isinstance(value, str) else None


_VLLM_NAMES = {
    "NO_COMPILATION": CompilationMode.NONE,
    "STOCK_TORCH_COMPILE": CompilationMode.STOCK,
    "DYNAMO_TRACE_ONCE": CompilationMode.ONCE,
}
"""What vLLM's `CompilationMode` calls them."""


def can_wrap(mode: CompilationMode | str | None) -> bool:
    """Whether `CompiledForward` takes a mode. One that does not exist is an error here too, or a slip would read as `none`."""
    return _mode(mode) is not CompilationMode.NONE


class CompiledForward:
    """Calls the `forward` of a module through code that was compiled for this module alone.

    `once`: the first call compiles with `fullgraph=True, dynamic=False` and no guards. Later calls run the bytecode that
    Dynamo made, which its hook hands over; nothing looks at the arguments again, so they have to be of the kind that the first
    ones were. Without `bytecode_hook`, calls go through `torch.compile`'s callable, and one that would compile again is a
    `RecompileError`; `evaluate_shape_guards` keeps the guards on dynamic sizes, and needs that. `stock` has no use for either.

    With `cuda_graphs`, code that writes state is refused with a `StateWriteError` before it runs. `debug_dump` is a folder for
    the code that was made, as text. `nvtx` puts a range around each call, where there is CUDA.

    Calls may come from several threads and from within each other. The first one compiles while the others wait. One that fails
    to compile leaves nothing behind, and the next one tries again. `cleanup()` drops what was compiled; a call after it compiles
    anew.
    """

    def __init__(
        self,
        module: nn.Module,
        mode: CompilationMode | str | None = CompilationMode.ONCE,
        *,
        backend: str | Callable[..., Any] = "inductor",
        options: Mapping[str, Any] | None = None,
        bytecode_hook: bool = True,
        evaluate_shape_guards: bool = False,
        cuda_graphs: bool = False,
        debug_dump: str | os.PathLike[str] | None = None,
        nvtx: bool = False,
    ) -> None:
        if not can_wrap(mode):
            raise CompilationModeError(
                "Compilation mode cannot be NO_COMPILATION: a wrapper would have nothing to run. "
                "Call the module itself, or choose 'stock' or 'once'; `can_wrap(mode)` tells beforehand."
            )
        a_module(module, "wrapped")
        self._mode = _mode(mode)
        self._options = dict(options or {})
        if self._mode is CompilationMode.ONCE:
            _check_once(self._options, evaluate_shape_guards=evaluate_shape_guards, bytecode_hook=bytecode_hook)
            self._options["guard_filter_fn"] = dynamo.keep_shape_guards if evaluate_shape_guards else dynamo.drop_guards
        else:
            _check_stock(evaluate_shape_guards=evaluate_shape_guards, cuda_graphs=cuda_graphs)
        refuse_hooks(module)
        self._forward = forward_of(module)
        self._module = module
        self._backend = backend
        self._takes_bytecode = bytecode_hook
        self._refuses_writes = cuda_graphs
        self._name = f"{type(module).__name__}.forward"
        self._dump = None if debug_dump is None else os.fspath(debug_dump)
        self._has_range = nvtx and torch.cuda.is_available()
        self._lock = threading.RLock()
        self._ready: _Ready | None = None
        self._taken: _Taken | None = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """What `forward` gives for these arguments."""
        refuse_hooks(self._module)
        if not self._has_range:
            return self._called(args, kwargs)
        with torch.cuda.nvtx.range(self._name):
            return self._called(args, kwargs)

    def cleanup(self) -> None:
        """Drop what was compiled. Calls that are under way end as they began."""
        self._ready = self._taken = None

    def __enter__(self) -> CompiledForward:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cleanup()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._name}, {self._mode.value}, {'compiled' if self.compiled else 'not compiled'}>"

    @property
    def module(self) -> nn.Module:
        """The module that was wrapped."""
        return self._module

    @property
    def mode(self) -> CompilationMode:
        """`STOCK` or `ONCE`."""
        return self._mode

    @property
    def compiled(self) -> bool:
        """Whether calls run compiled code by now."""
        return self._ready is not None

    @property
    def bytecode(self) -> CodeType | None:
        """The code that Dynamo made of `forward` last, refused or not; None before, and in `stock`, where there may be many."""
        taken = self._taken
        return None if taken is None else taken.bytecode

    @property
    def side_effects(self) -> tuple[SideEffect, ...]:
        """The state that this code writes; empty where there is none such, and in `stock`."""
        taken = self._taken
        return () if taken is None else taken.side_effects

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        ready = self._ready
        if ready is None:
            with self._lock:
                # Another thread may have compiled meanwhile.
                ready = self._ready
                if ready is None:
                    return self._stock(args, kwargs) if self._mode is CompilationMode.STOCK else self._once(args, kwargs)
        return ready.run(*args, **kwargs)

    def _stock(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = self._forward.copied()
        compiled = torch.compile(function, backend=self._backend, options=self._options or None)
        run = _bound(compiled, self._forward)
        if self._dump is not None:
            run = partial(_dumped, run, function.__code__, self._dump, self._name)
        try:
            result = run(*args, **kwargs)
        except BaseException:
            forget(function.__code__)
            raise
        self._ready = _Ready(run)
        weakref.finalize(self._ready, forget, function.__code__).atexit = False
        return result

    def _once(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compile, call, and keep what was compiled. Nothing is shared with an earlier attempt, which may have failed halfway."""
        function = self._forward.copied()
        taken = _Taken(function.__code__, self._module, refuses_writes=self._refuses_writes)
        limit = None if self._takes_bytecode else 1
        compiled = dynamo.compiled(function, self._backend, self._options, recompile_limit=limit)
        is_kept = False
        try:
            with bytecode_hook(taken), dynamo.raised_limits():
                result = compiled(*self._forward.receiver, *args, **kwargs)
        except Exception:
            if taken.bytecode is not None and taken.is_refused:
                raise StateWriteError(taken.side_effects, decompiled(taken.bytecode)) from None
            # What the compiled code itself raises is no reason to compile again.
            is_kept = dynamo.is_cached(function.__code__) and self._keep(function, compiled, taken)
            raise
        else:
            is_kept = self._keep(function, compiled, taken)
        finally:
            if taken.bytecode is not None:
                self._taken = taken
            if self._takes_bytecode or not is_kept:
                forget(function.__code__)
            if self._dump is not None and taken.bytecode is not None:
                dump(self._dump, self._name, taken.bytecode)
        if taken.bytecode is None:
            raise NothingCompiledError(
                f"Dynamo compiled nothing of {self._name}: `torch.compile` is switched off, by TORCHDYNAMO_DISABLE or by "
                "`torch.compiler.set_stance`, or the call is inside another compilation"
            )
        return result

    def _keep(self, function: FunctionType, compiled: Callable[..., Any], taken: _Taken) -> bool:
        if taken.bytecode is None:
            return False
        if self._takes_bytecode:
            run = _bound(with_code(function, taken.bytecode), self._forward)
        else:
            run = partial(_guarded, _bound(compiled, self._forward), function, self._forward.receiver, self._name)
        ready = _Ready(run)
        if not self._takes_bytecode:
            weakref.finalize(ready, forget, function.__code__).atexit = False
        self._ready = ready
        return True


@dataclass(frozen=True)
class _Ready:
    """What calls run. It is one object, so that a thread sees all of it or nothing, and that its end is that of the last call."""

    run: Callable[..., Any]


class _Refused(Exception):
    """Ends a compilation from within its hook."""


class _Taken:
    """A bytecode hook that takes what is made of one code object."""

    def __init__(self, code: CodeType, module: nn.Module, *, refuses_writes: bool) -> None:
        self._code = code
        self._module = module
        self._refuses_writes = refuses_writes
        self.bytecode: CodeType | None = None
        self.side_effects: tuple[SideEffect, ...] = ()

    @property
    def is_refused(self) -> bool:
        return self._refuses_writes and bool(self.side_effects)

    def __call__(self, original: CodeType, compiled: CodeType) -> None:
        if original is self._code:
            self.side_effects = side_effects(compiled, self._module, sys._getframe(1))
            self.bytecode = compiled
            if self.is_refused:
                raise _Refused


def _mode(mode: CompilationMode | str | None) -> CompilationMode:
    try:
        return CompilationMode.NONE if mode is None else CompilationMode(mode)
    except ValueError:
        raise OptionError(f"there is no compilation mode {mode!r}; choose 'stock' or 'once', or 'none' to wrap nothing") from None


def _check_once(options: Mapping[str, Any], *, evaluate_shape_guards: bool, bytecode_hook: bool) -> None:
    if "guard_filter_fn" in options:
        raise OptionError("mode 'once' chooses the guards itself; leave `guard_filter_fn` out of the options, or use 'stock'")
    if evaluate_shape_guards and bytecode_hook:
        raise OptionError(
            "evaluate_shape_guards needs bytecode_hook=False: the bytecode runs without guards, and none would be evaluated"
        )


def _check_stock(*, evaluate_shape_guards: bool, cuda_graphs: bool) -> None:
    if evaluate_shape_guards:
        raise OptionError("evaluate_shape_guards belongs to mode 'once'; mode 'stock' evaluates all guards anyway")
    if cuda_graphs:
        raise OptionError(
            "cuda_graphs needs mode 'once': 'stock' may compile again at any call, and no check for state writes holds"
        )


def _bound(function: Callable[..., Any], forward: Forward) -> Callable[..., Any]:
    return MethodType(function, forward.receiver[0]) if forward.receiver else function


def _guarded(
    run: Callable[..., Any], function: FunctionType, receiver: tuple[object, ...], name: str, /, *args: Any, **kwargs: Any
) -> Any:
    try:
        with dynamo.quiet_limits():
            return run(*args, **kwargs)
    except dynamo.RecompileLimitHit as error:
        named = inspect.signature(function).bind(*receiver, *args, **kwargs).arguments
        reasons = "".join(f"\n  {reason}" for reason in dynamo.failed_guards(function.__code__, named))
        raise RecompileError(
            f"{name} was compiled once, and that does not hold for these arguments{':' if reasons else ''}{reasons}\n"
            "A size that is marked dynamic is free but for what forward branches on, and but for 0 and 1, which are cases of "
            "their own. Wrap the module once more for these arguments, mark a size that may be 0 or 1 with `mark_unbacked`, "
            "or use mode 'stock', which compiles again"
        ) from error


def _dumped(run: Callable[..., Any], code: CodeType, folder: str, name: str, /, *args: Any, **kwargs: Any) -> Any:
    made: list[CodeType] = []

    def take(original: CodeType, compiled: CodeType) -> None:
        if original is code:
            made.append(compiled)

    try:
        with bytecode_hook(take):
            return run(*args, **kwargs)
    finally:
        for each in made:
            dump(folder, name, each)

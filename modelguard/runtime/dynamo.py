"""The one place of the runtime that knows torch's internals: what is under `torch._dynamo`, and underscored names of torch.

What a version of torch may lack is looked up by name, and `None` is answered where it is not there.
"""

from __future__ import annotations

import inspect
import logging
import operator
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from traceback import StackSummary
from types import CodeType, FrameType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, Protocol, cast

import torch
import torch._dynamo.config
import torch._dynamo.convert_frame
import torch._dynamo.eval_frame
import torch._dynamo.exc
import torch._dynamo.symbolic_convert
from torch import nn


class Handle(Protocol):
    def remove(self) -> None: ...


_frames: Any = torch._dynamo.convert_frame
_config: Any = torch._dynamo.config

BytecodeHook = Callable[[CodeType, CodeType], CodeType | None]
register_bytecode_hook = cast("Callable[[BytecodeHook], Handle]", _frames.register_bytecode_hook)
compile_lock: AbstractContextManager[object] = getattr(_frames, "compile_lock", None) or threading.RLock()
RecompileLimitHit: type[Exception] = getattr(torch._dynamo.exc, "FailOnRecompileLimitHit", RuntimeError)

MISSING = object()
"""In place of a value that is not there."""

_LIMITS = {
    "recompile_limit": 2048,
    "cache_size_limit": 2048,
    "accumulated_recompile_limit": 8192,
    "accumulated_cache_size_limit": 8192,
}
"""Two names of each of two limits: which one is the setting and which its alias is up to the version."""

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_TABLES = tuple(end.format(name) for name in ("_buffers", "_parameters", "_modules") for end in (".{}", "['{}']"))
"""How Dynamo's expression for a table of a module's attributes ends."""

_SETS = ("._non_persistent_buffers_set", "['_non_persistent_buffers_set']")
"""What a module notes of its buffers besides: a change there comes with that of a buffer."""

_IN_PLACE = frozenset(
    getattr(operator, f"i{name}")
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
)
"""Operators that write a tensor where it lies: `x += y`. `x @= y` makes a new one."""

_PLAIN = (bool, int, float, complex, str, bytes)
_MAX_FRAMES = 8
"""Frames between a bytecode hook and the one of Dynamo that holds what was traced."""


@contextmanager
def raised_limits() -> Iterator[None]:
    """Let Dynamo compile whatever its limits say, in this thread, and have it keep the stacks of side effects."""
    known = {name: least for name, least in _LIMITS.items() if hasattr(_config, name)}
    changes: dict[str, object] = {name: max(least, getattr(_config, name)) for name, least in known.items()}
    if getattr(_config, "side_effect_replay_policy", None) == "silent":
        changes["side_effect_replay_policy"] = "info"
    with _config.patch(changes):
        yield


def compiled(
    function: FunctionType,
    backend: str | Callable[..., Any],
    options: Mapping[str, Any],
    *,
    recompile_limit: int | None,
) -> Callable[..., Any]:
    """One graph of fixed sizes, unless the caller marks some as dynamic. The limit is a parameter that torch's own types lack."""
    compile: Any = torch.compile
    made = compile(
        function,
        fullgraph=True,
        dynamic=False,
        backend=backend,
        options=dict(options),
        recompile_limit=recompile_limit,
    )
    return cast("Callable[..., Any]", made)


def drop_guards(guards: Sequence[object]) -> list[bool]:
    """A guard filter that keeps none."""
    return [False] * len(guards)


def keep_shape_guards(guards: Sequence[Any]) -> list[bool]:
    """A guard filter that keeps those on symbolic shapes."""
    return [guard.guard_type == "SHAPE_ENV" for guard in guards]


def reset() -> None:
    """Have Dynamo drop all that it compiled in this process."""
    torch._dynamo.reset()


def is_cached(code: CodeType) -> bool:
    """Whether Dynamo keeps compiled code for a code object."""
    return bool(_cache_entries(code))


def failed_guards(code: CodeType, arguments: Mapping[str, object]) -> list[str]:
    """The guards of what was compiled for a code object that do not hold for arguments, as far as Dynamo says."""
    found = []
    for entry in _cache_entries(code):
        check = getattr(getattr(entry, "guard_manager", None), "check_verbose", None)
        if check is not None:
            found += [str(part) for part in check(dict(arguments)).verbose_code_parts]
    return found


def _cache_entries(code: CodeType) -> list[Any]:
    entries = getattr(torch._dynamo.eval_frame, "_debug_get_cache_entry_list", None)
    return [] if entries is None else list(entries(code))


def storage_users(storage: torch.UntypedStorage) -> int:
    """How many tensors and Python objects hold a piece of memory."""
    count = getattr(torch._C, "_storage_Use_Count")  # noqa: B009
    return int(count(storage._cdata))


def hooks_of(module: nn.Module) -> list[str]:
    """The tables of hooks around `forward` in which a module has entries."""
    return [name for name in _HOOKS if getattr(module, name, None)]


def has_global_hooks() -> bool:
    """Whether there are hooks around the `forward` of every module."""
    any_hook: Any = nn.modules.module._has_any_global_hook
    return bool(any_hook())


def has_forward(module: nn.Module) -> bool:
    """Whether a module defines `forward` at all."""
    unimplemented = getattr(nn.modules.module, "_forward_unimplemented", None)
    return getattr(module.forward, "__func__", None) is not unimplemented


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that Dynamo could not trace."""

    kind: str
    """Dynamo's own name of the kind; the class of the exception where it has none."""

    message: str
    stack: StackSummary
    modules: tuple[nn.Module, ...]
    """Those whose methods were being traced, the outermost first; empty where Dynamo did not tell."""


_REFUSALS = (torch._dynamo.exc.TorchDynamoException, torch._dynamo.exc.UserError)
_BREAK_LOGS = ("torch._dynamo.symbolic_convert.__graph_breaks", "torch._dynamo.convert_frame.__graph_breaks")
_RECOMPILE_LOG = "torch._dynamo.guards.__recompiles"
_LIMIT_LOG = "torch._dynamo.convert_frame"
_LIMIT_HIT = "torch._dynamo hit config."
"""How the log's message starts on code that is compiled no more."""

_FAKE_CALL = re.compile(r"got (\w+)\((['\"])(.*)\2\)\s*$", re.MULTILINE)
"""What an operator raised for tensors without values, in Dynamo's explanation."""

_MODULES = "_modelguard_modules"
_TRANSLATOR: Any = getattr(torch._dynamo.symbolic_convert, "InstructionTranslatorBase", ())


def cause(error: BaseException) -> str:
    """Why a call of something compiled failed, in a line: what an operator raised, where Dynamo wraps that in an explanation."""
    text = str(error).strip()
    raised = _FAKE_CALL.search(text) if isinstance(error, _REFUSALS) else None
    if raised is not None:
        return f"{raised[1]}: {raised[3]}"
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def refusal(error: BaseException) -> Refusal | None:
    """What an exception says that Dynamo refused; None for one that is none of Dynamo's."""
    if not isinstance(error, _REFUSALS):
        return None
    stack = getattr(error, "real_stack", None)
    kind = getattr(error, "gb_type", None) or type(error).__name__
    message = str(getattr(error, "msg", "") or error)
    return Refusal(str(kind), message, stack or StackSummary(), getattr(error, _MODULES, ()))


@contextmanager
def noting_modules() -> Iterator[None]:
    """Have Dynamo's refusals hold the modules that were being traced, which `refusal` tells: their traceback is cut off."""
    kind: Any = torch._dynamo.exc.Unsupported
    original = kind.__init__

    def noting(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        setattr(self, _MODULES, tuple(_traced_modules(sys._getframe(1)))[::-1])

    kind.__init__ = noting
    try:
        yield
    finally:
        kind.__init__ = original


def _traced_modules(frame: FrameType | None) -> Iterator[nn.Module]:
    """The modules whose methods Dynamo is tracing, the innermost first."""
    before = None
    while frame is not None:
        translator = frame.f_locals.get("self")
        if translator is not before and isinstance(translator, _TRANSLATOR):
            before = translator
            names = translator.f_code.co_varnames
            value = _value(translator.symbolic_locals.get(names[0])) if names else None
            if isinstance(value, nn.Module):
                yield value
        frame = frame.f_back


def _value(variable: Any) -> object:
    """What one of Dynamo's variables stands for. Asking it for an attribute could have it traced."""
    own = {} if variable is None else vars(variable)
    return own["value"] if "value" in own else getattr(own.get("_cache"), "value", None)


@contextmanager
def graph_breaks() -> Iterator[list[Refusal]]:
    """What breaks graphs inside the block, from Dynamo's log of it: it is told nowhere else where no graph follows."""
    found: list[Refusal] = []

    def take(record: logging.LogRecord) -> None:
        error = _logged_error(sys._getframe())
        told = None if error is None else refusal(error)
        if told is not None:
            found.append(told)

    with _listening(_BREAK_LOGS, take):
        yield found


@contextmanager
def recompilations() -> Iterator[list[str]]:
    """Dynamo's messages on code compiled again inside the block: function, file and line; then the guards, a line each."""
    found: list[str] = []
    with _listening((_RECOMPILE_LOG,), lambda record: found.append(record.getMessage())):
        # The guards are worked out only where the log is asked for by its own settings.
        enabled = torch._logging._internal.log_state
        before = set(enabled.artifact_names)
        enabled.artifact_names.add("recompiles")
        try:
            yield found
        finally:
            enabled.artifact_names.intersection_update(before)


def quiet() -> AbstractContextManager[None]:
    """Keep what is logged of compilations in this thread from everybody: what failed is in the exception as well."""
    loggers = [each for name, each in logging.root.manager.loggerDict.items() if name.startswith(("torch._dynamo", "torch._sub"))]
    return _muted([each for each in loggers if isinstance(each, logging.Logger)], "")


def quiet_limits() -> AbstractContextManager[None]:
    """The same for what is logged where a limit on recompilations is met."""
    return _muted([logging.getLogger(_LIMIT_LOG)], _LIMIT_HIT)


@contextmanager
def _muted(loggers: Sequence[logging.Logger], start: str) -> Iterator[None]:
    """Without the messages of this thread that start like this. A filter holds for its logger, and not for those below."""
    thread = threading.get_ident()

    def passes(record: logging.LogRecord) -> bool:
        return record.thread != thread or not str(record.msg).startswith(start)

    for logger in loggers:
        logger.addFilter(passes)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(passes)


@contextmanager
def _listening(names: Sequence[str], take: Callable[[logging.LogRecord], object]) -> Iterator[None]:
    handler = logging.Handler()
    handler.emit = take  # type: ignore[method-assign,assignment]
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


def _logged_error(frame: FrameType | None) -> BaseException | None:
    """The exception that is being logged, from the frame of Dynamo's that logs it."""
    while frame is not None:
        for name in ("exc", "e"):
            error = frame.f_locals.get(name)
            if isinstance(error, _REFUSALS):
                return error
        frame = frame.f_back
    return None


def traced_values(frame: FrameType | None) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """The local and global variables of the code that Dynamo traced, asked of a frame inside the backend's call."""
    while frame is not None:
        root = getattr(frame.f_locals.get("self"), "root_tx", None)
        if root is not None:
            return dict(root.f_locals), dict(root.f_globals)
        frame = frame.f_back
    return {}, {}


@contextmanager
def allowing(kinds: frozenset[str]) -> Iterator[None]:
    """Let Dynamo trace on through what it can be told to, by the names of `ALLOWED`."""
    changes: dict[str, object] = {}
    for kind in kinds:
        changes.update(ALLOWED[kind])
    with _config.patch({name: value for name, value in changes.items() if hasattr(_config, name)}):
        yield


ALLOWED: Mapping[str, Mapping[str, object]] = {
    "scalars": {"capture_scalar_outputs": True},
    "sizes": {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True},
    "recurrent": {"allow_rnn": True},
    "prints": {
        "ignore_logging_functions": {
            print,
            warnings.warn,
            *(getattr(logging.Logger, name) for name in ("debug", "info", "warning", "error", "critical", "exception", "log")),
        }
    },
}
"""What Dynamo can be told to trace, so that what lies behind it is seen."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change that compiled code makes to something that was there before the call."""

    source: str
    """Dynamo's expression for the object."""

    ancestors: tuple[tuple[str, object], ...]
    """The object and what it was reached through, innermost first: Dynamo's expression, and the thing itself or `MISSING`."""

    attribute: str | None
    """What of it was stored or deleted; None where it is a variable itself, or a container whose items changed."""

    operation: str
    stacks: tuple[StackSummary, ...]
    """Where it is done. They may hold those of other attributes of the same object, which Dynamo does not tell apart."""


def side_effect_sources(compiled: CodeType) -> tuple[str, ...] | None:
    """Dynamo's own list of what compiled code changes; None where this torch keeps none."""
    read = getattr(_frames, "get_compiled_code_side_effects", None)
    return None if read is None else cast("tuple[str, ...] | None", read(compiled))


def mutations(frame: FrameType | None, listed: Sequence[str]) -> list[Mutation] | None:
    """What the code just compiled changes, read from the frame that called a bytecode hook; None where it is not to be had.

    What Dynamo has `listed` and the table tells nothing of is among it.
    """
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return None
        scope = frame.f_locals
        table = getattr(scope.get("output"), "side_effects", None)
        if hasattr(table, "store_attr_mutations") and hasattr(table, "mutation_user_stacks"):
            try:
                return _read(table, _Scope(scope.get("locals") or {}, scope.get("globals") or {}), listed)
            except Exception:
                # The table is laid out as torch pleases; a compilation may not fail because it is laid out anew.
                return None
        frame = frame.f_back
    return None


class _Scope:
    """What Dynamo's expressions stand for, in the call that was traced."""

    def __init__(self, arguments: Mapping[str, object], variables: Mapping[str, object]) -> None:
        self._names = {"L": arguments, "G": variables}
        self._module = sys.modules.get(str(variables.get("__name__")), MISSING)
        self._cache: dict[object, object] = {}

    def value(self, source: Any) -> object:
        try:
            return source.get_value(dict(self._names), {}, self._cache)
        except Exception:
            # Some expressions name helpers of guards.
            return MISSING

    def ancestors(self, source: Any) -> tuple[tuple[str, object], ...]:
        found = []
        while source is not None:
            found.append((_name(source), self.value(source)))
            source = getattr(source, "base", None)
        return (*found, ("G", self._module)) if found[-1][0].startswith("G[") else tuple(found)


def _read(table: Any, scope: _Scope, listed: Sequence[str]) -> list[Mutation]:
    found: list[Mutation] = []
    # Those in angle brackets are expressions that Dynamo cannot print.
    left = dict.fromkeys(name for name in listed if not name.startswith("<") and not name.endswith((*_TABLES, *_SETS)))
    for variable in {**table.mutation_user_stacks, **table.store_attr_mutations}:
        source = getattr(variable, "source", None)
        # What is new in this call, such as a local dictionary, is nobody's state.
        if source is None or not type(variable.mutation_type).__name__.endswith("Existing"):
            continue
        left.pop(_name(source), None)
        if _name(source).endswith(_SETS):
            continue
        stacks = tuple(table.mutation_user_stacks.get(variable, ()))
        ancestors = scope.ancestors(source)
        stored = table.store_attr_mutations.get(variable, {})
        changes = [*_stored(source, ancestors[0][1], stored), *_items(variable, source, ancestors[0][1])]
        found += [Mutation(_name(source), ancestors, name, operation, stacks) for name, operation in changes]
    return found + [Mutation(name, ((name, MISSING),), None, "changed", ()) for name in left]


def _stored(source: Any, owner: object, stored: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    """The attributes that end up with another value than they had. A variable is stored under its own name, no attribute."""
    for name, value in stored.items():
        is_variable = name in (getattr(source, "global_name", None), "cell_contents")
        before, path = (owner, _name(source)) if is_variable else (_before(owner, name), f"{_name(source)}.{name}")
        attribute = None if is_variable else name
        if type(value).__name__ == "DeletedVariable":
            if before is not MISSING:
                yield attribute, "deleted"
        elif not _is_same(value, before, path):
            yield attribute, "created" if before is MISSING and not is_variable else "rebound"


def _before(owner: object, name: str) -> object:
    """What an attribute held before the call, without running code of the object's class."""
    own = getattr(owner, "__dict__", {})
    if name in own:
        return own[name]
    slot = inspect.getattr_static(type(owner), name, None)
    if isinstance(slot, (MemberDescriptorType, GetSetDescriptorType)):
        with suppress(AttributeError):
            return slot.__get__(owner)
    return MISSING


def _items(variable: Any, source: Any, container: object) -> Iterator[tuple[str | None, str]]:
    """The items of a container that differ from what it held. The tensors and children of a module are its attributes."""
    if not getattr(variable.mutation_type, "is_modified", False):
        return
    if not hasattr(variable, "original_items"):
        if not _has_same_items(variable, source, container):
            yield None, "advanced" if hasattr(variable, "index") else "changed"
        return
    before = {_key(key): value for key, value in variable.original_items.items()}
    after = {_key(key): value for key, value in variable.items.items()}
    common = {
        key
        for key in before
        if key in after
        and (not variable.is_new_item(before[key], after[key]) or _is_written_in_place(after[key], f"{_name(source)}[{key!r}]"))
    }
    keys = [key for key in {**before, **after} if key not in common]
    if not _name(source).endswith(_TABLES):
        if keys:
            yield None, "changed"
        return
    for key in keys:
        yield str(key), "deleted" if key not in after else "rebound" if key in before else "created"


def _is_written_in_place(value: Any, path: str) -> bool:
    """Whether a tensor is the one that was found at `path`, written to: `self.total += x` stores what was there."""
    node = getattr(getattr(value, "proxy", None), "node", None)
    while node is not None and _is_in_place(node):
        node = node.args[0]
    source = getattr(node, "_dynamo_source", None)
    return source is not None and _name(source) == path


def _is_in_place(node: Any) -> bool:
    """Whether a node's result is its first argument, written to."""
    if node.op == "call_function":
        return node.target in _IN_PLACE and bool(node.args)
    return node.op == "call_method" and node.target.endswith("_") and not node.target.endswith("__")


def _key(key: Any) -> object:
    """A key, or an item of a set, by what it is; Dynamo wraps them to hash them."""
    variable = getattr(key, "vt", key)
    return variable.as_python_constant() if variable.is_python_constant() else variable


def _name(source: Any) -> str:
    """Dynamo's expression for a source; variables of enclosing functions have none but their name."""
    try:
        return str(source.name)
    except NotImplementedError:
        return str(getattr(source, "local_name", type(source).__name__))


def _has_same_items(variable: Any, source: Any, container: object) -> bool:
    items = getattr(variable, "items", None)
    if not isinstance(items, list) or not isinstance(container, Sequence) or len(items) != len(container):
        return False
    pairs = enumerate(zip(items, container, strict=True))
    return all(_is_same(item, was, f"{_name(source)}[{index}]") for index, (item, was) in pairs)


def _is_same(value: Any, before: object, path: str) -> bool:
    """Whether a value is what was there before: read from there, written where it lay, or an equal constant."""
    source = getattr(value, "source", None)
    if (source is not None and _name(source) == path) or _is_written_in_place(value, path):
        return True
    if before is MISSING or not value.is_python_constant():
        return False
    constant = value.as_python_constant()
    if constant is before:
        return True
    return isinstance(constant, _PLAIN) and type(constant) is type(before) and bool(constant == before)

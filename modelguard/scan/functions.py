"""Functions outside the project, by their dotted names: builtins, the standard library, torch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from modelguard.observation import Kind, Operation, Root
from modelguard.scan.conditions import predicate
from modelguard.scan.methods import builtin_method, hand_over, named_store, view, write_memory, write_out
from modelguard.scan.obstacles import external_called, made_on_cpu
from modelguard.scan.paths import ITEM, NO_FACTS, Check, Facts, Test
from modelguard.scan.tables import (
    DISABLERS,
    GENERATORS,
    MASKING,
    MUTATING_FUNCTIONS,
    RUNNING_STATISTICS,
    SCRIPTERS,
    SYNCHRONISING_FUNCTIONS,
    TENSOR_PACKAGES,
    TENSORLESS_TORCH,
    TUPLES_OF_TENSORS,
    VIEW_FUNCTIONS,
)
from modelguard.scan.values import (
    NONE,
    NOTHING,
    PROPERTY,
    SPREAD,
    UNKNOWN,
    Arguments,
    ClassObject,
    External,
    Function,
    Keywords,
    Partial,
    Value,
    any_inputs,
    is_tensor,
    is_tensor_if_used_as_one,
    is_truth_type,
    join,
    join_all,
    measured,
)

if TYPE_CHECKING:
    from modelguard.scan.expressions import Expressions

_NUMBERS = frozenset("len int float abs sum round hash id ord pow divmod".split())
_CONTAINERS = {
    "builtins.list": Kind.LIST,
    "builtins.tuple": Kind.TUPLE,
    "builtins.set": Kind.SET,
    "builtins.frozenset": Kind.TUPLE,
    "builtins.dict": Kind.DICT,
    "builtins.sorted": Kind.LIST,
    "builtins.reversed": Kind.LIST,
    "builtins.iter": Kind.LIST,
    "builtins.filter": Kind.LIST,
    "builtins.range": Kind.TUPLE,
    "collections.OrderedDict": Kind.DICT,
    "collections.defaultdict": Kind.DICT | Kind.GROWING_DICT,
    "collections.Counter": Kind.DICT,
    "collections.ChainMap": Kind.DICT,
    "collections.deque": Kind.DEQUE,
    "queue.Queue": Kind.DEQUE,
    "weakref.WeakKeyDictionary": Kind.DICT,
    "weakref.WeakValueDictionary": Kind.DICT,
    "weakref.WeakSet": Kind.SET,
}
_OF_TENSORS = ("torch.nn.functional.", "torch.special.", "torch.linalg.", "torch.fft.", "torch.Tensor.", "einops.")
_ASKING = ("is_", "are_", "get_", "has_", "can_")
"""How functions of torch begin that answer with something else than a tensor."""
_COPIES = frozenset(("copy.copy", "copy.deepcopy", "dataclasses.replace", "copy.replace"))
_SETTERS = frozenset(
    ("builtins.setattr", "builtins.object.__setattr__", "builtins.super.__setattr__", "torch.nn.Module.__setattr__")
)
_DELETERS = frozenset(("builtins.delattr", "builtins.object.__delattr__", "torch.nn.Module.__delattr__"))


def external(
    walk: Expressions, dotted: str, args: Arguments, kwargs: Keywords, node: ast.AST | None, receiver: Value | None = None
) -> Value:
    """A call of something outside the project, by its dotted name."""
    if walk.recorder is not None and not walk.muted and node is not None:
        external_called(walk, dotted, args, kwargs, node)
    handler = _FUNCTIONS.get(dotted)
    where: ast.AST = node if node is not None else ast.Pass()
    if handler is not None:
        return handler(walk, args, kwargs, where)
    tested = predicate(dotted)
    if tested is not None:
        return tested
    package = dotted.partition(".")[0]
    last = dotted.rpartition(".")[2]
    if dotted in _SETTERS and args:
        return named_store(walk, "setattr" if dotted == "builtins.setattr" else "__setattr__", args, where)
    if dotted in _DELETERS and args:
        return named_store(walk, "delattr", args, where)
    if dotted in _CONTAINERS:
        return _container(walk, _CONTAINERS[dotted], args, kwargs)
    if dotted in _COPIES:
        walk.pass_out(args, kwargs)
        return Value(args[0].kinds, (), args[0].classes, (), args[0].elements(), inputs=args[0].inputs) if args else UNKNOWN
    if dotted in MUTATING_FUNCTIONS and len(args) > MUTATING_FUNCTIONS[dotted]:
        target = args[MUTATING_FUNCTIONS[dotted]]
        for path in target.paths:
            walk.record(
                Operation.MUTATE, path.step(ITEM), where, where, declared=target.kinds, verb=last, inputs=any_inputs(args, kwargs)
            )
        return walk.element_of(target) if last.startswith("heappop") else NONE
    if package == "math":
        walk.pass_out(args, kwargs)
        return Value(Kind.NUMBER | _told_by(args), inputs=any_inputs(args, kwargs))
    if package == "builtins":
        return _builtin(walk, last, dotted, args, kwargs, where, receiver)
    if package in TENSOR_PACKAGES:
        return _torch(walk, dotted, last, args, kwargs, where)
    if dotted in GENERATORS:
        return Value(Kind.UNKNOWN, objects=(External(dotted),))
    if package == "numpy":
        read = Kind.READ if any(is_tensor(value) or value.kinds & Kind.READ for value in args) else 0
        return _with_marks(_unknown(walk, args, kwargs, receiver), Kind.ARRAY | read)
    if package in sys.stdlib_module_names:
        walk.pass_out(args, kwargs)
        return Value(Kind.UNKNOWN, inputs=any_inputs(args, kwargs) or (receiver is not None and receiver.inputs))
    return _unknown(walk, args, kwargs, receiver)


def _unknown(walk: Expressions, args: Arguments, kwargs: Keywords, receiver: Value | None) -> Value:
    hand_over(walk, args, kwargs)
    inputs = any_inputs(args, kwargs) or (receiver is not None and receiver.inputs)
    return Value(Kind.UNKNOWN, inputs=inputs)


def _with_marks(value: Value, marks: int) -> Value:
    """A value with more known of it."""
    return Value(value.kinds | marks, value.paths, value.classes, value.objects, value.element, value.items, inputs=value.inputs)


def _told_by(args: Arguments) -> int:
    """The marks of a Python number computed from others, or read from a tensor."""
    return Kind.READ if any(is_tensor_if_used_as_one(value) for value in args) else measured(args)


def _builtin(
    walk: Expressions, name: str, dotted: str, args: Arguments, kwargs: Keywords, node: ast.AST, receiver: Value | None
) -> Value:
    if dotted.count(".") == 2 and args:
        # `dict.update(self.d, ...)`, `list.append(self.l, x)`: the method by its class.
        owner = dotted.split(".")[1]
        if owner in ("dict", "list", "set"):
            return builtin_method(walk, args[0], name, args[1:], kwargs, node, False)
    inputs = any_inputs(args, kwargs)
    if name == "len" and args:
        walk.touch(args[0], used=True)
    if name in _NUMBERS:
        if name != "len":
            walk.pass_out(args, {})
        tensor = name in ("abs", "sum", "round", "pow") and any(value.content_kinds & Kind.ANY_TENSOR for value in args)
        about = tuple(path for value in args for path in value.paths) if name == "len" else ()
        unknown = Kind.UNKNOWN if name in ("sum", "abs", "pow") and not tensor else 0
        if name == "len":
            marks = Kind.SIZE if is_tensor(args[0]) and args[0].inputs else 0
        else:
            marks = measured(args) if name in ("abs", "sum", "round", "pow") else _told_by(args)
        return Value(Kind.TENSOR if tensor else Kind.NUMBER | unknown | marks, about=about, inputs=inputs)
    if name in ("min", "max") and args:
        walk.pass_out(args, kwargs)
        joined = join_all(args)
        return Value((joined.kinds & ~Kind.CONTAINER or Kind.UNKNOWN) | _told_by(args), inputs=inputs)
    if name in ("bool", "isinstance", "issubclass", "callable", "any", "all"):
        walk.pass_out(args, kwargs)
        marks = _told_by(args) if name in ("bool", "any", "all") else 0
        return Value(Kind.BOOL | marks, inputs=inputs and name != "isinstance")
    if name in ("str", "repr", "format"):
        walk.pass_out(args, kwargs)
        return Value(Kind.STRING, inputs=inputs)
    return _unknown(walk, args, kwargs, receiver)


def _container(walk: Expressions, kind: int, args: Arguments, kwargs: Keywords) -> Value:
    if kind & Kind.GROWING_DICT:
        return Value(kind, element=None)
    source = args[-1] if args else None
    if source is not None:
        walk.touch(source, used=True)
    element = None
    inputs = any_inputs(args, kwargs)
    items = None
    if source is not None and source.kinds != Kind.NONE:
        element = walk.element_of(source)
        items = source.items if not source.paths and kind & (Kind.LIST | Kind.TUPLE) else None
    if kwargs and kind & Kind.DICT:
        given = join_all(value for name, value in kwargs.items() if name != "**")
        element = given if element is None else join(element, given)
    if kind == Kind.TUPLE and source is not None and source.kinds & Kind.NUMBER and not source.kinds & Kind.UNKNOWN:
        element = Value(Kind.NUMBER, inputs=inputs)
    return Value(kind, element=element, items=items, inputs=inputs)


def _torch(walk: Expressions, dotted: str, last: str, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    inputs = any_inputs(args, kwargs)
    if dotted in RUNNING_STATISTICS and _trains(walk, last, args, kwargs):
        for position, keyword in RUNNING_STATISTICS[dotted]:
            target = kwargs.get(keyword) or (args[position] if position < len(args) else NOTHING)
            write_memory(walk, target, node, last, inputs=True)
    if "out" in kwargs:
        write_out(walk, kwargs["out"], node, last)
    inplace = kwargs.get("inplace")
    writes = last.endswith("_") and not last.endswith("__") and not last.startswith("_") and not last.startswith("is_")
    if args and (
        writes or (last.startswith("_foreach_") and last.endswith("_")) or (inplace is not None and inplace.constant is True)
    ):
        target = args[0]
        if last.startswith("_foreach_"):
            target = walk.element_of(target)
        write_memory(walk, target, node, last, inputs)
        return target
    if last == "swap_tensors":
        for target in args:
            for path in target.paths:
                walk.record(Operation.SWAP, path, node, node, declared=target.kinds, verb=last)
        return NONE
    if dotted.startswith(("torch.nn.", "torch.ao.nn.", "torch.jit.")) and last[:1].isupper():
        return _torch_class(walk, dotted, last, args, kwargs)
    if dotted in TENSORLESS_TORCH or (last[:1].isupper() and last not in ("Tensor", "FloatTensor", "LongTensor", "BoolTensor")):
        walk.pass_out(args, kwargs)
        constant = args[0].constant if dotted == "torch.device" and args else None
        return Value(Kind.TUPLE if last == "Size" else Kind.OBJECT, inputs=inputs and last == "Size", constant=constant)
    if last == "scaled_dot_product_attention":
        walk.pass_out(args, kwargs)
        return Value(Kind.TENSOR, inputs=True)
    if dotted.count(".") == 1 and last in VIEW_FUNCTIONS and args and args[0].paths:
        return view(last, args[0], inputs)
    if last.startswith("_check"):
        # What makes the message is called where the check fails.
        with walk.mute():
            hand_over(walk, args, kwargs)
        return NONE
    hand_over(walk, args, kwargs)
    if not dotted.startswith("torch.__") and dotted.startswith(
        ("torch.utils.checkpoint", "torch.cond", "torch.compile", "torch.vmap", "torch.func", "torch.ops.", "torch._")
    ):
        return Value(Kind.TENSOR | Kind.UNKNOWN, inputs=inputs)
    if dotted.startswith(
        (
            "torch.distributed",
            "torch.cuda",
            "torch.backends",
            "torch.utils",
            "torch.fx",
            "torch.profiler",
            "torch.compiler",
            "torch.version",
            "torch.__",
        )
    ):
        return Value(Kind.UNKNOWN, inputs=inputs)
    if last in TUPLES_OF_TENSORS and not (last in ("max", "min") and len(args) == 1 and not kwargs):
        element = Value(Kind.TENSOR, inputs=inputs)
        plain = last in ("max", "min", "where", "nonzero", "unique")
        return Value(Kind.TENSOR | Kind.TUPLE if plain else Kind.TUPLE, element=element, inputs=inputs)
    if dotted in SYNCHRONISING_FUNCTIONS:
        return Value(Kind.BOOL | Kind.READ, inputs=inputs)
    if last.startswith(_ASKING) or not (dotted.count(".") == 1 or dotted.startswith(_OF_TENSORS)):
        return Value(Kind.TENSOR | Kind.UNKNOWN, inputs=inputs)
    kinds = Kind.TENSOR
    if made_on_cpu(dotted, kwargs):
        kinds |= Kind.ON_CPU
    if last in MASKING or is_truth_type(kwargs.get("dtype")):
        kinds |= Kind.MASK
    return Value(kinds, inputs=inputs)


def _trains(walk: Expressions, name: str, args: Arguments, kwargs: Keywords) -> bool:
    """Whether a normalisation may update its statistics: not where it is told that nothing trains."""
    told = kwargs.get("training", kwargs.get("use_input_stats"))
    if told is None and name == "batch_norm":
        if len(args) < 6:
            return False
        told = args[5]
    return told is None or told.constant is not False


def _torch_class(walk: Expressions, dotted: str, last: str, args: Arguments, kwargs: Keywords) -> Value:
    info = walk.world.project.external_class(dotted)
    walk.pass_out(args, kwargs)
    if not info.is_module:
        kind = Kind.BUFFER if last.endswith("Buffer") else Kind.PARAMETER if last.endswith("Parameter") else Kind.OBJECT
        return Value(kind, inputs=any_inputs(args, kwargs))
    parts = [
        part
        for value in args
        for part in ([value.elements()] if value.kinds & (Kind.CONTAINER | Kind.TUPLE) else [value])
        if part is not None
    ]
    element = (
        join_all(parts)
        if parts and last in ("ModuleList", "Sequential", "ModuleDict", "ParameterList", "ParameterDict")
        else None
    )
    items = args[0].items if len(args) == 1 and last == "ModuleList" else None
    return Value(
        Kind.MODULE,
        classes=(info,),
        element=element.with_paths(()) if element is not None else None,
        items=items,
        inputs=any_inputs(args, kwargs),
    )


def _getattr(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    if len(args) < 2:
        return UNKNOWN
    value = walk.attribute(args[0], args[1].key_name, node)
    return join(value, args[2]) if len(args) > 2 else value


def _hasattr(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    name = args[1].constant if len(args) > 1 else None
    checks = tuple(Check(path.step(name), "missing") for path in args[0].paths) if args and isinstance(name, str) else ()
    return Value(Kind.BOOL, test=Test(NO_FACTS, Facts(checks=checks)) if checks else None)


def _vars(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    return walk.attribute(args[0], "__dict__", node) if args else Value(Kind.DICT)


def _type(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    return Value(Kind.OBJECT, objects=tuple(ClassObject(info) for info in args[0].classes)) if args else UNKNOWN


def _next(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    if not args:
        return UNKNOWN
    for path in args[0].paths:
        if args[0].kinds & ~Kind.NONE and path.root is not Root.ARGUMENT:
            walk.record(Operation.MUTATE, path.step(ITEM), node, node, declared=args[0].kinds | Kind.LIST, verb="next")
            walk.read(path, used=True)
    return walk.element_of(args[0])


def _enumerate(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    if not args:
        return UNKNOWN
    walk.touch(args[0], used=True)
    pair = Value(Kind.TUPLE, items=(Value(Kind.NUMBER), walk.iterate(args[0], node)), inputs=args[0].inputs)
    return Value(Kind.LIST, element=pair, inputs=args[0].inputs)


def _zip(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    inputs = any_inputs(args, {})
    for value in args:
        walk.touch(value, used=True)
    if any(value.kinds & SPREAD for value in args):
        return Value(Kind.LIST, element=Value(Kind.TUPLE, element=join_all(walk.element_of(a) for a in args), inputs=inputs))
    pair = Value(Kind.TUPLE, items=tuple(walk.iterate(value, node) for value in args), inputs=inputs)
    return Value(Kind.LIST, element=pair, inputs=inputs)


def _map(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    if not args:
        return UNKNOWN
    for value in args[1:]:
        walk.touch(value, used=True)
    element = walk.call(args[0], [walk.iterate(value, node) for value in args[1:]], {}, node)
    return Value(Kind.LIST, element=element, inputs=any_inputs(args, kwargs))


def _partial(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    if not args:
        return UNKNOWN
    return Value(Kind.FUNCTION, objects=(Partial(args[0], tuple(args[1:]), tuple(kwargs.items())),))


def _property(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    getter = args[0] if args else kwargs.get("fget", UNKNOWN)
    return Value(Kind.OBJECT, objects=(Partial(getter, (), PROPERTY),))


def _nullcontext(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    return Value(Kind.LIST, element=args[0] if args else NONE)


_COMPILERS = ("torch.compile", "torch.jit.ignore", "torch.jit.unused")


def _compiled(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    """`torch.compile(step)` is `step`, as far as state goes; what is no function of the project is handed over."""
    if args and any(isinstance(item, Function) for item in args[0].objects):
        return args[0]
    if args:
        return _torch(walk, "torch.compile", "compile", args, kwargs, node)
    return Value(Kind.FUNCTION, objects=(External("torch.compile"),))


def _disabled(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    """`torch.compiler.disable(step)`; with nothing given yet, the decorator itself."""
    if not args:
        return Value(Kind.FUNCTION, objects=(External("torch.compiler.disable"),))
    functions = [item for item in args[0].objects if isinstance(item, Function)]
    if functions:
        return Value(Kind.FUNCTION, objects=tuple(function.disable() for function in functions))
    hand_over(walk, args, kwargs)
    return Value(Kind.UNKNOWN, objects=(External("torch.compiler.disable()"),))


def _scripted(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    """`torch.jit.script(step)`: Dynamo looks through it where `step` is a function."""
    if args and any(isinstance(item, Function) for item in args[0].objects):
        return args[0]
    hand_over(walk, args, kwargs)
    return Value(Kind.UNKNOWN, objects=(External("torch.jit.script()"),))


def _wraps(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    return Value(Kind.FUNCTION, objects=(External("functools.wraps()"),))


def _memoise(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    """`lru_cache(f)`; with no function given yet, the decorator itself."""
    functions = [item for item in args[0].objects if isinstance(item, Function)] if args else []
    if not functions:
        return Value(Kind.FUNCTION, objects=(External("functools.lru_cache"),))
    return Value(Kind.FUNCTION, objects=tuple(function.memoise() for function in functions))


def _reduce(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    if len(args) > 1:
        element = walk.element_of(args[1])
        return walk.call(args[0], [element, element], {}, node)
    return UNKNOWN


def _iterator(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    """An iterator made in the region."""
    return Value(Kind.OBJECT)


_FUNCTIONS: dict[str, Callable[[Expressions, Arguments, Keywords, ast.AST], Value]] = {
    "builtins.getattr": _getattr,
    "builtins.hasattr": _hasattr,
    "builtins.vars": _vars,
    "builtins.type": _type,
    "builtins.next": _next,
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.map": _map,
    "builtins.property": _property,
    "contextlib.nullcontext": _nullcontext,
    "functools.partial": _partial,
    "functools.partialmethod": _partial,
    "functools.wraps": _wraps,
    **dict.fromkeys(_COMPILERS, _compiled),
    **dict.fromkeys(DISABLERS, _disabled),
    **dict.fromkeys(SCRIPTERS, _scripted),
    "functools.lru_cache": _memoise,
    "functools.cache": _memoise,
    "functools.reduce": _reduce,
    "itertools.count": _iterator,
    "itertools.cycle": _iterator,
}

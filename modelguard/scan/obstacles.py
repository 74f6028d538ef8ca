"""What keeps a region from being captured: asked of every test, call and index with what the walk knows of the values.

A value is taken for a tensor only where the walk is sure of it: what is reported here can be read off the source.
"""

from __future__ import annotations

import ast
import re

from modelguard.observation import Hindrance, Kind
from modelguard.scan.observing import Observing
from modelguard.scan.symbols import ClassInfo, ExternalClass, Method
from modelguard.scan.tables import (
    CLOCKS,
    CPU_FACTORIES,
    DATA_SIZED_FUNCTIONS,
    DATA_SIZED_METHODS,
    DISABLERS,
    LOG_METHODS,
    OPAQUE_MODULES,
    OUTPUTS,
    PYTHON_DATA_FUNCTIONS,
    SYNCHRONISERS,
    SYNCHRONISING_FUNCTIONS,
    SYNCHRONISING_METHODS,
)
from modelguard.scan.values import Arguments, Function, Keywords, Value, is_tensor, is_tensor_if_used_as_one

_LOGGER = re.compile(r"(?:^|_)(?:log|logger|logging)$|^get_?logger$", re.IGNORECASE)
_READERS = frozenset("int float complex range min max sorted any all str repr format".split())
"""Builtins that read the data of a tensor they are handed, `bool` apart, which branches."""

_SIZED_FACTORIES = frozenset("arange zeros ones empty full rand randn linspace".split())


def tested(walk: Observing, node: ast.expr, value: Value) -> None:
    """The truth of a value is asked for."""
    kinds = value.kinds
    if kinds & Kind.ANY_TENSOR and not kinds & Kind.ARRAY:
        if is_tensor(value):
            walk.hinder(Hindrance.BRANCH, node, "branch", node)
    elif kinds & Kind.READ:
        if kinds & (Kind.NUMBER | Kind.BOOL | Kind.ARRAY):
            walk.hinder(Hindrance.BRANCH, node, "number", node)
    elif kinds & Kind.SIZE and not walk.checking:
        walk.hinder(Hindrance.SIZE_BRANCH, node, "branch", node)


def formatted(walk: Observing, node: ast.expr, value: Value) -> None:
    """A value becomes a part of a text."""
    if is_tensor(value):
        walk.hinder(Hindrance.SYNC, node, "formatting", node)


def indexed(walk: Observing, node: ast.Subscript, base: Value, key: Value) -> None:
    """An item of a value is read."""
    if base.kinds & (Kind.LIST | Kind.TUPLE | Kind.MODULE) and not base.kinds & (Kind.ANY_TENSOR | Kind.DICT | Kind.UNKNOWN):
        if is_tensor(key) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
            walk.hinder(Hindrance.SYNC, node, "indexing", node.slice)
    elif is_tensor_if_used_as_one(base) or base.kinds == Kind.UNKNOWN:
        parts = (
            [(part, key) for part in (node.slice,)]
            if key.items is None or not isinstance(node.slice, ast.Tuple)
            else [*zip(node.slice.elts, key.items, strict=False)]
        )
        if any(is_mask(part, value) for part, value in parts):
            walk.hinder(Hindrance.DYNAMIC_SHAPE, node, "[mask]", node)


def sliced(walk: Observing, node: ast.expr, bound: Value) -> None:
    """A value is the end of a slice."""
    if is_tensor(bound):
        walk.hinder(Hindrance.SYNC, node, "slicing", node)


def is_mask(node: ast.expr, value: Value) -> bool:
    """Whether what is an index is a tensor of truth values: by what it was computed from, or by its name."""
    if not is_tensor(value):
        return False
    if value.kinds & Kind.MASK:
        return True
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.endswith("mask")


def logged(walk: Observing, node: ast.Call) -> bool:
    """Whether a call writes to a log, which is told."""
    func = node.func
    if not isinstance(func, ast.Attribute) or func.attr not in LOG_METHODS:
        return False
    base = func.value.func if isinstance(func.value, ast.Call) else func.value
    name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
    if _LOGGER.search(name) is None:
        return False
    walk.hinder(Hindrance.OUTPUT, node, "log", func)
    return True


def module_called(walk: Observing, module: Value, node: ast.AST | None) -> None:
    """A module is called."""
    if not isinstance(node, ast.Call):
        return
    for info in module.classes:
        for each in info.mro if isinstance(info, ClassInfo) else (info,):
            if isinstance(each, ExternalClass) and each.name in OPAQUE_MODULES and each.dotted.startswith("torch."):
                walk.hinder(Hindrance.OPAQUE_CALL, node, each.name, node.func)
                return
        forward = info.method("forward")
        if forward is not None and any(_disables(walk, forward, name) for name in forward.facts.decorators):
            walk.hinder(Hindrance.OPAQUE_CALL, node, "disabled", node.func)
            return


def _disables(walk: Observing, method: Method, decorator: str) -> bool:
    symbol = walk.world.project.resolve(method.owner.file, decorator)
    return isinstance(symbol, str) and symbol in DISABLERS


def function_called(walk: Observing, function: Function, node: ast.AST | None) -> None:
    """A function of the project is called."""
    if function.disabled and isinstance(node, ast.Call):
        walk.hinder(Hindrance.OPAQUE_CALL, node, "disabled", node.func)


def external_called(walk: Observing, dotted: str, args: Arguments, kwargs: Keywords, node: ast.AST) -> None:
    """Something outside the project is called."""
    if not isinstance(node, ast.Call):
        return
    package, _, rest = dotted.partition(".")
    if package == "torch":
        _torch_called(walk, dotted, args, kwargs, node)
    elif dotted in OUTPUTS:
        walk.hinder(Hindrance.OUTPUT, node, "print", node.func)
    elif dotted in CLOCKS:
        walk.hinder(Hindrance.CHANCE, node, "clock", node.func)
    elif package in ("random", "secrets") or dotted.startswith("numpy.random."):
        walk.hinder(Hindrance.CHANCE, node, "randomness", node.func)
    elif package == "builtins":
        _builtin_called(walk, rest, args, node)
    elif package in ("numpy", "math") and any(is_tensor(value) and not value.kinds & Kind.READ for value in args):
        walk.hinder(Hindrance.SYNC, node, f"{node_name(node.func)}(...)", _first_tensor(args, node))


def _builtin_called(walk: Observing, name: str, args: Arguments, node: ast.Call) -> None:
    if not args:
        return
    if name == "bool":
        if is_tensor(args[0]):
            walk.hinder(Hindrance.SYNC, node, "bool(...)", node.args[0])
    elif name in _READERS and any(_is_read(name, value) for value in args):
        walk.hinder(Hindrance.SYNC, node, f"{name}(...)", node.args[0])


def _is_read(name: str, value: Value) -> bool:
    if name in ("int", "float", "complex"):
        return is_tensor_if_used_as_one(value) and not value.kinds & (Kind.NUMBER | Kind.BOOL)
    if is_tensor(value):
        return True
    element = value.elements() if value.kinds & (Kind.CONTAINER | Kind.TUPLE) else None
    return element is not None and name in ("any", "all", "min", "max", "sorted") and is_tensor(element)


def _torch_called(walk: Observing, dotted: str, args: Arguments, kwargs: Keywords, node: ast.Call) -> None:
    name = dotted.rpartition(".")[2]
    if dotted in SYNCHRONISING_FUNCTIONS or dotted in SYNCHRONISERS:
        walk.hinder(Hindrance.SYNC, node, f"{node_name(node.func)}(...)", node.args[0] if node.args else None)
    elif name in DATA_SIZED_FUNCTIONS and _sized_by_data(name, args, kwargs):
        walk.hinder(Hindrance.DYNAMIC_SHAPE, node, f"{node_name(node.func)}(...)", node)
    elif dotted in ("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pad_packed_sequence"):
        walk.hinder(Hindrance.DYNAMIC_SHAPE, node, f"{node_name(node.func)}(...)", node)
    elif name in PYTHON_DATA_FUNCTIONS and dotted.count(".") == 1 and args:
        _tensor_made(walk, args[0], kwargs, node)
    elif is_made(dotted) or dotted == "torch._dynamo.graph_break":
        walk.hinder(Hindrance.OPAQUE_CALL, node, "scripted" if ".jit." in dotted else "disabled", node.func)
    elif name in _SIZED_FACTORIES and dotted.count(".") == 1:
        sizes = args[:1] if name == "full" else args
        if any(is_tensor(value) for value in sizes if not value.kinds & Kind.READ):
            walk.hinder(Hindrance.SYNC, node, f"{node_name(node.func)}(...)", node.args[0])


def is_made(dotted: str) -> bool:
    """Whether a dotted name stands for what a function outside the project returned: `torch.jit.script()`."""
    return dotted.endswith("()") or "()." in dotted


def _sized_by_data(name: str, args: Arguments, kwargs: Keywords) -> bool:
    if name == "where":
        return len(args) + len(kwargs) == 1
    if name == "repeat_interleave":
        repeats = kwargs.get("repeats", args[1] if len(args) > 1 else args[0] if args else None)
        return repeats is not None and is_tensor(repeats) and "output_size" not in kwargs
    if name == "one_hot":
        classes = kwargs.get("num_classes", args[1] if len(args) > 1 else None)
        return classes is None or classes.constant == -1
    return True


def _tensor_made(walk: Observing, data: Value, kwargs: Keywords, node: ast.Call) -> None:
    """`torch.tensor(data)`: a copy from host memory where there is a device, and a read of each tensor that is in a list."""
    element = data.elements()
    if element is not None and data.kinds & (Kind.LIST | Kind.TUPLE) and not data.kinds & Kind.ANY_TENSOR and is_tensor(element):
        walk.hinder(Hindrance.SYNC, node, f"{node_name(node.func)}([...])", node.args[0])
    elif not data.kinds & Kind.ANY_TENSOR and "device" in kwargs:
        where = next(keyword.value for keyword in node.keywords if keyword.arg == "device")
        if not is_cpu(kwargs["device"]) and not _is_nothing(where) and data.kinds != Kind.UNKNOWN:
            walk.hinder(Hindrance.COPY, node, f"{node_name(node.func)}(...)", node.args[0])


def method_called(walk: Observing, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST) -> None:
    """A method is called that no source in the project defines."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    subject = node.func.value
    if name in SYNCHRONISING_METHODS or (name == "to" and _to_cpu(args, kwargs)):
        # What is in host memory already is read without the device.
        at_hand = Kind.READ | Kind.ON_CPU if name in ("cpu", "to") else Kind.READ
        if is_tensor_if_used_as_one(receiver) and not receiver.kinds & at_hand:
            walk.hinder(Hindrance.SYNC, node, f".{name}({'...' if node.args else ''})", subject)
    elif name in ("to", "cuda", "type_as"):
        if is_tensor(receiver) and receiver.kinds & Kind.ON_CPU and not receiver.kinds & (Kind.BUFFER | Kind.PARAMETER):
            if name != "to" or _to_device(args, kwargs, node):
                walk.hinder(Hindrance.COPY, node, f".{name}({'...' if node.args else ''})", subject)
    elif name in DATA_SIZED_METHODS:
        if (is_tensor_if_used_as_one(receiver) or (name != "unique" and receiver.kinds == Kind.UNKNOWN and receiver.inputs)) and (
            _sized_by_data(name, [receiver, *args], kwargs)
        ):
            walk.hinder(Hindrance.DYNAMIC_SHAPE, node, f".{name}(...)", node)
    elif name == "new_tensor":
        if args and not args[0].kinds & Kind.ANY_TENSOR:
            walk.hinder(Hindrance.COPY, node, ".new_tensor(...)", node.args[0])
    elif name == "equal" or name == "allclose":
        if is_tensor_if_used_as_one(receiver):
            walk.hinder(Hindrance.SYNC, node, f".{name}(...)", subject)
    elif name == "synchronize":
        walk.hinder(Hindrance.SYNC, node, ".synchronize()", None)
    elif name == "format" and receiver.kinds == Kind.STRING:
        if any(is_tensor(value) for value in (*args, *kwargs.values())):
            walk.hinder(Hindrance.SYNC, node, "formatting", _first_tensor(args, node))


def is_cpu(value: Value) -> bool:
    """Whether a value names host memory."""
    return value.constant in ("cpu", "meta")


def made_on_cpu(dotted: str, kwargs: Keywords) -> bool:
    """Whether a function of torch makes its result in host memory, unless somebody set another default."""
    return dotted in CPU_FACTORIES and ("device" not in kwargs or is_cpu(kwargs["device"]))


def _to_cpu(args: Arguments, kwargs: Keywords) -> bool:
    return any(is_cpu(value) for value in (*args[:1], *(kwargs[name] for name in ("device",) if name in kwargs)))


def _to_device(args: Arguments, kwargs: Keywords, node: ast.Call) -> bool:
    """Whether `.to(...)` moves: it names a device, or a tensor that is on one."""
    if "device" in kwargs or "other" in kwargs:
        return True
    if not args:
        return False
    named = node.args[0]
    name = named.attr if isinstance(named, ast.Attribute) else named.id if isinstance(named, ast.Name) else ""
    return is_tensor(args[0]) or "device" in name.lower() or (isinstance(args[0].constant, str) and not is_cpu(args[0]))


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _first_tensor(args: Arguments, node: ast.Call) -> ast.AST | None:
    return next((item for item, value in zip(node.args, args, strict=False) if is_tensor(value)), None)


def node_name(node: ast.expr) -> str:
    """What is called, as a message can quote it."""
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else "it"

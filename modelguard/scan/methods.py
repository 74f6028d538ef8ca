"""Methods that no source in the project defines: by their names, and what their receiver may be."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modelguard.observation import Hindrance, Kind, Operation, Root
from modelguard.scan.obstacles import is_cpu, method_called
from modelguard.scan.paths import ITEM
from modelguard.scan.tables import (
    AMBIGUOUS_MUTATORS,
    AMBIGUOUS_VIEWS,
    CASTS,
    CONTAINER_MUTATORS,
    ELEMENT_METHODS,
    HOOK_REGISTRATIONS,
    HOOKS_AFTER,
    HOOKS_BEFORE,
    INSTANCE_DICTS,
    ITEM_METHODS,
    MASKING,
    METADATA_IN_PLACE,
    METADATA_METHODS,
    MODULE_MODES,
    MODULE_MOVERS,
    MODULE_WALKS,
    NOT_IN_PLACE,
    READING_MUTATORS,
    REGISTRATIONS,
    SIZE_METHODS,
    SWAPPING_METHODS,
    TENSOR_METHODS,
    TUPLES_OF_TENSORS,
    VIEW_METHODS,
)
from modelguard.scan.values import (
    FEW,
    INPUT,
    NONE,
    NOTHING,
    SPREAD,
    UNKNOWN,
    Arguments,
    Function,
    Keywords,
    Partial,
    Value,
    any_inputs,
    is_tensor_if_used_as_one,
    is_truth_type,
    join,
    join_all,
    may_be_tensor,
)

if TYPE_CHECKING:
    from modelguard.scan.expressions import Expressions

_SEVERAL_VIEWS = frozenset(("unbind", "chunk", "split", "tensor_split"))
"""View functions and methods that return a tuple of views."""


def builtin_method(
    walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST, used: bool
) -> Value:
    """A method that no source in the project defines: by its name, and what its receiver may be."""
    kinds = receiver.kinds
    inputs = any_inputs(args, kwargs)
    is_module = bool(kinds & Kind.MODULE)
    if walk.recorder is not None and not walk.muted:
        method_called(walk, receiver, name, args, kwargs, node)
    if "out" in kwargs:
        write_out(walk, kwargs["out"], node, name)
    if name in ("__setattr__", "__delattr__") and args:
        return named_store(walk, name, [receiver, *args], node)
    if name == "__init__":
        return NONE
    if name in REGISTRATIONS and (is_module or kinds & Kind.UNKNOWN or walk.declared is not None):
        return _register(walk, receiver, name, args, kwargs, node)
    if name in HOOK_REGISTRATIONS:
        return _register_hook(walk, receiver, name, args, kwargs, node)
    if is_module:
        result = _module_method(walk, receiver, name, args, kwargs, node)
        if result is not None:
            return result
    if name in CONTAINER_MUTATORS:
        result = _mutator(walk, receiver, name, args, kwargs, node, used)
        if result is not None:
            return result
    if name.endswith("_"):
        result = _in_place(walk, receiver, name, args, kwargs, node)
        if result is not None:
            return result
    if name == "step" and not is_module:
        for path in receiver.paths:
            if path.steps and "optim" in path.steps[-1]:
                walk.record(Operation.IN_PLACE, path, node, node, declared=Kind.PARAMETER, verb=name)
    walk.pass_out(args, kwargs)
    return _handed_out(walk, receiver, name, args, inputs) or _computed(walk, receiver, name, args, kwargs)


def _in_place(walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value | None:
    """A method whose name ends in an underscore, where it is a tensor's."""
    kinds = receiver.kinds
    inputs = any_inputs(args, kwargs)
    if not name.startswith("_") and not name.endswith("__") and not kinds & (Kind.CONTAINER | Kind.MODULE):
        if name in SWAPPING_METHODS:
            for path in receiver.paths:
                walk.record(Operation.SWAP, path, node, node, declared=kinds, verb=name, inputs=inputs)
            return receiver
        if (name not in NOT_IN_PLACE or name in METADATA_IN_PLACE) and may_be_tensor(receiver):
            write_memory(walk, receiver, node, name, inputs)
            walk.pass_out(args, kwargs)
            return receiver
    if name == "requires_grad_" and may_be_tensor(receiver):
        for path in receiver.paths:
            if path.root is not Root.ARGUMENT:
                walk.record(Operation.MODE, path, node, node, declared=kinds, verb=name)
        return receiver
    return None


def _handed_out(walk: Expressions, receiver: Value, name: str, args: Arguments, inputs: bool) -> Value | None:
    """What a module or a container hands out of what it holds."""
    kinds = receiver.kinds
    if name in MODULE_WALKS and kinds & (Kind.MODULE | Kind.UNKNOWN):
        walk.touch(receiver, used=False)
        known = walk.element_of(receiver)
        part = Value(MODULE_WALKS[name], known.paths, known.classes if MODULE_WALKS[name] == Kind.MODULE else (), inputs=False)
        if name.startswith("named_"):
            part = Value(Kind.TUPLE, items=(Value(Kind.STRING | Kind.UNKNOWN), part))
        return Value(Kind.LIST, element=part)
    if kinds & (Kind.CONTAINER | Kind.TUPLE | Kind.MODULE | Kind.UNKNOWN):
        if name in ELEMENT_METHODS and not (name in ("values", "get") and kinds == Kind.UNKNOWN and not receiver.paths):
            element = walk.element_of(receiver)
            if name == "get":
                return join(element.with_inputs(element.inputs or inputs), args[1] if len(args) > 1 else NONE)
            if name == "values":
                return Value(Kind.LIST, element=element, inputs=receiver.inputs)
        if name in ITEM_METHODS:
            pair = Value(Kind.TUPLE, items=(Value(Kind.STRING | Kind.UNKNOWN), walk.element_of(receiver)), inputs=receiver.inputs)
            return Value(Kind.LIST, element=pair, inputs=receiver.inputs)
        if name == "copy":
            walk.touch(receiver, used=True)
            return Value(kinds & ~Kind.MODULE, element=receiver.elements(), items=receiver.items, inputs=receiver.inputs)
    return None


def _computed(walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords) -> Value:
    """What a method returns that measures a tensor, is a view of it or is computed from it."""
    kinds = receiver.kinds
    inputs = any_inputs(args, kwargs)
    if name in METADATA_METHODS:
        walk.touch(receiver, used=False)
        sized = name in SIZE_METHODS
        kind = Kind.NUMBER if args or name not in ("size", "stride") else Kind.TUPLE
        size = Kind.SIZE if name in ("size", "numel", "nelement") and receiver.inputs else 0
        element = Value(Kind.NUMBER | size, inputs=receiver.inputs) if kind == Kind.TUPLE else None
        return Value(kind | size, element=element, about=receiver.paths, inputs=sized and receiver.inputs)
    if name == "keys" or name == "__len__":
        return Value(Kind.TUPLE, about=receiver.paths, inputs=receiver.inputs)
    if kinds & Kind.ARRAY and not kinds & Kind.ANY_TENSOR:
        walk.touch_whole(receiver)
        hand_over(walk, args, kwargs)
        return Value(kinds & (Kind.UNKNOWN | Kind.ARRAY | Kind.READ), inputs=receiver.inputs or inputs)
    if name in VIEW_METHODS and may_be_tensor(receiver):
        if name in CASTS or (name == "type" and not args):
            walk.touch(receiver, used=True)
            return Value(_cast(receiver, name, args, kwargs), inputs=receiver.inputs)
        if name == "numpy":
            return Value(kinds | Kind.ARRAY | Kind.READ, receiver.paths, inputs=receiver.inputs)
        return view(name, receiver, receiver.inputs)
    walk.touch_whole(receiver)
    hand_over(walk, args, kwargs)
    if name in ("item", "tolist"):
        read = Kind.NUMBER | (Kind.READ if is_tensor_if_used_as_one(receiver) or kinds == Kind.UNKNOWN else 0)
        if name == "item":
            return Value(read, inputs=receiver.inputs)
        # A list of numbers, or of such lists.
        number = Value(read, element=Value(read, inputs=receiver.inputs), inputs=receiver.inputs)
        return Value(read, element=number, inputs=receiver.inputs)
    if kinds & Kind.STRING and not kinds & Kind.UNKNOWN:
        return Value(Kind.STRING, inputs=receiver.inputs or inputs)
    if kinds & Kind.ANY_TENSOR or (name in TENSOR_METHODS and kinds & Kind.UNKNOWN):
        if name.startswith(("is_", "has_", "get_")):
            return Value(Kind.UNKNOWN, inputs=receiver.inputs or inputs)
        known = name in TENSOR_METHODS or not kinds & Kind.UNKNOWN
        marks = Kind.MASK if name in MASKING else 0
        if not any(value.kinds & Kind.ANY_TENSOR for value in (*args, *kwargs.values())):
            marks |= kinds & (Kind.ON_CPU | Kind.ARRAY | Kind.READ)
        element = Value(Kind.TENSOR | marks | (0 if known else Kind.UNKNOWN), inputs=receiver.inputs or inputs)
        if name in TUPLES_OF_TENSORS and (args or kwargs or name in ("svd", "sort")):
            return Value(Kind.TENSOR | Kind.TUPLE, element=element, inputs=element.inputs)
        return element
    return Value(Kind.UNKNOWN, inputs=receiver.inputs or inputs)


def _cast(receiver: Value, name: str, args: Arguments, kwargs: Keywords) -> int:
    """The kinds of a tensor that was moved or cast."""
    kinds = Kind.TENSOR | (receiver.kinds & (Kind.UNKNOWN | Kind.READ))
    to_truth = any(is_truth_type(value) for value in (*args, *kwargs.values()))
    if name == "bool" or to_truth:
        kinds |= Kind.MASK
    elif name in ("contiguous", "cpu", "cuda") or name == "to":
        kinds |= receiver.kinds & Kind.MASK
    if name == "cpu" or any(is_cpu(value) for value in (*args, *kwargs.values())):
        return kinds | Kind.READ | Kind.ON_CPU
    moves = name in ("cuda", "to", "type_as") and (args or kwargs or name == "cuda")
    return kinds if moves else kinds | (receiver.kinds & Kind.ON_CPU)


def named_store(walk: Expressions, name: str, args: Arguments, node: ast.AST) -> Value:
    """`setattr(x, "name", value)` and its kin, where the receiver is the first argument."""
    base = args[0]
    called = args[1].key_name if len(args) > 1 else "*"
    if name.endswith(("delattr", "__delattr__")):
        for path in base.paths:
            walk.record(Operation.DELETE, path.step(called), node, node, owner=base.kinds, verb="delattr")
        return NONE
    value = args[2] if len(args) > 2 else UNKNOWN
    plain = base
    within = walk.now.function.name
    if called == "*" and (within == "__setattr__" or (within == "__setitem__" and base.kinds & Kind.CONTAINER)):
        # What passes a store on: it was told where it stands, under its name.
        return NONE
    if name == "__setattr__":
        # Below the attribute protocol: no setter and no `__setattr__` of the class runs.
        plain = Value(base.kinds, base.paths, (), base.objects)
    walk.store_attribute(plain, called, value, node, node)
    return NONE


def _register(walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    named = args[0] if args else kwargs.get("name", UNKNOWN)
    value = args[1] if len(args) > 1 else kwargs.get("tensor", kwargs.get("param", kwargs.get("module", NONE)))
    kept = Value(
        REGISTRATIONS[name] | (value.kinds & Kind.NONE),
        classes=value.classes,
        objects=(),
        inputs=value.inputs,
        element=value.element,
    )
    for path in receiver.paths:
        walk.record(Operation.REGISTER, path.step(named.key_name), node, node, value=kept, owner=receiver.kinds, verb=name)
    return NONE


def _register_hook(walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    hook = args[0] if args else kwargs.get("hook", UNKNOWN)
    forward = name in HOOKS_BEFORE or name in HOOKS_AFTER
    if walk.found_hooks is not None:
        if forward and receiver.paths:
            walk.found_hooks.append((name in HOOKS_BEFORE and not receiver.paths[0].steps, hook, receiver))
        return UNKNOWN
    if receiver.paths and not receiver.kinds & Kind.ANY_TENSOR:
        walk.hinder(Hindrance.OPAQUE_CALL, node, name, node.func if isinstance(node, ast.Call) else None)
    for path in receiver.paths:
        if walk.declared is None:
            walk.record(
                Operation.REGISTER,
                path,
                node,
                node,
                value=Value(Kind.FUNCTION),
                declared=receiver.kinds,
                owner=receiver.kinds,
                verb=name,
            )
    if walk.recorder is not None and forward:
        arguments = [receiver, Value(Kind.TUPLE, element=INPUT, inputs=True)]
        walk.call(hook, arguments if name in HOOKS_BEFORE else [*arguments, INPUT], {}, node)
    return UNKNOWN


def _module_method(
    walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST
) -> Value | None:
    """A method of `torch.nn.Module` or one of its containers."""
    if name in MODULE_MODES:
        for path in receiver.paths:
            walk.record(Operation.MODE, path, node, node, declared=receiver.kinds, owner=receiver.kinds, verb=name)
        return receiver
    if name in MODULE_MOVERS and not receiver.kinds & Kind.ANY_TENSOR:
        for path in receiver.paths:
            walk.record(
                Operation.SWAP,
                path,
                node,
                node,
                declared=receiver.kinds,
                owner=receiver.kinds,
                verb=name,
                inputs=any_inputs(args, kwargs),
            )
        return receiver
    if name in ("load_state_dict", "zero_grad"):
        for path in receiver.paths:
            walk.record(
                Operation.IN_PLACE, path, node, node, declared=Kind.PARAMETER | Kind.BUFFER, owner=receiver.kinds, verb=name
            )
        return NONE
    if name == "apply" and args:
        walk.call(args[0], [walk.element_of(receiver)], {}, node)
        return receiver
    if name == "get_submodule" and args and isinstance(args[0].constant, str):
        value = receiver
        for part in args[0].constant.split("."):
            value = walk.attribute(value, part, None)
        return value
    return None


def _mutator(
    walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST, used: bool
) -> Value | None:
    kinds = receiver.kinds
    given = [*args, *kwargs.values()]
    contained = bool(kinds & Kind.CONTAINER)
    inputs = any_inputs(args, kwargs)
    if not contained:
        if kinds & Kind.ANY_TENSOR and not kinds & (Kind.UNKNOWN | Kind.MODULE | Kind.NONE):
            return None
        if kinds & (Kind.STRING | Kind.TUPLE) and not kinds & (Kind.UNKNOWN | Kind.NONE):
            return None
        if name in AMBIGUOUS_MUTATORS and used and not kinds & Kind.MODULE:
            return None
        if all(path.root is Root.ARGUMENT for path in receiver.paths):
            return _protocol(walk, receiver, name, args, kwargs, node) if receiver.paths else None
    if len(receiver.paths) > FEW:
        return None
    value = join_all(given) if given else NOTHING
    if name == "setdefault" and len(args) > 1:
        value = args[1]
    for path in receiver.paths:
        last = path.steps[-1] if path.steps else ""
        if last in INSTANCE_DICTS:
            if name in ("pop", "popitem", "clear", "__delitem__"):
                inner = path.parent().step(args[0].key_name if args else "*")
                walk.record(Operation.DELETE, inner, node, node, value=value, verb=name, inputs=inputs)
                continue
            for key, each in kwargs.items() or [("*", value)]:
                walk.record(Operation.REBIND, path.parent().step(key), node, node, value=each, verb=name, inputs=inputs)
            continue
        if path.root is Root.ARGUMENT and not path.steps:
            continue
        walk.record(
            Operation.MUTATE,
            path.step(ITEM),
            node,
            node,
            value=value,
            declared=kinds,
            verb=name,
            inputs=inputs,
        )
    if not receiver.paths and contained and given:
        # What a local container holds is what was put in.
        added = value.elements() if name in ("extend", "update", "__ior__", "__iadd__") else value
        if added is not None:
            receiver.element = added if receiver.element is None else join(receiver.element, added)
    if name in READING_MUTATORS or name == "setdefault":
        element = walk.element_of(receiver)
        if used and name in READING_MUTATORS:
            walk.touch(receiver, used=True)
        return join(element, value) if name == "setdefault" and value is not NOTHING else element
    for item in given:
        walk.touch(item, used=True)
    return NONE


def _protocol(walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value | None:
    """A method of an argument whose type nobody says: the classes of the file that has such a method stand for it."""
    results = []
    file = walk.now.function.file
    for info in walk.world.project.classes(file):
        found = info.method(name)
        if found is None or info.is_module or info.is_tensor_function:
            continue
        function = walk.world.method_function(found)
        if function is None or not _accepts(function, len(args), kwargs):
            continue
        typed = Value(Kind.OBJECT, receiver.paths, (info,), inputs=receiver.inputs)
        for path in receiver.paths:
            walk.roots.setdefault(path[:3], typed)
            if not path.steps:
                walk.roots[path[:3]] = join(walk.roots[path[:3]], typed)
        results.append(walk.invoke(function.bind(typed), args, kwargs, node))
    return join_all(results) if results else None


def _accepts(function: Function, given: int, kwargs: Keywords) -> bool:
    arguments = function.node.args
    most = len(arguments.posonlyargs) + len(arguments.args) - 1
    least = most - len(arguments.defaults) - len(kwargs)
    return (given <= most or arguments.vararg is not None) and given >= least


def view(name: str, tensor: Value, inputs: bool) -> Value:
    """What a function or method that views a tensor returns: one view, or several."""
    kinds = Kind.TENSOR | (tensor.kinds & (Kind.MASK | Kind.ON_CPU | Kind.READ | Kind.ARRAY))
    if name in AMBIGUOUS_VIEWS and not tensor.kinds & Kind.ANY_TENSOR:
        kinds |= Kind.UNKNOWN
    part = Value(kinds, tensor.paths, inputs=inputs)
    return Value(Kind.TUPLE, element=part, inputs=inputs) if name in _SEVERAL_VIEWS else part


def write_memory(walk: Expressions, tensor: Value, node: ast.AST, verb: str, inputs: bool = False) -> None:
    """Tell the recorder that the memory of a tensor is written."""
    for path in tensor.paths:
        walk.record(
            Operation.IN_PLACE, path, node, node, value=Value(Kind.TENSOR), declared=tensor.kinds, verb=verb, inputs=inputs
        )


def write_out(walk: Expressions, value: Value, node: ast.AST, verb: str) -> None:
    """Tell the recorder of what an `out=` names: one tensor, or several."""
    for target in value.items or (value,):
        write_memory(walk, target, node, f"{verb}(out=)")


def hand_over(walk: Expressions, args: Arguments, kwargs: Keywords) -> None:
    """Code that is not walked was handed these: functions among them may be called, state among them is used."""
    for value in (*args, *kwargs.values()):
        for item in value.objects:
            if isinstance(item, (Function, Partial)):
                walk.call(Value(Kind.FUNCTION, objects=(item,)), [Value(SPREAD, element=INPUT)], {}, None)
    walk.pass_out(args, kwargs)

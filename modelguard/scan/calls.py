"""What a call does: to the state it is handed, and what comes back. Project functions are walked; the rest is known by name or not at all."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from modelguard.observation import Kind, Operation, Root
from modelguard.scan.attributes import instance_of
from modelguard.scan.conditions import predicate
from modelguard.scan.project import ClassInfo
from modelguard.scan.tables import (
    AMBIGUOUS_MUTATORS,
    CASTS,
    CONTAINER_MUTATORS,
    ELEMENT_METHODS,
    HOOK_REGISTRATIONS,
    HOOKS_AFTER,
    HOOKS_BEFORE,
    ITEM_METHODS,
    METADATA_IN_PLACE,
    METADATA_METHODS,
    MODULE_MODES,
    MODULE_MOVERS,
    MODULE_WALKS,
    MUTATING_FUNCTIONS,
    NOT_IN_PLACE,
    READING_MUTATORS,
    REGISTRATIONS,
    RUNNING_STATISTICS,
    SIZE_METHODS,
    SWAPPING_METHODS,
    TENSOR_METHODS,
    TENSOR_PACKAGES,
    TENSORLESS_TORCH,
    TUPLES_OF_TENSORS,
    VIEW_FUNCTIONS,
    VIEW_METHODS,
)
from modelguard.scan.values import (
    INPUT,
    ITEM,
    NO_FACTS,
    NONE,
    NOTHING,
    PROPERTY,
    SPREAD,
    UNKNOWN,
    BoundMethod,
    Check,
    ClassObject,
    External,
    Facts,
    Function,
    Instance,
    ModuleObject,
    Object,
    Partial,
    Path,
    Super,
    Test,
    Value,
    join,
    join_all,
)

if TYPE_CHECKING:
    from modelguard.scan.expressions import Expressions

DROPPED, RECEIVER, ALIAS, USED = range(4)
"""What becomes of a value: nothing; something is done to it; it gets another name; it is used."""

Arguments = Sequence[Value]
Keywords = dict[str, Value]

FEW = 3
"""States a value may be a part of at most if what is done to it is to be seen, where its type is not known."""

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
_COPIES = frozenset(("copy.copy", "copy.deepcopy", "dataclasses.replace", "copy.replace"))
_DECORATES = frozenset(("functools.wraps", "functools.update_wrapper"))
_SETTERS = frozenset(
    ("builtins.setattr", "builtins.object.__setattr__", "builtins.super.__setattr__", "torch.nn.Module.__setattr__")
)
_DELETERS = frozenset(("builtins.delattr", "builtins.object.__delattr__", "torch.nn.Module.__delattr__"))


def evaluate(walk: Expressions, node: ast.Call, mode: int) -> Value:
    """A call expression; `mode` as for any expression."""
    func = node.func
    kept = mode > DROPPED
    if isinstance(func, ast.Name) and func.id == "super" and walk.now.environment.holder("super") is None:
        return _super(walk, node)
    if isinstance(func, ast.Attribute):
        receiver = walk.receiver(func.value)
        args, kwargs = _arguments(walk, node)
        result = method(walk, receiver, func.attr, args, kwargs, node, kept)
    else:
        function = walk.receiver(func)
        args, kwargs = _arguments(walk, node, func)
        result = call(walk, function, args, kwargs, node)
    if mode >= ALIAS and result.paths:
        walk.touch(result, mode == USED)
    return result


def _arguments(walk: Expressions, node: ast.Call, func: ast.expr | None = None) -> tuple[list[Value], Keywords]:
    args: list[Value] = []
    feeding = walk.feeding
    if isinstance(func, ast.Name) and func.id == "setattr" and len(node.args) == 3 and isinstance(node.args[1], ast.Constant):
        # `setattr(self, "n", self.n + 1)` feeds what it sets, as an assignment does.
        walk.feeding = tuple(path.step(str(node.args[1].value)) for path in walk.receiver(node.args[0]).paths)
    for item in node.args:
        if isinstance(item, ast.Starred):
            spread = walk.expression(item.value)
            if spread.items is not None:
                args.extend(spread.items)
            else:
                element = walk.element_of(spread)
                args.append(Value(SPREAD, paths=element.paths, element=element, inputs=spread.inputs))
        else:
            args.append(walk.alias(item))
    kwargs: Keywords = {}
    for keyword in node.keywords:
        value = walk.alias(keyword.value)
        kwargs[keyword.arg if keyword.arg is not None else "**"] = value
    walk.feeding = feeding
    return args, kwargs


def _super(walk: Expressions, node: ast.Call) -> Value:
    for active in reversed(walk.stack):
        owner = active.function.owner
        if owner is not None and active.owner_value is not None and not isinstance(active.function.node, ast.Lambda):
            itself = active.owner_value
            return Value(itself.kinds, itself.paths, (), (Super(owner, itself),))
    return UNKNOWN


def bound(item: Object, base: Value) -> Object:
    """A method taken off `base`."""
    if isinstance(item, Function):
        return item.bind(base)
    if isinstance(item, Instance):
        return Partial(Value(Kind.OBJECT, classes=(item.info,) if item.info else (), objects=(item,)), (base,), ())
    if isinstance(item, Partial):
        return Partial(item.function, (*item.args, base), item.kwargs)
    return item


def call(walk: Expressions, function: Value, args: Arguments, kwargs: Keywords, node: ast.AST | None) -> Value:
    """Call whatever `function` may be."""
    results = []
    if sum(isinstance(item, Function) for item in function.objects) > 1:
        return _call_one_of(walk, function, args, kwargs, node)
    for item in function.objects:
        result = _call_object(walk, item, args, kwargs, node)
        if result is not None:
            results.append(result)
    if results:
        return join_all(results)
    made = walk.special(function, "__call__", args, node if node is not None else ast.Pass())
    if made is not None:
        return made
    for path in function.paths:
        # A method that was given another name: `append = self.history.append`.
        if path.steps and path.steps[-1] in CONTAINER_MUTATORS | HOOK_REGISTRATIONS and node is not None:
            holder = walk.value_of(path.parent()).with_paths((path.parent(),))
            if holder.objects:
                break
            return method(walk, holder, path.steps[-1], args, kwargs, node, True)
    if function.kinds & Kind.MODULE or function.paths:
        if walk.pending_hooks:
            walk.run_hooks(function.paths)
        walk.touch_called(function)
        _hooked(walk, args, kwargs)
        return Value(Kind.TENSOR | Kind.UNKNOWN, inputs=_inputs(args, kwargs))
    _hooked(walk, args, kwargs)
    return Value(Kind.UNKNOWN, inputs=function.inputs or _inputs(args, kwargs))


def _call_one_of(walk: Expressions, function: Value, args: Arguments, kwargs: Keywords, node: ast.AST | None) -> Value:
    """A call of a function out of a table: which one is not known, so only what certainly fits it is seen."""
    ambiguous, walk.ambiguous = walk.ambiguous, True
    try:
        return join_all(
            result for item in function.objects if (result := _call_object(walk, item, args, kwargs, node)) is not None
        )
    finally:
        walk.ambiguous = ambiguous


def _call_object(walk: Expressions, item: Object, args: Arguments, kwargs: Keywords, node: ast.AST | None) -> Value | None:
    if isinstance(item, Function):
        tested = _predicate(item.name)
        if tested is not None:
            return tested
        result = walk.invoke(item, args, kwargs, node)
        if item.memoised and node is not None and result.content_kinds & Kind.ANY_TENSOR:
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else item.name
            path = Path(Root.GLOBAL, called, f"{item.file.path}:{item.node.lineno + item.offset}", ())
            kinds = result.content_kinds
            walk.record(
                Operation.MEMOISE,
                path,
                node,
                node,
                value=result,
                declared=kinds,
                owner=Kind.NOTHING,
                verb=item.name,
                inputs=_inputs(args, kwargs),
            )
        return result
    if isinstance(item, ClassObject):
        return construct(walk, item, args, kwargs, node)
    if isinstance(item, External):
        return external(walk, item.dotted, args, kwargs, node)
    if isinstance(item, Partial):
        merged = {**dict(item.kwargs), **kwargs}
        return call(walk, item.function, [*item.args, *args], merged, node)
    if isinstance(item, Instance):
        base = Value(Kind.OBJECT, classes=(item.info,) if item.info else (), objects=(item,))
        if item.persistent and walk.recorder is not None:
            # It was made when a class or function was defined: what is written on it outlives the step.
            base = walk.root_value(Path(Root.SELF, "self", f"object {id(item)}", ()), base)
        return walk.special(base, "__call__", args, node if node is not None else ast.Pass())
    if isinstance(item, BoundMethod) and node is not None:
        return method(walk, item.receiver, item.name, args, kwargs, node, True)
    return None


def construct(walk: Expressions, item: ClassObject, args: Arguments, kwargs: Keywords, node: ast.AST | None) -> Value:
    """An instance of a class, new in the region."""
    info = item.info
    made = instance_of(info)
    if not isinstance(info, ClassInfo) or info.is_module:
        walk.pass_out(args, kwargs)
        element = join_all(args) if args else None
        return Value(
            made.kinds,
            classes=(info,),
            element=element.with_paths(()) if element is not None else None,
            inputs=_inputs(args, kwargs),
        )
    instance = Instance(info, walk.recorder is None and walk.declared is None)
    inputs = _inputs(args, kwargs)
    value = Value(made.kinds, classes=(info,), objects=(instance,), inputs=inputs)
    init = info.method("__init__")
    if init is not None:
        function = walk.world.method_function(init)
        if function is not None:
            walk.invoke(function.bind(value), args, kwargs, node)
    else:
        for name, given in zip(info.facts.attributes, args):
            instance.fields[name] = given
        instance.fields.update((name, given) for name, given in kwargs.items() if name != "**")
        after = info.method("__post_init__")
        function = walk.world.method_function(after) if after is not None else None
        if function is not None:
            walk.invoke(function.bind(value), [], {}, node)
    return value


def method(walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST, used: bool) -> Value:
    """Call method `name` of `receiver`; `used` is False where the result is thrown away."""
    if len(receiver.objects) == 1 and not receiver.classes and isinstance(receiver.objects[0], External):
        return external(walk, f"{receiver.objects[0].dotted}.{name}", args, kwargs, node, receiver)
    results: list[Value] = []
    exact = [item for item in receiver.objects if not isinstance(item, (Function, BoundMethod))]
    for item in exact:
        if isinstance(item, Super):
            result = _super_method(walk, item, name, args, kwargs, node, used)
            if result is not None:
                results.append(result)
        elif isinstance(item, External):
            results.append(external(walk, f"{item.dotted}.{name}", args, kwargs, node, receiver))
        elif isinstance(item, (ClassObject, ModuleObject, Instance)):
            taken = walk.attribute(Value(receiver.kinds, objects=(item,)), name, node)
            if taken.objects or (taken.paths and not isinstance(item, Instance)):
                results.append(call(walk, taken, args, kwargs, node))
            elif isinstance(item, ClassObject) and name in ("__setattr__", "__delattr__") and args:
                results.append(_named_store(walk, name, args, node))
    instances = any(isinstance(item, Instance) for item in exact)
    for info in receiver.classes:
        found = info.method(name)
        if found is None or instances:
            continue
        if info.is_module and name in walk.world.entry_points and not _own(walk, receiver):
            walk.touch_called(receiver)
            walk.pass_out(args, kwargs)
            results.append(Value(Kind.TENSOR | Kind.UNKNOWN, inputs=_inputs(args, kwargs)))
            continue
        taken = walk.attribute(
            Value(receiver.kinds, receiver.paths, (info,), (), receiver.element, inputs=receiver.inputs), name, node
        )
        results.append(call(walk, taken, args, kwargs, node))
    if results and not all(result is UNKNOWN for result in results):
        return join_all(results)
    if not results or receiver.paths:
        attribute = walk.attribute(receiver, name, node) if receiver.classes or receiver.objects else NOTHING
        if attribute.objects and not any(isinstance(item, External) for item in attribute.objects):
            return call(walk, attribute, args, kwargs, node)
        if attribute.kinds & Kind.MODULE or attribute.classes:
            return call(walk, attribute, args, kwargs, node)
    return _builtin_method(walk, receiver, name, args, kwargs, node, used)


def _own(walk: Expressions, receiver: Value) -> bool:
    return any(active.owner_value is not None and active.owner_value.paths == receiver.paths for active in walk.stack)


def _super_method(
    walk: Expressions, item: Super, name: str, args: Arguments, kwargs: Keywords, node: ast.AST, used: bool
) -> Value | None:
    if walk.declared is not None and name == "__init__":
        # What bases bind is looked up in the bases.
        return NONE
    for info in item.value.classes:
        if isinstance(info, ClassInfo):
            found = info.method_after(item.after, name)
            if found is not None:
                function = walk.world.method_function(found)
                if function is not None:
                    decorated = walk.world.decorated(function)
                    objects = tuple(bound(inner, item.value) for inner in decorated.objects)
                    return call(walk, Value(Kind.FUNCTION, objects=objects), args, kwargs, node)
    if name in walk.world.entry_points:
        return Value(Kind.TENSOR | Kind.UNKNOWN, inputs=True)
    plain = Value(item.value.kinds, item.value.paths)
    return _builtin_method(walk, plain, name, args, kwargs, node, used)


def _builtin_method(
    walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST, used: bool
) -> Value:
    """A method that no source in the project defines: by its name, and what its receiver may be."""
    kinds = receiver.kinds
    inputs = _inputs(args, kwargs)
    is_module = bool(kinds & Kind.MODULE)
    if "out" in kwargs:
        _write_out(walk, kwargs["out"], node, name)
    if name == "__setattr__" and args:
        return _named_store(walk, name, [receiver, *args], node)
    if name == "__delattr__" and args:
        return _named_store(walk, name, [receiver, *args], node)
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
    if name.endswith("_") and not name.startswith("_") and not name.endswith("__") and not kinds & (Kind.CONTAINER | Kind.MODULE):
        if name in SWAPPING_METHODS:
            for path in receiver.paths:
                walk.record(Operation.SWAP, path, node, node, declared=kinds, verb=name, inputs=inputs)
            return receiver
        if (name not in NOT_IN_PLACE or name in METADATA_IN_PLACE) and _may_be_tensor(receiver):
            for path in receiver.paths:
                value = Value(Kind.TENSOR)
                walk.record(Operation.IN_PLACE, path, node, node, value=value, declared=kinds, verb=name, inputs=inputs)
            walk.pass_out(args, kwargs)
            return receiver
    if name == "requires_grad_" and _may_be_tensor(receiver):
        for path in receiver.paths:
            if path.root is not Root.ARGUMENT:
                walk.record(Operation.MODE, path, node, node, declared=kinds, verb=name)
        return receiver
    if name == "step" and not is_module:
        for path in receiver.paths:
            if path.steps and "optim" in path.steps[-1]:
                walk.record(Operation.IN_PLACE, path, node, node, declared=Kind.PARAMETER, verb=name)
    walk.pass_out(args, kwargs)
    if name in MODULE_WALKS and (is_module or kinds & Kind.UNKNOWN):
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
                element = join(element.with_inputs(element.inputs or inputs), args[1] if len(args) > 1 else NONE)
                return element
            if name == "values":
                return Value(Kind.LIST, element=element, inputs=receiver.inputs)
        if name in ITEM_METHODS:
            pair = Value(Kind.TUPLE, items=(Value(Kind.STRING | Kind.UNKNOWN), walk.element_of(receiver)), inputs=receiver.inputs)
            return Value(Kind.LIST, element=pair, inputs=receiver.inputs)
        if name == "copy":
            walk.touch(receiver, used=True)
            return Value(kinds & ~Kind.MODULE, element=receiver.elements(), items=receiver.items, inputs=receiver.inputs)
    if name in METADATA_METHODS:
        walk.touch(receiver, used=False)
        sized = name in SIZE_METHODS
        return Value(
            Kind.NUMBER if args or name not in ("size", "stride") else Kind.TUPLE,
            about=receiver.paths,
            inputs=sized and receiver.inputs,
        )
    if name == "keys" or name == "__len__":
        return Value(Kind.TUPLE, about=receiver.paths, inputs=receiver.inputs)
    if name in VIEW_METHODS and _may_be_tensor(receiver):
        if name in CASTS or (name == "type" and not args):
            walk.touch(receiver, used=True)
            return Value(Kind.TENSOR | (kinds & Kind.UNKNOWN), inputs=receiver.inputs)
        several = name in ("unbind", "chunk", "split", "tensor_split")
        part = Value(Kind.TENSOR, receiver.paths, inputs=receiver.inputs)
        return Value(Kind.TUPLE, element=part, inputs=receiver.inputs) if several else part
    walk.touch_whole(receiver)
    _hooked(walk, args, kwargs)
    if name in ("item", "tolist"):
        return Value(Kind.NUMBER, inputs=receiver.inputs)
    if kinds & Kind.STRING and not kinds & Kind.UNKNOWN:
        return Value(Kind.STRING, inputs=receiver.inputs or inputs)
    if kinds & Kind.ANY_TENSOR or (name in TENSOR_METHODS and kinds & Kind.UNKNOWN):
        element = Value(Kind.TENSOR, inputs=receiver.inputs or inputs)
        if name in TUPLES_OF_TENSORS and (args or name in ("svd", "sort")):
            return Value(Kind.TENSOR | Kind.TUPLE, element=element, inputs=element.inputs)
        return element
    return Value(Kind.UNKNOWN, inputs=receiver.inputs or inputs)


def _may_be_tensor(value: Value) -> bool:
    if value.kinds & Kind.ANY_TENSOR:
        return True
    return bool(value.kinds & Kind.UNKNOWN) and not value.kinds & (Kind.MODULE | Kind.CONTAINER | Kind.CONFIG)


def _named_store(walk: Expressions, name: str, args: Arguments, node: ast.AST) -> Value:
    """`setattr(x, "name", value)` and its kin, where the receiver is the first argument."""
    base = args[0]
    attribute = args[1].constant if len(args) > 1 else None
    called = attribute if isinstance(attribute, str) else "*"
    if name.endswith(("delattr", "__delattr__")):
        for path in base.paths:
            walk.record(Operation.DELETE, path.step(called), node, node, owner=base.kinds, verb="delattr")
        return NONE
    value = args[2] if len(args) > 2 else UNKNOWN
    plain = base
    if name == "__setattr__":
        # Below the attribute protocol: no setter and no `__setattr__` of the class runs.
        plain = Value(base.kinds, base.paths, (), base.objects)
    walk.store_attribute(plain, called, value, node, node)
    return NONE


def _register(walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    named = args[0] if args else kwargs.get("name", UNKNOWN)
    value = args[1] if len(args) > 1 else kwargs.get("tensor", kwargs.get("param", kwargs.get("module", NONE)))
    called = named.constant if isinstance(named.constant, str) else "*"
    kept = Value(
        REGISTRATIONS[name] | (value.kinds & Kind.NONE),
        classes=value.classes,
        objects=(),
        inputs=value.inputs,
        element=value.element,
    )
    for path in receiver.paths:
        walk.record(Operation.REGISTER, path.step(called), node, node, value=kept, owner=receiver.kinds, verb=name)
    return NONE


def _register_hook(walk: Expressions, receiver: Value, name: str, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    hook = args[0] if args else kwargs.get("hook", UNKNOWN)
    forward = name in HOOKS_BEFORE or name in HOOKS_AFTER
    if walk.found_hooks is not None:
        if forward and receiver.paths:
            walk.found_hooks.append((name in HOOKS_BEFORE and not receiver.paths[0].steps, hook, receiver))
        return UNKNOWN
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
        call(walk, hook, arguments if name in HOOKS_BEFORE else [*arguments, INPUT], {}, node)
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
                inputs=_inputs(args, kwargs),
            )
        return receiver
    if name in ("load_state_dict", "zero_grad"):
        for path in receiver.paths:
            walk.record(
                Operation.IN_PLACE, path, node, node, declared=Kind.PARAMETER | Kind.BUFFER, owner=receiver.kinds, verb=name
            )
        return NONE
    if name == "apply" and args:
        call(walk, args[0], [walk.element_of(receiver)], {}, node)
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
    inputs = _inputs(args, kwargs)
    if not contained:
        if kinds & Kind.ANY_TENSOR and not kinds & (Kind.UNKNOWN | Kind.MODULE | Kind.NONE):
            return None
        if kinds & (Kind.STRING | Kind.TUPLE) and not kinds & (Kind.UNKNOWN | Kind.NONE):
            return None
        if name in AMBIGUOUS_MUTATORS and used and not kinds & Kind.MODULE:
            return None
        if all(path.root is Root.ARGUMENT for path in receiver.paths):
            found = _protocol(walk, receiver, name, args, kwargs, node) if receiver.paths else None
            return found
    if not contained and len(receiver.paths) > FEW:
        return None
    value = join_all(given) if given else NOTHING
    if name == "setdefault" and len(args) > 1:
        value = args[1]
    for path in receiver.paths:
        last = path.steps[-1] if path.steps else ""
        if last == "__dict__" or last in ("_buffers", "_parameters", "_modules"):
            named = args[0].constant if args else None
            if name in ("pop", "popitem", "clear", "__delitem__"):
                inner = path.parent().step(str(named) if isinstance(named, str) else "*")
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
            owner=_owner(walk, path),
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


def _owner(walk: Expressions, path: Path) -> int:
    holder = path.holder()
    return walk.kinds_of(holder.parent()) if holder.steps else Kind.NOTHING


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
    positional = [*arguments.posonlyargs, *arguments.args]
    most = len(positional) - 1
    least = most - len(arguments.defaults) - len(kwargs)
    return (given <= most or arguments.vararg is not None) and given >= least


def _write_out(walk: Expressions, value: Value, node: ast.AST, verb: str) -> None:
    for target in value.items or (value,):
        for path in target.paths:
            walk.record(
                Operation.IN_PLACE, path, node, node, value=Value(Kind.TENSOR), declared=target.kinds, verb=f"{verb}(out=)"
            )


def _hooked(walk: Expressions, args: Arguments, kwargs: Keywords) -> None:
    """Code that is not walked was handed these: functions among them may be called, state among them is used."""
    for value in (*args, *kwargs.values()):
        for item in value.objects:
            if isinstance(item, (Function, Partial)):
                call(walk, Value(Kind.FUNCTION, objects=(item,)), [Value(SPREAD, element=INPUT)], {}, None)
    walk.pass_out(args, kwargs)


def _inputs(args: Arguments, kwargs: Keywords) -> bool:
    return any(value.inputs for value in args) or any(value.inputs for value in kwargs.values())


@lru_cache(maxsize=4096)
def _predicate(name: str) -> Value | None:
    test = predicate(name)
    return Value(Kind.BOOL, test=test) if test is not None else None


# Functions outside the project


def external(
    walk: Expressions, dotted: str, args: Arguments, kwargs: Keywords, node: ast.AST | None, receiver: Value | None = None
) -> Value:
    """A call of something outside the project, by its dotted name."""
    handler = _FUNCTIONS.get(dotted)
    where: ast.AST = node if node is not None else ast.Pass()
    if handler is not None:
        return handler(walk, args, kwargs, where)
    tested = _predicate(dotted)
    if tested is not None:
        return tested
    package = dotted.partition(".")[0]
    last = dotted.rpartition(".")[2]
    if dotted in _SETTERS and args:
        return _named_store(walk, "setattr" if dotted == "builtins.setattr" else "__setattr__", args, where)
    if dotted in _DELETERS and args:
        return _named_store(walk, "delattr", args, where)
    if dotted in _CONTAINERS:
        return _container(walk, _CONTAINERS[dotted], args, kwargs)
    if dotted in _COPIES:
        walk.pass_out(args, kwargs)
        return Value(args[0].kinds, (), args[0].classes, (), args[0].elements(), inputs=args[0].inputs) if args else UNKNOWN
    if dotted in MUTATING_FUNCTIONS and len(args) > MUTATING_FUNCTIONS[dotted]:
        target = args[MUTATING_FUNCTIONS[dotted]]
        for path in target.paths:
            walk.record(
                Operation.MUTATE, path.step(ITEM), where, where, declared=target.kinds, verb=last, inputs=_inputs(args, kwargs)
            )
        return walk.element_of(target) if last.startswith("heappop") else NONE
    if package == "math":
        walk.pass_out(args, kwargs)
        return Value(Kind.NUMBER, inputs=_inputs(args, kwargs))
    if package == "builtins":
        return _builtin(walk, last, dotted, args, kwargs, where, receiver)
    if package in TENSOR_PACKAGES:
        return _torch(walk, dotted, last, args, kwargs, where)
    if package in sys.stdlib_module_names:
        walk.pass_out(args, kwargs)
        return Value(Kind.UNKNOWN, inputs=_inputs(args, kwargs) or (receiver is not None and receiver.inputs))
    return _unknown(walk, args, kwargs, receiver)


def _unknown(walk: Expressions, args: Arguments, kwargs: Keywords, receiver: Value | None) -> Value:
    _hooked(walk, args, kwargs)
    inputs = _inputs(args, kwargs) or (receiver is not None and receiver.inputs)
    return Value(Kind.UNKNOWN, inputs=inputs)


def _builtin(
    walk: Expressions, name: str, dotted: str, args: Arguments, kwargs: Keywords, node: ast.AST, receiver: Value | None
) -> Value:
    if dotted.count(".") == 2 and args:
        # `dict.update(self.d, ...)`, `list.append(self.l, x)`: the method by its class.
        owner = dotted.split(".")[1]
        if owner in ("dict", "list", "set"):
            return _builtin_method(walk, args[0], name, args[1:], kwargs, node, False)
    inputs = _inputs(args, kwargs)
    if name == "len" and args:
        walk.touch(args[0], used=True)
    if name in _NUMBERS:
        if name != "len":
            walk.pass_out(args, {})
        tensor = name in ("abs", "sum", "round", "pow") and any(value.content_kinds & Kind.ANY_TENSOR for value in args)
        about = tuple(path for value in args for path in value.paths) if name == "len" else ()
        unknown = Kind.UNKNOWN if name in ("sum", "abs", "pow") and not tensor else 0
        return Value(Kind.TENSOR if tensor else Kind.NUMBER | unknown, about=about, inputs=inputs)
    if name in ("min", "max") and args:
        walk.pass_out(args, kwargs)
        joined = join_all(args)
        return Value(joined.kinds & ~Kind.CONTAINER or Kind.UNKNOWN, inputs=inputs)
    if name in ("bool", "isinstance", "issubclass", "callable", "any", "all"):
        walk.pass_out(args, kwargs)
        return Value(Kind.BOOL, inputs=inputs and name != "isinstance")
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
    inputs = _inputs(args, kwargs)
    items = None
    if source is not None and source.kinds != Kind.NONE:
        element = walk.element_of(source)
        if source.paths and not source.elements():
            element = walk.element_of(source)
        items = source.items if not source.paths and kind & (Kind.LIST | Kind.TUPLE) else None
    if kwargs and kind & Kind.DICT:
        given = join_all(value for name, value in kwargs.items() if name != "**")
        element = given if element is None else join(element, given)
    if kind == Kind.TUPLE and source is not None and source.kinds & Kind.NUMBER and not source.kinds & Kind.UNKNOWN:
        element = Value(Kind.NUMBER, inputs=inputs)
    return Value(kind, element=element, items=items, inputs=inputs)


def _torch(walk: Expressions, dotted: str, last: str, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    inputs = _inputs(args, kwargs)
    if dotted in RUNNING_STATISTICS and _trains(walk, last, args, kwargs):
        for position, keyword in RUNNING_STATISTICS[dotted]:
            target = kwargs.get(keyword) or (args[position] if position < len(args) else NOTHING)
            for path in target.paths:
                walk.record(
                    Operation.IN_PLACE, path, node, node, value=Value(Kind.TENSOR), declared=target.kinds, verb=last, inputs=True
                )
    if "out" in kwargs:
        _write_out(walk, kwargs["out"], node, last)
    inplace = kwargs.get("inplace")
    writes = last.endswith("_") and not last.endswith("__") and not last.startswith("_") and not last.startswith("is_")
    if args and (
        writes or (last.startswith("_foreach_") and last.endswith("_")) or (inplace is not None and inplace.constant is True)
    ):
        target = args[0]
        if last.startswith("_foreach_"):
            target = walk.element_of(target)
        for path in target.paths:
            walk.record(
                Operation.IN_PLACE, path, node, node, value=Value(Kind.TENSOR), declared=target.kinds, verb=last, inputs=inputs
            )
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
        return Value(Kind.TUPLE if last == "Size" else Kind.OBJECT, inputs=inputs and last == "Size")
    if last == "scaled_dot_product_attention":
        walk.pass_out(args, kwargs)
        return Value(Kind.TENSOR, inputs=True)
    if dotted.count(".") == 1 and last in VIEW_FUNCTIONS and args and args[0].paths:
        several = last in ("unbind", "chunk", "split", "tensor_split")
        part = Value(Kind.TENSOR, args[0].paths, inputs=inputs)
        return Value(Kind.TUPLE, element=part, inputs=inputs) if several else part
    _hooked(walk, args, kwargs)
    if dotted.startswith(
        ("torch.utils.checkpoint", "torch.cond", "torch.compile", "torch.vmap", "torch.func", "torch.ops.", "torch._")
    ):
        return Value(Kind.TENSOR | Kind.UNKNOWN, inputs=inputs)
    if dotted.startswith(
        ("torch.distributed", "torch.cuda", "torch.backends", "torch.utils", "torch.fx", "torch.profiler", "torch.compiler")
    ):
        return Value(Kind.UNKNOWN, inputs=inputs)
    if last in TUPLES_OF_TENSORS:
        element = Value(Kind.TENSOR, inputs=inputs)
        plain = last in ("max", "min", "where", "nonzero", "unique")
        return Value(Kind.TENSOR | Kind.TUPLE if plain else Kind.TUPLE, element=element, inputs=inputs)
    return Value(Kind.TENSOR, inputs=inputs)


def _trains(walk: Expressions, name: str, args: Arguments, kwargs: Keywords) -> bool:
    """Whether a normalisation may update its statistics: not where it is told that nothing trains."""
    told = kwargs.get("training", kwargs.get("use_input_stats"))
    if told is None and name == "batch_norm":
        told = args[5] if len(args) > 5 else None
        if told is None and len(args) < 6 and "training" not in kwargs and name == "batch_norm":
            return False
    return told is None or told.constant is not False


def _torch_class(walk: Expressions, dotted: str, last: str, args: Arguments, kwargs: Keywords) -> Value:
    info = walk.world.project.external_class(dotted)
    walk.pass_out(args, kwargs)
    if not info.is_module:
        kind = Kind.BUFFER if last.endswith("Buffer") else Kind.PARAMETER if last.endswith("Parameter") else Kind.OBJECT
        return Value(kind, inputs=_inputs(args, kwargs))
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
        inputs=_inputs(args, kwargs),
    )


def _getattr(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    if len(args) < 2:
        return UNKNOWN
    name = args[1].constant
    value = walk.attribute(args[0], name if isinstance(name, str) else "*", node)
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
    inputs = _inputs(args, {})
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
    element = call(walk, args[0], [walk.iterate(value, node) for value in args[1:]], {}, node)
    return Value(Kind.LIST, element=element, inputs=_inputs(args, kwargs))


def _partial(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    if not args:
        return UNKNOWN
    return Value(Kind.FUNCTION, objects=(Partial(args[0], tuple(args[1:]), tuple(kwargs.items())),))


def _property(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    getter = args[0] if args else kwargs.get("fget", UNKNOWN)
    return Value(Kind.OBJECT, objects=(Partial(getter, (), PROPERTY),))


def _nullcontext(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    return Value(Kind.LIST, element=args[0] if args else NONE)


def _wraps(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    return Value(Kind.FUNCTION, objects=(External("functools.wraps()"),))


def _memoise(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    """`lru_cache(f)`; with no function given yet, the decorator itself."""
    functions = [item for item in args[0].objects if isinstance(item, Function)] if args else []
    if not functions:
        return Value(Kind.FUNCTION, objects=(External("functools.lru_cache"),))
    memoised = tuple(
        Function(f.name, f.node, f.file, f.offset, f.owner, f.environment, f.bound, True, f.facts) for f in functions
    )
    return Value(Kind.FUNCTION, objects=memoised)


def _partialmethod(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    return _partial(walk, args, kwargs, node)


def _reduce(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
    if len(args) > 1:
        element = walk.element_of(args[1])
        return call(walk, args[0], [element, element], {}, node)
    return UNKNOWN


def _methodcaller_free(walk: Expressions, args: Arguments, kwargs: Keywords, node: ast.AST) -> Value:
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
    "functools.partialmethod": _partialmethod,
    "functools.wraps": _wraps,
    "functools.lru_cache": _memoise,
    "functools.cache": _memoise,
    "functools.reduce": _reduce,
    "itertools.count": _methodcaller_free,
    "itertools.cycle": _methodcaller_free,
}

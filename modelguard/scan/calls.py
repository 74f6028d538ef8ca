"""What a call does, and what comes back: project functions are walked, the rest is in `methods` and `functions`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modelguard.observation import Kind, Operation, Root
from modelguard.scan.attributes import instance_of
from modelguard.scan.conditions import predicate
from modelguard.scan.functions import external
from modelguard.scan.methods import builtin_method, hand_over, named_store
from modelguard.scan.obstacles import function_called, is_made, logged, module_called
from modelguard.scan.paths import Path
from modelguard.scan.symbols import ClassInfo
from modelguard.scan.tables import CONTAINER_MUTATORS, HOOK_REGISTRATIONS
from modelguard.scan.values import (
    ALIAS,
    DROPPED,
    NONE,
    NOTHING,
    SPREAD,
    UNKNOWN,
    USED,
    Arguments,
    ClassObject,
    External,
    Function,
    Instance,
    Keywords,
    ModuleObject,
    Object,
    Partial,
    Super,
    Value,
    any_inputs,
    bound,
    join_all,
)

if TYPE_CHECKING:
    from modelguard.scan.expressions import Expressions


def evaluate(walk: Expressions, node: ast.Call, mode: int) -> Value:
    """A call expression; `mode` as for any expression."""
    func = node.func
    kept = mode > DROPPED
    if isinstance(func, ast.Name) and func.id == "super" and walk.now.environment.holder("super") is None:
        return _super(walk, node)
    if isinstance(func, ast.Attribute):
        if not walk.muted and logged(walk, node):
            # What is written to the log is a part of the same obstacle.
            with walk.mute():
                return evaluate(walk, node, mode)
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
        module_called(walk, function, node)
        if walk.pending_hooks:
            walk.run_hooks(function.paths)
        walk.touch_called(function)
        hand_over(walk, args, kwargs)
        return Value(Kind.TENSOR | Kind.UNKNOWN, inputs=any_inputs(args, kwargs))
    hand_over(walk, args, kwargs)
    return Value(Kind.UNKNOWN, inputs=function.inputs or any_inputs(args, kwargs))


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
        tested = predicate(item.name)
        if tested is not None:
            return tested
        function_called(walk, item, node)
        if item.disabled:
            with walk.mute():
                result = walk.invoke(item, args, kwargs, node)
        else:
            result = walk.invoke(item, args, kwargs, node)
        if item.memoised and node is not None and result.content_kinds & Kind.ANY_TENSOR:
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else item.name
            path = Path(Root.GLOBAL, called, item.scope, ())
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
                inputs=any_inputs(args, kwargs),
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
            inputs=any_inputs(args, kwargs),
        )
    instance = Instance(info, walk.recorder is None and walk.declared is None)
    inputs = any_inputs(args, kwargs)
    value = Value(made.kinds, classes=(info,), objects=(instance,), inputs=inputs)
    init = info.method("__init__")
    if init is not None:
        function = walk.world.method_function(init)
        if function is not None:
            walk.invoke(function.bind(value), args, kwargs, node)
    else:
        for name, given in zip(info.facts.attributes, args, strict=False):
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
    exact = [item for item in receiver.objects if not isinstance(item, Function)]
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
                results.append(named_store(walk, name, args, node))
    instances = any(isinstance(item, Instance) for item in exact)
    for info in receiver.classes:
        found = info.method(name)
        if found is None or instances:
            continue
        if info.is_module and name in walk.world.entry_points and not _own(walk, receiver):
            walk.touch_called(receiver)
            walk.pass_out(args, kwargs)
            results.append(Value(Kind.TENSOR | Kind.UNKNOWN, inputs=any_inputs(args, kwargs)))
            continue
        taken = walk.attribute(
            Value(receiver.kinds, receiver.paths, (info,), (), receiver.element, inputs=receiver.inputs), name, node
        )
        results.append(call(walk, taken, args, kwargs, node))
    if results and not all(result is UNKNOWN for result in results):
        return join_all(results)
    if not results or receiver.paths:
        attribute = walk.attribute(receiver, name, node) if receiver.classes or receiver.objects else NOTHING
        if attribute.objects and not any(isinstance(item, External) and not is_made(item.dotted) for item in attribute.objects):
            return call(walk, attribute, args, kwargs, node)
        if attribute.kinds & Kind.MODULE or attribute.classes:
            return call(walk, attribute, args, kwargs, node)
    return builtin_method(walk, receiver, name, args, kwargs, node, used)


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
    return builtin_method(walk, plain, name, args, kwargs, node, used)

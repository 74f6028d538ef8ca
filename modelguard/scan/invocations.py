"""Calls into functions of the project: decorators, parameters, and the walk of a function's body."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from modelguard.observation import Kind, Root
from modelguard.scan.paths import Path
from modelguard.scan.statements import Statements
from modelguard.scan.tables import DISABLERS, MEMOISERS
from modelguard.scan.values import (
    INPUT,
    NONE,
    NOTHING,
    SPREAD,
    UNKNOWN,
    Arguments,
    ClassObject,
    Environment,
    External,
    Function,
    Instance,
    Keywords,
    Partial,
    Value,
    any_inputs,
    join,
    join_all,
)

_DEPTH = 24
"""Calls followed into each other, at most: deeper ones return something unknown."""

_DECLARING_DEPTH = 3
"""The same while the attributes of a class are worked out, where only the kind of a value matters."""

_STATEMENTS = 40_000
"""Statements walked for one entry point before calls are no longer followed."""


class Invocations(Statements):
    """Functions of the project, called."""

    # Decorators

    def decorate(self, function: Function, environment: Environment | None) -> Value:
        """A function as its decorators leave it, from the innermost out."""
        node = function.node
        value = Value(Kind.FUNCTION, objects=(function,))
        if isinstance(node, ast.Lambda) or not node.decorator_list:
            return value
        holder = Function("<decorators>", node, function.file, function.offset, function.owner)
        with self.activation(holder, environment or Environment(None, persistent=True), None), self.unobserved():
            for decorator in reversed(node.decorator_list):
                value = self._apply(decorator, value)
        return value

    def _apply(self, decorator: ast.expr, value: Value) -> Value:
        applied = self.expression(decorator)
        for item in applied.objects:
            if isinstance(item, External):
                if item.dotted in MEMOISERS:
                    return Value(
                        Kind.FUNCTION, objects=tuple(o.memoise() if isinstance(o, Function) else o for o in value.objects)
                    )
                if item.dotted in DISABLERS:
                    return Value(
                        Kind.FUNCTION, objects=tuple(o.disable() if isinstance(o, Function) else o for o in value.objects)
                    )
                return value
        if not any(isinstance(item, (Function, ClassObject, Instance, Partial)) for item in applied.objects):
            return value
        functions = [item for item in applied.objects if isinstance(item, Function)]
        if functions and all(item.file.path not in self.world.inside for item in functions):
            # What a wrapper outside the scanned files writes is not reported: what matters is the function it wraps.
            return value
        places = [item.place for item in functions]
        if places and all(place in self.world.transparent for place in places):
            return value
        result = self.call(applied, [value], {}, decorator)
        if result.objects == value.objects:
            self.world.transparent.update(places)
        return result if any(not isinstance(item, External) for item in result.objects) else value

    # Parameters

    def parameters(self, function: Function, inputs: bool = True) -> list[Value]:
        """What an engine hands to a method: an unknown value for each parameter but the first, by annotation and default."""
        return [self.parameter(function, parameter, default, inputs) for parameter, default in function.positional()[1:]]

    def parameter(self, function: Function, parameter: ast.arg, default: ast.expr | None, inputs: bool) -> Value:
        """One parameter that nobody in the project passes a value for."""
        value = UNKNOWN
        if parameter.annotation is not None:
            value = self.world.attributes.annotation(function.file, parameter.annotation)
        if isinstance(default, ast.Constant):
            hint = self.constant(default)
            value = (
                join(value, Value(hint.kinds))
                if default.value is None or value.kinds != Kind.UNKNOWN
                else Value(hint.kinds | Kind.UNKNOWN)
            )
        named = self.config_like(parameter.arg, value)
        value = Value(named.kinds, classes=named.classes, objects=named.objects, element=named.element, inputs=inputs)
        if not inputs:
            return value
        return self.root_value(Path(Root.ARGUMENT, parameter.arg, function.name, ()), value)

    def _bind(self, function: Function, args: Arguments, kwargs: Keywords, environment: Environment) -> None:
        arguments = function.node.args
        names = environment.names
        positional = function.positional()
        left = dict(kwargs)
        spread = left.pop("**", None)
        many = next((value for value in args if value.kinds & SPREAD), None)
        plain = [value for value in args if not value.kinds & SPREAD]
        for index, (parameter, _) in enumerate(positional):
            if index < len(plain):
                names[parameter.arg] = plain[index]
            elif parameter.arg in left:
                names[parameter.arg] = left.pop(parameter.arg)
            elif many is not None:
                names[parameter.arg] = many.element or UNKNOWN
        rest = plain[len(positional) :]
        if arguments.vararg is not None:
            items = tuple(rest) if many is None else None
            element = join_all(rest) if rest else None
            if many is not None:
                element = join(element, many.element or UNKNOWN) if element is not None else many.element
            inputs = any(value.inputs for value in rest) or many is not None
            names[arguments.vararg.arg] = Value(Kind.TUPLE, element=element or INPUT, items=items, inputs=inputs)
        for parameter, default in (*positional, *function.keyword_only()):
            if parameter.arg in names:
                continue
            if parameter.arg in left:
                names[parameter.arg] = left.pop(parameter.arg)
                continue
            entry = function is self.entry or (self.entry is not None and function.place == self.entry.place)
            if entry or (spread is not None and len(self.stack) < 4):
                names[parameter.arg] = self.parameter(function, parameter, default, self.declared is None)
            elif default is not None:
                value = self._default(function, default)
                names[parameter.arg] = join(value, spread.element or INPUT) if spread is not None else value
            else:
                names[parameter.arg] = self.parameter(function, parameter, default, False)
        if arguments.kwarg is not None:
            element = join_all(left.values()) if left else INPUT
            names[arguments.kwarg.arg] = Value(Kind.DICT, element=element, inputs=True)
        if self.recorder is not None:
            self._by_use(function, names)

    def _by_use(self, function: Function, names: dict[str, Value]) -> None:
        """Take parameters of which nothing is known for tensors where the function uses them as such."""
        unknown = {
            name: value
            for name, value in names.items()
            if value.kinds & ~Kind.NONE == Kind.UNKNOWN and not value.objects and not value.classes and value.element is None
        }
        if not unknown:
            return
        for name in unknown.keys() & self.world.used_as_tensors(function):
            value = unknown[name]
            names[name] = Value((value.kinds & Kind.NONE) | Kind.TENSOR, value.paths, inputs=value.inputs, about=value.about)

    def _default(self, function: Function, default: ast.expr) -> Value:
        """A default argument: evaluated where the function was defined, and the same object in every call."""
        environment, self.now.environment = self.now.environment, function.environment or Environment(None)
        try:
            with self.unobserved():
                value = self.expression(default)
        finally:
            self.now.environment = environment
        if value.kinds & Kind.CONTAINER and not value.paths:
            value = value.with_paths((Path(Root.GLOBAL, f"{function.name}.__defaults__", function.file.path, ()),))
        return value

    # Calls

    def invoke(self, function: Function, args: Arguments, kwargs: Keywords, node: ast.AST | None) -> Value:
        """Walk a call of a project function; its result."""
        if function.bound is not None:
            args = [function.bound, *args]
        limit = _DEPTH if self.recorder is not None else _DECLARING_DEPTH
        if len(self.stack) >= limit or self.statements > _STATEMENTS:
            self.cut_short = self.cut_short or (self.recorder is not None and function.file.path in self.world.inside)
            self.pass_out(args, kwargs)
            return Value(Kind.UNKNOWN, inputs=any_inputs(args, kwargs))
        # One wrapper around two methods is two functions: what they close over differs.
        if any(
            active.function.place == function.place and active.function.environment is function.environment
            for active in self.stack
        ):
            return NOTHING
        key = (
            function.place,
            id(function.environment),
            tuple(a.signature() for a in args),
            tuple((k, v.signature()) for k, v in kwargs.items()),
            self._guard_key(),
            self.recorder is None,
        )
        known = self.walked.get(key)
        if known is not None:
            return known
        if self.stack:
            result = self.world.known_result(function, args, self) if self.recorder is not None else self._glanced(function, args)
            if result is not None:
                self.pass_out(args, kwargs)
                return result
        if node is not None and self.stack:
            self.now.line = getattr(node, "lineno", 0) + self.now.function.offset
        scope = f"{function.file.path}:{function.name}"
        # Kept, so that no other environment gets its identity while results are remembered by it.
        outer = function.environment or self.enclosing.get(id(function.owner))
        environment = Environment(outer, persistent=self.recorder is None, scope=scope)
        self.environments.append(environment)
        events = len(self.recorder.events) if self.recorder is not None else 0
        with self.activation(function, environment, args[0] if args else None) as current:
            self._bind(function, args, kwargs, environment)
            if isinstance(function.node, ast.Lambda):
                current.returns.append(self.expression(function.node.body))
            elif not self.block(function.node.body):
                current.returns.append(NONE)
                current.definite.append(self.definite)
            if current.definite:
                self.definite = frozenset.intersection(*current.definite)
            result = join_all(current.returns)
            if current.yields:
                result = Value(Kind.LIST, element=join_all(current.yields), inputs=result.inputs)
        self.walked[key] = result
        self.world.returned(function, result)
        if self.recorder is not None and (len(self.recorder.events) > events or _holds_state(result)):
            self.world.telling.add(function.place)
        return result

    def _glanced(self, function: Function, args: Sequence[Value]) -> Value | None:
        """Where nothing is observed, helpers of other files are taken by their annotation, unless they are handed a function."""
        if function.environment is not None or function.file is self.stack[0].function.file:
            return None
        handed = any(calls_back(value) or (self.declared is None and _is_class(value)) for value in args)
        if len(self.stack) <= _DECLARING_DEPTH and (handed or (function.name == "__init__" and len(self.stack) == 1)):
            return None
        node = function.node
        if isinstance(node, ast.Lambda) or node.returns is None:
            return UNKNOWN
        return self.world.attributes.annotation(function.file, node.returns)

    def _guard_key(self) -> tuple[bool, bool, bool, bool]:
        return (
            any(f.training for f in self.facts),
            any(f.eager for f in self.facts),
            any(f.checks for f in self.facts),
            self.muted > 0,
        )


def calls_back(value: Value) -> bool:
    """Whether whoever is handed a value may call a function of the project."""
    return any(isinstance(item, (Function, Partial)) for item in value.objects)


def _is_class(value: Value) -> bool:
    return any(isinstance(item, ClassObject) for item in value.objects)


def _holds_state(value: Value) -> bool:
    """Whether a value is a part of the state, or holds one."""
    element = value.elements()
    return bool(value.paths) or (element is not None and bool(element.paths))

"""Reading of names, attributes and items: what each means, and which state it is a part of."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from modelguard.observation import Kind, Operation, Root
from modelguard.scan.attributes import CONFIG_NAME
from modelguard.scan.observing import Observing
from modelguard.scan.paths import ITEM, Path
from modelguard.scan.symbols import ClassInfo, ExternalClass, FunctionName, GlobalName, Method, SourceFile, Symbol
from modelguard.scan.tables import (
    CACHED_PROPERTIES,
    INSTANCE_DICTS,
    METADATA_ATTRIBUTES,
    MODULE_DICTS,
    SIZE_ATTRIBUTES,
    VIEW_ATTRIBUTES,
)
from modelguard.scan.values import (
    INPUT,
    NOTHING,
    PROPERTY,
    RECEIVER,
    UNKNOWN,
    ClassObject,
    External,
    Function,
    Instance,
    ModuleObject,
    Object,
    Partial,
    Super,
    Value,
    bound,
    join,
    tensor_like,
)

_PROPERTIES = frozenset(("property", "cached_property", "abc.abstractproperty", "functools.cached_property"))


class Access(Observing):
    """Names, attributes and items, read."""

    # Names

    def name(self, name: str) -> Value:
        """What a bare name means here."""
        if name not in self.now.globals:
            environment = self.now.environment.holder(name)
            if environment is not None:
                value = environment.names[name]
                if environment.persistent and not value.paths and not value.objects and self.recorder is not None:
                    # A variable of an enclosing function that ran before the region: it outlives the step.
                    return self.root_value(Path(Root.CLOSURE, name, environment.scope, ()), value)
                return value
        file = self.now.function.file
        known = self.world.outside.get((file.path, name))
        if known is not None:
            return known
        symbol = self.world.project.resolve(file, name)
        if isinstance(symbol, str):
            known = Value(Kind.UNKNOWN, objects=(External(symbol),))
            self.world.outside[(file.path, name)] = known
            return known
        if symbol is None:
            if name == "__class__" and self.now.function.owner is not None:
                return Value(Kind.OBJECT, objects=(ClassObject(self.now.function.owner),))
            return Value(Kind.UNKNOWN, objects=(External(f"builtins.{name}"),))
        return self.symbol(symbol)

    def symbol(self, symbol: Symbol) -> Value:
        """What a name of the project is as a value."""
        if isinstance(symbol, (ClassInfo, ExternalClass)):
            return Value(Kind.OBJECT, objects=(ClassObject(symbol),))
        if isinstance(symbol, FunctionName):
            function = self.world.function(symbol.file, symbol.facts)
            return self.world.decorated(function) if function is not None else UNKNOWN
        if isinstance(symbol, GlobalName):
            value = self.world.attributes.global_value(symbol)
            return self.root_value(Path(Root.GLOBAL, symbol.name, symbol.file.path, ()), value)
        if isinstance(symbol, SourceFile):
            return Value(Kind.OBJECT, objects=(ModuleObject(symbol),))
        return Value(Kind.UNKNOWN, objects=(External(symbol),))

    # Attributes

    def attribute(self, base: Value, name: str, node: ast.AST | None) -> Value:
        """Attribute `name` of a value. Properties run; a `cached_property` is a write."""
        result = NOTHING
        for item in base.objects:
            result = join(result, self._attribute_of_object(item, name, base, node))
        if name == "__class__":
            return Value(Kind.OBJECT, objects=tuple(ClassObject(info) for info in base.classes))
        if name == "__dict__":
            return Value(Kind.DICT, tuple(path.step(name) for path in base.paths))
        found = False
        for info in base.classes:
            method = info.method(name)
            if method is not None:
                found = True
                if node is not None and not any(isinstance(item, Instance) for item in base.objects):
                    result = join(result, self._method_value(base, method, node))
                continue
            if result is not NOTHING and any(isinstance(item, Instance) for item in base.objects):
                continue
            declared = self.world.attributes.of(info, name)
            if declared is not NOTHING:
                found = True
                if declared.objects and node is not None and self._in_class_body(info, name):
                    declared = self._taken(declared, base, node)
                result = join(result, declared)
        if not found and (tensor_like(base) or not base.objects):
            special = self._tensor_attribute(base, name)
            if special is not None:
                return special
        if found and result.kinds == Kind.FUNCTION and not base.paths:
            return result
        if name in MODULE_DICTS and base.kinds & Kind.MODULE:
            result = join(result, Value(Kind.DICT, element=Value(MODULE_DICTS[name])))
        if result is NOTHING:
            result = self.config_like(name, UNKNOWN)
        paths = tuple(path.step(name) for path in base.paths)
        if not paths:
            return result.with_inputs(result.inputs or base.inputs)
        if any(isinstance(item, Function) and item.bound is not None for item in result.objects) and not result.paths:
            return result
        if result.paths:
            # A property that hands out other state: what it hands out is meant.
            return result
        return Value(
            result.kinds,
            paths,
            result.classes,
            result.objects,
            result.element,
            result.items,
            result.constant,
            result.inputs or base.inputs,
        )

    @staticmethod
    def _in_class_body(info: ClassInfo | ExternalClass, name: str) -> bool:
        return isinstance(info, ClassInfo) and any(name in item.facts.attributes for item in info.ancestry())

    def _taken(self, declared: Value, base: Value, node: ast.AST) -> Value:
        """What a class body binds, taken off an instance: functions are methods, properties and `__get__` run."""
        for item in declared.objects:
            if isinstance(item, Partial) and item.kwargs == PROPERTY:
                return self.call(item.function, [base], {}, node)
            if isinstance(item, Instance):
                got = self.special(declared, "__get__", [base, UNKNOWN], node)
                if got is not None:
                    return got
        if any(isinstance(item, Function) and item.bound is None for item in declared.objects):
            return Value(declared.kinds, objects=tuple(bound(item, base) for item in declared.objects))
        return declared

    def _tensor_attribute(self, base: Value, name: str) -> Value | None:
        if name in METADATA_ATTRIBUTES:
            sized = name in SIZE_ATTRIBUTES
            kinds = Kind.TUPLE if name == "shape" else Kind.NUMBER if sized else Kind.OBJECT
            size = Kind.SIZE if name == "shape" and base.inputs and not base.kinds & Kind.ARRAY else 0
            element = Value(Kind.NUMBER | size, inputs=base.inputs) if name == "shape" else None
            return Value(kinds | size, element=element, about=base.paths, inputs=sized and base.inputs)
        if (
            name in VIEW_ATTRIBUTES
            and (tensor_like(base) or base.paths)
            and not base.kinds & (Kind.MODULE | Kind.CONFIG | Kind.CONTAINER)
        ):
            return base
        return None

    def _attribute_of_object(self, item: Object, name: str, base: Value, node: ast.AST | None) -> Value:
        if isinstance(item, External):
            return Value(Kind.UNKNOWN, objects=(External(f"{item.dotted}.{name}"),), inputs=base.inputs)
        if isinstance(item, ModuleObject):
            symbol = self.world.project.member(item.file, name)
            return self.symbol(symbol) if symbol is not None else UNKNOWN
        if isinstance(item, ClassObject):
            return self._class_attribute(item.info, name)
        if isinstance(item, Instance):
            if name in item.fields:
                return item.fields[name]
            if item.info is not None:
                method = item.info.method(name)
                if method is not None and node is not None:
                    return self._method_value(Value(base.kinds, classes=(item.info,), objects=(item,)), method, node)
                return self.world.attributes.of(item.info, name)
        if isinstance(item, Super):
            for info in item.value.classes:
                if isinstance(info, ClassInfo):
                    method = info.method_after(item.after, name)
                    if method is not None and node is not None:
                        return self._method_value(item.value, method, node)
        if isinstance(item, Function):
            path = Path(Root.GLOBAL, item.name, item.scope, (name,))
            return Value(Kind.UNKNOWN, (path,))
        return NOTHING

    def _class_attribute(self, info: ClassInfo | ExternalClass, name: str) -> Value:
        if isinstance(info, ExternalClass):
            return Value(Kind.UNKNOWN, objects=(External(f"{info.dotted}.{name}"),))
        patched = self.world.patched.get((id(info), name))
        if patched is not None:
            return patched
        method = info.method(name)
        if method is not None:
            return self._unbound(method, Value(Kind.OBJECT, objects=(ClassObject(info),)))
        holder = next((item for item in info.ancestry() if name in item.facts.attributes), info)
        root = self.root_value(
            Path(Root.CLASS, holder.name, holder.file.path, ()), Value(Kind.OBJECT, objects=(ClassObject(holder),))
        )
        value = self.world.attributes.class_level(holder, name) if name in holder.facts.attributes else UNKNOWN
        return value.with_paths((root.paths[0].step(name),))

    def _unbound(self, method: Method, itself: Value) -> Value:
        function = self.world.method_function(method)
        if function is None:
            return UNKNOWN
        value = self.world.decorated(function)
        if "classmethod" in method.facts.decorators:
            return Value(Kind.FUNCTION, objects=tuple(o.bind(itself) if isinstance(o, Function) else o for o in value.objects))
        return value

    def _method_value(self, base: Value, method: Method, node: ast.AST) -> Value:
        """A method taken off an object: bound, or run if it is a property."""
        decorators = method.facts.decorators
        cached = any(self._dotted(method.owner.file, name) in CACHED_PROPERTIES for name in decorators)
        if cached or not _PROPERTIES.isdisjoint(decorators):
            function = self.world.method_function(method)
            if function is None:
                return UNKNOWN
            value = self.invoke(function.bind(base), [], {}, node)
            if cached:
                for path in base.paths:
                    inner = path.step(method.facts.name)
                    self.record(
                        Operation.CACHE_PROPERTY, inner, node, node, value=value, declared=value.kinds, verb="cached_property"
                    )
                return value.with_paths(tuple(path.step(method.facts.name) for path in base.paths))
            return value
        if "staticmethod" in decorators:
            return self._unbound(method, base)
        if "classmethod" in decorators:
            itself = Value(Kind.OBJECT, objects=tuple(ClassObject(info) for info in base.classes))
            return self._unbound(method, itself)
        unbound = self._unbound(method, base)
        return Value(Kind.FUNCTION, objects=tuple(bound(item, base) for item in unbound.objects))

    def _dotted(self, file: SourceFile, name: str) -> str:
        symbol = self.world.project.resolve(file, name)
        return symbol if isinstance(symbol, str) else name

    def config_like(self, name: str, value: Value) -> Value:
        """A value by its name: `config`, `self.cfg`, `args` hold settings."""
        if value.kinds & Kind.UNKNOWN and not value.kinds & Kind.CONFIG and CONFIG_NAME.search(name):
            return join(value, Value(Kind.CONFIG | Kind.OBJECT))
        return value

    def value_of(self, path: Path) -> Value:
        """A state path's value, from what its root is."""
        value = self.roots.get(path[:3], UNKNOWN)
        for step in path.steps:
            value = self.element_of(value) if step == ITEM else self.attribute(value, step, None)
        return value

    def kinds_of(self, path: Path) -> int:
        """What a state path is declared to be."""
        return self.value_of(path).kinds

    # Items

    def item(self, base: Value, key: Value, node: ast.Subscript, mode: int) -> Value:
        """An item of a value, read."""
        generic = tuple(item for item in base.objects if isinstance(item, ClassObject))
        if generic:
            # `Pair[int]` is `Pair`, as far as what it makes goes.
            return Value(base.kinds, objects=generic)
        result = self.special(base, "__getitem__", [key], node)
        if result is not None and not base.kinds & Kind.CONTAINER:
            return result
        if base.items is not None and isinstance(key.constant, int) and -len(base.items) <= key.constant < len(base.items):
            found = base.items[key.constant]
            return found if found.paths or not base.paths else found.with_paths(tuple(path.step(ITEM) for path in base.paths))
        if base.kinds & Kind.GROWING_DICT and isinstance(node.ctx, ast.Load):
            for path in base.paths:
                self.record(Operation.GROW, path, node, node, declared=base.kinds, inputs=key.inputs, verb="[]")
        named = isinstance(key.constant, str)
        for path in base.paths:
            if path.steps and path.steps[-1] in INSTANCE_DICTS and named:
                inner = path.parent().step(key.key_name)
                return self.value_of(inner).with_paths((inner,))
        if isinstance(node.slice, ast.Slice) and base.kinds & Kind.MODULE:
            return base
        if isinstance(node.slice, ast.Slice) and base.kinds & (Kind.LIST | Kind.TUPLE):
            return Value(base.kinds & ~Kind.GROWING_DICT, (), (), (), self.element_of(base), inputs=base.inputs)
        if base.kinds & Kind.ANY_TENSOR and not base.kinds & (Kind.CONTAINER | Kind.TUPLE):
            # An index that may be a mask gives a copy; what is then written to would be lost, so that must be a view.
            fancy = mode != RECEIVER and not isinstance(node.slice, (ast.Slice, ast.Constant, ast.Tuple, ast.UnaryOp))
            kinds = Kind.TENSOR | (base.kinds & (Kind.UNKNOWN | Kind.MASK | Kind.ON_CPU | Kind.READ | Kind.ARRAY))
            return Value(kinds, () if fancy else base.paths, inputs=base.inputs or key.inputs)
        return self.element_of(base).with_inputs(base.inputs or key.inputs)

    def element_of(self, base: Value) -> Value:
        """What a value holds, whichever item is meant."""
        element = base.elements()
        kinds = base.kinds
        if element is None:
            inner = kinds & Kind.ANY_TENSOR
            known = inner and not kinds & (Kind.CONTAINER | Kind.TUPLE | Kind.UNKNOWN)
            marks = kinds & (Kind.MASK | Kind.ON_CPU | Kind.READ | Kind.ARRAY)
            element = Value((Kind.TENSOR if known else Kind.UNKNOWN) | marks)
        if base.paths and not element.paths:
            if kinds & Kind.ANY_TENSOR and not kinds & (Kind.CONTAINER | Kind.TUPLE | Kind.MODULE):
                return element.with_paths(base.paths).with_inputs(base.inputs)
            return element.with_paths(tuple(path.step(ITEM) for path in base.paths)).with_inputs(base.inputs or element.inputs)
        return element.with_inputs(base.inputs or element.inputs)

    def iterate(self, base: Value, node: ast.AST) -> Value:
        """What a loop over a value binds its target to."""
        entered = self.special(base, "__iter__", [], node)
        if entered is not None and not base.kinds & (Kind.CONTAINER | Kind.MODULE):
            return entered.elements() or INPUT
        if base.kinds & Kind.DICT and not base.kinds & (Kind.LIST | Kind.UNKNOWN):
            return Value(Kind.UNKNOWN, inputs=base.inputs)
        return self.element_of(base)

    # Special methods

    def special(self, base: Value, name: str, args: Sequence[Value], node: ast.AST) -> Value | None:
        """Call a special method that the project defines on what `base` may be; None where it defines none."""
        result: Value | None = None
        for info in base.classes:
            method = info.method(name)
            if method is not None and not (info.is_module and name == "__call__"):
                function = self.world.method_function(method)
                if function is not None:
                    value = self.invoke(function.bind(base), args, {}, node)
                    result = value if result is None else join(result, value)
        return result

"""The half of the walk that evaluates expressions: names, attributes, items, tests. Calls are in `calls`, statements in `walk`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from modelguard.observation import Kind, Operation, Root
from modelguard.scan import calls
from modelguard.scan.attributes import CONFIG_NAME, instance_of
from modelguard.scan.calls import ALIAS, DROPPED, RECEIVER, USED
from modelguard.scan.conditions import ALWAYS, NEVER, NO_TEST, TRAINING
from modelguard.scan.facts import tensor_index
from modelguard.scan.project import ClassInfo, ExternalClass, FunctionName, GlobalName, Method, SourceFile, Symbol
from modelguard.scan.recorder import Recorder
from modelguard.scan.tables import (
    CACHED_PROPERTIES,
    METADATA_ATTRIBUTES,
    MODULE_DICTS,
    SIZE_ATTRIBUTES,
    VIEW_ATTRIBUTES,
)
from modelguard.scan.values import (
    BOOL,
    INPUT,
    ITEM,
    NO_FACTS,
    NONE,
    NOTHING,
    NUMBER,
    PROPERTY,
    SPREAD,
    STRING,
    UNKNOWN,
    WHOLE,
    BoundMethod,
    Check,
    ClassObject,
    Environment,
    External,
    Facts,
    Function,
    Instance,
    ModuleObject,
    Partial,
    Path,
    Super,
    Test,
    Value,
    join,
    join_all,
)

if TYPE_CHECKING:
    from modelguard.scan.walk import Activation, World

_LONGEST = 16
"""Items up to which a tuple or list is known one by one."""

_PROPERTIES = frozenset(("property", "cached_property", "abc.abstractproperty", "functools.cached_property"))
_MISSING_ERRORS = frozenset(("AttributeError", "KeyError", "IndexError", "Exception", "LookupError"))


class Expressions:
    """Evaluation. The state it works on belongs to `Walk`."""

    world: World
    recorder: Recorder | None
    declared: dict[str, Value] | None
    stack: list[Activation]
    definite: frozenset[Path]
    feeding: tuple[Path, ...]
    roots: dict[tuple[Root, str, str], Value]
    trying: list[Path] | None = None
    ambiguous: bool = False
    pending_hooks: list[tuple[Value, Value]] = []
    found_hooks: list[tuple[bool, Value, Value]] | None = None

    if TYPE_CHECKING:
        now: Activation

        def invoke(self, function: Function, args: Sequence[Value], kwargs: dict[str, Value], node: ast.AST | None) -> Value: ...
        def store(self, target: ast.expr, value: Value, node: ast.stmt | ast.expr, operation: Operation = ...) -> None: ...
        def read(self, path: Path, used: bool) -> None: ...
        facts: list[Facts]
        blocks: list[int]

        def push(self, facts: Facts) -> None: ...
        def run_hooks(self, called: Sequence[Path]) -> None: ...
        def touch(self, value: Value, used: bool) -> None: ...
        def root_value(self, path: Path, value: Value) -> Value: ...
        def record(
            self,
            operation: Operation,
            path: Path,
            node: ast.AST,
            target: ast.AST,
            *,
            value: Value = ...,
            declared: int | None = ...,
            owner: int | None = ...,
            verb: str = ...,
            inputs: bool = ...,
        ) -> None: ...

    # Evaluation

    def expression(self, node: ast.expr, used: bool = True) -> Value:
        """What an expression is, its value being used (or, as a statement of its own, thrown away)."""
        return self.evaluate(node, USED if used else DROPPED)

    def receiver(self, node: ast.expr) -> Value:
        """What an expression is to which something is done: nothing is read by naming it."""
        return self.evaluate(node, RECEIVER)

    def alias(self, node: ast.expr) -> Value:
        """What an expression is that gets another name: read now, used when the name is."""
        return self.evaluate(node, ALIAS if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else USED)

    def evaluate(self, node: ast.expr, mode: int) -> Value:
        """What an expression is; `mode` says what becomes of it."""
        handler = self._EXPRESSIONS.get(type(node))
        if handler is None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.evaluate(child, USED)
            return UNKNOWN
        return handler(self, node, mode)

    def constant(self, node: ast.Constant) -> Value:
        """A literal."""
        value = node.value
        if value is None:
            return NONE
        if isinstance(value, bool):
            return Value(Kind.BOOL, constant=value)
        if isinstance(value, (int, float, complex)):
            return Value(Kind.NUMBER, constant=value)
        if isinstance(value, (str, bytes)):
            return Value(Kind.STRING, constant=value)
        return UNKNOWN

    def _constant(self, node: ast.Constant, mode: int) -> Value:
        return self.constant(node)

    def _name(self, node: ast.Name, mode: int) -> Value:
        activation = self.stack[-1]
        environment = activation.environment
        found = environment.names.get(node.id)
        if found is None or environment.persistent or activation.globals:
            found = self.name(node.id)
        if mode >= ALIAS and found.paths:
            self._seen(found, mode)
        return found

    def _seen(self, value: Value, mode: int) -> None:
        if mode >= ALIAS:
            for path in value.paths:
                self.read(path, mode == USED)

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

    def read_name(self, name: str, used: bool) -> None:
        """Note that a global or closure variable is read."""
        self.touch(self.name(name), used)

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

    def _attribute(self, node: ast.Attribute, mode: int) -> Value:
        base = self.receiver(node.value)
        value = self.attribute(base, node.attr, node)
        self._seen(value, mode)
        if not value.paths and base.paths and mode >= ALIAS:
            # A size, a property: reading it reads the object.
            self.touch(base, used=True)
        return value

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
        if not found and (self.is_tensor_like(base) or not base.objects):
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
        """What a class body binds, taken off an instance: a function is a method, `property(f)` runs, a descriptor's `__get__` too."""
        for item in declared.objects:
            if isinstance(item, Partial) and item.kwargs == PROPERTY:
                return self.call(item.function, [base], {}, node)
            if isinstance(item, Instance):
                got = self.special(declared, "__get__", [base, UNKNOWN], node)
                if got is not None:
                    return got
        if any(isinstance(item, Function) and item.bound is None for item in declared.objects):
            return Value(declared.kinds, objects=tuple(calls.bound(item, base) for item in declared.objects))
        return declared

    def _tensor_attribute(self, base: Value, name: str) -> Value | None:
        if name in METADATA_ATTRIBUTES:
            sized = name in SIZE_ATTRIBUTES
            kinds = Kind.TUPLE if name == "shape" else Kind.NUMBER if sized else Kind.OBJECT
            element = Value(Kind.NUMBER, inputs=base.inputs) if name == "shape" else None
            return Value(kinds, element=element, about=base.paths, inputs=sized and base.inputs)
        if (
            name in VIEW_ATTRIBUTES
            and (self.is_tensor_like(base) or base.paths)
            and not base.kinds & (Kind.MODULE | Kind.CONFIG | Kind.CONTAINER)
        ):
            return base
        return None

    def _attribute_of_object(self, item: object, name: str, base: Value, node: ast.AST | None) -> Value:
        if isinstance(item, External):
            return Value(Kind.UNKNOWN, objects=(External(f"{item.dotted}.{name}"),), inputs=base.inputs)
        if isinstance(item, ModuleObject):
            symbol = self.world.project.resolve(item.file, name)
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
            path = Path(Root.GLOBAL, item.name, f"{item.file.path}:{item.node.lineno + item.offset}", (name,))
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
        return Value(Kind.FUNCTION, objects=tuple(calls.bound(item, base) for item in unbound.objects))

    def _dotted(self, file: SourceFile, name: str) -> str:
        symbol = self.world.project.resolve(file, name)
        return symbol if isinstance(symbol, str) else name

    def config_like(self, name: str, value: Value) -> Value:
        """A value by its name: `config`, `self.cfg`, `args` hold settings."""
        if value.kinds & Kind.UNKNOWN and not value.kinds & Kind.CONFIG and CONFIG_NAME.search(name):
            return join(value, Value(Kind.CONFIG | Kind.OBJECT))
        return value

    def is_tensor_like(self, value: Value) -> bool:
        """Whether a value may be a tensor, as far as anything is known."""
        if value.kinds & Kind.ANY_TENSOR:
            return True
        return (
            bool(value.kinds & Kind.UNKNOWN)
            and not value.kinds & (Kind.MODULE | Kind.CONTAINER | Kind.CONFIG)
            and not value.objects
        )

    def value_of(self, path: Path) -> Value:
        """A state path's value, from what its root is."""
        value = self.roots.get(path[:3], UNKNOWN)
        for step in path.steps:
            value = self.element_of(value) if step == ITEM else self.attribute(value, step, None)
        return value

    def kinds_of(self, path: Path) -> int:
        """What a state path is declared to be."""
        return self.value_of(path).kinds

    def store_attribute(
        self, base: Value, name: str, value: Value, node: ast.AST, target: ast.AST, operation: Operation = Operation.REBIND
    ) -> None:
        """Bind an attribute of a value."""
        for item in base.objects:
            if isinstance(item, Instance):
                item.fields[name] = join(item.fields[name], value) if name in item.fields else value
            elif isinstance(item, ModuleObject):
                self.record(operation, Path(Root.GLOBAL, name, item.file.path, ()), node, target, value=value, owner=Kind.NOTHING)
            elif isinstance(item, ClassObject):
                if self.recorder is None:
                    self.world.patched[(id(item.info), name)] = value
                scope = item.info.file.path if isinstance(item.info, ClassInfo) else ""
                root = self.root_value(Path(Root.CLASS, item.info.name, scope, ()), Value(Kind.OBJECT, objects=(item,)))
                self.record(operation, root.paths[0].step(name), node, target, value=value, owner=Kind.OBJECT)
            elif isinstance(item, Function):
                path = Path(Root.GLOBAL, item.name, f"{item.file.path}:{item.node.lineno + item.offset}", (name,))
                self.record(operation, path, node, target, value=value, owner=Kind.FUNCTION)
        for info in base.classes:
            setter = info.method(f"{name}.setter")
            if setter is not None:
                function = self.world.method_function(setter)
                if function is not None:
                    self.invoke(function.bind(base), [value], {}, node)
                    return
            if isinstance(info, ClassInfo) and self.recorder is not None:
                custom = info.method("__setattr__") if not base.kinds & Kind.CONFIG else None
                active = self.now.function
                if custom is not None and active.name != "__setattr__":
                    function = self.world.method_function(custom)
                    if function is not None:
                        self.invoke(function.bind(base), [Value(Kind.STRING, constant=name), value], {}, node)
        for info in base.classes:
            if self._in_class_body(info, name):
                descriptor = self.world.attributes.of(info, name)
                if self.special(descriptor, "__set__", [base, value], node) is not None:
                    return
        if name == "data" and base.paths and self.is_tensor_like(base):
            for path in base.paths:
                self.record(Operation.SWAP, path, node, target, value=value, verb="data")
            return
        if name == "grad" or (name == "requires_grad" and all(path.root is Root.ARGUMENT for path in base.paths)):
            return
        registered = (
            operation is Operation.REBIND
            and base.kinds & Kind.MODULE
            and value.kinds & Kind.FUNCTION
            and not value.kinds & Kind.UNKNOWN
        )
        for path in base.paths:
            inner = path.step(name)
            replaces = base.kinds & Kind.MODULE and name in self.world.entry_points
            if replaces or (registered and any(isinstance(info, ClassInfo) and info.method(name) for info in base.classes)):
                self.record(Operation.REGISTER, inner, node, target, value=Value(Kind.FUNCTION), owner=base.kinds)
            else:
                self.record(operation, inner, node, target, value=value, owner=base.kinds)

    # Items

    def _subscript(self, node: ast.Subscript, mode: int) -> Value:
        base = self.receiver(node.value)
        key = self.expression(node.slice)
        value = self.item(base, key, node, mode)
        self._seen(value, mode)
        if base.about and not value.paths:
            return Value(value.kinds, about=base.about, inputs=value.inputs)
        return value

    def item(self, base: Value, key: Value, node: ast.Subscript, mode: int) -> Value:
        """An item of a value, read."""
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
            if path.steps and path.steps[-1] in ("__dict__", *MODULE_DICTS) and named:
                return self.value_of(path.parent().step(str(key.constant))).with_paths((path.parent().step(str(key.constant)),))
        if isinstance(node.slice, ast.Slice) and base.kinds & Kind.MODULE:
            return base
        if isinstance(node.slice, ast.Slice) and base.kinds & (Kind.LIST | Kind.TUPLE):
            return Value(base.kinds & ~Kind.GROWING_DICT, (), (), (), self.element_of(base), inputs=base.inputs)
        if base.kinds & Kind.ANY_TENSOR and not base.kinds & (Kind.CONTAINER | Kind.TUPLE):
            # An index that may be a mask gives a copy; what is then written to would be lost, so that must be a view.
            fancy = mode != RECEIVER and not isinstance(node.slice, (ast.Slice, ast.Constant, ast.Tuple, ast.UnaryOp))
            return Value(Kind.TENSOR, () if fancy else base.paths, inputs=base.inputs or key.inputs)
        return self.element_of(base).with_inputs(base.inputs or key.inputs)

    def element_of(self, base: Value) -> Value:
        """What a value holds, whichever item is meant."""
        element = base.elements()
        kinds = base.kinds
        if element is None:
            inner = kinds & Kind.ANY_TENSOR
            element = Value(Kind.TENSOR if inner and not kinds & (Kind.CONTAINER | Kind.TUPLE | Kind.UNKNOWN) else Kind.UNKNOWN)
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

    def store_item(self, base: Value, target: ast.Subscript, value: Value, node: ast.AST) -> None:
        """Bind an item of a value."""
        key = self.expression(target.slice)
        if self.special(base, "__setitem__", [key, value], node) is not None and not base.kinds & Kind.CONTAINER:
            return
        inputs = key.inputs or value.inputs
        if not base.paths and base.kinds & (Kind.CONTAINER | Kind.OBJECT) and base.element is not value:
            base.element = value if base.element is None else join(base.element, value)
        for path in base.paths:
            last = path.steps[-1] if path.steps else ""
            if last in ("__dict__", *MODULE_DICTS):
                name = str(key.constant) if isinstance(key.constant, str) else "*"
                inner = path.parent().step(name)
                kinds = MODULE_DICTS.get(last, 0)
                if kinds == Kind.MODULE:
                    self.record(Operation.REGISTER, inner, node, target, value=value, verb="add_module")
                else:
                    declared = self.kinds_of(inner) | kinds
                    self.record(Operation.REBIND, inner, node, target, value=value, declared=declared, inputs=inputs)
                continue
            kinds = base.kinds
            if len(base.paths) > calls.FEW and not kinds & (Kind.CONTAINER | Kind.ANY_TENSOR):
                continue
            if kinds & Kind.ANY_TENSOR and not kinds & Kind.CONTAINER:
                self.record(Operation.IN_PLACE, path, node, target, value=value, declared=kinds, verb="[...] =", inputs=inputs)
            elif not kinds & (Kind.CONTAINER | Kind.MODULE) and tensor_index(target.slice):
                self.record(Operation.IN_PLACE, path, node, target, value=value, declared=kinds, verb="[...] =", inputs=inputs)
            else:
                self.record(
                    Operation.ITEM,
                    path.step(ITEM),
                    node,
                    target,
                    value=value,
                    declared=kinds,
                    owner=self._owner(path),
                    inputs=inputs,
                )

    def item_path(self, path: Path, index: ast.expr) -> Path:
        """The path of an item; an item of an instance's `__dict__` or `_buffers` is an attribute."""
        if path.steps and path.steps[-1] in ("__dict__", *MODULE_DICTS):
            return path.parent().step(index.value if isinstance(index, ast.Constant) and isinstance(index.value, str) else "*")
        return path.step(ITEM)

    def _owner(self, path: Path) -> int:
        """What the object is that has a container as its attribute."""
        holder = path.holder()
        return self.kinds_of(holder.parent()) if holder.steps else Kind.NOTHING

    def delete_item(self, base: Value, target: ast.Subscript, node: ast.AST) -> None:
        """`del base[key]`."""
        key = self.expression(target.slice)
        if self.special(base, "__delitem__", [key], node) is not None:
            return
        for path in base.paths:
            last = path.steps[-1] if path.steps else ""
            if last in ("__dict__", *MODULE_DICTS):
                name = str(key.constant) if isinstance(key.constant, str) else "*"
                self.record(Operation.DELETE, path.parent().step(name), node, target, verb="del")
            else:
                self.record(
                    Operation.MUTATE,
                    path.step(ITEM),
                    node,
                    target,
                    declared=base.kinds,
                    owner=self._owner(path),
                    verb="del",
                    inputs=key.inputs,
                )

    # Operators and displays

    def _binary(self, node: ast.BinOp, mode: int) -> Value:
        # Long sums are deep on the left only: walked without recursion.
        rest: list[ast.BinOp] = []
        current: ast.expr = node
        while isinstance(current, ast.BinOp):
            rest.append(current)
            current = current.left
        result = self.expression(current)
        for operator in reversed(rest):
            right = self.expression(operator.right)
            kinds = result.kinds | right.kinds
            if kinds & Kind.ANY_TENSOR:
                kinds = Kind.TENSOR
            elif kinds & Kind.LIST and not kinds & Kind.UNKNOWN:
                kinds = Kind.LIST
            element = None
            if kinds & (Kind.LIST | Kind.TUPLE | Kind.DICT):
                parts = [part for part in (result.elements(), right.elements()) if part is not None]
                element = join_all(parts) if parts else None
            result = Value(
                kinds & ~(Kind.NONE | Kind.MODULE),
                element=element,
                inputs=result.inputs or right.inputs,
                about=result.about + right.about,
            )
        return result

    def _unary(self, node: ast.UnaryOp, mode: int) -> Value:
        if isinstance(node.op, ast.Not):
            test = self.test(node)
            return Value(Kind.BOOL, test=test)
        value = self.expression(node.operand)
        constant = -value.constant if isinstance(node.op, ast.USub) and isinstance(value.constant, (int, float)) else None
        return Value(Kind.TENSOR if value.kinds & Kind.ANY_TENSOR else value.kinds, constant=constant, inputs=value.inputs)

    def _compare(self, node: ast.Compare, mode: int) -> Value:
        value, test = self._compared(node)
        return Value(value.kinds, inputs=value.inputs, test=test)

    def _boolean(self, node: ast.BoolOp, mode: int) -> Value:
        values, test = self._combined(node, mode)
        joined = join_all(values)
        return Value(
            joined.kinds,
            joined.paths,
            joined.classes,
            joined.objects,
            joined.element,
            joined.items,
            None,
            joined.inputs,
            joined.about,
            test,
        )

    def _conditional(self, node: ast.IfExp, mode: int) -> Value:
        test = self.test(node.test)
        ways = []
        for facts, branch in ((test.true, node.body), (test.false, node.orelse)):
            if not facts.dead:
                depth = len(self.facts)
                self.push(facts)
                ways.append(self.evaluate(branch, mode))
                del self.facts[depth:]
                del self.blocks[depth:]
        return join_all(ways)

    def _lambda(self, node: ast.Lambda, mode: int) -> Value:
        current = self.now.function
        function = Function("<lambda>", node, current.file, current.offset, current.owner, self.now.environment)
        return Value(Kind.FUNCTION, objects=(function,))

    def _display(self, node: ast.List | ast.Tuple | ast.Set, mode: int) -> Value:
        kinds = Kind.LIST if isinstance(node, ast.List) else Kind.TUPLE if isinstance(node, ast.Tuple) else Kind.SET
        items: list[Value] = []
        exact = len(node.elts) <= _LONGEST and not isinstance(node, ast.Set)
        for item in node.elts:
            if isinstance(item, ast.Starred):
                items.append(self.element_of(self.expression(item.value)))
                exact = False
            else:
                items.append(self.evaluate(item, USED if mode == USED else ALIAS))
        inputs = any(item.inputs for item in items)
        if exact and items:
            # A list can grow: what it holds is known one by one only while nothing was added.
            return Value(kinds, items=tuple(items), inputs=inputs)
        return Value(kinds, element=join_all(items) if items else None, inputs=inputs)

    def _dict(self, node: ast.Dict, mode: int) -> Value:
        values = []
        inputs = False
        for key, item in zip(node.keys, node.values):
            value = self.expression(item)
            if key is None:
                value = self.element_of(value)
            else:
                inputs = self.expression(key).inputs or inputs
            values.append(value)
            inputs = inputs or value.inputs
        return Value(Kind.DICT, element=join_all(values) if values else None, inputs=inputs)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, mode: int) -> Value:
        environment = self.now.environment
        before = dict(environment.names)
        inputs = False
        for generator in node.generators:
            iterated = self.alias(generator.iter)
            self.touch(iterated, used=True)
            inputs = inputs or iterated.inputs
            self.store(generator.target, self.iterate(iterated, generator.iter), generator.iter)
            for condition in generator.ifs:
                self.test(condition)
        if isinstance(node, ast.DictComp):
            inputs = self.expression(node.key).inputs or inputs
            element = self.expression(node.value)
        else:
            element = self.expression(node.elt)
        walrus = {name: value for name, value in environment.names.items() if name not in before}
        bound = {item.id for generator in node.generators for item in ast.walk(generator.target) if isinstance(item, ast.Name)}
        environment.names.clear()
        environment.names.update(before)
        environment.names.update({name: value for name, value in walrus.items() if name not in bound})
        kinds = Kind.SET if isinstance(node, ast.SetComp) else Kind.DICT if isinstance(node, ast.DictComp) else Kind.LIST
        return Value(kinds, element=element, inputs=inputs or element.inputs)

    def _joined_string(self, node: ast.JoinedStr, mode: int) -> Value:
        parts = []
        inputs = False
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.expression(part.value)
                inputs = inputs or value.inputs
                plain = isinstance(value.constant, (str, int)) and part.format_spec is None
                parts.append(str(value.constant) if plain else "*")
            elif isinstance(part, ast.Constant):
                parts.append(str(part.value))
        return Value(Kind.STRING, constant="".join(parts), inputs=inputs)

    def _named(self, node: ast.NamedExpr, mode: int) -> Value:
        value = self.alias(node.value)
        self.store(node.target, value, node)
        self._seen(value, mode)
        return value

    def _starred(self, node: ast.Starred, mode: int) -> Value:
        return self.element_of(self.expression(node.value))

    def _yield(self, node: ast.Yield, mode: int) -> Value:
        self.now.yields.append(self.expression(node.value) if node.value is not None else NONE)
        return INPUT

    def _yield_from(self, node: ast.YieldFrom, mode: int) -> Value:
        self.now.yields.append(self.element_of(self.expression(node.value)))
        return INPUT

    def _await(self, node: ast.Await, mode: int) -> Value:
        return self.evaluate(node.value, mode)

    def _slice(self, node: ast.Slice, mode: int) -> Value:
        parts = [self.expression(part) for part in (node.lower, node.upper, node.step) if part is not None]
        return Value(Kind.OBJECT, inputs=any(part.inputs for part in parts))

    # Tests

    def test(self, node: ast.expr) -> Test:
        """What holds where an expression is true, and where it is false."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.test(node.operand)
            return Test(inner.false, inner.true)
        if isinstance(node, ast.BoolOp):
            return self._combined(node, USED)[1]
        if isinstance(node, ast.Compare):
            return self._compared(node)[1]
        if isinstance(node, ast.Constant):
            return ALWAYS if node.value else NEVER
        if isinstance(node, ast.Name) and node.id == "TYPE_CHECKING":
            return NEVER
        return self._truth(self.expression(node))

    def narrowed(self, node: ast.expr) -> list[tuple[str, Value]]:
        """The local names that a test says the class of: `isinstance(module, Cache)`, alone or beside others."""
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            return [pair for item in node.values for pair in self.narrowed(item)]
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Name)
            or node.func.id != "isinstance"
            or len(node.args) != 2
            or not isinstance(node.args[0], ast.Name)
        ):
            return []
        value = self.name(node.args[0].id)
        if any(isinstance(info, ClassInfo) for info in value.classes) or value.objects:
            return []
        wanted = self.receiver(node.args[1])
        known = [item for part in wanted.items or (wanted,) for item in part.objects if isinstance(item, ClassObject)]
        if not known:
            return []
        instance = join_all(instance_of(item.info) for item in known)
        kinds = instance.kinds if value.kinds & Kind.UNKNOWN or instance.kinds & Kind.MODULE else value.kinds | instance.kinds
        return [(node.args[0].id, Value(kinds, value.paths, instance.classes, inputs=value.inputs))]

    def _truth(self, value: Value) -> Test:
        if value.test is not None:
            return value.test
        for item in value.objects:
            if isinstance(item, External) and item.dotted.endswith("TYPE_CHECKING"):
                return NEVER
        if not value.paths:
            if value.kinds == Kind.NONE or value.constant is False:
                return NEVER
            if value.constant is True or _certain_object(value):
                return ALWAYS
        for path in value.paths:
            if path.steps and path.steps[-1] == "training" and path.root is not Root.GLOBAL:
                return TRAINING
        if value.kinds & ~(Kind.BOOL | Kind.NUMBER):
            checks = tuple(Check(path, "missing") for path in value.paths)
        else:
            checks = ()
        sizes = tuple(Check(path, "size") for path in value.about)
        if checks or sizes:
            return Test(Facts(checks=sizes), Facts(checks=checks + sizes))
        return NO_TEST

    def _combined(self, node: ast.BoolOp, mode: int) -> tuple[list[Value], Test]:
        values = []
        tests = []
        depth = len(self.facts)
        for item in node.values:
            value = self.evaluate(item, max(mode, ALIAS))
            values.append(value)
            test = self._truth(value) if not isinstance(item, ast.Constant) else ALWAYS if item.value else NEVER
            tests.append(test)
            # The next operand is only looked at where this one was true (`and`) or false (`or`).
            self.push(test.true if isinstance(node.op, ast.And) else test.false)
        del self.facts[depth:]
        del self.blocks[depth:]
        true, false = tests[0]
        for test in tests[1:]:
            if isinstance(node.op, ast.And):
                true, false = true.both(test.true), false.either(test.false)
            else:
                true, false = true.either(test.true), false.both(test.false)
        return values, Test(true, false)

    def _compared(self, node: ast.Compare) -> tuple[Value, Test]:
        left = self.expression(node.left)
        true, false = NO_FACTS, NO_FACTS
        inputs = left.inputs
        kinds = left.kinds
        for operator, right_node in zip(node.ops, node.comparators):
            membership = isinstance(operator, (ast.In, ast.NotIn))
            right = self.expression(right_node)
            inputs = inputs or right.inputs
            kinds |= right.kinds
            if membership:
                yes, no = NO_FACTS, Facts(checks=self._member_checks(left, right))
                if isinstance(operator, ast.NotIn):
                    yes, no = no, yes
            else:
                yes, no = self._comparison(operator, left, right)
            true, false = true.both(yes), false.either(no) if false is not NO_FACTS else no
            left = right
        tensor = kinds & Kind.ANY_TENSOR and not isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn))
        return Value(Kind.TENSOR if tensor else Kind.BOOL, inputs=inputs), Test(true, false)

    def _member_checks(self, key: Value, container: Value) -> tuple[Check, ...]:
        checks = []
        for path in container.paths:
            if path.steps and path.steps[-1] in ("__dict__", *MODULE_DICTS):
                path = path.parent().step(str(key.constant) if isinstance(key.constant, str) else "*")
            checks.append(Check(path, "missing"))
        return tuple(checks) + tuple(Check(path, "missing") for path in container.about)

    def _comparison(self, operator: ast.cmpop, left: Value, right: Value) -> tuple[Facts, Facts]:
        if left is NONE or right is NONE:
            subject = right if left is NONE else left
            if not subject.paths and isinstance(operator, (ast.Is, ast.IsNot)):
                known = ALWAYS if subject.kinds == Kind.NONE else NEVER if _certain_object(subject) else None
                if known is not None:
                    return known if isinstance(operator, ast.Is) else Test(known.false, known.true)
            facts = Facts(checks=tuple(Check(path, "missing") for path in subject.paths))
            same = isinstance(operator, (ast.Is, ast.Eq))
            return (facts, NO_FACTS) if same else (NO_FACTS, facts)
        checks = [Check(path, "size") for path in left.about + right.about]
        checks += [Check(path, "compare") for path in left.paths + right.paths]
        if not checks:
            for side in (left, right):
                # `self.training is True`, `self.training == False`
                if side.test is not None:
                    return side.test.true, side.test.false
            return NO_FACTS, NO_FACTS
        facts = Facts(checks=tuple(checks))
        if any(path.steps and path.steps[-1] == "training" for path in left.paths):
            wanted = right.constant is not False
            yes, no = TRAINING if wanted else (TRAINING.false, TRAINING.true)
            return (yes, no) if isinstance(operator, (ast.Is, ast.Eq)) else (no, yes)
        if isinstance(operator, (ast.Eq, ast.Is)):
            # `len(self.cache) == 0`, `self.table.numel() == 0`: empty is missing.
            empty = left.about and right.constant == 0
            return (Facts(checks=tuple(Check(path, "missing") for path in left.about)), facts) if empty else (NO_FACTS, facts)
        if isinstance(operator, (ast.NotEq, ast.IsNot)):
            return facts, NO_FACTS
        return facts, facts

    def handler_facts(self, handler: ast.ExceptHandler, tried: list[Path]) -> Facts:
        """`except AttributeError:` around a read asks whether the state is there."""
        if handler.type is None:
            caught = {"Exception"}
        else:
            nodes = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            caught = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in nodes}
        if caught.isdisjoint(_MISSING_ERRORS):
            return NO_FACTS
        return Facts(checks=tuple(Check(path, "missing") for path in dict.fromkeys(tried)))

    # Calls

    def _call(self, node: ast.Call, mode: int) -> Value:
        return calls.evaluate(self, node, mode)

    def call(self, value: Value, args: Sequence[Value], kwargs: dict[str, Value], node: ast.AST | None) -> Value:
        """Call a value."""
        return calls.call(self, value, args, kwargs, node)

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

    def entered(self, manager: Value) -> Value:
        """What `with manager as target` binds, where the manager's `__enter__` is not the project's: itself, or what a generator yields."""
        if manager.kinds & Kind.LIST and manager.element is not None and not manager.paths:
            return manager.element
        return manager if manager.paths or manager.objects else UNKNOWN

    def pass_out(self, args: Sequence[Value], kwargs: dict[str, Value]) -> None:
        """Hand values to code that is not walked: their state is used."""
        for value in (*args, *kwargs.values()):
            self.touch_whole(value)
            if value.items:
                self.pass_out(value.items, {})

    def touch_whole(self, value: Value) -> None:
        """Note that all of what a value holds may be read: it is called, or code that is not walked has it."""
        for path in value.paths:
            if path.steps or path.root not in (Root.SELF, Root.ARGUMENT):
                self.read(path.step(WHOLE) if value.kinds & ~(Kind.PYTHON | Kind.ANY_TENSOR) else path, used=True)

    def touch_called(self, value: Value) -> None:
        """Note that a module is called: what its methods may read of it is read."""
        self.touch_whole(value)
        if self.recorder is None or not value.classes:
            return
        names: frozenset[str] | None = frozenset()
        for info in value.classes:
            own = info.read_names() if isinstance(info, ClassInfo) else None
            names = None if own is None or names is None else names | own
        for path in value.paths:
            known = self.recorder.seen_of.get(path, names)
            self.recorder.seen_of[path] = None if known is None or names is None else known | names

    _EXPRESSIONS: dict[type, Callable[[Expressions, ast.expr, int], Value]] = {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.Call: _call,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.Compare: _compare,
        ast.BoolOp: _boolean,
        ast.IfExp: _conditional,
        ast.Lambda: _lambda,
        ast.List: _display,
        ast.Tuple: _display,
        ast.Set: _display,
        ast.Dict: _dict,
        ast.ListComp: _comprehension,
        ast.SetComp: _comprehension,
        ast.GeneratorExp: _comprehension,
        ast.DictComp: _comprehension,
        ast.JoinedStr: _joined_string,
        ast.NamedExpr: _named,
        ast.Starred: _starred,
        ast.Yield: _yield,
        ast.YieldFrom: _yield_from,
        ast.Await: _await,
        ast.Slice: _slice,
    }  # type: ignore[dict-item]


def _certain_object(value: Value) -> bool:
    """Whether a value is a function, a class or an object made here, and so neither None nor false."""
    return bool(value.objects) and not value.kinds & (Kind.NONE | Kind.UNKNOWN | Kind.CONTAINER) and not value.paths


__all__ = ["ALIAS", "BOOL", "NUMBER", "RECEIVER", "SPREAD", "STRING", "USED", "BoundMethod", "Environment", "Expressions"]

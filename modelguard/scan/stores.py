"""Binding and deleting: what becomes of names, attributes and items that are assigned to."""

from __future__ import annotations

import ast

from modelguard.observation import Kind, Operation, Root
from modelguard.scan.access import Access
from modelguard.scan.bindings import tensor_index
from modelguard.scan.paths import ITEM, Path
from modelguard.scan.symbols import ClassInfo, GlobalName
from modelguard.scan.tables import INSTANCE_DICTS, MODULE_DICTS
from modelguard.scan.values import FEW, ClassObject, Function, Instance, ModuleObject, Value, join, tensor_like, union


class Stores(Access):
    """Names, attributes and items, bound and deleted."""

    # Any target

    def store(self, target: ast.expr, value: Value, node: ast.stmt | ast.expr, operation: Operation = Operation.REBIND) -> None:
        """Bind a target."""
        if isinstance(target, ast.Name):
            self._store_name(target, value, node, operation)
        elif isinstance(target, ast.Attribute):
            base = self.receiver(target.value)
            self.store_attribute(base, target.attr, value, node, target, operation)
            if isinstance(node, ast.Assign):
                self._now_state(node.value, base, target.attr)
        elif isinstance(target, ast.Subscript):
            self.store_item(self.receiver(target.value), target, value, node)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for index, item in enumerate(target.elts):
                if isinstance(item, ast.Starred):
                    rest = Value(Kind.LIST, element=self.element_of(value), inputs=value.inputs)
                    self.store(item.value, rest, node)
                else:
                    self.store(item, self._part(value, index, target), node)

    def target_paths(self, target: ast.expr) -> tuple[Path, ...]:
        """The state that an assignment to a target binds."""
        if isinstance(target, ast.Attribute):
            base = self.receiver(target.value)
            return tuple(path.step(target.attr) for path in base.paths)
        if isinstance(target, ast.Subscript):
            return tuple(self._item_path(path, target.slice) for path in self.receiver(target.value).paths)
        if isinstance(target, (ast.Tuple, ast.List)):
            return tuple(path for item in target.elts for path in self.target_paths(item))
        return ()

    def _item_path(self, path: Path, index: ast.expr) -> Path:
        """The path of an item; an item of an instance's `__dict__` or `_buffers` is an attribute."""
        if path.steps and path.steps[-1] in INSTANCE_DICTS:
            return path.parent().step(index.value if isinstance(index, ast.Constant) and isinstance(index.value, str) else "*")
        return path.step(ITEM)

    def _part(self, value: Value, index: int, target: ast.Tuple | ast.List) -> Value:
        if value.items is not None and not any(isinstance(item, ast.Starred) for item in target.elts):
            if index < len(value.items):
                return value.items[index]
        elif value.items is not None and len(value.items) >= len(target.elts) - 1:
            star = next(place for place, item in enumerate(target.elts) if isinstance(item, ast.Starred))
            return value.items[index if index < star else index - len(target.elts)]
        return self.element_of(value)

    # Names

    def _now_state(self, source: ast.expr, base: Value, attribute: str) -> None:
        """`self.mask = mask`: from here on the local name means the state too."""
        if isinstance(source, ast.Name) and source.id in self.now.environment.names:
            value = self.now.environment.names[source.id]
            if value.kinds & (Kind.ANY_TENSOR | Kind.CONTAINER | Kind.OBJECT) and not value.kinds & Kind.MODULE:
                paths = tuple(path.step(attribute) for path in base.paths)
                self.now.environment.names[source.id] = value.with_paths(union(value.paths, paths))

    def _store_name(self, target: ast.Name, value: Value, node: ast.AST, operation: Operation) -> None:
        name = target.id
        if name in self.now.globals:
            path = Path(Root.GLOBAL, name, self.now.function.file.path, ())
            self.record(operation, path, node, target, value=value, declared=self._global_kinds(name), owner=Kind.NOTHING)
            return
        if name in self.now.nonlocals and self.now.environment.outer is not None:
            holder = self.now.environment.outer.holder(name)
            if holder is not None:
                if holder.persistent:
                    known = holder.names[name]
                    path = Path(Root.CLOSURE, name, holder.scope, ())
                    self.record(operation, path, node, target, value=value, declared=known.kinds, owner=Kind.NOTHING)
                else:
                    holder.names[name] = join(holder.names[name], value)
                return
        self.now.environment.names[name] = value

    def _global_kinds(self, name: str) -> int:
        """The kinds of a global of the file being walked."""
        symbol = self.world.project.resolve(self.now.function.file, name)
        return self.world.attributes.global_value(symbol).kinds if isinstance(symbol, GlobalName) else Kind.UNKNOWN

    # Attributes

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
                path = Path(Root.GLOBAL, item.name, item.scope, (name,))
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
        if name == "data" and base.paths and tensor_like(base):
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
                self.record(
                    Operation.REGISTER, inner, node, target, value=Value(Kind.FUNCTION, objects=value.objects), owner=base.kinds
                )
            else:
                self.record(operation, inner, node, target, value=value, owner=base.kinds)

    # Items

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
            if last in INSTANCE_DICTS:
                inner = path.parent().step(key.key_name)
                kinds = MODULE_DICTS.get(last, 0)
                if kinds == Kind.MODULE:
                    self.record(Operation.REGISTER, inner, node, target, value=value, verb="add_module")
                else:
                    declared = self.kinds_of(inner) | kinds
                    self.record(Operation.REBIND, inner, node, target, value=value, declared=declared, inputs=inputs)
                continue
            kinds = base.kinds
            if len(base.paths) > FEW and not kinds & Kind.ANY_TENSOR:
                continue
            indexed = not kinds & Kind.MODULE and tensor_index(target.slice)
            if not kinds & Kind.CONTAINER and (kinds & Kind.ANY_TENSOR or indexed):
                self.record(Operation.IN_PLACE, path, node, target, value=value, declared=kinds, verb="[...] =", inputs=inputs)
            else:
                self.record(
                    Operation.ITEM,
                    path.step(ITEM),
                    node,
                    target,
                    value=value,
                    declared=kinds,
                    inputs=inputs,
                )

    def delete_item(self, base: Value, target: ast.Subscript, node: ast.AST) -> None:
        """`del base[key]`."""
        key = self.expression(target.slice)
        if self.special(base, "__delitem__", [key], node) is not None:
            return
        for path in base.paths:
            last = path.steps[-1] if path.steps else ""
            if last in INSTANCE_DICTS:
                self.record(Operation.DELETE, path.parent().step(key.key_name), node, target, verb="del")
            else:
                self.record(
                    Operation.MUTATE,
                    path.step(ITEM),
                    node,
                    target,
                    declared=base.kinds,
                    verb="del",
                    inputs=key.inputs,
                )

"""The walk of statements: assignments, branches (both, then joined), loops, handlers."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from modelguard.observation import Kind, Operation, Root
from modelguard.scan.conditions import handler_facts
from modelguard.scan.expressions import Expressions
from modelguard.scan.paths import ITEM, NO_FACTS, Facts, Path
from modelguard.scan.symbols import ClassInfo, ExternalClass
from modelguard.scan.tables import LOG_METHODS
from modelguard.scan.values import NONE, NOTHING, UNKNOWN, ClassObject, Environment, Function, Value, join, tensor_like

_UNROLLED = 8
"""Items up to which a loop over a known tuple is walked item by item."""

_Way = tuple[dict[str, Value], frozenset[Path]]
"""How one way through a statement ends: what the names are, and what was written."""


class Statements(Expressions):
    """Statements, one by one."""

    if TYPE_CHECKING:
        # What the walk adds.
        def decorate(self, function: Function, environment: Environment | None) -> Value: ...

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Walk statements in order; whether control leaves the block before its end on every way."""
        depth = len(self.facts)
        try:
            for node in body:
                if self.statement(node):
                    return True
            return False
        finally:
            self.pop_to(depth)

    def statement(self, node: ast.stmt) -> bool:
        """Walk one statement; whether control does not reach the next one."""
        self.statements += 1
        handler = self._HANDLERS.get(type(node))
        return handler is not None and handler(self, node) is True

    # Assignments

    def _expr(self, node: ast.Expr) -> None:
        self.expression(node.value, used=False)

    def _assign(self, node: ast.Assign) -> None:
        value = self._assigned(node.targets, node.value)
        for target in node.targets:
            self.store(target, value, node)

    def _ann_assign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            value = self._assigned([node.target], node.value)
            if isinstance(node.target, ast.Attribute):
                declared = self.world.attributes.annotation(self.now.function.file, node.annotation)
                if value.kinds & Kind.UNKNOWN and declared.kinds != Kind.UNKNOWN:
                    value = join(Value(declared.kinds, classes=declared.classes, element=declared.element), value)
            self.store(node.target, value, node)

    def _assigned(self, targets: Sequence[ast.expr], node: ast.expr) -> Value:
        """The right-hand side of an assignment: what it reads only to update itself is no use of it."""
        # `self.h = out = f(self.h)`: what also gets a local name does not only feed itself.
        own = not any(isinstance(target, ast.Name) for target in targets)
        paths = tuple(path for target in targets for path in self.target_paths(target)) if own else ()
        feeding, self.feeding = self.feeding, paths
        storing = self.storing
        self.storing = storing or any(not isinstance(target, ast.Name) for target in targets)
        try:
            if all(isinstance(target, ast.Name) for target in targets):
                return self.alias(node)
            return self.expression(node)
        finally:
            self.feeding = feeding
            self.storing = storing

    def _aug_assign(self, node: ast.AugAssign) -> None:
        target = node.target
        feeding, self.feeding = self.feeding, self.target_paths(target)
        value = self.expression(node.value)
        self.feeding = feeding
        if isinstance(target, ast.Name):
            self._augment_name(target, value, node)
        elif isinstance(target, ast.Attribute):
            base = self.receiver(target.value)
            if target.attr == "data" and tensor_like(base):
                for path in base.paths:
                    self.record(Operation.SWAP, path, node, target, value=value, verb="augmented data")
                return
            # A property is read before its setter runs.
            self.attribute(base, target.attr, target)
            for path in base.paths:
                self.read(path.step(target.attr), used=False)
            self.store_attribute(base, target.attr, value, node, target, Operation.AUGMENT)
        elif isinstance(target, ast.Subscript):
            base = self.receiver(target.value)
            for path in base.paths:
                self.read(path.step(ITEM), used=False)
            self.store_item(base, target, value, node)

    def _augment_name(self, target: ast.Name, value: Value, node: ast.AugAssign) -> None:
        """`x += y` on a local name: in place on what it is an alias of, where that is a tensor or a container."""
        current = self.name(target.id)
        declared = current.kinds
        if current.paths and declared & (Kind.ANY_TENSOR | Kind.LIST | Kind.DICT | Kind.SET | Kind.DEQUE):
            in_place = declared & Kind.ANY_TENSOR
            for path in current.paths:
                if in_place:
                    self.record(Operation.IN_PLACE, path, node, target, value=value, declared=declared, verb=_operator(node))
                elif path.root is not Root.ARGUMENT:
                    self.record(Operation.MUTATE, path, node, target, value=value, declared=declared, verb=_operator(node))
            return
        holder = self.now.environment.holder(target.id)
        if target.id in self.now.nonlocals or target.id in self.now.globals:
            self.touch(current, used=False)
            self.store(target, join(current, value), node, Operation.AUGMENT)
        elif holder is not None:
            kinds = current.kinds | value.kinds
            holder.names[target.id] = Value(
                kinds, inputs=current.inputs or value.inputs, element=current.element or value.element
            )

    def _delete(self, node: ast.Delete) -> None:
        targets = list(node.targets)
        while targets:
            target = targets.pop(0)
            if isinstance(target, (ast.Tuple, ast.List)):
                targets = [*target.elts, *targets]
            elif isinstance(target, ast.Attribute):
                base = self.receiver(target.value)
                for path in base.paths:
                    self.record(Operation.DELETE, path.step(target.attr), node, target, owner=base.kinds, verb="del")
            elif isinstance(target, ast.Subscript):
                self.delete_item(self.receiver(target.value), target, node)
            elif isinstance(target, ast.Name) and target.id in self.now.globals:
                path = Path(Root.GLOBAL, target.id, self.now.function.file.path, ())
                self.record(Operation.DELETE, path, node, target, owner=Kind.NOTHING, verb="del")

    # Branches and loops

    def _return(self, node: ast.Return) -> bool:
        # What a helper hands back is used where its caller uses it.
        read = self.alias if len(self.stack) > 1 else self.expression
        self.now.returns.append(read(node.value) if node.value is not None else NONE)
        self.now.definite.append(self.definite)
        return True

    def _raise(self, node: ast.Raise) -> bool:
        if node.exc is not None:
            with self.mute():
                self.expression(node.exc)
        return True

    def _leave(self, node: ast.stmt) -> bool:
        return True

    def _if(self, node: ast.If) -> bool:
        checking, self.checking = self.checking, not node.orelse and _only_complains(node.body)
        test = self.test(node.test)
        self.checking = checking
        names = self.now.environment.names
        before, definite = dict(names), self.definite
        narrowed = self.narrowed(node.test)
        names.update(narrowed)
        body_leaves = self._branch(node.body, test.true)
        for name, value in narrowed:
            if names.get(name) is value:
                names[name] = before[name]
        after, after_definite = dict(names), self.definite
        self._restore(before)
        names.update(self.excluded(node.test))
        self.definite = definite
        else_leaves = self._branch(node.orelse, test.false) if node.orelse or test.false.dead else False
        if body_leaves and else_leaves:
            return True
        if body_leaves:
            self.push(test.false)
        elif else_leaves:
            self._restore(after)
            self.definite = after_definite
            self.push(test.true)
        else:
            self._join_names(after)
            self.definite &= after_definite
        return False

    def _branch(self, body: Sequence[ast.stmt], facts: Facts) -> bool:
        if facts.dead:
            return True
        depth = len(self.facts)
        self.push(facts)
        # A step that fails is not captured, whatever it does before.
        fails = bool(body) and isinstance(body[-1], ast.Raise)
        self.muted += fails
        try:
            return self.block(body)
        finally:
            self.muted -= fails
            self.pop_to(depth)

    def _restore(self, names: dict[str, Value]) -> None:
        self.now.environment.names.clear()
        self.now.environment.names.update(names)

    def _join_names(self, other: dict[str, Value]) -> None:
        names = self.now.environment.names
        for name, value in other.items():
            mine = names.get(name)
            if mine is not value:
                names[name] = value if mine is None else join(mine, value)

    def _join_ways(self, ways: Sequence[_Way]) -> None:
        """Go on after a statement that may end in several ways."""
        self._restore(ways[0][0])
        self.definite = ways[0][1]
        for names, written in ways[1:]:
            self._join_names(names)
            self.definite &= written

    def _for(self, node: ast.For | ast.AsyncFor) -> bool:
        iterated = self.alias(node.iter)
        self.touch(iterated, used=True)
        if iterated.items is not None and len(iterated.items) <= _UNROLLED:
            for item in iterated.items:
                self._iteration(node.target, item, node.body, node)
        else:
            before = self.definite
            self._loop(node.target, self.iterate(iterated, node), node.body, node)
            # What is written on every item of the state looped over is written once the loop is done.
            self.definite = before | {path for path in self.looped if any(each.covers(path) for each in iterated.paths)}
        self.block(node.orelse)
        return False

    def _while(self, node: ast.While) -> bool:
        test = self.test(node.test)
        depth = len(self.facts)
        self.push(test.true)
        try:
            self._loop(None, NOTHING, node.body, node)
        finally:
            self.pop_to(depth)
        self.block(node.orelse)
        return False

    def _loop(self, target: ast.expr | None, item: Value, body: Sequence[ast.stmt], node: ast.stmt) -> None:
        """Twice over the body where the first time changed what a name is part of; then joined with no time at all."""
        before, definite = dict(self.now.environment.names), self.definite
        self._iteration(target, item, body, node)
        names = self.now.environment.names
        if any(
            name in before and before[name] is not value and value.paths != before[name].paths for name, value in names.items()
        ):
            self._join_names(before)
            self._iteration(target, item, body, node)
        self._join_names(before)
        self.looped = self.definite
        self.definite = definite

    def _iteration(self, target: ast.expr | None, item: Value, body: Sequence[ast.stmt], node: ast.stmt) -> None:
        before = dict(self.now.environment.names)
        if target is not None:
            self.store(target, item, node)
        if self.block(body):
            self._join_names(before)

    def _with(self, node: ast.With | ast.AsyncWith) -> bool:
        managers = []
        for item in node.items:
            manager = self.expression(item.context_expr)
            managers.append((manager, item.context_expr))
            entered = self.special(manager, "__enter__", [], item.context_expr) or self.special(
                manager, "__aenter__", [], item.context_expr
            )
            if item.optional_vars is not None:
                bound = entered if entered is not None else _entered(manager)
                self.store(item.optional_vars, bound, node)
        leaves = self.block(node.body)
        for manager, where in reversed(managers):
            nothing = [NONE, NONE, NONE]
            if self.special(manager, "__exit__", nothing, where) is None:
                self.special(manager, "__aexit__", nothing, where)
        return leaves

    def _try(self, node: ast.Try) -> bool:
        before, definite = dict(self.now.environment.names), self.definite
        reads = self.trying
        self.trying = []
        leaves = self.block(node.body)
        tried, self.trying = self.trying, reads
        leaves = self.block(node.orelse) or leaves
        ways = [] if leaves else [(dict(self.now.environment.names), self.definite)]
        for handler in node.handlers:
            self._restore(before)
            self.definite = definite
            if handler.name:
                self.now.environment.names[handler.name] = UNKNOWN
            with self.mute():
                leaves = self._branch(handler.body, handler_facts(handler, tried))
            if not leaves:
                ways.append((dict(self.now.environment.names), self.definite))
        if ways:
            self._join_ways(ways)
        return self.block(node.finalbody) or not ways

    def _match(self, node: ast.Match) -> bool:
        subject = self.expression(node.subject)
        before, definite = dict(self.now.environment.names), self.definite
        ways = []
        total = False
        for case in node.cases:
            self._restore(before)
            self.definite = definite
            for pattern in ast.walk(case.pattern):
                name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
                if isinstance(name, str):
                    self.now.environment.names[name] = join(subject, self.element_of(subject))
            facts = self.test(case.guard).true if case.guard is not None else NO_FACTS
            total = total or (case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None)
            if not self._branch(case.body, facts):
                ways.append((dict(self.now.environment.names), self.definite))
        if not total:
            ways.append((before, definite))
        if not ways:
            return True
        self._join_ways(ways)
        return False

    # Declarations

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        current = self.now
        function = Function(
            node.name, node, current.function.file, current.function.offset, current.function.owner, current.environment
        )
        current.environment.names[node.name] = self.decorate(function, current.environment)

    def _class(self, node: ast.ClassDef) -> None:
        symbol = self.world.project.resolve(self.now.function.file, node.name)
        if isinstance(symbol, (ClassInfo, ExternalClass)):
            self.now.environment.names[node.name] = Value(Kind.OBJECT, objects=(ClassObject(symbol),))
            self.enclosing[id(symbol)] = self.now.environment

    def _global(self, node: ast.Global) -> None:
        self.now.globals.update(node.names)

    def _nonlocal(self, node: ast.Nonlocal) -> None:
        self.now.nonlocals.update(node.names)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self.now.environment.names.pop(name, None)

    def _assert(self, node: ast.Assert) -> None:
        checking, self.checking = self.checking, True
        self.test(node.test)
        self.checking = checking

    _HANDLERS: ClassVar[dict[type, Callable[[Any, Any], bool | None]]] = {
        ast.Expr: _expr,
        ast.Assign: _assign,
        ast.AnnAssign: _ann_assign,
        ast.AugAssign: _aug_assign,
        ast.Delete: _delete,
        ast.Return: _return,
        ast.Raise: _raise,
        ast.Break: _leave,
        ast.Continue: _leave,
        ast.If: _if,
        ast.For: _for,
        ast.AsyncFor: _for,
        ast.While: _while,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Try: _try,
        ast.FunctionDef: _function,
        ast.AsyncFunctionDef: _function,
        ast.ClassDef: _class,
        ast.Global: _global,
        ast.Nonlocal: _nonlocal,
        ast.Import: _import,
        ast.ImportFrom: _import,
        ast.Assert: _assert,
        ast.Match: _match,
    }
    if sys.version_info >= (3, 11):
        _HANDLERS[ast.TryStar] = _try


def _only_complains(body: Sequence[ast.stmt]) -> bool:
    """Whether a block only fails or writes a log: what the step computes does not depend on it."""
    return all(
        isinstance(node, (ast.Raise, ast.Pass, ast.Assert))
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _complains(node.value.func))
        for node in body
    )


def _complains(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    return name in LOG_METHODS or name == "print"


def _entered(manager: Value) -> Value:
    """What `with` binds where the manager's `__enter__` is not the project's: the manager, or what a generator yields."""
    if manager.kinds & Kind.LIST and manager.element is not None and not manager.paths:
        return manager.element
    return manager if manager.paths or manager.objects else UNKNOWN


def _operator(node: ast.AugAssign) -> str:
    return {"Add": "+=", "Sub": "-=", "Mult": "*=", "Div": "/=", "BitOr": "|=", "BitAnd": "&="}.get(
        type(node.op).__name__, "augmented assignment"
    )

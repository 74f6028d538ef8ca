"""What expressions are: names, operators, displays, tests. Calls are in `calls`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from modelguard.observation import Kind
from modelguard.scan import calls, conditions
from modelguard.scan.attributes import instance_of
from modelguard.scan.bindings import dotted
from modelguard.scan.conditions import ALWAYS, NEVER
from modelguard.scan.obstacles import formatted, indexed, sliced, tested
from modelguard.scan.paths import NO_FACTS, Facts, Path, Test
from modelguard.scan.stores import Stores
from modelguard.scan.symbols import ClassInfo
from modelguard.scan.values import (
    ALIAS,
    DROPPED,
    INPUT,
    NONE,
    RECEIVER,
    UNKNOWN,
    USED,
    Arguments,
    ClassObject,
    External,
    Function,
    Keywords,
    Value,
    computes_tensors,
    is_tensor,
    join_all,
)

_BUILTIN = {
    "builtins.int": Kind.NUMBER,
    "builtins.float": Kind.NUMBER,
    "builtins.bool": Kind.BOOL,
    "builtins.str": Kind.STRING,
    "builtins.list": Kind.LIST,
    "builtins.tuple": Kind.TUPLE,
    "builtins.dict": Kind.DICT,
}
"""What `isinstance` says of what may be a tensor."""

_LONGEST = 16
"""Items up to which a tuple or list is known one by one."""


class Expressions(Stores):
    """Evaluation of expressions."""

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
            self.touch(value, mode == USED)

    # Attributes and items

    def _attribute(self, node: ast.Attribute, mode: int) -> Value:
        base = self.receiver(node.value)
        value = self.attribute(base, node.attr, node)
        self._seen(value, mode)
        if not value.paths and base.paths and mode >= ALIAS:
            # A size, a property: reading it reads the object.
            self.touch(base, used=True)
        return value

    def _subscript(self, node: ast.Subscript, mode: int) -> Value:
        base = self.receiver(node.value)
        key = self.expression(node.slice)
        if self.recorder is not None:
            indexed(self, node, base, key)
        value = self.item(base, key, node, mode)
        self._seen(value, mode)
        if base.about and not value.paths:
            return Value(value.kinds, about=base.about, inputs=value.inputs)
        return value

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
                kinds = self._computed(operator.op, result, right, operator)
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

    def _computed(self, operator: ast.operator, left: Value, right: Value, node: ast.BinOp) -> int:
        """The kinds of what an operator makes of a tensor and something else."""
        if left.kinds == Kind.STRING:
            # `"loss %s" % loss`
            formatted(self, node, right)
            return Kind.STRING
        kinds = Kind.TENSOR
        tensors = [value for value in (left, right) if value.kinds & Kind.ANY_TENSOR]
        if not any(computes_tensors(value) for value in tensors):
            # It may be that none of the two is a tensor after all.
            kinds |= Kind.NUMBER | Kind.UNKNOWN
        if isinstance(operator, (ast.BitAnd, ast.BitOr, ast.BitXor)):
            kinds |= (left.kinds | right.kinds) & Kind.MASK
        if all(value.kinds & Kind.ON_CPU for value in tensors):
            kinds |= Kind.ON_CPU
        return kinds

    def _unary(self, node: ast.UnaryOp, mode: int) -> Value:
        if isinstance(node.op, ast.Not):
            test = self.test(node)
            return Value(Kind.BOOL, test=test)
        value = self.expression(node.operand)
        constant = -value.constant if isinstance(node.op, ast.USub) and isinstance(value.constant, (int, float)) else None
        kinds = value.kinds
        if kinds & Kind.ANY_TENSOR:
            unsure = 0 if computes_tensors(value) else Kind.NUMBER | Kind.UNKNOWN
            kept = Kind.MASK | Kind.ON_CPU if isinstance(node.op, ast.Invert) else Kind.ON_CPU
            kinds = Kind.TENSOR | unsure | (kinds & kept)
        return Value(kinds, constant=constant, inputs=value.inputs)

    def _compare(self, node: ast.Compare, mode: int) -> Value:
        value, test = self._compared(node)
        return Value(value.kinds, inputs=value.inputs, test=test)

    def _boolean(self, node: ast.BoolOp, mode: int, is_test: bool = False) -> Value:
        values, test = self._combined(node, mode, is_test)
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
        names = self.now.environment.names
        before = dict(names)
        ways = []
        for facts, branch, known in (
            (test.true, node.body, self.narrowed(node.test)),
            (test.false, node.orelse, self.excluded(node.test)),
        ):
            if not facts.dead:
                depth = len(self.facts)
                self.push(facts)
                names.update(known)
                ways.append(self.evaluate(branch, mode))
                names.update({name: before[name] for name, _ in known if name in before})
                self.pop_to(depth)
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
        for key, item in zip(node.keys, node.values, strict=True):
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
                formatted(self, part.value, value)
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
        parts = []
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                parts.append(self.expression(part))
                sliced(self, part, parts[-1])
        return Value(Kind.OBJECT, inputs=any(part.inputs for part in parts))

    # Tests

    def test(self, node: ast.expr) -> Test:
        """What holds where an expression is true, and where it is false."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.test(node.operand)
            return Test(inner.false, inner.true)
        if isinstance(node, ast.BoolOp):
            return self._combined(node, USED, is_test=True)[1]
        if isinstance(node, ast.Compare):
            value, test = self._compared(node)
            tested(self, node, value)
            return test
        if isinstance(node, ast.Constant):
            return ALWAYS if node.value else NEVER
        if isinstance(node, ast.Name) and node.id == "TYPE_CHECKING":
            return NEVER
        value = self.expression(node)
        tested(self, node, value)
        return conditions.truth(value)

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
        classes = [item for part in wanted.items or (wanted,) for item in part.objects]
        names = [item.dotted for item in classes if isinstance(item, External)]
        if names == ["torch.Tensor"]:
            return [(node.args[0].id, Value(Kind.TENSOR, value.paths, inputs=value.inputs))]
        if names and value.kinds & Kind.ANY_TENSOR and all(name in _BUILTIN for name in names):
            kinds = join_all(Value(_BUILTIN[name]) for name in names).kinds
            return [(node.args[0].id, Value(kinds, value.paths, element=value.element, inputs=value.inputs))]
        known = [item for item in classes if isinstance(item, ClassObject)]
        if not known:
            return []
        instance = join_all(instance_of(item.info) for item in known)
        kinds = instance.kinds if value.kinds & Kind.UNKNOWN or instance.kinds & Kind.MODULE else value.kinds | instance.kinds
        return [(node.args[0].id, Value(kinds, value.paths, instance.classes, inputs=value.inputs))]

    def excluded(self, node: ast.expr) -> list[tuple[str, Value]]:
        """The local names that are no tensors where a test is false: `torch.is_tensor(x)`, `isinstance(x, torch.Tensor)`."""
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Name):
            return []
        value = self.name(node.args[0].id)
        asks = dotted(node.func)
        if asks == "isinstance" and len(node.args) == 2:
            # Of a tuple of classes it is not known here which it was.
            asks = next((item.dotted for item in self.receiver(node.args[1]).objects if isinstance(item, External)), "")
        if not value.kinds & Kind.ANY_TENSOR or asks not in ("torch.is_tensor", "torch.Tensor"):
            return []
        kinds = (value.kinds & ~(Kind.ANY_TENSOR | Kind.MASK | Kind.ON_CPU)) | Kind.UNKNOWN
        return [(node.args[0].id, Value(kinds, value.paths, value.classes, value.objects, value.element, inputs=value.inputs))]

    def _combined(self, node: ast.BoolOp, mode: int, is_test: bool = False) -> tuple[list[Value], Test]:
        values = []
        tests = []
        depth = len(self.facts)
        for item in node.values:
            asked = is_test or item is not node.values[-1]
            if isinstance(item, ast.BoolOp):
                value = self._boolean(item, max(mode, ALIAS), asked)
            else:
                value = self.evaluate(item, max(mode, ALIAS))
                if asked:
                    tested(self, item, value)
            values.append(value)
            test = conditions.truth(value) if not isinstance(item, ast.Constant) else ALWAYS if item.value else NEVER
            tests.append(test)
            # The next operand is only looked at where this one was true (`and`) or false (`or`).
            self.push(test.true if isinstance(node.op, ast.And) else test.false)
        self.pop_to(depth)
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
        certain = computes_tensors(left)
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            membership = isinstance(operator, (ast.In, ast.NotIn))
            right = self.expression(right_node)
            inputs = inputs or right.inputs
            kinds |= right.kinds
            certain = certain or computes_tensors(right)
            if membership:
                yes, no = NO_FACTS, Facts(checks=conditions.membership(left, right))
                if isinstance(operator, ast.NotIn):
                    yes, no = no, yes
            else:
                yes, no = conditions.comparison(operator, left, right)
            true, false = true.both(yes), false.either(no) if false is not NO_FACTS else no
            left = right
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return Value(Kind.BOOL, inputs=inputs), Test(true, false)
        marks = kinds & (Kind.SIZE | Kind.READ)
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            if is_tensor(left):
                # `0.0 in mask` compares every element, and asks whether one is equal.
                tested(self, node, Value(Kind.TENSOR))
                marks = Kind.READ
            return Value(Kind.BOOL | (marks & Kind.READ), inputs=inputs), Test(true, false)
        if not kinds & Kind.ANY_TENSOR:
            return Value(Kind.BOOL | marks, inputs=inputs), Test(true, false)
        unsure = not certain
        return Value(Kind.TENSOR | Kind.MASK | (Kind.UNKNOWN if unsure else 0), inputs=inputs), Test(true, false)

    # Calls

    def _call(self, node: ast.Call, mode: int) -> Value:
        return calls.evaluate(self, node, mode)

    def call(self, value: Value, args: Arguments, kwargs: Keywords, node: ast.AST | None) -> Value:
        """Call a value."""
        return calls.call(self, value, args, kwargs, node)

    def run_hooks(self, called: Sequence[Path]) -> None:
        """Run the forward hooks of modules that were called, or are children of one that was."""
        waiting = self.pending_hooks
        self.pending_hooks = [
            (hook, module) for hook, module in waiting if not any(path.covers(each) for path in called for each in module.paths)
        ]
        for hook, module in waiting:
            if (hook, module) not in self.pending_hooks:
                self.call(hook, [module, Value(Kind.TUPLE, element=INPUT, inputs=True), INPUT], {}, None)

    _EXPRESSIONS: ClassVar[dict[type, Callable[[Any, Any, int], Value]]] = {
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
    }

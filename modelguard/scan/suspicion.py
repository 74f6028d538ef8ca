"""Whether a function could hold an obstacle to capture, told from its syntax alone: where the walk must be sure, this suspects.

Every expression has one of three levels: nothing of a tensor's (`PLAIN`), at most its size (`SIZED`), perhaps a tensor, or data
that was read from one (`DATA`). A name has the highest level that anything in the function binds it to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple

from modelguard.scan.bindings import dotted
from modelguard.scan.tables import (
    CPU_FACTORIES,
    DATA_SIZED_FUNCTIONS,
    DATA_SIZED_METHODS,
    DISABLERS,
    LOG_METHODS,
    PYTHON_DATA_FUNCTIONS,
    SCRIPTERS,
    SYNCHRONISING_METHODS,
)

PLAIN, SIZED, DATA = range(3)

_CALLED = (
    DATA_SIZED_FUNCTIONS
    | DATA_SIZED_METHODS
    | SYNCHRONISING_METHODS
    | LOG_METHODS
    | PYTHON_DATA_FUNCTIONS
    | frozenset(name.rpartition(".")[2] for name in DISABLERS | SCRIPTERS)
    | frozenset(
        (
            "print input breakpoint warn warn_explicit pprint pp write flush print_exc print_stack set_trace log equal allclose "
            "is_nonzero save synchronize barrier new_tensor pack_padded_sequence pad_packed_sequence graph_break sleep now "
            "utcnow today uuid1 uuid4 urandom time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time "
            "process_time_ns thread_time thread_time_ns localtime gmtime strftime ctime default_timer format"
        ).split()
    )
)
"""Names whose call may be an obstacle, whatever is handed in."""
_ASKED = frozenset("int float complex bool range min max sorted any all str repr".split())
_RANDOM = frozenset("random secrets".split())
_FACTORIES = frozenset(name.rpartition(".")[2] for name in CPU_FACTORIES)
_MOVES = frozenset("to cuda type_as".split())
_PLAIN_CALLS = frozenset("isinstance issubclass hasattr callable type id print super".split())
_SIZES = frozenset("size numel nelement".split())
_PLAIN_ATTRIBUTES = frozenset(
    "dtype device ndim training is_cuda requires_grad layout itemsize config __name__ __class__ is_sparse is_quantized".split()
)
_PLAIN_TYPES = frozenset("bool str Callable dtype device".split())
_ARRAYS = frozenset("math np numpy".split())
"""Modules whose functions read the data of a tensor that they are handed."""
_LIBRARIES = frozenset("torch np numpy math F nn operator functools itertools".split())


class Suspicion(NamedTuple):
    """What a function's syntax gives reason to suspect.

    `certain`: an obstacle, whatever its object is. `asks`: attributes of its object that would have to be tensors for one;
    `carries`: those that would have to be tensors in host memory. `makes`: it makes such; `moves`: it moves tensors to a device.
    """

    certain: bool
    asks: frozenset[str]
    carries: frozenset[str]
    makes: bool
    moves: bool


ANYTHING = Suspicion(True, frozenset(), frozenset(), False, False)
"""What there is to suspect of a function whose syntax is not looked at."""

SURE = (SYNCHRONISING_METHODS | DATA_SIZED_METHODS | frozenset(("warning_once", "new_tensor", "masked_select"))) - frozenset(
    ("unique", "repeat_interleave")
)
"""Names that are hardly there without an obstacle: where a function has one, its syntax need not be looked at."""


def suspicion(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Suspicion:
    """What a function gives reason to suspect."""
    suspect = _Suspect(function)
    certain = suspect.certain()
    return Suspicion(certain, frozenset(suspect.asks), frozenset(suspect.carries), suspect.makes, suspect.moves)


class _Found(Exception):
    """An obstacle was found: there is no need to look further."""


class _Suspect:
    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.body = function.body
        self.asks: set[str] = set()
        self.carries: set[str] = set()
        self.makes = self.moves = self.loops = False
        self.levels: dict[str, int] = {}
        self._parameters(function.args)

    def certain(self) -> bool:
        """Whether something in the function is an obstacle, whatever its object is."""
        try:
            self._block(self.body)
            known: dict[str, int] | None = None
            # What a loop binds below is there when it comes round.
            while self.loops and known != self.levels:
                known = dict(self.levels)
                self._block(self.body)
        except (_Found, RecursionError):
            # What is nested too deeply to be told is left to the walk.
            return True
        return False

    def _parameters(self, arguments: ast.arguments) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults]
        for parameter, default in (
            *zip(positional, defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ):
            flag = isinstance(default, ast.Constant) and isinstance(default.value, (bool, str))
            annotation = parameter.annotation
            plain = flag if annotation is None else _is_plain(annotation)
            self._bind(parameter.arg, PLAIN if plain or parameter.arg in ("self", "config") else DATA)
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                self._bind(rest.arg, DATA)

    def _bind(self, name: str, level: int) -> None:
        if level > self.levels.get(name, -1):
            self.levels[name] = level

    def _bind_target(self, target: ast.expr, level: int) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, level)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for item in target.elts:
                self._bind_target(item, level)
        elif isinstance(target, ast.Starred):
            self._bind_target(target.value, level)
        elif isinstance(target, ast.Subscript):
            self.level(target.value)
            self.level(target.slice)

    def _bind_loop(self, target: ast.expr, iterated: ast.expr) -> None:
        """What a loop binds its target to; a count is a plain number, and each part of a `zip` is bound by its own."""
        name = iterated.func.id if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) else ""
        args = iterated.args if isinstance(iterated, ast.Call) else []
        if name == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2 and args:
            self._bind_target(target.elts[0], PLAIN)
            self._bind_loop(target.elts[1], args[0])
        elif name == "zip" and isinstance(target, ast.Tuple) and len(target.elts) == len(args):
            for item, part in zip(target.elts, args, strict=True):
                self._bind_loop(item, part)
        else:
            self._bind_target(target, self.level(iterated))

    # Statements

    def _block(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._assign(node.target, node.value)
        elif isinstance(node, ast.AugAssign):
            self._bind_target(node.target, self.level(node.value))
        elif isinstance(node, (ast.Expr, ast.Return)):
            if node.value is not None:
                self.level(node.value)
        elif isinstance(node, ast.If):
            self._test(node.test, SIZED if node.orelse or not _fails(node.body) else DATA)
            if not _fails(node.body[-1:]):
                self._block(node.body)
            self._block(node.orelse)
        elif isinstance(node, ast.While):
            self.loops = True
            self._test(node.test, SIZED)
            self._block(node.body)
            self._block(node.orelse)
        elif isinstance(node, ast.Assert):
            self._test(node.test, DATA)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self.loops = True
            self._bind_loop(node.target, node.iter)
            self._block(node.body)
            self._block(node.orelse)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                level = self.level(item.context_expr)
                if item.optional_vars is not None:
                    self._bind_target(item.optional_vars, level)
            self._block(node.body)
        elif isinstance(node, ast.Try):
            self._block(node.body)
            for handler in node.handlers:
                self._bind(handler.name or "", PLAIN)
            self._block(node.orelse)
            self._block(node.finalbody)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.loops = True
            self._parameters(node.args)
            self._block(node.body)
        elif isinstance(node, ast.Match):
            self.level(node.subject)
            for case in node.cases:
                for pattern in ast.walk(case.pattern):
                    name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
                    if isinstance(name, str):
                        self._bind(name, DATA)
                if case.guard is not None:
                    self._test(case.guard, SIZED)
                self._block(case.body)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            if len(target.elts) == len(value.elts):
                for item, part in zip(target.elts, value.elts, strict=True):
                    self._assign(item, part)
                return
        self._bind_target(target, self.level(value))

    def _test(self, node: ast.expr, least: int) -> None:
        """The truth of an expression is asked for; below `least` it may say what it wants."""
        if isinstance(node, ast.BoolOp):
            for item in node.values:
                self._test(item, least)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._test(node.operand, least)
        elif self._asked(node) >= least:
            raise _Found

    def _asked(self, node: ast.expr) -> int:
        """The level of an expression whose value the host wants to know: of an attribute it depends on what that is."""
        for part in (node.left, *node.comparators) if isinstance(node, ast.Compare) else (node,):
            name = _own_attribute(part)
            if name:
                self.asks.add(name)
        return self.level(node)

    # Expressions

    def level(self, node: ast.expr) -> int:
        """The level of an expression; raises where it holds an obstacle."""
        if isinstance(node, ast.Name):
            return self.levels.get(node.id, PLAIN)
        if isinstance(node, ast.Constant):
            return PLAIN
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.BinOp):
            left, right = self.level(node.left), self.level(node.right)
            if right == DATA and isinstance(node.op, ast.Mod) and isinstance(node.left, (ast.Constant, ast.JoinedStr)):
                raise _Found
            return max(left, right)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.BoolOp):
            for item in node.values[:-1]:
                self._test(item, SIZED)
            return max([self.level(item) for item in node.values])
        if isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.Not):
                self._test(node.operand, SIZED)
                return PLAIN
            return self.level(node.operand)
        if isinstance(node, ast.IfExp):
            self._test(node.test, SIZED)
            return max(self.level(node.body), self.level(node.orelse))
        if isinstance(node, ast.FormattedValue):
            if self._asked(node.value) == DATA:
                raise _Found
            return PLAIN
        if isinstance(node, ast.Slice):
            for part in (node.lower, node.upper, node.step):
                if part is not None and self._asked(part) == DATA:
                    raise _Found
            return PLAIN
        if isinstance(node, ast.Lambda):
            self._parameters(node.args)
            self.level(node.body)
            return PLAIN
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for generator in node.generators:
                self._bind_loop(generator.target, generator.iter)
                for condition in generator.ifs:
                    self._test(condition, SIZED)
            parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
            return max([self.level(part) for part in parts])
        if isinstance(node, ast.NamedExpr):
            level = self.level(node.value)
            self._bind_target(node.target, level)
            return level
        return max([self.level(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)], default=PLAIN)

    def _attribute(self, node: ast.Attribute) -> int:
        if node.attr == "shape":
            self.level(node.value)
            return SIZED
        base = self.level(node.value)
        return PLAIN if node.attr in _PLAIN_ATTRIBUTES else base

    def _compare(self, node: ast.Compare) -> int:
        levels = [self.level(part) for part in (node.left, *node.comparators)]
        operator = node.ops[0]
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return PLAIN
        if isinstance(operator, (ast.In, ast.NotIn)):
            if levels[1] == DATA and not isinstance(node.left, ast.JoinedStr) and not _is_text(node.left):
                raise _Found
            return levels[0]
        if len(node.ops) > 1 and DATA in levels:
            raise _Found
        return max(levels)

    def _subscript(self, node: ast.Subscript) -> int:
        base = self.level(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in parts:
            if self._asked(part) == DATA:
                raise _Found
        return base

    def _call(self, node: ast.Call) -> int:
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        if name in _CALLED and self._is_obstacle(name, node):
            raise _Found
        root = dotted(func)
        if root.partition(".")[0] in _RANDOM or ".random." in root:
            raise _Found
        base = self.level(func.value if isinstance(func, ast.Attribute) else func)
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        levels = [self._asked(item) if name in _ASKED else self.level(item) for item in arguments]
        highest = max(levels, default=PLAIN)
        if name in _MOVES:
            if any("cpu" in ast.unparse(item) for item in arguments):
                raise _Found
            self.moves = True
            owned = _own_attribute(func.value) if isinstance(func, ast.Attribute) else ""
            if owned:
                self.carries.add(owned)
        if name in _FACTORIES:
            self.makes = self.makes or all(keyword.arg != "device" for keyword in node.keywords)
            if highest == DATA and root.partition(".")[0] in _LIBRARIES:
                raise _Found
        if isinstance(func, ast.Name):
            if name in _ASKED:
                if highest == DATA:
                    raise _Found
                return highest
            if name in _PLAIN_CALLS:
                return PLAIN
            if name == "len":
                return SIZED if highest == DATA else PLAIN
            if name == "getattr" and len(node.args) > 1:
                return highest
        elif name in _SIZES:
            return SIZED
        elif root.partition(".")[0] in _ARRAYS:
            if highest == DATA:
                raise _Found
            return highest
        elif name == "get":
            return max(base, highest)
        elif (name.startswith("is_") and root.startswith("torch.")) or (name in ("dim", "keys") and not node.args):
            return PLAIN
        return DATA if not _is_made(name) else max(base, highest)

    def _is_obstacle(self, name: str, node: ast.Call) -> bool:
        """Whether a call of that name may be an obstacle."""
        func = node.func
        if name in ("tensor", "as_tensor", "asarray"):
            self.makes = True
            return any(keyword.arg == "device" for keyword in node.keywords) or any(
                isinstance(item, (ast.List, ast.Tuple, ast.ListComp)) for item in node.args
            )
        if name == "where":
            return len(node.args) + len(node.keywords) == 1
        if name == "format":
            return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Constant)
        if name in ("time", "sleep", "now", "today", "save", "flush", "write", "log", "trace", "load"):
            root = dotted(func).split(".")
            return root[0] not in ("torch", "F", "self") or "jit" in root or name == "save"
        return True


def _is_made(name: str) -> bool:
    """Whether a call makes an object of a class: its own kind is no tensor's."""
    return name[:1].isupper() and not name.endswith("Tensor")


def _is_plain(annotation: ast.expr) -> bool:
    """Whether an annotation says that a parameter is a flag, a text or a setting."""
    names = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(annotation)
        if isinstance(node, (ast.Name, ast.Attribute))
    }
    names -= {"Optional", "Union", "torch", "typing"}
    return bool(names) and all(name in _PLAIN_TYPES or name.endswith(("Config", "Cache")) for name in names)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _own_attribute(node: ast.expr) -> str:
    """The last name of a chain of attributes that starts at `self`, through `getattr` and items; empty for anything else."""
    last = ""
    while True:
        if isinstance(node, ast.Attribute):
            last = last or node.attr
            node = node.value
        elif isinstance(node, (ast.Subscript, ast.UnaryOp)):
            node = node.value if isinstance(node, ast.Subscript) else node.operand
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            name = node.args[1]
            return last or (name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else "")
        else:
            return last if isinstance(node, ast.Name) and node.id == "self" else ""


def _fails(body: list[ast.stmt]) -> bool:
    """Whether a block only raises."""
    return bool(body) and all(isinstance(node, ast.Raise) for node in body)

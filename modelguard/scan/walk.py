"""Stage two: an abstract walk of one region, statement by statement, that tells the recorder every write and read of state.

The walk knows no rule and no severity. It follows values through assignments, branches (both, then joined), loops, calls into functions
whose source is at hand, closures and decorators; what it does not know it leaves unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from modelguard.findings import Frame, Location
from modelguard.observation import Kind, Operation, Root
from modelguard.scan.attributes import ANY_NAME, Attributes
from modelguard.scan.candidates import called, registering
from modelguard.scan.expressions import Expressions
from modelguard.scan.facts import FunctionFacts
from modelguard.scan.project import (
    ClassInfo,
    ExternalClass,
    FunctionName,
    GlobalName,
    Method,
    Project,
    SourceFile,
    cut_offset,
    parse_lines,
)
from modelguard.scan.recorder import Event, Recorder
from modelguard.scan.tables import CACHED_PROPERTIES, MEMOISERS
from modelguard.scan.values import (
    INPUT,
    ITEM,
    NO_FACTS,
    NONE,
    NOTHING,
    SPREAD,
    UNKNOWN,
    ClassObject,
    Environment,
    External,
    Facts,
    Function,
    Instance,
    ModuleObject,
    Partial,
    Path,
    Value,
    join,
    join_all,
    union,
)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_DEPTH = 24
"""Calls followed into each other, at most: deeper ones return something unknown."""

_DECLARING_DEPTH = 3
"""The same while the attributes of a class are worked out, where only the kind of a value matters."""

_STATEMENTS = 40_000
"""Statements walked for one entry point before calls are no longer followed."""

_SYNTAX = 1_000
"""Functions whose syntax is kept at a time."""

_VISITS = 4
"""Regions from which one shared helper is walked; from others it is taken to do what it did before."""

_SHORT = 8
"""Lines up to which a helper outside the scanned files is walked all the same: it may hand out state."""

_UNROLLED = 8
"""Items up to which a loop over a known tuple is walked item by item."""


_NO_FUNCTION = ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.Constant(None), lineno=1, col_offset=0)
"""Stands for the code around functions: a module's top level, a decorator line."""


class World:
    """What all walks of a scan share: the project, the declared attributes, and the syntax of the functions walked so far."""

    def __init__(
        self, project: Project, entry_points: frozenset[str], reported: frozenset[str], writers: frozenset[str] | None = None
    ) -> None:
        self.project = project
        self.writers = writers
        self.entry_points = entry_points
        self.reported = reported
        self.attributes = Attributes(project, self.stored_by, self._evaluate)
        self.patched: dict[tuple[int, str], Value] = {}
        self.outside: dict[tuple[str, str], Value] = {}
        """What the names of a file mean that stand for something outside the project."""
        self.transparent: set[tuple[str, int, int]] = set()
        """Decorators (by their place) that were seen to return the very function they were given."""
        self._syntax: dict[tuple[str, int], tuple[ast.FunctionDef | ast.AsyncFunctionDef, int] | None] = {}
        self._stored: dict[tuple[str, int, int], dict[str, Value]] = {}
        self._decorated: dict[tuple[object, int], Value] = {}
        self._visits: dict[tuple[str, int, int], set[int]] = {}
        self._walks = 0
        self._returned: dict[tuple[str, int, int], Value] = {}
        self._dressed: set[int] = set()

    def trim(self) -> None:
        """Let go of syntax once there is much of it: it is parsed again where it is needed again."""
        if len(self._syntax) > _SYNTAX:
            self._syntax.clear()
            self._decorated.clear()

    def next_number(self) -> int:
        """A number for a walk, its own."""
        self._walks += 1
        return self._walks

    def syntax(
        self, file: SourceFile, name: str, line: int, end_line: int
    ) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, int] | None:
        """A function's syntax and what to add to its line numbers; None where its text does not parse on its own."""
        key = (file.path, line)
        if key not in self._syntax:
            found = None
            for node in parse_lines(file, line, end_line):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                    found = (node, cut_offset(file, line))
            self._syntax[key] = found
        return self._syntax[key]

    def method_function(self, method: Method) -> Function | None:
        """A method as a function value, not yet decorated or bound."""
        return self.function(method.owner.file, method.facts, method.owner)

    def function(self, file: SourceFile, facts: FunctionFacts, owner: ClassInfo | None = None) -> Function | None:
        """A function of a file as a value."""
        found = self.syntax(file, facts.name, facts.line, facts.end_line)
        return None if found is None else Function(facts.name, found[0], file, found[1], owner, facts=facts)

    def leads_nowhere(self, function: Function) -> bool:
        """Whether a call of a function can change no state, by the names in its text, and hardly hand any out."""
        facts = function.facts
        if facts is None or function.environment is not None or function.memoised or facts.nests:
            return False
        if facts.end_line - facts.line < _SHORT:
            return False
        if function.file.path in self.reported and (facts.may_write or facts.hands or facts.moves or facts.borrows):
            return False
        return self.writers is not None and called(facts).isdisjoint(self.writers)

    def decorated(self, function: Function) -> Value:
        """What a function's name means once its decorators were applied."""
        key = (function.place, id(function.owner))
        found = self._decorated.get(key)
        if found is None:
            self._decorated[key] = Value(Kind.FUNCTION, objects=(function,))
            found = Walk(self, None).decorate(function, None)
            self._decorated[key] = found
        return found

    def known_result(self, function: Function, args: Sequence[Value], walk: Walk) -> Value | None:
        """What a call returns that need not be walked; None if it must be.

        A helper outside the scanned files that is handed no function reports nothing and calls nobody back. A helper that several
        regions share has shown what it does.
        """
        if function.environment is not None or any(_callable(value) for value in args):
            return None
        node = function.node
        itself = walk.itself
        shared = function.owner is None or itself is None or function.owner not in itself.mro
        if not shared or isinstance(node, ast.Lambda):
            return None
        if any(path.root is Root.SELF and not value.kinds & Kind.CONFIG for value in args for path in value.paths):
            # What it does to the state of this module, and what of it it hands back, is seen for this module.
            return None
        if function.file.path not in self.reported:
            if node.returns is not None:
                inputs = any(value.inputs for value in args)
                return self.attributes.annotation(function.file, node.returns).with_inputs(inputs)
            if _short(node):
                return None
            return INPUT
        visits = self._visits.setdefault(function.place, set())
        if walk.number in visits:
            return None
        if len(visits) < _VISITS:
            visits.add(walk.number)
            return None
        return self._returned.get(function.place, INPUT)

    def returned(self, function: Function, value: Value) -> None:
        """Remember what kind of value a helper returns."""
        self._returned[function.place] = Value(value.kinds, classes=value.classes, inputs=value.inputs)

    def decorate_class(self, info: ClassInfo) -> None:
        """Apply the decorators of a class, once: what they bind on it stands in for its methods."""
        if not info.facts.decorators or id(info) in self._dressed:
            return
        self._dressed.add(id(info))
        walk = Walk(self, None)
        holder = Function("<decorators>", _NO_FUNCTION, info.file, 0)
        itself = Value(Kind.OBJECT, objects=(ClassObject(info),))
        with walk.activation(holder, Environment(None, persistent=True), None):
            for name in reversed(info.facts.decorators):
                symbol = self.project.resolve(info.file, name)
                if isinstance(symbol, FunctionName) and symbol.file.path in self.reported:
                    result = walk.call(walk.symbol(symbol), [itself], {}, None)
                    if not any(isinstance(item, ClassObject) for item in result.objects):
                        # A factory: what it returns is the decorator.
                        walk.call(result, [itself], {}, None)

    def stored_by(self, method: Method) -> dict[str, Value]:
        """What a method binds on its first parameter, by attribute."""
        key = (method.owner.file.path, method.facts.line, id(method.owner))
        found = self._stored.get(key)
        if found is None:
            found = {}
            # Kept before it is filled: a method that reads what it binds sees what is known so far.
            self._stored[key] = found
            function = self.method_function(method)
            if function is not None:
                self.attributes.unfinished += 1
                try:
                    Walk(self, None, found).declare(function, method.owner)
                finally:
                    self.attributes.finished()
        return found

    def _evaluate(self, file: SourceFile, node: ast.expr, owner: ClassInfo | None) -> Value:
        walk = Walk(self, None)
        holder = Function("<module>", _NO_FUNCTION, file, 0, owner)
        environment = Environment(None, persistent=True)
        if owner is not None:
            # In a class body the methods defined so far are plain names: `rate = property(read)`.
            for part in ast.walk(node):
                facts = owner.facts.methods.get(part.id) if isinstance(part, ast.Name) else None
                function = self.method_function(Method(owner, facts)) if facts is not None else None
                if function is not None:
                    environment.names[function.name] = Value(Kind.FUNCTION, objects=(function,))
        with walk.activation(holder, environment, None):
            return walk.expression(node)


class Activation:
    """One function being walked."""

    __slots__ = ("definite", "environment", "function", "globals", "line", "nonlocals", "owner_value", "returns", "yields")

    def __init__(self, function: Function, environment: Environment, owner_value: Value | None) -> None:
        self.function = function
        self.environment = environment
        self.owner_value = owner_value
        self.line = 0
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.returns: list[Value] = []
        self.yields: list[Value] = []
        self.definite: list[frozenset[Path]] = []


class Walk(Expressions):
    """A walk of one region. Without a recorder nothing is observed: with `declared` it collects what a method binds on self."""

    def __init__(self, world: World, recorder: Recorder | None, declared: dict[str, Value] | None = None) -> None:
        self.world = world
        self.recorder = recorder
        self.declared = declared
        self.stack: list[Activation] = []
        self.facts: list[Facts] = []
        self.blocks: list[int] = []
        self.definite: frozenset[Path] = frozenset()
        self.looped: frozenset[Path] = frozenset()
        self.feeding: tuple[Path, ...] = ()
        self.roots: dict[tuple[Root, str, str], Value] = {}
        self.walked: dict[tuple[object, ...], Value] = {}
        self.environments: list[Environment] = []
        self.statements = 0
        self.block_count = 0
        self.number = world.next_number()
        self.entry: Function | None = None
        self.itself: ClassInfo | None = None

    # Entry

    def region(self, info: ClassInfo, method: Method) -> None:
        """Walk the region of entry point `method` of `info`: pre-hooks, decorators and the method, hooks."""
        function = self.world.method_function(method)
        if function is None:
            return
        itself = self.root_value(Path(Root.SELF, "self", "", ()), Value(Kind.MODULE, classes=(info,)))
        self.entry = function
        self.itself = info
        before, after = self.hooks(info)
        self.world.decorate_class(info)
        arguments = self.parameters(function, skip_first=True)
        for hook, module in before:
            self.call(hook, [module, Value(Kind.TUPLE, element=INPUT, inputs=True)], {}, None)
        self.pending_hooks = after
        decorated = self.world.patched.get((id(info), method.facts.name)) or self.world.decorated(function)
        self.call(decorated, [itself, *arguments], {}, None)
        self.run_hooks((itself.paths[0],))

    def run_hooks(self, called: Sequence[Path]) -> None:
        """Run the forward hooks of modules that were called, or are children of one that was."""
        waiting = self.pending_hooks
        self.pending_hooks = [
            (hook, module) for hook, module in waiting if not any(path.covers(each) for path in called for each in module.paths)
        ]
        for hook, module in waiting:
            if (hook, module) not in self.pending_hooks:
                self.call(hook, [module, Value(Kind.TUPLE, element=INPUT, inputs=True), INPUT], {}, None)

    def declare(self, function: Function, owner: ClassInfo) -> None:
        """Walk a method for what it binds on its first parameter."""
        kinds = Kind.MODULE if owner.is_module else Kind.OBJECT
        itself = self.root_value(Path(Root.SELF, "self", "", ()), Value(kinds, classes=(owner,)))
        self.invoke(function, [itself, *self.parameters(function, skip_first=True, inputs=False)], {}, None)

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
                    return Value(Kind.FUNCTION, objects=tuple(_memoised(o) for o in value.objects))
                return value
        if not any(isinstance(item, (Function, ClassObject, Instance)) or hasattr(item, "function") for item in applied.objects):
            return value
        functions = [item for item in applied.objects if isinstance(item, Function)]
        if functions and all(item.file.path not in self.world.reported for item in functions):
            # What a wrapper outside the scanned files writes is not reported: what matters is the function it wraps.
            return value
        places = [item.place for item in functions]
        if places and all(place in self.world.transparent for place in places):
            return value
        result = self.call(applied, [value], {}, decorator)
        if result.objects == value.objects:
            self.world.transparent.update(places)
        return result if any(not isinstance(item, External) for item in result.objects) else value

    def hooks(self, info: ClassInfo) -> tuple[list[tuple[Value, Value]], list[tuple[Value, Value]]]:
        """The forward pre-hooks and hooks that the class registers on itself or its children when it is made, each with its module."""
        before: list[tuple[Value, Value]] = []
        after: list[tuple[Value, Value]] = []
        for method in registering(info, self.world.reported):
            function = self.world.method_function(method)
            if function is None:
                continue
            found: list[tuple[bool, Value, Value]] = []
            walk = Walk(self.world, None)
            walk.found_hooks = found
            walk.declare(function, info)
            for early, hook, module in found:
                (before if early else after).append((hook, module))
        return before, after

    # Activations

    @contextmanager
    def activation(self, function: Function, environment: Environment, owner_value: Value | None) -> Iterator[Activation]:
        """The walk inside a function, for the length of a `with`."""
        current = Activation(function, environment, owner_value)
        self.stack.append(current)
        feeding, self.feeding = self.feeding, ()
        try:
            yield current
        finally:
            self.stack.pop()
            self.feeding = feeding

    @contextmanager
    def unobserved(self) -> Iterator[None]:
        """Walk what runs before the region does: when a class is made, or a decorator applied."""
        recorder, self.recorder = self.recorder, None
        declared, self.declared = self.declared, None
        try:
            yield
        finally:
            self.recorder = recorder
            self.declared = declared

    @property
    def now(self) -> Activation:
        """The innermost activation."""
        return self.stack[-1]

    def root_value(self, path: Path, value: Value) -> Value:
        """A value that is the root of state paths; remembered, so that a path can be given its type again."""
        rooted = value.with_paths((path,))
        self.roots[path[:3]] = rooted
        return rooted

    def parameters(self, function: Function, skip_first: bool, inputs: bool = True) -> list[Value]:
        """The arguments an engine hands to an entry point: one unknown value a parameter, by its annotation and default."""
        node = function.node
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
        defaults += arguments.defaults
        values = []
        for parameter, default in list(zip(positional, defaults))[1 if skip_first else 0 :]:
            values.append(self.parameter(function, parameter, default, inputs))
        return values

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

    # Calls into functions of the project

    def invoke(self, function: Function, args: Sequence[Value], kwargs: dict[str, Value], node: ast.AST | None) -> Value:
        """Walk a call of a project function; its result."""
        if function.bound is not None:
            args = [function.bound, *args]
        limit = _DEPTH if self.recorder is not None else _DECLARING_DEPTH
        if len(self.stack) >= limit or self.statements > _STATEMENTS:
            self.pass_out(args, kwargs)
            return INPUT
        if any(active.function.node is function.node for active in self.stack):
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
        if self.recorder is not None and self.stack and self.world.leads_nowhere(function):
            if not any(_callable(value) for value in (*args, *kwargs.values())):
                return self._passed_over(function, args, kwargs)
        if self.stack:
            result = self.world.known_result(function, args, self) if self.recorder is not None else self._glanced(function, args)
            if result is not None:
                self.pass_out(args, kwargs)
                return result
        if node is not None and self.stack:
            self.now.line = getattr(node, "lineno", 0) + self.now.function.offset
        scope = f"{function.file.path}:{function.name}"
        # Kept, so that no other environment gets its identity while results are remembered by it.
        environment = Environment(function.environment, persistent=self.recorder is None, scope=scope)
        self.environments.append(environment)
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
        return result

    def _passed_over(self, function: Function, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """A call that is not walked because it leads to no write: what it reads off its object is noted."""
        self.pass_out(args[1:] if function.owner is not None else args, kwargs)
        facts, node = function.facts, function.node
        if function.owner is not None and facts is not None and args:
            for path in args[0].paths:
                for name in facts.own:
                    self.read(path.step(name), used=True)
        inputs = any(value.inputs for value in args) or any(value.inputs for value in kwargs.values())
        if isinstance(node, ast.Lambda) or node.returns is None:
            return Value(Kind.TENSOR | Kind.UNKNOWN, inputs=inputs)
        return self.world.attributes.annotation(function.file, node.returns).with_inputs(inputs)

    def _glanced(self, function: Function, args: Sequence[Value]) -> Value | None:
        """Where nothing is observed, helpers of other files are taken by their annotation, unless they are handed a function."""
        if function.environment is not None or function.file is self.stack[0].function.file:
            return None
        handed = any(_callable(value) or (self.declared is None and _is_class(value)) for value in args)
        if len(self.stack) <= _DECLARING_DEPTH and (handed or (function.name == "__init__" and len(self.stack) == 1)):
            return None
        node = function.node
        if isinstance(node, ast.Lambda) or node.returns is None:
            return UNKNOWN
        return self.world.attributes.annotation(function.file, node.returns)

    def _guard_key(self) -> tuple[bool, bool, bool]:
        return (any(f.training for f in self.facts), any(f.eager for f in self.facts), any(f.checks for f in self.facts))

    def _bind(self, function: Function, args: Sequence[Value], kwargs: dict[str, Value], environment: Environment) -> None:
        arguments = function.node.args
        names = environment.names
        positional = [*arguments.posonlyargs, *arguments.args]
        left = dict(kwargs)
        spread = left.pop("**", None)
        many = next((value for value in args if value.kinds & SPREAD), None)
        plain = [value for value in args if not value.kinds & SPREAD]
        for index, parameter in enumerate(positional):
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
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
        defaults += arguments.defaults
        pairs = [*zip(positional, defaults), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
        for parameter, default in pairs:
            if parameter.arg in names:
                continue
            if parameter.arg in left:
                names[parameter.arg] = left.pop(parameter.arg)
                continue
            entry = function is self.entry or (self.entry is not None and function.node is self.entry.node)
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

    # Statements

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Walk statements in order; whether control leaves the block before its end on every way."""
        depth = len(self.facts)
        try:
            for node in body:
                if self.statement(node):
                    return True
            return False
        finally:
            del self.facts[depth:]
            del self.blocks[depth:]

    def statement(self, node: ast.stmt) -> bool:
        """Walk one statement; whether control does not reach the next one."""
        self.statements += 1
        handler = self._HANDLERS.get(type(node))
        return handler is not None and handler(self, node) is True

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
        paths = tuple(path for target in targets for path in self._target_paths(target)) if own else ()
        feeding, self.feeding = self.feeding, paths
        try:
            if all(isinstance(target, ast.Name) for target in targets):
                return self.alias(node)
            return self.expression(node)
        finally:
            self.feeding = feeding

    def _target_paths(self, target: ast.expr) -> tuple[Path, ...]:
        if isinstance(target, ast.Attribute):
            base = self.receiver(target.value)
            return tuple(path.step(target.attr) for path in base.paths)
        if isinstance(target, ast.Subscript):
            return tuple(self.item_path(path, target.slice) for path in self.receiver(target.value).paths)
        if isinstance(target, (ast.Tuple, ast.List)):
            return tuple(path for item in target.elts for path in self._target_paths(item))
        return ()

    def _aug_assign(self, node: ast.AugAssign) -> None:
        target = node.target
        feeding, self.feeding = self.feeding, self._target_paths(target)
        value = self.expression(node.value)
        self.feeding = feeding
        if isinstance(target, ast.Name):
            self._augment_name(target, value, node)
        elif isinstance(target, ast.Attribute):
            base = self.receiver(target.value)
            if target.attr == "data" and self.is_tensor_like(base):
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
            self.read_name(target.id, used=False)
            self.store(target, join(current, value), node, Operation.AUGMENT)
        elif holder is not None:
            kinds = current.kinds | value.kinds
            holder.names[target.id] = Value(
                kinds, inputs=current.inputs or value.inputs, element=current.element or value.element
            )

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

    def _now_state(self, source: ast.expr, base: Value, attribute: str) -> None:
        """`self.mask = mask`: from here on the local name means the state too."""
        if isinstance(source, ast.Name) and source.id in self.now.environment.names:
            value = self.now.environment.names[source.id]
            if value.kinds & (Kind.ANY_TENSOR | Kind.CONTAINER | Kind.OBJECT) and not value.kinds & Kind.MODULE:
                paths = tuple(path.step(attribute) for path in base.paths)
                self.now.environment.names[source.id] = value.with_paths(union(value.paths, paths))

    def _part(self, value: Value, index: int, target: ast.Tuple | ast.List) -> Value:
        if value.items is not None and not any(isinstance(item, ast.Starred) for item in target.elts):
            if index < len(value.items):
                return value.items[index]
        elif value.items is not None and len(value.items) >= len(target.elts) - 1:
            star = next(place for place, item in enumerate(target.elts) if isinstance(item, ast.Starred))
            return value.items[index if index < star else index - len(target.elts)]
        return self.element_of(value)

    def _store_name(self, target: ast.Name, value: Value, node: ast.AST, operation: Operation) -> None:
        name = target.id
        if name in self.now.globals:
            path = Path(Root.GLOBAL, name, self.now.function.file.path, ())
            self.record(operation, path, node, target, value=value, declared=self.global_kinds(name), owner=Kind.NOTHING)
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

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                base = self.receiver(target.value)
                for path in base.paths:
                    self.record(Operation.DELETE, path.step(target.attr), node, target, owner=base.kinds, verb="del")
            elif isinstance(target, ast.Subscript):
                self.delete_item(self.receiver(target.value), target, node)
            elif isinstance(target, ast.Name) and target.id in self.now.globals:
                path = Path(Root.GLOBAL, target.id, self.now.function.file.path, ())
                self.record(Operation.DELETE, path, node, target, owner=Kind.NOTHING, verb="del")

    def _return(self, node: ast.Return) -> bool:
        # What a helper hands back is used where its caller uses it.
        read = self.alias if len(self.stack) > 1 else self.expression
        self.now.returns.append(read(node.value) if node.value is not None else NONE)
        self.now.definite.append(self.definite)
        return True

    def _raise(self, node: ast.Raise) -> bool:
        if node.exc is not None:
            self.expression(node.exc)
        return True

    def _leave(self, node: ast.stmt) -> bool:
        return True

    def _if(self, node: ast.If) -> bool:
        test = self.test(node.test)
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
        try:
            return self.block(body)
        finally:
            del self.facts[depth:]
            del self.blocks[depth:]

    def push(self, facts: Facts) -> None:
        if facts is not NO_FACTS and facts != NO_FACTS:
            self.block_count += 1
            self.facts.append(facts)
            self.blocks.append(self.block_count)

    def _restore(self, names: dict[str, Value]) -> None:
        self.now.environment.names.clear()
        self.now.environment.names.update(names)

    def _join_names(self, other: dict[str, Value]) -> None:
        names = self.now.environment.names
        for name, value in other.items():
            mine = names.get(name)
            if mine is not value:
                names[name] = value if mine is None else join(mine, value)

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
            del self.facts[depth:]
            del self.blocks[depth:]
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
                bound = entered if entered is not None else self.entered(manager)
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
            self._join_names(dict(before))
            self.definite = definite
            if handler.name:
                self.now.environment.names[handler.name] = UNKNOWN
            if not self._branch(handler.body, self.handler_facts(handler, tried)):
                ways.append((dict(self.now.environment.names), self.definite))
        if ways:
            self._restore(ways[0][0])
            self.definite = ways[0][1]
            for names, written in ways[1:]:
                self._join_names(names)
                self.definite &= written
        return self.block(node.finalbody) or not ways

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

    def _global(self, node: ast.Global) -> None:
        self.now.globals.update(node.names)

    def _nonlocal(self, node: ast.Nonlocal) -> None:
        self.now.nonlocals.update(node.names)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self.now.environment.names.pop(name, None)

    def _assert(self, node: ast.Assert) -> None:
        self.test(node.test)

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
        self._restore(ways[0][0])
        self.definite = ways[0][1]
        for names, written in ways[1:]:
            self._join_names(names)
            self.definite &= written
        return False

    # Observations

    def read(self, path: Path, used: bool) -> None:
        """Tell the recorder of a read of a state path."""
        if self.trying is not None:
            self.trying.append(path)
        if self.recorder is None:
            return
        if used and any(target.related(path) for target in self.feeding):
            used = False
        self.recorder.read(path, self.definite, used)

    def touch(self, value: Value, used: bool) -> None:
        """Tell the recorder that a value is read."""
        for path in value.paths:
            self.read(path, used)

    def record(
        self,
        operation: Operation,
        path: Path,
        node: ast.AST,
        target: ast.AST,
        *,
        value: Value = NOTHING,
        declared: int | None = None,
        owner: int | None = None,
        verb: str = "",
        inputs: bool = False,
    ) -> None:
        """Tell the recorder of a write; while a class's attributes are worked out, keep what is bound."""
        if self.declared is not None:
            self._declare(operation, path, value)
            return
        if self.recorder is None:
            return
        facts = NO_FACTS
        for item in self.facts:
            facts = facts.both(item)
        if facts.eager or facts.dead:
            return
        round_trip = False
        if path.root is Root.ARGUMENT and operation is Operation.IN_PLACE:
            # A tensor handed in is the caller's to see written; an object that holds one, or an argument that comes back, is state.
            round_trip = not path.steps and self._round_trip(path.label)
            if not round_trip and not path.steps:
                return
        if declared is None:
            declared = self.kinds_of(path)
            if operation is Operation.REBIND and value.kinds & (Kind.PARAMETER | Kind.BUFFER) and not self._bound_elsewhere(path):
                declared = Kind.NOTHING
        if owner is None:
            holder = path.holder()
            owner = self.kinds_of(holder.parent()) if holder.steps else Kind.NOTHING
        if self.ambiguous and not (owner or declared) & (
            Kind.CONFIG | Kind.OBJECT | Kind.MODULE | Kind.CONTAINER | Kind.ANY_TENSOR
        ):
            return
        current = self.now
        # A container is what changes, whichever item is written; a tensor in it is written itself.
        contained = operation in (Operation.ITEM, Operation.MUTATE, Operation.GROW)
        shown, class_name = self._shown(path.holder() if contained else path)
        location = self.location(target, node)
        self.recorder.write(
            Event(
                operation=operation,
                path=path,
                shown=shown,
                location=location,
                source_line=current.function.file.lines[location.line - 1],
                function=self.display(current.function),
                class_name=class_name,
                verb=verb,
                declared=declared,
                value=value.content_kinds,
                owner=owner,
                inputs=inputs or value.inputs,
                facts=facts,
                block=self.blocks[-1] if self.blocks else 0,
                round_trip=round_trip,
                chain=self._chain(),
            )
        )
        if operation is Operation.REBIND and (not path.steps or path.steps[-1] != ITEM):
            self.definite |= {path}

    def _bound_elsewhere(self, path: Path) -> bool:
        """Whether an attribute is bound anywhere but in the function being walked."""
        if not path.steps:
            return True
        name = path.steps[-1]
        here = self.now.function.facts
        for info in self.value_of(path.parent()).classes:
            if not isinstance(info, ClassInfo) or info.known_attribute(name):
                return True
            for item in info.ancestry():
                if name in item.facts.attributes:
                    return True
                for facts in item.binding(name):
                    if facts is not here and (name in facts.stores or name in self.world.stored_by(Method(item, facts))):
                        return True
        return False

    def _declare(self, operation: Operation, path: Path, value: Value) -> None:
        declared = self.declared
        if declared is None or path.root is not Root.SELF or len(path.steps) != 1:
            if (
                declared is not None
                and path.root is Root.SELF
                and len(path.steps) == 2
                and path.steps[1] == ITEM
                and operation in (Operation.ITEM, Operation.MUTATE)
            ):
                known = declared.get(path.steps[0])
                if known is not None:
                    element = value if known.element is None else join(known.element, value)
                    declared[path.steps[0]] = Value(known.kinds, (), known.classes, known.objects, element, None, None)
            return
        if operation not in (Operation.REBIND, Operation.REGISTER):
            return
        name = path.steps[0]
        kept = _without_paths(value)
        declared[name] = join(declared[name], kept) if name in declared else kept

    def location(self, target: ast.AST, node: ast.AST) -> Location:
        """Where a write stands in its file: the span of `target`, columns in characters."""
        file = self.now.function.file
        offset = self.now.function.offset
        line = getattr(target, "lineno", getattr(node, "lineno", 1)) + offset
        end = getattr(target, "end_lineno", line - offset) + offset
        lines = file.lines
        return Location(
            file.path,
            line,
            _characters(lines[line - 1], getattr(target, "col_offset", 0)) + 1,
            end,
            _characters(lines[end - 1], getattr(target, "end_col_offset", 0)) + 1,
        )

    def display(self, function: Function) -> str:
        """A function as a reader knows it."""
        return f"{function.owner.name}.{function.name}" if function.owner is not None else function.name

    def _chain(self) -> tuple[Frame, ...]:
        return tuple(
            Frame(self.display(active.function), active.function.file.path, active.line)
            for active in self.stack[:-1]
            if active.line
        )

    def _shown(self, path: Path) -> tuple[str, str | None]:
        """The path as the code around the write would call it, and the class it belongs to."""
        for active in reversed(self.stack):
            owner = active.function.owner
            value = active.owner_value
            if value is None or owner is None or active.function.node.args.args[:1] == []:
                continue
            for base in value.paths:
                if base.covers(path) and base.root is path.root:
                    rest = path.steps[len(base.steps) :]
                    return str(Path(base.root, "self", "", rest)), owner.name
        owner = next((active.function.owner for active in reversed(self.stack) if active.function.owner is not None), self.itself)
        return str(path), owner.name if owner is not None else None

    def _round_trip(self, name: str) -> bool:
        """Whether the entry point makes argument `name` when it is missing, and hands it back."""
        if self.entry is None or isinstance(self.entry.node, ast.Lambda):
            return False
        made = returned = False
        for node in ast.walk(self.entry.node):
            if isinstance(node, ast.Assign):
                made = made or any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
            elif isinstance(node, ast.Return) and node.value is not None:
                parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                returned = returned or any(isinstance(part, ast.Name) and part.id == name for part in parts)
        arguments = self.entry.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        optional = {p.arg for p in positional[len(positional) - len(arguments.defaults) :]} | {
            p.arg for p, default in zip(arguments.kwonlyargs, arguments.kw_defaults) if default is not None
        }
        return made and returned and name in optional

    def global_kinds(self, name: str) -> int:
        """The kinds of a global of the file being walked."""
        symbol = self.world.project.resolve(self.now.function.file, name)
        return self.world.attributes.global_value(symbol).kinds if isinstance(symbol, GlobalName) else Kind.UNKNOWN

    _HANDLERS: dict[type, Callable[[Walk, ast.stmt], bool | None]] = {
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
    }  # type: ignore[dict-item]
    if hasattr(ast, "TryStar"):
        _HANDLERS[ast.TryStar] = _try  # type: ignore[assignment]


def _callable(value: Value) -> bool:
    return any(isinstance(item, (Function, Partial)) for item in value.objects)


def _is_class(value: Value) -> bool:
    return any(isinstance(item, ClassObject) for item in value.objects)


def _short(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return (node.end_lineno or node.lineno) - node.lineno < _SHORT


def _memoised(item: object) -> object:
    if isinstance(item, Function):
        return Function(item.name, item.node, item.file, item.offset, item.owner, item.environment, item.bound, True, item.facts)
    return item


def _operator(node: ast.AugAssign) -> str:
    return {"Add": "+=", "Sub": "-=", "Mult": "*=", "Div": "/=", "BitOr": "|=", "BitAnd": "&="}.get(
        type(node.op).__name__, "augmented assignment"
    )


def _characters(line: str, column: int) -> int:
    """A column counted in UTF-8 bytes, in characters."""
    return column if line.isascii() else len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))


def _without_paths(value: Value) -> Value:
    """What an attribute is declared to be by a value bound to it: its kind and classes; once kept, an object is no longer new."""
    objects = tuple(item for item in value.objects if not isinstance(item, Instance))
    element = _without_paths(value.element) if value.element is not None else None
    items = tuple(_without_paths(item) for item in value.items) if value.items is not None else None
    return Value(value.kinds, (), value.classes, objects, element, items, value.constant)


__all__ = ["CACHED_PROPERTIES", "ModuleObject", "Walk", "World"]

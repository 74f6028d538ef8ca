"""Stage two: an abstract walk of one region that tells the recorder every write and read of state; what all walks share.

The walk knows no rule and no severity. It follows values through assignments, branches, loops, calls into functions whose source
is at hand, closures and decorators; what it does not know it leaves unknown. `Walk` is built up in layers, one a file:
`observing`, `access`, `stores`, `expressions`, `statements`, `invocations`.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence

from modelguard.observation import Kind, Root
from modelguard.scan.attributes import Attributes
from modelguard.scan.bindings import FunctionNode, used_as_tensors
from modelguard.scan.construction import registering
from modelguard.scan.facts import FunctionFacts
from modelguard.scan.invocations import Invocations, calls_back
from modelguard.scan.paths import Path
from modelguard.scan.project import Project, cut_offset, parse_cut
from modelguard.scan.symbols import ClassInfo, FunctionName, Method, SourceFile
from modelguard.scan.values import INPUT, ClassObject, Environment, Function, Value

_SYNTAX = 1_000
"""Functions whose syntax is kept at a time."""

_VISITS = 4
"""Regions from which one shared helper is walked; from others it is taken to do what it did before."""

_SHORT = 8
"""Lines up to which a helper outside the scanned files is walked all the same: it may hand out state."""

_NO_FUNCTION = ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.Constant(None), lineno=1, col_offset=-1)
"""Stands for the code around functions: a module's top level, a decorator line."""


class Walk(Invocations):
    """A walk of one region."""

    def region(self, info: ClassInfo, name: str, method: Method | None) -> None:
        """Walk the region of an entry point of `info`: pre-hooks, decorators and the method, hooks.

        Without `method`, the entry point is what an assignment says, in the class body (`forward = step`), below the class
        (`Net.forward = torch.compile(step)`) or on the instance (`self.forward = self.step`).
        """
        assigned = self.world.attributes.of(info, name) if method is None else None
        if method is not None:
            function = self.world.method_function(method)
        else:
            found = assigned.objects if assigned is not None else ()
            function = next((item for item in found if isinstance(item, Function)), None)
        if function is None:
            return
        itself = self.root_value(Path(Root.SELF, "self", "", ()), Value(Kind.MODULE, classes=(info,)))
        self.entry = function
        self.itself = info
        before, after = self.hooks(info)
        self.world.decorate_class(info)
        arguments = self.parameters(function)
        for hook, module in before:
            self.call(hook, [module, Value(Kind.TUPLE, element=INPUT, inputs=True)], {}, None)
        self.pending_hooks = after
        decorated = self.world.patched.get((id(info), name)) or assigned or self.world.decorated(function)
        if assigned is None or (function.bound is None and info.assigning(name) is not None):
            arguments = [itself, *arguments]
        elif function.bound is None:
            # On the instance, a function that is bound to nothing is called with the inputs alone.
            arguments = [*(self.parameter(function, *first, True) for first in function.positional()[:1]), *arguments]
        self.call(decorated, arguments, {}, None)
        self.run_hooks((itself.paths[0],))

    def declare(self, function: Function, owner: ClassInfo) -> None:
        """Walk a method for what it binds on its first parameter."""
        kinds = Kind.MODULE if owner.is_module else Kind.OBJECT
        itself = self.root_value(Path(Root.SELF, "self", "", ()), Value(kinds, classes=(owner,)))
        self.invoke(function, [itself, *self.parameters(function, inputs=False)], {}, None)

    def hooks(self, info: ClassInfo) -> tuple[list[tuple[Value, Value]], list[tuple[Value, Value]]]:
        """The forward pre-hooks and hooks that the class registers when it is made, each with its module: itself or a child."""
        before: list[tuple[Value, Value]] = []
        after: list[tuple[Value, Value]] = []
        for method in registering(info, self.world.inside):
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


class World:
    """What all walks of a scan share: the project, the declared attributes, and the syntax of the functions walked so far."""

    def __init__(
        self,
        project: Project,
        entry_points: frozenset[str],
        inside: Container[str],
        parsed: dict[str, list[ast.stmt]] | None = None,
    ) -> None:
        self.project = project
        self.entry_points = entry_points
        self.inside = inside
        self.attributes = Attributes(project, self.stored_by, self._evaluate)
        self.patched: dict[tuple[int, str], Value] = {}
        self.outside: dict[tuple[str, str], Value] = {}
        """What the names of a file mean that stand for something outside the project."""
        self.transparent: set[tuple[str, int, int]] = set()
        """Decorators (by their place) that were seen to return the very function they were given."""
        self._syntax: dict[tuple[str, int], tuple[FunctionNode, int] | None] = {}
        self._parsed = {} if parsed is None else parsed
        """The syntax of function texts, the latest asked for last."""
        self._stored: dict[tuple[str, int, int], dict[str, Value]] = {}
        self._decorated: dict[tuple[object, int], Value] = {}
        self._visits: dict[tuple[str, int, int], set[int]] = {}
        self._walks = 0
        self.telling: set[tuple[str, int, int]] = set()
        """Functions (by their place) that were seen to write, or to hand out state."""
        self._returned: dict[tuple[str, int, int], Value] = {}
        self._dressed: set[int] = set()
        self._used: dict[tuple[str, int, int], frozenset[str]] = {}

    def take_over(self, other: World, file: SourceFile) -> None:
        """Take in what another worked out of the attributes of classes, but for those of one file."""
        gone = {id(info) for info in other.project.classes(file)}
        self._stored = {key: stored for key, stored in other._stored.items() if key[0] != file.path}
        self.attributes.take_over(other.attributes, gone, file.path)

    def next_file(self) -> None:
        """Forget what earlier regions showed of shared helpers: what is found in a file depends on none scanned before it.

        Also lets go of syntax once there is much of it: it is parsed again where it is needed again.
        """
        self._visits.clear()
        self._returned.clear()
        self.telling.clear()
        if len(self._syntax) > _SYNTAX:
            self._syntax.clear()
            self._decorated.clear()

    def next_number(self) -> int:
        """A number for a walk, its own."""
        self._walks += 1
        return self._walks

    def syntax(self, file: SourceFile, name: str, line: int, end_line: int) -> tuple[FunctionNode, int] | None:
        """A function's syntax and what to add to its line numbers; None where its text does not parse on its own."""
        key = (file.path, line)
        if key not in self._syntax:
            at_hand = file.syntax.get(line)
            self._syntax[key] = (at_hand, 0) if at_hand is not None else self._cut(file, name, line, end_line)
        return self._syntax[key]

    def _cut(self, file: SourceFile, name: str, line: int, end_line: int) -> tuple[FunctionNode, int] | None:
        """A function parsed from its lines alone. Two of one text share their syntax: models are copied from each other."""
        text = "\n".join(file.lines[line - 1 : end_line])
        nodes = self._parsed.pop(text, None)
        if nodes is None:
            nodes = parse_cut(text)
        self._parsed[text] = nodes
        if len(self._parsed) > _SYNTAX:
            del self._parsed[next(iter(self._parsed))]
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                return node, cut_offset(file, line)
        return None

    def method_function(self, method: Method) -> Function | None:
        """A method as a function value, not yet decorated or bound."""
        return self.function(method.owner.file, method.facts, method.owner)

    def function(self, file: SourceFile, facts: FunctionFacts, owner: ClassInfo | None = None) -> Function | None:
        """A function of a file as a value."""
        found = self.syntax(file, facts.name, facts.line, facts.end_line)
        return None if found is None else Function(facts.name, found[0], file, found[1], owner, facts=facts)

    def decorated(self, function: Function) -> Value:
        """What a function's name means once its decorators were applied."""
        key = (function.place, id(function.owner))
        found = self._decorated.get(key)
        if found is None:
            self._decorated[key] = Value(Kind.FUNCTION, objects=(function,))
            found = Walk(self, None).decorate(function, None)
            self._decorated[key] = found
        return found

    def used_as_tensors(self, function: Function) -> frozenset[str]:
        """The parameters that a function uses as tensors."""
        found = self._used.get(function.place)
        if found is None:
            found = self._used[function.place] = used_as_tensors(function.node)
        return found

    def known_result(self, function: Function, args: Sequence[Value], walk: Invocations) -> Value | None:
        """What a call returns that need not be walked; None if it must be.

        A helper outside the scanned files that is handed no function reports nothing and calls nobody back. A helper that several
        regions share has shown what it does.
        """
        if walk.storing or function.environment is not None or any(calls_back(value) for value in args):
            return None
        node = function.node
        itself = walk.itself
        shared = function.owner is None or itself is None or function.owner not in itself.mro
        if not shared or isinstance(node, ast.Lambda):
            return None
        if function.place in self.telling and any(path.root is Root.SELF for value in args for path in value.paths):
            # What it does to the state of this module, and what of it it hands back, is seen for this module.
            return None
        if function.file.path not in self.inside:
            if node.returns is not None:
                inputs = any(value.inputs for value in args)
                return self.attributes.annotation(function.file, node.returns).with_inputs(inputs)
            if _short(node):
                return None
            return Value(Kind.UNKNOWN, inputs=any(value.inputs for value in args))
        visits = self._visits.setdefault(function.place, set())
        if walk.number in visits:
            return None
        if len(visits) < _VISITS:
            visits.add(walk.number)
            return None
        return self._returned.get(function.place, Value(Kind.UNKNOWN, inputs=any(value.inputs for value in args)))

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
                if isinstance(symbol, FunctionName) and symbol.file.path in self.inside:
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
                except RecursionError:
                    # What was seen up to there holds; the walk of the region says that it is nested too deeply.
                    pass
                finally:
                    self.attributes.finished()
        return found

    def _evaluate(self, file: SourceFile, node: ast.expr, offset: int, owner: ClassInfo | None) -> Value:
        walk = Walk(self, None)
        holder = Function("<module>", _NO_FUNCTION, file, offset, owner)
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


def _short(node: FunctionNode) -> bool:
    return (node.end_lineno or node.lineno) - node.lineno < _SHORT

"""What a walk keeps while it goes, and what it tells the recorder: the activations it is in, and reads and writes of state."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from modelguard.findings import Frame, Location
from modelguard.observation import Hindrance, Kind, Obstacle, Operation, Root
from modelguard.scan.paths import ITEM, NO_FACTS, WHOLE, Facts, Path
from modelguard.scan.recorder import Event, Recorder
from modelguard.scan.symbols import ClassInfo, Method
from modelguard.scan.values import NOTHING, Arguments, Environment, Function, Instance, Keywords, Value, join

if TYPE_CHECKING:
    from modelguard.scan.walk import World


_LONGEST_QUOTE = 48


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


class Observing:
    """The state of a walk. Without a recorder nothing is observed: with `declared` it collects what a method binds on self."""

    if TYPE_CHECKING:
        # What the classes built on this one add.
        def kinds_of(self, path: Path) -> int: ...
        def value_of(self, path: Path) -> Value: ...
        def call(self, value: Value, args: Arguments, kwargs: Keywords, node: ast.AST | None) -> Value: ...
        def expression(self, node: ast.expr, used: bool = True) -> Value: ...
        def receiver(self, node: ast.expr) -> Value: ...
        def invoke(self, function: Function, args: Arguments, kwargs: Keywords, node: ast.AST | None) -> Value: ...

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
        self.storing = False
        self.roots: dict[tuple[Root, str, str], Value] = {}
        self.walked: dict[tuple[object, ...], Value] = {}
        self.environments: list[Environment] = []
        self.statements = 0
        self.block_count = 0
        self.number = world.next_number()
        self.entry: Function | None = None
        self.enclosing: dict[int, Environment] = {}
        """Where the classes stand that functions of this walk define: their methods close over it."""
        self.muted = 0
        """How many blocks are being walked in which obstacles do not count: they fail anyway, or are not captured."""
        self.checking = False
        """Whether the test being walked only decides if the step fails, or warns."""
        self.cut_short = False
        """Whether a call was not followed because there were too many."""
        self.itself: ClassInfo | None = None
        self.trying: list[Path] | None = None
        self.ambiguous = False
        self.pending_hooks: list[tuple[Value, Value]] = []
        self.found_hooks: list[tuple[bool, Value, Value]] | None = None

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

    @contextmanager
    def mute(self) -> Iterator[None]:
        """Walk what is not captured anyway: obstacles in it do not count."""
        self.muted += 1
        try:
            yield
        finally:
            self.muted -= 1

    @property
    def now(self) -> Activation:
        """The innermost activation."""
        return self.stack[-1]

    def root_value(self, path: Path, value: Value) -> Value:
        """A value that is the root of state paths; remembered, so that a path can be given its type again."""
        rooted = value.with_paths((path,))
        self.roots[path[:3]] = rooted
        return rooted

    def push(self, facts: Facts) -> None:
        """Note what holds from here on in the block."""
        if facts is not NO_FACTS and facts != NO_FACTS:
            self.block_count += 1
            self.facts.append(facts)
            self.blocks.append(self.block_count)

    def pop_to(self, depth: int) -> None:
        """Forget what held in a block that is left: all but the first `depth` facts."""
        del self.facts[depth:]
        del self.blocks[depth:]

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

    def pass_out(self, args: Arguments, kwargs: Keywords) -> None:
        """Hand values to code that is not walked: their state is used."""
        for value in (*args, *kwargs.values()):
            self.touch_whole(value)
            if value.items:
                self.pass_out(value.items, {})

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
            # A tensor handed in is the caller's to see written; what an object holds, or an argument that comes back, is state.
            round_trip = not path.steps and self.entry is not None and _round_trip(self.entry, path.label)
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
                function=_display(current.function),
                class_name=class_name,
                verb=verb,
                declared=declared & ~Kind.MARKS,
                value=value.content_kinds & ~Kind.MARKS,
                owner=owner & ~Kind.MARKS,
                inputs=inputs or value.inputs,
                facts=facts,
                block=self.blocks[-1] if self.blocks else 0,
                round_trip=round_trip,
                chain=self._chain(),
            )
        )
        if operation is Operation.REBIND and (not path.steps or path.steps[-1] != ITEM):
            self.definite |= {path}

    def hinder(self, hindrance: Hindrance, node: ast.AST, verb: str, subject: ast.AST | None = None) -> None:
        """Tell the recorder of an obstacle to capture."""
        if self.recorder is None or self.muted or any(facts.eager or facts.dead for facts in self.facts):
            return
        if not hasattr(node, "lineno"):
            return
        function = self.now.function
        location = self.location(node, node)
        owner = next((active.function.owner for active in reversed(self.stack) if active.function.owner is not None), self.itself)
        self.recorder.obstacle(
            Obstacle(
                hindrance=hindrance,
                verb=verb,
                subject=_quoted(subject) if subject is not None else "",
                location=location,
                source_line=function.file.lines[location.line - 1],
                function=_display(function),
                class_name=owner.name if owner is not None else None,
                training_only=any(facts.training for facts in self.facts),
                entry_points=(self.recorder.entry_point,),
                chain=self._chain(),
            )
        )

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

    def _chain(self) -> tuple[Frame, ...]:
        return tuple(
            Frame(_display(active.function), active.function.file.path, active.line) for active in self.stack[:-1] if active.line
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


def _round_trip(entry: Function, name: str) -> bool:
    """Whether an entry point makes argument `name` when it is missing, and hands it back."""
    if isinstance(entry.node, ast.Lambda):
        return False
    made = returned = False
    for node in ast.walk(entry.node):
        if isinstance(node, ast.Assign):
            made = made or any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        elif isinstance(node, ast.Return) and node.value is not None:
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            returned = returned or any(isinstance(part, ast.Name) and part.id == name for part in parts)
    parameters = [*entry.positional(), *entry.keyword_only()]
    return made and returned and any(parameter.arg == name and default is not None for parameter, default in parameters)


def _display(function: Function) -> str:
    """A function as a reader knows it."""
    return f"{function.owner.name}.{function.name}" if function.owner is not None else function.name


def _quoted(node: ast.AST) -> str:
    """An expression as a message can quote it."""
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."


def _characters(line: str, column: int) -> int:
    """A column counted in UTF-8 bytes, in characters."""
    return column if line.isascii() else len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))


def _without_paths(value: Value) -> Value:
    """What an attribute is declared to be by a value bound to it: its kind and classes.

    Once kept, an object is no longer new, and a number is state, wherever it was read.
    """
    objects = tuple(item for item in value.objects if not isinstance(item, Instance))
    element = _without_paths(value.element) if value.element is not None else None
    items = tuple(_without_paths(item) for item in value.items) if value.items is not None else None
    kinds = value.kinds & ~(Kind.SIZE | Kind.READ)
    return Value(kinds, (), value.classes, objects, element, items, value.constant)

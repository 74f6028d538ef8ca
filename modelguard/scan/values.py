"""Abstract values: what a Python value in a region may be, and which state it may be a part of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from modelguard.observation import Kind, Root

if TYPE_CHECKING:
    import ast

    from modelguard.scan.facts import FunctionFacts
    from modelguard.scan.project import ClassInfo, ExternalClass, SourceFile

ITEM = "[*]"
"""The step of a state path that stands for any item of a container."""

WHOLE = "**"
"""The step that stands for all that is below: a module that is called, an object that is handed to unknown code."""

_MOST = 8
"""How many alternatives a value keeps of each sort; more than that are dropped, oldest first kept."""


class Path(NamedTuple):
    """A state path: a root (`label` is what it is called in the source, `scope` makes it unique) and steps of attributes and items."""

    root: Root
    label: str
    scope: str
    steps: tuple[str, ...]

    def step(self, name: str) -> Path:
        """The path of an attribute or item of what this path names; items of items are one."""
        if name == ITEM and self.steps and self.steps[-1] == ITEM:
            return self
        return Path(self.root, self.label, self.scope, (*self.steps, name))

    def parent(self) -> Path:
        """The path without its last step."""
        return Path(self.root, self.label, self.scope, self.steps[:-1])

    def holder(self) -> Path:
        """The attribute that holds what this path names: the path without trailing item steps."""
        path = self
        while path.steps and path.steps[-1] == ITEM:
            path = path.parent()
        return path

    def related(self, other: Path) -> bool:
        """Whether one is the other or a part of it."""
        if self.root is not other.root or self.label != other.label or self.scope != other.scope:
            return False
        return all(mine == yours or _may_equal(mine, yours) for mine, yours in zip(self.steps, other.steps))

    def covers(self, other: Path) -> bool:
        """Whether `other` is this or a part of it."""
        return self.related(other) and len(self.steps) <= len(other.steps)

    def __str__(self) -> str:
        return self.label + "".join(step if step == ITEM else f".{step}" for step in self.steps)


def _may_equal(left: str, right: str) -> bool:
    """Whether two steps may be the same attribute, where a name is only known in part (`cos_*`)."""
    if left in (ITEM, WHOLE) or right in (ITEM, WHOLE) or not ("*" in left or "*" in right):
        return False
    start, _, end = (left if "*" in left else right).partition("*")
    other = right if "*" in left else left
    return "*" in other or (other.startswith(start) and other.endswith(end))


class Check(NamedTuple):
    """Something a guard asks of a state path: `missing` (is it there at all), `size` (is it large enough, of the right dtype) or
    `compare` (of the value itself)."""

    path: Path
    how: str


class Facts(NamedTuple):
    """What holds on one branch of a test."""

    training: bool = False
    evaluating: bool = False
    eager: bool = False
    dead: bool = False
    checks: tuple[Check, ...] = ()

    def both(self, other: Facts) -> Facts:
        """What holds when both hold."""
        if other is NO_FACTS:
            return self
        if self is NO_FACTS:
            return other
        return Facts(
            self.training or other.training,
            self.evaluating or other.evaluating,
            self.eager or other.eager,
            self.dead or other.dead,
            self.checks + other.checks,
        )

    def either(self, other: Facts) -> Facts:
        """What holds when at least one holds: a check made in either counts."""
        return Facts(
            self.training and other.training,
            self.evaluating and other.evaluating,
            self.eager and other.eager,
            self.dead and other.dead,
            self.checks + other.checks,
        )


NO_FACTS = Facts()


class Test(NamedTuple):
    """What holds where a truth value is true, and where it is false."""

    true: Facts
    false: Facts


class Environment:
    """The names of one function activation (or one decorator's), with the enclosing ones behind it."""

    __slots__ = ("names", "outer", "persistent", "scope")

    def __init__(self, outer: Environment | None, persistent: bool = False, scope: str = "") -> None:
        self.names: dict[str, Value] = {}
        self.outer = outer
        self.persistent = persistent
        self.scope = scope

    def holder(self, name: str) -> Environment | None:
        """The nearest environment that binds `name`."""
        environment: Environment | None = self
        while environment is not None:
            if name in environment.names:
                return environment
            environment = environment.outer
        return None


class Function:
    """A function of the project: its syntax, where it stands, what it closes over and what it is bound to."""

    __slots__ = ("bound", "environment", "facts", "file", "memoised", "name", "node", "offset", "owner")

    def __init__(
        self,
        name: str,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        file: SourceFile,
        offset: int,
        owner: ClassInfo | None = None,
        environment: Environment | None = None,
        bound: Value | None = None,
        memoised: bool = False,
        facts: FunctionFacts | None = None,
    ) -> None:
        self.name = name
        self.node = node
        self.file = file
        self.offset = offset
        self.owner = owner
        self.environment = environment
        self.bound = bound
        self.memoised = memoised
        self.facts = facts

    @property
    def place(self) -> tuple[str, int, int]:
        """Where the function stands: the same for every copy of it."""
        return (self.file.path, self.node.lineno + self.offset, self.node.col_offset)

    def bind(self, value: Value) -> Function:
        """This function as a method of `value`."""
        return Function(
            self.name, self.node, self.file, self.offset, self.owner, self.environment, value, self.memoised, self.facts
        )


class ClassObject(NamedTuple):
    """A class of the project, or one known by name only, as a value."""

    info: ClassInfo | ExternalClass


class External(NamedTuple):
    """Something outside the project, by its dotted name: `torch.nn.functional.batch_norm`, `builtins.setattr`."""

    dotted: str


class ModuleObject(NamedTuple):
    """A Python module of the project."""

    file: SourceFile


class Instance:
    """An object made in the region, or while a decorator was applied: writes on it change nothing that outlives it."""

    __slots__ = ("fields", "info", "persistent")

    def __init__(self, info: ClassInfo | None, persistent: bool = False) -> None:
        self.info = info
        self.persistent = persistent
        self.fields: dict[str, Value] = {}


class Partial(NamedTuple):
    """`functools.partial`, or a decorator factory waiting for its function."""

    function: Value
    args: tuple[Value, ...]
    kwargs: tuple[tuple[str, Value], ...]


PROPERTY: tuple[tuple[str, Value], ...] = (("property", None),)  # type: ignore[assignment]
"""Marks, as the keywords of a `Partial`, the function of a `property(...)` bound in a class body."""


class Super(NamedTuple):
    """`super()` in a method of `after`, on `value`."""

    after: ClassInfo
    value: Value


class BoundMethod(NamedTuple):
    """A method of an object that is no part of the state: `history.append` taken off a local list."""

    receiver: Value
    name: str


Object = Function | ClassObject | External | ModuleObject | Instance | Partial | Super | BoundMethod


class Value:
    """What a value may be.

    `paths` are the state it may be (or share memory with); `classes` what it may be an instance of; `objects` what is known
    exactly; `element` what it holds, `items` the same one by one for short tuples and lists; `about` the state it measures (a size, a
    dtype); `inputs` whether it is computed from what the entry point was given; `test` what its truth says.
    """

    __slots__ = ("about", "classes", "constant", "element", "inputs", "items", "kinds", "objects", "paths", "test")

    def __init__(
        self,
        kinds: int = Kind.UNKNOWN,
        paths: tuple[Path, ...] = (),
        classes: tuple[ClassInfo | ExternalClass, ...] = (),
        objects: tuple[Object, ...] = (),
        element: Value | None = None,
        items: tuple[Value, ...] | None = None,
        constant: object = None,
        inputs: bool = False,
        about: tuple[Path, ...] = (),
        test: Test | None = None,
    ) -> None:
        self.kinds = kinds
        self.paths = paths
        self.classes = classes
        self.objects = objects
        self.element = element
        self.items = items
        self.constant = constant
        self.inputs = inputs
        self.about = about
        self.test = test

    def with_paths(self, paths: tuple[Path, ...]) -> Value:
        """The same value, as (a part of) other state."""
        return Value(
            self.kinds,
            paths,
            self.classes,
            self.objects,
            self.element,
            self.items,
            self.constant,
            self.inputs,
            self.about,
            self.test,
        )

    def with_inputs(self, inputs: bool) -> Value:
        """The same value, computed from the inputs or not."""
        if inputs == self.inputs:
            return self
        return Value(
            self.kinds,
            self.paths,
            self.classes,
            self.objects,
            self.element,
            self.items,
            self.constant,
            inputs,
            self.about,
            self.test,
        )

    @property
    def content_kinds(self) -> int:
        """The kinds of the value and of what it holds."""
        kinds = self.kinds
        if kinds & (Kind.CONTAINER | Kind.TUPLE):
            element = self.elements()
            if element is not None:
                kinds |= element.kinds & (Kind.ANY_TENSOR | Kind.MODULE)
        return kinds

    def elements(self) -> Value | None:
        """What the value holds, joined."""
        if self.items:
            joined = join_all(self.items)
            return joined if self.element is None else join(joined, self.element)
        return self.element

    def signature(self) -> tuple[object, ...]:
        """A key under which two values mean the same to a function that receives them."""
        return (
            self.kinds,
            self.paths,
            tuple(id(c) for c in self.classes),
            tuple(_identity(o) for o in self.objects),
            self.constant if isinstance(self.constant, (str, int, bool)) else None,
            None if self.element is None else (self.element.kinds, self.element.paths),
            None
            if self.items is None
            else tuple((i.kinds, i.paths, i.constant if isinstance(i.constant, str) else None) for i in self.items),
            self.inputs,
        )


def _identity(item: Object) -> object:
    if isinstance(item, Function):
        return (item.place, id(item.environment), item.bound.paths if item.bound else ())
    if isinstance(item, External):
        return item.dotted
    if isinstance(item, ClassObject):
        return id(item.info)
    return id(item)


UNKNOWN = Value()
NOTHING = Value(Kind.NOTHING)
NONE = Value(Kind.NONE)
NUMBER = Value(Kind.NUMBER)
BOOL = Value(Kind.BOOL)
STRING = Value(Kind.STRING)
TENSOR = Value(Kind.TENSOR)
INPUT_TENSOR = Value(Kind.TENSOR, inputs=True)
INPUT = Value(Kind.UNKNOWN, inputs=True)


def union(left: tuple, right: tuple) -> tuple:  # type: ignore[type-arg]
    """Both, without repetition, at most eight."""
    if not right or left is right:
        return left
    if not left:
        return right
    return (*left, *(item for item in right if item not in left))[:_MOST]


def join(left: Value, right: Value) -> Value:
    """A value that may be either."""
    if left is right or right is NOTHING:
        return left
    if left is NOTHING:
        return right
    items = None
    element = (
        left.element
        if right.element is None
        else right.element
        if left.element is None
        else join_elements(left.element, right.element)
    )
    if left.items is not None and right.items is not None and len(left.items) == len(right.items):
        items = tuple(join(a, b) for a, b in zip(left.items, right.items))
    else:
        for side in (left, right):
            if side.items:
                joined = join_all(side.items)
                element = joined if element is None else join_elements(element, joined)
    return Value(
        left.kinds | right.kinds,
        union(left.paths, right.paths),
        union(left.classes, right.classes),
        union(left.objects, right.objects),
        element,
        items,
        left.constant if left.constant == right.constant and type(left.constant) is type(right.constant) else None,
        left.inputs or right.inputs,
        union(left.about, right.about),
        left.test if left.test is right.test else None,
    )


def join_elements(left: Value, right: Value) -> Value:
    """As `join`, one level deep: what a container of containers holds is not followed without end."""
    if left is right:
        return left
    return Value(
        left.kinds | right.kinds,
        union(left.paths, right.paths),
        union(left.classes, right.classes),
        union(left.objects, right.objects),
        left.element or right.element,
        None,
        None,
        left.inputs or right.inputs,
    )


def join_all(values: Iterable[Value]) -> Value:
    """A value that may be any of them; NOTHING of none."""
    result = NOTHING
    for value in values:
        result = join(result, value)
    return result


SPREAD = 1 << 30
"""Marks, as a kind, the argument list's `*rest` among the positional arguments of a call."""

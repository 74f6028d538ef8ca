"""Abstract values: what a Python value in a region may be, and which state it may be a part of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from modelguard.observation import Kind

if TYPE_CHECKING:
    import ast

    from modelguard.scan.facts import FunctionFacts
    from modelguard.scan.paths import Path, Test
    from modelguard.scan.symbols import ClassInfo, ExternalClass, SourceFile

_Item = TypeVar("_Item")

DROPPED, RECEIVER, ALIAS, USED = range(4)
"""What becomes of a value: nothing; something is done to it; it gets another name; it is used."""

FEW = 3
"""States a value may be a part of at most if what is done to it is to be seen, where its type is not known."""

_MOST = 8
"""How many alternatives a value keeps of each sort; more than that are dropped, oldest first kept."""


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

    __slots__ = ("bound", "disabled", "environment", "facts", "file", "memoised", "name", "node", "offset", "owner", "place")

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
        disabled: bool = False,
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
        self.disabled = disabled
        self.place = (file.path, node.lineno + offset, node.col_offset)
        """Where the function stands: the same for every copy of it."""

    @property
    def scope(self) -> str:
        """What makes a state path unique that starts at the function itself."""
        return f"{self.file.path}:{self.node.lineno + self.offset}"

    def bind(self, value: Value) -> Function:
        """This function as a method of `value`."""
        return self._copy(value, self.memoised, self.disabled)

    def memoise(self) -> Function:
        """This function with its results kept."""
        return self._copy(self.bound, True, self.disabled)

    def disable(self) -> Function:
        """This function kept out of graphs."""
        return self._copy(self.bound, self.memoised, True)

    def positional(self) -> list[tuple[ast.arg, ast.expr | None]]:
        """The parameters that are passed by position, with their defaults."""
        arguments = self.node.args
        parameters = [*arguments.posonlyargs, *arguments.args]
        required = len(parameters) - len(arguments.defaults)
        return [*zip(parameters, [*[None] * required, *arguments.defaults], strict=True)]

    def keyword_only(self) -> list[tuple[ast.arg, ast.expr | None]]:
        """The parameters that are passed by name only, with their defaults."""
        arguments = self.node.args
        return [*zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]

    def _copy(self, bound: Value | None, memoised: bool, disabled: bool) -> Function:
        return Function(
            self.name, self.node, self.file, self.offset, self.owner, self.environment, bound, memoised, self.facts, disabled
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


class Super(NamedTuple):
    """`super()` in a method of `after`, on `value`."""

    after: ClassInfo
    value: Value


Object = Function | ClassObject | External | ModuleObject | Instance | Partial | Super


class Value:
    """What a value may be.

    `paths` are the state it may be (or share memory with); `classes` what it may be an instance of; `objects` what is known
    exactly; `element` what it holds, `items` the same one by one for short tuples and lists; `about` the state it measures
    (a size, a dtype); `inputs` whether it is computed from what the entry point was given; `test` what its truth says.
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
    def key_name(self) -> str:
        """The attribute that the value names as a key of `getattr` or `__dict__`; `*` where that is only known at run time."""
        return self.constant if isinstance(self.constant, str) else "*"

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
        return (item.place, id(item.environment), item.bound.paths if item.bound else (), item.disabled)
    if isinstance(item, External):
        return item.dotted
    if isinstance(item, ClassObject):
        return id(item.info)
    return id(item)


Arguments = Sequence[Value]
Keywords = dict[str, Value]
"""What a call is handed: by position (with `SPREAD` for `*rest`), and by name (with `**` for the rest)."""

UNKNOWN = Value()
NOTHING = Value(Kind.NOTHING)
NONE = Value(Kind.NONE)
INPUT = Value(Kind.UNKNOWN, inputs=True)

PROPERTY = (("property", NONE),)
"""Marks, as the keywords of a `Partial`, the function of a `property(...)` bound in a class body."""

SPREAD = 1 << 30
"""Marks, as a kind, the argument list's `*rest` among the positional arguments of a call."""


def union(left: tuple[_Item, ...], right: tuple[_Item, ...]) -> tuple[_Item, ...]:
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
        items = tuple(join(a, b) for a, b in zip(left.items, right.items, strict=True))
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


def bound(item: Object, base: Value) -> Object:
    """A method taken off `base`."""
    if isinstance(item, Function):
        return item.bind(base)
    if isinstance(item, Instance):
        return Partial(Value(Kind.OBJECT, classes=(item.info,) if item.info else (), objects=(item,)), (base,), ())
    if isinstance(item, Partial):
        return Partial(item.function, (*item.args, base), item.kwargs)
    return item


def may_be_tensor(value: Value) -> bool:
    """Whether a value may be a tensor, as far as its kinds tell."""
    if value.kinds & Kind.ANY_TENSOR:
        return True
    return bool(value.kinds & Kind.UNKNOWN) and not value.kinds & (Kind.MODULE | Kind.CONTAINER | Kind.CONFIG)


def tensor_like(value: Value) -> bool:
    """Whether a value may be a tensor, as far as anything is known."""
    return may_be_tensor(value) and (bool(value.kinds & Kind.ANY_TENSOR) or not value.objects)


_SURELY = Kind.ANY_TENSOR | Kind.NONE | Kind.MASK | Kind.ON_CPU | Kind.READ
_PERHAPS = _SURELY | Kind.UNKNOWN | Kind.NUMBER | Kind.BOOL | Kind.TUPLE


def is_tensor(value: Value) -> bool:
    """Whether a value is a tensor, if anything."""
    return bool(value.kinds & Kind.ANY_TENSOR) and not value.kinds & ~_SURELY


def is_tensor_if_used_as_one(value: Value) -> bool:
    """Whether a value on which something is called that tensors alone have is one."""
    return bool(value.kinds & Kind.ANY_TENSOR) and not value.kinds & ~_PERHAPS


def computes_tensors(value: Value) -> bool:
    """Whether what an operator makes of a value is a tensor: a submodule's result is one where it can be computed with."""
    return bool(value.kinds & Kind.ANY_TENSOR) and not value.kinds & ~(_SURELY | Kind.UNKNOWN | Kind.TUPLE)


def is_truth_type(value: Value | None) -> bool:
    """Whether a value is `torch.bool`."""
    return value is not None and any(isinstance(item, External) and item.dotted == "torch.bool" for item in value.objects)


def measured(args: Iterable[Value]) -> int:
    """The marks of a number that is computed from others: that it tells of a size, or of a tensor's data."""
    marks = 0
    for value in args:
        element = value.elements()
        marks |= value.kinds if element is None else value.kinds | element.kinds
    return marks & (Kind.SIZE | Kind.READ)


def any_inputs(args: Arguments, kwargs: Keywords) -> bool:
    """Whether an argument of a call is computed from what the entry point was given."""
    return any(value.inputs for value in args) or any(value.inputs for value in kwargs.values())

"""What the statements of a function say of its names: what is stored on them, which are its own, which are tensors."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable
from typing import NamedTuple

from modelguard.scan.tables import TENSOR_METHODS, VIEW_FUNCTIONS

_FRESH_CALLS = frozenset(
    (
        "len int float bool str repr range abs sum round dict list set tuple frozenset sorted isinstance hasattr type hash id "
        "print OrderedDict defaultdict deque Counter ord chr divmod pow any all format bytes min max"
    ).split()
)
_MADE = (
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.JoinedStr,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.DictComp,
    ast.SetComp,
    ast.GeneratorExp,
)
_LIBRARIES = frozenset(("torch", "F", "nn", "np", "math", "numpy", "functional"))
_TENSOR_ALONE = (TENSOR_METHODS - frozenset("add log any all max min where select roll norm view".split())) | frozenset(
    "size dim ndim numel shape dtype device flatten squeeze unsqueeze permute transpose contiguous detach".split()
)
"""Attributes that speak for a tensor where nothing is known of a parameter."""
_CONTAINER_ALONE = frozenset("append extend items keys values get pop update".split())
NO_NAMES: frozenset[str] = frozenset()
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
"""A function as it is parsed."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CONSTRUCTORS = frozenset(("__init__", "__post_init__", "__new__", "__set_name__", "__init_subclass__"))


def dotted(node: ast.expr) -> str:
    """`a.b.c` of a name or attribute chain, looking through subscripts and calls; `?` of anything else."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Name):
            parts.append(node.id)
            return ".".join(reversed(parts))
        elif isinstance(node, ast.Subscript) and not parts:
            node = node.value
        elif isinstance(node, ast.Call) and not parts:
            node = node.func
        else:
            return "?"


def blocks(node: ast.stmt) -> Iterable[list[ast.stmt]]:
    """The statement lists directly inside a compound statement."""
    for field in ("body", "orelse", "finalbody"):
        inner = getattr(node, field, None)
        if inner:
            yield inner
    for handler in getattr(node, "handlers", ()):
        yield handler.body
    for case in getattr(node, "cases", ()):
        yield case.body


class Seen(NamedTuple):
    """What a function's statements say.

    `stores`: attributes bound on the first parameter. `written`: whether something is stored on what the function did not make;
    `fresh`: locals only ever bound to new objects. `inner`: classes and imports inside, which count as the file's own: a
    factory's module class is still a module class. `owner`: the first parameter.
    """

    stores: frozenset[str]
    written: bool
    fresh: frozenset[str]
    inner: list[ast.stmt]
    owner: str


class _Examiner:
    """Walks the statements of one function, and of those inside it."""

    def __init__(self, function: FunctionNode, is_method: bool) -> None:
        self.stores: set[str] = set()
        self.inner: list[ast.stmt] = []
        positional = [*function.args.posonlyargs, *function.args.args]
        self.owner = positional[0].arg if positional else ""
        self.makes_owner = is_method and function.name in CONSTRUCTORS
        self.given = set(_parameters(function)) - ({function.args.kwarg.arg} if function.args.kwarg is not None else set())
        self.bound: dict[str, bool] = {}
        """Locals, each with whether all that it is bound to is new."""
        self.changed: set[str] = set()
        """What attributes and items are stored on: empty for what has no name."""
        self.shares = False
        self._run(function.body)

    def seen(self) -> Seen:
        """What was seen, once all statements were walked."""
        fresh = frozenset(name for name, is_new in self.bound.items() if is_new and name not in self.given)
        mine = fresh | {self.owner} if self.makes_owner else fresh
        written = self.shares or not self.changed <= mine
        return Seen(frozenset(self.stores), written, fresh, self.inner, self.owner)

    def _run(self, body: list[ast.stmt]) -> None:
        work = list(reversed(body))
        while work:
            node = work.pop()
            if isinstance(node, ast.Assign):
                for item in node.targets:
                    self._target(item, node.value)
            elif isinstance(node, ast.AnnAssign):
                if node.value is not None:
                    self._target(node.target, node.value)
            elif isinstance(node, ast.AugAssign):
                if isinstance(node.target, ast.Name):
                    # In place, where it is a tensor or a list.
                    self.changed.update({node.target.id} & self.given)
                else:
                    self._target(node.target, None)
            elif isinstance(node, ast.Delete):
                for item in node.targets:
                    if not isinstance(item, ast.Name):
                        self._target(item, None)
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                self.shares = True
            elif isinstance(node, (ast.ClassDef, ast.Import, ast.ImportFrom)):
                self.inner.append(node)
            elif not isinstance(node, ast.Expr):
                if isinstance(node, (ast.For, ast.AsyncFor)):
                    self._target(node.target, None)
                elif isinstance(node, (ast.With, ast.AsyncWith)):
                    for entry in node.items:
                        if entry.optional_vars is not None:
                            self._target(entry.optional_vars, None)
                elif isinstance(node, FUNCTIONS):
                    self.given.update(_parameters(node))
                for block in blocks(node):
                    work.extend(reversed(block))

    def _target(self, node: ast.expr, value: ast.expr | None) -> None:
        if isinstance(node, ast.Name):
            self.bound[node.id] = self.bound.get(node.id, True) and value is not None and _makes(value)
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self.owner:
                self.stores.add(node.attr)
            self.changed.add(_root(node))
        elif isinstance(node, (ast.Tuple, ast.List)):
            parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(node.elts) else ()
            for item, part in itertools.zip_longest(node.elts, parts):
                self._target(item, part)
        elif isinstance(node, ast.Starred):
            self._target(node.value, None)


def examine(function: FunctionNode, is_method: bool) -> Seen:
    """Walk the statements of a function."""
    return _Examiner(function, is_method).seen()


def _parameters(function: FunctionNode) -> list[str]:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [parameter.arg for parameter in (*named, arguments.vararg, arguments.kwarg) if parameter is not None]


def _makes(node: ast.expr) -> bool:
    """Whether an expression makes something new, whatever its parts are."""
    if not isinstance(node, ast.Call):
        return isinstance(node, _MADE)
    if isinstance(node.func, ast.Name):
        return node.func.id in _FRESH_CALLS
    root, _, name = dotted(node.func).rpartition(".")
    return root.partition(".")[0] in _LIBRARIES and name not in VIEW_FUNCTIONS


def used_as_tensors(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str]:
    """The parameters of a function of which its body says that they are tensors, before they are bound to something else.

    It says so by methods that tensors alone have, by functions of torch that are handed one, and by indices such as `x[:, 0]`;
    not where it also asks what they are, or uses them as a container.
    """
    used: dict[str, int] = {}
    bound: dict[str, int] = {}
    other: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                bound[node.id] = min(bound.get(node.id, node.lineno), node.lineno)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in _TENSOR_ALONE:
                used[node.value.id] = min(used.get(node.value.id, node.lineno), node.lineno)
            elif node.attr in _CONTAINER_ALONE:
                other.add(node.value.id)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            if isinstance(node.slice, ast.Tuple) and tensor_index(node.slice):
                used[node.value.id] = min(used.get(node.value.id, node.lineno), node.lineno)
            elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                other.add(node.value.id)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name):
            first = node.args[0].id
            name = dotted(node.func)
            if name == "isinstance":
                other.add(first)
            elif name.partition(".")[0] in ("torch", "F") and name.rpartition(".")[2] in TENSOR_METHODS:
                used[first] = min(used.get(first, node.lineno), node.lineno)
    return frozenset(name for name, line in used.items() if name not in other and line <= bound.get(name, line))


def tensor_index(node: ast.expr) -> bool:
    """Whether only a tensor (or an array) is indexed like this."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(
        isinstance(part, (ast.Slice, ast.Compare)) or (isinstance(part, ast.Constant) and part.value is ...) for part in parts
    )


def _root(node: ast.expr) -> str:
    """The name a store is rooted in, empty where it is rooted in some other expression."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""

"""What the statements of a function say of its names: which may be a part of the state, and what is stored by them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from modelguard.scan.tables import ELEMENT_METHODS, ITEM_METHODS, MODULE_WALKS, TENSOR_METHODS, VIEW_FUNCTIONS, VIEW_METHODS

_FRESH_CALLS = frozenset(
    (
        "len int float bool str repr range abs sum round dict list set tuple frozenset sorted isinstance hasattr type hash id "
        "print OrderedDict defaultdict deque Counter ord chr divmod pow any all format bytes min max"
    ).split()
)
_MADE = frozenset((ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr))
"""Expressions that make something new, whatever their parts are."""
_LIBRARIES = frozenset(("torch", "F", "nn", "np", "math", "numpy", "functional"))
NO_NAMES: frozenset[str] = frozenset()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


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

    `stores`: attributes bound on the first parameter. `roots`: names that stores are rooted in; `handed`: those by which only
    the memory of a tensor can be changed. `fresh`: locals only ever bound to new objects. `arguments`: the parameters but the
    first, and locals that are at most a part of one. `returning`: optional parameters that are bound again, as by
    `if state is None: state = ...`. `inner`: classes and imports inside, which count as the file's own: a factory's module
    class is still a module class. `borrowed`: locals that are at most what one of `lenders`, methods of the same object, gave.
    `hands_out`: whether it may return a part of the state. `levels`: what each local may be. `owner`: the first parameter.
    """

    stores: dict[str, bool]
    roots: set[str]
    handed: set[str]
    fresh: set[str]
    arguments: set[str]
    returning: set[str]
    nests: bool
    inner: list[ast.stmt]
    borrowed: set[str]
    lenders: set[str]
    hands_out: bool
    levels: dict[str, int]
    parameters: list[str]
    owner: str


STATE, BORROWED, HANDED, NEW = range(4)
"""What a local may be: a part of the state; what an own method returned; at most a part of an argument; something new."""


def examine(function: ast.FunctionDef | ast.AsyncFunctionDef, children: AbstractSet[str] = NO_NAMES) -> Seen:
    """Walk the statements of a function; `children` are attributes of its class that hold no method."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    owner = positional[0].arg if positional else ""
    stores: dict[str, bool] = {}
    roots: set[str] = set()
    handed: set[str] = set()
    rebound: set[str] = set()
    lenders: set[str] = set()
    nests = hands_out = False
    inner: list[ast.stmt] = []
    bound: dict[str, int] = dict.fromkeys((parameter.arg for parameter in (*positional, *arguments.kwonlyargs)), HANDED)
    if owner:
        bound[owner] = STATE
    defaults = zip(
        (*positional[len(positional) - len(arguments.defaults) :], *arguments.kwonlyargs),
        (*arguments.defaults, *arguments.kw_defaults),
        strict=True,
    )
    for parameter, default in defaults:
        if isinstance(default, (ast.List, ast.Dict, ast.Set, ast.Call)):
            # The same object in every call.
            bound[parameter.arg] = STATE
    if arguments.kwarg is not None:
        bound[arguments.kwarg.arg] = NEW

    def target(node: ast.expr, level: int, value: ast.expr | None = None) -> None:
        if isinstance(node, ast.Name):
            known = bound.get(node.id, NEW)
            bound[node.id] = level if level < known else known
            rebound.add(node.id)
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == owner:
                stores[node.attr] = stores.get(node.attr, False) or value is None or _may_be_module(value)
            roots.add(_root(node))
        elif isinstance(node, ast.Subscript):
            root = _root(node)
            (handed if bound.get(root) == HANDED and tensor_index(node.slice) else roots).add(root)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for item in node.elts:
                target(item, level)
        elif isinstance(node, ast.Starred):
            target(node.value, level)

    def assign(node: ast.expr, value: ast.expr) -> None:
        pairs = (
            isinstance(node, (ast.Tuple, ast.List))
            and isinstance(value, (ast.Tuple, ast.List))
            and len(node.elts) == len(value.elts)
        )
        if pairs and not any(isinstance(item, ast.Starred) for item in (*node.elts, *value.elts)):  # type: ignore[attr-defined]
            for item, part in zip(node.elts, value.elts, strict=True):  # type: ignore[attr-defined]
                assign(item, part)
        else:
            target(node, level_of(value, bound, children, lenders), value)

    work: list[ast.stmt] = list(reversed(function.body))
    while work:
        node = work.pop()
        kind = type(node)
        if kind is ast.Expr:
            continue
        if kind is ast.Return:
            hands_out = hands_out or _returns_state(node.value, bound, children)  # type: ignore[attr-defined]
        elif kind is ast.If:
            work.extend(reversed(node.orelse))  # type: ignore[attr-defined]
            work.extend(reversed(node.body))  # type: ignore[attr-defined]
        elif isinstance(node, ast.Assign):
            for item in node.targets:
                assign(item, node.value)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                target(node.target, level_of(node.value, bound, children, lenders), node.value)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                name = node.target.id
                (handed if bound.get(name) == HANDED else roots).add(name)
            else:
                target(node.target, NEW)
        elif isinstance(node, ast.Delete):
            for item in node.targets:
                if not isinstance(item, ast.Name):
                    target(item, STATE)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            target(
                node.target,
                level_of(node.iter, bound, children, lenders)
                if isinstance(node.iter, ast.Call)
                else _part_level(node.iter, bound),
            )
            work.extend(reversed(node.orelse))
            work.extend(reversed(node.body))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for entry in node.items:
                if entry.optional_vars is not None:
                    target(entry.optional_vars, STATE)
            work.extend(reversed(node.body))
        elif isinstance(node, FUNCTIONS):
            nests = True
            for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                bound[parameter.arg] = STATE
            work.extend(reversed(node.body))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            roots.add("")
        elif isinstance(node, (ast.ClassDef, ast.Import, ast.ImportFrom)):
            inner.append(node)
        else:
            for block in blocks(node):
                work.extend(reversed(block))
    optional = {parameter.arg for parameter in (*positional[len(positional) - len(arguments.defaults) :], *arguments.kwonlyargs)}
    return Seen(
        stores,
        roots,
        handed,
        {name for name, level in bound.items() if level == NEW},
        {name for name, level in bound.items() if level == HANDED},
        optional & rebound,
        nests,
        inner,
        {name for name, level in bound.items() if level == BORROWED},
        lenders,
        hands_out,
        bound,
        [parameter.arg for parameter in (positional[1:] if owner in ("self", "cls") else positional)],
        owner,
    )


def _returns_state(node: ast.expr | None, bound: dict[str, int], children: AbstractSet[str]) -> bool:
    """Whether a returned value may be a part of the state."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(part is not None and level_of(part, bound, children, set()) <= BORROWED for part in parts)


def _part_level(node: ast.expr, bound: dict[str, int]) -> int:
    """What a part of a name, attribute or item chain may be."""
    root = _root(node)
    return min(bound.get(root, STATE), HANDED) if root else STATE


def level_of(node: ast.expr, bound: dict[str, int], children: AbstractSet[str], lenders: set[str]) -> int:
    """What an expression may be; `bound` says it of the locals met so far.

    Methods of the same object that are called add to `lenders`.
    """
    kind = type(node)
    if kind in _MADE:
        return NEW
    if isinstance(node, ast.Name):
        return bound.get(node.id, STATE)
    if kind is ast.Attribute or kind is ast.Subscript:
        return bound.get(_root(node), STATE)
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Name):
            if func.id in _FRESH_CALLS:
                return NEW
            return min((level_of(item, bound, children, lenders) for item in node.args), default=STATE)
        if isinstance(func, ast.Attribute):
            name = func.attr
            value = func.value
            if isinstance(value, ast.Name):
                if value.id == "self":
                    if name in MODULE_WALKS or name in ELEMENT_METHODS or name in ITEM_METHODS:
                        return STATE
                    if name in children:
                        return NEW
                    lenders.add(name)
                    return BORROWED
                if value.id in _LIBRARIES and value.id not in bound:
                    return level_of(node.args[0], bound, children, lenders) if node.args and name in VIEW_FUNCTIONS else NEW
            elif isinstance(value, ast.Attribute) and _root(value) in _LIBRARIES:
                return NEW
            if name in TENSOR_METHODS and name not in VIEW_METHODS:
                return NEW
            return level_of(value, bound, children, lenders)
        return STATE
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return min((level_of(item, bound, children, lenders) for item in node.elts), default=NEW)
    if isinstance(node, ast.Dict):
        return min((level_of(item, bound, children, lenders) for item in node.values), default=NEW)
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        made = node.value if isinstance(node, ast.DictComp) else node.elt
        if isinstance(made, (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.IfExp)):
            return min(_part_level(generator.iter, bound) for generator in node.generators)
        return level_of(made, bound, children, lenders)
    if isinstance(node, ast.Starred):
        return level_of(node.value, bound, children, lenders)
    if isinstance(node, ast.IfExp):
        return min(level_of(node.body, bound, children, lenders), level_of(node.orelse, bound, children, lenders))
    if isinstance(node, ast.BoolOp):
        return min(level_of(item, bound, children, lenders) for item in node.values)
    return STATE


def tensor_index(node: ast.expr) -> bool:
    """Whether only a tensor (or an array) is indexed like this."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(
        isinstance(part, (ast.Slice, ast.Compare)) or (isinstance(part, ast.Constant) and part.value is ...) for part in parts
    )


def _may_be_module(node: ast.expr) -> bool:
    """Whether an expression could make or name a module."""
    if isinstance(node, ast.Call):
        name = dotted(node.func)
        last = name.rpartition(".")[2]
        return not (name.startswith("torch.") and last.islower()) and last not in ("Parameter", "Buffer")
    return not isinstance(node, (ast.Constant, ast.Compare, ast.BinOp, ast.JoinedStr, ast.Dict, ast.List))


def _root(node: ast.expr) -> str:
    """The name a store is rooted in, empty where it is rooted in some other expression."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""

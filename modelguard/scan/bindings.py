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
_TENSOR_ALONE = (TENSOR_METHODS - frozenset("add log any all max min where select roll norm view".split())) | frozenset(
    "size dim ndim numel shape dtype device flatten squeeze unsqueeze permute transpose contiguous detach".split()
)
"""Attributes that speak for a tensor where nothing is known of a parameter."""
_CONTAINER_ALONE = frozenset("append extend items keys values get pop update".split())
_TENSOR_FIELDS = frozenset(("requires_grad", "grad"))
"""What is set on tensors; on a tensor of the caller's it is no matter of the module's state."""
NO_NAMES: frozenset[str] = frozenset()
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

    `stores`: attributes bound on the first parameter. `written`: whether a store may be one on state; `handed`: names of what
    the caller gave that is stored on, `fills` whether by other means than a tensor's memory. `fresh`: locals only ever bound to
    new objects. `arguments`: parameters, without that of a method's object, and locals that are at most a part of one.
    `returning`: optional parameters that are made where they are missing, as by `if state is None: state = ...`. `inner`: classes
    and imports inside, which count as the file's own: a factory's module class is still a module class. `borrowed`: locals that
    are at most what a method of the same object gave, with the methods; `lenders`: the methods of those that are stored on.
    `hands_out`: whether it may return a part of the state. `states`: locals that may be a part of the state. `owner`: the first
    parameter.
    """

    stores: dict[str, bool]
    written: bool
    handed: set[str]
    fills: bool
    fresh: set[str]
    arguments: set[str]
    returning: set[str]
    nests: bool
    inner: list[ast.stmt]
    borrowed: dict[str, set[str]]
    lenders: set[str]
    hands_out: bool
    states: frozenset[str]
    parameters: list[str]
    owner: str


STATE, BORROWED, HANDED, NEW = range(4)
"""What a local may be: a part of the state; what an own method returned; at most a part of an argument; something new."""


class _Examiner:
    """Walks the statements of one function in order. Where it says what a local is, it errs to the lower level."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool, children: AbstractSet[str]) -> None:
        self.children = children
        self.is_method = is_method
        self.makes_owner = is_method and function.name in CONSTRUCTORS
        self.asked: set[str] = set()
        self.lenders: set[str] = set()
        self.stores: dict[str, bool] = {}
        self.written = self.fills = False
        self.handed: set[str] = set()
        self.lent: set[str] = set()
        self.late: list[tuple[str, bool]] = []
        self.looping = False
        self.floor: dict[str, int] = {}
        """What a loop binds its names to: what they may be when it comes round."""
        self.made: set[str] = set()
        self.given: dict[str, set[str]] = {}
        self.nests = self.hands_out = False
        self.inner: list[ast.stmt] = []
        arguments = function.args
        self.positional = [*arguments.posonlyargs, *arguments.args]
        self.owner = self.positional[0].arg if self.positional else ""
        self.now: dict[str, int] = {}
        """What a local may be here."""
        named = [*self.positional, *arguments.kwonlyargs]
        for parameter in named:
            self.now[parameter.arg] = HANDED
        if self.owner and is_method:
            self.now[self.owner] = STATE
        defaulted = [*self.positional[len(self.positional) - len(arguments.defaults) :], *arguments.kwonlyargs]
        self.optional = {parameter.arg for parameter in defaulted}
        for parameter, default in zip(defaulted, (*arguments.defaults, *arguments.kw_defaults), strict=True):
            if isinstance(default, (ast.List, ast.Dict, ast.Set, ast.Call)):
                # The same object in every call.
                self.now[parameter.arg] = STATE
        if arguments.kwarg is not None:
            self.now[arguments.kwarg.arg] = NEW
        self.ever = dict(self.now)
        """What a local may be anywhere."""
        start = self.now
        known = None
        while known != self.floor:
            known = dict(self.floor)
            self.now = dict(start)
            self.late.clear()
            self.inner.clear()
            self._run(function.body)

    def seen(self) -> Seen:
        """What was seen, once all statements were walked."""
        self.now = self.ever
        self.looping = False
        for name, tensor in self.late:
            self._store_on(name, tensor)
        levels = self.ever
        return Seen(
            self.stores,
            self.written,
            self.handed,
            self.fills,
            {name for name, level in levels.items() if level == NEW},
            {name for name, level in levels.items() if level == HANDED},
            self.optional & self.made,
            self.nests,
            self.inner,
            {name: self.given.get(name, set()) for name, level in levels.items() if level == BORROWED},
            self.lent,
            self.hands_out,
            frozenset(name for name, level in levels.items() if level == STATE and name != "self"),
            [parameter.arg for parameter in (self.positional[1:] if self.is_method else self.positional)],
            self.owner,
        )

    def _run(self, body: list[ast.stmt]) -> None:
        # With each statement: whether it always runs, and once; whether it may run again after what follows it.
        work = [(node, True, False) for node in reversed(body)]
        while work:
            node, once, again = work.pop()
            if isinstance(node, ast.Expr):
                continue
            self.looping = again
            self.lenders.clear()
            if isinstance(node, ast.Assign):
                for item in node.targets:
                    self._assign(item, node.value, once, again)
            elif isinstance(node, ast.If):
                work.extend([(inner, False, again) for inner in reversed(node.orelse)])
                work.extend([(inner, False, again) for inner in reversed(node.body)])
            elif isinstance(node, ast.Return):
                self.hands_out = self.hands_out or self._returns_state(node.value)
            elif isinstance(node, ast.AnnAssign):
                if node.value is not None:
                    self._assign(node.target, node.value, once, again)
            elif isinstance(node, ast.AugAssign):
                if isinstance(node.target, ast.Name):
                    self._store(node.target.id, True, again)
                else:
                    self._target(node.target, NEW, once, again)
            elif isinstance(node, ast.Delete):
                for item in node.targets:
                    if not isinstance(item, ast.Name):
                        self._target(item, STATE, once, again)
            elif isinstance(node, (ast.For, ast.AsyncFor)):
                level = self.level_of(node.iter) if isinstance(node.iter, ast.Call) else self._part_level(node.iter)
                self._target(node.target, level, False, True)
                work.extend([(inner, False, again) for inner in reversed(node.orelse)])
                work.extend([(inner, False, True) for inner in reversed(node.body)])
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                for entry in node.items:
                    if entry.optional_vars is not None:
                        self._target(entry.optional_vars, STATE, False, again)
                work.extend([(inner, False, again) for inner in reversed(node.body)])
            elif isinstance(node, FUNCTIONS):
                self.nests = True
                for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                    self.now[parameter.arg] = self.ever[parameter.arg] = STATE
                work.extend([(inner, False, True) for inner in reversed(node.body)])
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                self.written = True
            elif isinstance(node, (ast.ClassDef, ast.Import, ast.ImportFrom)):
                self.inner.append(node)
            else:
                loop = again or isinstance(node, ast.While)
                for block in blocks(node):
                    work.extend([(inner, False, loop) for inner in reversed(block)])

    def _assign(self, node: ast.expr, value: ast.expr, once: bool, again: bool) -> None:
        pairs = (
            isinstance(node, (ast.Tuple, ast.List))
            and isinstance(value, (ast.Tuple, ast.List))
            and len(node.elts) == len(value.elts)
        )
        if pairs and not any(isinstance(item, ast.Starred) for item in (*node.elts, *value.elts)):  # type: ignore[attr-defined]
            # At once, in Python: a level that the first pair sets is not the one that the second reads.
            for item, part in zip(node.elts, value.elts, strict=True):  # type: ignore[attr-defined]
                self.lenders.clear()
                self._assign(item, part, False, again)
        else:
            self._target(node, self.level_of(value), once, again, value)

    def _target(self, node: ast.expr, level: int, once: bool, again: bool, value: ast.expr | None = None) -> None:
        if isinstance(node, ast.Name):
            name = node.id
            known = self.now.get(name, NEW)
            self.now[name] = level if once or level < known else known
            lowest = self.ever.get(name, NEW)
            self.ever[name] = level if level < lowest else lowest
            if again and level < self.floor.get(name, NEW):
                self.floor[name] = level
            if self.lenders:
                self.given.setdefault(name, set()).update(self.lenders)
            if level == NEW:
                self.made.add(name)
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == self.owner:
                self.stores[node.attr] = self.stores.get(node.attr, False) or value is None or _may_be_module(value)
            self._store(_root(node), node.attr in _TENSOR_FIELDS, again)
        elif isinstance(node, ast.Subscript):
            self._store(_root(node), tensor_index(node.slice), again)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for item in node.elts:
                self._target(item, level, once, again)
        elif isinstance(node, ast.Starred):
            self._target(node.value, level, once, again)

    def _store(self, name: str, tensor: bool, again: bool) -> None:
        """A store on what a local is; `tensor` says that only a tensor takes it."""
        if again:
            # What the local is by then may be bound further down.
            self.late.append((name, tensor))
        else:
            self._store_on(name, tensor)

    def _store_on(self, name: str, tensor: bool) -> None:
        level = self.now.get(name, STATE)
        if level == BORROWED:
            self.lent |= self.given.get(name, NO_NAMES)
        elif level == HANDED:
            self.handed.add(name)
            self.fills = self.fills or not tensor
        elif level != NEW and not (self.makes_owner and name == self.owner):
            # What a constructor does to the object it makes is no write: nobody has the object yet.
            self.written = True

    def _returns_state(self, node: ast.expr | None) -> bool:
        """Whether a returned value may be a part of the state."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return any(part is not None and self.level_of(part) <= BORROWED for part in parts)

    def _part_level(self, node: ast.expr) -> int:
        """What a part of a name, attribute or item chain may be."""
        root = _root(node)
        return min(self._level_of_name(root), HANDED) if root else STATE

    def level_of(self, node: ast.expr) -> int:
        """What an expression may be. Methods of the same object that are called add to `lenders`."""
        kind = type(node)
        if kind in _MADE:
            return NEW
        if isinstance(node, ast.Name):
            return self._level_of_name(node.id)
        if kind is ast.Attribute or kind is ast.Subscript:
            return self._level_of_name(_root(node))
        if isinstance(node, ast.Call):
            return self._level_of_call(node)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return min((self.level_of(item) for item in node.elts), default=NEW)
        if isinstance(node, ast.Dict):
            return min((self.level_of(item) for item in node.values), default=NEW)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            made = node.value if isinstance(node, ast.DictComp) else node.elt
            if isinstance(made, (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.IfExp)):
                return min(self._part_level(generator.iter) for generator in node.generators)
            return self.level_of(made)
        if isinstance(node, ast.Starred):
            return self.level_of(node.value)
        if isinstance(node, ast.IfExp):
            return min(self.level_of(node.body), self.level_of(node.orelse))
        if isinstance(node, ast.BoolOp):
            return min([self.level_of(item) for item in node.values])
        return STATE

    def _level_of_name(self, name: str) -> int:
        level = self.now.get(name, STATE)
        if self.looping:
            level = min(level, self.floor.get(name, NEW))
        if level == BORROWED:
            self.lenders |= self.given.get(name, NO_NAMES)
        return level

    def _level_of_call(self, node: ast.Call) -> int:
        func = node.func
        if isinstance(func, ast.Name):
            if func.id in _FRESH_CALLS:
                return NEW
            return min((self.level_of(item) for item in node.args), default=STATE)
        if not isinstance(func, ast.Attribute):
            return STATE
        name = func.attr
        value = func.value
        if isinstance(value, ast.Name):
            if value.id == "self":
                if name in MODULE_WALKS or name in ELEMENT_METHODS or name in ITEM_METHODS:
                    return STATE
                self.asked.add(name)
                if name in self.children:
                    return NEW
                self.lenders.add(name)
                return BORROWED
            if value.id in _LIBRARIES and value.id not in self.ever:
                return self.level_of(node.args[0]) if node.args and name in VIEW_FUNCTIONS else NEW
        elif isinstance(value, ast.Attribute) and _root(value) in _LIBRARIES:
            return NEW
        if name in TENSOR_METHODS and name not in VIEW_METHODS:
            return NEW
        return self.level_of(value)


def examine(
    function: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool, children: AbstractSet[str] = NO_NAMES
) -> tuple[Seen, frozenset[str]]:
    """Walk the statements of a function; `children` are attributes of its class that hold no method.

    Also says of which names it was asked whether they are children: the answer is the same for any `children` that agree on them.
    """
    examiner = _Examiner(function, is_method, children)
    return examiner.seen(), frozenset(examiner.asked)


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

"""Stage one: what a file declares, and which of its functions could hold a state write. Stdlib `ast`, one file at a time.

Facts over-approximate. Statements are walked, expressions are not: calls are found in the text of a function by regular
expressions, which costs a tenth of visiting every node and can only find too much.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import NamedTuple

from modelguard.scan.tables import CONTAINER_MUTATORS, HOOK_REGISTRATIONS, MODULE_MOVERS


class FunctionFacts(NamedTuple):
    """A function or method: where its text lies, and what its text says.

    `line` is that of the first decorator. `names` are the attribute names in the text and the bare names that the file
    defines or imports. `stores` are the attributes bound on the first parameter. `declares` marks text that
    can declare attributes under names that `stores` cannot tell (`register_buffer`, `setattr`).
    """

    name: str
    qualname: str
    line: int
    end_line: int
    decorators: tuple[str, ...]
    names: frozenset[str]
    stores: frozenset[str]
    declares: bool
    may_write: bool


class ClassFacts(NamedTuple):
    """A class statement: its bases as dotted names (`?` where the base is some other expression), methods and body."""

    name: str
    qualname: str
    line: int
    bases: tuple[str, ...]
    decorators: tuple[str, ...]
    methods: dict[str, FunctionFacts]
    attributes: dict[str, tuple[int, int]]


class Import(NamedTuple):
    """What a local name was imported as: `from {level dots}{module} import {attribute}`, or a whole module."""

    module: str
    attribute: str | None
    level: int


class FileFacts(NamedTuple):
    """One file."""

    path: str
    imports: dict[str, Import]
    stars: tuple[Import, ...]
    classes: dict[str, ClassFacts]
    functions: dict[str, FunctionFacts]
    globals: dict[str, tuple[int, int]]
    lines: int


_MUTATORS = (
    CONTAINER_MUTATORS
    | HOOK_REGISTRATIONS
    | frozenset(("register_buffer", "register_parameter", "register_module", "add_module", "train", "eval", "__setattr__", "__delattr__"))
)
_CALL = re.compile(rf"(?:(?<![\w.\])])(\w+)((?:\.\w+|\[[^\[\]\n]*\])*))?\.\s*({'|'.join(sorted(_MUTATORS))}|[A-Za-z_]\w*_)\s*\(")
_MOVERS = MODULE_MOVERS | {"load_state_dict", "zero_grad"}
_MOVE = re.compile(rf"self(?:\.\w+|\[[^\[\]\n]*\])*\.(?:{'|'.join(sorted(_MOVERS))})\(")
_OUT = re.compile(r"\bout\s*=")
_SUSPECTS = frozenset(
    (
        "setattr delattr vars next setitem delitem iadd heapq heappush heappop shuffle insort insort_left insort_right swap_tensors copyto "
        "__dict__ _buffers _parameters _modules batch_norm instance_norm native_batch_norm global nonlocal"
    ).split()
)
_DECLARES = frozenset("setattr __setattr__ add_module __dict__ vars _buffers _parameters _modules update".split())
_ATTRIBUTE = re.compile(r"\.\s*([A-Za-z_]\w*)")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_MEMOISED = re.compile(r"cache|memo", re.IGNORECASE)

_FRESH_CALLS = frozenset(
    (
        "len int float bool str repr range abs sum round dict list set tuple frozenset sorted isinstance hasattr type hash id print "
        "OrderedDict defaultdict deque Counter ord chr divmod pow any all format bytes min max"
    ).split()
)
_FRESH = (
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.JoinedStr,
    ast.Dict,
    ast.List,
    ast.Set,
    ast.Tuple,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


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


def extract(path: str, text: str, tree: ast.Module) -> FileFacts:
    """The facts of one parsed file; `text` has `\\n` line ends."""
    return _Extractor(path, text).run(tree)


class _Extractor:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.lines = text.split("\n")
        self.imports: dict[str, Import] = {}
        self.local_imports: dict[str, Import] = {}
        self.stars: list[Import] = []
        self.classes: dict[str, ClassFacts] = {}
        self.functions: dict[str, FunctionFacts] = {}
        self.globals: dict[str, tuple[int, int]] = {}
        self.pending: list[tuple[dict[str, FunctionFacts], str, ast.FunctionDef | ast.AsyncFunctionDef, str]] = []

    def run(self, tree: ast.Module) -> FileFacts:
        self._body(tree.body, "", self.functions, self.globals, self.imports)
        for name, found in self.local_imports.items():
            self.imports.setdefault(name, found)
        known = self.functions.keys() | self.imports.keys() | self.globals.keys() | {c.name for c in self.classes.values()}
        known |= {key for _, key, _, _ in self.pending}
        for owner, key, node, qualname in self.pending:
            owner[key] = self._function(node, qualname, known)
        return FileFacts(
            self.path, self.imports, tuple(self.stars), self.classes, self.functions, self.globals, len(self.lines)
        )

    def _body(
        self,
        body: list[ast.stmt],
        prefix: str,
        functions: dict[str, FunctionFacts],
        names: dict[str, tuple[int, int]],
        imports: dict[str, Import],
    ) -> None:
        work = list(reversed(body))
        while work:
            node = work.pop()
            if isinstance(node, _FUNCTIONS):
                key = _method_key(node)
                if key is not None:
                    self.pending.append((functions, key, node, prefix + node.name))
                self._inside(node, prefix + node.name + ".<locals>.")
            elif isinstance(node, ast.ClassDef):
                self._class(node, prefix)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node, imports)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    for name in _bound_names(target):
                        names[name] = (node.lineno, node.end_lineno or node.lineno)
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
                if isinstance(node.target, ast.Name):
                    names.setdefault(node.target.id, (node.lineno, node.end_lineno or node.lineno))
            else:
                for inner in _blocks(node):
                    work.extend(reversed(inner))

    def _inside(self, function: ast.FunctionDef | ast.AsyncFunctionDef, prefix: str) -> None:
        """Classes and imports inside a function count as the file's own: a factory's module class is still a module class."""
        work: list[ast.stmt] = list(function.body)
        while work:
            node = work.pop()
            if isinstance(node, ast.ClassDef):
                self._class(node, prefix)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node, self.local_imports)
            elif isinstance(node, (ast.Assign, ast.Expr, ast.Return, ast.AugAssign)):
                continue
            else:
                for inner in _blocks(node):
                    work.extend(inner)

    def _class(self, node: ast.ClassDef, prefix: str) -> None:
        qualname = prefix + node.name
        if qualname in self.classes:
            qualname = f"{qualname}@{node.lineno}"
        methods: dict[str, FunctionFacts] = {}
        attributes: dict[str, tuple[int, int]] = {}
        bases = tuple(base for item in node.bases for base in _bases(item))
        decorators = tuple(dotted(item) for item in node.decorator_list)
        self.classes[qualname] = ClassFacts(node.name, qualname, node.lineno, bases, decorators, methods, attributes)
        self._body(node.body, qualname + ".", methods, attributes, self.local_imports)

    def _import(self, node: ast.Import | ast.ImportFrom, imports: dict[str, Import]) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    imports[alias.asname] = Import(alias.name, None, 0)
                else:
                    root = alias.name.partition(".")[0]
                    imports.setdefault(root, Import(root, None, 0))
            return
        for alias in node.names:
            found = Import(node.module or "", alias.name, node.level)
            if alias.name == "*":
                self.stars.append(found)
            else:
                imports[alias.asname or alias.name] = found

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, qualname: str, known: set[str]) -> FunctionFacts:
        first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
        last = node.end_lineno or node.lineno
        text = "\n".join(self.lines[first - 1 : last])
        decorators = tuple(dotted(item) for item in node.decorator_list)
        attributes = set(_ATTRIBUTE.findall(text))
        words = set(_IDENTIFIER.findall(text))
        stores, roots, fresh = _examine(node)
        may_write = (
            not roots <= fresh
            or not _SUSPECTS.isdisjoint(words)
            or ("out" in words and _OUT.search(text) is not None)
            or (not _MOVERS.isdisjoint(attributes) and _MOVE.search(text) is not None)
            or any(_MEMOISED.search(name) for name in decorators)
            or (
                (not _MUTATORS.isdisjoint(attributes) or "_(" in text or "_ (" in text)
                and any(m.group(1) is None or m.group(1) not in fresh for m in _CALL.finditer(text))
            )
        )
        declares = not _DECLARES.isdisjoint(words) or any(word.startswith("register_") for word in attributes)
        return FunctionFacts(
            node.name, qualname, first, last, decorators, frozenset(attributes | (known & words)), stores, declares, may_write
        )


def _method_key(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    """The key a method is kept under: setters and deleters stand beside the getter; overloads are not kept."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter"):
            return f"{node.name}.{decorator.attr}"
        if dotted(decorator).rpartition(".")[2] == "overload":
            return None
    return node.name


def _bases(node: ast.expr) -> tuple[str, ...]:
    if isinstance(node, ast.Call):
        # with_metaclass(Meta, Base) and mixin factories: any argument may be the base that matters.
        return tuple(dotted(item) for item in (*node.args, node.func))
    if isinstance(node, ast.IfExp):
        return (*_bases(node.body), *_bases(node.orelse))
    return (dotted(node.value if isinstance(node, ast.Starred) else node),)


def _bound_names(target: ast.expr) -> Iterable[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _bound_names(item)


def _blocks(node: ast.stmt) -> Iterable[list[ast.stmt]]:
    """The statement lists directly inside a compound statement."""
    for field in ("body", "orelse", "finalbody"):
        inner = getattr(node, field, None)
        if inner:
            yield inner
    for handler in getattr(node, "handlers", ()):
        yield handler.body
    for case in getattr(node, "cases", ()):
        yield case.body


def _examine(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[frozenset[str], set[str], set[str]]:
    """(attributes stored on the first parameter, names that stores are rooted in, locals only ever bound to fresh objects)."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    owner = positional[0].arg if positional else ""
    stores: set[str] = set()
    roots: set[str] = set()
    bound: dict[str, bool] = {}
    for parameter in (*positional, *arguments.kwonlyargs):
        bound[parameter.arg] = False

    def target(node: ast.expr, fresh: bool) -> None:
        if isinstance(node, ast.Name):
            bound[node.id] = bound.get(node.id, True) and fresh
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == owner:
                stores.add(node.attr)
            roots.add(_root(node))
        elif isinstance(node, (ast.Tuple, ast.List)):
            for item in node.elts:
                target(item, fresh)
        elif isinstance(node, ast.Starred):
            target(node.value, fresh)

    work: list[ast.stmt] = list(function.body)
    while work:
        node = work.pop()
        kind = type(node)
        if kind is ast.Assign:
            fresh = _is_fresh(node.value)  # type: ignore[attr-defined]
            for item in node.targets:  # type: ignore[attr-defined]
                target(item, fresh)
        elif kind is ast.AnnAssign or kind is ast.AugAssign:
            value = node.value  # type: ignore[attr-defined]
            target(node.target, value is None or kind is ast.AugAssign or _is_fresh(value))  # type: ignore[attr-defined]
            if kind is ast.AugAssign and isinstance(node.target, ast.Name):  # type: ignore[attr-defined]
                roots.add(node.target.id)  # type: ignore[attr-defined]
        elif kind is ast.Expr or kind is ast.Return:
            continue
        elif kind is ast.Delete:
            for item in node.targets:  # type: ignore[attr-defined]
                if not isinstance(item, ast.Name):
                    target(item, False)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            target(node.target, isinstance(node.iter, ast.Call) and _is_fresh(node.iter))
            work.extend(node.body)
            work.extend(node.orelse)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for entry in node.items:
                if entry.optional_vars is not None:
                    target(entry.optional_vars, False)
            work.extend(node.body)
        elif isinstance(node, _FUNCTIONS):
            for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                bound[parameter.arg] = False
            work.extend(node.body)
        elif kind is not ast.ClassDef:
            for inner in _blocks(node):
                work.extend(inner)
    return frozenset(stores), roots, {name for name, fresh in bound.items() if fresh}


def _root(node: ast.expr) -> str:
    """The name a store is rooted in, empty where it is rooted in some other expression."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_fresh(node: ast.expr) -> bool:
    if isinstance(node, _FRESH):
        return True
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Name):
            return func.id in _FRESH_CALLS
        return isinstance(func, ast.Attribute) and _root(func) in ("torch", "F", "nn", "np", "math", "numpy", "functional")
    return False

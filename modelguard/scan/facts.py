"""Stage one: what a file declares, and which of its functions could hold a state write. Stdlib `ast`, one file at a time.

Facts over-approximate. Statements are walked, expressions are not: calls are found in the text of a function by regular
expressions, which costs a tenth of visiting every node and can only find too much.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import NamedTuple

from modelguard.scan.tables import CONTAINER_MUTATORS, HOOK_REGISTRATIONS, MODULE_MOVERS, REGISTRATIONS


class FunctionFacts(NamedTuple):
    """A function or method: where its text lies, and what its text says.

    `line` is that of the first decorator. `names` are the attribute names in the text and the bare names that the file
    defines or imports; `own` are those among them that may be taken off the first parameter. `stores` are the attributes bound on the first parameter, each with whether a module may be bound.
    `declares` marks text that can declare attributes under names that `stores` cannot tell (`register_buffer`, `setattr`).
    `may_write` says that something could be a state write, `hands` that only what is done to a tensor or container argument could;
    `moves` names attributes that would have to be modules for it (`self.x.to(...)`).
    """

    name: str
    qualname: str
    line: int
    end_line: int
    decorators: tuple[str, ...]
    names: frozenset[str]
    own: frozenset[str]
    stores: dict[str, bool]
    declares: bool
    may_write: bool
    hands: bool
    moves: frozenset[str]


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
    """One file; `aliases` are the words on the right of globals that may be functions or classes under another name."""

    path: str
    imports: dict[str, Import]
    stars: tuple[Import, ...]
    classes: dict[str, ClassFacts]
    functions: dict[str, FunctionFacts]
    globals: dict[str, tuple[int, int]]
    aliases: dict[str, frozenset[str]]
    lines: int


_MUTATORS = (
    CONTAINER_MUTATORS
    | HOOK_REGISTRATIONS
    | frozenset(("register_buffer", "register_parameter", "register_module", "add_module", "train", "eval", "__setattr__", "__delattr__"))
)
_CALL = re.compile(rf"(?:(?<![\w.\])])(\w+)((?:\.\w+|\[[^\[\]\n]*\])*))?\.\s*({'|'.join(sorted(_MUTATORS))}|(?!__)\w*[A-Za-z0-9]_)\s*\(")
_MOVERS = MODULE_MOVERS | {"load_state_dict", "zero_grad"}
_MOVE = re.compile(rf"self(?:\.(\w+)(?:\.\w+)*)?\.(?:{'|'.join(sorted(_MOVERS))})\(")
CONSTRUCTORS = frozenset(("__init__", "__post_init__", "__new__", "__set_name__", "__init_subclass__"))
_OUT = re.compile(r"[(,]\s*out\s*=(?!=)")
_SUSPECTS = frozenset(
    (
        "setattr delattr vars setitem delitem iadd heapq heappush heappop insort insort_left insort_right swap_tensors copyto "
        "__dict__ _buffers _parameters _modules batch_norm instance_norm native_batch_norm"
    ).split()
)
_WORDS = frozenset(("next", "shuffle"))
_WORD_CALL = re.compile(r"(?:next|shuffle)\s*\(")
_DECLARES = frozenset("setattr __setattr__ __dict__ vars _buffers _parameters _modules".split()) | REGISTRATIONS.keys()
_ATTRIBUTE = re.compile(r"\.\s*([A-Za-z_]\w*)")
_OWN = re.compile(r"self\s*\.\s*([A-Za-z_]\w*)")
_SELF_ALIAS = re.compile(r"=\s*self\b(?!\s*[.\w(\[])")
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
_LIBRARIES = frozenset(("torch", "F", "nn", "np", "math", "numpy", "functional"))
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
        self.aliases: dict[str, frozenset[str]] = {}
        self.pending: list[tuple[dict[str, FunctionFacts], str, ast.FunctionDef | ast.AsyncFunctionDef, str]] = []

    def run(self, tree: ast.Module) -> FileFacts:
        self._body(tree.body, "", self.functions, self.globals, self.imports)
        for name, found in self.local_imports.items():
            self.imports.setdefault(name, found)
        known = self.functions.keys() | self.imports.keys() | self.globals.keys() | {c.name for c in self.classes.values()}
        known |= {key for _, key, _, _ in self.pending}
        children: dict[int, frozenset[str]] = {
            id(owner): frozenset(_examine(node).stores) for owner, key, node, _ in self.pending if key == "__init__"
        }
        for owner, key, node, qualname in self.pending:
            owner[key] = self._function(node, qualname, known, children.get(id(owner), frozenset()))
        return FileFacts(
            self.path, self.imports, tuple(self.stars), self.classes, self.functions, self.globals, self.aliases, len(self.lines)
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
                        if names is self.globals and isinstance(node.value, (ast.Call, ast.Name, ast.Attribute, ast.Lambda, ast.IfExp)):
                            text = "\n".join(self.lines[node.lineno - 1 : node.end_lineno])
                            self.aliases[name] = frozenset(_IDENTIFIER.findall(text)) - {name}
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

    def _text(self, node: ast.FunctionDef | ast.AsyncFunctionDef, first: int, last: int) -> str:
        """A function's text without its docstring, in which examples would look like code."""
        start = node.body[0]
        if isinstance(start, ast.Expr) and isinstance(start.value, ast.Constant) and isinstance(start.value.value, str):
            return "\n".join((*self.lines[first - 1 : start.lineno - 1], *self.lines[start.end_lineno or start.lineno : last]))
        return "\n".join(self.lines[first - 1 : last])

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, qualname: str, known: set[str], children: frozenset[str]
    ) -> FunctionFacts:
        first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
        last = node.end_lineno or node.lineno
        text = self._text(node, first, last)
        decorators = tuple(dotted(item) for item in node.decorator_list)
        attributes = set(_ATTRIBUTE.findall(text))
        words = set(_IDENTIFIER.findall(text))
        seen = _examine(node, children)
        fresh = seen.fresh
        if node.name in CONSTRUCTORS and node.args.args:
            # What a constructor does to the object it makes is no write: nobody has the object yet.
            fresh.add(node.args.args[0].arg)
        moves = frozenset(m.group(1) or "" for m in _MOVE.finditer(text)) if not _MOVERS.isdisjoint(attributes) else frozenset[str]()
        changed: set[str] = set()
        if not _MUTATORS.isdisjoint(attributes) or "_(" in text or "_ (" in text:
            changed = {m.group(1) or "" for m in _CALL.finditer(text)} - fresh
        may_write = (
            not seen.roots <= fresh
            or not changed <= seen.parameters
            or not seen.returning.isdisjoint(changed | seen.handed)
            or not _SUSPECTS.isdisjoint(words)
            or ("out" in words and _OUT.search(text) is not None)
            or (not _WORDS.isdisjoint(words) and _WORD_CALL.search(text) is not None)
            or any(_MEMOISED.search(name) for name in decorators)
        )
        hands = bool(changed) or not seen.handed <= fresh
        declares = not _DECLARES.isdisjoint(words)
        names = frozenset(attributes | (known & words))
        own = frozenset(_OWN.findall(text)) if "self" in words and _SELF_ALIAS.search(text) is None else names
        return FunctionFacts(node.name, qualname, first, last, decorators, names, own, seen.stores, declares, may_write, hands, moves)


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


class _Seen(NamedTuple):
    """What the statements of a function say.

    `stores`: attributes bound on the first parameter. `roots`: names that stores are rooted in; `handed`: those of parameters that only
    a tensor's memory or nothing can be changed by. `fresh`: locals only ever bound to new objects. `parameters`: all but the first.
    `returning`: optional parameters that are bound again, as by `if state is None: state = ...`.
    """

    stores: dict[str, bool]
    roots: set[str]
    handed: set[str]
    fresh: set[str]
    parameters: set[str]
    returning: set[str]


def _examine(function: ast.FunctionDef | ast.AsyncFunctionDef, children: frozenset[str] = frozenset()) -> _Seen:
    """Walk the statements of a function; `children` are attributes of its class that hold no method."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    owner = positional[0].arg if positional else ""
    stores: dict[str, bool] = {}
    roots: set[str] = set()
    handed: set[str] = set()
    rebound: set[str] = set()
    bound: dict[str, bool] = {}
    parameters = {parameter.arg for parameter in (*positional[1:], *arguments.kwonlyargs)}
    for parameter in (*positional, *arguments.kwonlyargs):
        bound[parameter.arg] = False

    def target(node: ast.expr, fresh: bool, module: bool = True) -> None:
        if isinstance(node, ast.Name):
            bound[node.id] = bound.get(node.id, True) and fresh
            rebound.add(node.id)
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == owner:
                stores[node.attr] = stores.get(node.attr, False) or module
            roots.add(_root(node))
        elif isinstance(node, ast.Subscript):
            root = _root(node)
            plain = isinstance(node.value, ast.Name) and root in parameters and tensor_index(node.slice)
            (handed if plain else roots).add(root)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for item in node.elts:
                target(item, fresh)
        elif isinstance(node, ast.Starred):
            target(node.value, fresh)

    work: list[ast.stmt] = list(function.body)
    while work:
        node = work.pop()
        kind = type(node)
        if kind is ast.Expr or kind is ast.Return:
            continue
        if isinstance(node, ast.Assign):
            fresh = _is_fresh(node.value, children)
            module = _may_be_module(node.value)
            for item in node.targets:
                target(item, fresh, module)
        elif isinstance(node, ast.AnnAssign):
            target(node.target, node.value is None or _is_fresh(node.value, children))
        elif isinstance(node, ast.AugAssign):
            target(node.target, True)
            if isinstance(node.target, ast.Name):
                (handed if node.target.id in parameters else roots).add(node.target.id)
        elif isinstance(node, ast.Delete):
            for item in node.targets:
                if not isinstance(item, ast.Name):
                    target(item, False)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            target(node.target, isinstance(node.iter, ast.Call) and _is_fresh(node.iter, children))
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
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            roots.add("")
        elif kind is not ast.ClassDef:
            for inner in _blocks(node):
                work.extend(inner)
    fresh_names = {name for name, fresh in bound.items() if fresh}
    if arguments.kwarg is not None:
        fresh_names.add(arguments.kwarg.arg)
    optional = {parameter.arg for parameter in (*positional[len(positional) - len(arguments.defaults) :], *arguments.kwonlyargs)}
    return _Seen(stores, roots, handed, fresh_names, parameters, optional & rebound)


def tensor_index(node: ast.expr) -> bool:
    """Whether only a tensor (or an array) is indexed like this."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(isinstance(part, (ast.Slice, ast.Compare)) or (isinstance(part, ast.Constant) and part.value is ...) for part in parts)


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


def _is_fresh(node: ast.expr, children: frozenset[str]) -> bool:
    """Whether an expression makes a new object, or hands out the result of a child module."""
    if isinstance(node, _FRESH):
        return True
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Name):
            return func.id in _FRESH_CALLS
        if isinstance(func, ast.Attribute):
            if isinstance(func.value, ast.Name) and func.value.id == "self":
                return func.attr in children
            return _root(func) in _LIBRARIES
    return False

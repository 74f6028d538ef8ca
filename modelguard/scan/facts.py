"""Stage one: what a file declares, and which of its functions could hold a state write. Stdlib `ast`, one file at a time.

Facts over-approximate. Statements are walked, expressions are not: calls are found in the text of a function by regular
expressions, which costs a tenth of visiting every node and can only find too much.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from modelguard.scan.tables import (
    CONTAINER_MUTATORS,
    ELEMENT_METHODS,
    HOOK_REGISTRATIONS,
    ITEM_METHODS,
    MODULE_MOVERS,
    MODULE_WALKS,
    REGISTRATIONS,
    TENSOR_METHODS,
    VIEW_FUNCTIONS,
    VIEW_METHODS,
)


class FunctionFacts(NamedTuple):
    """A function or method: where its text lies, and what its text says.

    `line` is that of the first decorator. `names` are the attribute names in the text and the bare names that the file
    defines or imports; `own` are those among them that may be taken off the first parameter. `stores` are the attributes bound on the first parameter, each with whether a module may be bound.
    `declares` marks text that can declare attributes under names that `stores` cannot tell (`register_buffer`, `setattr`).
    `may_write` says that something could be a state write; `hands` are the positions (without `self`; -1 where not known) of arguments to
    whose memory or contents something is done, `states` the locals that may be a part of the state;
    `moves` names attributes that would have to be modules for it (`self.x.to(...)`). `borrows` are the methods of the
    same object that would have to hand out state (`hands_out`) for it. `nests` says that the function defines others,
    which it may return; `passes` are the bare names that a constructor does not call.
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
    hands: frozenset[int]
    moves: frozenset[str]
    borrows: frozenset[str]
    hands_out: bool
    states: frozenset[str]
    nests: bool
    passes: frozenset[str]


class ClassFacts(NamedTuple):
    """A class statement: its bases as dotted names (`?` where the base is some other expression), methods and body. `aliases` as in `FileFacts`."""

    name: str
    qualname: str
    line: int
    bases: tuple[str, ...]
    decorators: tuple[str, ...]
    methods: dict[str, FunctionFacts]
    attributes: dict[str, tuple[int, int]]
    aliases: dict[str, frozenset[str]]


class Import(NamedTuple):
    """What a local name was imported as: `from {level dots}{module} import {attribute}`, or a whole module."""

    module: str
    attribute: str | None
    level: int


class FileFacts(NamedTuple):
    """One file; `others` are imports that a later one of the same name hides, as in `try` and `except ImportError`; `aliases` are the words on the right of globals that may be functions or classes under another name."""

    path: str
    imports: dict[str, Import]
    others: dict[str, tuple[Import, ...]]
    stars: tuple[Import, ...]
    classes: dict[str, ClassFacts]
    functions: dict[str, FunctionFacts]
    globals: dict[str, tuple[int, int]]
    aliases: dict[str, frozenset[str]]
    lines: int


_MUTATORS = (
    CONTAINER_MUTATORS
    | HOOK_REGISTRATIONS
    | frozenset(
        ("register_buffer", "register_parameter", "register_module", "add_module", "train", "eval", "__setattr__", "__delattr__")
    )
)
_CALL = re.compile(rf"\.\s*(?:{'|'.join(sorted(_MUTATORS))}|(?!__)\w*[A-Za-z0-9]_)\s*\(")
_TAKEN = re.compile(rf"\.(?:{'|'.join(sorted(_MUTATORS))})\b(?!\s*\()")
_FOR_ATTRIBUTE = re.compile(r"\bfor\s+[\w,() ]*\w\.\w[\w.]*\s+in\b")
_RECEIVER = re.compile(r"(?<![\w.\])])(\w+)(?:\.\w+|\[[^\[\]]*\])*$")
_MOVERS = MODULE_MOVERS | {"load_state_dict", "zero_grad"}
CONSTRUCTORS = frozenset(("__init__", "__post_init__", "__new__", "__set_name__", "__init_subclass__"))
_OUT = re.compile(r"[(,]\s*out\s*=(?!=)")
_SUSPECTS = frozenset(
    (
        "setattr delattr vars setitem delitem iadd heapq heappush heappop insort insort_left insort_right swap_tensors copyto "
        "__dict__ _buffers _parameters _modules batch_norm instance_norm native_batch_norm"
    ).split()
)
_ITEM_METHODS = frozenset(("__getitem__", "__setitem__", "__delitem__"))
_NAMERS = frozenset(("getattr", "attrgetter", "methodcaller", "type", "__class__"))
_WORDS = frozenset(("next", "shuffle"))
_WORD_CALL = re.compile(r"(?:next|shuffle)\s*\(")
_DECLARES = frozenset("setattr __setattr__ __dict__ vars _buffers _parameters _modules".split()) | REGISTRATIONS.keys()
_ATTRIBUTE = re.compile(r"\.\s*([A-Za-z_]\w*)")
_OWN = re.compile(r"self\s*\.\s*([A-Za-z_]\w*)")
_SUPER = re.compile(r"super\([^()]*\)\s*\.\s*([A-Za-z_]\w*)")
_SELF_ALIAS = re.compile(r"(?:=|\bin\b|\bwith\b)\s*[\[({\"'\w, :]*\bself\b(?![ \t]*[.\w(\[])")
_NOT_CALLED = re.compile(r"(?<![.\w])([A-Za-z_]\w*)\b(?!\s*[(.=])")
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
_NO_NAMES: frozenset[str] = frozenset()
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
        self.others: dict[str, tuple[Import, ...]] = {}
        self.stars: list[Import] = []
        self.classes: dict[str, ClassFacts] = {}
        self.functions: dict[str, FunctionFacts] = {}
        self.globals: dict[str, tuple[int, int]] = {}
        self.aliases: dict[str, frozenset[str]] = {}
        self.pending: list[tuple[dict[str, FunctionFacts], str, ast.FunctionDef | ast.AsyncFunctionDef, str]] = []

    def run(self, tree: ast.Module) -> FileFacts:
        self._body(tree.body, "", self.functions, self.globals, self.imports, self.aliases)
        children: dict[int, AbstractSet[str]] = {}
        examined: list[Seen] = []
        # A constructor comes before the methods that use what it binds; what is found inside functions is appended on the way.
        order = sorted(self.pending, key=_constructors_first)
        for index, (owner, key, node, qualname) in enumerate(order):
            seen = examine(node, children.get(id(owner), _NO_NAMES))
            if key == "__init__":
                children[id(owner)] = seen.stores.keys()
            examined.append(seen)
            if seen.inner:
                before = len(self.pending)
                self._body(seen.inner, qualname + ".<locals>.", {}, {}, self.local_imports)
                order.extend(sorted(self.pending[before:], key=_constructors_first))
        for name, found in self.local_imports.items():
            self.imports.setdefault(name, found)
        known = self.functions.keys() | self.imports.keys() | self.globals.keys() | {c.name for c in self.classes.values()}
        known |= {key for _, key, _, _ in self.pending}
        for (owner, key, node, qualname), seen in zip(order, examined):
            owner[key] = self._function(node, qualname, known, seen)
        return FileFacts(
            self.path, self.imports, self.others, tuple(self.stars), self.classes, self.functions, self.globals, self.aliases, len(self.lines)
        )

    def _body(
        self,
        body: list[ast.stmt],
        prefix: str,
        functions: dict[str, FunctionFacts],
        names: dict[str, tuple[int, int]],
        imports: dict[str, Import],
        aliases: dict[str, frozenset[str]] | None = None,
    ) -> None:
        work = list(reversed(body))
        while work:
            node = work.pop()
            if isinstance(node, _FUNCTIONS):
                key = _method_key(node)
                self.pending.append((functions if key is not None else {}, key or node.name, node, prefix + node.name))
            elif isinstance(node, ast.ClassDef):
                self._class(node, prefix)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node, imports)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    for name in _bound_names(target):
                        names[name] = (node.lineno, node.end_lineno or node.lineno)
                        if aliases is not None and isinstance(
                            node.value, (ast.Call, ast.Name, ast.Attribute, ast.Lambda, ast.IfExp)
                        ):
                            text = "\n".join(self.lines[node.lineno - 1 : node.end_lineno])
                            aliases[name] = frozenset(_IDENTIFIER.findall(text)) - {name}
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
                if isinstance(node.target, ast.Name):
                    names.setdefault(node.target.id, (node.lineno, node.end_lineno or node.lineno))
            else:
                for inner in _blocks(node):
                    work.extend(reversed(inner))

    def _class(self, node: ast.ClassDef, prefix: str) -> None:
        qualname = prefix + node.name
        if qualname in self.classes:
            qualname = f"{qualname}@{node.lineno}"
        methods: dict[str, FunctionFacts] = {}
        attributes: dict[str, tuple[int, int]] = {}
        aliases: dict[str, frozenset[str]] = {}
        bases = tuple(base for item in node.bases for base in _bases(item))
        decorators = tuple(dotted(item) for item in node.decorator_list)
        self.classes[qualname] = ClassFacts(node.name, qualname, node.lineno, bases, decorators, methods, attributes, aliases)
        self._body(node.body, qualname + ".", methods, attributes, self.local_imports, aliases)

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
                name = alias.asname or alias.name
                known = imports.get(name)
                if known is not None and known != found:
                    self.others[name] = (*self.others.get(name, ()), known)
                imports[name] = found

    def _text(self, node: ast.FunctionDef | ast.AsyncFunctionDef, first: int, last: int) -> str:
        """A function's text without its docstring, in which examples would look like code."""
        start = node.body[0]
        end = start.end_lineno or start.lineno
        alone = start.lineno > node.lineno and (len(node.body) == 1 or node.body[1].lineno > end)
        if alone and isinstance(start, ast.Expr) and isinstance(start.value, ast.Constant) and isinstance(start.value.value, str):
            return "\n".join((*self.lines[first - 1 : start.lineno - 1], *self.lines[end:last]))
        return "\n".join(self.lines[first - 1 : last])

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, qualname: str, known: set[str], seen: Seen
    ) -> FunctionFacts:
        first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
        last = node.end_lineno or node.lineno
        text = self._text(node, first, last)
        decorators = tuple(dotted(item) for item in node.decorator_list)
        attributes = set(map(intern, _ATTRIBUTE.findall(text)))
        words = set(_IDENTIFIER.findall(text))
        fresh = seen.fresh
        if node.name in CONSTRUCTORS and node.args.args:
            # What a constructor does to the object it makes is no write: nobody has the object yet.
            fresh.add(node.args.args[0].arg)
        moves = (
            frozenset(m.group(1) or "" for m in _moves(seen.owner).finditer(text)) if not _MOVERS.isdisjoint(attributes) else frozenset[str]()
        )
        changed: set[str] = set()
        taken = False
        if not _MUTATORS.isdisjoint(attributes) or text.count("_(") > text.count("__(") or "_ (" in text:
            changed = {_receiver(text, found.start()) for found in _CALL.finditer(text)} - fresh
            taken = _TAKEN.search(text) is not None
        written = seen.roots - fresh
        may_write = (
            not written <= seen.borrowed
            or not changed <= seen.arguments | seen.borrowed
            or not seen.returning.isdisjoint(changed | seen.handed)
            or taken
            or (" for " in text and _FOR_ATTRIBUTE.search(text) is not None)
            or not _SUSPECTS.isdisjoint(words)
            or ("out" in words and _OUT.search(text) is not None)
            or (not _WORDS.isdisjoint(words) and _WORD_CALL.search(text) is not None)
            or any(_MEMOISED.search(name) for name in decorators)
        )
        handed = (changed & seen.arguments) | (seen.handed - fresh)
        places = {name: index for index, name in enumerate(seen.parameters)}
        hands = frozenset(places.get(name, -1) for name in handed)
        borrows = frozenset(seen.lenders) if (written | changed) & seen.borrowed else _NO_NAMES
        declares = not _DECLARES.isdisjoint(words)
        passes = _NO_NAMES
        if node.name == "__init__":
            functions = {word for word in words if word in self.functions or (word in self.imports and word[0].islower())}
            passes = frozenset(functions & set(_NOT_CALLED.findall(text))) if functions else _NO_NAMES
        if not _NAMERS.isdisjoint(words):
            # `getattr(self, "step")(x)`: a name in a string is a name too.
            attributes |= words
        names = frozenset(attributes | (known & words))
        if f"{seen.owner}[" in text:
            names |= _ITEM_METHODS
        aliased = not _NAMERS.isdisjoint(words) or _SELF_ALIAS.search(text) is not None
        own = frozenset(map(intern, _OWN.findall(text))) | (names & _ITEM_METHODS) if "self" in words and not aliased else names
        if "super" in words:
            own |= frozenset(_SUPER.findall(text))
        return FunctionFacts(
            node.name,
            qualname,
            first,
            last,
            decorators,
            names,
            own,
            seen.stores,
            declares,
            may_write,
            hands,
            moves,
            borrows,
            seen.hands_out,
            frozenset(name for name, level in seen.levels.items() if level <= _BORROWED and name != "self"),
            seen.nests,
            passes,
        )


@lru_cache(maxsize=64)
def _moves(owner: str) -> re.Pattern[str]:
    """Finds what is moved or cast of the first parameter: `self.x.to(`, with the attribute."""
    return re.compile(rf"\b{owner or 'self'}(?:\.(\w+)(?:\.\w+)*)?\.(?:{'|'.join(sorted(_MOVERS))})\(")


def _receiver(text: str, end: int) -> str:
    """The name that the chain of attributes and items before `end` starts with; empty where it starts with something else."""
    found = _RECEIVER.search(text[text.rfind("\n", 0, end) + 1 : end])
    return found.group(1) if found is not None else ""


def _constructors_first(pending: tuple[object, str, object, object]) -> bool:
    return pending[1] != "__init__"


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


class Seen(NamedTuple):
    """What the statements of a function say.

    `stores`: attributes bound on the first parameter. `roots`: names that stores are rooted in; `handed`: those by which only the memory
    of a tensor can be changed. `fresh`: locals only ever bound to new objects. `arguments`: the parameters but the first, and locals that
    are at most a part of one. `returning`: optional parameters that are bound again, as by `if state is None: state = ...`.
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


STATE, _BORROWED, _HANDED, _NEW = range(4)
"""What a local may be: a part of the state; what a method of the same object returned; at most a part of an argument; something new."""


def examine(function: ast.FunctionDef | ast.AsyncFunctionDef, children: AbstractSet[str] = _NO_NAMES) -> Seen:
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
    bound: dict[str, int] = dict.fromkeys((parameter.arg for parameter in (*positional, *arguments.kwonlyargs)), _HANDED)
    if owner:
        bound[owner] = STATE
    defaults = zip((*positional[len(positional) - len(arguments.defaults) :], *arguments.kwonlyargs), (*arguments.defaults, *arguments.kw_defaults))
    for parameter, default in defaults:
        if isinstance(default, (ast.List, ast.Dict, ast.Set, ast.Call)):
            # The same object in every call.
            bound[parameter.arg] = STATE
    if arguments.kwarg is not None:
        bound[arguments.kwarg.arg] = _NEW

    def target(node: ast.expr, level: int, value: ast.expr | None = None) -> None:
        if isinstance(node, ast.Name):
            known = bound.get(node.id, _NEW)
            bound[node.id] = level if level < known else known
            rebound.add(node.id)
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == owner:
                stores[node.attr] = stores.get(node.attr, False) or value is None or _may_be_module(value)
            roots.add(_root(node))
        elif isinstance(node, ast.Subscript):
            root = _root(node)
            (handed if bound.get(root) == _HANDED and tensor_index(node.slice) else roots).add(root)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for item in node.elts:
                target(item, level)
        elif isinstance(node, ast.Starred):
            target(node.value, level)

    def assign(node: ast.expr, value: ast.expr) -> None:
        pairs = isinstance(node, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)) and len(node.elts) == len(value.elts)
        if pairs and not any(isinstance(item, ast.Starred) for item in (*node.elts, *value.elts)):  # type: ignore[attr-defined]
            for item, part in zip(node.elts, value.elts):  # type: ignore[attr-defined]
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
                (handed if bound.get(name) == _HANDED else roots).add(name)
            else:
                target(node.target, _NEW)
        elif isinstance(node, ast.Delete):
            for item in node.targets:
                if not isinstance(item, ast.Name):
                    target(item, STATE)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            target(
                node.target,
                level_of(node.iter, bound, children, lenders) if isinstance(node.iter, ast.Call) else _part_level(node.iter, bound),
            )
            work.extend(reversed(node.orelse))
            work.extend(reversed(node.body))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for entry in node.items:
                if entry.optional_vars is not None:
                    target(entry.optional_vars, STATE)
            work.extend(reversed(node.body))
        elif isinstance(node, _FUNCTIONS):
            nests = True
            for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                bound[parameter.arg] = STATE
            work.extend(reversed(node.body))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            roots.add("")
        elif isinstance(node, (ast.ClassDef, ast.Import, ast.ImportFrom)):
            inner.append(node)
        else:
            for block in _blocks(node):
                work.extend(reversed(block))
    optional = {parameter.arg for parameter in (*positional[len(positional) - len(arguments.defaults) :], *arguments.kwonlyargs)}
    return Seen(
        stores,
        roots,
        handed,
        {name for name, level in bound.items() if level == _NEW},
        {name for name, level in bound.items() if level == _HANDED},
        optional & rebound,
        nests,
        inner,
        {name for name, level in bound.items() if level == _BORROWED},
        lenders,
        hands_out,
        bound,
        [parameter.arg for parameter in (positional[1:] if owner in ("self", "cls") else positional)],
        owner,
    )


def _returns_state(node: ast.expr | None, bound: dict[str, int], children: AbstractSet[str]) -> bool:
    """Whether a returned value may be a part of the state."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(part is not None and level_of(part, bound, children, set()) <= _BORROWED for part in parts)


def _part_level(node: ast.expr, bound: dict[str, int]) -> int:
    """What a part of a name, attribute or item chain may be."""
    root = _root(node)
    return min(bound.get(root, STATE), _HANDED) if root else STATE


def level_of(node: ast.expr, bound: dict[str, int], children: AbstractSet[str], lenders: set[str]) -> int:
    """What an expression may be; `bound` says it of the locals met so far. Methods of the same object that are called add to `lenders`."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return min((level_of(item, bound, children, lenders) for item in node.elts), default=_NEW)
    if isinstance(node, ast.Dict):
        return min((level_of(item, bound, children, lenders) for item in node.values), default=_NEW)
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        made = node.value if isinstance(node, ast.DictComp) else node.elt
        if isinstance(made, (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.IfExp)):
            return min(_part_level(generator.iter, bound) for generator in node.generators)
        return level_of(made, bound, children, lenders)
    if isinstance(node, ast.Starred):
        return level_of(node.value, bound, children, lenders)
    if isinstance(node, _FRESH):
        return _NEW
    if isinstance(node, ast.Name):
        return bound.get(node.id, STATE)
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return bound.get(_root(node), STATE)
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Name):
            if func.id in _FRESH_CALLS:
                return _NEW
            return min((level_of(item, bound, children, lenders) for item in node.args), default=STATE)
        if isinstance(func, ast.Attribute):
            name = func.attr
            value = func.value
            if isinstance(value, ast.Name):
                if value.id == "self":
                    if name in MODULE_WALKS or name in ELEMENT_METHODS or name in ITEM_METHODS:
                        return STATE
                    if name in children:
                        return _NEW
                    lenders.add(name)
                    return _BORROWED
                if value.id in _LIBRARIES and value.id not in bound:
                    return level_of(node.args[0], bound, children, lenders) if node.args and name in VIEW_FUNCTIONS else _NEW
            elif isinstance(value, ast.Attribute) and _root(value) in _LIBRARIES:
                return _NEW
            if name in TENSOR_METHODS and name not in VIEW_METHODS:
                return _NEW
            return level_of(value, bound, children, lenders)
        return STATE
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

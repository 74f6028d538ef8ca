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

from modelguard.scan.bindings import BORROWED, FUNCTIONS, NO_NAMES, Seen, blocks, dotted, examine
from modelguard.scan.tables import CONTAINER_MUTATORS, HOOK_REGISTRATIONS, MODULE_MOVERS, REGISTRATIONS


class FunctionFacts(NamedTuple):
    """A function or method: where its text lies, and what its text says.

    `line` is that of the first decorator. `names` are the attribute names in the text and the bare names that the file
    defines or imports; `own` are those among them that may be taken off the first parameter. `stores` are the attributes
    bound on the first parameter, each with whether a module may be bound; `declares` marks text that can declare attributes
    under names that `stores` cannot tell (`register_buffer`, `setattr`). `may_write` says that something could be a state
    write; `hands` are the positions (without `self`; -1 where not known) of arguments to whose memory or contents something
    is done; `moves` names attributes that would have to be modules for it (`self.x.to(...)`); `borrows` are methods of the
    same object that would have to hand out state (`hands_out`) for it. `states` are the locals that may be a part of the
    state. `nests` says that the function defines others, which it may return; `passes` are the bare names of functions that a
    constructor does not call.
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
    """A class statement: its bases as dotted names (`?` for any other expression), its methods and what its body binds.

    `aliases` as in `FileFacts`.
    """

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
    """One file.

    `others` are imports that a later one of the same name hides, as in `try` and `except ImportError`; `aliases` are the words on
    the right of globals that may be functions or classes under another name.
    """

    path: str
    imports: dict[str, Import]
    others: dict[str, tuple[Import, ...]]
    stars: tuple[Import, ...]
    classes: dict[str, ClassFacts]
    functions: dict[str, FunctionFacts]
    globals: dict[str, tuple[int, int]]
    aliases: dict[str, frozenset[str]]
    lines: int


_MUTATORS = CONTAINER_MUTATORS | HOOK_REGISTRATIONS | REGISTRATIONS.keys() | {"train", "eval", "__setattr__", "__delattr__"}
_CALL = re.compile(rf"\.\s*(?:{'|'.join(sorted(_MUTATORS))}|(?!__)\w*[A-Za-z0-9]_)\s*\(")
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
_NAMERS = frozenset(("getattr", "attrgetter", "methodcaller", "__class__"))
_WORDS = frozenset(("next", "shuffle"))
_WORD_CALL = re.compile(r"(?:next|shuffle)\s*\(")
_DECLARES = frozenset("setattr __setattr__ __dict__ vars _buffers _parameters _modules".split()) | REGISTRATIONS.keys()
_ATTRIBUTE = re.compile(r"\.\s*([A-Za-z_]\w*)")
_OWN = re.compile(r"self\s*\.\s*([A-Za-z_]\w*)")
_SUPER = re.compile(r"super\([^()]*\)\s*\.\s*([A-Za-z_]\w*)")
_BARE_SELF = re.compile(r"self\b(?![ \t]*[.\w(\[])")
_NOT_CALLED = re.compile(r"(?<![.\w])([A-Za-z_]\w*)\b(?!\s*[(.=])")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_MEMOISED = re.compile(r"cache|memo", re.IGNORECASE)


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
        for owner, key, node, qualname in order:
            seen = examine(node, children.get(id(owner), NO_NAMES))
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
        for (owner, key, node, qualname), seen in zip(order, examined, strict=True):
            owner[key] = self._function(node, qualname, known, seen)
        return FileFacts(
            self.path,
            self.imports,
            self.others,
            tuple(self.stars),
            self.classes,
            self.functions,
            self.globals,
            self.aliases,
            len(self.lines),
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
            if isinstance(node, FUNCTIONS):
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
                for inner in blocks(node):
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
            frozenset(m.group(1) or "" for m in _moves(seen.owner).finditer(text))
            if not _MOVERS.isdisjoint(attributes)
            else frozenset[str]()
        )
        changed: set[str] = set()
        taken = False
        if not _MUTATORS.isdisjoint(attributes) or text.count("_(") > text.count("__(") or "_ (" in text:
            changed = {_receiver(text, found.start()) for found in _CALL.finditer(text)} - fresh
            # `keep = self.history.append`: taken off to be called by another name.
            taken = any(text.count(f".{name}") > text.count(f".{name}(") for name in _MUTATORS & attributes)
        written = seen.roots - fresh
        may_write = (
            not written <= seen.borrowed
            or not changed <= seen.arguments | seen.borrowed
            or not seen.returning.isdisjoint(changed | seen.handed)
            or taken
            or f"for {seen.owner}." in text
            or not _SUSPECTS.isdisjoint(words)
            or ("out" in words and _OUT.search(text) is not None)
            or (not _WORDS.isdisjoint(words) and _WORD_CALL.search(text) is not None)
            or any(_MEMOISED.search(name) for name in decorators)
        )
        handed = (changed & seen.arguments) | (seen.handed - fresh)
        places = {name: index for index, name in enumerate(seen.parameters)}
        hands = frozenset(places.get(name, -1) for name in handed)
        borrows = frozenset(seen.lenders) if (written | changed) & seen.borrowed else NO_NAMES
        declares = not _DECLARES.isdisjoint(words)
        passes = NO_NAMES
        if node.name == "__init__":
            functions = {word for word in words if word in self.functions or (word in self.imports and word[0].islower())}
            passes = frozenset(functions & set(_NOT_CALLED.findall(text))) if functions else NO_NAMES
        if not _NAMERS.isdisjoint(words):
            # `getattr(self, "step")(x)`: a name in a string is a name too.
            attributes |= words
        names = frozenset(attributes | (known & words))
        if f"{seen.owner}[" in text:
            names |= _ITEM_METHODS
        aliased = not _NAMERS.isdisjoint(words) or _renames_self(text)
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
            frozenset(name for name, level in seen.levels.items() if level <= BORROWED and name != "self"),
            seen.nests,
            passes,
        )


@lru_cache(maxsize=64)
def _moves(owner: str) -> re.Pattern[str]:
    """Finds what is moved or cast of the first parameter: `self.x.to(`, with the attribute."""
    return re.compile(rf"\b{owner or 'self'}(?:\.(\w+)(?:\.\w+)*)?\.(?:{'|'.join(sorted(_MOVERS))})\(")


def _renames_self(text: str) -> bool:
    """Whether `self` may get another name: `net = self`, `for net in [self]`, `with a(self) as net`, `type(self).f(self)`."""
    for found in _BARE_SELF.finditer(text):
        start = text.rfind("\n", 0, found.start()) + 1
        before = text[start : found.start()]
        if before.lstrip().startswith(("def ", "async def ")):
            continue
        end = text.find("\n", found.end())
        if (
            "=" in before
            or before.endswith("type(")
            or " in " in before
            or " as " in text[found.end() : end if end > 0 else len(text)]
        ):
            return True
    return False


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

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

from modelguard.scan.bindings import CONSTRUCTORS, FUNCTIONS, NO_NAMES, Seen, blocks, dotted, examine
from modelguard.scan.tables import CONTAINER_MUTATORS, HOOK_REGISTRATIONS, MODULE_MOVERS, REGISTRATIONS, VIEW_FUNCTIONS


class FunctionFacts(NamedTuple):
    """A function or method: where its text lies, and what its text says.

    `line` is that of the first decorator. `names` are the attribute names in the text and the bare names that the file
    defines or imports; `own` are those among them that may be taken off the first parameter. `stores` are the attributes
    bound on the first parameter, each with whether a module may be bound; `declares` marks text that can declare attributes
    under names that `stores` cannot tell (`register_buffer`, `setattr`). `may_write` says that something could be a state
    write, `memoisers` are decorators whose names say that results are kept; `hands` are names and positions (without `self`;
    -1 of locals) of arguments to which something is done, `fills` says that it may be more than writing a tensor's memory;
    `moves` names attributes that would have to be modules for it (`self.x.to(...)`); `borrows` are methods of the same object
    that would have to hand out state (`hands_out`) for it. `states` are the locals that may be a part of the state,
    `lent` those that are at most what such methods returned, `arguments` those that may be a part of an argument. `nests` says
    that the function defines others, which it may return; `passes` are the bare names of functions that a constructor does not
    call, and `keeps` the attributes that it, or a method that may return state, takes off `self` without calling them.
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
    memoisers: tuple[str, ...]
    hands: dict[str, int]
    fills: bool
    moves: frozenset[str]
    borrows: frozenset[str]
    hands_out: bool
    states: frozenset[str]
    lent: dict[str, set[str]]
    arguments: frozenset[str]
    nests: bool
    passes: frozenset[str]
    keeps: frozenset[str]


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

    `others` are imports that a later one of the same name hides, as in `try` and `except ImportError`; `modules` are those of
    `import a.b.c`, of which only the first part is a name; `aliases` are the words on the right of globals that may be functions
    or classes under another name.
    """

    path: str
    imports: dict[str, Import]
    others: dict[str, tuple[Import, ...]]
    stars: tuple[Import, ...]
    modules: tuple[str, ...]
    classes: dict[str, ClassFacts]
    functions: dict[str, FunctionFacts]
    globals: dict[str, tuple[int, int]]
    aliases: dict[str, frozenset[str]]
    lines: int


_MUTATORS = CONTAINER_MUTATORS | HOOK_REGISTRATIONS | REGISTRATIONS.keys() | {"train", "eval", "__setattr__", "__delattr__"}
_RECEIVER = re.compile(r"(?<![\w.\])])(\w+)(?:\.\w+|\[[^\[\]]*\])*$")
_MOVERS = MODULE_MOVERS | {"load_state_dict", "zero_grad"}
_OUT = re.compile(r"[(,]\s*out\s*=(?!=)")
_SUSPECTS = frozenset(
    (
        "setattr delattr vars setitem delitem iadd heapq heappush heappop insort insort_left insort_right swap_tensors copyto "
        "__dict__ _buffers _parameters _modules batch_norm instance_norm native_batch_norm"
    ).split()
)
_NORMS = frozenset(("batch_norm", "instance_norm", "native_batch_norm"))
_NOBODY = "?"
"""Stands for a receiver that was made on the spot."""
_ITEM_METHODS = frozenset(("__getitem__", "__setitem__", "__delitem__"))
_NAMERS = frozenset(("getattr", "attrgetter", "methodcaller", "__class__"))
_WORDS = frozenset(("next", "shuffle"))
_WORD_CALL = re.compile(r"(?:next|shuffle)\s*\(")
_DECLARES = frozenset("setattr __setattr__ __dict__ vars _buffers _parameters _modules".split()) | REGISTRATIONS.keys()
_ATTRIBUTE = re.compile(r"\.\s*([A-Za-z_]\w*)")
_OWN = re.compile(r"self\s*\.\s*([A-Za-z_]\w*)")
_KEPT = re.compile(r"self\s*\.\s*([A-Za-z_]\w*)\b(?!\s*(?:[(.\[]|=(?!=)))")
_SUPER = re.compile(r"super\([^()]*\)\s*\.\s*([A-Za-z_]\w*)")
_BARE_SELF = re.compile(r"self\b(?![ \t]*[.\w(\[])")
_NOT_CALLED = re.compile(r"(?<![.\w])([A-Za-z_]\w*)\b(?!\s*[(.=])")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_MEMOISED = re.compile(r"cache|memo", re.IGNORECASE)


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class _Text(NamedTuple):
    """What the text of a function says, wherever it stands; `own` is None where any name may be taken off the first parameter."""

    stores: dict[str, bool]
    inner: list[ast.stmt]
    attributes: frozenset[str]
    words: tuple[str, ...]
    own: frozenset[str] | None
    items: bool
    supers: frozenset[str]
    uncalled: frozenset[str]
    declares: bool
    may_write: bool
    memoisers: tuple[str, ...]
    hands: dict[str, int]
    moves: frozenset[str]
    fills: bool
    borrows: frozenset[str]
    hands_out: bool
    states: frozenset[str]
    lent: dict[str, set[str]]
    arguments: frozenset[str]
    nests: bool
    keeps: frozenset[str]


class Copies:
    """What is known of functions by their text: models are copied from each other, and so are two in five of their functions."""

    def __init__(self) -> None:
        self._known: dict[object, list[tuple[frozenset[str], frozenset[str], _Text]]] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}

    def find(self, key: object, children: AbstractSet[str]) -> _Text | None:
        """What is known of a function under a key made of its text, in a class with these children."""
        for asked, answered, found in self._known.get(key, ()):
            if asked & children == answered:
                return found
        return None

    def keep(self, key: object, children: AbstractSet[str], asked: frozenset[str], found: _Text) -> None:
        """Remember what was found."""
        self._known.setdefault(key, []).append((asked, asked & children, found))

    def share(self, names: frozenset[str]) -> frozenset[str]:
        """The same names, held once for all functions that have them."""
        return self._sets.setdefault(names, names)


def extract(path: str, text: str, tree: ast.Module, copies: Copies) -> tuple[FileFacts, dict[int, FunctionNode]]:
    """The facts of one parsed file, and its functions by their first lines.

    `text` has `\n` line ends; `copies` are shared by the files of a scan.
    """
    extractor = _Extractor(path, text, copies)
    facts = extractor.run(tree)
    return facts, {_lines_of(node)[0]: node for _, _, node, _, _ in extractor.pending}


class _Extractor:
    def __init__(self, path: str, text: str, copies: Copies) -> None:
        self.path = path
        self.copies = copies
        self.lines = text.split("\n")
        self.imports: dict[str, Import] = {}
        self.local_imports: dict[str, Import] = {}
        self.others: dict[str, tuple[Import, ...]] = {}
        self.stars: list[Import] = []
        self.modules: list[str] = []
        self.classes: dict[str, ClassFacts] = {}
        self.functions: dict[str, FunctionFacts] = {}
        self.globals: dict[str, tuple[int, int]] = {}
        self.aliases: dict[str, frozenset[str]] = {}
        self.patches: list[tuple[str, str, ast.Assign]] = []
        self.pending: list[tuple[dict[str, FunctionFacts], str, FunctionNode, str, bool]] = []

    def run(self, tree: ast.Module) -> FileFacts:
        self._body(tree.body, "", self.functions, self.globals, self.imports, self.aliases)
        for name, attribute, assignment in self.patches:
            if name in self.classes:
                # `Net.forward = step`, below the class: as if its body said so.
                self._bind(attribute, assignment, self.classes[name].attributes, self.classes[name].aliases)
        children: dict[int, AbstractSet[str]] = {}
        examined: list[_Text] = []
        # A constructor comes before the methods that use what it binds; what is found inside functions is appended on the way.
        order = sorted(self.pending, key=_constructors_first)
        for owner, key, node, qualname, is_method in order:
            said = self._said(node, is_method, children.get(id(owner), NO_NAMES))
            if key == "__init__":
                children[id(owner)] = said.stores.keys()
            examined.append(said)
            if said.inner:
                before = len(self.pending)
                self._body(said.inner, qualname + ".<locals>.", {}, {}, self.local_imports)
                order.extend(sorted(self.pending[before:], key=_constructors_first))
        for name, found in self.local_imports.items():
            self.imports.setdefault(name, found)
        known = self.functions.keys() | self.imports.keys() | self.globals.keys() | {c.name for c in self.classes.values()}
        known |= {key for _, key, _, _, _ in self.pending}
        for (owner, key, node, qualname, _), said in zip(order, examined, strict=True):
            owner[key] = self._function(node, qualname, known, said)
        return FileFacts(
            self.path,
            self.imports,
            self.others,
            tuple(self.stars),
            tuple(self.modules),
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
        in_class: bool = False,
    ) -> None:
        work = list(reversed(body))
        while work:
            node = work.pop()
            if isinstance(node, FUNCTIONS):
                key = _method_key(node)
                kept = functions if key is not None else {}
                is_method = in_class and all(dotted(item) != "staticmethod" for item in node.decorator_list)
                self.pending.append((kept, key or node.name, node, prefix + node.name, is_method))
            elif isinstance(node, ast.ClassDef):
                self._class(node, prefix)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self._import(node, imports)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and not prefix:
                        self.patches.append((target.value.id, target.attr, node))
                    for name in _bound_names(target):
                        self._bind(name, node, names, aliases)
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
                if isinstance(node.target, ast.Name):
                    names.setdefault(node.target.id, (node.lineno, node.end_lineno or node.lineno))
            else:
                for inner in blocks(node):
                    work.extend(reversed(inner))

    def _bind(
        self, name: str, node: ast.Assign, names: dict[str, tuple[int, int]], aliases: dict[str, frozenset[str]] | None
    ) -> None:
        names[name] = (node.lineno, node.end_lineno or node.lineno)
        if aliases is not None and isinstance(node.value, (ast.Call, ast.Name, ast.Attribute, ast.Lambda, ast.IfExp)):
            text = "\n".join(self.lines[node.lineno - 1 : node.end_lineno])
            aliases[name] = frozenset(_IDENTIFIER.findall(text)) - {name}

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
        self._body(node.body, qualname + ".", methods, attributes, self.local_imports, aliases, in_class=True)

    def _import(self, node: ast.Import | ast.ImportFrom, imports: dict[str, Import]) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    imports[alias.asname] = Import(alias.name, None, 0)
                else:
                    root = alias.name.partition(".")[0]
                    if root != alias.name:
                        self.modules.append(alias.name)
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

    def _said(self, node: FunctionNode, is_method: bool, children: AbstractSet[str]) -> _Text:
        """What a function's text says, with the docstring left out, in which examples would look like code."""
        first, last = _lines_of(node)
        lines = self.lines[first - 1 : last]
        start = node.body[0]
        end = start.end_lineno or start.lineno
        alone = start.lineno > node.lineno and (len(node.body) == 1 or node.body[1].lineno > end)
        if alone and isinstance(start, ast.Expr) and isinstance(start.value, ast.Constant) and isinstance(start.value.value, str):
            del lines[start.lineno - first : end + 1 - first]
        text = "\n".join(lines)
        key = (node.name, is_method, len(text), hash(text))
        known = self.copies.find(key, children)
        if known is None:
            seen, asked = examine(node, is_method, children)
            known = _read(node, text, seen)
            if not known.inner:
                self.copies.keep(key, children, asked, known)
        return known

    def _function(self, node: FunctionNode, qualname: str, known: set[str], said: _Text) -> FunctionFacts:
        first, last = _lines_of(node)
        names = said.attributes.union(known.intersection(said.words))
        if said.items:
            names |= _ITEM_METHODS
        own = names if said.own is None else said.own | (names & _ITEM_METHODS)
        if said.supers:
            own |= said.supers
        names, own = self.copies.share(names), self.copies.share(own)
        passes = NO_NAMES
        if said.uncalled:
            passes = frozenset(
                word for word in said.uncalled if word in self.functions or (word in self.imports and word[0].islower())
            )
        return FunctionFacts(
            node.name,
            qualname,
            first,
            last,
            tuple(dotted(item) for item in node.decorator_list),
            names,
            own,
            said.stores,
            said.declares,
            said.may_write,
            said.memoisers,
            said.hands,
            said.fills,
            said.moves,
            said.borrows,
            said.hands_out,
            said.states,
            said.lent,
            said.arguments,
            said.nests,
            passes,
            said.keeps,
        )


def _lines_of(node: FunctionNode) -> tuple[int, int]:
    """A function's first line, that of its first decorator, and its last."""
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno, node.end_lineno or node.lineno


def _read(node: FunctionNode, text: str, seen: Seen) -> _Text:
    attributes = set(map(intern, _ATTRIBUTE.findall(text)))
    words = set(map(intern, _IDENTIFIER.findall(text)))
    fresh = seen.fresh
    if node.name in CONSTRUCTORS:
        fresh.add(seen.owner)
    moves = NO_NAMES
    handed = seen.handed - fresh
    if not _MOVERS.isdisjoint(attributes):
        moves = frozenset(m.group(1) or "" for m in _moves(seen.owner).finditer(text))
        if "" in moves and seen.owner not in ("self", "cls"):
            # A helper moves what it is handed: that must be a module.
            moves -= {""}
            handed.add(seen.owner)
    changed: set[str] = set()
    taken = False
    if not _MUTATORS.isdisjoint(attributes) or text.count("_(") > text.count("__(") or "_ (" in text:
        changed = {_receiver(text, found.start()) for found in _calls().finditer(text)} - fresh - {_NOBODY}
        # `keep = self.history.append`: taken off to be called by another name.
        taken = any(text.count(f".{name}") > text.count(f".{name}(") for name in _MUTATORS & attributes)
    may_write = (
        seen.written
        or not changed <= seen.arguments | seen.borrowed.keys()
        or not seen.returning.isdisjoint(changed | seen.handed)
        or taken
        or f"for {seen.owner}." in text
        or _suspicious(words, text)
        or ("out" in words and _OUT.search(text) is not None)
        or (not _WORDS.isdisjoint(words) and _WORD_CALL.search(text) is not None)
    )
    handed |= changed & seen.arguments
    places = {name: index for index, name in enumerate(seen.parameters)}
    borrows = seen.lenders.union(*(seen.borrowed[name] for name in changed & seen.borrowed.keys()))
    naming = not _NAMERS.isdisjoint(words)
    own: frozenset[str] | None = None
    if "self" in words and not naming and not _renames_self(text):
        own = frozenset(map(intern, _OWN.findall(text)))
    return _Text(
        stores=seen.stores,
        inner=seen.inner,
        # `getattr(self, "step")(x)`: a name in a string is a name too.
        attributes=frozenset(attributes | words if naming else attributes),
        words=tuple(words),
        own=own,
        items=f"{seen.owner}[" in text,
        supers=frozenset(_SUPER.findall(text)) if "super" in words else NO_NAMES,
        uncalled=frozenset(words.intersection(_NOT_CALLED.findall(text))) if node.name == "__init__" else NO_NAMES,
        declares=not _DECLARES.isdisjoint(words),
        may_write=may_write,
        memoisers=tuple(name for name in map(dotted, node.decorator_list) if _MEMOISED.search(name)),
        hands={name: places.get(name, -1) for name in handed},
        moves=moves,
        fills=seen.fills,
        borrows=frozenset(borrows),
        hands_out=seen.hands_out,
        states=seen.states,
        lent=seen.borrowed,
        arguments=frozenset(seen.arguments),
        nests=seen.nests or "lambda" in words,
        keeps=frozenset(map(intern, _KEPT.findall(text))) if node.name == "__init__" or seen.hands_out else NO_NAMES,
    )


def _suspicious(words: set[str], text: str) -> bool:
    """Whether a function is named that writes what it is handed. `self.batch_norm(x)` calls a child of that name."""
    suspects = _SUSPECTS & words
    if suspects and suspects <= _NORMS:
        return any(text.count(name) > text.count(f"self.{name}") for name in suspects)
    return bool(suspects)


@lru_cache(maxsize=1)
def _calls() -> re.Pattern[str]:
    """Finds calls of what may change its receiver. Made when the first is looked for: most small scans have none."""
    return re.compile(rf"\.\s*(?:{'|'.join(sorted(_MUTATORS))}|(?!__)\w*[A-Za-z0-9]_)\s*\(")


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
    """The name that the chain of attributes, items and calls before `end` starts with; empty where it starts with something else.

    `torch.zeros(n).scatter_(...)` starts with nobody, unless the function hands out a view of its argument.
    """
    found = _RECEIVER.search(text[text.rfind("\n", 0, end) + 1 : end])
    if found is not None:
        return found.group(1)
    while text[end - 1 : end] in (")", "]"):
        end = _opening(text, end - 1)
        found = _RECEIVER.search(text, max(0, text.rfind("\n", 0, end) + 1), end)
        if found is not None:
            root, _, name = found.group().rpartition(".")
            if root not in ("torch", "np", "F"):
                return found.group(1) if root else ""
            return _NOBODY if name not in VIEW_FUNCTIONS else ""
    return ""


def _opening(text: str, closing: int) -> int:
    """Where the bracket opens that closes at `closing`; 0 where it does not."""
    depth = 0
    for index in range(closing, -1, -1):
        if text[index] in ")]}":
            depth += 1
        elif text[index] in "([{":
            depth -= 1
            if depth == 0:
                return index
    return 0


def _constructors_first(pending: tuple[object, str, object, object, object]) -> bool:
    return pending[1] != "__init__"


def _method_key(node: FunctionNode) -> str | None:
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

"""Stage one: the facts of one parsed file. Stdlib `ast`; statements are walked, what expressions say is read off their text."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from modelguard.scan.bindings import FUNCTIONS, NO_NAMES, blocks, dotted, examine
from modelguard.scan.facts import ClassFacts, FileFacts, FunctionFacts, FunctionNode, Import
from modelguard.scan.texts import WORD, FunctionText, read_text

_ITEM_METHODS = frozenset(("__getitem__", "__setitem__", "__delitem__"))


class Copies:
    """What is known of functions by their text: models are copied from each other, and so are two in five of their functions."""

    def __init__(self) -> None:
        self._known: dict[object, list[tuple[frozenset[str], frozenset[str], FunctionText]]] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: object, children: AbstractSet[str]) -> FunctionText | None:
        """What is known of a function under a key made of its text, in a class with these children."""
        for asked, answered, found in self._known.get(key, ()):
            if asked & children == answered:
                return found
        return None

    def keep(self, key: object, children: AbstractSet[str], asked: frozenset[str], found: FunctionText) -> None:
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
        examined: list[FunctionText] = []
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
            aliases[name] = frozenset(WORD.findall(text)) - {name}

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

    def _said(self, node: FunctionNode, is_method: bool, children: AbstractSet[str]) -> FunctionText:
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
            known = read_text(node, text, seen)
            if not known.inner:
                self.copies.keep(key, children, asked, known)
        return known

    def _function(self, node: FunctionNode, qualname: str, known: set[str], said: FunctionText) -> FunctionFacts:
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

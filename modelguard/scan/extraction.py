"""Stage one: the facts of one parsed file. Stdlib `ast`; statements are walked, what expressions say is read off their text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from modelguard.scan.bindings import FUNCTIONS, FunctionNode, blocks, dotted, examine
from modelguard.scan.facts import ClassFacts, FileFacts, FunctionFacts, Import
from modelguard.scan.texts import FunctionText, read_text

_ITEM_METHODS = frozenset(("__getitem__", "__setitem__", "__delitem__"))


class Copies:
    """What is known of functions by their text: models are copied from each other, and so are two in five of their functions."""

    def __init__(self) -> None:
        self.known: dict[object, FunctionText] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}

    def __len__(self) -> int:
        return len(self.known)

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
        self.patches: list[tuple[str, str, ast.Assign]] = []
        self.pending: list[tuple[dict[str, FunctionFacts], str, FunctionNode, str, bool]] = []

    def run(self, tree: ast.Module) -> FileFacts:
        self._body(tree.body, "", self.functions, self.globals, self.imports)
        for name, attribute, assignment in self.patches:
            if name in self.classes:
                # `Net.forward = step`, below the class: as if its body said so.
                self.classes[name].attributes[attribute] = _span(assignment)
        examined: list[FunctionText] = []
        # What is found inside functions is appended on the way.
        for _, _, node, qualname, is_method in self.pending:
            said = self._said(node, is_method)
            examined.append(said)
            if said.inner:
                self._body(said.inner, qualname + ".<locals>.", {}, {}, self.local_imports)
        for name, found in self.local_imports.items():
            self.imports.setdefault(name, found)
        known = self.functions.keys() | self.imports.keys() | self.globals.keys() | {c.name for c in self.classes.values()}
        known |= {key for _, key, _, _, _ in self.pending}
        for (owner, key, node, qualname, _), said in zip(self.pending, examined, strict=True):
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
            len(self.lines),
        )

    def _body(
        self,
        body: list[ast.stmt],
        prefix: str,
        functions: dict[str, FunctionFacts],
        names: dict[str, tuple[int, int]],
        imports: dict[str, Import],
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
                        names[name] = _span(node)
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
                if isinstance(node.target, ast.Name):
                    names.setdefault(node.target.id, _span(node))
            else:
                for inner in blocks(node):
                    work.extend(reversed(inner))

    def _class(self, node: ast.ClassDef, prefix: str) -> None:
        qualname = prefix + node.name
        if qualname in self.classes:
            qualname = f"{qualname}@{node.lineno}"
        methods: dict[str, FunctionFacts] = {}
        attributes: dict[str, tuple[int, int]] = {}
        bases = tuple(base for item in node.bases for base in _bases(item))
        decorators = tuple(dotted(item) for item in node.decorator_list)
        self.classes[qualname] = ClassFacts(node.name, qualname, node.lineno, bases, decorators, methods, attributes)
        self._body(node.body, qualname + ".", methods, attributes, self.local_imports, in_class=True)

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

    def _said(self, node: FunctionNode, is_method: bool) -> FunctionText:
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
        known = self.copies.known.get(key)
        if known is None:
            known = read_text(node, text, examine(node, is_method))
            if not known.inner:
                self.copies.known[key] = known
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
        )


def _lines_of(node: FunctionNode) -> tuple[int, int]:
    """A function's first line, that of its first decorator, and its last."""
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno, node.end_lineno or node.lineno


def _span(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.end_lineno or node.lineno


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

"""The project: which file, class or function a name means, across files and into installed packages, without importing any."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass

from modelguard.errors import SourceError
from modelguard.scan.bindings import CONSTRUCTORS
from modelguard.scan.facts import ClassFacts, FileFacts, FunctionFacts, FunctionNode, Import
from modelguard.scan.modules import ModuleFiles
from modelguard.scan.tables import MODULE_ROOTS, NOT_MODULES_OF_NN, nn_attribute

_DEPTH = 24
"""How many re-exports a name is followed through."""

_BASES = 500
"""How many bases of bases are followed: more would overrun the stack, and no real class has them."""

_STARS = 12
"""Star imports of one file that a name is looked for in: a package that re-exports everything would pull in all its files."""


class SourceFile:
    """A file of the project: its facts, and the lines of its text, read again when they are needed."""

    __slots__ = ("_lines", "_opened", "_read", "facts", "path", "syntax")

    def __init__(self, path: str, facts: FileFacts, read: Callable[[], str], opened: Opened) -> None:
        self.path = path
        self.facts = facts
        self._read = read
        self._opened = opened
        self._lines: list[str] | None = None
        self.syntax: dict[int, FunctionNode] = {}
        """Its functions by their first lines, while they are at hand."""

    @property
    def lines(self) -> list[str]:
        """The text, line by line, without line ends."""
        if self._lines is None:
            try:
                self._lines = self._read().split("\n")
            except SourceError:
                # It went away, or is another file by now: the scan says so, nothing more is found in it. Walks that are in it
                # still ask for its lines by number.
                self._lines = [""] * self.facts.lines
            self._opened.note(self)
        return self._lines

    def forget(self) -> None:
        """Let the text go; it is read again when asked for."""
        self._lines = None


class Opened:
    """The files whose text is held: the oldest lets go of it when there are many."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._files: list[SourceFile] = []

    def note(self, file: SourceFile) -> None:
        """A file's text was read."""
        self._files.append(file)
        if len(self._files) > self._most:
            self._files.pop(0).forget()


class ExternalClass:
    """A class outside the project, known by its dotted name."""

    __slots__ = ("dotted", "is_module", "is_tensor_function", "name")

    def __init__(self, dotted: str, is_module: bool) -> None:
        self.dotted = dotted
        self.name = dotted.rpartition(".")[2]
        self.is_module = is_module
        self.is_tensor_function = dotted.endswith("autograd.Function")

    def method(self, name: str) -> None:
        """No method of it has source here."""
        return None

    def known_attribute(self, name: str) -> int:
        """The kind of one of its attributes, where it is a class of torch.nn."""
        return nn_attribute(self.name, name) if self.dotted.startswith("torch.nn") else 0


class Method:
    """A method as a class defines it."""

    __slots__ = ("facts", "owner")

    def __init__(self, owner: ClassInfo, facts: FunctionFacts) -> None:
        self.owner = owner
        self.facts = facts


class ClassInfo:
    """A class of the project with its method resolution order."""

    __slots__ = (
        "_declaring",
        "_methods",
        "_read_names",
        "_stored",
        "_storing",
        "facts",
        "file",
        "is_module",
        "is_tensor_function",
        "mro",
        "name",
    )

    def __init__(self, file: SourceFile, facts: ClassFacts) -> None:
        self.file = file
        self.facts = facts
        self.name = facts.name
        self.mro: list[ClassInfo | ExternalClass] = [self]
        self.is_module = False
        self.is_tensor_function = False
        self._methods: dict[str, Method | None] = {}
        self._storing: dict[str, list[FunctionFacts]] | None = None
        self._declaring: list[FunctionFacts] = []
        self._read_names: frozenset[str] | None = None
        self._stored: frozenset[str] | None = None

    def binding(self, name: str) -> list[FunctionFacts]:
        """The methods of this class itself that bind attribute `name`, or may bind attributes of any name."""
        if self._storing is None:
            self._storing = {}
            for facts in self.facts.methods.values():
                if facts.declares:
                    self._declaring.append(facts)
                for stored in facts.stores:
                    self._storing.setdefault(stored, []).append(facts)
        found = self._storing.get(name)
        if found is None:
            return self._declaring
        return found + [facts for facts in self._declaring if facts not in found] if self._declaring else found

    def stores(self, name: str, inside: Container[str]) -> bool:
        """Whether a method, of this class or a base in the files `inside`, binds attribute `name` on its object."""
        for item in self.ancestry():
            if item.file.path not in inside:
                continue
            if item._stored is None:
                item._stored = frozenset[str]().union(*(facts.stores for facts in item.facts.methods.values()))
            if name in item._stored:
                return True
        return False

    def read_names(self) -> frozenset[str] | None:
        """The attributes that its methods may read of an instance; None where a base outside torch may read any."""
        if self._read_names is None:
            names: set[str] = set()
            for item in self.ancestry():
                for key, facts in item.facts.methods.items():
                    if key not in CONSTRUCTORS:
                        names |= facts.own
            self._read_names = frozenset(names)
        known = all(
            item.dotted.startswith(("torch.nn.", "abc.", "typing.")) for item in self.mro if isinstance(item, ExternalClass)
        )
        return self._read_names if known else None

    def ancestry(self) -> Iterator[ClassInfo]:
        """The class and its bases, as far as they are in the project."""
        for item in self.mro:
            if isinstance(item, ClassInfo):
                yield item

    def method(self, name: str) -> Method | None:
        """The method that `name` means on an instance."""
        try:
            return self._methods[name]
        except KeyError:
            found = self.method_after(None, name)
            self._methods[name] = found
            return found

    def method_after(self, after: ClassInfo | None, name: str) -> Method | None:
        """The method that `super().name` means in a method of `after`; that of the whole class with None."""
        seen = after is None
        for item in self.mro:
            if not seen:
                seen = item is after
                continue
            if isinstance(item, ClassInfo):
                facts = item.facts.methods.get(name)
                if facts is not None:
                    return Method(item, facts)
                if name in item.facts.attributes:
                    return None
        return None

    def assigning(self, name: str) -> ClassInfo | None:
        """The class, this or a base, that says by an assignment what `name` means on an instance."""
        for item in self.ancestry():
            if name in item.facts.attributes:
                return item
            if name in item.facts.methods:
                return None
        return None

    def known_attribute(self, name: str) -> int:
        """The kind that a base in torch.nn gives an attribute."""
        for item in self.mro:
            if isinstance(item, ExternalClass):
                kind = item.known_attribute(name)
                if kind:
                    return kind
        return 0


@dataclass(frozen=True)
class GlobalName:
    """A name that a file binds by assignment at its top level."""

    file: SourceFile
    name: str


@dataclass(frozen=True)
class FunctionName:
    """A function that a file defines at its top level."""

    file: SourceFile
    facts: FunctionFacts


Symbol = ClassInfo | ExternalClass | FunctionName | GlobalName | SourceFile | str
"""What a name means: a class, a function, a global, a module's file, or (a string) something outside, by its dotted name."""


class Project:
    """Files, by path, and what their names mean.

    `load` gives the facts of the file at an absolute path, None where it cannot be read or parsed.
    """

    def __init__(
        self,
        load: Callable[[str], SourceFile | None],
        modules: ModuleFiles,
        module_bases: Sequence[str] = (),
    ) -> None:
        self._load = load
        self._modules = modules
        self._module_bases = MODULE_ROOTS | frozenset(module_bases)
        self._files: dict[str, SourceFile | None] = {}
        self._classes: dict[tuple[str, str], ClassInfo] = {}
        self._by_name: dict[str, dict[str, str]] = {}
        self._external: dict[str, ExternalClass] = {}
        self._symbols: dict[tuple[str, str], Symbol | None] = {}
        self._linking = 0
        self.sought: dict[str, set[str]] = {}
        """What was looked for in packages that no import names (`pkg.part.Net`), by the paths of the packages."""

    def add(self, file: SourceFile) -> None:
        """Take in a file whose facts are known."""
        self._files[os.path.abspath(file.path)] = file

    def known(self, path: str) -> SourceFile | None:
        """The file at an absolute path, if it was read before."""
        return self._files.get(path)

    def file(self, path: str) -> SourceFile | None:
        """The file at an absolute path, read when first asked for."""
        try:
            return self._files[path]
        except KeyError:
            loaded = self._load(path)
            self._files[path] = loaded
            return loaded

    def classes(self, file: SourceFile) -> Iterator[ClassInfo]:
        """The classes of a file."""
        for qualname in file.facts.classes:
            yield self.class_info(file, qualname)

    def class_info(self, file: SourceFile, qualname: str) -> ClassInfo:
        """The class of a file by its qualified name, its bases resolved."""
        key = (file.path, qualname)
        found = self._classes.get(key)
        if found is None:
            found = ClassInfo(file, file.facts.classes[qualname])
            self._classes[key] = found
            self._linking += 1
            if self._linking <= _BASES:
                self._link(found)
            self._linking -= 1
        return found

    def external_class(self, dotted: str) -> ExternalClass:
        """A class outside the project."""
        found = self._external.get(dotted)
        if found is None:
            found = ExternalClass(dotted, self._is_module_name(dotted))
            self._external[dotted] = found
        return found

    def resolve(self, file: SourceFile, dotted: str) -> Symbol | None:
        """What a dotted name means at the top level of `file`; None where nothing is known."""
        key = (file.path, dotted)
        try:
            return self._symbols[key]
        except KeyError:
            self._symbols[key] = None
            found = self._resolve(file, dotted, 0)
            self._symbols[key] = found
            return found

    def _link(self, info: ClassInfo) -> None:
        bases: list[ClassInfo | ExternalClass] = []
        for dotted in info.facts.bases:
            symbol = self.resolve(info.file, dotted) if dotted != "?" else None
            if symbol is info and dotted == info.facts.name:
                symbol = self._shadowed(info, dotted)
            seen: set[GlobalName] = set()
            while isinstance(symbol, GlobalName) and symbol not in seen:
                seen.add(symbol)
                symbol = self._assigned_class(symbol)
            if isinstance(symbol, (ClassInfo, ExternalClass)):
                bases.append(symbol)
            elif isinstance(symbol, str):
                bases.append(self.external_class(symbol))
            elif symbol is None and dotted != "?":
                bases.append(self.external_class(dotted))
        info.mro = _linearise(info, bases)
        for item in info.mro[1:]:
            info.is_module = info.is_module or item.is_module
            info.is_tensor_function = info.is_tensor_function or item.is_tensor_function
        qualified = f"{_module_name(info.file.path)}.{info.facts.qualname}"
        if any(qualified == base or qualified.endswith("." + base) for base in self._module_bases):
            info.is_module = True

    def _shadowed(self, info: ClassInfo, dotted: str) -> Symbol | None:
        """`class Model(Model)`: the base is what the name meant before, an import."""
        found = info.file.facts.imports.get(dotted)
        return self._imported(info.file, found, 0) if found is not None else None

    def _assigned_class(self, symbol: GlobalName) -> Symbol | None:
        """`Base = nn.Module`, `Linear = _BaseLinear`: a class under another name."""
        start, end = symbol.file.facts.globals[symbol.name]
        node = parse_lines(symbol.file, start, end)
        value = node[0].value if node and isinstance(node[0], (ast.Assign, ast.AnnAssign)) else None
        if isinstance(value, ast.IfExp):
            value = value.body
        if isinstance(value, (ast.Name, ast.Attribute)):
            name = _dotted(value)
            if name and name != symbol.name:
                return self.resolve(symbol.file, name)
        return None

    def _is_module_name(self, dotted: str) -> bool:
        if dotted in self._module_bases:
            return True
        package, _, name = dotted.rpartition(".")
        if dotted.startswith(("torch.nn.", "torch.ao.nn.", "torch.jit.")):
            return name[:1].isupper() and name not in NOT_MODULES_OF_NN and not package.startswith("torch.nn.utils.rnn")
        # Bases whose source is not at hand: by the habits of the field's names.
        return name.endswith(("nn.Module", "PreTrainedModel", "LightningModule", "ModelMixin")) or dotted in (
            "nn.Module",
            "Module",
        )

    def _starred(self, file: SourceFile, name: str, depth: int) -> Symbol | None:
        """What a name means that a file has from its star imports, or from theirs: each file is looked into once."""
        seen = {file.path}
        pending = [file]
        while pending:
            current = pending.pop()
            if current is not file:
                symbol = self._resolve(current, name, depth, stars=False) or self._unnamed(current, name)
                if symbol is not None:
                    return symbol
            if len(current.facts.stars) > _STARS:
                continue
            for star in reversed(current.facts.stars):
                path = self._modules.of(current.path, star.module, star.level)
                module = self.file(path) if path is not None else None
                if module is not None and module.path not in seen:
                    seen.add(module.path)
                    pending.append(module)
        return None

    def _resolve(self, file: SourceFile, dotted: str, depth: int, stars: bool = True) -> Symbol | None:
        if depth > _DEPTH:
            return None
        head, _, rest = dotted.partition(".")
        facts = file.facts
        symbol: Symbol | None = None
        if dotted in facts.classes:
            return self.class_info(file, dotted)
        qualname = self._last_of_name(file, head)
        if qualname is not None:
            symbol = self.class_info(file, qualname)
        elif head in facts.functions:
            symbol = FunctionName(file, facts.functions[head])
        elif head in facts.imports:
            symbol = self._imported(file, facts.imports[head], depth + 1)
            for other in facts.others.get(head, ()) if isinstance(symbol, str) else ():
                known = self._imported(file, other, depth + 1)
                if not isinstance(known, str):
                    symbol = known
                    break
        elif head in facts.globals:
            symbol = GlobalName(file, head)
        elif stars:
            symbol = self._starred(file, head, depth + 1)
        return self._descend(symbol, rest, depth + 1) if rest and symbol is not None else symbol

    def member(self, module: SourceFile, name: str) -> Symbol | None:
        """What `module.name` means: a name of the file, or a module of the package."""
        return self.resolve(module, name) or self._unnamed(module, name)

    def _descend(self, symbol: Symbol, rest: str, depth: int) -> Symbol | None:
        """What `rest` means below `symbol`."""
        if isinstance(symbol, str):
            return f"{symbol}.{rest}"
        if isinstance(symbol, SourceFile):
            head, _, deeper = rest.partition(".")
            found = self._resolve(symbol, head, depth)
            if found is None:
                found = self._unnamed(symbol, head)
            return self._descend(found, deeper, depth) if deeper and found is not None else found
        if isinstance(symbol, ClassInfo):
            qualname = f"{symbol.facts.qualname}.{rest}"
            if qualname in symbol.file.facts.classes:
                return self.class_info(symbol.file, qualname)
        if isinstance(symbol, ExternalClass):
            return f"{symbol.dotted}.{rest}"
        return None

    def _last_of_name(self, file: SourceFile, name: str) -> str | None:
        names = self._by_name.get(file.path)
        if names is None:
            names = {}
            for qualname, facts in file.facts.classes.items():
                # A class inside a function is found by its name too, unless a top-level one has it.
                plain = qualname.partition("@")[0]
                if plain == facts.name or ("<locals>" in plain and facts.name not in names):
                    names[facts.name] = qualname
            self._by_name[file.path] = names
        return names.get(name)

    def _imported(self, file: SourceFile, found: Import, depth: int) -> Symbol | None:
        if depth > _DEPTH:
            return None
        path = self._modules.of(file.path, found.module, found.level)
        dotted = "." * found.level + found.module
        module = self.file(path) if path is not None else None
        if found.attribute is None:
            return module or dotted
        inner = None
        if module is not None:
            inner = self._resolve(module, found.attribute, depth + 1) if module is not file else None
            inner = inner or self._submodule(module, found.attribute)
        return inner or f"{dotted}.{found.attribute}"

    def _unnamed(self, module: SourceFile, name: str) -> Symbol | None:
        """A module below a package, where no import statement names it; that it was looked for is noted."""
        if os.path.basename(module.path) == "__init__.py":
            self.sought.setdefault(os.path.abspath(module.path), set()).add(name)
        return self._submodule(module, name)

    def _submodule(self, module: SourceFile, name: str) -> Symbol | None:
        if os.path.basename(module.path) != "__init__.py":
            return None
        path = self._modules.below(os.path.dirname(os.path.abspath(module.path)), name)
        return self.file(path) if path is not None else None


def _dotted(node: ast.expr) -> str | None:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join(reversed([*parts, node.id]))


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace(os.sep, ".").replace("/", ".")


def _linearise(info: ClassInfo, bases: list[ClassInfo | ExternalClass]) -> list[ClassInfo | ExternalClass]:
    """C3, or left to right and depth first where the bases allow no C3 order (or form a cycle)."""
    if len(bases) == 1:
        # By far the most: without this, long lines of bases take cubic time.
        only = bases[0]
        return [info, *(item for item in (only.mro if isinstance(only, ClassInfo) else [only]) if item is not info)]
    sequences = [list(base.mro) if isinstance(base, ClassInfo) else [base] for base in bases]
    sequences.append(list(bases))
    order: list[ClassInfo | ExternalClass] = [info]
    while any(sequences):
        sequences = [sequence for sequence in sequences if sequence]
        for sequence in sequences:
            head = sequence[0]
            if not any(head in other[1:] for other in sequences):
                break
        else:
            head = sequences[0][0]
        if head not in order:
            order.append(head)
        sequences = [[item for item in sequence if item is not head] for sequence in sequences]
    return order


def parse_lines(file: SourceFile, start: int, end: int) -> list[ast.stmt]:
    """The statements on lines `start` to `end` of a file; empty where they do not parse on their own.

    Positions in the result are those of the cut text: add `start - 1` to a line, or `start - 2` where the cut was indented
    (see `cut_offset`).
    """
    return parse_cut("\n".join(file.lines[start - 1 : end]))


def parse_cut(text: str) -> list[ast.stmt]:
    """The statements of a text cut out of a file; see `parse_lines`."""
    try:
        if text[:1] in (" ", "\t", "\f"):
            wrapper = ast.parse("if 1:\n" + text).body[0]
            return wrapper.body if isinstance(wrapper, ast.If) else []
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def cut_offset(file: SourceFile, start: int) -> int:
    """What to add to a line number of `parse_lines(file, start, ...)` to get the file's."""
    if file.lines[start - 1][:1] in (" ", "\t", "\f"):
        return start - 2
    return start - 1

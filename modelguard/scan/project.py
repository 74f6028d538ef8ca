"""The project: which file, class or function a name means, across files and into installed packages, without importing any."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, KeysView, Sequence
from copy import copy

from modelguard.scan.facts import Import
from modelguard.scan.modules import ModuleFiles
from modelguard.scan.symbols import ClassInfo, ExternalClass, FunctionName, GlobalName, SourceFile, Symbol, linearised
from modelguard.scan.tables import MODULE_ROOTS, NOT_MODULES_OF_NN

_DEPTH = 24
"""How many re-exports a name is followed through."""

_BASES = 500
"""How many bases of bases are followed: more would overrun the stack, and no real class has them."""

_STARS = 12
"""Star imports of one file that a name is looked for in: a package that re-exports everything would pull in all its files."""


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
        self._reached: set[str] = set()
        """Files, by absolute path, that an import led to."""
        self.sought: dict[str, set[str]] = {}
        """What was looked for in packages that no import names (`pkg.part.Net`), by the paths of the packages."""

    def add(self, file: SourceFile) -> None:
        """Take in a file whose facts are known."""
        self._files[os.path.abspath(file.path)] = file

    def known(self, path: str) -> SourceFile | None:
        """The file at an absolute path, if it was read before."""
        return self._files.get(path)

    def without(self, path: str, load: Callable[[str], SourceFile | None]) -> Project | None:
        """What is known of all files but the one at an absolute path; None where others depend on that one."""
        file = self._files.get(path)
        if file is None or path in self._reached:
            return None
        rest = copy(self)
        rest._load = load
        rest._files = {key: found for key, found in self._files.items() if key != path}
        rest._classes = {key: info for key, info in self._classes.items() if key[0] != file.path}
        rest._symbols = {key: symbol for key, symbol in self._symbols.items() if key[0] != file.path}
        rest._by_name = {key: names for key, names in self._by_name.items() if key != file.path}
        return rest

    @property
    def paths(self) -> KeysView[str]:
        """The files that were asked for, by absolute path, whether or not they could be read."""
        return self._files.keys()

    def file(self, path: str) -> SourceFile | None:
        """The file at an absolute path, read when first asked for."""
        self._reached.add(path)
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
        info.mro = linearised(info, bases)
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

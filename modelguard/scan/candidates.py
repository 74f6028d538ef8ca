"""Which entry points are worth a walk: those from whose text, by names alone, a function is reached that could matter.

It matters if it could write state, or could hold an obstacle to capture.

Names over-approximate calls: whatever the walk could follow is named in the text it starts from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterator

from modelguard.scan.bindings import CONSTRUCTORS
from modelguard.scan.facts import FunctionFacts, FunctionNode
from modelguard.scan.project import Project
from modelguard.scan.suspicion import ANYTHING, SURE, Suspicion, suspicion
from modelguard.scan.symbols import ClassInfo, FunctionName, GlobalName, Method, SourceFile
from modelguard.scan.tables import DISABLERS, GENERATORS, OPAQUE_MODULES, SCRIPTERS
from modelguard.scan.texts import WORD

_HOOKS = frozenset(("register_forward_pre_hook", "register_forward_hook"))


_MAKERS = frozenset(name.rpartition(".")[2] for name in GENERATORS | SCRIPTERS | DISABLERS)
"""Functions whose result is no graph's to hold, wherever it is called later."""
_KEPT = frozenset(("lru_cache", "cache", "cached")) | _MAKERS
_TENSORS = re.compile(
    r"""register_(?:buffer|parameter)\(\s*f?["'](\w*)|"""
    r"""setattr\(\s*self\s*,\s*["'](\w+)|"""
    r"""self\.(\w+)\s*(?::[^=\n]+)?=\s*(?!(?:\w+\.)*[A-Z](?!uffer|arameter))[^\n]*\("""
)
"""Finds the attributes that a constructor may bind to tensors: what calls something that is no class."""
_RANDOM = frozenset(("random", "secrets", "numpy.random"))
_ASKING = _RANDOM | frozenset(("time", "timeit", "datetime", "uuid", "warnings", "pprint", "os", "numpy", "math"))
"""Modules whose functions, imported by name, go by names that say nothing."""
_STORED = re.compile(r"self\.(\w+)\s*(?::[^=\n]+)?=(?!=)")

_CONSTRUCTION = 2
"""Calls from `__init__` that are followed for what registers a hook: further on, names say little of what really runs."""


def construction(info: ClassInfo) -> list[Method]:
    """The methods that run when an instance is made: `__init__`, and what it names, in the class and its bases."""
    found: dict[tuple[str, int], Method] = {}
    work = [(Method(item, item.facts.methods["__init__"]), 0) for item in info.ancestry() if "__init__" in item.facts.methods]
    while work:
        method, depth = work.pop(0)
        key = (method.owner.file.path, method.facts.line)
        if key in found:
            continue
        found[key] = method
        for name in method.facts.own if depth < _CONSTRUCTION else ():
            inner = info.method(name)
            if inner is not None:
                work.append((inner, depth + 1))
    return list(found.values())


def registering(info: ClassInfo, inside: Container[str]) -> list[Method]:
    """The methods of the project's own files that register a forward hook while an instance is made."""
    named = [
        facts
        for item in info.ancestry()
        if item.file.path in inside
        for facts in item.facts.methods.values()
        if not _HOOKS.isdisjoint(facts.names)
    ]
    return [method for method in construction(info) if method.facts in named] if named else []


_Reached = tuple[SourceFile, FunctionFacts, ClassInfo | None, "tuple[SourceFile, FunctionFacts] | None"]
"""A function that a region may call, the class whose method it is, and who calls it where that is known."""


class _Region:
    """What was reached so far of one region."""

    def __init__(self) -> None:
        self.work: list[_Reached] = []
        self.seen: set[tuple[str, int]] = set()
        self.companions: set[ClassInfo] = set()
        self.entered: set[ClassInfo] = set()
        self.methods: dict[str, list[_Reached]] = {}
        self.named: set[str] = set()
        self.makes = self.moves = False
        """Whether tensors are made in host memory, and whether tensors are moved to a device."""


_Syntax = Callable[[SourceFile, str, int, int], "tuple[FunctionNode, int] | None"]

_KEYWORD = re.compile(r"\s*(?:\*|([A-Za-z_]\w*)\s*=(?!=))")


def _split_arguments(text: str, start: int) -> list[str]:
    """The arguments of a call whose parenthesis opens before `start`, as text."""
    depth = 0
    parts: list[str] = []
    begin = start
    for index in range(start, len(text)):
        sign = text[index]
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            if depth == 0:
                parts.append(text[begin:index])
                return parts
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[begin:index])
            begin = index + 1
    parts.append(text[begin:])
    return parts


def _plain(file: SourceFile) -> set[str]:
    return {facts.name for facts in file.facts.classes.values()}


class Candidates:
    """Answers, for one project, whether a region could hold a state write or an obstacle. `syntax` gives that of a function."""

    def __init__(self, project: Project, entry_points: frozenset[str], inside: Container[str], syntax: _Syntax) -> None:
        self._project = project
        self._syntax = syntax
        self._suspicions: dict[tuple[str, int], Suspicion] = {}
        self._asking: dict[str, frozenset[str]] = {}
        self._tensors: dict[int, tuple[frozenset[str], frozenset[str]]] = {}
        self._entry_points = entry_points
        self._inside = inside
        self._aliases: dict[int, dict[str, list[tuple[ClassInfo, frozenset[str]]]]] = {}
        self._keeps: dict[int, frozenset[str]] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._named: dict[tuple[str, int], tuple[ClassInfo | FunctionName | None, ...]] = {}
        self._companions: dict[int, frozenset[ClassInfo]] = {}
        self._by_name: dict[tuple[int, str], tuple[_Reached, ...]] = {}

    def _kept_methods(self, info: ClassInfo) -> Iterator[_Reached]:
        """Methods that an instance may keep (`self.step = self._eager`), and constructors that define functions it may keep."""
        for item in info.ancestry():
            if item.file.path not in self._inside:
                continue
            keeps = self._keeps.get(id(item))
            if keeps is None:
                keeps = frozenset[str]().union(*(facts.keeps for facts in item.facts.methods.values()))
                self._keeps[id(item)] = keeps
            for name in keeps:
                yield from self._methods(info, name)
            init = item.facts.methods.get("__init__")
            if init is not None and init.nests:
                yield item.file, init, item, None

    def _kept_functions(self, info: ClassInfo) -> Iterator[FunctionName]:
        """Functions that an instance may keep, or that make one it keeps: `self.next_position = make_counter()`."""
        for item in info.ancestry():
            init = item.facts.methods.get("__init__")
            if init is not None and item.file.path in self._inside:
                for symbol in self._symbols(item.file, init):
                    if isinstance(symbol, FunctionName) and (symbol.facts.nests or symbol.facts.name in init.passes):
                        yield symbol

    def worth_a_walk(self, info: ClassInfo, method: Method) -> bool:
        """Whether the region of `method` on `info` could write state, or hold an obstacle."""
        if self._hooks_or_grows(info) or self._has_opaque_parts(info):
            return True
        region = _Region()
        region.work.append((method.owner.file, method.facts, method.owner, None))
        for item in info.ancestry():
            for name in item.facts.decorators:
                self._reach(region, self._project.resolve(item.file, name))
        for companion in self._companions_of(info):
            self._accompany(region, companion)
        for kept in self._kept_functions(info):
            self._reach(region, kept)
        region.work.extend(self._kept_methods(info))
        while region.work:
            file, facts, owner, caller = region.work.pop()
            key = (file.path, facts.line)
            if key in region.seen:
                continue
            region.seen.add(key)
            if owner is not None and owner not in region.entered:
                # Its methods run: so may those of what it has.
                region.entered.add(owner)
                for companion in self._companions_of(owner):
                    self._accompany(region, companion)
            if file.path in self._inside and (
                self._writes(info, method, file, facts, caller) or self._hinders(region, info, file, facts, owner)
            ):
                return True
            came = (file, facts)
            for symbol in self._symbols(file, facts):
                if symbol is None:
                    return True
                self._reach(region, symbol, came)
            for name in facts.own:
                for found in self._methods(info, name):
                    # Where any receiver may be meant, a name leads to methods of the project's own files only.
                    if (owner in info.mro and len(facts.own) < len(facts.names)) or found[0].path in self._inside:
                        region.work.append((*found[:3], came))
            for name in facts.own & self._body_aliases(info).keys():
                # `rate = property(read)`, `step = update`: the method is what the class body binds.
                for item, words in self._body_aliases(info)[name]:
                    for word in words:
                        if word in item.facts.methods:
                            region.work.append((item.file, item.facts.methods[word], item, came))
                        else:
                            self._reach(region, self._project.resolve(item.file, word), came)
            for name in facts.names & region.methods.keys():
                region.work.extend(region.methods.pop(name))
            region.named |= facts.names
        return False

    def _body_aliases(self, info: ClassInfo) -> dict[str, list[tuple[ClassInfo, frozenset[str]]]]:
        """What class bodies bind to other names, in a class and its bases, by name."""
        known = self._aliases.get(id(info))
        if known is None:
            known = {}
            for item in info.ancestry():
                for name, words in item.facts.aliases.items():
                    known.setdefault(name, []).append((item, words))
            self._aliases[id(info)] = known
        return known

    def _reach(self, region: _Region, symbol: object, came: tuple[SourceFile, FunctionFacts] | None = None) -> None:
        if isinstance(symbol, FunctionName):
            # A helper elsewhere writes nothing that is reported, and calls back only what its caller's text names.
            if symbol.file.path in self._inside:
                region.work.append((symbol.file, symbol.facts, None, came))
        elif isinstance(symbol, ClassInfo):
            for base in symbol.ancestry():
                self._accompany(region, base)
                if base.file.path in self._inside:
                    region.work.extend(
                        (base.file, base.facts.methods[key], base, None) for key in CONSTRUCTORS & base.facts.methods.keys()
                    )
            for companion in self._companions_of(symbol):
                self._accompany(region, companion)

    def _accompany(self, region: _Region, companion: ClassInfo) -> None:
        """Methods of a class that the region may have an instance of are reached when they are named, special ones at once."""
        if companion in region.companions or companion.file.path not in self._inside:
            return
        region.companions.add(companion)
        for key, facts in companion.facts.methods.items():
            if key in CONSTRUCTORS or (companion.is_module and key in self._entry_points):
                continue
            if facts.name in region.named or (key.startswith("__") and not companion.is_module):
                region.work.append((companion.file, facts, companion, None))
            else:
                region.methods.setdefault(facts.name, []).append((companion.file, facts, companion, None))

    def _hooks_or_grows(self, info: ClassInfo) -> bool:
        """Whether making an instance registers a forward hook, or keeps a dict that grows by being read."""
        for item in info.ancestry():
            init = item.facts.methods.get("__init__")
            if init is not None and "defaultdict" in init.names:
                return True
        return bool(registering(info, self._inside))

    def _writes(
        self,
        info: ClassInfo,
        method: Method,
        file: SourceFile,
        facts: FunctionFacts,
        caller: tuple[SourceFile, FunctionFacts] | None,
    ) -> bool:
        if facts.may_write or self._memoises(file, facts) or (facts.moves and self._moves(info, facts)):
            return True
        if any(self._lends(info, name) for name in facts.borrows):
            return True
        if not facts.hands:
            return False
        # What an entry point does to its own arguments is no state write, unless a class of its file says what they are.
        if facts is method.facts:
            return facts.fills or any(
                not item.is_module and facts.names & item.facts.methods.keys() for item in self._project.classes(file)
            )
        return caller is None or self._gives(info, method, caller, facts)

    def _has_opaque_parts(self, info: ClassInfo) -> bool:
        """Whether an instance may have a child, or a function, whose call no graph can hold."""
        for item in info.ancestry():
            init = item.facts.methods.get("__init__")
            if init is not None and not init.names.isdisjoint(OPAQUE_MODULES | _MAKERS):
                return True
        return any(
            any(base.rpartition(".")[2] in OPAQUE_MODULES for base in companion.facts.bases)
            or any("disable" in name or "disallow" in name for name in companion.facts.methods["forward"].decorators)
            for companion in self._companions_of(info)
            if companion.is_module and "forward" in companion.facts.methods
        )

    def _hinders(self, region: _Region, info: ClassInfo, file: SourceFile, facts: FunctionFacts, owner: ClassInfo | None) -> bool:
        """Whether a function could hold an obstacle to capture."""
        key = (file.path, facts.line)
        found = self._suspicions.get(key)
        if found is None:
            sure = not facts.names.isdisjoint(SURE) or not facts.names.isdisjoint(self._asking_in(file))
            syntax = None if sure else self._syntax(file, facts.name, facts.line, facts.end_line)
            found = suspicion(syntax[0]) if syntax is not None else ANYTHING
            self._suspicions[key] = found
        region.makes = region.makes or found.makes
        region.moves = region.moves or found.moves
        if found.certain or (region.makes and region.moves):
            return True
        if any("disable" in name or "disallow" in name for name in facts.decorators):
            return True
        if not (found.asks or found.carries):
            return False
        owners = {info, *self._companions_of(info), *([] if owner is None else [owner])}
        return any(not found.asks.isdisjoint(self._tensors_of(each)[0]) for each in owners) or any(
            not found.carries.isdisjoint(self._tensors_of(each)[1]) for each in owners
        )

    def _asking_in(self, file: SourceFile) -> frozenset[str]:
        """The names that a file imports from modules whose functions answer differently each time, or read tensors."""
        known = self._asking.get(file.path)
        if known is None:
            imports = file.facts.imports.items()
            known = frozenset(name for name, each in imports if each.module in (_ASKING if each.attribute else _RANDOM))
            self._asking[file.path] = known
        return known

    def _tensors_of(self, info: ClassInfo) -> tuple[frozenset[str], frozenset[str]]:
        """The attributes of a class and its bases that may be tensors, by how they are bound; then, those not registered."""
        known = self._tensors.get(id(info))
        if known is None:
            registered: set[str] = set()
            bound: set[str] = set()
            for item in info.ancestry():
                for facts in item.facts.methods.values():
                    if facts.stores or facts.declares:
                        text = "\n".join(item.file.lines[facts.line - 1 : facts.end_line])
                        for buffer, *others in _TENSORS.findall(text):
                            registered.add(buffer)
                            bound.update(others)
                        if "Tensor" in text:
                            bound.update(_STORED.findall(text))
            known = self._tensors[id(info)] = (frozenset(registered | bound) - {""}, frozenset(bound) - {""})
        return known

    def _memoises(self, file: SourceFile, facts: FunctionFacts) -> bool:
        """Whether a decorator may keep results: one that is defined outside is looked through."""
        for name in facts.memoisers:
            symbol = self._project.resolve(file, name)
            if not isinstance(symbol, FunctionName) or symbol.file.path in self._inside:
                return True
        return False

    def _lends(self, info: ClassInfo, name: str) -> bool:
        """Whether what a method of a class returns, or the function that a property gives, may be a part of the state."""
        lent = info.method(name)
        if lent is None:
            return False
        if "property" in lent.facts.decorators:
            return lent.facts.nests or any(inner != name and self._lends(info, inner) for inner in lent.facts.own)
        return lent.facts.hands_out

    def _gives(self, info: ClassInfo, method: Method, came: tuple[SourceFile, FunctionFacts], called: FunctionFacts) -> bool:
        """Whether a function calls another with something that may be state, where the other changes what it is given."""
        file, caller = came
        text = "\n".join(file.lines[caller.line - 1 : caller.end_line])
        calls = list(re.finditer(rf"(?<!def )\b{called.name}\s*\(", text))
        if caller is method.facts:
            state = caller.states.union(
                name for name, lenders in caller.lent.items() if any(self._lends(info, lender) for lender in lenders)
            )
        else:
            state = caller.states.union(caller.lent)
        if called.fills or caller is not method.facts:
            # An object that is handed in is state of whoever made it, and a caller may have been given it by another.
            state |= caller.arguments
        places = called.hands.values()
        for found in calls:
            for index, argument in enumerate(_split_arguments(text, found.end())):
                named = _KEYWORD.match(argument)
                if -1 not in places and (index not in places if named is None else named.group(1) not in (None, *called.hands)):
                    continue
                words = set(WORD.findall(argument, named.end() if named else 0))
                if "self" in words or not words.isdisjoint(state) or argument.lstrip()[:1] == "*":
                    return True
        return not calls

    def _moves(self, info: ClassInfo, facts: FunctionFacts) -> bool:
        """Whether one of the attributes that a function calls `.to` or alike on may be a module."""
        for name in facts.moves:
            stored = [m.stores[name] for item in info.ancestry() for m in item.facts.methods.values() if name in m.stores]
            if not name or any(stored):
                return True
        return False

    def _methods(self, info: ClassInfo, name: str) -> tuple[_Reached, ...]:
        """A method of a class by its name, in every base (`super()`), with its setter."""
        key = (id(info), name)
        known = self._by_name.get(key)
        if known is None:
            found: list[_Reached] = []
            if info.method(name) is not None and name not in CONSTRUCTORS:
                for item in info.ancestry():
                    for each in (name, f"{name}.setter"):
                        facts = item.facts.methods.get(each)
                        if facts is not None:
                            found.append((item.file, facts, item, None))
            known = tuple(found)
            self._by_name[key] = known
        return known

    def _companions_of(self, info: ClassInfo) -> frozenset[ClassInfo]:
        """The classes that a class names anywhere: what its attributes may be, and their bases."""
        key = id(info)
        known = self._companions.get(key)
        if known is None:
            self._companions[key] = frozenset()
            found: set[ClassInfo] = set()
            for item in info.ancestry():
                if item.file.path not in self._inside:
                    continue
                for facts in item.facts.methods.values():
                    for symbol in self._symbols(item.file, facts):
                        made = [symbol]
                        if isinstance(symbol, FunctionName) and symbol.file.path in self._inside:
                            # A function may make what an attribute holds.
                            made = list(self._symbols(symbol.file, symbol.facts))
                        for each in made:
                            if isinstance(each, ClassInfo):
                                found.update(each.ancestry())
            known = frozenset(found)
            self._companions[key] = known
        return known

    def _known_in(self, file: SourceFile) -> frozenset[str]:
        """The names that a file defines or imports, those of classes inside others and inside functions among them."""
        known = self._names.get(file.path)
        if known is None:
            top = file.facts
            known = frozenset((*top.imports, *top.functions, *top.globals, *_plain(file)))
            self._names[file.path] = known
        return known

    def _members(self, module: SourceFile, names: frozenset[str]) -> Iterator[ClassInfo | FunctionName]:
        """The classes and functions of a module, and of modules below it, that go by `names`: `pkg.helpers.update(self)`."""
        modules = [module]
        seen = {module.path}
        while modules:
            current = modules.pop()
            package = os.path.basename(current.path) == "__init__.py"
            for name in names if package else names & self._known_in(current):
                symbol = self._project.member(current, name)
                if isinstance(symbol, (ClassInfo, FunctionName)):
                    yield symbol
                elif isinstance(symbol, SourceFile) and symbol.path not in seen:
                    seen.add(symbol.path)
                    modules.append(symbol)

    def _symbols(self, file: SourceFile, facts: FunctionFacts) -> tuple[ClassInfo | FunctionName | None, ...]:
        """The classes and functions that a function's text names; None stands for something memoised."""
        key = (file.path, facts.line)
        known = self._named.get(key)
        if known is None:
            found: list[ClassInfo | FunctionName | None] = []
            top = file.facts
            for name in facts.names if top.stars else facts.names & self._known_in(file):
                symbol = self._project.resolve(file, name)
                if isinstance(symbol, (ClassInfo, FunctionName)):
                    found.append(symbol)
                elif isinstance(symbol, SourceFile):
                    found += self._members(symbol, facts.names)
                elif isinstance(symbol, GlobalName) and symbol.name in symbol.file.facts.aliases:
                    words = symbol.file.facts.aliases[symbol.name]
                    found.extend(
                        each
                        for each in (self._project.resolve(symbol.file, word) for word in words)
                        if isinstance(each, (ClassInfo, FunctionName))
                    )
                    if not words.isdisjoint(_KEPT):
                        found.append(None)
            known = tuple(found)
            self._named[key] = known
        return known

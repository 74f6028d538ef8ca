"""Which entry points are worth a walk: those from whose text, by names alone, a function is reached that could write state.

Names over-approximate calls: whatever the walk could follow is named in the text it starts from.
"""

from __future__ import annotations

from modelguard.scan.facts import FunctionFacts
from modelguard.scan.project import ClassInfo, FunctionName, Method, Project, SourceFile

_HOOKS = frozenset(("register_forward_pre_hook", "register_forward_hook"))


class Candidates:
    """Answers, for one project, whether a region could hold a state write."""

    def __init__(self, project: Project, entry_points: frozenset[str]) -> None:
        self._project = project
        self._entry_points = entry_points
        self._named: dict[tuple[str, int], tuple[ClassInfo | FunctionName, ...]] = {}
        self._companions: dict[int, frozenset[ClassInfo]] = {}

    def may_write(self, info: ClassInfo, method: Method) -> bool:
        """Whether the region of `method` on `info` could write state."""
        companions: set[ClassInfo] = set()
        seen: set[tuple[str, int]] = set()
        work: list[tuple[SourceFile, FunctionFacts]] = [(method.owner.file, method.facts)]
        for item in info.ancestry():
            for name in item.facts.decorators:
                self._name(item.file, name, work, companions)
            for facts in item.facts.methods.values():
                if not _HOOKS.isdisjoint(facts.names) or ("defaultdict" in facts.names and facts.name == "__init__"):
                    return True
        added = self._companions_of(info)
        companions |= added
        while work:
            file, facts = work.pop()
            key = (file.path, facts.line)
            if key in seen:
                continue
            seen.add(key)
            if facts.may_write:
                return True
            for symbol in self._symbols(file, facts):
                if isinstance(symbol, FunctionName):
                    work.append((symbol.file, symbol.facts))
                elif symbol not in companions:
                    companions.add(symbol)
                    companions |= self._companions_of(symbol)
            for name in facts.names:
                found = info.method(name)
                if found is not None:
                    work.append((found.owner.file, found.facts))
                    work.extend(self._others(info, name))
            for companion in companions:
                for name, each in companion.facts.methods.items():
                    special = name.startswith("__") and not companion.is_module
                    if (special or each.name in facts.names) and not (companion.is_module and name in self._entry_points):
                        work.append((companion.file, each))
        return False

    def _others(self, info: ClassInfo, name: str) -> list[tuple[SourceFile, FunctionFacts]]:
        """The same method in bases (`super()`) and its setter."""
        found = []
        for item in info.ancestry():
            for key in (name, f"{name}.setter"):
                facts = item.facts.methods.get(key)
                if facts is not None:
                    found.append((item.file, facts))
        return found

    def _companions_of(self, info: ClassInfo) -> frozenset[ClassInfo]:
        """The classes that a class names anywhere: what its attributes may be, and their bases."""
        key = id(info)
        known = self._companions.get(key)
        if known is None:
            self._companions[key] = frozenset()
            found: set[ClassInfo] = set()
            for item in info.ancestry():
                for facts in item.facts.methods.values():
                    for symbol in self._symbols(item.file, facts):
                        if isinstance(symbol, ClassInfo):
                            found.update(symbol.ancestry())
            known = frozenset(found)
            self._companions[key] = known
        return known

    def _symbols(self, file: SourceFile, facts: FunctionFacts) -> tuple[ClassInfo | FunctionName, ...]:
        key = (file.path, facts.line)
        known = self._named.get(key)
        if known is None:
            found: list[ClassInfo | FunctionName] = []
            top = file.facts
            for name in facts.names:
                if name in top.imports or name in top.functions or name in top.classes or name in top.globals or top.stars:
                    symbol = self._project.resolve(file, name)
                    if isinstance(symbol, (ClassInfo, FunctionName)):
                        found.append(symbol)
            known = tuple(found)
            self._named[key] = known
        return known

    def _name(self, file: SourceFile, name: str, work: list[tuple[SourceFile, FunctionFacts]], companions: set[ClassInfo]) -> None:
        symbol = self._project.resolve(file, name)
        if isinstance(symbol, FunctionName):
            work.append((symbol.file, symbol.facts))
        elif isinstance(symbol, ClassInfo):
            companions.add(symbol)

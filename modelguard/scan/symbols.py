"""What names of a project mean: files, classes with their method order, methods, functions, globals."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from modelguard.errors import SourceError
from modelguard.scan.bindings import CONSTRUCTORS, FunctionNode
from modelguard.scan.facts import ClassFacts, FileFacts, FunctionFacts
from modelguard.scan.tables import nn_attribute


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

    def binding(self, name: str) -> list[FunctionFacts]:
        """The methods of this class itself that bind attribute `name`, or may bind attributes of any name."""
        found = self._stores().get(name)
        if found is None:
            return self._declaring
        return found + [facts for facts in self._declaring if facts not in found] if self._declaring else found

    def _stores(self) -> dict[str, list[FunctionFacts]]:
        """The methods of this class itself by the attributes that they bind."""
        if self._storing is None:
            self._storing = {}
            for facts in self.facts.methods.values():
                if facts.declares:
                    self._declaring.append(facts)
                for stored in facts.stores:
                    self._storing.setdefault(stored, []).append(facts)
        return self._storing

    def stores(self, name: str, inside: Container[str]) -> bool:
        """Whether a method, of this class or a base in the files `inside`, binds attribute `name` on its object."""
        for item in self.ancestry():
            if item.file.path not in inside:
                continue
            if name in item._stores():
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


def linearised(info: ClassInfo, bases: list[ClassInfo | ExternalClass]) -> list[ClassInfo | ExternalClass]:
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

"""The facts of a file: what it declares, and which of its functions could hold a state write. They over-approximate."""

from __future__ import annotations

from typing import NamedTuple


class FunctionFacts(NamedTuple):
    """A function or method: where its text lies, and what its text says.

    `line` is that of the first decorator. `names` are the attribute names in the text and the bare names that the file
    defines or imports; `own` are those among them that may be taken off the first parameter. `stores` are the attributes
    bound on the first parameter; `declares` marks text that can declare attributes under names that `stores` cannot tell
    (`register_buffer`, `setattr`). `may_write` says that something could be a state write.
    """

    name: str
    qualname: str
    line: int
    end_line: int
    decorators: tuple[str, ...]
    names: frozenset[str]
    own: frozenset[str]
    stores: frozenset[str]
    declares: bool
    may_write: bool


class ClassFacts(NamedTuple):
    """A class statement: its bases as dotted names (`?` for any other expression), its methods and what its body binds."""

    name: str
    qualname: str
    line: int
    bases: tuple[str, ...]
    decorators: tuple[str, ...]
    methods: dict[str, FunctionFacts]
    attributes: dict[str, tuple[int, int]]


class Import(NamedTuple):
    """What a local name was imported as: `from {level dots}{module} import {attribute}`, or a whole module."""

    module: str
    attribute: str | None
    level: int


class FileFacts(NamedTuple):
    """One file.

    `others` are imports that a later one of the same name hides, as in `try` and `except ImportError`; `modules` are those of
    `import a.b.c`, of which only the first part is a name.
    """

    path: str
    imports: dict[str, Import]
    others: dict[str, tuple[Import, ...]]
    stars: tuple[Import, ...]
    modules: tuple[str, ...]
    classes: dict[str, ClassFacts]
    functions: dict[str, FunctionFacts]
    globals: dict[str, tuple[int, int]]
    lines: int

"""The facts of a file: what it declares, and which of its functions could hold a state write. They over-approximate."""

from __future__ import annotations

import ast
from typing import NamedTuple

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
"""A function as it is parsed."""


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
    call, and `keeps` the attributes that it, or a method that may return state, takes off its object without calling them.
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

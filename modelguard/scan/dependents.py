"""Which other files of a project may reach what some files define: those that name it, or a class built on it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet

from modelguard.errors import SourceError
from modelguard.scan.bindings import CONSTRUCTORS
from modelguard.scan.dependencies import imports_in
from modelguard.scan.facts import FileFacts
from modelguard.scan.files import discover, is_notebook, read_source, read_text
from modelguard.settings import Settings

_ROUNDS = 6
"""Classes built on classes built on ... that are looked for."""

_HEADER = re.compile(rb"^[ \t]*class[ \t]+(\w+)[ \t]*\(([^)]*)\)", re.MULTILINE)


def offered(facts: FileFacts, entry_points: Collection[str]) -> tuple[str, ...]:
    """The classes and functions of a file that hold what may write state, and that others may call or build on."""
    found = {name for name, function in facts.functions.items() if function.may_write}
    for info in facts.classes.values():
        if any(method.may_write for key, method in info.methods.items() if key not in CONSTRUCTORS and key not in entry_points):
            found.add(info.name)
    return tuple(sorted(found))


def dependents(
    names: Collection[str],
    root: str,
    given: Sequence[str],
    for_path: Callable[[str], Settings],
    content: Callable[[str], bytes] = read_source,
) -> list[str]:
    """The files below `root`, but for those `given`, that import one of `names`, or a class that is built on one.

    By the names in texts alone, so that they are more rather than fewer. Returns absolute paths.
    """
    texts = {}
    for path in discover([root], for_path).files:
        try:
            texts[path] = read_text(path).encode("utf-8", "surrogatepass") if is_notebook(path) else content(path)
        except SourceError:
            # Nobody asked for this one.
            continue
    known: set[bytes] = {name.encode() for name in names}
    modules = {_module(path) for path in given}
    wanted = set(known)
    found: set[str] = set()
    for _ in range(_ROUNDS):
        pattern = re.compile(rb"\b(?:%s)\b" % b"|".join(map(re.escape, sorted(wanted))))
        renamed = re.compile(pattern.pattern + rb"\s+as\s+(\w+)")
        naming = [path for path, text in texts.items() if pattern.search(text) is not None and _imports(text, wanted, modules)]
        found.update(naming)
        modules.update(map(_module, naming))
        built = {name for path in naming for name, bases in _HEADER.findall(texts[path]) if pattern.search(bases)}
        wanted = built.union(*(renamed.findall(texts[path]) for path in naming)) - known
        if not wanted:
            break
        known |= wanted
    known_files = set(map(os.path.abspath, given))
    return [path for path in sorted(map(os.path.abspath, found)) if path not in known_files]


def _imports(text: bytes, names: Collection[bytes], modules: AbstractSet[str]) -> bool:
    """Whether a text imports one of `names` by itself, with one of `modules` that hold them, or with a star."""
    for wanted in imports_in(text.decode("utf-8", "replace")):
        if "*" in wanted.names or wanted.module.rpartition(".")[2] in modules or not modules.isdisjoint(wanted.names):
            return True
        if any(name.encode() in names for name in wanted.names):
            return True
    return False


def _module(path: str) -> str:
    """The last part of the name by which a file is imported."""
    folder, name = os.path.split(os.path.abspath(path))
    stem = os.path.splitext(name)[0]
    return os.path.basename(folder) if stem == "__init__" else stem

"""What the findings of a file depend on: every file that it imports, and that those import, known by one hash."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from modelguard.scan.facts import FileFacts
from modelguard.scan.modules import ModuleFiles

_DIGEST = 16
"""Bytes of a hash."""

_STATEMENT = re.compile(
    r"(?:^|[;:])[^\S\n]*(?:from[^\S\n]*([.\w]+)[^\S\n]*import\b[^\S\n]*(\([^)]*\)?|(?:[^\n#;\\]|\\\n)*)"
    r"|import[^\S\n]+((?:[^\n#;\\]|\\\n)*))",
    re.MULTILINE,
)
_NAME = re.compile(r"\*|[A-Za-z_][\w.]*")


class Wanted(NamedTuple):
    """A module that a file imports: `from {level dots}{module} import {names}`; without names, `import {module}`."""

    module: str
    level: int
    names: tuple[str, ...]


def digest(*parts: bytes) -> bytes:
    """The hash of `parts`, each told from the next."""
    from hashlib import blake2b

    state = blake2b(digest_size=_DIGEST)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


def imports_of(facts: FileFacts) -> tuple[Wanted, ...]:
    """The imports of a file whose facts are known."""
    named: dict[tuple[str, int], set[str]] = {}
    plain = set(facts.modules)
    for found in (*facts.imports.values(), *(each for many in facts.others.values() for each in many), *facts.stars):
        if found.attribute is None:
            plain.add(found.module)
        else:
            named.setdefault((found.module, found.level), set()).add(found.attribute)
    return (
        *(Wanted(module, 0, ()) for module in sorted(plain)),
        *(Wanted(module, level, tuple(sorted(names))) for (module, level), names in sorted(named.items())),
    )


def imports_in(text: str) -> tuple[Wanted, ...]:
    """The imports that a text seems to hold: more than it does, where one stands in a string."""
    found: list[Wanted] = []
    for module, names, plain in _STATEMENT.findall(text):
        if module:
            name = module.lstrip(".")
            words = tuple(word for word in _NAME.findall(names) if word != "as")
            found.append(Wanted(name, len(module) - len(name), words))
        else:
            found.extend(Wanted(word, 0, ()) for word in _NAME.findall(plain) if word != "as")
    return tuple(dict.fromkeys(found))


def imported_files(modules: ModuleFiles, path: str, wanted: Iterable[Wanted], below: Iterable[str] = ()) -> list[str]:
    """The absolute paths of the files that `wanted`, and the modules `below` a package, mean in the file at `path`."""
    files = {found for each in wanted for found in _files(modules, path, each)}
    files.update(_submodules(modules, os.path.dirname(os.path.abspath(path)), below))
    files.discard(os.path.abspath(path))
    return sorted(files)


def _files(modules: ModuleFiles, path: str, wanted: Wanted) -> Iterator[str]:
    found = modules.of(path, wanted.module, wanted.level)
    if found is not None:
        yield found
        if os.path.basename(found) == "__init__.py":
            yield from _submodules(modules, os.path.dirname(found), wanted.names)
    if not wanted.names:
        package = wanted.module.rpartition(".")[0]
        if package:
            yield from _files(modules, path, Wanted(package, 0, ()))


def _submodules(modules: ModuleFiles, folder: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        found = modules.below(folder, name)
        if found is not None:
            yield found


def closures(own: Mapping[str, bytes], imported: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
    """For each file the hash of all it depends on, itself included.

    `own` is each file's own hash, `imported` what it imports; what `own` lacks counts as not there. Files that import each other
    in a circle share a hash (Tarjan's strongly connected components, without recursion).
    """
    result: dict[str, bytes] = {}
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    for start in own:
        if start in order:
            continue
        work: list[tuple[str, Iterator[str]]] = []
        _enter(start, order, lowest, path, work, imported)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in own:
                    continue
                if target not in order:
                    _enter(target, order, lowest, path, work, imported)
                    break
                if target not in result:
                    lowest[node] = min(lowest[node], order[target])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] == order[node]:
                    _close(node, path, own, imported, result)
    return result


def _enter(
    node: str,
    order: dict[str, int],
    lowest: dict[str, int],
    path: list[str],
    work: list[tuple[str, Iterator[str]]],
    imported: Mapping[str, Sequence[str]],
) -> None:
    order[node] = lowest[node] = len(order)
    path.append(node)
    work.append((node, iter(imported.get(node, ()))))


def _close(
    node: str, path: list[str], own: Mapping[str, bytes], imported: Mapping[str, Sequence[str]], result: dict[str, bytes]
) -> None:
    """Hash a circle of files, of which `node` was met first, with what they import outside it."""
    members = path[path.index(node) :] if path[-1] != node else [node]
    del path[-len(members) :]
    inner = set(members)
    outer = {target for member in members for target in imported.get(member, ()) if target in own and target not in inner}
    parts = [part for member in sorted(members) for part in (member.encode("utf-8", "surrogateescape"), own[member])]
    whole = digest(*parts, b"", *sorted(result[target] for target in outer))
    for member in members:
        result[member] = whole

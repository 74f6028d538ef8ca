"""From a line of a file to the statement it belongs to, for the files of the observed packages."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Statement(NamedTuple):
    """The lines of one statement; of a compound one, the lines of its header."""

    first: int
    last: int


@dataclass
class Sources:
    """Files below the roots of the observed packages, named by `package/path.py`."""

    roots: Mapping[str, str]
    names: dict[str, str | None] = field(default_factory=dict)
    statements: dict[str, dict[int, Statement]] = field(default_factory=dict)

    def name_of(self, filename: str) -> str | None:
        """The name of a file of an observed package, None for any other file."""
        try:
            return self.names[filename]
        except KeyError:
            name = self.names[filename] = self._resolve(filename)
            return name

    def _resolve(self, filename: str) -> str | None:
        for package, root in self.roots.items():
            if filename.startswith(root + os.sep):
                return f"{package}/{os.path.relpath(filename, root).replace(os.sep, '/')}"
        return None

    def path_of(self, name: str) -> str:
        """Where the named file lies."""
        package, _, rest = name.partition("/")
        return os.path.join(self.roots[package], rest)

    def statement_at(self, name: str, line: int) -> Statement:
        """The statement that holds a line."""
        table = self.statements.get(name)
        if table is None:
            with open(self.path_of(name), "rb") as stream:
                table = self.statements[name] = statement_table(stream.read())
        return table.get(line, Statement(line, line))


def statement_table(source: bytes) -> dict[int, Statement]:
    """Every line's innermost statement; a compound statement owns its header, decorators included."""
    table: dict[int, Statement] = {}
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            _claim(table, node)
        pending.extend(reversed(list(ast.iter_child_nodes(node))))
    return table


def _claim(table: dict[int, Statement], node: ast.stmt | ast.excepthandler | ast.match_case) -> None:
    anchor = node.pattern if isinstance(node, ast.match_case) else node
    decorators = getattr(node, "decorator_list", [])
    first = min([anchor.lineno, *(decorator.lineno for decorator in decorators)])
    body = getattr(node, "body", None)
    if isinstance(node, ast.Match):
        last = node.subject.end_lineno or first
    elif isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        last = max(anchor.lineno, _first_line(body[0]) - 1)
    else:
        last = anchor.end_lineno or first
    statement = Statement(first, last)
    for line in range(first, last + 1):
        table[line] = statement


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(decorator.lineno for decorator in getattr(statement, "decorator_list", []))])

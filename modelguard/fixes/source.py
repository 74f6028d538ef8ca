"""A file's text as fixes see it: its syntax tree, what each node stands in, and where, in characters."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from modelguard.findings import Edit

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


@lru_cache(maxsize=1)
def read(text: str) -> Source | None:
    """The syntax of a text, or None where it is no Python. Findings come file by file, so the last one is kept."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Source(text, ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class Source:
    """One file."""

    def __init__(self, text: str, tree: ast.Module) -> None:
        self.tree = tree
        self.lines = text.split("\n")
        self.nodes: list[ast.AST] = [tree]
        """All nodes, each after the one it is a part of."""
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in self.nodes:
            for child in ast.iter_child_nodes(node):
                # Contexts and operators are one object in many places.
                if not isinstance(child, (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)):
                    self.parents[child] = node
                    self.nodes.append(child)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, from the inside out."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement that a node is a part of."""
        return next((each for each in (node, *self.around(node)) if isinstance(each, ast.stmt)), None)

    def function(self, node: ast.AST) -> FunctionNode | None:
        """The function that a node runs in."""
        return next((each for each in self.around(node) if isinstance(each, FUNCTIONS)), None)

    def method(self, node: ast.AST) -> tuple[ast.ClassDef, FunctionNode] | None:
        """The class whose method a node lies in, and that method; nested functions are a part of it."""
        inner: ast.AST = node
        for each in self.around(node):
            if isinstance(each, ast.ClassDef):
                return (each, inner) if isinstance(inner, FUNCTIONS) else None
            inner = each
        return None

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which one stands."""
        for _, value in ast.iter_fields(self.parents[statement]):
            if isinstance(value, list) and statement in value:
                return value
        return [statement]

    def at(self, line: int, column: int) -> ast.stmt | ast.Attribute | None:
        """The statement that begins there, or else the attribute that is bound there."""
        for node in self.nodes:
            if isinstance(node, ast.stmt) or (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
                if node.lineno == line and self.start(node) == (line, column):
                    return node
        return None

    def start(self, node: ast.AST) -> tuple[int, int]:
        """Line and column of a node's first character, from 1."""
        return self._place(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> tuple[int, int]:
        """Line and column behind a node's last character."""
        return self._place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        """The text of a node, its line ends as `\\n`."""
        (line, column), (end_line, end_column) = self.start(node), self.end(node)
        lines = [*self.lines[line - 1 : end_line - 1], self.lines[end_line - 1][: end_column - 1]]
        lines[0] = lines[0][column - 1 :]
        return "\n".join(lines)

    def replaced(self, node: ast.AST, content: str) -> Edit:
        """An edit that puts `content` in the place of a node."""
        return Edit(*self.start(node), *self.end(node), content)

    def indentation(self, statement: ast.stmt) -> str | None:
        """What stands before a statement on its line, or None where that is not only space."""
        line, column = self.start(statement)
        before = self.lines[line - 1][: column - 1]
        return None if before.strip() else before

    def _place(self, line: int, offset: int) -> tuple[int, int]:
        text = self.lines[line - 1]
        return line, (offset if text.isascii() else len(text.encode()[:offset].decode())) + 1


def dotted(node: ast.AST) -> str | None:
    """`self.rope.rows` for that expression, None for one that is no chain of names."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(names)])

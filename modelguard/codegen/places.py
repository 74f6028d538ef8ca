"""Where a node of a graph comes from: the model's module and the line of its source, as the tracer noted them."""

from __future__ import annotations

import re
from typing import NamedTuple

from torch.fx import Node

_FRAME = re.compile(r'^\s*File "(?P<path>[^\n]*)", line (?P<line>\d+), in (?P<function>[^\n]*)\n(?P<code>[^\n]*)', re.MULTILINE)
_LONGEST_LINE = 100


class SourcePlace(NamedTuple):
    """One line of a model's source."""

    path: str
    line: int
    function: str
    code: str
    """The line's text without indentation; empty if the tracer noted none."""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}, in {self.function}"
        return _one_line(f"{place}: {self.code}" if self.code else place)


def source_place(node: Node) -> SourcePlace | None:
    """The innermost line of the model's source that made `node`; None if its tracer records no stacks."""
    trace = node.meta.get("stack_trace")
    if not isinstance(trace, str):
        return None
    frames = list(_FRAME.finditer(trace))
    if not frames:
        return None
    path, line, function, code = frames[-1].group("path", "line", "function", "code")
    code = code.strip()
    shown = code if len(code) <= _LONGEST_LINE else f"{code[: _LONGEST_LINE - 3]}..."
    return SourcePlace(path, int(line), function, shown)


def module_place(node: Node) -> str | None:
    """The module that made `node`, as `path (class)`; None if its tracer records no modules."""
    stack = node.meta.get("nn_module_stack")
    if not isinstance(stack, dict) or not stack:
        return None
    entry = list(stack.values())[-1]
    if not isinstance(entry, tuple) or len(entry) != 2:
        return None
    path, kind = entry
    name = kind.__qualname__ if isinstance(kind, type) else str(kind).rpartition(".")[2]
    return _one_line(f"{path or 'the root module'} ({name})")


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)

"""What can go wrong when code is generated, bound, kept or loaded."""

from __future__ import annotations

from torch.fx import Node

from modelguard.codegen.places import module_place, source_place
from modelguard.errors import ModelguardError


class CodegenError(ModelguardError, RuntimeError):
    """A graph cannot be generated, or generated code cannot be bound.

    The message names the node, the module and the line of source that it came from, as far as they are known, and what to do.
    """

    def __init__(self, problem: str, node: Node | None = None, *, remedy: str = "", exact: bool = False) -> None:
        self.problem = problem
        self.node = node
        self.module_path = None if node is None else module_place(node)
        self.source = None if node is None else source_place(node)
        self.remedy = remedy
        super().__init__(problem if exact else self._message())

    def _message(self) -> str:
        parts = []
        if self.node is not None:
            parts.append(f"node `{self.node.name}`")
        if self.module_path is not None:
            parts.append(f"module {self.module_path}")
        if self.source is not None:
            parts.append(str(self.source))
        where = f" ({'; '.join(parts)})" if parts else ""
        remedy = f". {self.remedy[:1].upper()}{self.remedy[1:]}" if self.remedy else ""
        return f"{self.problem}{where}{remedy}"


class ArtifactError(ModelguardError):
    """A file of generated code cannot be written, or is not what it says it is and was not loaded."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


class SplitError(ModelguardError):
    """A graph cannot be cut as asked."""


class TraceError(ModelguardError):
    """A model cannot be traced into one graph."""

    several_lines = True

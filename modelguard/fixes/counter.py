"""A Python number that a step changes becomes a buffer of one integer, registered where it was set, and advanced in place.

Never safe: whoever reads the attribute gets a tensor where there was an `int`. Where Python needs the number itself, as an index
or to choose a branch, there is no fix: a tensor would have to be read back from the device, which ends a capture.
"""

from __future__ import annotations

import ast
import builtins

from modelguard.findings import Edit, Finding
from modelguard.fixes.plans import Plan
from modelguard.fixes.source import Source, dotted
from modelguard.fixes.uses import Uses, owner_of

_METHODS: dict[type[ast.operator], str] = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_"}
_WHOLE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
"""Operators that make whole numbers of whole numbers."""


def plan(source: Source, finding: Finding) -> Plan | None:
    """Count in a buffer what the finding says is counted in Python."""
    statement = source.at(finding.location.line, finding.location.column)
    if not isinstance(statement, (ast.Assign, ast.AugAssign)):
        return None
    target = statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]
    owner = owner_of(source, target)
    if not isinstance(target, ast.Attribute) or owner is None:
        return None
    uses = Uses(source, target.attr, owner)
    set_first = [bound for bound in uses.bound if _is_set_first(uses, bound)]
    changes = [(source.parents[bound], _method(source.parents[bound], bound)) for bound in uses.bound if bound not in set_first]
    torch = _torch(source)
    if len(set_first) != 1 or torch is None or uses.registered or any(method is None for _, method in changes):
        return None
    if any(_is_needed_in_python(source, read) for read in uses.read):
        return None
    first = set_first[0]
    name, imported = torch

    def edits() -> tuple[Edit, ...]:
        from modelguard.fixes.rewriting import in_place

        declaration = source.parents[first]
        assert isinstance(declaration, (ast.Assign, ast.AnnAssign)) and declaration.value is not None
        number = source.text(declaration.value)
        registration = f'{source.text(first.value)}.register_buffer("{first.attr}", {name}.tensor({number}), persistent=False)'
        return (
            *imported,
            source.replaced(declaration, registration),
            *(source.replaced(change, in_place(source.text(change), method)) for change, method in changes if method is not None),
        )

    return Plan(f"count `{dotted(target)}` in a buffer", "whoever reads it gets a tensor instead of an `int`", edits)


def _is_set_first(uses: Uses, bound: ast.Attribute) -> bool:
    """Whether an attribute is set to a whole number in `__init__`, after that of `nn.Module` has run."""
    statement = uses.source.parents[bound]
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or not uses.is_first(bound) or not _is_whole(statement.value):
        return False
    function = uses.source.parents[statement]
    if not isinstance(function, ast.FunctionDef) or (isinstance(statement, ast.Assign) and len(statement.targets) > 1):
        return False
    return any(
        isinstance(earlier, ast.Expr)
        and isinstance(earlier.value, ast.Call)
        and isinstance(earlier.value.func, ast.Attribute)
        and earlier.value.func.attr == "__init__"
        for earlier in function.body[: function.body.index(statement)]
    )


def _is_whole(value: ast.expr | None) -> bool:
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        value = value.operand
    return isinstance(value, ast.Constant) and type(value.value) is int


def _is_needed_in_python(source: Source, read: ast.AST) -> bool:
    """Whether a read, or what is computed from it on the spot, is put where only a number will do."""
    parent = source.parents[read]
    while isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare)):
        read, parent = parent, source.parents[parent]
    if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return parent.test is read
    if isinstance(parent, ast.Subscript):
        return parent.slice is read
    is_builtin = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and hasattr(builtins, parent.func.id)
    return is_builtin or isinstance(parent, (ast.Slice, ast.FormattedValue, ast.Dict, ast.keyword))


def _method(statement: ast.AST, bound: ast.Attribute) -> str | None:
    """The method of a tensor that does what a statement does to the number, where one does."""
    if isinstance(statement, ast.AugAssign):
        return _METHODS.get(type(statement.op)) if _stays_whole(statement.value) else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
        return None
    if _is_whole(statement.value):
        return "fill_"
    path = dotted(bound)
    advances = isinstance(statement.value, ast.BinOp) and any(dotted(node) == path for node in ast.walk(statement.value))
    return "copy_" if advances and _stays_whole(statement.value) else None


def _stays_whole(value: ast.expr) -> bool:
    """Whether nothing in a value says that it is no whole number."""
    return all(
        isinstance(node.op, _WHOLE) if isinstance(node, ast.BinOp) else not isinstance(getattr(node, "value", None), float)
        for node in ast.walk(value)
    )


def _torch(source: Source) -> tuple[str, tuple[Edit, ...]] | None:
    """What torch is called in the file, and what to put in where it is not imported yet."""
    before = None
    for statement in source.tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name == "torch" or (alias.name.startswith("torch.") and alias.asname is None):
                    return alias.asname or "torch", ()
        modules = [statement.module or ""] if isinstance(statement, ast.ImportFrom) and not statement.level else []
        modules += [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
        if before is None and any(module.split(".")[0] == "torch" for module in modules):
            before = statement
    is_taken = any(
        (isinstance(node, ast.Name) and node.id == "torch") or (isinstance(node, ast.alias) and node.asname == "torch")
        for node in source.nodes
    )
    if before is None or is_taken or source.indentation(before) is None:
        return None
    return "torch", (Edit(before.lineno, 1, before.lineno, 1, "import torch\n"),)

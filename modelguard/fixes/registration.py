"""`register_buffer` in a step moves to the end of `__init__`, where what it registers is made of nothing that a step has.

Never safe: the buffer is there from the start, in `state_dict()` too if it is persistent, and is made before the module is moved
or loaded.
"""

from __future__ import annotations

import ast
import builtins

from modelguard.findings import Edit, Finding
from modelguard.fixes.plans import Plan
from modelguard.fixes.source import Source, dotted
from modelguard.fixes.uses import Uses, is_registration, receiver


def plan(source: Source, finding: Finding) -> Plan | None:
    """Move the registration that the finding is about."""
    statement = source.at(finding.location.line, finding.location.column)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(statement, ast.Expr) or not isinstance(call, ast.Call) or not is_registration(call):
        return None
    method = source.method(call)
    name = call.args[0]
    if method is None or not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    owner, function = method
    first = next((each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    own = receiver(function)
    if (
        first is None
        or first is function
        or own is None
        or dotted(call.func) != f"{own}.register_buffer"
        or receiver(first) != own
    ):
        return None
    uses = Uses(source, name.value, owner)
    if uses.bound or len(uses.registered) > 1 or not _is_ready(source, call, owner, own):
        return None
    removed = _removed(source, statement, f"{own}.{name.value}")
    inserted = _inserted(source, first, source.text(statement))
    if removed is None or inserted is None:
        return None
    return Plan(
        f"register `{own}.{name.value}` in `__init__`",
        "it is made before the module is moved, cast or loaded, and is there from the start",
        lambda: (removed, inserted),
    )


def _is_ready(source: Source, call: ast.Call, owner: ast.ClassDef, own: str) -> bool:
    """Whether all that the call names is there when `__init__` ends: the file or Python defines it, or `__init__` sets it."""
    defined = set(dir(builtins))
    for node in source.nodes:
        name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else getattr(node, "name", None)
        if isinstance(node, ast.alias):
            name = (node.asname or node.name).split(".")[0]
        if name is not None and isinstance(source.parents[source.statement(node) or node], ast.Module):
            defined.add(name)
    for node in ast.walk(call):
        if isinstance(node, ast.Name) and node.id != own and node.id not in defined:
            return False
        if isinstance(node, ast.Attribute) and dotted(node.value) == own and node is not call.func:
            bound = Uses(source, node.attr, owner).bound
            if len(bound) != 1 or not _is_set_at_start(source, bound[0], owner):
                return False
        if isinstance(node, (ast.Lambda, ast.NamedExpr, ast.comprehension)):
            return False
    return all(dotted(node) != own or isinstance(source.parents[node], ast.Attribute) for node in ast.walk(call))


def _is_set_at_start(source: Source, bound: ast.Attribute, owner: ast.ClassDef) -> bool:
    """Whether `__init__` of the class itself binds the attribute, on every way through it."""
    function = source.parents.get(source.parents[bound])
    return isinstance(function, ast.FunctionDef) and function.name == "__init__" and source.parents[function] is owner


def _removed(source: Source, statement: ast.Expr, path: str) -> Edit | None:
    """An edit that takes out the statement, with the question whether it has been done, if it is asked."""
    gone: ast.stmt = statement
    around = source.parents[statement]
    if isinstance(around, ast.If) and _asks(around.test, path):
        if around.body != [statement] or around.orelse:
            return None
        gone = around
    block = source.block(gone)
    if len(block) == 1:
        return source.replaced(gone, "pass")
    (line, _), (end_line, end_column) = source.start(gone), source.end(gone)
    rest = source.lines[end_line - 1][end_column - 1 :].strip()
    if source.indentation(gone) is None or rest or "#" in source.text(gone):
        # Another statement, or a comment that would be lost.
        return None
    return Edit(line, 1, end_line + 1, 1, "") if end_line < len(source.lines) else None


def _asks(test: ast.expr, path: str) -> bool:
    """Whether a test is `not hasattr(self, name)`."""
    call = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else None
    if not isinstance(call, ast.Call) or dotted(call.func) != "hasattr" or len(call.args) != 2:
        return False
    owner, _, attribute = path.rpartition(".")
    name = call.args[1]
    return isinstance(name, ast.Constant) and name.value == attribute and dotted(call.args[0]) == owner


def _inserted(source: Source, first: ast.FunctionDef, text: str) -> Edit | None:
    """An edit that puts a statement at the end of `__init__`."""
    last = first.body[-1]
    indentation = source.indentation(last)
    if indentation is None or "\n" in text or any(isinstance(node, ast.Return) for node in ast.walk(first)):
        return None
    line, _ = source.end(last)
    if line == len(source.lines):
        return None
    return Edit(line + 1, 1, line + 1, 1, f"{indentation}{text}\n")

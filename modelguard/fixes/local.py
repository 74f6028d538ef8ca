"""A cast that is kept on the module becomes a local: `table = self.table.to(x.device)` in place of `self.table = ...`.

What the function reads of it below is read from the local. It is safe where nobody else reads the attribute, so that nobody sees
that it is still what it was, and where casting it anew in each call gives what casting it on and on has given: that holds for
devices and for a dtype that is always the same. A dtype that follows the input is another matter: after a call in half precision,
the attribute held rounded values, from which a later call in full precision went on.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from keyword import iskeyword

from modelguard.findings import Finding
from modelguard.fixes.plans import Plan
from modelguard.fixes.source import LOOPS, FunctionNode, Source, dotted
from modelguard.fixes.uses import Uses, escapes, owner_of
from modelguard.rules.reading import local_name

_TO_DTYPE = frozenset({"float", "double", "half", "bfloat16", "long", "int", "short", "bool"})
_TO_DEVICE = frozenset({"cpu", "cuda"})
_CASTS = _TO_DTYPE | _TO_DEVICE | {"to", "type", "type_as"}


def plan(source: Source, finding: Finding) -> Plan | None:
    """Keep in a local what the finding says is bound, if it is a cast of what was there."""
    found = source.at(finding.location.line, finding.location.column)
    pair = _binding(source, found)
    if pair is None:
        return None
    target, value = pair
    path, function, statement = dotted(target), source.function(target), source.statement(target)
    cast = _cast(value, path)
    if path is None or function is None or statement is None or cast is None or not _runs_once(source, statement, function):
        return None
    uses = Uses(source, target.attr, owner_of(source, target))
    here = [node for node in _within(source, function) if isinstance(node, ast.Attribute) and dotted(node) == path]
    later = [node for node in here if source.start(node) > source.end(statement)]
    if not later or any(_is_written(source, node) or _is_in_text(source, node) for node in later):
        return None
    if not _all_below(source, statement, later) or _is_replaced(source, function, path, statement):
        return None
    name = _free_name(source, function, path)
    risk = _risk(uses, cast, value, later, is_buffer=finding.code == "MG101")
    edits = tuple(source.replaced(node, name) for node in (target, *later))
    return Plan(f"keep the cast of `{path}` in a local", risk, lambda: edits)


def _binding(source: Source, found: ast.AST | None) -> tuple[ast.Attribute, ast.expr] | None:
    """The attribute that is bound at the place of a finding, and what it is bound to; also among several in a tuple."""
    statement = source.statement(found) if found is not None else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Attribute):
        return (target, value) if found is statement else None
    if not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)):
        return None
    place = source.start(target) if found is statement else None
    for element, its_value in zip(target.elts, value.elts, strict=True):
        if isinstance(element, ast.Attribute) and (element is found or source.start(element) == place):
            return element, its_value
    return None


def _cast(value: ast.expr, path: str | None) -> ast.Call | None:
    """The cast of `path` that a value is, or is unless it is None."""
    if isinstance(value, ast.IfExp) and isinstance(value.orelse, ast.Constant) and value.orelse.value is None:
        value = value.body
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _CASTS:
        return value if dotted(value.func.value) == path else None
    return None


def _runs_once(source: Source, statement: ast.stmt, function: FunctionNode) -> bool:
    """Whether the statement runs at most once in a call: not in a loop of its function."""
    for each in source.around(statement):
        if each is function:
            return True
        if isinstance(each, LOOPS):
            return False
    return False


def _within(source: Source, function: FunctionNode) -> Iterator[ast.AST]:
    return (node for node in source.nodes if any(each is function for each in source.around(node)))


def _is_written(source: Source, node: ast.Attribute) -> bool:
    """Whether an attribute is bound or written into: what is written into a local is lost."""
    parent = source.parents[node]
    if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
        return True
    is_in_place = isinstance(parent, ast.Attribute) and parent.attr.endswith("_") and not parent.attr.endswith("__")
    return not isinstance(node.ctx, ast.Load) or is_in_place


def _is_in_text(source: Source, node: ast.AST) -> bool:
    """Whether a node lies in an f-string: before Python 3.12, those have no places of their own."""
    return any(isinstance(each, ast.JoinedStr) for each in source.around(node))


def _all_below(source: Source, statement: ast.stmt, later: list[ast.Attribute]) -> bool:
    """Whether all that is read later is read only after the statement has run: further down in its own block."""
    block = source.block(statement)
    below = set(block[block.index(statement) + 1 :])
    return all(any(each in below for each in source.around(node)) for node in later)


def _is_replaced(source: Source, function: FunctionNode, path: str, statement: ast.stmt) -> bool:
    """Whether a part of the path means another object further down."""
    names = path.split(".")
    parts = {".".join(names[:length]) for length in range(1, len(names))}
    return any(
        isinstance(node, (ast.Name, ast.Attribute))
        and not isinstance(node.ctx, ast.Load)
        and dotted(node) in parts
        and source.start(node) > source.start(statement)
        for node in _within(source, function)
    )


def _free_name(source: Source, function: FunctionNode, path: str) -> str:
    """A name for a local that means nothing yet where the function is, and that no other attribute of it would get."""
    names = {node.id for node in source.nodes if isinstance(node, ast.Name)}
    paths = set()
    for node in _within(source, function):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Attribute):
            paths.add(dotted(node) or "")
    is_shared = any(other != path and local_name(other) == local_name(path) for other in paths)
    name = path.replace(".", "_") if is_shared else local_name(path)
    while name in names or hasattr(builtins, name) or iskeyword(name):
        name += "_"
    return name


def _risk(uses: Uses, cast: ast.Call, value: ast.expr, later: list[ast.Attribute], is_buffer: bool) -> str | None:
    """What keeps the fix from being safe."""
    source = uses.source
    within_value = set(ast.walk(value))
    others = [read for read in uses.read if read not in within_value and read not in later and not uses.is_first(read)]
    if others or uses.spelt or not uses.knows_bases():
        return "code elsewhere may read the attribute, and find it as it was before the cast"
    if any(escapes(source, read) for read in later):
        return "what is returned or handed on is no longer what the attribute holds"
    if not _is_settled(cast):
        return "a call in lower precision no longer rounds what later calls read"
    if not is_buffer and not _is_dtype_only(cast):
        return "each call copies it to the device anew, where a buffer would move with the module"
    return None


def _is_settled(cast: ast.Call) -> bool:
    """Whether the cast gives the same numbers in each call: one to a device, or always to the same dtype."""
    name = cast.func.attr if isinstance(cast.func, ast.Attribute) else ""
    if name in _TO_DTYPE | _TO_DEVICE:
        return True
    if name != "to" or any(keyword.arg not in ("device", "dtype", "non_blocking", "copy") for keyword in cast.keywords):
        return False
    targets = [*cast.args, *(keyword.value for keyword in cast.keywords if keyword.arg == "dtype")]
    devices = [keyword for keyword in cast.keywords if keyword.arg == "device"]
    return bool(targets or devices) and all(map(_is_device_or_dtype, targets))


def _is_dtype_only(cast: ast.Call) -> bool:
    """Whether a settled cast moves nothing to another device."""
    targets = [*cast.args, *(keyword.value for keyword in cast.keywords if keyword.arg in ("device", "dtype"))]
    name = cast.func.attr if isinstance(cast.func, ast.Attribute) else ""
    return name in _TO_DTYPE or (name == "to" and all(_is_dtype(target) for target in targets))


def _is_device_or_dtype(target: ast.expr) -> bool:
    is_device = isinstance(target, ast.Constant) or (isinstance(target, ast.Call) and dotted(target.func) == "torch.device")
    return is_device or (dotted(target) or "").endswith(".device") or _is_dtype(target)


def _is_dtype(target: ast.expr) -> bool:
    """Whether a target is a dtype that is always the same: `torch.float32`."""
    spelling = dotted(target) or ""
    return spelling.startswith("torch.") and spelling.count(".") == 1

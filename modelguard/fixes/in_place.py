"""A buffer that is bound to another tensor is written into: `self.mean = value` becomes `self.mean.copy_(value)`.

`copy_` differs from the assignment in ways that make the fix safe only where none of them can be seen:

- It keeps the shape and dtype of the buffer, and broadcasts and casts to them without a word.
- It changes the tensor that was there: whoever kept that tensor, or a view of it, sees it change.
- Autograd refuses to go back through a tensor that it kept and that was changed since, as when two steps come before one
  `backward()`.
- It needs a tensor there, and one that nobody else writes into.
"""

from __future__ import annotations

import ast

from modelguard.findings import Edit, Finding
from modelguard.fixes.plans import Plan
from modelguard.fixes.source import FunctionNode, Source, dotted
from modelguard.fixes.tensors import Agreement, made
from modelguard.fixes.uses import Uses, escapes, kept_for_backward, owner_of

_OTHER_SIZES = frozenset(
    {
        *("cat", "concat", "stack", "hstack", "vstack", "pad", "repeat", "repeat_interleave", "tile", "expand", "expand_as"),
        *("view", "reshape", "narrow", "unsqueeze", "squeeze", "flatten", "unflatten", "transpose", "permute", "t", "outer"),
        *("index_select", "masked_select", "nonzero", "unique", "split", "chunk", "unbind", "unfold", "sort", "topk"),
        *("to", "type", "type_as", "half", "float", "double", "bfloat16", "cuda", "cpu"),
    }
)
"""What gives a tensor of another shape, or a tuple; and casts, which `copy_` would undo."""


def plan(source: Source, finding: Finding) -> Plan | None:
    """Write into the buffer that the finding says is bound."""
    statement = source.at(finding.location.line, finding.location.column)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Attribute):
        return None
    path = dotted(target)
    uses = Uses(source, target.attr, owner_of(source, target))
    registered = _registered(uses)
    if path is None or registered is None or not _may_fit(source, statement, statement.value, path):
        return None
    return Plan(f"write into `{path}` in place", _risk(uses, path, registered, statement), lambda: (_edit(source, statement),))


def _edit(source: Source, statement: ast.stmt) -> Edit:
    from modelguard.fixes.rewriting import in_place

    return source.replaced(statement, in_place(source.text(statement), "copy_"))


def _registered(uses: Uses) -> ast.expr | None:
    """The tensor that the buffer is registered with, where it is registered once, in this file, and not as None."""
    tensors = [
        *(call.args[1] for call in uses.registered if len(call.args) > 1),
        *(keyword.value for call in uses.registered for keyword in call.keywords if keyword.arg == "tensor"),
        *(call.args[0] for bound in uses.bound if (call := _buffer(uses.source, bound)) is not None),
    ]
    if len(tensors) != 1 or (isinstance(tensors[0], ast.Constant) and tensors[0].value is None):
        return None
    return tensors[0]


def _buffer(source: Source, bound: ast.Attribute) -> ast.Call | None:
    """The `nn.Buffer(...)` that is bound."""
    statement = source.parents[bound]
    call = statement.value if isinstance(statement, ast.Assign) else None
    is_buffer = isinstance(call, ast.Call) and dotted(call.func) in ("nn.Buffer", "torch.nn.Buffer") and bool(call.args)
    return call if is_buffer and isinstance(call, ast.Call) else None


def _may_fit(source: Source, statement: ast.stmt, value: ast.expr, path: str) -> bool:
    """Whether the value may well have the buffer's size: arithmetic, or a function of torch that does not say otherwise."""
    if isinstance(value, ast.Name):
        origin = _origin(source, value, source.function(statement))
        return origin is not None and _may_fit(source, statement, origin, path)
    if isinstance(value, (ast.BinOp, ast.UnaryOp)):
        return True
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr in _OTHER_SIZES:
        return False
    receiver = dotted(value.func.value)
    # What a method of a module gives is anybody's guess.
    return receiver is None or receiver == path or receiver.split(".")[0] != path.split(".")[0]


def _origin(source: Source, name: ast.Name, function: FunctionNode | None) -> ast.expr | None:
    """What a local is bound to, where it is bound once, and to more than another name."""
    bound = [
        node for node in source.nodes if isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Store)
    ]
    here = [source.parents[node] for node in bound if source.function(node) is function]
    if len(here) != 1 or not isinstance(here[0], ast.Assign) or isinstance(here[0].value, ast.Name):
        return None
    return here[0].value


def _risk(uses: Uses, path: str, registered: ast.expr, statement: ast.Assign) -> str | None:
    """What keeps the fix from being safe."""
    source = uses.source
    tensor = made(registered)
    agreement = Agreement(source, path, tensor.numbers if tensor else None, owner_of(source, statement.targets[0]))
    if not agreement.agrees(statement.value):
        return "the value may have another shape or dtype, which `copy_` broadcasts and casts"
    if tensor is None:
        return "the buffer may share its memory with another tensor"
    if not uses.knows_bases() or uses.spelt:
        return "code that is not seen here may use the buffer"
    for bound in uses.bound:
        other = source.parents[bound]
        is_like = isinstance(other, ast.Assign) and len(other.targets) == 1 and agreement.agrees(other.value)
        if not is_like and _buffer(source, bound) is None:
            return "the buffer is bound in other places too"
    if any(escapes(source, read) for read in uses.read):
        return "whoever keeps the tensor that was there sees it change"
    if any(kept_for_backward(source, read, agreement.needs_no_gradient) for read in uses.read):
        return "autograd may have kept the tensor that was there for a backward pass"
    return None

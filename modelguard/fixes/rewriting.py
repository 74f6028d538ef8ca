"""Statements written anew by LibCST, which keeps what stands around and within what changes: spaces, line breaks and comments.

Only the statement that changes is parsed. The import costs more than most scans, so it waits until an edit is asked for.
"""

from __future__ import annotations

import libcst as cst


def in_place(statement: str, method: str) -> str:
    """`self.mean = value`, or `self.mean += value`, as a call of a method of the target: `self.mean.copy_(value)`."""
    line = cst.ensure_type(cst.parse_statement(statement), cst.SimpleStatementLine)
    assignment: cst.AugAssign | cst.Assign
    if isinstance(line.body[0], cst.AugAssign):
        assignment = line.body[0]
        target: cst.BaseExpression = assignment.target
    else:
        assignment = cst.ensure_type(line.body[0], cst.Assign)
        target = assignment.targets[0].target
    value = assignment.value
    before: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace("")
    after: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace("")
    if value.lpar and not isinstance(value, cst.GeneratorExp):
        # The brackets of the call take the place of those around the value, and what stands in them stays there.
        before, after = value.lpar[0].whitespace_after, value.rpar[-1].whitespace_before
        value = value.with_changes(lpar=value.lpar[1:], rpar=value.rpar[:-1])
    call = cst.Call(
        cst.Attribute(target, cst.Name(method)), [cst.Arg(value, whitespace_after_arg=after)], whitespace_before_args=before
    )
    return cst.Module([line.with_changes(body=[cst.Expr(call)])]).code.rstrip("\n")

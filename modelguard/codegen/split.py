"""Cuts a graph at named operators into pieces that run one after another, as piecewise compilation does."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.split_module import split_module

from modelguard.codegen.errors import SplitError
from modelguard.codegen.names import ROOTS

SplittingOp = str | Callable[..., Any]


def split_graph(gm: GraphModule, splitting_ops: Sequence[SplittingOp], *, tuple_return: bool = False) -> GraphModule:
    """Cut `gm` before and after each call of a splitting operator.

    Args:
        gm: the graph of a whole model; its nodes are left as they are.
        splitting_ops: functions, operators, methods and modules to cut at. Callables, or names: `aten::mm.default`,
            `torch.ops.aten.mm` (every overload), `torch.nn.functional.relu`, a bare `relu` (a function or method of that
            name), or the path of a submodule that the graph calls.
        tuple_return: let every piece return a tuple, also of one value, as Inductor's `compile_fx` wants it.

    Returns:
        A graph module that calls `submod_0`, `submod_1`, ... in the order of the original; each splitting call is a
        piece of its own. A graph without such calls becomes one piece.

    Raises:
        SplitError: something in `splitting_ops` is no operator, or torch cannot cut the graph there. A name that the graph
            does not call is no error: lists of splitting operators are written for many models.
    """
    wanted = [_Wanted(op) for op in splitting_ops]
    pieces = _pieces(gm, wanted)
    if not pieces:
        return gm
    try:
        split = split_module(gm, gm, pieces.__getitem__, keep_original_order=True, tuple_return=tuple_return)
    except (AssertionError, RuntimeError, KeyError) as error:
        raise SplitError(f"the graph cannot be cut at {', '.join(map(str, wanted))}: {error}") from error
    finally:
        for node in gm.graph.nodes:
            node.__dict__.pop("_fx_partition", None)
    # How structured arguments and results are taken apart and put together is the graph's, not its nodes'.
    split.graph.set_codegen(gm.graph._codegen)
    split.recompile()
    return split


def absent_ops(gm: GraphModule, splitting_ops: Sequence[SplittingOp]) -> list[str]:
    """Those of `splitting_ops` that `gm` does not call, and so are perhaps misspelt."""
    wanted = [_Wanted(op) for op in splitting_ops]
    return [str(op) for op in wanted if not any(op.fits(node) for node in gm.graph.nodes)]


class _Wanted:
    """One of `splitting_ops`, and how calls of it are told."""

    def __init__(self, op: SplittingOp) -> None:
        if isinstance(op, str):
            self._name: str | None = op.strip().removeprefix("torch.ops.").replace("::", ".")
            self._op = _named(op.strip())
        else:
            self._name, self._op = None, op
        if self._name == "" or not (isinstance(op, str) or callable(op)):
            raise SplitError(f"{op!r} is no operator; give its name, such as 'aten::mm.default', or the callable")
        self._shown = op

    def __str__(self) -> str:
        return str(self._shown)

    def fits(self, node: Node) -> bool:
        """Is `node` a call of it?"""
        target = node.target
        if node.op in ("call_method", "call_module"):
            return target == self._name
        if node.op != "call_function":
            return False
        if target is self._op or getattr(target, "__name__", None) == self._name:
            return True
        if not isinstance(target, torch._ops.OpOverload):
            return False
        packet = str(target.overloadpacket)
        return target.overloadpacket is self._op or self._name in (packet, f"{packet}.{target._overloadname}")


def _named(name: str) -> object:
    """The function that a dotted name means; a function can be known by several names."""
    root, *attributes = name.split(".")
    if root not in ROOTS or not attributes:
        return None
    found: object = ROOTS[root]
    for attribute in attributes:
        # Asking for an operator that nobody has registered is an error of its own in torch.
        found = getattr(found, attribute, None)
    return found


def _pieces(gm: GraphModule, wanted: Sequence[_Wanted]) -> dict[Node, int]:
    """The number of each node's piece, in order."""
    pieces: dict[Node, int] = {}
    current = 0
    split: Node | None = None
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        if any(op.fits(node) for op in wanted):
            current += 1 if pieces else 0
            split = node
        elif split is not None and not (node.target is operator.getitem and node.all_input_nodes == [split]):
            # What takes the call's results apart stays with it: pieces hand on tensors, not tuples.
            current += 1
            split = None
        pieces[node] = current
    return pieces

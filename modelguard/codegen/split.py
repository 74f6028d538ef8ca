"""Cuts a graph at named operators into pieces that run one after another, as piecewise compilation does."""

from __future__ import annotations

import difflib
import itertools
import operator
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module
from torch.fx.graph_module import _copy_attr
from torch.fx.node import map_aggregate
from torch.fx.passes.split_module import split_module
from torch.utils._pytree import tree_leaves

from modelguard.codegen.errors import SplitError
from modelguard.codegen.graphs import check_graph
from modelguard.codegen.names import ROOTS

SplittingOp = str | Callable[..., Any]

_PIECE = re.compile(r"submod_\d+")
_MOST_CALLED = 8
"""Called operators that a warning names."""


class UncutWarning(UserWarning):
    """A graph calls no such splitting operator."""


def split_graph(gm: GraphModule, splitting_ops: Sequence[SplittingOp], *, tuple_return: bool = False) -> GraphModule:
    """Cut `gm` before and after each call of a splitting operator.

    Args:
        gm: the graph of a whole model; its nodes are left as they are.
        splitting_ops: functions, operators, methods and modules to cut at. Callables, or names: `aten::mm.default`,
            `torch.ops.aten.mm` (every overload), `torch.nn.functional.relu`, a bare `relu` (a function, method or operator
            of that name, whatever its namespace), or the path of a submodule that the graph calls.
        tuple_return: let every piece return a tuple, also of one value, as Inductor's `compile_fx` wants it.

    Returns:
        A graph module that calls `submod_0`, `submod_1`, ... in the order of the original; each splitting call is a
        piece of its own. A graph without such calls becomes one piece.

    Raises:
        SplitError: something in `splitting_ops` is no operator, or torch cannot cut the graph there.

    Warns:
        UncutWarning: the graph calls none of `splitting_ops`, or not one that looks like a slip for what it does call. Others
            that it does not call are ignored: lists of splitting operators are written for many models.
    """
    if isinstance(splitting_ops, str):
        raise SplitError(f"{splitting_ops!r} is one name; give a list of operators")
    wanted = [_Wanted(op) for op in splitting_ops]
    check_graph(gm)
    copied = _copied(gm)
    pieces = _pieces(copied, wanted)
    _warn_of_slips(copied, wanted)
    if not pieces:
        return gm
    _rename_modules(copied)
    try:
        # Pieces are seldom called as graph modules, and `fx` cannot write the `forward` of all that can be generated.
        with _use_lazy_graph_module(True):
            split = split_module(
                copied,
                copied,
                pieces.__getitem__,
                keep_original_order=True,
                # New names are made of the functions' names, which not every callable has.
                keep_original_node_name=True,
                tuple_return=tuple_return,
            )
    except (AssertionError, RuntimeError, KeyError) as error:
        raise SplitError(f"the graph cannot be cut at {', '.join(map(str, wanted))}: {error}") from error
    _return_attributes(split, copied)
    # How structured arguments and results are taken apart and put together is the graph's, not its nodes'.
    split.graph.set_codegen(gm.graph._codegen)
    split.recompile()
    return split


def absent_ops(gm: GraphModule, splitting_ops: Sequence[SplittingOp]) -> list[str]:
    """Those of `splitting_ops` that `gm` does not call, and so are perhaps misspelt."""
    return [str(op) for op in _absent(gm, [_Wanted(op) for op in splitting_ops])]


def _absent(gm: GraphModule, wanted: Sequence[_Wanted]) -> list[_Wanted]:
    return [op for op in wanted if not any(op.fits(node) for node in gm.graph.nodes)]


def _warn_of_slips(gm: GraphModule, wanted: Sequence[_Wanted]) -> None:
    absent = _absent(gm, wanted)
    # Lists hold several spellings of one operator: what one of them cuts is not missed by another.
    cut = {_last(str(op)) for op in wanted if op not in absent}
    called = list(dict.fromkeys(name for node in gm.graph.nodes if (name := _called_name(node)) is not None))
    for op in absent:
        if _last(str(op)) in cut:
            continue
        near = op.near(called)
        if near:
            told = f"did you mean {' or '.join(near)}?"
        elif called and len(absent) == len(wanted):
            told = f"it calls {', '.join(called[:_MOST_CALLED])}{', ...' if len(called) > _MOST_CALLED else ''}"
        else:
            continue
        warnings.warn(f"the graph calls no {op}, so nothing is cut there; {told}", UncutWarning, stacklevel=3)


def _called_name(node: Node) -> str | None:
    """A name by which a splitting operator can mean what `node` calls."""
    if node.op in ("call_method", "call_module"):
        return str(node.target)
    if node.op != "call_function" or node.target is operator.getitem:
        return None
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target.overloadpacket).replace(".", "::", 1)
    return getattr(node.target, "__name__", None)


class _Attribute(str):
    """Stands for a parameter that a graph returns as it is: `split_module` knows only those that pieces use."""


def _copied(gm: GraphModule) -> GraphModule:
    """A copy of `gm` to be cut, since cutting leaves marks, with names for the parameters that it returns."""
    graph = Graph()
    result = graph.graph_copy(gm.graph, {})
    names = _other_names(gm)
    for node in graph.nodes:
        if node.op in ("get_attr", "call_module"):
            node.target = names.get(node.target, node.target)
    graph.output(
        map_aggregate(
            result, lambda value: _Attribute(value.target) if isinstance(value, Node) and value.op == "get_attr" else value
        )
    )
    held = {str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module")}
    held |= {str(value) for value in tree_leaves(graph.output_node().args) if type(value) is _Attribute}
    paths = {name: path for path, name in names.items()}
    return _LazyGraphModule({name: operator.attrgetter(paths.get(name, name))(gm) for name in held}, graph)


def _other_names(gm: GraphModule) -> dict[str, str]:
    """New names for what a graph reads under the name of a piece, such as a layer called `submod_0`."""
    paths = dict.fromkeys(str(node.target) for node in gm.graph.nodes if node.op in ("get_attr", "call_module"))
    taken = {path.partition(".")[0] for path in paths}
    found: dict[str, str] = {}
    for path in paths:
        if _PIECE.fullmatch(path.partition(".")[0]):
            flat = f"model_{path.replace('.', '_')}"
            found[path] = next(name for name in (flat, *(f"{flat}_{count}" for count in itertools.count(1))) if name not in taken)
            taken.add(found[path])
    return found


def _rename_modules(copied: GraphModule) -> None:
    """Pieces hold modules under their paths with underscores, where `a.b` and `a_b` would be one."""
    taken: dict[str, str] = {}
    calls = copied.graph.find_nodes(op="call_module")
    # A new name may be another's old one.
    modules = {node.target: copied.get_submodule(node.target) for node in calls}
    for node in calls:
        path = node.target
        flat = path.replace(".", "_")
        for count in itertools.count(1):
            if taken.setdefault(flat, path) == path:
                break
            flat = f"{path.replace('.', '_')}_{count}"
        if flat != path.replace(".", "_"):
            copied.add_module(flat, modules[path])
            node.target = flat


def _return_attributes(split: GraphModule, copied: GraphModule) -> None:
    """Put the parameters that a graph returns where `_copied` left a name."""
    (output,) = split.graph.find_nodes(op="output")

    def attribute(value: Any) -> Any:
        if type(value) is not _Attribute:
            return value
        _copy_attr(copied, split, value)
        return split.graph.get_attr(value)

    with split.graph.inserting_before(output):
        output.args = map_aggregate(output.args, attribute)


class _Wanted:
    """One of `splitting_ops`, and how calls of it are told."""

    def __init__(self, op: SplittingOp) -> None:
        if isinstance(op, str):
            self._name: str | None = op.strip().removeprefix("torch.ops.").replace("::", ".")
            self._op = _named(op.strip())
        else:
            self._name, self._op = None, op
        if isinstance(op, str) and "," in op:
            raise SplitError(f"{op!r} is more than one name; give each operator on its own")
        if self._name == "" or not (isinstance(op, str) or callable(op)):
            raise SplitError(f"{op!r} is no operator; give its name, such as 'aten::mm.default', or the callable")
        self._shown = op

    def __str__(self) -> str:
        return str(self._shown)

    def near(self, called: Sequence[str]) -> list[str]:
        """Those of the names of called operators that it may have been meant for."""
        last = _last(str(self))
        return [name for name in called if _last(name) == last] or difflib.get_close_matches(last, called, 2, 0.75)

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
        names = (packet, f"{packet}.{target._overloadname}", packet.rpartition(".")[2])
        return target.overloadpacket is self._op or self._name in names


def _last(name: str) -> str:
    return name.replace("::", ".").removesuffix(".default").rpartition(".")[2]


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

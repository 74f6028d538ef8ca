"""What code generation makes of a graph: refused or not, right or not, and what a call costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node

from modelguard.codegen import CodegenError, Generated, SplitError, absent_ops, generate, generate_execution_code_with_name
from modelguard.codegen.places import module_place, source_place
from modelguard.readiness.inspect import is_call
from modelguard.readiness.trace import called_name
from modelguard.runtime import state
from modelguard.runtime.copying import deep_copied
from modelguard.runtime.side_effects import Frame

_REPEATS = 5
_SECONDS = 0.02
"""How long each measurement of a call takes, at least."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A node that strict generation refuses."""

    operation: str
    """`call_module`, `call_method`, `get_attr`, or another kind of node."""
    target: str
    module: str | None
    frame: Frame | None


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a split graph."""

    name: str
    ops: int
    splits: bool
    """Is it a splitting operator's own?"""
    calls: tuple[str, ...]
    """What it calls, each once."""
    refused: str | None
    """Why strict generation refuses it."""


@dataclass(slots=True)
class Checked:
    """What came of one graph."""

    ops: int
    inputs: int
    pieces: list[Piece] = field(default_factory=list)
    leftovers: list[Leftover] = field(default_factory=list)
    refused: str | None = None
    """Why full generation refuses it, which is an obstacle."""
    code: str = ""
    max_abs_error: float | None = None
    """How far what the generated function returns is from what the graph returns; 0 where they are the same."""
    seconds: tuple[float, float] | None = None
    """What a call costs: of the generated function, and of `GraphModule.forward`."""


class Checking:
    """Checks graphs as they are traced, and runs what was generated in their place."""

    def __init__(self, splitting_ops: Sequence[str]) -> None:
        """
        Raises:
            SplitError: one of them is no operator's name.
        """
        absent_ops(GraphModule(nn.Module(), Graph()), splitting_ops)
        self.found: list[Checked] = []
        self._splitting_ops = splitting_ops

    def __call__(self, graph: GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """Check a graph; what it returns is to be called for it."""
        checked = Checked(sum(map(is_call, graph.graph.nodes)), len(inputs))
        self.found.append(checked)
        checked.leftovers = leftovers(graph)
        try:
            generated = generate(graph, self._splitting_ops)
        except (CodegenError, SplitError) as error:
            checked.refused = str(error)
            return graph.forward
        checked.code = generated.code
        checked.pieces = _pieces(generated, self._splitting_ops)

        def first(*arguments: Any) -> Any:
            # The inputs are real here, and fake when a graph is handed over.
            _compare(checked, graph, generated, arguments)
            return generated.fn(*arguments)

        return first


def leftovers(graph: GraphModule) -> list[Leftover]:
    """The nodes of a graph that strict generation refuses."""
    found = []
    for node in graph.graph.nodes:
        if node.op in ("call_module", "call_method", "get_attr"):
            place = source_place(node)
            frame = None if place is None else Frame(place.path, place.line, place.function)
            found.append(Leftover(node.op, called_name(node), module_place(node), frame))
    return found


def _pieces(generated: Generated, splitting_ops: Sequence[str]) -> list[Piece]:
    split = generated.split_gm
    if not splitting_ops:
        return [_piece("", split, ())]
    return [
        _piece(str(node.target), split.get_submodule(str(node.target)), splitting_ops)
        for node in split.graph.nodes
        if node.op == "call_module"
    ]


def _piece(name: str, piece: nn.Module, splitting_ops: Sequence[str]) -> Piece:
    nodes: list[Node] = [node for node in piece.graph.nodes if is_call(node)] if isinstance(piece, GraphModule) else []
    refused = None
    if isinstance(piece, GraphModule):
        try:
            generate_execution_code_with_name(piece, "execution_fn", False)
        except (CodegenError, RuntimeError) as error:
            refused = str(error)
    splits = isinstance(piece, GraphModule) and len(absent_ops(piece, splitting_ops)) < len(splitting_ops)
    return Piece(name, len(nodes), splits, tuple(dict.fromkeys(map(called_name, nodes))), refused)


def _compare(checked: Checked, graph: GraphModule, generated: Generated, arguments: tuple[Any, ...]) -> None:
    """Run both on inputs of their own, which the graph may write to, from equal random numbers."""
    if checked.seconds is not None:
        return
    mine, its = deep_copied((arguments, arguments))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = state.table_of("output", graph(*its))
        torch.manual_seed(0)
        returned = state.table_of("output", generated.fn(*mine))
    checked.max_abs_error = _largest(expected, returned)
    checked.seconds = (_cost(generated.fn, mine), _cost(graph.forward, its))


def difference(expected: Any, returned: Any) -> float:
    """How far two results of a model are apart; infinite where their structure, sizes or types differ."""
    return _largest(state.table_of("", expected), state.table_of("", returned))


def _largest(expected: Mapping[str, Any], returned: Mapping[str, Any]) -> float:
    return max((_error(expected.get(path), returned.get(path)) for path in {*expected, *returned}), default=0.0)


def _error(expected: Any, returned: Any) -> float:
    if not isinstance(expected, torch.Tensor) or not isinstance(returned, torch.Tensor):
        return 0.0 if type(expected) is type(returned) and expected == returned else float("inf")
    if expected.shape != returned.shape or expected.dtype != returned.dtype:
        return float("inf")
    if torch.equal(expected, returned) or not expected.numel():
        return 0.0
    error = (expected.double() - returned.double()).abs().nan_to_num(0.0).max()
    return float(error)


def _cost(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Seconds for a call, the least of some measurements: others share the machine."""
    once = max(_timed(function, arguments, 1), 1e-7)
    count = max(1, min(1000, int(_SECONDS / once)))
    return min(_timed(function, arguments, count) / count for _ in range(_REPEATS))


def _timed(function: Callable[..., Any], arguments: tuple[Any, ...], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        function(*arguments)
    return time.perf_counter() - start

"""What a generated function costs beside calls written by hand, the reference's way of binding, and `GraphModule.forward`.

python benchmarks/codegen_overhead.py          # a minute; all four are measured in turn, in one process
python benchmarks/codegen_overhead.py --json   # for programs
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from modelguard.codegen import compile_execution_fn, generate_execution_code

PIECES = (8, 64, 512)
GENERATED_NODES = (2_500, 5_000, 10_000, 20_000)

Function = Callable[[torch.Tensor], torch.Tensor]


class Nothing(torch.nn.Module):
    """A piece as serving engines put it in: an object that is called, here without any work to do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input."""
        return x


def nothing(x: torch.Tensor) -> torch.Tensor:
    """What stands in for a compiled piece: its call is all there is."""
    return x


def do_nothing_graph() -> GraphModule:
    """A piece as splitting leaves it: a graph, here without any work to do."""
    graph = Graph()
    graph.output(graph.placeholder("x"))
    return GraphModule(torch.nn.Module(), graph)


def stitching_graph(pieces: int, piece: Callable[[], torch.nn.Module]) -> GraphModule:
    """A graph that calls so many pieces, one after another."""
    root = torch.nn.Module()
    graph = Graph()
    value = graph.placeholder("x")
    for number in range(pieces):
        root.add_module(f"submod_{number}", piece())
        value = graph.call_module(f"submod_{number}", (value,))
    graph.output(value)
    return GraphModule(root, graph)


def by_hand(pieces: int, callables: list[Function]) -> Function:
    """The same calls, as somebody writes them who gives each callable a local name and frees what is used no more."""
    names = [f"piece_{number}" for number in range(pieces)]
    lines = ["def make(", f"    {', '.join(names)}", "):", "    def run(x):"]
    value = "x"
    for number, name in enumerate(names):
        lines += [f"        y_{number} = {name}({value})", f"        del {value}"]
        value = f"y_{number}"
    lines += [f"        return {value}", "    return run"]
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    run: Function = namespace["make"](*callables)
    return run


def as_the_reference_binds(code: str, names: list[str], consts: list[Any], callables: dict[str, Function]) -> Function:
    """The source run as it stands, submodules handed over in a list at each call."""
    namespace: dict[str, Any] = {"__vllm_consts__": consts}
    exec(code, namespace)
    return functools.partial(namespace["execution_fn"], __vllm_submods__=[callables.get(name) for name in names])


def seconds(functions: dict[str, Function], calls: int, rounds: int) -> dict[str, float]:
    """The least seconds a call takes, of rounds in which all take turns: what disturbs one round disturbs all of them."""
    x = torch.ones(1)
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            repeats = calls if name != "GraphModule.forward" else max(1, calls // 30)
            start = time.perf_counter()
            for _ in range(repeats):
                function(x)
            best[name] = min(best[name], (time.perf_counter() - start) / repeats)
    return best


def overhead(pieces: int, rounds: int) -> dict[str, float]:
    """Seconds a call, by way of calling, for graphs of so many pieces."""
    leaves = stitching_graph(pieces, Nothing)
    code, names, consts = generate_execution_code(leaves)
    callables = dict.fromkeys(names, nothing)
    graphs = stitching_graph(pieces, do_nothing_graph)
    inlined = generate_execution_code(graphs)
    functions = {
        "by hand": by_hand(pieces, [nothing] * pieces),
        "generated": compile_execution_fn(code, callables, names, consts),
        "generated, graphs inlined": compile_execution_fn(inlined[0], {}, inlined[1], inlined[2]),
        "reference's binding": as_the_reference_binds(code, names, consts, callables),
        "GraphModule.forward": graphs.forward,
    }
    return seconds(functions, max(20, 20_000 // pieces), rounds)


def generation(nodes: int) -> float:
    """Seconds to generate and bind the code of a graph of so many nodes."""
    graph = Graph()
    value = graph.placeholder("x")
    for _ in range(nodes):
        value = graph.call_function(torch.add, (value, 1))
    graph.output(value)
    module = GraphModule(torch.nn.Module(), graph)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        compile_execution_fn(*_in_order(*generate_execution_code(module)))
        best = min(best, time.perf_counter() - start)
    return best


def _in_order(code: str, names: list[str], consts: list[Any]) -> tuple[str, dict[str, Function], list[str], list[Any]]:
    return code, {}, names, consts


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures for programs")
    parser.add_argument("--rounds", type=int, default=200, help="how often each is measured (default: 200)")
    options = parser.parse_args()
    calls = {pieces: overhead(pieces, options.rounds) for pieces in PIECES}
    made = {nodes: generation(nodes) for nodes in GENERATED_NODES}
    if options.json:
        print(json.dumps({"seconds_per_call": calls, "seconds_to_generate": made}, indent=2))
        return 0
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}; pieces do nothing; cost of a call, as a ratio to by hand")
    ways = list(calls[PIECES[0]])
    print(f"{'pieces':>6}  {'us by hand':>10}  " + "  ".join(f"{way:>26}" for way in ways[1:]))
    for pieces, cost in calls.items():
        base = cost["by hand"]
        ratios = "  ".join(f"{cost[way] / base:>26.3f}" for way in ways[1:])
        print(f"{pieces:>6}  {base * 1e6:>10.2f}  {ratios}")
    print("\nGraphModule.forward as a ratio to the generated function, graphs inlined:")
    for pieces, cost in calls.items():
        print(f"{pieces:>6}  {cost['GraphModule.forward'] / cost['generated, graphs inlined']:>10.1f}")
    print("\nto generate and bind, us a node:")
    for nodes, taken in made.items():
        print(f"{nodes:>6}  {taken / nodes * 1e6:>10.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

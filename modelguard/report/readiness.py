"""What tracing a target showed, for people: the verdict, the tree of modules, what is in the way, and what became of the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any

from modelguard.findings import ScanReport
from modelguard.report import text
from modelguard.report.branches import QUIET, SHAPES, Branch, branches
from modelguard.report.frame import printable

_STYLES = {
    "graph-break": "bold red",
    "disabled": "bold red",
    "scripted": "bold red",
    "recurrent": "bold red",
    "left-to-python": "red",
    "host-sync": "bold red",
    "call-module": "yellow",
    "split": "yellow",
    "higher-order": "cyan",
    "inlined": "green",
    "never-reached": "dim",
}
"""How the statuses of modules are shown."""

_WIDTH = 120


def render(
    target: str, report: ScanReport, is_ready: bool, record: Mapping[str, Any], *, show_all: bool = False, color: bool = False
) -> str:
    """The whole page. `show_all` shows modules that nothing is wrong with, and notes."""
    lines = [
        *_verdict(target, is_ready, record),
        "",
        *_tree(record, show_all, color),
        "",
    ]
    findings = text.render(report, show_notes=show_all, summary=False, color=color)
    behind = [*_notes(report, show_all), *_recompiles(record), *_code(record)]
    return "".join(f"{line}\n" for line in lines) + findings + "".join(f"{line}\n" for line in behind)


def _verdict(target: str, is_ready: bool, record: Mapping[str, Any]) -> Iterator[str]:
    count = len(record["obstacles"])
    what = "ready" if is_ready else "not ready"
    told = f", {text.plural(count, 'obstacle')}" if count else ""
    graphs = text.plural(record["runs"][0]["graphs"], "graph")
    yield printable(f"{target}: {what}: {graphs}{told} ({record['tracer']}, torch {record['torch']})")
    if record["guessed_inputs"]:
        yield printable(f"  inputs were guessed: {', '.join(record['guessed_inputs'])}")
    for run in record["runs"]:
        kind = SHAPES[run["shapes"]]
        if run["stopped"] is not None:
            yield f"  {kind}: {run['stopped']}"
        elif run["one_graph"]:
            error = run["max_abs_error"]
            same = "" if error is None else ", the same as eager" if error == 0 else f", {error:.2g} from eager"
            yield f"  {kind}: one graph of {text.plural(run['ops_of_largest'], 'call')}{same}"
        else:
            yield (
                f"  {kind}: {text.plural(run['graphs'], 'graph')}; the largest holds {run['share_of_ops']:.0%} of the calls "
                f"and {run['share_of_modules']:.0%} of the modules"
            )


def _tree(record: Mapping[str, Any], show_all: bool, color: bool) -> list[str]:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    def label(branch: Branch, folded: str = "") -> Text:
        names = branch.listed
        status = branch.record["status"]
        shown = Text(printable(f"{names} ({branch.record['class']})" if names else branch.record["class"]))
        shown.append(f"  {status}", style=_STYLES[status])
        if folded:
            shown.append(f"  {folded}", style="dim")
        elif branch.record["reason"] and status not in QUIET:
            shown.append(printable(f"  {branch.record['reason']}"), style="dim")
        return shown

    def grow(tree: Tree, branch: Branch) -> None:
        quiet = [child for child in branch.children if not show_all and child.is_quiet]
        for child in sorted(branch.children, key=lambda child: child.rank):
            if child in quiet:
                continue
            grow(tree.add(label(child)), child)
        if quiet:
            count, ops = sum(each.count * len(each.names) for each in quiet), sum(each.ops * len(each.names) for each in quiet)
            tree.add(Text(f"{text.plural(count, 'module')} with nothing in the way, {text.plural(ops, 'call')}", style="dim"))

    root = branches(record["modules"])
    tree = Tree(label(root), guide_style="dim")
    grow(tree, root)
    stream = StringIO()
    console = Console(
        file=stream,
        width=_WIDTH,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
    )
    console.print(tree, no_wrap=True, overflow="ellipsis", highlight=False, markup=False)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def _notes(report: ScanReport, show_all: bool) -> Iterator[str]:
    hidden = sum(finding.severity.value == "note" for finding in report.findings)
    if hidden and not show_all:
        them = "it" if hidden == 1 else "them"
        yield f"{text.plural(hidden, 'note')} on what strict code generation refuses; --show-all shows {them}"


def _recompiles(record: Mapping[str, Any]) -> Iterator[str]:
    for each in record["recompiles"]:
        yield printable(f"compiled again for another call: {each['function']} at {each['path']}:{each['line']}")
        for reason in each["reasons"]:
            yield printable(f"  {reason}")


def _code(record: Mapping[str, Any]) -> Iterator[str]:
    for graph in record["graphs"]:
        name = f"graph {graph['number']}" if len(record["graphs"]) > 1 else "generated code"
        if graph["refused"] is not None:
            yield printable(f"{name}: no code can be generated: {graph['refused']}")
            continue
        pieces = [piece for piece in graph["pieces"] if piece["name"]]
        parts = (
            f" in {text.plural(len(pieces), 'piece')}, {sum(piece['splits'] for piece in pieces)} of them splitting"
            if pieces
            else ""
        )
        yield f"{name}: {text.plural(graph['ops'], 'call')}{parts}{_cost(graph)}"
        refused = [piece for piece in graph["pieces"] if piece["refused"] is not None]
        if refused:
            strict = f"{len(refused)} of {text.plural(len(graph['pieces']), 'piece')}"
            yield printable(f"  strict generation refuses {strict}: {refused[0]['refused']}")


def _cost(graph: Mapping[str, Any]) -> str:
    if graph["generated_us"] is None:
        return "; it did not run"
    error = graph["max_abs_error"]
    right = "another result than its graph" if error is None else "right" if error == 0 else f"off by {error:.2g}"
    return f"; {right}, {graph['generated_us']:.1f} us a call, {graph['graph_module_us']:.1f} as a GraphModule"

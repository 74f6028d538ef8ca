"""The tree of a model's modules on a page: what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from modelguard.report import text
from modelguard.report.branches import QUIET, STATUSES, Branch, branches
from modelguard.report.html.markup import Content, Markup, element, group, sentence, void
from modelguard.report.html.page import Section

_BAD = frozenset(("graph-break", "disabled", "scripted", "recurrent", "left-to-python", "host-sync"))


def tree(modules: Sequence[Mapping[str, Any]], reasons: Mapping[str, Markup]) -> Section:
    """The section of modules. `reasons` has links to findings by the paths of the modules that they are about."""
    counts = Counter(each["status"] for each in modules)
    legend = [element("li", _status(status), f" {counts[status]}") for status in STATUSES if counts[status]]
    columns = element(
        "div",
        element("span", "module", class_="module"),
        element("span", "became", class_="status"),
        element("span", "calls", class_="calls", title="calls in graphs that it and the modules in it make"),
        class_="row columns",
    )
    root = branches(modules)
    return Section(
        "modules",
        "Modules",
        group(
            element("ul", legend, class_="legend"),
            _tools(),
            columns,
            element("ul", _branch(root, 0, "", reasons), class_="tree"),
        ),
        len(modules),
    )


def _tools() -> Markup:
    """What scripts do; without them it stays hidden."""
    orders = [("worst", "worst first", True), ("model", "as in the model", False)]
    return element(
        "form",
        element("label", "Filter ", void("input", type="search", name="filter", placeholder="path, class or status")),
        element(
            "fieldset",
            element("legend", "Order"),
            [
                element("label", void("input", type="radio", name="order", value=value, checked=on), f" {label}")
                for value, label, on in orders
            ],
        ),
        element("button", "Open all", type="button", name="open"),
        element("button", "Close all", type="button", name="close"),
        element("output", ""),
        class_="tools",
        hidden=True,
    )


def _branch(branch: Branch, place: int, around: str, reasons: Mapping[str, Markup]) -> Markup:
    """A branch with those in it. `place` is its own among its siblings, `around` the path of what holds it."""
    paths = [f"{around}{name}" for name in branch.names]
    row = _row(branch, next((reasons[path] for path in paths if path in reasons), None))
    start = f"{paths[0]}." if paths[0] else ""
    inner = [_branch(child, number, start, reasons) for number, child in enumerate(branch.children)]
    ranked = sorted(zip(branch.children, inner, strict=True), key=lambda pair: pair[0].rank)
    body: Content = element("div", row, class_="leaf")
    if inner:
        body = element(
            "details",
            element("summary", row),
            element("ul", [block for _, block in ranked]),
            open=not branch.is_quiet or not paths[0],
        )
    found = " ".join([*paths, branch.record["class"], branch.record["status"]])
    return element("li", body, data_rank=branch.rank, data_place=place, data_find=found)


def _row(branch: Branch, reason: Markup | None) -> Markup:
    status, ops = branch.record["status"], branch.ops
    why: Content = None
    if branch.record["reason"] and status not in QUIET:
        why = element("span", sentence(branch.record["reason"]), " " if reason else None, reason, class_="why")
    return element(
        "span",
        element(
            "span",
            element("code", branch.listed, class_="name", title=", ".join(branch.names)) if branch.listed else None,
            element("span", branch.record["class"], class_="class"),
            element("span", f"\N{MULTIPLICATION SIGN}{len(branch.names)}", class_="times") if len(branch.names) > 1 else None,
            why,
            class_="module",
        ),
        _status(status),
        element("span", str(ops) if ops else "\N{MIDDLE DOT}", class_="calls", title=text.plural(ops, "call")),
        class_="row",
    )


def _status(status: str) -> Markup:
    kind = "bad" if status in _BAD else "good" if status == "inlined" else "quiet" if status in QUIET else "fair"
    return element("span", status, class_=f"status {kind}")

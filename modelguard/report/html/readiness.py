"""What tracing a target showed, as a page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelguard.findings import Finding, ScanReport
from modelguard.report import text
from modelguard.report.branches import SHAPES
from modelguard.report.html.findings import anchor, listed, place
from modelguard.report.html.graphs import graphs
from modelguard.report.html.markup import Content, Markup, element, group, lines
from modelguard.report.html.modules import tree
from modelguard.report.html.page import Section, amount, facts, heading, page, table

Record = Mapping[str, Any]


def render(target: str, report: ScanReport, is_ready: bool, record: Record) -> str:
    """The page of one target."""
    obstacles = _Obstacles(record["obstacles"])
    reasons: dict[str, Markup] = {}
    for number, finding in enumerate(report.findings):
        link = element("a", _short_place(finding.location.path, finding.location.line), href=f"#{anchor(number)}")
        for path in obstacles.modules(finding):
            reasons.setdefault(path, link)
    return page(
        f"{target}: {'ready' if is_ready else 'not ready'}",
        _heading(target, is_ready, record),
        listed(report.findings, obstacles.more),
        tree(record["modules"], reasons),
        graphs(record["graphs"], obstacles.breaks()),
        _recompiles(record["recompiles"]),
    )


class _Obstacles:
    """Obstacles by the line they are at, where their findings are."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._by_line: dict[tuple[str, int], list[Record]] = {}
        for each in records:
            if each["stack"]:
                last = each["stack"][-1]
                self._by_line.setdefault((os.path.realpath(last["path"]), last["line"]), []).append(each)

    def _at(self, finding: Finding) -> Sequence[Record]:
        where = (os.path.realpath(finding.location.path), finding.location.line)
        return [each for each in self._by_line.get(where, ()) if each["reason"] in finding.message]

    def modules(self, finding: Finding) -> list[str]:
        """The paths of the modules that a finding is about."""
        own = [path for each in self._at(finding) for path in (each["module"], *each["modules"]) if path is not None]
        return list(dict.fromkeys(own))

    def more(self, finding: Finding) -> Iterator[tuple[str, Content]]:
        """What is known of a finding by its obstacle."""
        paths = [path for path in self.modules(finding) if path]
        yield "modules", group((", " if number else None, element("code", path)) for number, path in enumerate(paths))
        for each in self._at(finding):
            if each["message"].strip():
                title = element("summary", f"all that {each['title']!r} says")
                yield "tracer", element("details", title, element("pre", lines(each["message"].strip()), tabindex=0))

    def breaks(self) -> list[str]:
        """The places that end graphs."""
        lasts = [each["stack"][-1] for found in self._by_line.values() for each in found if not each["in_graph"]]
        return list(dict.fromkeys(_short_place(last["path"], last["line"]) for last in lasts))


def _short_place(path: str, line: int) -> str:
    return place(os.path.basename(path), line)


def _heading(target: str, is_ready: bool, record: Record) -> Markup:
    count = len(record["obstacles"])
    told = text.plural(record["runs"][0]["graphs"], "graph") + (f", {text.plural(count, 'obstacle')}" if count else "")
    return heading(
        "ready",
        target,
        is_ready,
        "Ready" if is_ready else "Not ready",
        told,
        _scores(record["runs"]),
        facts(
            ("tracer", f"{record['tracer']}, torch {record['torch']}"),
            ("inputs were guessed", ", ".join(record["guessed_inputs"])),
        ),
    )


def _scores(runs: Sequence[Record]) -> Markup:
    names = ("traced with", "#graphs", "#calls in the largest", "#share of calls", "#share of modules", "result")
    return table(names, map(_score, runs))


def _score(run: Record) -> Iterator[Markup]:
    yield element("th", SHAPES[run["shapes"]], scope="row")
    if run["stopped"] is not None:
        yield element("td", run["stopped"], colspan=5, class_="bad")
        return
    yield from (amount(str(run[key])) for key in ("graphs", "ops_of_largest"))
    yield from (amount(group(_bar(run[key]), f"{run[key]:.0%}")) for key in ("share_of_ops", "share_of_modules"))
    error = run["max_abs_error"]
    if not run["one_graph"]:
        yield element("td", "no single graph")
    elif error is None:
        yield element("td", "another than eager", class_="bad")
    else:
        yield element("td", "the same as eager" if error == 0 else f"{error:.2g} from eager")


def _bar(share: float) -> Markup:
    inner = element("rect", width=f"{100 * share:.1f}", height=8, class_="filled")
    return element("svg", element("rect", width=100, height=8), inner, class_="bar", viewBox="0 0 100 8", aria_hidden="true")


def _recompiles(records: Sequence[Record]) -> Section | None:
    if not records:
        return None
    told = [
        element(
            "li",
            element("code", each["function"]),
            f" {place(each['path'], each['line'])}",
            element("ul", [element("li", element("code", reason)) for reason in each["reasons"]]),
        )
        for each in records
    ]
    return Section("recompiles", "Compiled again for another call", element("ul", told, class_="plain"), len(records))

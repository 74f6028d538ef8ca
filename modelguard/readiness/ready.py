"""A target's readiness to be one graph, and the findings that say what is in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelguard.findings import Finding, ScanReport
from modelguard.readiness.obstacles import UNTRACEABLE
from modelguard.rules.base import Rule
from modelguard.rules.mg301_call_module_left import CallModuleLeft
from modelguard.rules.mg302_get_attr_left import GetAttrLeft
from modelguard.rules.mg303_call_method_left import CallMethodLeft
from modelguard.rules.mg304_graph_break import GraphBreak
from modelguard.rules.mg305_unsupported_node import UnsupportedNode
from modelguard.rules.mg306_untraceable import Untraceable
from modelguard.runtime.located import is_suppressed, located
from modelguard.runtime.process import Limits, ask
from modelguard.scan.engine import SettingsFor


@dataclass(frozen=True, slots=True)
class Request:
    """What to trace, and how."""

    target: str
    tracer: str = "dynamo"
    split_ops: tuple[str, ...] = ()
    train: bool = False
    dynamic: bool = True
    """Trace with symbolic sizes, too."""
    inputs: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Readiness:
    """What tracing a target showed."""

    target: str
    record: Mapping[str, Any]
    """As `readiness.child` tells it; docs/json-output.md describes it."""
    report: ScanReport

    @property
    def is_ready(self) -> bool:
        """One graph that can be captured, and nothing in it that fails a run."""
        return bool(self.record["runs"][0]["one_graph"]) and not self.report.failing


def ready(request: Request, settings: SettingsFor) -> Readiness:
    """Trace a target in a process of its own, and tell what is in the way of one graph.

    Raises:
        RunError: the target cannot be loaded, fails, takes too long, or its process dies.
    """
    asked = {
        "tracer": request.tracer,
        "split_ops": request.split_ops,
        "train": request.train,
        "dynamic": request.dynamic,
        "inputs": request.inputs,
    }
    return judged(request.target, ask("modelguard.readiness.child", request.target, asked, request.limits), settings)


def judged(target: str, record: Mapping[str, Any], settings: SettingsFor) -> Readiness:
    """What a process told, with its findings."""
    found = dict.fromkeys((*_of_obstacles(record), *_of_graphs(record)))
    findings = sorted((each for each in found if _is_wanted(each, settings)), key=lambda finding: finding.sort_key)
    failing = sum(_fails(each, settings) for each in findings)
    report = ScanReport(tuple(findings), files=len(record["sources"]), failing=failing)
    return Readiness(target, record, report)


def _of_obstacles(record: Mapping[str, Any]) -> Iterator[Finding]:
    for each in record["obstacles"]:
        stack = each["stack"] or _start(record, each["module"])
        shapes = " (with symbolic sizes)" if each["shapes"] == "dynamic" else ""
        rule: type[Rule]
        if each["kind"] == UNTRACEABLE.name:
            rule, message = Untraceable, Untraceable.message(record["tracer"], each["reason"])
        elif each["in_graph"]:
            rule, message = UnsupportedNode, UnsupportedNode.message(each["kind"], each["reason"])
        else:
            rule, message = GraphBreak, GraphBreak.message(each["kind"], each["reason"])
        more = f"; `modelguard explain {each['record']}` says more" if each["record"] is not None else ""
        yield located(rule, message + shapes, stack, help=each["remedy"] + more, class_name=each["class"])


def _of_graphs(record: Mapping[str, Any]) -> Iterator[Finding]:
    left = {each["path"]: each for each in record["modules"] if each["status"] == "call-module"}
    for graph in record["graphs"]:
        if graph["refused"] is not None:
            message = UnsupportedNode.message("code generation", graph["refused"])
            yield located(UnsupportedNode, message, _start(record, ""), help=UnsupportedNode.advice)
        for each in graph["leftovers"]:
            stack = [each["frame"]] if each["frame"] is not None else _start(record, each["target"])
            if each["operation"] == "get_attr":
                yield located(GetAttrLeft, GetAttrLeft.message(each["target"]), stack, help=GetAttrLeft.advice)
            elif each["operation"] == "call_method":
                yield located(CallMethodLeft, CallMethodLeft.message(each["target"]), stack, help=CallMethodLeft.advice)
            else:
                why = left[each["target"]]["reason"] if each["target"] in left else "the tracer takes it for a leaf"
                yield located(CallModuleLeft, CallModuleLeft.message(each["target"], why), stack, help=CallModuleLeft.advice)


def _start(record: Mapping[str, Any], module: str | None) -> list[Mapping[str, Any]]:
    """Where a finding goes that has no line of its own: to the class that holds the module, else to the model's file."""
    by_path = {each["path"]: each for each in record["modules"]}
    own = set(record["sources"])
    path = module or ""
    while True:
        source = by_path.get(path, {}).get("source")
        if source is not None and source["path"] in own:
            return [{**source, "function": "forward"}]
        if not path:
            break
        path = path.rpartition(".")[0]
    return [{"path": record["sources"][0], "line": 1, "function": ""}] if record["sources"] else []


def _is_wanted(finding: Finding, settings: SettingsFor) -> bool:
    path = finding.location.path
    if is_suppressed(path, finding.location.line, finding.code):
        return False
    return settings.for_path(path).selects(finding.code, path)


def _fails(finding: Finding, settings: SettingsFor) -> bool:
    limit = settings.for_path(finding.location.path).fail_on
    return limit is not None and finding.severity.at_least(limit)

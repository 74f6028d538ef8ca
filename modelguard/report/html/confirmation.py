"""What running a target showed, as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelguard.findings import Finding, ScanReport
from modelguard.report.confirmation import DEVICES, VERDICTS
from modelguard.report.html.findings import listed, place
from modelguard.report.html.markup import Content, Markup, element, group
from modelguard.report.html.page import Section, facts, heading, page, table
from modelguard.report.html.plot import divergence, shown

Record = Mapping[str, Any]


def render(
    target: str,
    report: ScanReport,
    unconfirmed: Mapping[Finding, str],
    replay: Record,
    side_effects: Sequence[Record],
    dynamo_stopped: str | None,
    guessed_inputs: Sequence[str],
) -> str:
    """The page of one target."""

    def more(finding: Finding) -> Iterator[tuple[str, Content]]:
        why = unconfirmed.get(finding)
        yield "evidence", f"none from running it: {why}" if why is not None else None

    verdict = replay["verdict"]
    return page(
        f"{target}: {verdict}",
        heading(
            "confirm",
            target,
            verdict == "same",
            verdict.replace("-", " ").capitalize(),
            f"{VERDICTS[verdict]} ({DEVICES[replay['device']]})",
            facts(*_facts(replay), ("inputs were guessed", ", ".join(guessed_inputs))),
        ),
        Section("divergence", "Replay against eager steps", divergence(replay)),
        listed(report.findings, more),
        _side_effects(side_effects, dynamo_stopped),
    )


def _facts(replay: Record) -> Iterator[tuple[str, Content]]:
    if replay["step"] is not None:
        amount = f", by up to {shown(replay['max_abs_error'])}" if replay["verdict"] == "wrong-output" else ""
        yield f"from step {replay['step']}", group(_codes(replay["where"]), amount)
    yield "state that differs", _codes(replay["stale"])
    yield "captured where it lay, and freed since", _codes(replay["freed"])
    yield "a device ends capture at", _host_reads(replay["host_reads"])


def _codes(names: Sequence[str]) -> list[Content]:
    return [group(", " if number else None, element("code", name)) for number, name in enumerate(names)]


def _host_reads(reads: Sequence[Record]) -> Markup | None:
    if not reads:
        return None
    told = [
        element("li", element("code", each["operator"]), f" {place(each['path'], each['line'])}" if "path" in each else None)
        for each in reads
    ]
    return element("ul", told, class_="plain")


def _side_effects(side_effects: Sequence[Record], dynamo_stopped: str | None) -> Section:
    stopped = None
    if dynamo_stopped is not None:
        stopped = element("p", f"Dynamo stopped, so what it would have seen behind that is not known: {dynamo_stopped}")
    told = table(("state", "what is done", "where"), map(_effect, side_effects))
    nothing = element("p", "Dynamo's compiled code writes no state.", class_="nothing")
    return Section(
        "side-effects",
        "Side effects that Dynamo sees",
        group(stopped, told if side_effects else nothing),
        len(side_effects),
    )


def _effect(effect: Record) -> Iterator[Markup]:
    name = effect["object"] if effect["attribute"] is None else f"{effect['object']}.{effect['attribute']}"
    yield element("th", element("code", name), scope="row")
    yield element("td", effect["operation"])
    last = effect["stack"][-1] if effect["stack"] else None
    yield element("td", None if last is None else place(last["path"], last["line"]))

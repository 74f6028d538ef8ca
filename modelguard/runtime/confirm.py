"""A target's findings, joined with what running it showed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from modelguard.findings import Effect, Evidence, Finding, Location, ScanReport
from modelguard.rules.mg114_memoised_tensor import MemoisedTensor
from modelguard.rules.mg401_replay_diverged import ReplayDiverged
from modelguard.rules.mg402_unforeseen_side_effect import UnforeseenSideEffect
from modelguard.runtime.located import is_suppressed, located, shown_path
from modelguard.runtime.process import Limits, ask
from modelguard.runtime.replay import UNHELD
from modelguard.scan.engine import SettingsFor, scan_paths
from modelguard.settings import Settings

_DIVERGED = frozenset(("wrong-output", "stale-state", "freed-memory", "shape-changes"))


@dataclass(frozen=True, slots=True)
class Request:
    """What to run, and how."""

    target: str
    steps: int
    train: bool | None = None
    device: str | None = None
    inputs: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    vary: bool = True
    """Whether the inputs of a single call take other values at each step."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the scan foresaw, and what running showed."""

    target: str
    report: ScanReport
    """Findings in the model's own classes and what they run, each with its evidence."""
    unconfirmed: Mapping[Finding, str]
    """Why running did not show a finding."""
    replay: Mapping[str, Any]
    side_effects: Sequence[Mapping[str, Any]]
    dynamo_stopped: str | None
    guessed_inputs: Sequence[str]
    """Descriptions of the inputs, where neither the target nor the request gave any."""

    @property
    def is_clean(self) -> bool:
        """Replay gave the same, and nothing that ran wrote state in a way that fails a run."""
        return self.replay["verdict"] == "same" and not self.report.failing


def confirm(request: Request, settings: SettingsFor) -> Confirmation:
    """Run a target in a process of its own, scan the files of its classes, and join the two.

    Raises:
        RunError: the target cannot be loaded, fails, takes too long, or its process dies.
    """
    return joined(request.target, observed(request), settings)


def observed(request: Request) -> dict[str, Any]:
    """What the target's process tells. What it prints goes to stderr.

    Raises:
        RunError: it told nothing, or what went wrong.
    """
    asked = {
        "steps": request.steps,
        "train": request.train,
        "device": request.device,
        "inputs": request.inputs,
        "vary": request.vary,
    }
    return ask("modelguard.runtime.child", request.target, asked, request.limits)


def joined(target: str, run: Mapping[str, Any], settings: SettingsFor) -> Confirmation:
    """The findings of a run's sources with evidence, and those that running adds."""
    writing = [frame["path"] for effect in run["side_effects"] for frame in effect["stack"]]
    sources = [shown_path(path) for path in dict.fromkeys((*run["sources"], *writing))]
    scanned = scan_paths(sources, _Everything(settings)) if sources else ScanReport()
    seen = _Seen(run, scanned.findings)
    findings: list[Finding] = []
    unconfirmed: dict[Finding, str] = {}
    for found in scanned.findings:
        if not seen.concerns(found):
            continue
        evidence = seen.evidence(found)
        finding = replace(found, evidence=evidence)
        findings.append(finding)
        if evidence == (Evidence.STATIC,):
            unconfirmed[finding] = seen.why_not(found)
    added = [*_unforeseen(findings, run, seen), *_unexplained(target, findings, run)]
    findings = sorted((each for each in (*findings, *added) if _wants(each, settings)), key=lambda finding: finding.sort_key)
    unconfirmed = {finding: why for finding, why in unconfirmed.items() if _wants(finding, settings)}
    failing = sum(finding not in unconfirmed and _fails(finding, settings) for finding in findings)
    report = replace(scanned, findings=tuple(findings), failing=failing)
    return Confirmation(
        target, report, unconfirmed, run["replay"], run["side_effects"], run["dynamo_stopped"], run["guessed_inputs"]
    )


class _Everything:
    """Settings with all that says something of state selected: what somebody ignores was foreseen all the same.

    Running shows what becomes of state; that a capture would stop is no matter of evidence, and left to the scan.
    """

    def __init__(self, settings: SettingsFor) -> None:
        self._settings = settings

    def for_path(self, path: str) -> Settings:
        """The settings of one path."""
        return replace(self._settings.for_path(path), select=("MG1", "MG9"), ignore=(), per_file_ignores=())


def _wants(finding: Finding, settings: SettingsFor) -> bool:
    path = finding.location.path
    return settings.for_path(path).selects(finding.code, path)


def _fails(finding: Finding, settings: SettingsFor) -> bool:
    return settings.for_path(finding.location.path).fails(finding.severity)


class _Seen:
    """What running showed, asked finding by finding."""

    def __init__(self, run: Mapping[str, Any], found: Sequence[Finding]) -> None:
        self._modules: dict[tuple[str, ...], set[str]] = {}
        for path, classes in run["modules"].items():
            # Those of a list share a path without indices.
            self._modules.setdefault(_plain(path), set()).update(name.rpartition(".")[2] for name in classes)
        self._classes = set().union(*self._modules.values())
        self._lines = {os.path.realpath(path): set(lines) for path, lines in run["lines"].items()}
        self._written = {
            (os.path.realpath(frame["path"]), frame["line"]) for effect in run["side_effects"] for frame in effect["stack"]
        }
        replayed = run["replay"]
        self._verdict = replayed["verdict"]
        self._freed = replayed["freed"]
        self._culprits: set[Finding] = set()
        for path in {_plain(path) for path in (*replayed["stale"], *replayed["freed"])}:
            named = [each for each in found if _is_end(_plain(each.attribute or ""), path) and self._may_have_run(each.location)]
            # Classes may have attributes of one name, and modules may share what they hold.
            self._culprits.update([each for each in named if self._owns(each, path)] or named)

    def concerns(self, finding: Finding) -> bool:
        """Is it about a class of the model, or about code that ran on its behalf?"""
        if finding.class_name is not None and finding.class_name.rpartition(".")[2] in self._classes:
            return True
        return self._ran(finding.location)

    def evidence(self, finding: Finding) -> tuple[Evidence, ...]:
        """How it is known by now."""
        found = [Evidence.STATIC]
        if self._is_written(finding.location):
            found.append(Evidence.DYNAMO)
        if self._is_replayed(finding):
            found.append(Evidence.REPLAY)
        return tuple(found)

    def why_not(self, finding: Finding) -> str:
        """Why running did not show it."""
        if not self._is_traced(finding.location):
            return "its file defines none of the model's classes, so whether this line ran is not known"
        if not self._ran(finding.location):
            return "these calls did not run this line"
        if self._verdict != "same":
            return "it ran, and what differs in replay is something else"
        return "it ran, and replay gave the same: nothing that these calls read depends on it"

    def _is_replayed(self, finding: Finding) -> bool:
        """Did replay get wrong what it writes, or, for a write in place, was it replayed?"""
        if self._ran(finding.location):
            if finding.effect is Effect.REPLAYED:
                return True
            if finding.code == MemoisedTensor.code:
                return UNHELD in self._freed
        return finding in self._culprits

    def _may_have_run(self, location: Location) -> bool:
        # Of code that was compiled as it came, nothing but its writes is known.
        return self._ran(location) or self._is_written(location) or not self._is_traced(location)

    def _owns(self, finding: Finding, path: tuple[str, ...]) -> bool:
        """Is the state path that of the finding's attribute in a module of its class?"""
        owner = path[: -len(_plain(finding.attribute or ""))]
        return (finding.class_name or "").rpartition(".")[2] in self._modules.get(owner, ())

    def _ran(self, location: Location) -> bool:
        lines = self._lines.get(os.path.realpath(location.path), set())
        return any(line in lines for line in _lines_of(location))

    def _is_traced(self, location: Location) -> bool:
        return os.path.realpath(location.path) in self._lines

    def _is_written(self, location: Location) -> bool:
        path = os.path.realpath(location.path)
        return any((path, line) in self._written for line in _lines_of(location))


def _lines_of(location: Location) -> range:
    return range(location.line, location.end_line + 1)


def _unforeseen(findings: Iterable[Finding], run: Mapping[str, Any], seen: _Seen) -> list[Finding]:
    """MG402: side effects at lines where nothing was found, or suppressed."""
    told = {(os.path.realpath(finding.location.path), line) for finding in findings for line in _lines_of(finding.location)}
    added = []
    for effect in run["side_effects"]:
        frames = [(os.path.realpath(frame["path"]), frame["line"]) for frame in effect["stack"]]
        if told.intersection(frames) or any(is_suppressed(path, line) for path, line in frames):
            continue
        path = effect["object"] if effect["attribute"] is None else f"{effect['object']}.{effect['attribute']}"
        added.append(
            located(
                UnforeseenSideEffect,
                UnforeseenSideEffect.message(path, effect["operation"]),
                effect["stack"],
                help=UnforeseenSideEffect.advice,
                attribute=path,
            )
        )
    return added


def _unexplained(target: str, findings: Sequence[Finding], run: Mapping[str, Any]) -> list[Finding]:
    """MG401: replay went another way, and no finding says why."""
    replayed = run["replay"]
    if replayed["verdict"] not in _DIVERGED or any(len(finding.evidence) > 1 for finding in findings) or not run["sources"]:
        return []
    if run["side_effects"]:
        return []
    paths = [*replayed["stale"], *(path for path in replayed["freed"] if path not in replayed["stale"])]
    place = [{"path": run["sources"][0], "line": 1, "function": ""}]
    message = ReplayDiverged.message(target, replayed["verdict"], replayed["where"], paths)
    return [located(ReplayDiverged, message, place, help=ReplayDiverged.advice)]


def _plain(path: str) -> tuple[str, ...]:
    """A state path as the names in it: without indices, `self`, and the class that Python puts before private names."""
    names = re.sub(r"\[[^\]]*\]", "", path).split(".")
    return tuple(re.sub(r"^_[A-Za-z]\w*?__(?=\w)", "__", name) for name in names if name not in ("self", ""))


def _is_end(path: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Is one of the two the end of the other?"""
    count = min(len(path), len(other))
    return count > 0 and path[-count:] == other[-count:]

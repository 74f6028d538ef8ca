"""Compares a scan's findings with the observed writes."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from truth.sources import Sources, Statement

UNCOUNTED = ("argument", "argument-in-place", "library-module", "memoised", "grad", "requires-grad")
"""Writes that no finding is owed for: to objects the caller handed in, and those that code outside the packages makes
(a statement that calls a batch norm of torch is not the place that writes its statistics), calls of memoised functions, and
the flags and gradients of tensors. A finding on them is no false alarm."""


class Place(NamedTuple):
    """A statement of an observed package."""

    name: str
    line: int


class Alarm(NamedTuple):
    """A finding, as far as it matters here."""

    place: Place
    severity: str
    code: str
    message: str


def read(path: Path) -> dict[str, Any]:
    """The observations kept in a file."""
    observations: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return observations


def write(path: Path, observations: dict[str, Any]) -> None:
    """Keeps observations in a file."""
    path.write_text(json.dumps(observations, indent=1, sort_keys=True), encoding="utf-8")


def merge(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Several runs as one; of a case in two of them, the later verdict counts and the writes of both."""
    cases = {case["case"]: case for run in runs for case in run["cases"]}
    writes: dict[tuple[str, int, str], dict[str, Any]] = {}
    executed: dict[str, set[int]] = {}
    for run in runs:
        for entry in run["writes"]:
            key = (entry["path"], entry["line"], entry["kind"])
            known = writes.setdefault(key, entry)
            known["modes"] = sorted({*known["modes"], *entry["modes"]})
            known["cases"] = sorted({*known["cases"], *entry["cases"]})[:5]
        for name, lines in run["executed"].items():
            executed.setdefault(name, set()).update(lines)
    return {
        "packages": {package: entry for run in runs for package, entry in run["packages"].items()},
        "cases": [cases[name] for name in sorted(cases)],
        "writes": [writes[key] for key in sorted(writes)],
        "executed": {name: sorted(lines) for name, lines in sorted(executed.items())},
        "unattributed": sorted({line for run in runs for line in run["unattributed"]}),
    }


def scan(roots: Iterable[str]) -> dict[str, Any]:
    """The JSON output of `modelguard scan` over the packages, run from this checkout."""
    checkout = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")])}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "findings.json")
        with output.open("wb") as stream:
            command = [sys.executable, "-m", "modelguard", "scan", "--output-format", "json", *roots]
            status = subprocess.run(command, stdout=stream, env=environment, check=False).returncode
        if status not in (0, 1):
            raise SystemExit(f"modelguard scan ended with status {status}")
        result: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
        return result


def alarms_of(report: dict[str, Any], sources: Sources, base: Path) -> list[Alarm]:
    """The findings that lie in the observed packages, by statement."""
    alarms = []
    for finding in report["findings"]:
        name = sources.name_of(os.path.abspath(base / finding["path"]))
        if name is not None:
            place = Place(name, sources.statement_at(name, finding["line"]).first)
            alarms.append(Alarm(place, finding["severity"], finding["code"], finding["message"]))
    return alarms


class Verdict:
    """Which writes were found and which findings were right, over all packages or one."""

    def __init__(self, observations: dict[str, Any], alarms: list[Alarm]) -> None:
        self.wrote: dict[Place, list[dict[str, Any]]] = {}
        for entry in observations["writes"]:
            self.wrote.setdefault(Place(entry["path"], entry["line"]), []).append(entry)
        self.executed = {Place(name, line) for name, lines in observations["executed"].items() for line in lines}
        self.owed = {place for place, entries in self.wrote.items() if any(entry["kind"] not in UNCOUNTED for entry in entries)}
        self.flagged = {alarm.place for alarm in alarms}
        loud = [alarm for alarm in alarms if alarm.severity in ("error", "warning") and not alarm.code.startswith("MG9")]
        self.judged = [alarm for alarm in loud if alarm.place in self.executed]
        self.false = [alarm for alarm in self.judged if alarm.place not in self.wrote]
        self.missed = sorted(self.owed - self.flagged)

    def row(self, package: str) -> list[str]:
        """One line of the table; an empty package means all."""
        owed = [place for place in self.owed if place.name.startswith(package)]
        missed = [place for place in self.missed if place.name.startswith(package)]
        judged = {alarm.place for alarm in self.judged if alarm.place.name.startswith(package)}
        false = {alarm.place for alarm in self.false if alarm.place.name.startswith(package)}
        return [
            package.rstrip("/") or "all",
            str(len(owed)),
            str(len(missed)),
            _share(len(owed) - len(missed), len(owed)),
            str(len(judged)),
            str(len(false)),
            _share(len(judged) - len(false), len(judged)),
        ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def report(observations: dict[str, Any], findings: Path | None, everything: bool) -> int:
    """Prints the verdict; 0 whatever it is, since it is a measurement."""
    roots = {package: entry["root"] for package, entry in observations["packages"].items()}
    sources = Sources(roots)
    output = json.loads(findings.read_text(encoding="utf-8")) if findings else scan(roots.values())
    verdict = Verdict(observations, alarms_of(output, sources, Path.cwd()))
    _print_misses(verdict, sources, everything)
    _print_false_alarms(verdict, sources, everything)
    _print_cases(observations)
    header = ["package", "statements that wrote", "missed", "recall", "findings that ran", "false", "precision"]
    print_table(header, [verdict.row(package + "/") for package in roots] + [verdict.row("")])
    return 0


def _print_misses(verdict: Verdict, sources: Sources, everything: bool) -> None:
    by_kind: dict[str, list[tuple[Place, dict[str, Any]]]] = collections.defaultdict(list)
    for place in verdict.missed:
        entry = next(entry for entry in verdict.wrote[place] if entry["kind"] not in UNCOUNTED)
        by_kind[entry["kind"]].append((place, entry))
    for kind, misses in sorted(by_kind.items(), key=lambda item: -len(item[1])):
        print(f"missed, {kind}: {len(misses)}")
        for place, entry in misses if everything else misses[:15]:
            print(f"  {place.name}:{place.line}: {entry['source']}")
            print(f"      {', '.join(entry['owners'][:2])} in {entry['cases'][0]} ({'/'.join(entry['modes'])})")
        if len(misses) > 15 and not everything:
            print(f"  ... and {len(misses) - 15} more (--all)")
        print()


def _print_false_alarms(verdict: Verdict, sources: Sources, everything: bool) -> None:
    by_code: dict[str, list[Alarm]] = collections.defaultdict(list)
    for alarm in sorted(set(verdict.false)):
        by_code[alarm.code].append(alarm)
    for code, alarms in sorted(by_code.items()):
        print(f"ran and never wrote, {code}: {len(alarms)}")
        for alarm in alarms if everything else alarms[:15]:
            print(f"  {alarm.place.name}:{alarm.place.line}: {source_line(sources, alarm.place)}")
            print(f"      {alarm.severity}: {alarm.message}")
        if len(alarms) > 15 and not everything:
            print(f"  ... and {len(alarms) - 15} more (--all)")
        print()


def source_line(sources: Sources, place: Place) -> str:
    """The first line of a statement."""
    statement: Statement = sources.statement_at(*place)
    lines = Path(sources.path_of(place.name)).read_text(encoding="utf-8").splitlines()
    return lines[statement.first - 1].strip()


def _print_cases(observations: dict[str, Any]) -> None:
    ran: collections.Counter[str] = collections.Counter()
    failed: collections.Counter[str] = collections.Counter()
    for case in observations["cases"]:
        library = case["case"].split(":")[0]
        (ran if case["modes"] else failed)[library] += 1
    rows = [[library, str(ran[library]), str(failed[library])] for library in sorted({*ran, *failed})]
    print_table(["library", "cases that ran", "could not be built or run"], rows)
    print()


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """A table with aligned columns."""
    widths = [max(len(row[index]) for row in [header, *rows]) for index in range(len(header))]
    for row in [header, ["-" * width for width in widths], *rows]:
        print(
            "  ".join(
                cell.ljust(width) if index == 0 else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        )

"""The scan: paths and settings in, a report out. Reading is `files`, what a file declares `facts`, what a region does `walk`."""

from __future__ import annotations

import ast
import gc
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from modelguard.errors import SourceError
from modelguard.findings import Diagnostic, Finding, GuardContext, Location, ScanReport, Severity
from modelguard.observation import Root, StateWrite
from modelguard.rules import judge
from modelguard.rules.mg901_unparsable_file import UnparsableFile
from modelguard.scan.candidates import Candidates
from modelguard.scan.facts import Copies, extract
from modelguard.scan.files import decode, discover, plain_line_ends, read_source
from modelguard.scan.project import ClassInfo, Method, Opened, Project, SourceFile
from modelguard.scan.recorder import Recorder
from modelguard.scan.walk import Walk, World
from modelguard.settings import Settings

_RECURSION = 6_000
"""Python frames allowed while a file is parsed and walked: deep, but not bottomless, input is looked at."""


def scan_paths(paths: Sequence[str | os.PathLike[str]], settings: Settings | None = None) -> ScanReport:
    """Scan files, and the Python files below directories."""
    settings = settings or Settings()
    discovery = discover(paths, settings.exclude)
    scan = _Scan(settings, [os.path.dirname(p) if os.path.isfile(p) else os.fspath(p) for p in paths])
    scan.diagnostics.extend(discovery.diagnostics)
    with _prepared():
        for path in discovery.files:
            scan.add(path)
        return scan.report()


def scan_source(source: str | bytes, path: str = "<stdin>", settings: Settings | None = None) -> ScanReport:
    """Scan source text as if it were the file at `path`; what it imports is read from disk."""
    scan = _Scan(settings or Settings(), [os.path.dirname(path)])
    with _prepared():
        scan.add(path, source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source)
        return scan.report()


@contextmanager
def _prepared() -> Iterator[None]:
    """Syntax trees hold no cycles: collecting garbage between millions of their nodes would only cost time."""
    enabled, thresholds, limit = gc.isenabled(), gc.get_threshold(), sys.getrecursionlimit()
    gc.disable()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        with warnings.catch_warnings():
            # What the parser warns of in a scanned file is another linter's matter.
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.setrecursionlimit(limit)
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        if enabled:
            gc.enable()
        else:
            gc.disable()


class _Scan:
    """One scan under way."""

    def __init__(self, settings: Settings, roots: Sequence[str]) -> None:
        self.settings = settings
        self.diagnostics: list[Diagnostic] = []
        self.findings: list[Finding] = []
        self.files: list[SourceFile] = []
        self.lines = 0
        self.module_classes = 0
        self.entry_points = 0
        self.timings: dict[str, float] = {}
        self._opened = Opened()
        self._copies = Copies()
        self.project = Project(self._load, roots, settings.module_bases)
        self.too_deep: set[tuple[str, int]] = set()

    def add(self, path: str, source: bytes | None = None) -> None:
        """Take in one file to report on."""
        start = time.perf_counter()
        file = self._read(path, source, reported=True)
        if file is not None:
            self.project.add(file)
            self.files.append(file)
        self._spent("facts", start)

    def report(self) -> ScanReport:
        """Walk what could hold a write, and judge what was seen."""
        start = time.perf_counter()
        wanted = frozenset(file.path for file in self.files)
        entry_points = frozenset(self.settings.entry_points)
        candidates = Candidates(self.project, entry_points, wanted)
        filtered = self.settings.filter_facts
        writers = candidates.writers(self.files) if filtered else None
        world = World(self.project, entry_points, wanted, writers)
        merged: dict[tuple[object, ...], StateWrite] = {}
        # Facts stay; what the walks make is short-lived, and some of it in cycles.
        gc.freeze()
        gc.set_threshold(100_000, 20, 1_000)
        gc.enable()
        for file in self.files:
            world.trim()
            for info in self.project.classes(file):
                if not info.is_module:
                    continue
                self.module_classes += 1
                for method in _entries(info, entry_points):
                    self.entry_points += 1
                    if not filtered or candidates.may_write(info, method):
                        for write in self._walk(world, info, method):
                            if write.location.path in wanted:
                                _merge(merged, write)
        self._spent("walk", start)
        start = time.perf_counter()
        writes = sorted(merged.values(), key=lambda write: (write.location, write.path))
        for write in writes:
            finding = _finding(write, self.settings)
            if finding is not None:
                self.findings.append(finding)
        kept = tuple(sorted(_once(self.findings, self.settings), key=lambda finding: finding.sort_key))
        self._spent("rules", start)
        return ScanReport(
            kept,
            tuple(self.diagnostics),
            len(self.files),
            self.module_classes,
            self.entry_points,
            self.lines,
            self.timings,
        )

    def _walk(self, world: World, info: ClassInfo, method: Method) -> list[StateWrite]:
        recorder = Recorder(f"{info.name}.{method.facts.name}")
        try:
            Walk(world, recorder).region(info, method)
        except RecursionError:
            where = method.owner.file.path
            if where in world.reported and (where, method.facts.line) not in self.too_deep:
                self.too_deep.add((where, method.facts.line))
                name = f"{info.name}.{method.facts.name}"
                message = f"`{name}` is nested too deeply to be analysed in full; split its longest expression or if-chain"
                self._report_unread(where, method.facts.line, message)
        return recorder.state_writes()

    def _load(self, path: str) -> SourceFile | None:
        """A file that a scanned one needs: what is wrong with it is not this scan's matter."""
        return self._read(path, None, reported=False)

    def _read(self, path: str, source: bytes | None, reported: bool) -> SourceFile | None:
        try:
            content = read_source(path) if source is None else source
            text = plain_line_ends(decode(content, path))
            tree = _parse(text, path)
        except SourceError as error:
            if reported:
                self._refuse(error)
            return None
        facts = extract(path, text, tree, self._copies)
        if reported:
            self.lines += facts.lines
        if source is not None or not os.path.isfile(path):
            # What comes from a pipe comes once.
            return SourceFile(path, facts, lambda: text, self._opened)
        known = hash(text)
        return SourceFile(path, facts, lambda: self._again(path, known), self._opened)

    def _again(self, path: str, known: int) -> str:
        """The text of a file whose facts are known already."""
        try:
            text = plain_line_ends(decode(read_source(path), path))
            if hash(text) == known:
                return text
        except SourceError:
            pass
        message = "this file changed while it was scanned; run the scan again"
        if all(diagnostic.path != path or diagnostic.message != message for diagnostic in self.diagnostics):
            self.diagnostics.append(Diagnostic(path, message, severity=Severity.ERROR))
        raise SourceError(path, None, message)

    def _refuse(self, error: SourceError) -> None:
        self._report_unread(error.path, error.line or 1, UnparsableFile.message(error.message))

    def _report_unread(self, path: str, line: int, message: str) -> None:
        rule = UnparsableFile
        location = Location(path, line, 1, line, 1)
        self.findings.append(Finding(rule.code, rule.name, rule.severity, message, location))

    def _spent(self, stage: str, start: float) -> None:
        self.timings[stage] = self.timings.get(stage, 0.0) + time.perf_counter() - start


def _parse(text: str, path: str) -> ast.Module:
    try:
        return ast.parse(text, path)
    except SyntaxError as error:
        raise SourceError(path, error.lineno, error.msg) from None
    except ValueError as error:
        raise SourceError(path, None, str(error)) from None
    except (RecursionError, MemoryError):
        raise SourceError(path, None, "nested too deeply to parse") from None


def _entries(info: ClassInfo, entry_points: frozenset[str]) -> Iterator[Method]:
    """The entry points of a module class, and its `__call__`, which runs around them."""
    for name in (*sorted(entry_points), "__call__"):
        method = info.method(name)
        if method is not None:
            yield method


def _merge(merged: dict[tuple[object, ...], StateWrite], write: StateWrite) -> None:
    """A write is reported once, for all entry points and subclasses that reach it."""
    # The same attribute of several objects that one name may stand for is one write.
    key = (write.location, write.operation, write.path.rpartition(".")[2])
    known = merged.get(key)
    if known is None:
        merged[key] = write
        return
    if (known.root is Root.SELF) != (write.root is Root.SELF):
        # One name that may be the module or something handed in: the module is meant.
        merged[key] = known if known.root is Root.SELF else write
        return
    shorter = min(known, write, key=lambda each: (len(each.chain), len(each.path), each.path))
    merged[key] = replace(
        shorter,
        carried=known.carried or write.carried,
        declared=known.declared | write.declared,
        value=known.value | write.value,
        depends_on_inputs=known.depends_on_inputs or write.depends_on_inputs,
        training_only=known.training_only and write.training_only,
        filled_once=known.filled_once and write.filled_once,
        guard=_weaker(known.guard, write.guard),
        round_trip=known.round_trip or write.round_trip,
        entry_points=tuple(dict.fromkeys((*known.entry_points, *write.entry_points))),
    )


_GUARDS = (GuardContext.UNCONDITIONAL, GuardContext.LAZY, GuardContext.TRAINING_ONLY, GuardContext.EAGER_ONLY)


def _weaker(left: GuardContext, right: GuardContext) -> GuardContext:
    return left if _GUARDS.index(left) <= _GUARDS.index(right) else right


def _finding(write: StateWrite, settings: Settings) -> Finding | None:
    """What the rules say of a write, at the severity that its guard leaves."""
    judged = judge(write)
    if judged is None:
        return None
    rule, verdict = judged
    severity = verdict.severity
    if write.training_only and not settings.training_step_captured:
        severity = severity.lowered()
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=severity,
        message=verdict.message,
        location=write.location,
        source_line=write.source_line,
        class_name=write.class_name,
        attribute=write.path,
        entry_points=write.entry_points,
        chain=write.chain,
        guard=write.guard,
        carried=write.carried,
        effect=verdict.effect,
        help=verdict.help,
    )


def _once(findings: Sequence[Finding], settings: Settings) -> Iterator[Finding]:
    """The selected findings; of several on one statement's line for one attribute, the worst."""
    best: dict[tuple[str, int, str | None], Finding] = {}
    for finding in findings:
        if not settings.selects(finding.code):
            continue
        key = (finding.location.path, finding.location.line, finding.attribute)
        known = best.get(key)
        if known is None or finding.severity.rank > known.severity.rank:
            best[key] = finding
    yield from best.values()

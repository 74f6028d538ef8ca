"""The scan: paths and settings in, a report out. What is known is taken from the cache, the rest is shared out and judged."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from modelguard.errors import SourceError
from modelguard.findings import Applicability, Diagnostic, Finding, Fix, Location, ScanReport, Severity
from modelguard.observation import Obstacle, StateWrite
from modelguard.scan.analysis import Analysis, Options, Problem, Scanned, prepared
from modelguard.scan.excludes import is_below, is_repository
from modelguard.scan.files import Discovery, as_bytes, discover, read_source, text_of
from modelguard.scan.scope import Scope
from modelguard.settings import Settings
from modelguard.suppressions import apply

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from modelguard.scan.kept import Kept

_WORTH_SHARING = 1_500_000
"""Bytes of source from which a second process saves more than it costs."""

_MOST_OTHERS = 50
"""Files that are scanned because they may reach into those that were named: a run over a few files must stay short."""

_WORTH_RECALLING = 20
"""Files from which looking into the cache costs less than scanning them."""


class SettingsFor(Protocol):
    """Says which settings hold for a file or directory."""

    def for_path(self, path: str) -> Settings:
        """The settings of one path."""
        ...


class OneForAll:
    """The same settings for every path."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def for_path(self, path: str) -> Settings:
        """The settings of one path: those of all."""
        return self._settings


_NOTHING: Mapping[str, Any] = MappingProxyType({})

Progress = Callable[[int, int], None]
"""Told how many files are done, and of how many."""


def scan_paths(
    paths: Sequence[str | os.PathLike[str]],
    settings: Settings | SettingsFor | None = None,
    *,
    jobs: int | None = 1,
    executor: Executor | None = None,
    cache: str | None = None,
    force_exclude: bool = False,
    progress: Progress | None = None,
    given: Mapping[str, bytes] | None = None,
) -> ScanReport:
    """Scan files, and the Python files and notebooks below directories.

    `jobs` is the number of processes, None for as many as there are cores; fewer are used where the work is not worth it. An
    `executor` is used in their place: of threads, processes or other machines that see the same files. `cache` is the folder
    where results are kept between scans, None to keep none. With `force_exclude` the settings' `exclude` holds for `paths`
    themselves, too. `progress` is told how many files are done, and of how many. `given` holds, by absolute path, what to take in
    place of what lies there.
    """
    settled = _settled(settings)
    discovery = discover(paths, settled.for_path, force_exclude)
    scan = _Scan(settled, paths, discovery, progress, given or _NOTHING)
    scan.run(jobs, executor, cache)
    return scan.report()


def scan_source(
    source: str | bytes,
    path: str = "<stdin>",
    settings: Settings | SettingsFor | None = None,
    *,
    beside: Mapping[str, str | bytes] = _NOTHING,
    kept: Kept | None = None,
    alone: bool = False,
    progress: Progress | None = None,
) -> ScanReport:
    """Scan source text as if it were the file at `path`; what it imports is read from disk.

    `beside` are contents that stand for those of other files, by absolute path. `kept` is what scans of one process leave each
    other. With `alone`, other files that may reach into this one are not looked for. `progress` is told how many files are done;
    what it raises ends the scan.
    """
    given = {**beside, os.path.abspath(path): source}
    if kept is not None:
        kept.begin(alone)
    scan = _Scan(_settled(settings), [path], Discovery((path,), ()), progress, given, kept)
    scan.run(1, None, None, alone)
    return scan.report()


def failing(findings: Iterable[Finding], settings: SettingsFor) -> int:
    """How many of the findings fail a run, by the settings of their files."""
    return sum(settings.for_path(finding.location.path).fails(finding.severity) for finding in findings)


class _Scan:
    """One scan under way."""

    def __init__(
        self,
        settings: SettingsFor,
        paths: Sequence[str | os.PathLike[str]],
        discovery: Discovery,
        progress: Progress | None = None,
        given: Mapping[str, str | bytes] = _NOTHING,
        kept: Kept | None = None,
    ) -> None:
        self._settings = settings
        self._files = discovery.files
        self._diagnostics = list(discovery.diagnostics)
        self._progress = progress or _untold
        self._given = given
        self._kept = kept
        names = [os.fspath(path) for path in paths]
        named = [path for path in names if not os.path.isdir(path)]
        self._roots = tuple(os.path.dirname(path) if path in named else path for path in names)
        whole = settings.for_path(named[0]) if named else None
        # A file that is named stands for its project: what it needs is followed there as if all of that were scanned.
        project = _project(named[0], whole) if whole is not None else None
        if whole is not None:
            self._scope = Scope(self._files, project or _surroundings(named[0]), whole.exclude)
        else:
            self._scope = Scope(self._files)
        self._project = project if len(named) == len(names) else None
        """Where other files lie that may reach into the ones named; None where folders are scanned."""
        if len(named) == len(names):
            self._is_whole = project is not None
        else:
            self._is_whole = not named and all(_is_whole(root, settings.for_path(root)) for root in names)
        self._scanned: dict[str, Scanned] = {}
        self._others: tuple[str, ...] = ()
        self._loaded: dict[str, bytes] = {}
        self._sought: dict[str, set[str]] = {}
        self._timings: dict[str, float] = {}

    def run(self, jobs: int | None, executor: Executor | None, cache: str | None, alone: bool = False) -> None:
        """Find out about every file, from the cache or anew."""
        self._scan_all(self._files, jobs, executor, cache)
        offers = {name for each in self._scanned.values() for name in each.offers}
        if self._project is not None and offers and not alone:
            others = self._reaching(offers, self._project)
            self._others = tuple(map(self._scope.shown, others[:_MOST_OTHERS]))
            if len(others) > _MOST_OTHERS:
                self._is_whole = False
                left = len(others) - _MOST_OTHERS
                message = f"{left} more files here may reach into those named, and were not scanned; scan this folder as a whole"
                self._diagnostics.append(Diagnostic(self._scope.shown(self._project), message, severity=Severity.NOTE))
            self._scan_all(self._others, jobs, executor, None)

    def _reaching(self, offers: set[str], project: str) -> list[str]:
        """The other files of a project that may reach into those named."""
        from modelguard.scan.dependents import dependents

        key = self._files[0]
        if self._kept is not None and key in self._kept.others:
            return self._kept.others[key]

        def content(path: str) -> bytes:
            # It can take long to look through a project.
            self._progress(len(self._scanned), len(self._files))
            return as_bytes(self._content(path))

        found = dependents(offers, project, self._files, self._settings.for_path, content)
        if self._kept is not None:
            self._kept.others[key] = found
        return found

    def _scan_all(self, files: Sequence[str], jobs: int | None, executor: Executor | None, cache: str | None) -> None:
        groups: dict[Options, list[str]] = {}
        for path in files:
            settings = self._settings.for_path(path)
            options = Options(settings.entry_points, settings.module_bases, settings.follow)
            groups.setdefault(options, []).append(path)
        kept = None
        for options, paths in groups.items():
            recall = None
            regular = [path for path in paths if os.path.isfile(path)]
            if cache is not None and len(regular) >= _WORTH_RECALLING:
                from modelguard.scan.cache import Cache
                from modelguard.scan.recall import Recall

                start = time.perf_counter()
                kept = kept or Cache(cache)
                recall = Recall(kept, regular, self._scope, self._roots, options, self._given)
                self._scanned.update(recall.known())
                self._spent({"cache": time.perf_counter() - start})
            waiting = [path for path in paths if path not in self._scanned]
            self._progress(len(self._scanned), len(self._files))
            if not waiting:
                continue
            self._scan(waiting, options, jobs, executor, hashing=recall is not None)
            if recall is not None:
                start = time.perf_counter()
                recall.keep([self._scanned[path] for path in waiting], self._loaded, self._sought)
                self._spent({"cache": time.perf_counter() - start})
        if kept is not None:
            kept.close()
            self._diagnostics += [Diagnostic(kept.folder, complaint) for complaint in kept.complaints]

    def _scan(self, paths: Sequence[str], options: Options, jobs: int | None, executor: Executor | None, hashing: bool) -> None:
        most = min(_cores() if jobs is None else jobs, len(paths))
        if executor is not None or (most > 1 and _size(paths) > _WORTH_SHARING):
            from modelguard.scan import jobs as sharing

            tasks = sharing.tasks(paths, self._scope, self._roots, options, self._given)
            lost = sharing.spread(tasks, self._done, executor, most)
            paths = [path for task in lost for path in task.paths]
        if paths:
            analysis = Analysis(self._scope, self._roots, options, self._given, hashing, self._kept)
            with prepared():
                for path in paths:
                    self._done((analysis.scan(path),))
            self._done((), analysis.timings, analysis.loaded, analysis.sought)

    def _done(
        self,
        scanned: Sequence[Scanned],
        timings: Mapping[str, float] = _NOTHING,
        loaded: Mapping[str, bytes] = _NOTHING,
        sought: Mapping[str, set[str]] = _NOTHING,
    ) -> None:
        self._scanned.update((each.path, each) for each in scanned)
        self._loaded.update(loaded)
        for package, names in sought.items():
            self._sought.setdefault(package, set()).update(names)
        self._spent(timings)
        self._progress(len(self._scanned), len(self._files))

    def _spent(self, timings: Mapping[str, float]) -> None:
        for stage, seconds in timings.items():
            self._timings[stage] = self._timings.get(stage, 0.0) + seconds

    def report(self) -> ScanReport:
        """Judge what was seen."""
        start = time.perf_counter()
        scanned = [self._scanned[path] for path in self._files]
        others = [self._scanned[path] for path in self._others]
        by_file: dict[str, list[Finding]] = {path: [] for path in self._files}
        for problem in dict.fromkeys(problem for each in scanned for problem in each.problems):
            self._take(problem, by_file)
        everything = sorted((*scanned, *others), key=lambda each: each.path)
        if any(each.writes or each.obstacles for each in everything):
            self._judge(everything, by_file)
        findings: list[Finding] = []
        for each in scanned:
            findings += self._wanted(each, by_file[each.path], self._settings.for_path(each.path))
        cells = {each.path: each.cells for each in (*scanned, *others) if each.cells}
        if cells:
            from modelguard.scan.notebooks import located

            findings = [located(finding, cells) for finding in findings]
        self._spent({"rules": time.perf_counter() - start})
        return ScanReport(
            tuple(sorted(findings, key=lambda finding: finding.sort_key)),
            tuple(self._diagnostics),
            sum(bool(each.lines) for each in scanned),
            sum(each.module_classes for each in scanned),
            sum(each.entry_points for each in scanned),
            sum(each.lines for each in scanned),
            self._timings,
            failing(findings, self._settings),
            tuple(each.path for each in scanned if not each.problems),
        )

    def _judge(self, scanned: Sequence[Scanned], by_file: Mapping[str, list[Finding]]) -> None:
        """Add what the rules say to the findings of the files that it concerns."""
        from modelguard.scan.judging import finding_of, finding_of_obstacle, merge, merge_obstacle

        seconds: dict[str, float] = {}
        merged: dict[tuple[object, ...], StateWrite] = {}
        obstacles: dict[tuple[object, ...], Obstacle] = {}
        for each in scanned:
            for write in each.writes:
                if write.location.path in by_file:
                    merge(merged, write)
            for obstacle in each.obstacles:
                if obstacle.location.path in by_file:
                    merge_obstacle(obstacles, obstacle)
        for write in sorted(merged.values(), key=lambda write: (write.location, write.path)):
            finding = finding_of(write, self._settings.for_path(write.location.path), seconds)
            if finding is not None:
                by_file[write.location.path].append(finding)
        for obstacle in sorted(obstacles.values(), key=lambda obstacle: obstacle.location):
            path = obstacle.location.path
            by_file[path].append(finding_of_obstacle(obstacle, self._settings.for_path(path)))
        self._spent({f"rule {code}": spent for code, spent in sorted(seconds.items()) if spent})

    def _wanted(self, scanned: Scanned, findings: Sequence[Finding], settings: Settings) -> list[Finding]:
        """The findings of one file that are wanted and not suppressed."""
        wanted = [finding for finding in findings if settings.selects(finding.code, scanned.path)]
        if len(wanted) > 1:
            from modelguard.scan.judging import once

            wanted = once(wanted)
        if not scanned.suppressions:
            return wanted
        kept = apply(
            scanned.path,
            wanted,
            scanned.suppressions,
            self._lines(scanned.path),
            lambda code: settings.selects(code, scanned.path),
            scanned.cells,
        )
        return kept if self._is_whole or not scanned.offers else [_unsure(finding) for finding in kept]

    def _content(self, path: str) -> str | bytes:
        given = self._given.get(os.path.abspath(path))
        return read_source(path) if given is None else given

    def _lines(self, path: str) -> list[str]:
        try:
            return text_of(self._content(path), path).split("\n")
        except SourceError:
            return []

    def _take(self, problem: Problem, by_file: Mapping[str, list[Finding]]) -> None:
        """Report what kept the analysis from a file that is scanned."""
        message = problem.message
        if problem.kind in ("unread", "partly"):
            if problem.path in by_file:
                from modelguard.rules.mg901_unparsable_file import UnparsableFile

                rule, line = UnparsableFile, problem.line or 1
                said = rule.message(message) if problem.kind == "unread" else message
                location = Location(problem.path, line, 1, line, 1)
                by_file[problem.path].append(Finding(rule.code, rule.name, rule.severity, said, location))
            return
        severity = Severity.NOTE if problem.kind == "foreign" else Severity.ERROR
        if problem.kind == "internal":
            message = f"internal error, so that this file was not scanned: {message}; run with --verbose for the traceback"
        self._diagnostics.append(Diagnostic(problem.path, message, severity=severity, detail=problem.detail))


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _untold(done: int, total: int) -> None:
    """Progress that nobody wants to hear of."""


def _settled(settings: Settings | SettingsFor | None) -> SettingsFor:
    return OneForAll(settings or Settings()) if settings is None or isinstance(settings, Settings) else settings


def _size(paths: Sequence[str]) -> int:
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))


def _project(path: str, settings: Settings) -> str | None:
    """The folder of the project that a file belongs to: that of its settings, or the top of its repository."""
    if settings.root is not None:
        return settings.root
    folder = os.path.dirname(os.path.abspath(path))
    while not is_repository(folder):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def _is_whole(folder: str, settings: Settings) -> bool:
    """Whether a folder holds all of its project."""
    project = _project(os.path.join(folder, "any"), settings)
    return project is None or project == os.path.abspath(folder) or is_below(project, os.path.abspath(folder))


def _unsure(finding: Finding) -> Finding:
    """A finding about a suppression where files that were not looked at may lead to what it suppresses."""
    if finding.fix is None:
        return finding
    message = f"{finding.fix.message}: files that were not scanned may lead to what it suppresses"
    return replace(finding, fix=Fix(message, Applicability.UNSAFE, finding.fix.edits))


def _surroundings(path: str) -> str:
    """The folder whose files count as a file's own project where there is no sign of one."""
    here, folder = os.getcwd(), os.path.dirname(os.path.abspath(path))
    return here if is_below(folder, here) else folder

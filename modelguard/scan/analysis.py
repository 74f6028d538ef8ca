"""The analysis of one file after another, in one process: what is read and worked out for one serves the next."""

from __future__ import annotations

import ast
import gc
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from modelguard.errors import SourceError
from modelguard.findings import Cell
from modelguard.observation import Obstacle, StateWrite
from modelguard.scan.bindings import FunctionNode
from modelguard.scan.dependencies import Wanted, digest, imports_of
from modelguard.scan.dependents import offered
from modelguard.scan.extraction import Copies, extract
from modelguard.scan.files import as_bytes, is_notebook, plain_line_ends, read_source, read_text, text_of
from modelguard.scan.kept import Kept, Read, Stamp, stamp
from modelguard.scan.modules import ModuleFiles
from modelguard.scan.project import Project
from modelguard.scan.recorder import Recorder
from modelguard.scan.scope import Scope
from modelguard.scan.symbols import ClassInfo, Method, Opened, SourceFile
from modelguard.scan.walk import Walk, World
from modelguard.suppressions import read
from modelguard.suppressions.reading import Suppression

_RECURSION = 6_000
"""Python frames allowed while a file is parsed and walked: deep, but not bottomless, input is looked at."""

_TIDY = 8
"""Files after which the garbage of their walks is collected."""

CHANGED = "this file changed while it was scanned; run the scan again"


class Options(NamedTuple):
    """What changes what the analysis sees; see `Settings` for each."""

    entry_points: tuple[str, ...]
    module_bases: tuple[str, ...] = ()
    follow: bool | tuple[str, ...] = True


class Problem(NamedTuple):
    """Something that kept the analysis from a file, or from a part of it.

    `kind` is `unread` for what cannot be read or parsed, `partly` for what is too much to be followed to its end and for a cell
    that does not parse, `foreign` for a notebook in another language, `changed` for a file that is another by now, `internal` for
    a fault of modelguard's own, with the traceback as `detail`.
    """

    kind: str
    path: str
    line: int | None
    message: str
    detail: str = ""


class Scanned(NamedTuple):
    """What was found in one file: the writes and obstacles of its entry points, wherever in the project they lie.

    `offers` are its classes and functions by which other files may reach writes in it; `cells` are those of a notebook.
    """

    path: str
    digest: bytes
    lines: int
    module_classes: int
    entry_points: int
    writes: tuple[StateWrite, ...]
    obstacles: tuple[Obstacle, ...]
    problems: tuple[Problem, ...]
    imports: tuple[Wanted, ...]
    offers: tuple[str, ...]
    suppressions: tuple[Suppression, ...]
    cells: tuple[Cell, ...]


class Base(NamedTuple):
    """What a scan of the file at `path` worked out of the others, for the next scan of the same file.

    `key` is all that it depends on besides the contents of files, whose `stamps` stand by their absolute paths.
    """

    key: tuple[object, ...]
    stamps: dict[str, Stamp | None]
    project: Project
    world: World
    file: SourceFile


class Analysis:
    """Scans files one by one. What it finds in one depends on that file and what it imports, not on those scanned before."""

    def __init__(
        self,
        scope: Scope,
        roots: Sequence[str],
        options: Options,
        given: Mapping[str, str | bytes] | None = None,
        hashing: bool = True,
        kept: Kept | None = None,
    ) -> None:
        self.timings: dict[str, float] = {"facts": 0.0, "walk": 0.0}
        self.loaded: dict[str, bytes] = {}
        """The hashes of all files that were read, by absolute path; with `hashing` only, since few scans need them."""
        self._hashing = hashing
        self._scope = scope
        self._options = options
        self._given = given or {}
        self._opened = Opened()
        self._kept = kept
        self._stamps: dict[str, Stamp | None] = {}
        self._copies = Copies() if kept is None else kept.copies
        self._suppressions: dict[str, tuple[Suppression, ...]] = {}
        self._cells: dict[str, tuple[Cell, ...]] = {}
        self._problems: list[Problem] = []
        self._changed: set[str] = set()
        self._roots = tuple(roots)
        self._entry_names = (*sorted(options.entry_points), "__call__")
        self._settle(Project(self._load, ModuleFiles(roots, options.follow), options.module_bases))
        self._since_tidy = 0

    def _settle(self, project: Project) -> None:
        """Start with what is known of a project."""
        self._project = project
        self.sought = project.sought
        parsed = None if self._kept is None else self._kept.parsed
        self._world = World(project, frozenset(self._options.entry_points), self._scope, parsed)

    def scan(self, path: str) -> Scanned:
        """Parse a file, and walk its entry points."""
        self._problems = []
        self._changed = set()
        absolute = os.path.abspath(path)
        if self._kept is not None:
            self._resume(self._kept, path, absolute)
        classes = entries = 0
        writes: list[StateWrite] = []
        obstacles: list[Obstacle] = []
        file: SourceFile | None = None
        try:
            file = self._open(path, absolute)
            start = time.perf_counter()
            self._world.next_file()
            for info in self._project.classes(file):
                if not info.is_module:
                    continue
                classes += 1
                found = list(self._entries(info))
                entries += len({name for name, _ in found})
                for name, method in found:
                    recorder = self._walk(info, name, method)
                    writes += [write for write in recorder.state_writes() if write.location.path in self._scope]
                    obstacles += [each for each in recorder.obstacles.values() if each.location.path in self._scope]
            self.timings["walk"] += time.perf_counter() - start
        except SourceError as error:
            self._problems.append(Problem("unread", path, error.line, error.message))
        except Exception as error:
            what = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
            self._problems.append(Problem("internal", path, None, what, traceback.format_exc()))
        if file is not None:
            file.syntax = {}
        if self._kept is not None:
            self._leave(self._kept, path, file)
        self._tidy()
        return Scanned(
            path,
            self.loaded.get(absolute, b""),
            file.facts.lines if file is not None else 0,
            classes,
            entries,
            tuple(writes),
            tuple(obstacles),
            tuple(self._problems),
            imports_of(file.facts) if file is not None else (),
            offered(file.facts, self._options.entry_points) if file is not None else (),
            self._suppressions.get(absolute, ()),
            self._cells.get(absolute, ()),
        )

    def _resume(self, kept: Kept, path: str, absolute: str) -> None:
        """Go on from what the scan of this file before this one worked out of other files, if all that is as it was."""
        base = kept.base
        if not isinstance(base, Base) or self._project.paths or base.key != self._key(path):
            return
        others = {each: before for each, before in base.stamps.items() if each != absolute}
        if all(stamp(each, self._given.get(each)) == before for each, before in others.items()):
            rest = base.project.without(absolute, self._load)
            if rest is not None:
                self._stamps = others
                self._settle(rest)
                self._world.take_over(base.world, base.file)

    def _leave(self, kept: Kept, path: str, file: SourceFile | None) -> None:
        """Leave what this scan worked out to the next one of the same file; if that is broken, what is there already holds on."""
        kept.asked |= self._project.paths
        if kept.alone and file is not None:
            kept.base = Base(self._key(path), self._stamps, self._project, self._world, file)

    def _key(self, path: str) -> tuple[object, ...]:
        return path, self._roots, self._options, self._scope.signature

    def _entries(self, info: ClassInfo) -> Iterator[tuple[str, Method | None]]:
        """The entry points of a module class, and its `__call__`, which runs around them; None for one that is assigned."""
        for name in self._entry_names:
            method = info.method(name)
            if method is not None:
                yield name, method
            if info.assigning(name) is not None or info.stores(name, self._scope):
                yield name, None

    def _walk(self, info: ClassInfo, name: str, method: Method | None) -> Recorder:
        label = f"{info.name}.{name}"
        recorder = Recorder(label)
        walk = Walk(self._world, recorder)
        message = None
        try:
            walk.region(info, name, method)
        except RecursionError:
            message = f"`{label}` is nested too deeply to be analysed in full; split its longest expression or if-chain"
        if walk.cut_short:
            message = f"`{label}` makes too many calls to be followed in full; what the last of them write is not seen"
        where, line = (method.owner.file.path, method.facts.line) if method is not None else (info.file.path, info.facts.line)
        if message is not None and where in self._scope:
            self._problems.append(Problem("partly", where, line, message))
        return recorder

    def _open(self, path: str, absolute: str) -> SourceFile:
        """The file to scan, with its syntax at hand where it was not read before."""
        known = self._project.known(absolute)
        if known is not None:
            return known
        start = time.perf_counter()
        file = self._read(path, absolute, keep=True)
        self._project.add(file)
        self.timings["facts"] += time.perf_counter() - start
        return file

    def _load(self, absolute: str) -> SourceFile | None:
        """A file that a scanned one needs: what is wrong with it is not that one's matter."""
        try:
            return self._read(self._scope.shown(absolute), absolute, keep=False)
        except SourceError:
            return None

    def _read(self, path: str, absolute: str, keep: bool) -> SourceFile:
        given = self._given.get(absolute)
        found = None
        # What else a notebook holds is told each time.
        kept = None if is_notebook(path) else self._kept
        if kept is not None:
            self._stamps[absolute] = stamp(absolute, given)
            found = kept.find(path, self._stamps[absolute])
        functions: dict[int, FunctionNode] = {}
        text = ""
        if found is None:
            content = read_source(path) if given is None else given
            if self._hashing:
                self.loaded[absolute] = digest(as_bytes(content))
            text = plain_line_ends(self._code(as_bytes(content), path, absolute)) if is_notebook(path) else text_of(content, path)
            facts, functions = extract(path, text, _parse(text, path), self._copies)
            found = Read(facts, read(text), hash(text))
            if kept is not None:
                kept.keep(path, self._stamps[absolute], found)
        if found.suppressions:
            self._suppressions[absolute] = found.suppressions
        file = SourceFile(path, found.facts, self._reader(path, given, text, found.known), self._opened)
        if keep:
            file.syntax = functions
        return file

    def _code(self, content: bytes, path: str, absolute: str) -> str:
        """The code of a notebook, which nothing imports: it is read only to be scanned."""
        from modelguard.scan import notebooks

        notebook = notebooks.read(content, path)
        self._cells[absolute] = notebook.cells
        self._problems += [Problem("partly", path, fault.line, fault.message) for fault in notebook.faults]
        if notebook.language is not None:
            self._problems.append(Problem("foreign", path, None, f"skipped: this notebook is written in {notebook.language}"))
        return notebook.text

    def _reader(self, path: str, given: str | bytes | None, text: str, known: int) -> Callable[[], str]:
        """How to get the text of a file once more."""
        if given is not None:
            return lambda: text if is_notebook(path) else text_of(given, path)
        # What comes from a pipe comes once.
        return (lambda: self._again(path, known)) if os.path.isfile(path) else (lambda: text)

    def _again(self, path: str, known: int) -> str:
        """The text of a file whose facts are known already."""
        try:
            text = read_text(path)
            if hash(text) == known:
                return text
        except SourceError:
            pass
        if path not in self._changed:
            self._changed.add(path)
            self._problems.append(Problem("changed", path, None, CHANGED))
        raise SourceError(path, None, CHANGED)

    def _tidy(self) -> None:
        self._since_tidy += 1
        if self._since_tidy >= _TIDY:
            self._since_tidy = 0
            gc.collect()
            # Facts stay, and need not be looked at again.
            gc.freeze()


class _Prepared:
    """The state of the interpreter in which files are analysed, shared by the threads that are at it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._undo = ExitStack()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._enter()
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._undo.close()

    def _enter(self) -> None:
        limit = sys.getrecursionlimit()
        self._undo.callback(sys.setrecursionlimit, limit)
        sys.setrecursionlimit(max(limit, _RECURSION))
        self._undo.callback(gc.unfreeze)
        # Syntax trees hold no cycles: looking for garbage between millions of their nodes would only cost time.
        if gc.isenabled():
            self._undo.callback(gc.enable)
            gc.disable()
        self._undo.enter_context(warnings.catch_warnings())
        # What the parser warns of in a scanned file is another linter's matter.
        warnings.simplefilter("ignore")


prepared = _Prepared()
"""A context in which to scan: `with prepared(): ...`."""


def _parse(text: str, path: str) -> ast.Module:
    try:
        return ast.parse(text, path)
    except SyntaxError as error:
        raise SourceError(path, error.lineno, error.msg) from None
    except ValueError as error:
        raise SourceError(path, None, str(error)) from None
    except (RecursionError, MemoryError):
        raise SourceError(path, None, "nested too deeply to parse") from None

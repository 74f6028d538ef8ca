"""Which results of earlier scans still hold: those for which neither the file nor anything it depends on has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence

from modelguard.errors import SourceError
from modelguard.scan.analysis import Options, Scanned
from modelguard.scan.cache import Cache, Imports, decode, stamp
from modelguard.scan.dependencies import closures, digest, imported_files, imports_in
from modelguard.scan.files import as_bytes, plain_line_ends, read_source
from modelguard.scan.files import decode as decode_source
from modelguard.scan.modules import ModuleFiles
from modelguard.scan.scope import Scope

_CLOCK = 0.02
"""Seconds by which the time of a file system may be behind."""

_NOTHING: Mapping[str, Iterable[str]] = {}


class Recall:
    """The files of a scan that share `options`, and what the cache holds of them."""

    def __init__(
        self,
        cache: Cache,
        paths: Sequence[str],
        scope: Scope,
        roots: Sequence[str],
        options: Options,
        given: Mapping[str, str | bytes],
    ) -> None:
        self._cache = cache
        self._given = given
        self._paths = {os.path.abspath(path): path for path in paths}
        self._scope = scope
        self._roots = roots
        self._options = options
        self._began = time.time() - _CLOCK
        said = repr((os.getcwd(), roots, scope.signature, options))
        self._run = digest(stamp(), said.encode("utf-8", "surrogatepass"))
        self._files = cache.files(self._run)
        self._kept = set(self._files)
        self._digests: dict[str, bytes | None] = {}

    def known(self) -> dict[str, Scanned]:
        """The results that still hold, by path."""
        results = self._cache.results(self._run)
        self._kept.update(results)
        if not results:
            return {}
        keys = self._keys({})
        found = {}
        for absolute, path in self._paths.items():
            key, text = results.get(path, (None, b""))
            if key is not None and key == keys.get(absolute):
                scanned = decode(text)
                if scanned is not None and scanned.path == path:
                    found[path] = scanned
        return found

    def keep(
        self, scanned: Iterable[Scanned], loaded: Mapping[str, bytes], sought: Mapping[str, Iterable[str]] = _NOTHING
    ) -> None:
        """Write new results. `loaded` are the hashes of all files as the scan read them, `sought` are the modules that it looked
        for in packages without an import that names them, by the paths of the packages.

        Where a file is another by now, or came or went meanwhile, nothing is kept: what was found may hold for neither.
        """
        fresh = [each for each in scanned if not each.problems]
        known = {os.path.abspath(each.path): Imports(each.digest, each.imports) for each in fresh}
        self._digests.clear()
        keys = self._keys(known, sought)
        if any(known[path].digest != self._digests[path] for path in known if path in self._paths):
            return
        if any(self._now(path) != hashed for path, hashed in loaded.items()):
            return
        if any(_touched(path, self._began) for path in self._digests if path not in loaded):
            return
        new = {path: imports for path, imports in self._files.items() if path in self._digests}
        gone = [path for path in self._kept if path not in self._digests and not os.path.lexists(path)]
        self._cache.keep(self._run, new, [(keys[os.path.abspath(each.path)], each) for each in fresh], gone)

    def _keys(self, known: Mapping[str, Imports], sought: Mapping[str, Iterable[str]] = _NOTHING) -> dict[str, bytes]:
        """For each file the hash of what its result depends on; `known` and `sought` were just found out."""
        modules = ModuleFiles(self._roots, self._options.follow)
        own: dict[str, bytes] = {}
        imported: dict[str, list[str]] = {}
        waiting = list(self._paths)
        while waiting:
            path = waiting.pop()
            if path in imported:
                continue
            imports = self._imports(path, known)
            if imports is not None and path in sought:
                imports = self._files[path] = imports._replace(below=tuple(sorted({*imports.below, *sought[path]})))
            shown = self._scope.shown(path)
            below = imports.below if imports is not None else ()
            imported[path] = imported_files(modules, shown, imports.wanted, below) if imports is not None else []
            name = shown.encode("utf-8", "surrogateescape")
            content = imports.digest if imports is not None else b""
            own[path] = digest(name, content, bytes((shown in self._scope,)), "\n".join(below).encode("utf-8", "surrogateescape"))
            waiting.extend(imported[path])
        return closures(own, imported)

    def _imports(self, path: str, known: Mapping[str, Imports]) -> Imports | None:
        """What the file at `path` imports now; None where it cannot be read."""
        try:
            content = self._read(path)
        except SourceError:
            self._digests[path] = None
            return None
        hashed = digest(content)
        self._digests[path] = hashed
        for source in (known, self._files):
            found = source.get(path)
            if found is not None and found.digest == hashed:
                self._files[path] = found
                return found
        try:
            wanted = imports_in(plain_line_ends(decode_source(content, path)))
        except SourceError:
            wanted = ()
        self._files[path] = Imports(hashed, wanted)
        return self._files[path]

    def _now(self, path: str) -> bytes | None:
        """The hash of a file as it is now."""
        if path not in self._digests:
            try:
                return digest(self._read(path))
            except SourceError:
                return None
        return self._digests[path]

    def _read(self, path: str) -> bytes:
        return as_bytes(self._given[path]) if path in self._given else read_source(path)


def _touched(path: str, since: float) -> bool:
    """Whether a file was made or changed since a time, under this name."""
    try:
        return os.stat(path).st_ctime > since
    except OSError:
        return True

"""What earlier scans found, on disk: an SQLite file that several scans may use at once, and that may be lost at any time.

A cache never changes a result and never ends a scan: whatever goes wrong with it is remarked once, and the scan goes on without.
Every row carries a hash of itself, by which damage shows.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from modelguard import __version__
from modelguard.errors import ModelguardError
from modelguard.scan.analysis import Scanned
from modelguard.scan.dependencies import Wanted, digest

_FILE = "scans.sqlite"
_TAG = "CACHEDIR.TAG"
_IGNORE = ".gitignore"
_OWN = frozenset((_TAG, _IGNORE, *(_FILE + end for end in ("", "-journal", "-wal", "-shm"))))
_MARK = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of modelguard; `modelguard clean` removes it.\n"
_WAIT = 5.0
"""Seconds that a scan waits for another one to finish writing."""

_RUNS = 32
"""Kinds of runs that are kept: of more, those go that were not asked for the longest."""

_OLD = "SELECT run FROM runs WHERE run <> ? ORDER BY used DESC LIMIT -1 OFFSET ?"
_DAY = 86_400_000_000_000
"""In nanoseconds."""

_SURROUNDINGS = ("locked", "busy", "full", "readonly", "unable to open", "disk I/O")
"""Words of errors that are not the file's own fault."""

_TABLES = (
    "CREATE TABLE runs (run BLOB PRIMARY KEY, used INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE files (run BLOB, path BLOB, digest BLOB, imports BLOB, seal BLOB, PRIMARY KEY (run, path)) WITHOUT ROWID",
    "CREATE TABLE results (run BLOB, path BLOB, key BLOB, scanned BLOB, seal BLOB, PRIMARY KEY (run, path)) WITHOUT ROWID",
)


class CacheError(ModelguardError):
    """A cache cannot be used; the message says why."""


class Imports(NamedTuple):
    """What a file of some content imports. `below` are modules that were looked for in it, where it is a package."""

    digest: bytes
    wanted: tuple[Wanted, ...]
    below: tuple[str, ...] = ()


class Cache:
    """An open cache. `complaints` are sentences on what went wrong with it."""

    def __init__(self, folder: str) -> None:
        """Open the cache in `folder`, which is made where it is missing."""
        self.folder = folder
        self.complaints: list[str] = []
        self._connection: sqlite3.Connection | None = None
        self._path = os.path.join(folder, _FILE)
        try:
            _take(folder)
            if os.path.lexists(self._path) and not os.path.isfile(self._path):
                raise CacheError(f"{_FILE} in it is no file")
            self._connection = _connected(self._path)
        except Exception as error:
            self._fail(error)

    def files(self, run: bytes) -> dict[str, Imports]:
        """What a kind of run knows of files, by their absolute paths."""
        decoder = msgspec.msgpack.Decoder(tuple[tuple[Wanted, ...], tuple[str, ...]])
        found = {}
        for path, hashed, imports in self._rows("files", "digest, imports", run):
            with suppress(msgspec.DecodeError):
                found[path] = Imports(hashed, *decoder.decode(imports))
        return found

    def results(self, run: bytes) -> dict[str, tuple[bytes, bytes]]:
        """The results of a kind of run: by path as shown, the hash of what each depends on, and its text for `decode`."""
        return {path: (key, scanned) for path, key, scanned in self._rows("results", "key, scanned", run)}

    def keep(
        self,
        run: bytes,
        files: Mapping[str, Imports],
        results: Iterable[tuple[bytes, Scanned]],
        gone: Iterable[str] = (),
    ) -> None:
        """Write, in one go, what files import, and the results with the hashes of what they depend on; forget what is `gone`."""
        known = _sealed(run, ((path, each.digest, (each.wanted, each.below)) for path, each in files.items()))
        found = _sealed(run, ((scanned.path, key, scanned) for key, scanned in results))
        left = [(run, os.fsencode(path)) for path in gone]
        # A damaged file is noticed when it is written to, at the latest: then this goes into a new one.
        for _ in range(2):
            if self._connection is None:
                return
            try:
                with self._connection:
                    self._connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?)", (run, time.time_ns()))
                    old = self._connection.execute(_OLD, (run, _RUNS - 1)).fetchall()
                    for table, rows in (("files", known), ("results", found)):
                        self._connection.executemany(f"DELETE FROM {table} WHERE run = ? AND path = ?", left)
                        self._connection.executemany(f"DELETE FROM {table} WHERE run = ?", old)
                        self._connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?)", rows)
                    self._connection.executemany("DELETE FROM runs WHERE run = ?", old)
                return
            except Exception as error:
                self._fail(error)

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _rows(self, table: str, columns: str, run: bytes) -> list[tuple[str, bytes, bytes]]:
        """The rows of a run; none where one is not as it was written, because then the others may be in the wrong place."""
        if self._connection is None:
            return []
        found = []
        try:
            self._note_use(run)
            query = f"SELECT path, {columns}, seal FROM {table} WHERE run = ?"
            for path, first, second, seal in self._connection.execute(query, (run,)).fetchall():
                if digest(run, path, first, second) != seal:
                    raise sqlite3.DatabaseError("a row is damaged")
                found.append((os.fsdecode(path), first, second))
        except Exception as error:
            self._fail(error)
            return []
        return found

    def _note_use(self, run: bytes) -> None:
        """Tell a run that is only read from one that nobody asks for; once a day is enough."""
        assert self._connection is not None
        now = time.time_ns()
        old = self._connection.execute("SELECT 1 FROM runs WHERE run = ? AND used < ?", (run, now - _DAY)).fetchone()
        if old is not None:
            with suppress(sqlite3.OperationalError), self._connection:
                self._connection.execute("UPDATE runs SET used = ? WHERE run = ?", (now, run))

    def _fail(self, error: Exception) -> None:
        """Go on with a new file where this one is damaged, else without a cache.

        What a damaged file makes SQLite say may be anything, and need not even be text.
        """
        self.close()
        if not _is_of_surroundings(error):
            try:
                self._connection = _anew(self._path)
                return
            except Exception as another:
                error = another
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self.complaints.append(f"this cache cannot be used, and the scan went on without: {reason}")


def _is_of_surroundings(error: Exception) -> bool:
    """Whether a new file would fare no better."""
    if isinstance(error, sqlite3.OperationalError):
        return any(word in str(error) for word in _SURROUNDINGS)
    return isinstance(error, (OSError, CacheError))


def decode(scanned: bytes) -> Scanned | None:
    """A result as it was kept; None where it is none."""
    try:
        return msgspec.msgpack.decode(scanned, type=Scanned)
    except (msgspec.DecodeError, ValueError):
        return None


def is_cache(folder: str) -> bool:
    """Whether a folder was made by `Cache`."""
    path = os.path.join(folder, _TAG)
    if not os.path.isfile(path):
        return False
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read() == _MARK
    except OSError:
        return False


def remove(folder: str) -> bool:
    """Remove a cache; False where its folder stays because it holds other things."""
    # The tag goes last: what is left of a removal that was stopped is still known for a cache.
    for name in (*sorted(_OWN - {_TAG}), _TAG):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    if os.listdir(folder):
        return False
    if os.path.islink(folder):
        os.rmdir(os.path.realpath(folder))
        os.unlink(folder)
    else:
        os.rmdir(folder)
    return True


def stamp() -> bytes:
    """A hash that tells this modelguard and Python from any other whose results may differ."""
    parts = [f"{__version__} {sys.version}"]
    # Builds from a repository share a version.
    for folder, folders, names in os.walk(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                parts.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    return digest(*(part.encode("utf-8", "surrogateescape") for part in parts))


def _sealed(run: bytes, rows: Iterable[tuple[str, bytes, object]]) -> list[tuple[bytes, ...]]:
    """Rows as they are written, each with the hash of itself; what has no bytes (half of a surrogate pair) is left out."""
    encode = msgspec.msgpack.Encoder().encode
    sealed: list[tuple[bytes, ...]] = []
    for path, first, content in rows:
        with suppress(UnicodeError):
            row = (run, os.fsencode(path), first, encode(content))
            sealed.append((*row, digest(*row)))
    return sealed


def _take(folder: str) -> None:
    """Make a folder a cache, unless it is one or holds other things. What a scan that was stopped left of one is taken too."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise CacheError("this is no folder; name another by --cache-dir")
    os.makedirs(folder, exist_ok=True)
    if is_cache(folder):
        return
    if not _OWN.issuperset(os.listdir(folder)):
        raise CacheError("this folder holds other things; name another by --cache-dir")
    with suppress(FileExistsError), open(os.path.join(folder, _IGNORE), "x", encoding="ascii") as stream:
        stream.write("*\n")
    with open(os.path.join(folder, _TAG), "w", encoding="ascii") as stream:
        stream.write(_MARK)


def _connected(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_WAIT)
    try:
        connection.text_factory = bytes
        # Nothing in it is worth waiting for the disk.
        connection.execute("PRAGMA synchronous = OFF")
        if not _has_tables(connection):
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                # Another scan may have made them meanwhile.
                if not _has_tables(connection):
                    for table in _TABLES:
                        connection.execute(table)
    except BaseException:
        connection.close()
        raise
    return connection


def _has_tables(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there, and not there yet in a new file."""
    found = [row[0] for row in connection.execute("SELECT sql FROM sqlite_master")]
    if found and sorted(found) != sorted(table.encode() for table in _TABLES):
        raise sqlite3.DatabaseError("these are the tables of another program")
    return bool(found)


def _anew(path: str) -> sqlite3.Connection:
    """An empty file in place of one that is damaged, or another program's: nothing in it is worth more than a scan."""
    for end in ("", "-journal", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path + end)
    return _connected(path)

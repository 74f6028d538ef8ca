"""What earlier scans found, on disk: an SQLite file that several scans may use at once, and that may be lost at any time.

A cache never changes a result and never ends a scan: whatever goes wrong with it is remarked once, and the scan goes on without.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from modelguard import __version__
from modelguard.errors import ModelguardError
from modelguard.scan.analysis import Scanned
from modelguard.scan.dependencies import Wanted

FOLDER = ".modelguard_cache"
_FILE = "scans.sqlite"
_MARK = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache of modelguard; `modelguard clean` removes it.\n"
_WAIT = 5.0
"""Seconds that a scan waits for another one to finish writing."""

_TABLES = """
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, digest BLOB NOT NULL, imports BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS results (run BLOB, path TEXT, key BLOB NOT NULL, scanned BLOB NOT NULL, PRIMARY KEY (run, path))
    WITHOUT ROWID;
"""


class CacheError(ModelguardError):
    """A cache cannot be used; the message says why."""


class Imports(NamedTuple):
    """What a file of some content imports."""

    digest: bytes
    wanted: tuple[Wanted, ...]


class Cache:
    """An open cache. `complaints` are sentences on what went wrong with it."""

    def __init__(self, folder: str) -> None:
        """Open the cache in `folder`, which is made where it is missing."""
        self.folder = folder
        self.complaints: list[str] = []
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = self._open()
        except (OSError, sqlite3.Error, CacheError) as error:
            self._give_up(error)

    def files(self) -> dict[str, Imports]:
        """What is known of files, by their absolute paths."""
        rows = self._read("SELECT path, digest, imports FROM files", ())
        decoder = msgspec.msgpack.Decoder(tuple[Wanted, ...])
        found = {}
        for path, digest, imports in rows:
            try:
                found[path] = Imports(digest, decoder.decode(imports))
            except (msgspec.DecodeError, TypeError):
                continue
        return found

    def results(self, run: bytes) -> dict[str, tuple[bytes, bytes]]:
        """The results of a kind of run: by path as shown, the hash of what each depends on, and its text for `decode`."""
        rows = self._read("SELECT path, key, scanned FROM results WHERE run = ?", (run,))
        return {path: (key, scanned) for path, key, scanned in rows}

    def keep(self, run: bytes, files: Mapping[str, Imports], results: Iterable[tuple[bytes, Scanned]]) -> None:
        """Write, in one go, what files import and the results with the hashes of what they depend on."""
        if self._connection is None:
            return
        encoder = msgspec.msgpack.Encoder()
        try:
            with self._connection:
                self._connection.executemany(
                    "INSERT OR REPLACE INTO files VALUES (?, ?, ?)",
                    [(path, imports.digest, encoder.encode(imports.wanted)) for path, imports in files.items()],
                )
                self._connection.executemany(
                    "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)",
                    [(run, scanned.path, key, encoder.encode(scanned)) for key, scanned in results],
                )
        except (sqlite3.Error, UnicodeError) as error:
            self._give_up(error)

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        if os.path.lexists(self.folder):
            if not is_cache(self.folder):
                raise CacheError("this folder holds other things; name another by --cache-dir")
        else:
            _make(self.folder)
        path = os.path.join(self.folder, _FILE)
        try:
            return self._connect(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            # Not a database, or a damaged one: nothing in it is worth more than a scan.
            os.unlink(path)
            return self._connect(path)

    def _connect(self, path: str) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=_WAIT)
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] != _version():
                with connection:
                    connection.execute("DROP TABLE IF EXISTS files")
                    connection.execute("DROP TABLE IF EXISTS results")
                    connection.execute(f"PRAGMA user_version = {_version()}")
            connection.executescript(_TABLES)
        except BaseException:
            connection.close()
            raise
        return connection

    def _read(self, query: str, values: tuple[object, ...]) -> list[tuple[str, bytes, bytes]]:
        if self._connection is None:
            return []
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def _give_up(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self.complaints.append(f"this cache cannot be used, and the scan went on without: {reason}")
        self.close()


def decode(scanned: bytes) -> Scanned | None:
    """A result as it was kept; None where it is none."""
    try:
        return msgspec.msgpack.decode(scanned, type=Scanned)
    except (msgspec.DecodeError, ValueError):
        return None


def is_cache(folder: str) -> bool:
    """Whether a folder was made by `Cache`."""
    try:
        with open(os.path.join(folder, "CACHEDIR.TAG"), encoding="ascii", errors="replace") as stream:
            return stream.read() == _MARK
    except OSError:
        return False


def _make(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    for name, text in (("CACHEDIR.TAG", _MARK), (".gitignore", "*\n")):
        with open(os.path.join(folder, name), "w", encoding="ascii") as stream:
            stream.write(text)


def _version() -> int:
    """A number for the versions of modelguard and Python that wrote a cache: others read nothing of it."""
    from zlib import crc32

    return crc32(f"{__version__} {sys.version}".encode()) >> 1

"""Which files a scan reads, and their text."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from modelguard.errors import SourceError
from modelguard.findings import Diagnostic, Severity
from modelguard.settings import is_plain_name

_BOM = b"\xef\xbb\xbf"
_SUFFIX = ".py"
_DECLARE = "save it as UTF-8, or declare its encoding in the first line: # -*- coding: latin-1 -*-"


class Discovery(NamedTuple):
    """The files to scan, sorted, each once; and what stood in the way."""

    files: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def discover(paths: Sequence[str | os.PathLike[str]], exclude: Sequence[str] = ()) -> Discovery:
    """Files named in `paths` as they are, and all Python files below the directories among them that `exclude` leaves.

    A file that several ways lead to is taken once, by a way that follows no link where there is one.
    """
    walk = _Walk(exclude)
    roots = {os.path.normpath(os.fspath(path)) for path in paths}
    for root in sorted(roots, key=lambda root: (len(root), root)):
        walk.add_root(root)
    walk.follow_links()
    return Discovery(tuple(sorted(walk.found.values())), tuple(walk.diagnostics))


class _Walk:
    """Walks the roots without following links, then what the links lead to."""

    def __init__(self, exclude: Sequence[str]) -> None:
        self.found: dict[str, str] = {}
        """Real path to the path to show."""
        self.diagnostics: list[Diagnostic] = []
        self._exclude = exclude
        self._seen = 0
        self._directories: set[str] = set()
        self._links: list[tuple[str, _Excluded]] = []

    def add_root(self, path: str) -> None:
        if os.path.isdir(path):
            excluded = _excluded_below(path, self._exclude)
            real = os.path.realpath(path)
            walked = real in self._directories
            before = self._seen
            self._add_tree(path, real, excluded)
            if self._seen == before and not walked:
                self.diagnostics.append(Diagnostic(path, f"no Python file in this directory{excluded.remark}"))
        elif os.path.exists(path):
            self._add_file(path, os.path.realpath(path))
        elif os.path.islink(path):
            self._refuse(path, f"this link leads nowhere: {os.readlink(path)} does not exist")
        else:
            self._refuse(path, "no such file or directory; check the spelling and the working directory")

    def follow_links(self) -> None:
        while self._links:
            links = sorted(self._links, key=lambda link: link[0])
            self._links.clear()
            for path, excluded in links:
                self._follow(path, os.path.realpath(path), excluded)

    def _follow(self, path: str, real: str, excluded: _Excluded) -> None:
        if os.path.isdir(real):
            self._add_tree(path, real, excluded)
        elif not path.endswith(_SUFFIX):
            return
        elif os.path.isfile(real):
            self.found.setdefault(real, path)
        elif not os.path.basename(path).startswith(".#"):  # Emacs' locks are links that lead nowhere.
            self.diagnostics.append(Diagnostic(path, "this link leads nowhere, or in a circle; remove or exclude it"))

    def _add_file(self, path: str, real: str) -> None:
        self._seen += 1
        known = self.found.get(real)
        if known is None or (len(path), path) < (len(known), known):
            self.found[real] = path

    def _add_tree(self, path: str, real: str, excluded: _Excluded) -> None:
        pending = [(path, real)]
        while pending:
            path, real = pending.pop()
            if real in self._directories:
                continue
            self._directories.add(real)
            try:
                with os.scandir(path) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError as error:
                self._refuse(path, f"cannot list this directory: {error.strerror}; its files were not scanned")
                continue
            for entry in entries:
                shown = entry.name if path == os.curdir else os.path.join(path, entry.name)
                self._add_entry(entry, shown, os.path.join(real, entry.name), excluded, pending)

    def _add_entry(
        self, entry: os.DirEntry[str], shown: str, real: str, excluded: _Excluded, pending: list[tuple[str, str]]
    ) -> None:
        is_python = entry.name.endswith(_SUFFIX)
        if entry.is_symlink():
            is_directory = os.path.isdir(shown)
            if (is_python or is_directory) and not excluded(entry.name, shown, is_directory):
                self._seen += 1
                self._links.append((shown, excluded))
        elif entry.is_dir():
            if not excluded(entry.name, shown, True):
                pending.append((shown, real))
        elif is_python and entry.is_file() and not excluded(entry.name, shown, False):
            self._add_file(shown, real)

    def _refuse(self, path: str, message: str) -> None:
        self.diagnostics.append(Diagnostic(path, message, severity=Severity.ERROR))


class _Excluded:
    """Answers whether an entry below one root is excluded, and counts how many were."""

    def __init__(self, names: frozenset[str], matches: Callable[[str], bool] | None, base: str) -> None:
        self._names = names
        self._matches = matches
        self._base = base
        self._count = 0

    def __call__(self, name: str, path: str, is_directory: bool) -> bool:
        hit = name in self._names
        if not hit and self._matches is not None:
            relative = os.path.relpath(path, self._base).replace(os.sep, "/")
            hit = self._matches(relative + "/" if is_directory else relative)
        self._count += hit
        return hit

    @property
    def remark(self) -> str:
        return f" ({self._count} excluded)" if self._count else ""


def _excluded_below(root: str, exclude: Sequence[str]) -> _Excluded:
    names = frozenset(pattern for pattern in exclude if is_plain_name(pattern))
    if len(names) == len(set(exclude)):
        return _Excluded(names, None, root)
    from pathspec import GitIgnoreSpec

    # The order of patterns matters once one of them takes back what another excludes.
    taken_back = any(pattern.startswith("!") for pattern in exclude)
    spec = GitIgnoreSpec.from_lines(exclude if taken_back else [p for p in exclude if not is_plain_name(p)])
    relative = os.path.relpath(root) + "/" if _is_below_here(root) else ""
    # A directory that was asked for by name is scanned, whatever the patterns say of it.
    base = os.curdir if relative and not spec.match_file(relative.replace(os.sep, "/")) else root
    return _Excluded(frozenset() if taken_back else names, spec.match_file, base)


def _is_below_here(path: str) -> bool:
    here = os.getcwd()
    absolute = os.path.abspath(path)
    return absolute == here or absolute.startswith(here.rstrip(os.sep) + os.sep)


def read_source(path: str) -> bytes:
    """The bytes of a file."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SourceError(path, None, f"cannot read this file: {reason}; check its permissions or exclude it") from None


def decode(source: bytes, path: str = "<unknown>") -> str:
    """The text of Python source: as UTF-8, or as a byte order mark or a PEP 263 declaration says. Line ends stay as they are."""
    if source.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceError(path, 1, "this file is UTF-16, which Python does not read; save it as UTF-8")
    if b"\0" in source:
        message = "this file holds a NUL byte, so it is not Python source; restore it or exclude it"
        raise SourceError(path, _line_of(source, source.index(b"\0")), message)
    encoding = _declared_encoding(source, path)
    try:
        return source.decode(encoding)
    except UnicodeDecodeError as error:
        line = _line_of(error.object, error.start)
        message = f"byte 0x{error.object[error.start]:02x} is not valid {encoding.removesuffix('-sig')}; {_DECLARE}"
        raise SourceError(path, line, message) from None
    except (LookupError, UnicodeError) as error:
        raise SourceError(path, 1, f"cannot decode this file as {encoding}: {error}; {_DECLARE}") from None


def plain_line_ends(text: str) -> str:
    """`text` with its line ends, as Python counts them, as `\\n`: a form feed or a Unicode separator is none."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def split_lines(text: str) -> list[str]:
    """The lines of `text`, without line ends."""
    return plain_line_ends(text).split("\n")


def _line_of(source: bytes, offset: int) -> int:
    return source.count(b"\n", 0, offset) + 1


def _declared_encoding(source: bytes, path: str) -> str:
    end = source.find(b"\n", source.find(b"\n") + 1)
    if b"coding" not in (source if end < 0 else source[:end]):
        return "utf-8-sig" if source.startswith(_BOM) else "utf-8"
    from io import BytesIO
    from tokenize import detect_encoding

    try:
        return detect_encoding(BytesIO(source).readline)[0]
    except SyntaxError as error:
        raise SourceError(path, None, f"{error.msg}; {_DECLARE}") from None

"""Which files a scan reads, and their text."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from typing import NamedTuple

from modelguard.errors import SourceError
from modelguard.findings import Diagnostic, Severity
from modelguard.scan.excludes import Excludes, leaves_out
from modelguard.settings import Settings

_BOM = b"\xef\xbb\xbf"
_NOTEBOOK = ".ipynb"
_SUFFIXES = (".py", _NOTEBOOK)
_NOBODY_WRITES = 10.0
"""Seconds to wait for somebody who writes into a pipe."""

_DECLARE = "save it as UTF-8, or declare its encoding in the first line: # -*- coding: latin-1 -*-"


def _nothing_excluded(path: str) -> Settings:
    return Settings(exclude=(), respect_gitignore=False)


class Discovery(NamedTuple):
    """The files to scan, sorted, each once; and what stood in the way."""

    files: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def discover(
    paths: Sequence[str | os.PathLike[str]], for_path: Callable[[str], Settings] = _nothing_excluded, force_exclude: bool = False
) -> Discovery:
    """Files named in `paths` as they are, and all Python files below the directories among them that the settings leave.

    `for_path` gives the settings of a path. With `force_exclude` they hold for what is named in `paths` too. A file that several
    ways lead to is taken once, by a way that follows no link where there is one.
    """
    walk = _Walk(for_path)
    roots = {_normal(os.fspath(path)) for path in paths}
    for root in sorted(roots, key=lambda root: (len(root), root)):
        if not (force_exclude and leaves_out(root, for_path)):
            walk.add_root(root)
    walk.follow_links()
    return Discovery(tuple(sorted(walk.found.values())), tuple(walk.diagnostics))


def unscanned(path: str) -> str | None:
    """Why a file of this name is not scanned, even if it is named on its own; None for all others."""
    return "skipped: a stub holds no code that runs; name the module itself" if path.endswith(".pyi") else None


def is_notebook(path: str) -> bool:
    """Whether a file holds code in cells."""
    return path.endswith(_NOTEBOOK)


def _normal(path: str) -> str:
    """`path` without detours; where a `..` leads back through a link, that is not the way it came."""
    normal = os.path.normpath(path)
    return path if os.pardir in path and os.path.realpath(path) != os.path.realpath(normal) else normal


class _Walk:
    """Walks the roots without following links, then what the links lead to."""

    def __init__(self, for_path: Callable[[str], Settings]) -> None:
        self.found: dict[str, str] = {}
        """Real path to the path to show."""
        self.diagnostics: list[Diagnostic] = []
        self._for_path = for_path
        self._here = os.path.realpath(os.curdir)
        self._seen = 0
        self._directories: set[str] = set()
        self._links: list[tuple[str, Excludes]] = []

    def add_root(self, path: str) -> None:
        if os.path.isdir(path):
            self._add_directory(path)
        elif os.path.exists(path):
            reason = unscanned(path)
            if reason is None:
                self._add_file(path, os.path.realpath(path))
            else:
                self.diagnostics.append(Diagnostic(path, reason))
        elif os.path.islink(path):
            self._refuse(path, f"this link leads nowhere: {os.readlink(path)} does not exist")
        else:
            self._refuse(path, "no such file or directory; check the spelling and the working directory")

    def follow_links(self) -> None:
        while self._links:
            links = sorted(self._links, key=lambda link: link[0])
            self._links.clear()
            for path, excludes in links:
                self._follow(path, os.path.realpath(path), excludes)

    def _add_directory(self, path: str) -> None:
        excludes = Excludes(path, self._for_path)
        real = os.path.realpath(path)
        walked = real in self._directories
        before = self._seen
        self._add_tree(path, real, excludes)
        if self._seen == before and not walked:
            excluded = f" ({excludes.count} excluded)" if excludes.count else ""
            self.diagnostics.append(Diagnostic(path, f"no Python file in this directory{excluded}"))

    def _follow(self, path: str, real: str, excludes: Excludes) -> None:
        if os.path.isdir(real):
            self._add_tree(path, real, excludes)
        elif not path.endswith(_SUFFIXES):
            return
        elif os.path.isfile(real):
            self._add_file(path, real)
        elif not os.path.basename(path).startswith(".#"):  # Emacs' locks are links that lead nowhere.
            self.diagnostics.append(Diagnostic(path, "this link leads nowhere, or in a circle; remove or exclude it"))

    def _add_file(self, path: str, real: str) -> None:
        self._seen += 1
        known = self.found.get(real)
        if known is None or self._detour(path, real) < self._detour(known, real):
            self.found[real] = path

    def _detour(self, path: str, real: str) -> tuple[bool, int, str]:
        """By how much a path to the file `real` is worse than another: it follows a link, it is longer, or it comes later."""
        return os.path.normpath(os.path.join(self._here, path)) != real, len(path), path

    def _add_tree(self, path: str, real: str, excludes: Excludes) -> None:
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
            excluded = excludes.of(path)
            for entry in entries:
                shown = entry.name if path == os.curdir else os.path.join(path, entry.name)
                if entry.is_symlink():
                    is_directory = os.path.isdir(shown)
                    if (entry.name.endswith(_SUFFIXES) or is_directory) and not excluded(entry.name, is_directory):
                        self._seen += 1
                        self._links.append((shown, excludes))
                elif entry.is_dir():
                    if not excluded(entry.name, True):
                        pending.append((shown, os.path.join(real, entry.name)))
                elif entry.name.endswith(_SUFFIXES) and entry.is_file() and not excluded(entry.name, False):
                    self._add_file(shown, os.path.join(real, entry.name))

    def _refuse(self, path: str, message: str) -> None:
        self.diagnostics.append(Diagnostic(path, message, severity=Severity.ERROR))


def read_source(path: str) -> bytes:
    """The bytes of a file."""
    try:
        if hasattr(os, "O_NONBLOCK") and stat.S_ISFIFO(os.stat(path).st_mode):
            return _read_pipe(path)
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SourceError(path, None, f"cannot read this file: {reason}; check its permissions or exclude it") from None


def _read_pipe(path: str) -> bytes:
    """All that comes out of a pipe, which nobody has to have opened for writing yet, but somebody must soon."""
    import select

    # Opened in the usual way, a pipe that nobody ever writes into would be waited for for ever.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as stream:
        waiting, _, _ = select.select([stream], [], [], _NOBODY_WRITES)
        start = stream.read(1)
        if not waiting and start == b"":
            raise SourceError(path, None, f"nobody wrote into this pipe in {_NOBODY_WRITES:g} seconds; start its writer first")
        os.set_blocking(stream.fileno(), True)
        return (start or b"") + stream.read()


def decode(source: bytes, path: str = "<unknown>") -> str:
    """The text of Python source: as UTF-8, or as a byte order mark or a PEP 263 declaration says. Line ends stay as they are.

    Of a notebook, by its name, it is the code of all cells.
    """
    if is_notebook(path):
        from modelguard.scan import notebooks

        return notebooks.read(source, path).text
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


def read_text(path: str) -> str:
    """The text of a file, its line ends as `\\n`."""
    return text_of(read_source(path), path)


def text_of(content: str | bytes, path: str) -> str:
    """The text of what a file holds, its line ends as `\\n`; what is text already declares no encoding."""
    return plain_line_ends(content.removeprefix("\ufeff") if isinstance(content, str) else decode(content, path))


def as_bytes(content: str | bytes) -> bytes:
    """What a file with this content would hold, if it declares no encoding."""
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content


def encode(text: str, before: bytes, path: str) -> bytes:
    """`text` as the bytes of a file that held `before`, in the same encoding; in a notebook only the cells that changed are."""
    if is_notebook(path):
        from modelguard.scan import notebooks

        return notebooks.put_back(text, before, path)
    return text.encode(_declared_encoding(before, path))


def encoding_of(source: bytes, path: str) -> str:
    """The encoding that `decode` reads a file in."""
    return _declared_encoding(source, path)


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

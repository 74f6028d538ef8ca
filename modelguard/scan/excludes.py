"""What a scan leaves out: by the patterns of the settings, and by what git ignores."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from modelguard.settings import Settings, git_spec, with_slashes

Leaves = Callable[[str, bool], bool]
"""Says of an entry of one directory, by its name and whether it is a directory itself, if it is left out."""

_ANYWHERE, _BY_NAME = -1, 0


class Patterns:
    """Patterns of a .gitignore, seen from the folder `base`. Of those that fit an entry the last decides.

    They are asked of an entry only where the folders above it are not left out, and so must fit the entry itself. `named` is a
    folder below `base` that a person asked for; what fits all in it leaves nothing of it out. What is no pattern fits nothing.
    """

    def __init__(self, lines: Sequence[str], base: str, named: str | None = None) -> None:
        self._base = base
        self._excludes = [not line.startswith("!") for line in lines]
        self._literal: dict[str, int] = {}
        """Patterns without wildcards, which are most of a long list, are looked up; matching takes all others in turn."""
        self._wild: dict[int, _Wild] = {}
        grouped: dict[int, dict[int, str]] = {}
        for at, line in enumerate(lines):
            literal = _literal(line)
            if literal is None:
                grouped.setdefault(_depth(line), {})[at] = _inside_only(line)
            elif literal:
                self._literal[literal] = at
        for depth, members in grouped.items():
            spared = _relative(named, base) if named is not None and depth == _ANYWHERE else None
            self._wild[depth] = _Wild(members, spared)
        self._by_name_alone = not self._wild and not any("/" in literal for literal in self._literal)

    def of(self, folder: str) -> Callable[[str, bool], bool | None]:
        """Says of the entries of a folder if they are left out; None where no pattern fits."""
        prefix = "" if self._by_name_alone else _relative(folder, self._base)
        by_name = self._wild.get(_BY_NAME)
        by_path = [self._wild[depth] for depth in (prefix.count("/") + 1, _ANYWHERE) if depth in self._wild]

        def says(name: str, is_directory: bool) -> bool | None:
            at = self._literal.get(name, -1)
            if not self._by_name_alone:
                path = f"{prefix}{name}"
                at = max(at, self._literal.get(f"/{path}", -1))
                if is_directory:
                    name, path = f"{name}/", f"{path}/"
                    at = max(at, self._literal.get(name, -1), self._literal.get(f"/{path}", -1))
                if by_name is not None:
                    at = max(at, by_name.last_that_fits(name))
                for wild in by_path:
                    at = max(at, wild.last_that_fits(path))
            return self._excludes[at] if at >= 0 else None

        return says


class _Wild:
    """Patterns with wildcards, by their places among all patterns, without those that leave out all of `spared`."""

    def __init__(self, lines: Mapping[int, str], spared: str | None) -> None:
        if not _are_valid(lines.values()):
            lines = {at: line for at, line in lines.items() if _are_valid([line])}
        # The matcher's own search lets a pattern for a folder give way to one for files, whichever comes last.
        self._fits = [
            (at, pattern.regex.search)
            for at, pattern in zip(lines, git_spec(lines.values()).patterns, strict=True)
            if pattern.regex is not None and not (spared and pattern.include and pattern.regex.search(spared))
        ]
        self._fits.reverse()

    def last_that_fits(self, path: str) -> int:
        """The place of the last pattern that fits, or -1."""
        for at, fits in self._fits:
            match = fits(path)
            # One that ends before is of a folder above, which something else took back.
            if match is not None and (match.end() == len(path) or "/" not in path[:-1]):
                return at
        return -1


@lru_cache(maxsize=64)
def patterns(exclude: tuple[str, ...], base: str, named: str | None = None) -> Patterns:
    """The patterns `exclude` of settings, seen from the folder `base`."""
    return Patterns([with_slashes(pattern) for pattern in exclude], base, named)


class Excludes:
    """What is left out below one root, and how much that was. The settings of each directory hold for what lies in it."""

    def __init__(self, root: str, for_path: Callable[[str], Settings]) -> None:
        self.count = 0
        self._root = os.path.abspath(root)
        self._for_path = for_path
        self._ignored = GitIgnored(root)
        here = os.getcwd()
        self._seen_from = here if _lies_in(self._root, here) else self._root

    def of(self, directory: str) -> Leaves:
        """What is left out of a directory."""
        settings = self._for_path(directory)
        base = settings.root or self._seen_from
        named = self._root if is_below(self._root, base) else None
        excluded = patterns(settings.exclude, base, named).of(directory)
        ignored = self._ignored.of(directory) if settings.respect_gitignore else None

        def leaves(name: str, is_directory: bool) -> bool:
            hit = excluded(name, is_directory) or (ignored is not None and ignored(name, is_directory))
            self.count += hit
            return hit

        return leaves


def leaves_out(path: str, for_path: Callable[[str], Settings]) -> bool:
    """Whether a path that was named on its own, or a folder above it, is left out: as it would be on a walk from above.

    Where there are no settings above the working directory, no folder above that counts: it can have any name.
    """
    here = os.getcwd()
    current = os.path.abspath(path)
    is_directory = os.path.isdir(current)
    elsewhere = not _lies_in(current, here) and not _lies_in(here, current)
    while True:
        folder, name = os.path.split(current)
        settings = for_path(folder)
        base = settings.root or here
        if not (elsewhere or is_below(current, here) or is_below(current, base)):
            return False
        if patterns(settings.exclude, base).of(folder)(name, is_directory):
            return True
        current, is_directory, elsewhere = folder, True, False


class GitIgnored:
    """What git ignores below `root`: each repository by its own files, and nothing outside of one.

    `root` was asked for, and so is not ignored itself. What only one person's git ignores everywhere is not known here.
    """

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)
        self._known: dict[str, tuple[Patterns, ...] | None] = {}

    def of(self, directory: str) -> Leaves | None:
        """What is ignored in a directory; None where nothing is."""
        # Of the directory, not of its entries: a link is ignored by its own name.
        folder = os.path.realpath(directory)
        deciding = [each.of(folder) for each in self._files(folder) or ()]
        if not deciding:
            return None

        def leaves(name: str, is_directory: bool) -> bool:
            for says in deciding:
                said = says(name, is_directory)
                if said is not None:
                    return said
            return False

        return leaves

    def _files(self, folder: str) -> tuple[Patterns, ...] | None:
        """The ignore files that count in a folder, its own first; None outside of a repository."""
        passed = []
        while folder not in self._known:
            passed.append(folder)
            if is_repository(folder) or folder == os.path.dirname(folder):
                break
            folder = os.path.dirname(folder)
        files = self._known.get(folder)
        for folder in reversed(passed):
            if is_repository(folder):
                files = self._read(folder, os.path.join(folder, ".git", "info", "exclude"))
            if files is not None:
                files = self._read(folder, os.path.join(folder, ".gitignore")) + files
            self._known[folder] = files
        return files

    def _read(self, folder: str, path: str) -> tuple[Patterns, ...]:
        """The ignore file at `path`, which counts from `folder` on, if there is one."""
        if not os.path.isfile(path):
            return ()
        try:
            with open(path, encoding="utf-8-sig", errors="surrogateescape") as stream:
                lines = stream.read().split("\n")
        except OSError:
            return ()
        return (Patterns(lines, folder, self._root if is_below(self._root, folder) else None),)


def _literal(line: str) -> str | None:
    """A pattern without wildcards as it is looked up: a name, or a path that begins with a slash; with a slash at the end where
    only a directory fits. Empty for a line that is no pattern; None for any other pattern.
    """
    if not line.strip() or line.startswith("#"):
        return ""
    text = line.removeprefix("!")
    if text != text.strip() or text.startswith("!") or "//" in text or any(sign in text for sign in "\\*?["):
        return None
    return text if "/" not in text.rstrip("/") else "/" + text.lstrip("/")


def _depth(pattern: str) -> int:
    """How many names deep a path lies that `pattern` fits; a pattern without a slash fits by the last name alone."""
    text = pattern.removeprefix("!").rstrip("/ ")
    if text.startswith("/**"):
        text = text[1:]
    if "/" not in text.removeprefix("**/"):
        return _BY_NAME
    return _ANYWHERE if "**" in text else text.strip("/").count("/") + 1


def _inside_only(pattern: str) -> str:
    """`pattern`, which if it ends in `/**` fits what lies in a folder: not the folder too, as the matcher has it."""
    ending = next((ending for ending in ("/**", "/**/") if pattern.endswith(ending)), None)
    return pattern.removesuffix("/") + "/*" + ending[3:] if ending else pattern


def _are_valid(lines: Iterable[str]) -> bool:
    try:
        git_spec(lines)
    except (ValueError, re.error, Warning):
        return False
    return True


def is_repository(folder: str) -> bool:
    """Whether a folder is the top of a repository."""
    return os.path.exists(os.path.join(folder, ".git"))


def _relative(folder: str, base: str) -> str:
    """`folder` from `base`, with slashes and one at the end; empty if they are the same."""
    relative = os.path.relpath(folder, base)
    return "" if relative == os.curdir else relative.replace(os.sep, "/") + "/"


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or is_below(path, folder)


def is_below(path: str, folder: str) -> bool:
    """Whether an absolute path lies below a folder."""
    return path.startswith(folder.rstrip(os.sep) + os.sep) and path != folder

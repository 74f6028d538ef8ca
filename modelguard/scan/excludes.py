"""What a scan leaves out below a directory: by the patterns of the settings, and by what git ignores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from modelguard.settings import Settings, is_plain_name, with_slashes

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

Leaves = Callable[[str, str, bool], bool]
"""Says of an entry, by its name, its path and whether it is a directory, if it is left out."""


class Excludes:
    """What is left out below one root, and how much that was. The settings of each directory hold for what lies in it."""

    def __init__(self, root: str, for_path: Callable[[str], Settings]) -> None:
        self.count = 0
        self._root = root
        self._for_path = for_path
        self._ignored = GitIgnored(root)
        self._patterns: dict[tuple[tuple[str, ...], str | None], Leaves] = {}

    def of(self, directory: str) -> Leaves:
        """What is left out of a directory."""
        settings = self._for_path(directory)
        key = (settings.exclude, settings.root)
        excluded = self._patterns.get(key)
        if excluded is None:
            excluded = self._patterns[key] = patterns(settings.exclude, self._root, settings.root)
        ignored = self._ignored.of(directory) if settings.respect_gitignore else None

        def leaves(name: str, path: str, is_directory: bool) -> bool:
            hit = excluded(name, path, is_directory) or (ignored is not None and ignored(name, path, is_directory))
            self.count += hit
            return hit

        return leaves


def patterns(exclude: tuple[str, ...], root: str, base: str | None = None) -> Leaves:
    """What `exclude` leaves out below `root`; `base` is the folder that the patterns are seen from, where it is known."""
    names = frozenset(pattern for pattern in exclude if is_plain_name(pattern))
    if len(names) == len(set(exclude)):
        return lambda name, path, is_directory: name in names
    from pathspec import GitIgnoreSpec

    # The order of patterns matters once one of them takes back what another excludes.
    taken_back = any(pattern.startswith("!") for pattern in exclude)
    spec = GitIgnoreSpec.from_lines([with_slashes(pattern) for pattern in exclude if taken_back or not is_plain_name(pattern)])
    seen_from = base if base is not None else _base(root, spec)
    plain: frozenset[str] = frozenset() if taken_back else names

    def leaves(name: str, path: str, is_directory: bool) -> bool:
        if name in plain:
            return True
        relative = os.path.relpath(path, seen_from).replace(os.sep, "/")
        return spec.match_file(relative + "/" if is_directory else relative)

    return leaves


def leaves_out(path: str, settings: Settings) -> bool:
    """Whether the patterns of the settings leave out a path, or a folder above it, that was named on its own."""
    base = settings.root or os.getcwd()
    absolute = os.path.abspath(path)
    if not absolute.startswith(base.rstrip(os.sep) + os.sep):
        base = os.path.dirname(absolute)
    leaves = patterns(settings.exclude, base, base)
    current, is_directory = absolute, os.path.isdir(absolute)
    while current != base:
        if leaves(os.path.basename(current), current, is_directory):
            return True
        current, is_directory = os.path.dirname(current), True
    return False


def _base(root: str, spec: GitIgnoreSpec) -> str:
    here = os.getcwd()
    absolute = os.path.abspath(root)
    if absolute != here and not absolute.startswith(here.rstrip(os.sep) + os.sep):
        return root
    relative = os.path.relpath(root).replace(os.sep, "/") + "/"
    # A directory that was asked for by name is scanned, whatever the patterns say of it.
    return root if spec.match_file(relative) else os.curdir


class GitIgnored:
    """What the `.gitignore` files of a repository say of what lies below `root`; nothing where it is in no repository."""

    def __init__(self, root: str) -> None:
        self._specs: dict[str, tuple[tuple[str, GitIgnoreSpec], ...]] = {}
        self._top = _repository(os.path.realpath(root))

    def of(self, directory: str) -> Leaves | None:
        """What is ignored in a directory; None where nothing is."""
        if self._top is None:
            return None
        specs = self._above(os.path.realpath(directory))
        if not specs:
            return None

        def leaves(name: str, path: str, is_directory: bool) -> bool:
            # Of the directory, not of the entry: a link is ignored by its own name.
            real = os.path.join(os.path.realpath(os.path.dirname(path)), name)
            for base, spec in specs:
                relative = real[len(base) :].lstrip(os.sep).replace(os.sep, "/")
                said = spec.check_file(relative + "/" if is_directory else relative).include
                if said is not None:
                    return said
            return False

        return leaves

    def _above(self, folder: str) -> tuple[tuple[str, GitIgnoreSpec], ...]:
        """The ignore files that count in a folder, its own first."""
        known = self._specs.get(folder)
        if known is None:
            outer: tuple[tuple[str, GitIgnoreSpec], ...] = ()
            if folder != self._top and os.path.dirname(folder) != folder:
                outer = self._above(os.path.dirname(folder))
            own = _read_ignores(os.path.join(folder, ".gitignore"))
            known = ((folder, own), *outer) if own is not None else outer
            self._specs[folder] = known
        return known


def _repository(folder: str) -> str | None:
    """The top of the repository that a folder lies in."""
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def _read_ignores(path: str) -> GitIgnoreSpec | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return None
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(_valid(lines))


def _valid(lines: Sequence[str]) -> list[str]:
    """The lines that are patterns; git passes over the others, too."""
    from pathspec import GitIgnoreSpec

    kept = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        kept.append(line)
    return kept

"""What a scan is told: frozen, passed along, never global. Whoever builds it from outside checks the values here first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from modelguard.errors import SettingsError
from modelguard.findings import Severity

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

CACHE_FOLDER = ".modelguard_cache"
"""Where a project keeps what earlier scans found, unless it is told another place."""

DEFAULT_EXCLUDE = (
    ".git",
    ".hg",
    ".svn",
    ".venv",
    "venv",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".ipynb_checkpoints",
    "__pycache__",
    "node_modules",
    CACHE_FOLDER,
    "build",
    "dist",
    "site-packages",
    ".eggs",
)

DEFAULT_ENTRY_POINTS = (
    "forward",
    "forward_native",
    "forward_cuda",
    "forward_hip",
    "forward_xpu",
    "forward_cpu",
    "forward_tpu",
    "forward_oot",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """All that changes the result of a scan.

    `select` and `ignore` hold codes or beginnings of codes (`MG1`); `exclude` patterns as in a .gitignore; `module_bases` dotted
    names of classes that count as `torch.nn.Module`; `fail_on` is None where no finding fails a run; `follow` says whether the
    source of installed packages is read, or of which; `source` is the settings file and `root` its folder, both absolute, and
    both None where there is no such file.
    """

    select: tuple[str, ...] = ("MG",)
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    entry_points: tuple[str, ...] = DEFAULT_ENTRY_POINTS
    module_bases: tuple[str, ...] = ()
    training_step_captured: bool = False
    fail_on: Severity | None = Severity.WARNING
    show_notes: bool = False
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Patterns as in a .gitignore, seen from `root` or else from the working directory, each with the codes to ignore there."""
    severities: tuple[tuple[str, Severity], ...] = ()
    follow: bool | tuple[str, ...] = True
    respect_gitignore: bool = True
    baseline: str | None = None
    """The file, by its absolute path, that holds the findings which are known."""
    root: str | None = None
    source: str | None = None

    def selects(self, code: str, path: str | None = None) -> bool:
        """Whether findings of `code` are wanted, in the file `path`: the longest entry that fits decides, and between equals
        `ignore` does. What is ignored for a file is never wanted there.
        """
        wanted = _longest_fit(code, self.select) > _longest_fit(code, self.ignore)
        return wanted and (path is None or not self._ignores_there(code, path))

    def severity_of(self, code: str, severity: Severity) -> Severity:
        """The severity of a finding of `code` that its rule calls `severity`: the longest entry that fits decides."""
        fitting = [entry for entry in self.severities if code.startswith(entry[0])]
        return max(fitting, key=lambda entry: len(entry[0]))[1] if fitting else severity

    def fails(self, severity: Severity) -> bool:
        """Whether a finding of this severity fails a run."""
        return self.fail_on is not None and severity.at_least(self.fail_on)

    def shows(self, severity: Severity) -> bool:
        """Whether findings of this severity are shown to people."""
        return severity is not Severity.NOTE or self.show_notes

    def _ignores_there(self, code: str, path: str) -> bool:
        patterns = tuple(pattern for pattern, codes in self.per_file_ignores if code.startswith(codes))
        if not patterns:
            return False
        relative = seen_from(self.root or os.curdir, path)
        return relative is not None and _matcher(patterns)(relative)


def _longest_fit(code: str, prefixes: Iterable[str]) -> int:
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix)), default=0)


def seen_from(folder: str, path: str) -> str | None:
    """`path` relative to `folder`, with slashes; None if it is not below. Links are resolved only where that is needed."""
    for resolve in (os.path.abspath, os.path.realpath):
        above, whole = os.path.join(resolve(folder), ""), resolve(path)
        if os.path.normcase(whole).startswith(os.path.normcase(above)):
            return whole[len(above) :].replace(os.sep, "/")
    return None


@lru_cache(maxsize=64)
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines([with_slashes(pattern) for pattern in patterns]).match_file


def git_spec(patterns: Iterable[str]) -> GitIgnoreSpec:
    """The matcher of patterns as in a .gitignore; what is no such pattern is a ValueError, an `re.error` or a Warning."""
    import warnings

    from pathspec import GitIgnoreSpec

    with warnings.catch_warnings():
        # Python's words for what it reads otherwise than a .gitignore means it, such as `[[:alpha:]]`.
        warnings.simplefilter("error")
        return GitIgnoreSpec.from_lines(patterns)


def with_slashes(pattern: str) -> str:
    """`pattern` with the separators of Windows as slashes, so that settings mean the same everywhere.

    Only the back slash that takes a leading `#` or `!` by its letter keeps its meaning of a .gitignore.
    """
    escaped = pattern[:2] if pattern.startswith(("\\#", "\\!")) else ""
    return escaped + pattern[len(escaped) :].replace("\\", "/")


def check_codes(values: Iterable[str], known: Mapping[str, str], option: str) -> tuple[str, ...]:
    """The codes or beginnings of codes in `values`, each of which fits a code in `known` (code to name)."""
    codes = tuple(values)
    for value in codes:
        if not value or not any(code.startswith(value) for code in known):
            raise SettingsError(f"{option}: {_unknown_code(value, known)}")
    return codes


def _unknown_code(value: str, known: Mapping[str, str]) -> str:
    if not value:
        return "a code is missing; `modelguard rules` lists them."
    by_name = {name: code for code, name in known.items()}
    prefixes = {code[:length] for code in known for length in range(2, len(code) + 1)}
    if value.upper() in prefixes:
        meant: str | None = value.upper()
    else:
        meant = by_name.get(value) or nearest(value.upper(), sorted(prefixes)) or by_name.get(nearest(value, by_name) or "")
    remedy = f"did you mean {meant}?" if meant else "`modelguard rules` lists the codes."
    return f"unknown code {value!r}; {remedy}"


def check_entry_points(values: Iterable[str], option: str) -> tuple[str, ...]:
    """The method names in `values`."""
    names = tuple(values)
    for name in names:
        if not name.isidentifier():
            last = name.replace(":", ".").rpartition(".")[2].removesuffix("()")
            remedy = f"; did you mean {last!r}?" if last.isidentifier() else ""
            raise SettingsError(f"{option}: {name!r} is not the name of a method{remedy}")
    return names


def check_module_bases(values: Iterable[str], option: str) -> tuple[str, ...]:
    """The dotted class names in `values`."""
    names = tuple(values)
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise SettingsError(f"{option}: {name!r} is not a dotted class name, such as 'package.module.Base'")
    return names


def check_exclude(values: Iterable[str], option: str) -> tuple[str, ...]:
    """The patterns in `values`, in the words of a .gitignore."""
    patterns = tuple(values)
    for pattern in patterns:
        if not pattern.strip():
            raise SettingsError(f"{option}: an empty pattern excludes nothing; leave it out")
        if not is_plain_name(pattern):
            _check_pattern(pattern, option)
    return patterns


def check_file_pattern(pattern: str, option: str) -> str:
    """One pattern that says for which files something holds."""
    if not pattern.strip():
        raise SettingsError(f"{option}: an empty pattern fits no file; leave it out")
    if pattern[0] in "#!":
        escaped = "\\" + pattern
        raise SettingsError(f"{option}: {pattern!r} fits no file; if a name begins with {pattern[0]!r}, write {escaped!r}")
    _check_pattern(with_slashes(pattern), option)
    return pattern


def check_packages(values: Iterable[str], option: str) -> tuple[str, ...]:
    """The names of top-level packages in `values`."""
    names = tuple(values)
    for name in names:
        if not name.isidentifier():
            meant = name.partition(".")[0].strip().replace("-", "_")
            remedy = f"; did you mean {meant!r}?" if meant.isidentifier() else ""
            raise SettingsError(f"{option}: {name!r} is not a top-level package, by the name it is imported under{remedy}")
    return names


def is_plain_name(pattern: str) -> bool:
    """Whether `pattern` just names files or folders at any depth, so that no pattern matching is needed."""
    return pattern[0] not in "#!" and pattern == pattern.strip() and not any(sign in pattern for sign in "/\\*?[")


def _check_pattern(pattern: str, option: str) -> None:
    import re

    try:
        git_spec([pattern])
    except (ValueError, re.error, Warning) as error:
        raise SettingsError(f"{option}: {pattern!r} is not a pattern as in a .gitignore: {error}") from None


def check_fail_on(value: str, option: str) -> Severity | None:
    """The severity that `value` names, or None for `never`."""
    return None if value == "never" else check_severity(value, option, also=("never",))


def check_severity(value: str, option: str, also: tuple[str, ...] = ()) -> Severity:
    """The severity that `value` names; the words in `also` would have been allowed as well."""
    named = {severity.value: severity for severity in Severity}
    if value not in named:
        allowed = (*named, *also)
        meant = nearest(value.lower(), allowed)
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise SettingsError(f"{option}: unknown severity {value!r}, allowed are {', '.join(allowed)}{hint}")
    return named[value]


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The entry of `allowed` that `word` was most likely meant to be."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(allowed), n=1)
    return found[0] if found else None

"""Which settings hold for a path: those of the nearest settings file, below those of the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from modelguard.errors import ModelguardError, SettingsError
from modelguard.findings import Severity
from modelguard.settings import (
    Settings,
    check_entry_points,
    check_exclude,
    check_fail_on,
    check_packages,
)
from modelguard.settings_table import SettingsTable, Source, known_codes, table_at, table_in

_Value = TypeVar("_Value")

_GLOB_SIGNS = str.maketrans({sign: f"\\{sign}" for sign in "\\*?[!#"})


class Overrides(NamedTuple):
    """What the command line says; None where it says nothing.

    `select`, `exclude` and `follow_installed` replace what a file says. `extend_select`, `ignore`, `extend_exclude` and
    `entry_points` add to it, and what they say of a code goes before what the file says of it.
    """

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] | None = None
    entry_points: tuple[str, ...] | None = None
    fail_on: str | None = None
    training_captured: bool | None = None
    show_notes: bool | None = None
    follow_installed: bool | tuple[str, ...] | None = None
    respect_gitignore: bool | None = None
    baseline: str | None = None

    def check(self) -> None:
        """Refuse what means nothing, by the name of its option."""
        known_codes(self.select or (), OPTIONS["select"])
        known_codes(self.extend_select or (), OPTIONS["extend_select"])
        known_codes(self.ignore or (), OPTIONS["ignore"])
        check_exclude(self.exclude or (), OPTIONS["exclude"])
        check_exclude(self.extend_exclude or (), OPTIONS["extend_exclude"])
        check_entry_points(self.entry_points or (), OPTIONS["entry_points"])
        if self.fail_on is not None:
            check_fail_on(self.fail_on, OPTIONS["fail_on"])
        if isinstance(self.follow_installed, tuple):
            check_packages(self.follow_installed, OPTIONS["follow_installed"])
        if self.baseline == "":
            raise SettingsError(f"{OPTIONS['baseline']}: the name is empty")


NOTHING_SAID = Overrides()

OPTIONS: Mapping[str, str] = {
    "select": "--select",
    "extend_select": "--extend-select",
    "ignore": "--ignore",
    "exclude": "--exclude",
    "extend_exclude": "--exclude",
    "entry_points": "--entry-point",
    "fail_on": "--fail-on",
    "training_captured": "--training-captured",
    "show_notes": "--show-notes",
    "follow_installed": "--follow-installed",
    "respect_gitignore": "--respect-gitignore",
    "baseline": "--baseline",
}
"""What people write on the command line for each field of `Overrides`."""


class _Layers(NamedTuple):
    """What decides a setting: a key, or else the option that replaces it; then the key and the option that add to it."""

    key: str
    replacing: str | None = None
    adding_key: str | None = None
    adding: str | None = None


_LAYERS: Mapping[str, _Layers] = {
    layers.key: layers
    for layers in (
        _Layers("select", "select", "extend-select", "extend_select"),
        _Layers("ignore", adding="ignore"),
        _Layers("per-file-ignores"),
        _Layers("exclude", "exclude", "extend-exclude", "extend_exclude"),
        _Layers("entry-points", None, "extend-entry-points", "entry_points"),
        _Layers("module-bases"),
        _Layers("severities"),
        _Layers("fail-on", "fail_on"),
        _Layers("training-captured", "training_captured"),
        _Layers("show-notes", "show_notes"),
        _Layers("follow-installed", "follow_installed"),
        _Layers("respect-gitignore", "respect_gitignore"),
        _Layers("baseline", "baseline"),
    )
}


class SettingsFiles:
    """Answers which settings hold for a path. Each file is read once."""

    def __init__(self, overrides: Overrides = NOTHING_SAID, config: str | None = None, isolated: bool = False) -> None:
        """`config` is one file to use for all paths; with `isolated`, none is used."""
        if config is not None and isolated:
            raise SettingsError("--config and --isolated exclude each other")
        try:
            os.getcwd()
        except OSError:
            raise ModelguardError("the working directory does not exist any more; change to one that does") from None
        self._overrides = overrides
        overrides.check()
        self._isolated = isolated
        self._only = None if config is None else table_at(config, "--config")
        self._nearest: dict[str, SettingsTable | None] = {}
        self._merged: dict[str | None, Settings] = {}

    def for_path(self, path: str) -> Settings:
        """The settings for a file or a directory; a mistake in a settings file raises a SettingsError."""
        return self._settings(self._table(path))

    def origins(self, path: str) -> dict[str, str]:
        """Where each setting for `path` comes from: `default`, a file and line, an option, or several of these."""
        table = self._table(path)
        origins = {name: self._origin(layers, table) for name, layers in _LAYERS.items()}
        if self._settings(table).fail_on is Severity.NOTE and not self._shows_notes(table):
            origins["show-notes"] = origins["fail-on"]
        return origins

    def _origin(self, layers: _Layers, table: SettingsTable | None) -> str:
        said = [name for name in (layers.replacing, layers.adding) if name and getattr(self._overrides, name) is not None]
        if layers.replacing in said:
            return ", ".join(OPTIONS[name] for name in said)
        keys = [key for key in (layers.key, layers.adding_key) if key and table and table.says(key)]
        places = [table.source.place(key) for key in keys if table]
        if layers.key not in keys and (layers.adding_key or not (keys or said)):
            places.insert(0, "default")
        return ", ".join(places + [OPTIONS[name] for name in said])

    def _table(self, path: str) -> SettingsTable | None:
        if self._isolated or self._only is not None:
            return self._only
        whole = os.path.abspath(path)
        return self._upward(whole if os.path.isdir(whole) else os.path.dirname(whole))

    def _upward(self, folder: str) -> SettingsTable | None:
        """The settings file nearest to `folder`. What is learnt holds for all folders on the way to it."""
        passed: list[str] = []
        table = None
        while table is None:
            if folder in self._nearest:
                table = self._nearest[folder]
                break
            passed.append(folder)
            table = table_in(folder)
            if folder == os.path.dirname(folder):
                break
            folder = os.path.dirname(folder)
        self._nearest.update(dict.fromkeys(passed, table))
        return table

    def _settings(self, table: SettingsTable | None) -> Settings:
        key = table.source.path if table else None
        if key not in self._merged:
            self._merged[key] = self._merge(table)
        return self._merged[key]

    def _merge(self, table: SettingsTable | None) -> Settings:
        said, default = self._overrides, Settings()
        if table is None:
            table = SettingsTable(Source("", ""))
        source = table.source.path or None
        root = os.path.dirname(source) if source else None
        select, ignore = self._codes(table)
        if said.exclude is not None:
            exclude = _from_here(said.exclude, root)
        else:
            exclude = _first(table.exclude, default.exclude) + (table.extend_exclude or ())
        entry_points = _first(table.entry_points, default.entry_points) + (table.extend_entry_points or ())
        fail_on = _first(said.fail_on, table.fail_on, "warning")
        follow = table.follow_installed if said.follow_installed is None else said.follow_installed
        return Settings(
            select=select,
            ignore=ignore,
            exclude=_once(exclude + _from_here(said.extend_exclude or (), root)),
            entry_points=_once(entry_points + (said.entry_points or ())),
            module_bases=table.module_bases or (),
            training_step_captured=_first(said.training_captured, table.training_captured, False),
            fail_on=check_fail_on(fail_on, OPTIONS["fail_on"]),
            # A note that fails the run must be seen.
            show_notes=self._shows_notes(table) or fail_on == "note",
            per_file_ignores=table.per_file_ignores or (),
            severities=table.severities or (),
            follow=True if follow is None else follow,
            respect_gitignore=_first(said.respect_gitignore, table.respect_gitignore, True),
            baseline=_place(said.baseline, os.curdir) or _place(table.baseline, root or os.curdir),
            root=root,
            source=source,
        )

    def _codes(self, table: SettingsTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What is selected and what is ignored. Entries of a file that the command line decides otherwise are left out."""
        said = self._overrides
        select = (said.select or ()) + (said.extend_select or ())
        ignore = said.ignore or ()
        in_file: tuple[str, ...] = ()
        if said.select is None:
            in_file = _first(table.select, Settings().select) + (table.extend_select or ())
        all_ignored = tuple(code for code in table.ignore or () if not code.startswith(select)) + ignore
        all_selected = tuple(code for code in in_file if not code.startswith(ignore)) + select
        # Between equals `ignore` decides, so that such an entry selects nothing.
        return _once(code for code in all_selected if code not in all_ignored), _once(all_ignored)

    def _shows_notes(self, table: SettingsTable | None) -> bool:
        return _first(self._overrides.show_notes, table.show_notes if table else None, False)


def _first(*values: _Value | None) -> _Value:
    """The first of `values` that is one."""
    return next(value for value in values if value is not None)


def _place(path: str | None, folder: str) -> str | None:
    """The file that `path` names from `folder`, if it names one."""
    return os.path.abspath(os.path.join(folder, path)) if path else None


def _once(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _from_here(patterns: tuple[str, ...], root: str | None) -> tuple[str, ...]:
    """Patterns that were written in the working directory, as `root` sees them, which is where those of a file are seen from."""
    if root is None or root == os.getcwd():
        return patterns
    return tuple(_rebased(pattern, os.getcwd(), root) for pattern in patterns)


def _rebased(pattern: str, here: str, root: str) -> str:
    sign, bare = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    if "/" not in bare.rstrip("/") or bare.startswith("**/"):
        return pattern
    bare = bare.lstrip("/")
    above, below = os.path.join(root, ""), os.path.join(here, "")
    if below.startswith(above):
        folder = below[len(above) :].replace(os.sep, "/").translate(_GLOB_SIGNS)
        return f"{sign}/{folder}{bare}"
    folder = above[len(below) :].replace(os.sep, "/").translate(_GLOB_SIGNS)
    if above.startswith(below) and bare.startswith(folder):
        return f"{sign}/{bare[len(folder) :]}"
    return pattern

"""One settings file: what it says, checked, and the lines on which it says so."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

from modelguard.errors import SettingsError
from modelguard.findings import Severity
from modelguard.settings import (
    check_codes,
    check_entry_points,
    check_exclude,
    check_fail_on,
    check_file_pattern,
    check_module_bases,
    check_packages,
    check_severity,
    nearest,
    with_slashes,
)
from modelguard.toml_text import dotted, key_lines, loads, quoted, quoted_key

PYPROJECT = "pyproject.toml"
OWN = "modelguard.toml"

KEYS = (
    "select",
    "extend-select",
    "ignore",
    "per-file-ignores",
    "exclude",
    "extend-exclude",
    "entry-points",
    "extend-entry-points",
    "module-bases",
    "severities",
    "fail-on",
    "training-captured",
    "show-notes",
    "follow-installed",
    "respect-gitignore",
    "baseline",
)

_HABITS = {"extend-ignore": "ignore"}
"""Keys of other tools that mean one of ours, where the nearest spelling is another."""

_Value = TypeVar("_Value")


class SettingsTable(NamedTuple):
    """What one file says; None where it says nothing about a key."""

    source: Source
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] | None = None
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] | None = None
    entry_points: tuple[str, ...] | None = None
    extend_entry_points: tuple[str, ...] | None = None
    module_bases: tuple[str, ...] | None = None
    severities: tuple[tuple[str, Severity], ...] | None = None
    fail_on: str | None = None
    training_captured: bool | None = None
    show_notes: bool | None = None
    follow_installed: bool | tuple[str, ...] | None = None
    respect_gitignore: bool | None = None
    baseline: str | None = None

    def says(self, key: str) -> bool:
        """Whether the file has the key `key`."""
        return getattr(self, key.replace("-", "_")) is not None


class Source(NamedTuple):
    """The text of a settings file, and the table in it that is ours."""

    path: str
    text: str
    table: tuple[str, ...] = ()

    def place(self, *keys: str) -> str:
        """The file and line of the key that `keys` lead to, or of what is nearest above it."""
        lines = key_lines(self.text)
        whole = self.table + keys
        found = (lines[whole[:length]] for length in range(len(whole), 0, -1) if whole[:length] in lines)
        line = next(found, None)
        return shown(self.path) if line is None else f"{shown(self.path)}:{line}"

    def refuse(self, keys: tuple[str, ...], problem: str) -> NoReturn:
        """Raise what is wrong with the value that `keys` lead to."""
        name = f"{dotted(keys)}: " if keys else ""
        raise SettingsError(_one_line(f"{self.place(*keys)}: {name}{problem}"))


def table_in(folder: str) -> SettingsTable | None:
    """The settings that lie in `folder` itself."""
    own = os.path.join(folder, OWN)
    if _is_file(own):
        return _read_table(own, _text(own, _bytes(own)))
    project = os.path.join(folder, PYPROJECT)
    if not _is_file(project):
        return None
    content = _bytes(project)
    # Reading TOML costs more than all else that a scan of one file does before it parses that file.
    return _read_table(project, _text(project, content)) if b"modelguard" in content else None


def table_at(path: str, option: str) -> SettingsTable:
    """The settings in the file that a person named with `option`."""
    if not path:
        raise SettingsError(f"{option}: the name is empty; name a {PYPROJECT} or a {OWN}")
    if os.path.isdir(path):
        raise SettingsError(_one_line(f"{option}: {path} is a directory; name the file in it"))
    if not os.path.exists(path):
        raise SettingsError(_one_line(f"{option}: there is no file {path}; check the spelling and the working directory"))
    if not path.endswith(".toml"):
        raise SettingsError(_one_line(f"{option}: {path} is not a TOML file; settings are read from a {PYPROJECT} or a {OWN}"))
    whole = os.path.abspath(path)
    table = _read_table(whole, _text(whole, _bytes(whole)))
    if table is None:
        raise SettingsError(_one_line(f"{option}: {path} has no table [tool.modelguard]"))
    return table


def known_codes(values: Iterable[str], option: str) -> tuple[str, ...]:
    """The codes or beginnings of codes in `values`. The rules, which know all codes, are imported only when there are some."""
    codes = tuple(values)
    if not codes:
        return ()
    from modelguard.rules import rule_names

    return check_codes(codes, rule_names(), option)


def shown(path: str) -> str:
    """`path` as a person in the working directory would write it."""
    here = os.path.join(os.getcwd(), "")
    return path[len(here) :] if path.startswith(here) else path


def _is_file(path: str) -> bool:
    if os.path.isfile(path):
        return True
    if os.path.islink(path) and not os.path.exists(path):
        # Passed over, it would leave a run without its settings, and nobody would know.
        raise SettingsError(_one_line(f"{shown(path)}: this link leads nowhere, or in a circle; repair or remove it"))
    return False


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsError(_one_line(f"{shown(path)}: cannot read this file: {reason}; --isolated runs without it")) from None


def _text(path: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{error.object[error.start]:02x} is not valid UTF-8, as TOML must be; save the file as UTF-8"
        raise SettingsError(_one_line(f"{shown(path)}:{line}: {what}")) from None


def _read_table(path: str, text: str) -> SettingsTable | None:
    """The settings in a file's text; None if it is one that has other things in it, and no settings."""
    document = _document(path, text)
    name = os.path.basename(path)
    tool = document.get("tool")
    if name != OWN and isinstance(tool, dict) and "modelguard" in tool:
        table, source = tool["modelguard"], Source(path, text, ("tool", "modelguard"))
        if not isinstance(table, dict):
            source.refuse((), f"a table [tool.modelguard] is wanted, found {_described(table)}")
        return _Reader(source, table).read()
    source = Source(path, text)
    if name == PYPROJECT or (name != OWN and tool is not None):
        if "modelguard" in document:
            source.refuse(("modelguard",), "nothing reads this table here; call it [tool.modelguard]")
        return None
    for wrapper in ("tool", "modelguard"):
        if wrapper in document:
            source.refuse((wrapper,), f"in {name} the keys stand at the top level, outside of any [tool.modelguard]")
    return _Reader(source, document).read()


def _document(path: str, text: str) -> dict[str, Any]:
    try:
        return loads(text)
    except RecursionError:
        raise SettingsError(_one_line(f"{shown(path)}: this file nests values too deeply to be read")) from None
    except ValueError as error:
        message = str(error)
        at = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
        line = (at[1] or str(text.count("\n") + 1)) if at else None
        place = f"{shown(path)}:{line}" if line else shown(path)
        reason = message[: at.start()] if at else message
        raise SettingsError(_one_line(f"{place}: this is not valid TOML: {reason}")) from None


class _Reader:
    """Takes the values out of a table and refuses those that mean nothing."""

    def __init__(self, source: Source, table: Mapping[str, Any]) -> None:
        self._source = source
        self._table = table

    def read(self) -> SettingsTable:
        for key in self._table:
            if key not in KEYS:
                self._refuse_key(key)
        table = SettingsTable(
            source=self._source,
            select=self._texts("select", known_codes),
            extend_select=self._texts("extend-select", known_codes),
            ignore=self._texts("ignore", known_codes),
            per_file_ignores=self._per_file_ignores("per-file-ignores"),
            exclude=self._patterns("exclude"),
            extend_exclude=self._patterns("extend-exclude"),
            entry_points=self._texts("entry-points", check_entry_points),
            extend_entry_points=self._texts("extend-entry-points", check_entry_points),
            module_bases=self._texts("module-bases", check_module_bases),
            severities=self._severities("severities"),
            fail_on=self._fail_on("fail-on"),
            training_captured=self._flag("training-captured"),
            show_notes=self._flag("show-notes"),
            follow_installed=self._follow("follow-installed"),
            respect_gitignore=self._flag("respect-gitignore"),
            baseline=self._text("baseline"),
        )
        self._refuse_contradictions(table)
        return table

    def _refuse_key(self, key: str) -> NoReturn:
        plain = key.replace("_", "-").lower()
        meant = plain if plain in KEYS else _HABITS.get(plain) or nearest(plain, KEYS)
        hint = f"did you mean {meant!r}?" if meant else f"allowed are {', '.join(KEYS)}."
        self._source.refuse((key,), f"unknown key; {hint}")

    def _refuse_contradictions(self, table: SettingsTable) -> None:
        for key, codes in (("select", table.select), ("extend-select", table.extend_select)):
            for code in codes or ():
                if code in (table.ignore or ()):
                    self._source.refuse(("ignore",), f"{code} is also in {key}; take it out of one of them")
        if table.fail_on == "note" and table.show_notes is False:
            self._source.refuse(
                ("show-notes",), 'fail-on = "note" would fail runs for notes that are not shown; drop one of them'
            )

    def _texts(self, key: str, check: Callable[[Iterable[str], str], tuple[str, ...]]) -> tuple[str, ...] | None:
        return self._list((key,), self._table[key], check) if key in self._table else None

    def _patterns(self, key: str) -> tuple[str, ...] | None:
        patterns = self._texts(key, check_exclude)
        return patterns and tuple(with_slashes(pattern) for pattern in patterns)

    def _list(
        self, keys: tuple[str, ...], value: object, check: Callable[[Iterable[str], str], tuple[str, ...]]
    ) -> tuple[str, ...]:
        if not isinstance(value, list):
            items = [item.strip() for item in value.split(",")] if isinstance(value, str) else ["..."]
            form = f"{quoted_key(keys[-1])} = [{', '.join(map(quoted, items))}]"
            self._source.refuse(keys, f"a list of strings is wanted, found {_described(value)}; write {_cut(form)}")
        for number, item in enumerate(value, 1):
            if not isinstance(item, str):
                self._source.refuse(keys, f"a list of strings is wanted, found {_described(item)} as its item {number}")
        return self._checked(keys, lambda option: check(dict.fromkeys(value), option))

    def _flag(self, key: str) -> bool | None:
        value = self._table.get(key)
        if value is None or isinstance(value, bool):
            return value
        word = value.strip().lower() if isinstance(value, str) else None
        hint = f"; write {key} = {word}" if word in ("true", "false") else ""
        self._source.refuse((key,), f"true or false is wanted, found {_described(value)}{hint}")

    def _text(self, key: str) -> str | None:
        value = self._table.get(key)
        if value is None or isinstance(value, str):
            return value
        self._source.refuse((key,), f"a string is wanted, found {_described(value)}")

    def _fail_on(self, key: str) -> str | None:
        value = self._table.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self._source.refuse((key,), f'"error", "warning", "note" or "never" is wanted, found {_described(value)}')
        self._checked((key,), lambda option: check_fail_on(value, option))
        return value

    def _follow(self, key: str) -> bool | tuple[str, ...] | None:
        value = self._table.get(key)
        if value is None or isinstance(value, bool):
            return value
        if not isinstance(value, list | str):
            self._source.refuse((key,), f"true, false or a list of packages is wanted, found {_described(value)}")
        return self._list((key,), value, check_packages)

    def _per_file_ignores(self, key: str) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
        table = self._subtable(key, '"tests/*" = ["MG101"]')
        if table is None:
            return None
        return tuple(
            (self._pattern(key, pattern), self._list((key, pattern), codes, known_codes)) for pattern, codes in table.items()
        )

    def _pattern(self, key: str, pattern: str) -> str:
        return self._checked((key, pattern), lambda option: check_file_pattern(pattern, option))

    def _severities(self, key: str) -> tuple[tuple[str, Severity], ...] | None:
        table = self._subtable(key, 'MG101 = "warning"')
        if table is None:
            return None
        return tuple((code, self._severity((key, code), value)) for code, value in table.items())

    def _severity(self, keys: tuple[str, ...], value: object) -> Severity:
        self._checked(keys, lambda option: known_codes(keys[-1:], option))
        if value in ("off", "never", "none", "ignore", False):
            self._source.refuse(keys, f'{_described(value)} is no severity; to turn the code off, write ignore = ["{keys[-1]}"]')
        if not isinstance(value, str):
            self._source.refuse(keys, f'"error", "warning" or "note" is wanted, found {_described(value)}')
        return self._checked(keys, lambda option: check_severity(value, option))

    def _subtable(self, key: str, example: str) -> dict[str, Any] | None:
        value = self._table.get(key)
        if value is None or isinstance(value, dict):
            return value
        self._source.refuse((key,), f"a table is wanted, found {_described(value)}; write {key} = {{ {example} }}")

    def _checked(self, keys: tuple[str, ...], check: Callable[[str], _Value]) -> _Value:
        """What `check` makes of a value; where it refuses, the message begins with the place, which is looked for only then."""
        try:
            return check("")
        except SettingsError as error:
            self._source.refuse(keys, str(error).removeprefix(": "))


def _described(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the string {_cut(quoted(value))}"
    if isinstance(value, int | float):
        # Python refuses to write very long integers out.
        return f"the number {value}" if isinstance(value, float) or value.bit_length() < 64 else "a number"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    return "a date or time"


def _cut(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[:width] + "..."


def _one_line(message: str) -> str:
    return " ".join(message.splitlines())

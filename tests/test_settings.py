"""Settings from files: which file holds for a path, what each key does, and how mistakes are answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from modelguard.cli.main import main
from modelguard.errors import SettingsError
from modelguard.findings import Severity
from modelguard.settings import DEFAULT_ENTRY_POINTS, DEFAULT_EXCLUDE, Settings
from modelguard.settings_files import NOTHING_SAID, Overrides, SettingsFiles
from modelguard.settings_table import KEYS

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def read(text: str, overrides: Overrides = NOTHING_SAID) -> Settings:
    write("modelguard.toml", text)
    return SettingsFiles(overrides).for_path(".")


def refused(text: str, name: str = "modelguard.toml") -> str:
    write(name, text)
    with pytest.raises(SettingsError) as caught:
        SettingsFiles().for_path(".")
    message = str(caught.value)
    assert message.splitlines() == [message]
    return message


def test_without_a_file_the_defaults_hold() -> None:
    assert SettingsFiles().for_path(".") == Settings()


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        pytest.param('select = ["MG101"]', "select", ("MG101",), id="select"),
        pytest.param('extend-select = ["MG101"]', "select", ("MG", "MG101"), id="extend-select"),
        pytest.param('select = ["MG1"]\nextend-select = ["MG9"]', "select", ("MG1", "MG9"), id="select-and-extend-select"),
        pytest.param("select = []", "select", (), id="select-nothing"),
        pytest.param('ignore = ["MG108", "MG9"]', "ignore", ("MG108", "MG9"), id="ignore"),
        pytest.param(
            'per-file-ignores = { "tests/*" = ["MG1"], x = [] }',
            "per_file_ignores",
            (("tests/*", ("MG1",)), ("x", ())),
            id="per-file-ignores",
        ),
        pytest.param('exclude = ["gen"]', "exclude", ("gen",), id="exclude"),
        pytest.param('extend-exclude = ["gen"]', "exclude", (*DEFAULT_EXCLUDE, "gen"), id="extend-exclude"),
        pytest.param("exclude = ['gen\\*.py']", "exclude", ("gen/*.py",), id="exclude-back-slash"),
        pytest.param("exclude = ['\\#gen\\a']", "exclude", ("\\#gen/a",), id="exclude-escaped-sign"),
        pytest.param('module-bases = ["a.Base"]', "module_bases", ("a.Base",), id="module-bases"),
        pytest.param('entry-points = ["step"]', "entry_points", ("step",), id="entry-points"),
        pytest.param('extend-entry-points = ["step"]', "entry_points", (*DEFAULT_ENTRY_POINTS, "step"), id="extend-entry-points"),
        pytest.param('extend-entry-points = ["forward"]', "entry_points", DEFAULT_ENTRY_POINTS, id="entry-point-twice"),
        pytest.param('severities.MG1 = "note"', "severities", (("MG1", Severity.NOTE),), id="severities"),
        pytest.param('fail-on = "error"', "fail_on", Severity.ERROR, id="fail-on"),
        pytest.param('fail-on = "never"', "fail_on", None, id="fail-on-never"),
        pytest.param('fail-on = "note"', "show_notes", True, id="notes-that-fail-are-shown"),
        pytest.param("training-captured = true", "training_step_captured", True, id="training-captured"),
        pytest.param("show-notes = true", "show_notes", True, id="show-notes"),
        pytest.param("follow-installed = false", "follow", False, id="follow-installed"),
        pytest.param('follow-installed = ["timm"]', "follow", ("timm",), id="follow-installed-packages"),
        pytest.param("respect-gitignore = false", "respect_gitignore", False, id="respect-gitignore"),
        pytest.param('baseline = ""', "baseline", None, id="no-baseline"),
        pytest.param("\N{ZERO WIDTH NO-BREAK SPACE}show-notes = true", "show_notes", True, id="byte-order-mark"),
    ],
)
def test_keys(text: str, field: str, value: object, here: Path) -> None:
    found = read(text)
    assert getattr(found, field) == value
    assert found.root == str(here)
    assert found.source == str(here / "modelguard.toml")
    others = {"fail_on"} if field == "show_notes" else set()
    untouched = [name for name in Settings.__slots__ if name not in {field, "root", "source", *others}]
    assert {name: getattr(found, name) for name in untouched} == {name: getattr(Settings(), name) for name in untouched}


@pytest.mark.parametrize(
    ("said", "text", "field", "value"),
    [
        pytest.param(Overrides(select=("MG101",)), 'select=["MG9"]', "select", ("MG101",), id="select"),
        pytest.param(Overrides(select=("MG1",)), 'extend-select=["MG9"]', "select", ("MG1",), id="select-drops-extend"),
        pytest.param(Overrides(select=("MG1",)), 'ignore=["MG108", "MG9"]', "ignore", ("MG9",), id="select-what-a-file-ignores"),
        pytest.param(Overrides(extend_select=("MG101",)), 'select=["MG9"]', "select", ("MG9", "MG101"), id="extend-select"),
        pytest.param(Overrides(extend_select=("MG1",)), 'ignore=["MG108"]', "ignore", (), id="extend-select-against-ignore"),
        pytest.param(Overrides(ignore=("MG101",)), 'ignore=["MG9"]', "ignore", ("MG9", "MG101"), id="ignore"),
        pytest.param(Overrides(ignore=("MG1",)), 'select=["MG101", "MG9"]', "select", ("MG9",), id="ignore-what-a-file-selects"),
        pytest.param(Overrides(exclude=("a",)), 'exclude=["b"]\nextend-exclude=["c"]', "exclude", ("a",), id="exclude"),
        pytest.param(Overrides(extend_exclude=("a",)), 'exclude=["b"]', "exclude", ("b", "a"), id="extend-exclude"),
        pytest.param(Overrides(entry_points=("a",)), 'entry-points=["b"]', "entry_points", ("b", "a"), id="entry-points"),
        pytest.param(Overrides(fail_on="never"), 'fail-on="error"', "fail_on", None, id="fail-on"),
        pytest.param(Overrides(fail_on="note"), "show-notes=false", "show_notes", True, id="fail-on-note"),
        pytest.param(
            Overrides(training_captured=False), "training-captured=true", "training_step_captured", False, id="training"
        ),
        pytest.param(Overrides(show_notes=False), "show-notes=true", "show_notes", False, id="show-notes"),
        pytest.param(Overrides(follow_installed=()), "follow-installed=true", "follow", (), id="follow-installed"),
        pytest.param(Overrides(baseline=os.path.abspath("/a")), 'baseline="b"', "baseline", os.path.abspath("/a"), id="baseline"),
        pytest.param(Overrides(respect_gitignore=True), "respect-gitignore=false", "respect_gitignore", True, id="gitignore"),
    ],
)
def test_the_command_line_wins(said: Overrides, text: str, field: str, value: object) -> None:
    assert getattr(read(text, said), field) == value


@pytest.mark.parametrize(
    ("settings", "code", "path", "selected"),
    [
        pytest.param(Settings(), "MG101", "a.py", True, id="default"),
        pytest.param(Settings(per_file_ignores=(("tests/*", ("MG101",)),)), "MG101", "tests/a.py", False, id="pattern"),
        pytest.param(Settings(per_file_ignores=(("tests/*", ("MG101",)),)), "MG101", None, True, id="no-path"),
        pytest.param(Settings(per_file_ignores=(("tests/*", ("MG1",)),)), "MG101", "tests/a.py", False, id="beginning-of-a-code"),
        pytest.param(Settings(per_file_ignores=(("tests/*", ("MG102",)),)), "MG101", "tests/a.py", True, id="other-code"),
        pytest.param(Settings(per_file_ignores=(("tests/*", ("MG1",)),)), "MG101", "src/tests/a.py", True, id="anchored"),
        pytest.param(
            Settings(per_file_ignores=(("tests", ("MG1",)),)), "MG101", "src/tests/a/b.py", False, id="name-of-a-folder"
        ),
        pytest.param(Settings(per_file_ignores=(("*_test.py", ("MG1",)),)), "MG101", "src/a_test.py", False, id="name-of-a-file"),
        pytest.param(Settings(per_file_ignores=(("src\\gen\\*", ("MG1",)),)), "MG101", "src/gen/a.py", False, id="back-slashes"),
        pytest.param(Settings(per_file_ignores=(("*", ("MG1",)),)), "MG101", "../a.py", True, id="outside"),
        pytest.param(Settings(per_file_ignores=(("a", ("MG9",)), ("a", ("MG1",)))), "MG101", "a", False, id="any-of-several"),
        pytest.param(
            Settings(("MG101",), per_file_ignores=(("a", ("MG",)),)), "MG101", "a", False, id="longer-select-is-no-help"
        ),
        pytest.param(Settings(ignore=("MG101",), per_file_ignores=(("a", ()),)), "MG101", "b", False, id="ignored-everywhere"),
    ],
)
def test_selects(settings: Settings, code: str, path: str | None, selected: bool, here: Path) -> None:
    assert settings.selects(code, path) is selected
    if path is not None:
        assert settings.selects(code, os.path.normpath(here / path)) is selected


def test_per_file_ignores_are_seen_from_the_folder_of_the_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("sub/modelguard.toml", 'per-file-ignores."gen/*" = ["MG1"]')
    write("sub/gen/a.py", "")
    settings = SettingsFiles().for_path("sub/gen/a.py")
    assert not settings.selects("MG101", "sub/gen/a.py")
    assert settings.selects("MG101", "gen/a.py")
    monkeypatch.chdir(here / "sub" / "gen")
    assert not settings.selects("MG101", "a.py")


@posix
def test_per_file_ignores_hold_through_links(here: Path) -> None:
    write("sub/modelguard.toml", 'per-file-ignores."gen/*" = ["MG1"]')
    write("sub/gen/a.py", "")
    os.symlink("sub", "link")
    assert not SettingsFiles(config="sub/modelguard.toml").for_path(".").selects("MG101", "link/gen/a.py")


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        pytest.param("MG101", Severity.NOTE, id="code"),
        pytest.param("MG102", Severity.WARNING, id="beginning"),
        pytest.param("MG901", Severity.ERROR, id="none-fits"),
    ],
)
def test_severity_of(code: str, severity: Severity) -> None:
    settings = Settings(severities=(("MG10", Severity.WARNING), ("MG101", Severity.NOTE), ("MG", Severity.ERROR)))
    assert settings.severity_of(code, Severity.WARNING) is severity
    assert Settings().severity_of(code, Severity.WARNING) is Severity.WARNING


@pytest.mark.parametrize(
    ("files", "path", "source"),
    [
        pytest.param({"modelguard.toml": ""}, "a/b/c.py", "modelguard.toml", id="upward-from-a-file-that-need-not-be"),
        pytest.param({"modelguard.toml": ""}, "a/b", "modelguard.toml", id="upward-from-a-directory"),
        pytest.param({"a/modelguard.toml": ""}, "a", "a/modelguard.toml", id="in-the-directory-itself"),
        pytest.param({"a/modelguard.toml": ""}, ".", None, id="not-downward"),
        pytest.param({"modelguard.toml": "", "a/modelguard.toml": ""}, "a/c.py", "a/modelguard.toml", id="nearest"),
        pytest.param({"pyproject.toml": "[tool.modelguard]"}, "a/c.py", "pyproject.toml", id="pyproject"),
        pytest.param(
            {"pyproject.toml": "[tool.modelguard]", "modelguard.toml": ""},
            "a",
            "modelguard.toml",
            id="modelguard-wins-in-a-folder",
        ),
        pytest.param(
            {"modelguard.toml": "", "a/pyproject.toml": "[tool.modelguard]"}, "a", "a/pyproject.toml", id="nearer-pyproject-wins"
        ),
        pytest.param(
            {"modelguard.toml": "", "a/pyproject.toml": "[tool.ruff]"}, "a", "modelguard.toml", id="pyproject-without-table"
        ),
        pytest.param(
            {"modelguard.toml": "", "a/pyproject.toml": "[project]\ndependencies = ['modelguard']"},
            "a",
            "modelguard.toml",
            id="pyproject-that-depends-on-it",
        ),
        pytest.param(
            {"modelguard.toml": "", "a/pyproject.toml": "not [ TOML"}, "a", "modelguard.toml", id="pyproject-not-parsed"
        ),
        pytest.param({"modelguard.toml": "", "a/modelguard.toml/x": ""}, "a", "modelguard.toml", id="a-folder-of-that-name"),
    ],
)
def test_which_file_holds(files: dict[str, str], path: str, source: str | None, here: Path) -> None:
    for name, text in files.items():
        write(name, text)
    Path("a/b").mkdir(parents=True, exist_ok=True)
    files_found = SettingsFiles()
    assert files_found.for_path(path).source == (source and str(here / source))
    assert files_found.for_path(os.path.abspath(path)) is files_found.for_path(path)
    assert SettingsFiles(isolated=True).for_path(path) == Settings()


def test_one_object_answers_for_several_folders(here: Path) -> None:
    write("a/modelguard.toml", "show-notes = true")
    write("b/pyproject.toml", "[tool.modelguard]\nfail-on = 'never'")
    files = SettingsFiles()
    assert files.for_path("a/x/y.py").show_notes
    assert files.for_path("b/y.py").fail_on is None
    assert files.for_path("y.py") == Settings()
    write("a/modelguard.toml", "")
    assert files.for_path("a/z.py").show_notes, "each file is read once"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("ci/modelguard.toml", "show-notes = true", id="modelguard"),
        pytest.param("ci/pyproject.toml", "[tool.modelguard]\nshow-notes = true", id="pyproject"),
        pytest.param("ci/strict.toml", "show-notes = true", id="another-name"),
        pytest.param("ci/strict.toml", "[tool.modelguard]\nshow-notes = true", id="another-name-with-table"),
    ],
)
def test_config_names_one_file_for_everything(name: str, text: str, here: Path) -> None:
    write(name, text)
    write("a/modelguard.toml", "fail-on = 'never'")
    settings = SettingsFiles(config=name).for_path("a")
    assert (settings.show_notes, settings.fail_on) == (True, Severity.WARNING)
    assert (settings.source, settings.root) == (str(here / name), str(here / "ci"))


@pytest.mark.parametrize(
    ("folder", "pattern", "rebased"),
    [
        pytest.param(".", "gen/*.py", "gen/*.py", id="same-folder"),
        pytest.param("sub", "gen", "gen", id="any-depth"),
        pytest.param("sub", "gen/", "gen/", id="any-folder"),
        pytest.param("sub", "**/gen/*", "**/gen/*", id="any-depth-with-stars"),
        pytest.param("sub", "gen/*.py", "/sub/gen/*.py", id="below"),
        pytest.param("sub", "!/gen/*.py", "!/sub/gen/*.py", id="taken-back"),
        pytest.param("su[b]", "gen/*.py", "/su\\[b]/gen/*.py", id="folder-with-signs"),
    ],
)
def test_excludes_of_the_command_line_are_seen_from_here(
    folder: str, pattern: str, rebased: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("modelguard.toml", "exclude = []")
    Path(folder).mkdir(exist_ok=True)
    monkeypatch.chdir(here / folder)
    assert SettingsFiles(Overrides(extend_exclude=(pattern,))).for_path(".").exclude == (rebased,)


@pytest.mark.parametrize(
    ("pattern", "rebased"),
    [
        pytest.param("sub/gen/*.py", "/gen/*.py", id="into-the-folder"),
        pytest.param("other/*.py", "other/*.py", id="elsewhere"),
    ],
)
def test_excludes_from_above_the_settings_file(pattern: str, rebased: str) -> None:
    write("sub/modelguard.toml", "exclude = []")
    assert SettingsFiles(Overrides(exclude=(pattern,))).for_path("sub").exclude == (rebased,)


KEY_MISTAKES = [
    pytest.param("extend_select = []", "1: extend_select: unknown key; did you mean 'extend-select'?", id="underscore"),
    pytest.param("slect = []", "1: slect: unknown key; did you mean 'select'?", id="misspelt"),
    pytest.param("Show-Notes = true", "1: Show-Notes: unknown key; did you mean 'show-notes'?", id="upper-case"),
    pytest.param("extend-ignore = []", "1: extend-ignore: unknown key; did you mean 'ignore'?", id="habit"),
    pytest.param("qqq = 1", f"1: qqq: unknown key; allowed are {', '.join(KEYS)}.", id="far-off"),
    pytest.param('"a\\nb" = 1', '1: "a\\U0000000ab": unknown key; allowed', id="line-end-in-a-key"),
    pytest.param(
        '\n\nignore = "MG101"', '3: ignore: a list of strings is wanted, found the string "MG101"', id="string-for-list"
    ),
    pytest.param('ignore = "MG101,MG102"', 'write ignore = ["MG101", "MG102"]', id="list-form"),
    pytest.param("ignore = 3", "found the number 3; write ignore = [", id="number-for-list"),
    pytest.param(f"ignore = 0x{'f' * 5000}", "found a number", id="huge-number"),
    pytest.param('ignore = ["MG1", 3]', "1: ignore: a list of strings is wanted, found the number 3 as its item 2", id="item"),
    pytest.param("ignore = [[]]", "found a list as its item 1", id="list-in-list"),
    pytest.param('select = ["MG10l"]', "1: select: unknown code 'MG10l'; did you mean MG10", id="code"),
    pytest.param(
        'extend-select = ["buffer-rebound"]', "1: extend-select: unknown code 'buffer-rebound'; did you mean MG101?", id="name"
    ),
    pytest.param('ignore = [""]', "1: ignore: a code is missing", id="empty-code"),
    pytest.param(
        'show-notes = "true"',
        '1: show-notes: true or false is wanted, found the string "true"; write show-notes = true',
        id="flag",
    ),
    pytest.param(
        "training-captured = 1", "1: training-captured: true or false is wanted, found the number 1", id="number-for-flag"
    ),
    pytest.param("respect-gitignore = 1979-05-27", "found a date or time", id="date-for-flag"),
    pytest.param(
        'fail-on = "eror"',
        "unknown severity 'eror', allowed are error, warning, note, never; did you mean 'error'?",
        id="fail-on",
    ),
    pytest.param("baseline = true", "1: baseline: a string is wanted, found true", id="baseline"),
    pytest.param("fail-on = true", '1: fail-on: "error", "warning", "note" or "never" is wanted, found true', id="fail-on-type"),
    pytest.param(
        "severities = []", "1: severities: a table is wanted, found a list; write severities = { MG101 =", id="no-table"
    ),
    pytest.param('[severities]\nMG1 = "note"\nMG999 = "note"', "3: severities.MG999: unknown code 'MG999'", id="severity-code"),
    pytest.param('[severities]\nMG101 = "warn"', "did you mean 'warning'?", id="severity"),
    pytest.param('severities.MG101 = "off"', 'write ignore = ["MG101"]', id="severity-off"),
    pytest.param("severities.MG101 = 1", '"error", "warning" or "note" is wanted, found the number 1', id="severity-type"),
    pytest.param('per-file-ignores = ["a"]', "1: per-file-ignores: a table is wanted, found a list", id="per-file-no-table"),
    pytest.param('[per-file-ignores]\n"a/*" = "MG1"', '2: per-file-ignores."a/*": a list of strings', id="per-file-string"),
    pytest.param('[per-file-ignores]\n"a/*" = ["X"]', "2: per-file-ignores.\"a/*\": unknown code 'X'", id="per-file-code"),
    pytest.param('per-file-ignores = {"[z-a]" = []}', "is not a pattern as in a .gitignore", id="per-file-pattern"),
    pytest.param('per-file-ignores = {"!a" = []}', "'!a' fits no file", id="per-file-negation"),
    pytest.param('per-file-ignores = {" " = []}', "an empty pattern fits no file", id="per-file-empty"),
    pytest.param('extend-exclude = ["a", ""]', "1: extend-exclude: an empty pattern", id="empty-pattern"),
    pytest.param('exclude = ["[z-a]"]', "1: exclude: '[z-a]' is not a pattern as in a .gitignore", id="pattern"),
    pytest.param(
        'entry-points = ["A.step()"]',
        "1: entry-points: 'A.step()' is not the name of a method; did you mean 'step'?",
        id="method",
    ),
    pytest.param('extend-entry-points = ["1"]', "1: extend-entry-points: '1' is not the name of a method", id="added-method"),
    pytest.param('module-bases = ["a b"]', "1: module-bases: 'a b' is not a dotted class name", id="base"),
    pytest.param("follow-installed = 1", "true, false or a list of packages is wanted, found the number 1", id="follow"),
    pytest.param('follow-installed = "timm"', 'write follow-installed = ["timm"]', id="follow-string"),
    pytest.param('follow-installed = ["timm.models"]', "did you mean 'timm'?", id="follow-submodule"),
    pytest.param('follow-installed = ["flash-attn"]', "did you mean 'flash_attn'?", id="follow-distribution"),
    pytest.param(
        'select = ["MG1"]\nignore = ["MG1"]', "2: ignore: MG1 is also in select; take it out of one", id="select-and-ignore"
    ),
    pytest.param('ignore = ["MG1"]\nextend-select = ["MG1"]', "1: ignore: MG1 is also in extend-select", id="extend-and-ignore"),
    pytest.param(
        'fail-on = "note"\nshow-notes = false', '2: show-notes: fail-on = "note" would fail', id="hidden-notes-that-fail"
    ),
    pytest.param(
        "[modelguard]\nselect = []", "1: modelguard: in modelguard.toml the keys stand at the top level", id="own-table"
    ),
    pytest.param("[tool.modelguard]", "1: tool: in modelguard.toml the keys stand at the top level", id="table-of-pyproject"),
    pytest.param("a = 1\nb = = 2", "2: this is not valid TOML: ", id="syntax"),
    pytest.param("a = 1\na = 2", "2: this is not valid TOML: Cannot overwrite", id="key-twice"),
    pytest.param("a = 1\nb = [", "this is not valid TOML: ", id="syntax-at-the-end"),
    pytest.param(f"a = {'9' * 5000}", "this is not valid TOML: ", id="number-python-refuses"),
]


@pytest.mark.parametrize(("text", "words"), KEY_MISTAKES)
def test_mistakes_are_named_with_file_line_and_remedy(text: str, words: str) -> None:
    message = refused(text)
    assert message.startswith("modelguard.toml:")
    assert words in message


def test_values_nested_beyond_reason_are_refused() -> None:
    write("modelguard.toml", f"select = {'[' * 50_000}")
    with pytest.raises(SettingsError, match=r"^modelguard\.toml: "):
        SettingsFiles().for_path(".")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("[project]\n\n[tool.modelguard]\nslect = []", "pyproject.toml:4: slect: unknown key", id="key"),
        pytest.param(
            "[tool]\nmodelguard = true", "pyproject.toml:2: a table [tool.modelguard] is wanted, found true", id="no-table"
        ),
        pytest.param("[[tool.modelguard]]", "pyproject.toml:1: a table [tool.modelguard] is wanted, found a list", id="array"),
        pytest.param(
            "[modelguard]", "pyproject.toml:1: modelguard: nothing reads this table here; call it [tool.modelguard]", id="tool"
        ),
        pytest.param("[tool.modelguard\n", "pyproject.toml:1: this is not valid TOML", id="syntax"),
        pytest.param("tool.modelguard.slect = 1", "pyproject.toml:1: slect: unknown key", id="dotted"),
        pytest.param("tool = {modelguard = {slect = 1}}", "pyproject.toml:1: slect: unknown key", id="braces"),
    ],
)
def test_mistakes_in_pyproject(text: str, words: str) -> None:
    assert words in refused(text, "pyproject.toml")


@pytest.mark.parametrize(
    ("before", "line"),
    [
        pytest.param("# ignore = 1\n", 2, id="comment"),
        pytest.param("select = [\n  'MG1', # ]\n  'MG9',\n]\n\n", 6, id="list-over-lines"),
        pytest.param('exclude = [\'\'\'\nignore = 1\n\'\'\', """a\\"""\nb"""]\n', 5, id="strings-over-lines"),
        pytest.param("exclude = ['#', \"[\", '\"']\n", 2, id="signs-in-strings"),
        pytest.param("per-file-ignores = { 'a = [' = ['MG1'] } # {\n", 2, id="braces"),
        pytest.param("severities . 'MG1' = 'note'\n", 2, id="dotted-and-quoted"),
        pytest.param("select = []\r\n\r\n", 3, id="windows-line-ends"),
    ],
)
def test_the_line_of_a_key(before: str, line: int, here: Path) -> None:
    (here / "modelguard.toml").write_bytes(f"{before}ignore = 3\n".encode())
    with pytest.raises(SettingsError) as caught:
        SettingsFiles().for_path(".")
    assert str(caught.value).startswith(f"modelguard.toml:{line}: ignore: ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b"# \xe9\n", "modelguard.toml:1: byte 0xe9 is not valid UTF-8", id="latin-1"),
        pytest.param("a = 1".encode("utf-16"), "is not valid UTF-8", id="utf-16"),
        pytest.param(b"\n\0", "modelguard.toml:2: this is not valid TOML", id="nul"),
    ],
)
def test_undecodable_files(content: bytes, words: str, here: Path) -> None:
    (here / "modelguard.toml").write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        SettingsFiles().for_path(".")
    assert words in str(caught.value)


@posix
def test_unreadable_files(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("modelguard.toml", "")

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", deny)
    with pytest.raises(SettingsError, match=r"^modelguard.toml: cannot read this file: permission denied; --isolated"):
        SettingsFiles().for_path(".")


@posix
def test_a_link_that_leads_nowhere_is_not_passed_over(here: Path) -> None:
    os.symlink("gone.toml", "modelguard.toml")
    with pytest.raises(SettingsError, match=r"^modelguard.toml: this link leads nowhere"):
        SettingsFiles().for_path(".")


def test_paths_outside_of_the_working_directory_are_shown_whole(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("modelguard.toml", "slect = 1")
    Path("sub").mkdir()
    monkeypatch.chdir("sub")
    with pytest.raises(SettingsError) as caught:
        SettingsFiles().for_path(".")
    assert str(caught.value).startswith(f"{here / 'modelguard.toml'}:1: slect")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        pytest.param("gone.toml", "--config: there is no file gone.toml", id="missing"),
        pytest.param("", "--config: the name is empty", id="empty"),
        pytest.param(".", "--config: . is a directory", id="directory"),
        pytest.param("setup.cfg", "--config: setup.cfg is not a TOML file; settings are read from a pyproject.toml", id="kind"),
        pytest.param("pyproject.toml", "--config: pyproject.toml has no table [tool.modelguard]", id="no-table"),
        pytest.param("other.toml", "--config: other.toml has no table [tool.modelguard]", id="table-of-another-tool"),
    ],
)
def test_mistakes_with_config(config: str, words: str) -> None:
    write("setup.cfg", "[flake8]\n")
    write("pyproject.toml", "[tool.ruff]\n")
    write("other.toml", "[tool.ruff]\n")
    with pytest.raises(SettingsError) as caught:
        SettingsFiles(config=config)
    assert words in str(caught.value)


def test_config_and_isolated_exclude_each_other() -> None:
    with pytest.raises(SettingsError, match="--config and --isolated exclude each other"):
        SettingsFiles(config="modelguard.toml", isolated=True)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param(Overrides(select=("MG10l",)), "--select: unknown code", id="select"),
        pytest.param(Overrides(extend_select=("",)), "--extend-select: a code is missing", id="extend-select"),
        pytest.param(Overrides(ignore=("X",)), "--ignore: unknown code", id="ignore"),
        pytest.param(Overrides(extend_exclude=(" ",)), "--exclude: an empty pattern", id="exclude"),
        pytest.param(Overrides(entry_points=("a b",)), "--entry-point: 'a b'", id="entry-point"),
        pytest.param(Overrides(fail_on="eror"), "--fail-on: unknown severity", id="fail-on"),
        pytest.param(Overrides(follow_installed=("a.b",)), "--follow-installed: 'a.b'", id="follow-installed"),
    ],
)
def test_mistakes_on_the_command_line(said: Overrides, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        SettingsFiles(said)
    assert str(caught.value).startswith(words)


def test_origins() -> None:
    write(
        "pyproject.toml",
        "[tool.modelguard]\nselect = ['MG1']\nextend-select = ['MG9']\nextend-exclude = ['a']\nfail-on = 'note'\n"
        "[tool.modelguard.severities]\nMG1 = 'note'\n",
    )
    said = Overrides(extend_select=("MG1",), ignore=("MG108",), entry_points=("step",), training_captured=True)
    assert SettingsFiles(said).origins(".") == {
        "select": "pyproject.toml:2, pyproject.toml:3, --extend-select",
        "ignore": "--ignore",
        "per-file-ignores": "default",
        "exclude": "default, pyproject.toml:4",
        "entry-points": "default, --entry-point",
        "module-bases": "default",
        "severities": "pyproject.toml:6",
        "fail-on": "pyproject.toml:5",
        "training-captured": "--training-captured",
        "show-notes": "pyproject.toml:5",
        "follow-installed": "default",
        "respect-gitignore": "default",
        "baseline": "default",
    }
    assert SettingsFiles(Overrides(select=("MG1",), exclude=("b",))).origins(".")["select"] == "--select"
    assert set(SettingsFiles(isolated=True).origins(".").values()) == {"default"}


FULL = """\
select = ["MG1"]
extend-select = ["MG901"]
ignore = ["MG108"]
extend-exclude = ["gen/*.py", "a \\"quoted\\" \\u2028 name", "a-name-that-is-long-enough-to-make-the-list-go-over-one-line"]
module-bases = ["a.Base"]
extend-entry-points = ["step"]
fail-on = "note"
training-captured = true
follow-installed = ["timm"]
respect-gitignore = false
baseline = "lint/known.json"
per-file-ignores = { "tests/*" = ["MG1"], conftest = [] }
severities = { MG1 = "warning", MG101 = "error" }
"""


@pytest.mark.parametrize(
    "text", [pytest.param(FULL, id="full"), pytest.param('ignore = ["MG"]', id="all"), pytest.param("", id="none")]
)
def test_what_the_command_prints_is_a_settings_file_that_means_the_same(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = read(text)
    assert main(["settings"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# settings file: modelguard.toml (for .)\n")
    assert read(printed) == before


def test_the_command_says_where_settings_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    write("a/pyproject.toml", "[tool.modelguard]\nfail-on = 'error'\n")
    assert main(["settings", "a/model.py"]) == 2
    assert "no such file or directory: 'a/model.py'" in capsys.readouterr().err
    write("a/model.py", "")
    assert main(["settings", "a/model.py"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"# settings file: {os.path.join('a', 'pyproject.toml')} (for a/model.py)"
    assert f'fail-on = "error"  # {os.path.join("a", "pyproject.toml")}:2' in lines
    assert "show-notes = false  # default" in lines
    assert main(["settings"]) == 0
    assert capsys.readouterr().out.startswith("# no settings file (for .)\n")


def test_the_command_prints_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("modelguard.toml", FULL)
    assert main(["settings", "--output-format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema_version"], document["path"], document["source"]) == (1, ".", str(here / "modelguard.toml"))
    assert document["settings"]["fail-on"] == {"value": "note", "origin": "modelguard.toml:7"}
    assert document["settings"]["per-file-ignores"]["value"] == {"tests/*": ["MG1"], "conftest": []}
    assert main(["settings", "--isolated", "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"] is None


def test_the_command_reports_mistakes_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    write("modelguard.toml", "slect = []")
    assert main(["settings"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "modelguard: error: modelguard.toml:1: slect: unknown key; did you mean 'select'?\n")
    assert main(["settings", "--isolated"]) == 0
    assert main(["settings", "--config", "gone.toml"]) == 2


def test_the_documentation_names_every_key() -> None:
    page = (Path(__file__).parent.parent / "docs" / "settings.md").read_text(encoding="utf-8")
    assert [key for key in KEYS if f"### `{key}`" not in page] == []
    assert page.count("### `") == len(KEYS)


@pytest.mark.parametrize(
    ("name", "text", "imported"),
    [
        pytest.param("pyproject.toml", "[project]\n", set(), id="not-ours"),
        pytest.param("pyproject.toml", "[tool.modelguard]\nfail-on = 'error'", {"tomllib"}, id="no-codes"),
        pytest.param("modelguard.toml", "ignore = ['MG101']", {"tomllib", "modelguard.rules"}, id="codes"),
        pytest.param("modelguard.toml", "[per-file-ignores]\na = []", {"tomllib", "pathspec"}, id="patterns"),
    ],
)
def test_what_is_imported(name: str, text: str, imported: set[str]) -> None:
    write(name, text)
    script = """\
import sys
from modelguard.settings_files import SettingsFiles
SettingsFiles().for_path(".").selects("MG101", "a.py")
print(*{"tomllib", "tomli", "pathspec", "modelguard.rules", "difflib", "json"}.intersection(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {module.replace("tomli", "tomllib") if module == "tomli" else module for module in done.stdout.split()} == imported


def toml_string(text: str) -> str:
    return '"' + "".join(f"\\U{ord(sign):08x}" for sign in text) + '"'


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_string(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return toml_string(value) if isinstance(value, str) else str(value).lower()


TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["MG101", "MG1", "MG", "tests/*", "[", "!", "\\", "forward", "error", "note", "never", "timm"]
)
SCALARS = TEXTS | st.booleans() | st.integers(-(2**70), 2**70) | st.floats()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)
TABLES = st.dictionaries(st.sampled_from(KEYS) | TEXTS, VALUES | st.lists(TEXTS, max_size=3), max_size=4)
NEVER_MIND_THE_FIXTURE = hypothesis_settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def assert_settings_or_one_line(name: str, text: str) -> None:
    Path(name).write_bytes(text.encode("utf-8"))
    files = SettingsFiles()
    try:
        settings = files.for_path(".")
    except SettingsError as error:
        assert str(error).splitlines() == [str(error)]
        assert str(error).startswith(name)
    else:
        assert files.origins(".").keys() >= {"select", "severities"}
        settings.selects("MG101", "a/b.py")


@given(TABLES)
@NEVER_MIND_THE_FIXTURE
def test_any_table_gives_settings_or_one_line(table: dict[str, object]) -> None:
    lines = [f"{toml_string(key)} = {toml(value)}" for key, value in table.items()]
    assert_settings_or_one_line("pyproject.toml", "\n".join(["[tool.modelguard]", *lines]))


@given(st.text(st.sampled_from("[]{}='\"#.,\\\n\r\t ab1-") | st.characters(exclude_categories=["Cs"])))
@NEVER_MIND_THE_FIXTURE
def test_any_text_gives_settings_or_one_line(text: str) -> None:
    assert_settings_or_one_line("modelguard.toml", text)

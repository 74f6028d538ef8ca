"""Baselines: what is known stays out of a run, wherever its lines and files go, and files shrink on request only."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from modelguard.cli import files
from modelguard.cli.main import main

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")

COUNTER = """\
from torch import nn


class Counter(nn.Module):
    def forward(self, x):
        self.steps += 1
        return x * self.steps
"""
TWICE = COUNTER.replace("        return", "        self.steps += 1\n        return")
CLEAN = COUNTER.replace("self.steps += 1", "steps = 1")
IN_PLACE = """\
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean.copy_(x)
        return x - self.mean
"""
NAME = "known.json"
FIELDS = ("path", "code", "class", "attribute", "line")

Output = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def scan(capsys: pytest.CaptureFixture[str]) -> Output:
    """Runs a scan with the baseline; the exit status, and what is said on stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["scan", "--no-cache", "--baseline", NAME, *arguments])
        return status, *capsys.readouterr()

    return run


def write(path: str, content: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(content, encoding="utf-8")


def entries() -> list[tuple[str, int]]:
    """Path and count of each entry in the file."""
    return [(entry["path"], entry["count"]) for entry in json.loads(Path(NAME).read_text())["findings"]]


def known(output: str) -> int:
    """How many findings the summary says are in the baseline."""
    return next((int(line.split()[0]) for line in output.splitlines() if line.endswith(" in the baseline")), 0)


def test_what_the_baseline_holds_neither_fails_a_run_nor_is_printed(scan: Output) -> None:
    write("model.py", COUNTER)
    status, out, err = scan(".", "--write-baseline")
    assert (status, known(out), err) == (0, 1, "modelguard: known.json: 1 finding (1 taken in, 0 taken out)\n")
    status, out, err = scan(".")
    assert (status, known(out), "MG104" in out, err) == (0, 1, False, "")
    for output_format in ("json", "sarif", "github", "gitlab", "concise"):
        status, out, _ = scan(".", "--output-format", output_format)
        assert (status, "MG104" in out) == (0, False)
    assert json.loads(scan(".", "--output-format", "json")[1])["summary"]["baselined"] == 1
    write("other.py", COUNTER.replace("Counter", "Other"))
    status, out, _ = scan(".")
    assert (status, known(out), out.count("error[MG104]")) == (1, 1, 1)


def test_the_file_is_sorted_with_an_entry_a_line(scan: Output) -> None:
    write("b.py", TWICE)
    write("a/é\N{MUSICAL SYMBOL G CLEF}.py", COUNTER)
    assert scan(".", "--write-baseline")[0] == 0
    text = Path(NAME).read_text(encoding="ascii")
    assert json.loads(text) == {
        "schema_version": 1,
        "findings": [
            {
                "path": path,
                "code": "MG104",
                "class": "Counter",
                "attribute": "self.steps",
                "line": "self.steps += 1",
                "count": count,
            }
            for path, count in [("a/é\N{MUSICAL SYMBOL G CLEF}.py", 1), ("b.py", 2)]
        ],
    }
    assert sum('"MG104"' in line for line in text.splitlines()) == 2
    assert scan(".", "--write-baseline", "--prune-baseline")[0] == 0
    assert Path(NAME).read_text() == text


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda: write("model.py", "import os\n\n\n" + COUNTER), id="lines"),
        pytest.param(lambda: write("model.py", COUNTER.replace("+= 1", "+=  1")), id="spacing"),
        pytest.param(lambda: os.rename("model.py", "renamed.py"), id="file"),
        pytest.param(lambda: os.renames("model.py", "deep/down/model.py"), id="folder"),
        pytest.param(lambda: (write("new.py", COUNTER), write("model.py", CLEAN)), id="moved-between-files"),
    ],
)
def test_it_survives(change: Callable[[], object], scan: Output) -> None:
    write("model.py", COUNTER)
    assert scan(".", "--write-baseline")[0] == 0
    change()
    status, out, err = scan(".")
    assert (status, known(out), err) == (0, 1, "")


def test_a_copy_is_new(scan: Output) -> None:
    write("model.py", COUNTER)
    assert scan(".", "--write-baseline")[0] == 0
    write("copy.py", COUNTER)
    assert scan(".")[0] == 1
    # The file of the entry is there, and was not looked at: it may hold the finding still.
    assert scan("copy.py")[0] == 1
    write("copy.py", CLEAN)
    write("model.py", TWICE)
    status, out, _ = scan(".")
    assert (status, known(out), out.count("error[MG104]")) == (1, 1, 1)


def test_a_renamed_file_is_followed_when_the_baseline_is_written(scan: Output) -> None:
    write("model.py", COUNTER)
    scan(".", "--write-baseline")
    os.rename("model.py", "renamed.py")
    assert scan("renamed.py")[0] == 0
    assert entries() == [("model.py", 1)]
    assert scan(".", "--prune-baseline")[2] == "modelguard: known.json: 1 finding (0 taken in, 0 taken out)\n"
    assert entries() == [("renamed.py", 1)]


def test_it_shrinks_on_request_only(scan: Output) -> None:
    write("model.py", TWICE)
    write("gone.py", COUNTER)
    scan(".", "--write-baseline")
    write("model.py", COUNTER)
    os.remove("gone.py")
    write("new.py", COUNTER.replace("Counter", "New"))
    status, _, err = scan(".")
    told = "2 findings no longer occur (gone.py MG104 `self.steps`, model.py MG104 `self.steps`); --prune-baseline takes them out"
    assert (status, err) == (1, f"modelguard: known.json: {told}\n")
    assert scan(".", "-q")[2] == ""
    assert scan(".", "--write-baseline")[2] == "modelguard: known.json: 4 findings (1 taken in, 0 taken out)\n"
    assert entries() == [("gone.py", 1), ("model.py", 2), ("new.py", 1)]
    assert scan(".", "--prune-baseline")[2] == "modelguard: known.json: 2 findings (0 taken in, 2 taken out)\n"
    assert entries() == [("model.py", 1), ("new.py", 1)]
    os.remove("new.py")
    write("other.py", COUNTER.replace("Counter", "Other"))
    assert scan(".", "--write-baseline", "--prune-baseline")[0] == 0
    assert entries() == [("model.py", 1), ("other.py", 1)]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["sub/a.py"], id="another-file"),
        pytest.param(["sub"], id="another-folder"),
        pytest.param([".", "--exclude", "model.py", "--exclude", "gone.py"], id="excluded"),
        pytest.param([".", "--select", "MG101"], id="another-code"),
    ],
)
def test_what_a_run_did_not_look_at_is_not_called_gone(arguments: list[str], scan: Output) -> None:
    write("model.py", COUNTER)
    write("sub/a.py", COUNTER.replace("Counter", "Sub"))
    scan(".", "--write-baseline")
    write("model.py", CLEAN)
    before = Path(NAME).read_text()
    assert scan(*arguments)[2] == ""
    assert scan(*arguments, "--prune-baseline")[0] == 0
    assert Path(NAME).read_text() == before
    assert "model.py MG104" in scan(".")[2]


def test_a_file_that_cannot_be_parsed_may_hold_it_still(scan: Output) -> None:
    write("model.py", COUNTER)
    scan(".", "--write-baseline")
    write("model.py", COUNTER + "def (:\n")
    status, out, err = scan(".")
    assert (status, "MG901" in out, "no longer" in err) == (1, True, False)
    write("model.py", "")
    assert "no longer occurs" in scan(".")[2]


def test_nothing_is_written_when_something_could_not_be_scanned(scan: Output) -> None:
    write("model.py", COUNTER)
    status, out, err = scan("model.py", "no/where.py", "--write-baseline")
    assert (status, "error[MG104]" in out) == (2, True)
    assert "modelguard: known.json stays as it is, because something could not be scanned" in err
    assert not Path(NAME).exists()


def test_notes_are_taken_in_where_they_are_shown(scan: Output) -> None:
    write("norm.py", IN_PLACE)
    scan(".", "--write-baseline")
    assert entries() == []
    assert "1 note hidden" in scan(".")[1]
    scan(".", "--write-baseline", "--show-notes")
    assert entries() == [("norm.py", 1)]
    # Once known it is, whether notes are shown or not.
    status, out, err = scan(".")
    assert (status, known(out), "hidden" in out, err) == (0, 1, False, "")


def test_the_settings_name_it_and_paths_are_seen_from_its_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write("modelguard.toml", 'baseline = "lint/known.json"\n')
    write("sub/model.py", COUNTER)
    Path("lint").mkdir()
    assert main(["scan", "--write-baseline"]) == 0
    entry = json.loads(Path("lint/known.json").read_text())["findings"][0]
    assert entry["path"] == "../sub/model.py"
    monkeypatch.chdir("sub")
    for arguments in ([], ["model.py"], [str(here)], [str(here / "sub" / "model.py")]):
        assert main(["scan", *arguments]) == 0
    assert main(["scan", "--isolated"]) == 1
    capsys.readouterr()
    assert main(["settings", "--output-format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)["settings"]["baseline"]
    assert said["value"] == "lint/known.json"


def test_each_folder_may_have_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("a", "b"):
        write(f"{folder}/modelguard.toml", 'baseline = "known.json"\n')
        write(f"{folder}/model.py", COUNTER)
        assert main(["scan", folder, "--write-baseline"]) == 0
    assert main(["scan", "."]) == 0
    write("a/model.py", CLEAN)
    capsys.readouterr()
    assert main(["scan", "."]) == 0
    assert capsys.readouterr().err.startswith(f"modelguard: {os.path.join('a', 'known.json')}: 1 finding no longer occurs")


@posix
def test_through_a_link(here: Path, scan: Output) -> None:
    write("model.py", COUNTER)
    scan(".", "--write-baseline")
    (here.parent / f"{here.name}-link").symlink_to(here)
    assert scan(str(here.parent / f"{here.name}-link"))[0] == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, "known.json: there is no baseline here; --write-baseline makes one", id="missing"),
        pytest.param("{\n<<<<<<< ours\n", "known.json:2: this baseline is not valid JSON", id="merge"),
        pytest.param("[" * 100_000, "known.json: this is no baseline", id="deep"),
        pytest.param("[]", "known.json: this is no baseline: Expected `object`, got `array`", id="list"),
        pytest.param('{"schema_version": 2, "findings": 3}', "has format 2, and this modelguard reads format 1", id="version"),
        pytest.param('{"schema_version": 1}', "missing required field `findings`", id="no-findings"),
        pytest.param('{"schema_version": 1, "findings": [], "x": 1}', "unknown field `x`", id="unknown-key"),
        pytest.param(
            json.dumps({"schema_version": 1, "findings": [dict.fromkeys(FIELDS, "") | {"count": 0}]}),
            "Expected `int` >= 1",
            id="count",
        ),
    ],
)
def test_what_is_no_baseline_is_refused(content: str | None, words: str, scan: Output) -> None:
    write("model.py", COUNTER)
    if content is not None:
        write(NAME, content)
    status, out, err = scan(".")
    assert (status, out) == (2, "")
    assert words in err
    if content is not None:
        assert scan(".", "--write-baseline")[0] == 2
        assert Path(NAME).read_text() == content


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--write-baseline"], "--write-baseline: name the file, with --baseline", id="write"),
        pytest.param(["--prune-baseline"], "--prune-baseline: name the file, with --baseline", id="prune"),
        pytest.param(["--baseline", ""], "--baseline: the name is empty", id="empty"),
        pytest.param(["--baseline", "."], "cannot read this baseline: is a directory", id="directory"),
        pytest.param(["--baseline", "no/where.json", "--write-baseline"], "cannot write this baseline", id="no-folder"),
    ],
)
def test_mistakes(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("model.py", COUNTER)
    assert main(["scan", "model.py", *arguments]) == 2
    assert words in capsys.readouterr().err


@posix
def test_a_read_only_file_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, scan: Output) -> None:
    write(NAME, '{"schema_version": 1, "findings": []}')
    write("model.py", COUNTER)
    # Root may write everything, so that the mode alone would not do.
    monkeypatch.setattr(files.os, "access", lambda path, mode: not path.endswith(NAME))
    status, _, err = scan("model.py", "--write-baseline")
    assert (status, err) == (2, "modelguard: error: known.json: cannot write this baseline: permission denied\n")
    assert Path(NAME).read_text() == '{"schema_version": 1, "findings": []}'


@posix
def test_a_new_file_has_the_usual_permissions(scan: Output) -> None:
    write("model.py", COUNTER)
    before = os.umask(0o027)
    try:
        scan("model.py", "--write-baseline")
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(NAME).stat().st_mode) == 0o640
    assert sorted(os.listdir()) == [NAME, "model.py"]


def test_standard_input_and_suppressions(here: Path, monkeypatch: pytest.MonkeyPatch, scan: Output) -> None:
    write("model.py", COUNTER)
    scan(".", "--write-baseline")
    write("other.py", COUNTER.replace("Counter", "Other"))
    assert scan(".", "--add-ignore", "why")[2] == "modelguard: 1 line suppressed in 1 file\n"
    assert Path("model.py").read_text() == COUNTER
    with open("model.py", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        status, out, _ = scan("--stdin-filename", "model.py", "-")
    assert (status, known(out)) == (0, 1)

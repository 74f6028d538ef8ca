"""Findings in several formats at once, each to its file, and the formats that commands offer."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from modelguard.cli.main import main
from modelguard.report import formats

MODEL = """\
from torch import nn


class M(nn.Module):
    def forward(self, x):
        self.n += 1
        self.buf.copy_(x)
        return x * self.n
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def scan(*arguments: str) -> int:
    return main(["scan", "--no-cache", "model.py", *arguments])


def test_each_format_to_its_file_besides_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert scan("--output", "sarif=a=b.sarif", "--output", "junit=report.xml", "--output", "json=report.json") == 1
    assert "model.py:6:9: error[MG104]" in capsys.readouterr().out
    assert json.loads(Path("a=b.sarif").read_text())["version"] == "2.1.0"
    assert ET.parse("report.xml").getroot().get("failures") == "1"
    assert json.loads(Path("report.json").read_text())["summary"]["errors"] == 1


def test_with_an_output_file_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert scan("--output-format", "concise", "--output-file", "report.txt", "--output", "github=annotations.txt") == 1
    assert capsys.readouterr().out == ""
    assert Path("report.txt").read_text().startswith("model.py:6:9: MG104 ")
    assert Path("annotations.txt").read_text().startswith("::error file=model.py")


def test_a_file_is_replaced_where_it_is(here: Path) -> None:
    (here / "real").mkdir()
    real = here / "real" / "report.txt"
    real.write_text("before")
    real.chmod(0o640)
    Path("report.txt").symlink_to(real)
    with real.open() as reader:
        assert scan("--output-format", "concise", "--output-file", "report.txt") == 1
        # Who reads it meanwhile sees the old one, whole.
        assert reader.read() == "before"
    assert Path("report.txt").is_symlink() and real.read_text().startswith("model.py:6:9: MG104 ")
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in here.iterdir()) == ["model.py", "real", "report.txt"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_written_into() -> None:
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        assert scan("--output-format", "concise", "--output-file", "pipe") == 1
        assert reader.communicate()[0].startswith("model.py:6:9: MG104 ")
    assert Path("pipe").is_fifo()


def test_a_file_that_nothing_can_take_the_place_of_is_written_into(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*paths: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(os, "replace", busy)
    assert scan("--output-format", "concise", "--output-file", "report.txt") == 1
    assert Path("report.txt").read_text().startswith("model.py:6:9: MG104 ")


def test_statistics_take_the_place_of_what_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert scan("--statistics", "--output", "text=report.txt") == 1
    assert "notes included" in capsys.readouterr().out
    assert "error[MG104]" in Path("report.txt").read_text()


@pytest.mark.parametrize("name", formats.NAMES)
def test_every_format_can_be_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert scan("--output-format", name) == 1
    out = capsys.readouterr().out
    assert "MG104" in out
    # Programs tell notes apart; in a list for people or of failed tests they are left out, as in the text.
    assert ("MG108" in out) == (name in formats.WITH_NOTES)
    assert scan("--output-format", name, "--show-notes") == 1
    assert "MG108" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--output", "sarf=x"], "unknown format 'sarf'; did you mean 'sarif'?", id="misspelt"),
        pytest.param(["--output", "report.xml"], "unknown format 'report.xml'; there are text, ", id="no-format"),
        pytest.param(["--output", "sarif"], "'sarif' names no file; write sarif=FILE", id="no-file"),
        pytest.param(["--output", "sarif="], "names no file", id="empty-file"),
        pytest.param(["--output", "sarif=model.py"], "is one of the files to look at", id="over-a-source"),
        pytest.param(["--output", "sarif=x", "--output", "junit=./x"], "is named for another format too", id="twice"),
        pytest.param(["--output-file", "x", "--output", "junit=x"], "is named for another format too", id="output-file"),
        pytest.param(["--output", "sarif=no/where"], "--output: cannot write no/where", id="no-folder"),
        pytest.param(["--output", "sarif=x", "--add-ignore", "why"], "prints no findings", id="add-ignore"),
    ],
)
def test_mistakes(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert scan(*arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", ["confirm", "ready"])
@pytest.mark.parametrize("option", [["--output-file", "./model.py"], ["--output", "html=model.py"]], ids=["file", "also"])
def test_a_target_is_not_written_over(command: str, option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "model.py:M", *option]) == 2
    assert "is one of the files to look at" in capsys.readouterr().err
    assert Path("model.py").read_text() == MODEL


def test_all_commands_with_findings_offer_the_same_formats(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("scan", "confirm", "ready"):
        assert main([command, "--help"]) == 0
        words = " ".join(capsys.readouterr().out.split()).replace(" ", "")
        assert f"[{'|'.join(formats.NAMES)}]" in words
        assert "--outputFORMAT=FILE" in words

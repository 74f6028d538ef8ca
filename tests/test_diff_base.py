"""`--diff-base`: findings on changed lines alone, in repositories of git with whatever names and settings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from modelguard.cli.main import main

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")

TWO = """\
from torch import nn


class M(nn.Module):
    def forward(self, x):
        self.a += 1
        # between
        self.b += 1
        return x * self.a * self.b
"""
CHANGED = TWO.replace("self.b += 1", "self.b += 2")

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Runs git in the working directory, a repository with nothing committed, without anybody's configuration."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "test")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "test@example.com")
    repository = tmp_path / "repository"
    repository.mkdir()
    monkeypatch.chdir(repository)

    def run(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout

    run("init", "--quiet")
    return run


def write(path: str, content: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(content, encoding="utf-8")


def commit(git: Git) -> None:
    git("add", "--all")
    git("commit", "--quiet", "--message=all")


@pytest.fixture
def scan(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """The places of the findings since HEAD, or another revision."""

    def run(*arguments: str, base: str = "HEAD") -> list[str]:
        capsys.readouterr()
        status = main(["scan", "--no-cache", "--output-format", "json", "--diff-base", base, *arguments])
        out, err = capsys.readouterr()
        assert status in (0, 1), err
        found = json.loads(out)["findings"]
        assert status == bool(found)
        return [f"{each['path']}:{each['line']}" for each in found]

    return run


Scan = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(TWO, [], id="nothing"),
        pytest.param(CHANGED, [8], id="one-line"),
        pytest.param(TWO.replace("        # between\n", ""), [], id="a-line-taken-out-beside"),
        pytest.param("import os\n\n" + TWO, [], id="lines-moved"),
        pytest.param(TWO.replace("self.a += 1", "self.a += (\n            1\n        )"), [6], id="several-lines"),
        pytest.param(TWO.replace("self.a += 1", "self.a += 1; self.c = x"), [6, 6], id="all-of-the-line"),
        pytest.param(TWO.replace("\n", "\r\n"), [6, 8], id="line-ends"),
        pytest.param(CHANGED.rstrip("\n"), [8], id="no-line-end"),
    ],
)
def test_only_changed_lines_count(text: str, lines: list[int], git: Git, scan: Scan) -> None:
    write("model.py", TWO)
    commit(git)
    Path("model.py").write_bytes(text.encode())
    assert scan(".") == [f"model.py:{line}" for line in lines]
    git("add", "--all")
    assert scan("model.py") == [f"model.py:{line}" for line in lines]


def test_a_string_that_looks_like_a_patch(git: Git, scan: Scan) -> None:
    text = f'"""\n++ b/other.py\n@@ -1,3 +1,3 @@\n"""\n{TWO}'
    write("model.py", text)
    write("other.py", TWO)
    commit(git)
    write("model.py", text.replace("++ b", "++ b/other.py\n++ b").replace("self.b += 1", "self.b += 2"))
    write("zz.py", "")
    assert scan(".") == ["model.py:13"]


def test_the_summary_counts_what_is_left_out(git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    write("model.py", TWO)
    commit(git)
    write("model.py", CHANGED)
    assert main(["scan", "model.py", "--diff-base", "HEAD"]) == 1
    out = capsys.readouterr().out
    assert "1 error in 1 file" in out and "1 finding on lines that did not change\n" in out
    assert main(["scan", "model.py", "--diff-base", "HEAD", "--output-format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["summary"]["unchanged"] == 1


def test_files_that_git_does_not_follow_are_new(git: Git, scan: Scan) -> None:
    write("old.py", TWO)
    write(".gitignore", "ignored.py\n")
    commit(git)
    for name in ("new.py", "ignored.py", "sub/new.py"):
        write(name, TWO)
    git("add", "new.py")
    assert scan(".", "ignored.py") == [f"{name}:{line}" for name in ("ignored.py", "new.py", "sub/new.py") for line in (6, 8)]
    git("rm", "--quiet", "--cached", "old.py")
    assert scan("old.py") == ["old.py:6", "old.py:8"]


def test_a_renamed_file_is_compared_with_what_it_was(git: Git, scan: Scan) -> None:
    write("old.py", TWO)
    commit(git)
    git("config", "diff.renames", "false")
    git("mv", "old.py", "new.py")
    assert scan(".") == []
    write("new.py", CHANGED)
    assert scan(".") == ["new.py:8"]


def test_other_revisions(git: Git, scan: Scan) -> None:
    write("model.py", TWO)
    commit(git)
    git("tag", "first")
    write("model.py", CHANGED)
    commit(git)
    assert scan(".") == []
    for base in ("first", "HEAD~1", "HEAD^{/all}~1", git("rev-parse", "first").strip()):
        assert scan(".", base=base) == ["model.py:8"]


NAMES = ["with space.py", "-option.py", "größe_日本語.py", "a b/c.py", "*.py", ":(top)x.py", "[a].py"]
ODD_NAMES = ['quo"te.py', "back\\slash.py", "line\nfeed.py", "tab\t.py", "bell\x07.py", "b\tx/ y.py", os.fsdecode(b"\xff\xe9.py")]


@pytest.mark.parametrize("name", NAMES + [pytest.param(name, marks=posix) for name in ODD_NAMES], ids=ascii)
def test_any_name(name: str, git: Git, scan: Scan) -> None:
    write(name, TWO)
    write("a.py", TWO)
    commit(git)
    write(name, CHANGED)
    assert scan(".") == [f"{name}:8"]
    assert scan(f"./{name}") == [f"{name}:8"]
    os.rename(name, "z.py")
    write("z.py", TWO)
    git("add", "--all")
    assert scan(".") == []


def test_any_configuration_of_git(git: Git, scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    write("größe.py", TWO)
    write(".gitattributes", "*.py -diff\n")
    commit(git)
    write("größe.py", CHANGED)
    for key, value in {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.external": "false",
        "diff.context": "9",
        "diff.interHunkContext": "9",
        "diff.relative": "true",
        "diff.wordRegex": ".",
        "color.ui": "always",
        "core.quotePath": "false",
        "core.pager": "false",
    }.items():
        git("config", key, value)
        assert scan(".") == ["größe.py:8"], key
    monkeypatch.setenv("GIT_DIFF_OPTS", "--unified=9")
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    assert scan(".") == ["größe.py:8"]


def test_from_a_folder_below_and_from_outside(git: Git, scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    write("sub/model.py", TWO)
    write("other/model.py", TWO)
    commit(git)
    top = os.getcwd()
    write("sub/model.py", CHANGED)
    write("other/model.py", CHANGED)
    monkeypatch.chdir("sub")
    assert scan() == ["model.py:8"]
    assert scan(os.path.join(os.pardir, "other")) == [os.path.join(os.pardir, "other", "model.py:8")]
    monkeypatch.chdir(os.sep)
    whole = os.path.join(top, "sub", "model.py")
    assert scan(whole) == [f"{whole}:8"]


def test_several_repositories_and_worktrees(git: Git, scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    write("model.py", TWO)
    commit(git)
    git("worktree", "add", "--quiet", "../worktree")
    git("init", "--quiet", "../second")
    monkeypatch.chdir("../second")
    write("model.py", TWO)
    commit(git)
    monkeypatch.chdir("..")
    for folder in ("repository", "worktree", "second"):
        write(f"{folder}/model.py", CHANGED)
    assert scan("worktree", "second") == [os.path.join("second", "model.py:8"), os.path.join("worktree", "model.py:8")]


@posix
def test_through_links(git: Git, scan: Scan) -> None:
    write("real/model.py", TWO)
    Path("link").symlink_to("real")
    commit(git)
    write("real/model.py", CHANGED)
    assert scan("link/model.py") == ["link/model.py:8"]


def test_with_a_baseline_and_suppressions(git: Git, scan: Scan) -> None:
    write("model.py", TWO)
    commit(git)
    assert main(["scan", ".", "--baseline", "known.json", "--write-baseline"]) == 0
    write("model.py", CHANGED.replace("self.a += 1", "self.a += 3"))
    write("new.py", TWO.replace("M(", "New("))
    assert scan(".", "--baseline", "known.json") == ["model.py:6", "model.py:8", "new.py:6", "new.py:8"]
    write("model.py", CHANGED)
    assert main(["scan", "model.py", "--diff-base", "HEAD", "--add-ignore", "why"]) == 0
    assert Path("model.py").read_text().count("# modelguard: ignore[MG104] why") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--diff-base", "gone"], "git knows no revision 'gone' in ", id="unknown"),
        pytest.param(["--diff-base", ""], "git knows no revision ''", id="empty"),
        pytest.param(["--diff-base", "--output=x"], "git knows no revision '--output=x'", id="option"),
        pytest.param(["--diff-base", "HEAD:model.py"], "git knows no revision", id="no-commit"),
        pytest.param(["--diff-base", "HEAD", ".."], ".. lies in no git repository", id="no-repository"),
        pytest.param(["--diff-base", "HEAD", "--baseline", "x", "--write-baseline"], "exclude each other", id="write-baseline"),
        pytest.param(["--diff-base", "HEAD", "-"], "standard input is none", id="standard-input"),
    ],
)
def test_mistakes(arguments: list[str], words: str, git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    write("model.py", TWO)
    commit(git)
    assert main(["scan", *arguments]) == 2
    err = capsys.readouterr().err
    assert words in err and "Traceback" not in err
    assert not Path("x").exists()


def test_without_git_or_a_commit(git: Git, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write("model.py", TWO)
    assert main(["scan", "--diff-base", "HEAD"]) == 2
    assert "git knows no revision 'HEAD'" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "")
    assert main(["scan", "--diff-base", "HEAD"]) == 2
    assert "there is no program `git`" in capsys.readouterr().err

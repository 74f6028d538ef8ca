"""Which files a scan takes, and how their text is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from modelguard.errors import SourceError
from modelguard.findings import Severity
from modelguard.scan.files import decode, discover, read_source, split_lines
from modelguard.settings import DEFAULT_EXCLUDE, Settings

FIXED_LATIN = "# -*- coding: latin-1 -*-\nname = 'café'\n"


def _excluding(patterns: tuple[str, ...]) -> Callable[[str], Settings]:
    return lambda path: Settings(exclude=patterns)


def tree(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param(b"x = 1\n", "x = 1\n", id="ascii"),
        pytest.param("x = 'é'\n".encode(), "x = 'é'\n", id="utf-8"),
        pytest.param(b"\xef\xbb\xbfx = 1\n", "x = 1\n", id="bom"),
        pytest.param(b"\xef\xbb\xbf# coding: utf-8\nx = 1\n", "# coding: utf-8\nx = 1\n", id="bom-and-declaration"),
        pytest.param(FIXED_LATIN.encode("latin-1"), FIXED_LATIN, id="latin-1"),
        pytest.param(b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n", None, id="second-line"),
        pytest.param("x = 'é'  # a word on decoding\n".encode(), "x = 'é'  # a word on decoding\n", id="not-a-declaration"),
        pytest.param(b"x = 1\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n", id="crlf-stays"),
        pytest.param(b"", "", id="empty"),
    ],
)
def test_decode(source: bytes, text: str | None) -> None:
    assert decode(source) == (text if text is not None else source.decode("cp1252"))


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        pytest.param(b"x = 1\ny = '\xe9'\n", 2, ("0xe9", "UTF-8", "coding: latin-1"), id="bad-byte"),
        pytest.param(b"\xef\xbb\xbfx = 1\ny = '\xe9'\n", 2, ("0xe9", "utf-8;"), id="bad-byte-after-bom"),
        pytest.param(b"x = 1\n\ny = '\0'\n", 3, ("NUL",), id="nul"),
        pytest.param("x = 1\n".encode("utf-16"), 1, ("UTF-16", "save it as UTF-8"), id="utf-16"),
        pytest.param(b"# coding: no-such-thing\n", None, ("unknown encoding", "no-such-thing"), id="unknown-encoding"),
        pytest.param(b"# coding: rot13\n", 1, ("rot13",), id="not-a-text-encoding"),
        pytest.param(b"\xef\xbb\xbf# coding: latin-1\n", None, ("encoding problem",), id="bom-contradicts-declaration"),
    ],
)
def test_decode_says_what_is_wrong(source: bytes, line: int | None, words: tuple[str, ...]) -> None:
    with pytest.raises(SourceError) as caught:
        decode(source, "model.py")
    assert (caught.value.path, caught.value.line) == ("model.py", line)
    assert all(word in caught.value.message for word in words), caught.value.message
    assert str(caught.value).startswith("model.py:")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("a\nb\r\nc\rd", ["a", "b", "c", "d"], id="every-line-end"),
        pytest.param("a\x0cb\u2028c\x85d\n", ["a\x0cb\u2028c\x85d", ""], id="not-line-ends"),
    ],
)
def test_split_lines(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


def test_read_source_of_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot read this file: no such file"):
        read_source(str(tmp_path / "gone.py"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_read_source_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("x = 1\n")
    path.chmod(0)
    with pytest.raises(SourceError, match="permission denied; check its permissions"):
        read_source(str(path))


def test_read_source_of_a_directory(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot read this file"):
        read_source(str(tmp_path))


def test_directories_are_walked_sorted_and_explicit_files_taken_whatever_their_name(here: Path) -> None:
    tree(here, "b.py", "a/z.py", "a/b/c.py", "a/readme.txt", "script")
    assert discover([".", "script"]).files == ("a/b/c.py", "a/z.py", "b.py", "script")


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(["a", "a/x.py", "./a/x.py", "a/"], id="overlapping"),
        pytest.param(["a/x.py", "a"], id="file-first"),
        pytest.param([Path("a")], id="path-object"),
    ],
)
def test_a_file_reached_twice_is_taken_once(here: Path, paths: list[str | Path]) -> None:
    tree(here, "a/x.py")
    assert discover(paths) == (("a/x.py",), ())


def test_relative_and_absolute_paths_to_one_file_are_one(here: Path) -> None:
    tree(here, "a/x.py")
    assert discover([here / "a", "a"]) == (("a/x.py",), ())
    assert discover(["a/x.py", here / "a/x.py"]) == (("a/x.py",), ())


def test_links(here: Path) -> None:
    tree(here, "pkg/z_real/x.py", "elsewhere/y.py")
    (here / "pkg/a_link").symlink_to("z_real")
    (here / "pkg/loop").symlink_to(".")
    (here / "pkg/self.py").symlink_to("self.py")
    (here / "pkg/outside").symlink_to(here / "elsewhere")
    (here / "pkg/copy.py").symlink_to("z_real/x.py")
    (here / "pkg/.#x.py").symlink_to("nobody@nowhere")
    found = discover(["pkg"])
    assert found.files == ("pkg/outside/y.py", "pkg/z_real/x.py")
    assert [(d.path, d.severity) for d in found.diagnostics] == [("pkg/self.py", Severity.WARNING)]


@pytest.mark.parametrize("name", ["gone.py", "gone", "link.py"])
def test_a_missing_path_is_an_error_and_the_rest_is_scanned(here: Path, name: str) -> None:
    tree(here, "x.py")
    (here / "link.py").symlink_to("nowhere.py")
    found = discover([name, "x.py"])
    assert found.files == ("x.py",)
    assert [(d.path, d.severity) for d in found.diagnostics] == [(name, Severity.ERROR)]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        pytest.param((), "no Python file in this directory", id="empty"),
        pytest.param(("a/readme.txt",), "no Python file in this directory", id="other-files"),
        pytest.param(("build/x.py", "venv/y.py"), "no Python file in this directory (2 excluded)", id="all-excluded"),
    ],
)
def test_a_directory_without_python_is_said(here: Path, names: tuple[str, ...], message: str) -> None:
    (here / "root").mkdir()
    tree(here / "root", *names)
    found = discover(["root"], _excluding(DEFAULT_EXCLUDE))
    assert found.files == ()
    assert [(d.path, d.message, d.severity) for d in found.diagnostics] == [("root", message, Severity.WARNING)]


TREE = ("m/a.py", "m/gen/b.py", "m/gen/keep.py", "m/build/c.py", "n/gen/d.py", "n/test_e.py")


@pytest.mark.parametrize(
    ("roots", "exclude", "files"),
    [
        pytest.param(["."], DEFAULT_EXCLUDE, TREE[:3] + TREE[4:], id="default"),
        pytest.param(["m/build"], DEFAULT_EXCLUDE, ("m/build/c.py",), id="directory-asked-for-by-name"),
        pytest.param(["m/build/c.py"], DEFAULT_EXCLUDE, ("m/build/c.py",), id="file-asked-for-by-name"),
        pytest.param(["."], ("gen",), ("m/a.py", "m/build/c.py", "n/test_e.py"), id="plain-name"),
        pytest.param(["."], ("a.py",), TREE[1:], id="plain-file-name"),
        pytest.param(["."], ("m/gen/",), ("m/a.py", "m/build/c.py", "n/gen/d.py", "n/test_e.py"), id="path"),
        pytest.param(["m"], ("m/gen/",), ("m/a.py", "m/build/c.py"), id="path-from-the-working-directory"),
        pytest.param(["m/gen"], ("m/gen/",), ("m/gen/b.py", "m/gen/keep.py"), id="excluded-directory-asked-for"),
        pytest.param(["n"], ("test_*.py",), ("n/gen/d.py",), id="wildcard"),
        pytest.param(["m"], ("m/gen/*", "!keep.py", "build"), ("m/a.py", "m/gen/keep.py"), id="taken-back"),
    ],
)
def test_exclude(here: Path, roots: list[str], exclude: tuple[str, ...], files: tuple[str, ...]) -> None:
    tree(here, *TREE)
    assert discover(roots, _excluding(exclude)).files == tuple(sorted(files))


def test_exclude_outside_the_working_directory(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    tree(outside, "a.py", "gen/b.py")
    assert discover([outside], _excluding(("/gen/",))).files == (str(outside / "a.py"),)

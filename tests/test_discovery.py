"""Which files a scan takes below directories: what git ignores, what settings exclude, and where each of them counts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from modelguard.findings import Severity
from modelguard.scan import files
from modelguard.scan.excludes import Patterns, leaves_out
from modelguard.scan.files import discover, read_source
from modelguard.scan.scope import Scope
from modelguard.settings import Settings
from modelguard.settings_files import Overrides, SettingsFiles

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Below a folder of its own: what lies above the working directory is part of some tests.
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(contents: Mapping[str, str | bytes], *modules: str) -> None:
    for name, content in {**dict.fromkeys(modules, "x = 1\n"), **contents}.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def found(*roots: str, force_exclude: bool = False, settings: Callable[[str], Settings] | None = None) -> list[str]:
    for_path = settings or (lambda path: Settings(exclude=()))
    return [path.replace(os.sep, "/") for path in discover(roots or ["."], for_path, force_exclude).files]


def by_files(*exclude: str) -> Callable[[str], Settings]:
    return SettingsFiles(Overrides(extend_exclude=exclude or None)).for_path


MODULES = ("a.py", "gen/b.py", "gen/keep.py", "sub/c.py", "sub/gen/d.py", "sub/tmp_e.py", "sub/deep/out/f.py")

IGNORES = [
    pytest.param({".gitignore": "gen"}, id="name"),
    pytest.param({".gitignore": "gen/"}, id="directory"),
    pytest.param({".gitignore": "c.py/"}, id="directory-pattern-and-a-file"),
    pytest.param({".gitignore": "/gen"}, id="from-the-top"),
    pytest.param({".gitignore": "sub/gen\n"}, id="path"),
    pytest.param({".gitignore": "sub/gen/\r\n*.txt\r\n"}, id="windows-line-ends"),
    pytest.param({".gitignore": "tmp_*.py"}, id="wildcard"),
    pytest.param({".gitignore": "gen/*\n!gen/keep.py"}, id="taken-back"),
    pytest.param({".gitignore": "gen/**\n!gen/keep.py"}, id="taken-back-from-all-below"),
    pytest.param({".gitignore": "gen/\n!gen/keep.py"}, id="not-taken-back-below-an-ignored-folder"),
    pytest.param({".gitignore": "!c.py\n*.py\n!a.py"}, id="the-last-decides"),
    pytest.param({".gitignore": "*.py", "sub/.gitignore": "!c.py"}, id="nested-takes-back"),
    pytest.param({".gitignore": "!c.py", "sub/.gitignore": "*.py"}, id="nested-goes-before"),
    pytest.param({"sub/.gitignore": "/gen\nout/"}, id="nested-path"),
    pytest.param({".gitignore": "*\n!*/\n!c.py"}, id="all-but"),
    pytest.param({".gitignore": "g*\n!gen/"}, id="folder-taken-back"),
    pytest.param({".gitignore": "**/out\nsub/**/d.py"}, id="any-depth"),
    pytest.param({".gitignore": "[z-a]\n[[:alpha:]\n!\nx[\n\\\ngen/"}, id="no-patterns-among-patterns"),
    pytest.param({".gitignore": "# gen/\n\n   \na.py   "}, id="comments-and-spaces"),
    pytest.param({".gitignore": b"\xef\xbb\xbfgen/\n"}, id="bom"),
    pytest.param({".gitignore": b"caf\xe9/\ngen/\n\xff*\n"}, id="not-utf-8"),
    pytest.param({".git/info/exclude": "gen/\n"}, id="of-this-clone"),
    pytest.param({".git/info/exclude": "gen/\n", "sub/.gitignore": "!gen/"}, id="of-this-clone-taken-back"),
]


@needs_git
@pytest.mark.parametrize("ignores", IGNORES)
def test_git_and_a_scan_agree_on_what_is_ignored(ignores: dict[str, str | bytes]) -> None:
    subprocess.run(["git", "init", "-q", "."], check=True)
    write(ignores, *MODULES)
    assert found() == listed_by_git()


def listed_by_git() -> list[str]:
    command = ["git", "-c", "core.excludesFile=", "ls-files", "-oz", "--exclude-standard", "*.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return sorted(done.stdout.split("\0")[:-1])


LINES = st.sampled_from(
    [
        *("a", "gen/", "/gen", "g*", "!gen", "!gen/", "*.py", "!*.py", "!c.py", "[cd].py", "*", "!*/", "**", "/**", "/*"),
        *("sub/gen", "sub/*", "!sub/c.py", "gen/**", "gen/**/", "!gen/**", "**/gen", "/**/out", "sub/**/d.py", "*/gen/"),
    ]
)


@needs_git
@given(top=st.lists(LINES, max_size=5), nested=st.lists(LINES, max_size=3))
@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_git_and_a_scan_agree_on_any_patterns(top: list[str], nested: list[str]) -> None:
    if not Path(".git").exists():
        subprocess.run(["git", "init", "-q", "."], check=True)
    write({".gitignore": "\n".join(top), "sub/.gitignore": "\n".join(nested)}, *MODULES)
    assert found() == listed_by_git()


def test_without_a_repository_no_ignore_file_counts() -> None:
    write({".gitignore": "gen/"}, *MODULES)
    assert found() == sorted(MODULES)


def test_ignore_files_need_not_be_respected() -> None:
    write({".git/HEAD": "", ".gitignore": "*"}, *MODULES)
    assert found() == []
    assert found(settings=lambda path: Settings(respect_gitignore=False)) == sorted(MODULES)


@pytest.mark.parametrize(
    ("ignore", "root", "expected"),
    [
        pytest.param("tmp_*.py", "sub", ["sub/c.py", "sub/deep/out/f.py", "sub/gen/d.py"], id="from-above"),
        pytest.param("sub/gen", "sub", ["sub/c.py", "sub/deep/out/f.py", "sub/tmp_e.py"], id="path-from-above"),
        pytest.param("gen/", "gen", ["gen/b.py", "gen/keep.py"], id="named-itself"),
        pytest.param("/sub/", "sub/deep", ["sub/deep/out/f.py"], id="below-what-is-ignored"),
        pytest.param("sub/**", "sub/gen", ["sub/gen/d.py"], id="below-what-is-ignored-by-a-wildcard"),
        pytest.param("g*\n*keep.py", "gen", ["gen/b.py"], id="named-itself-and-a-file-in-it"),
        pytest.param("gen/keep.py", "gen", ["gen/b.py"], id="a-file-in-it"),
        pytest.param("*", "gen/b.py", ["gen/b.py"], id="file-named-itself"),
    ],
)
@pytest.mark.parametrize("spelling", ["{root}", "./{root}/", "{root}/../{root}"])
def test_what_is_named_is_scanned_whether_git_ignores_it_or_not(
    ignore: str, root: str, expected: list[str], spelling: str
) -> None:
    write({".git/HEAD": "", ".gitignore": ignore}, *MODULES)
    if not root.endswith(".py"):
        Path(root, os.path.basename(root)).mkdir(exist_ok=True)
        spelling = spelling.replace("../{root}", f"../{os.path.basename(root)}")
    assert found(spelling.format(root=root) if not root.endswith(".py") else root) == expected


def test_each_repository_has_its_own_ignore_files() -> None:
    write(
        {
            ".gitignore": "gen/",
            "one/.git/HEAD": "",
            "one/.gitignore": "gen/",
            "two/.git": "gitdir: ../one/.git/worktrees/two\n",
            "one/inner/.git/HEAD": "",
        },
        "gen/a.py",
        "one/gen/a.py",
        "one/inner/gen/a.py",
        "two/gen/a.py",
    )
    assert found() == ["gen/a.py", "one/inner/gen/a.py", "two/gen/a.py"]


@posix
def test_a_link_out_of_the_repository_takes_no_ignore_file_along() -> None:
    write({"repo/.git/HEAD": "", "home/.gitignore": "*"}, "repo/a.py", "home/lib/b.py")
    Path("repo/lib").symlink_to("../home/lib")
    assert found("repo") == ["repo/a.py", "repo/lib/b.py"]


@posix
def test_a_pipe_in_the_place_of_an_ignore_file_is_not_waited_for() -> None:
    write({".git/HEAD": ""}, "a.py")
    os.mkfifo(".gitignore")
    assert found() == ["a.py"]


def test_patterns_without_wildcards_are_looked_up() -> None:
    numbers = range(3000)
    lines = [*(f"/out/gen_{number}.py" for number in numbers), *(f"name_{number}/" for number in numbers), "!/out/gen_7.py"]
    says = Patterns(lines, os.getcwd()).of("out")
    assert [says(f"gen_{number}.py", False) for number in (6, 7, 3000)] == [True, False, None]
    assert [says("name_5", True), says("name_5", False)] == [True, None]


def test_settings_of_each_directory_hold_in_it() -> None:
    write(
        {
            "pyproject.toml": '[tool.modelguard]\nextend-exclude = ["gen/", "one/old.py", "two/old.py"]\n',
            "one/modelguard.toml": 'extend-exclude = ["/sub/new.py"]\n',
            "one/sub/deeper/pyproject.toml": "[tool.modelguard]\nexclude = ['a\\b.py']\nrespect-gitignore = false\n",
            ".git/HEAD": "",
            ".gitignore": "ignored.py",
        },
        *("gen/a.py", "two/gen/a.py", "two/old.py", "two/new.py", "two/ignored.py"),
        *("one/gen/a.py", "one/old.py", "one/sub/new.py", "one/build/a.py", "one/ignored.py"),
        *("one/sub/deeper/a/b.py", "one/sub/deeper/build/a.py", "one/sub/deeper/ignored.py"),
    )
    expected = [
        *("one/gen/a.py", "one/old.py", "one/sub/deeper/build/a.py", "one/sub/deeper/ignored.py"),
        "two/new.py",
    ]
    assert found(settings=by_files()) == expected
    assert found("one", "two", settings=by_files()) == expected
    # As pre-commit names them: the same files, however they are handed over.
    everything = [str(path) for path in Path().rglob("*.py") if path.name != "ignored.py"]
    assert found(*everything, force_exclude=True, settings=by_files()) == [path for path in expected if "ignored" not in path]


@pytest.mark.parametrize(
    ("exclude", "root", "expected"),
    [
        pytest.param("vendored/", "vendored", ["vendored/a.py"], id="directory"),
        pytest.param("vendored", "vendored", ["vendored/a.py"], id="name"),
        pytest.param("/vendored", "vendored", ["vendored/a.py"], id="path"),
        pytest.param("vend*/", "vendored/sub", [], id="excluded-below-the-named-one"),
        pytest.param("vendored/**", "vendored", [], id="all-in-it"),
    ],
)
def test_an_excluded_directory_that_is_named_is_scanned(exclude: str, root: str, expected: list[str]) -> None:
    write({"pyproject.toml": f'[tool.modelguard]\nexclude = ["{exclude}"]\n'}, "vendored/a.py", "vendored/sub/vendor/b.py")
    if root == "vendored":
        shutil.rmtree("vendored/sub")
    assert found(root, settings=by_files()) == expected
    assert found(root, force_exclude=True, settings=by_files()) == []


FORCED = ("legacy/x.py", "legacy/sub/y.py", "src/a.py", "src/legacy.py", "build/b.py")


@pytest.mark.parametrize(
    ("exclude", "named", "expected"),
    [
        pytest.param((), FORCED, ["legacy/sub/y.py", "legacy/x.py", "src/a.py", "src/legacy.py"], id="default"),
        pytest.param(("legacy/",), FORCED, ["src/a.py", "src/legacy.py"], id="directory"),
        pytest.param(("legacy\\sub",), FORCED, ["legacy/x.py", "src/a.py", "src/legacy.py"], id="back-slash"),
        pytest.param(("*.py",), FORCED, [], id="all"),
        pytest.param(("legacy",), ["legacy"], [], id="named-directory"),
        pytest.param(("legacy",), ["legacy/sub"], [], id="directory-below"),
        pytest.param(("sub",), ["legacy"], ["legacy/x.py"], id="below-the-named-directory"),
        pytest.param(("/src/*", "!/src/legacy.py"), ["src/a.py", "src/legacy.py"], ["src/legacy.py"], id="taken-back"),
        pytest.param(("here",), ["src/a.py"], ["src/a.py"], id="not-above-the-working-directory"),
        pytest.param(("here",), ["."], ["legacy/sub/y.py", "legacy/x.py", "src/a.py", "src/legacy.py"], id="not-itself"),
    ],
)
def test_force_exclude(exclude: tuple[str, ...], named: list[str], expected: list[str]) -> None:
    write({}, *FORCED)
    assert found(*named, force_exclude=True, settings=by_files(*exclude)) == expected
    absolute = found(*map(os.path.abspath, named), force_exclude=True, settings=by_files(*exclude))
    assert [os.path.relpath(path).replace(os.sep, "/") for path in absolute] == expected


@pytest.mark.parametrize("name", ["build", "dist", "venv"])
def test_the_working_directory_can_have_any_name(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write({}, f"{name}/a.py")
    monkeypatch.chdir(here / name)
    assert found(".", force_exclude=True, settings=by_files()) == ["a.py"]
    monkeypatch.chdir(here)
    assert found(".", force_exclude=True, settings=by_files()) == []


def test_what_settings_from_elsewhere_exclude(here: Path) -> None:
    write({"../other/modelguard.toml": 'exclude = ["venv", "*_pb2.py"]\n'}, "venv/a.py", "b_pb2.py", "c.py", "../far/d_pb2.py")
    for_path = SettingsFiles(config="../other/modelguard.toml").for_path
    named = ("venv/a.py", "b_pb2.py", "c.py", "../far/d_pb2.py")
    assert [path for path in named if not leaves_out(path, for_path)] == ["c.py"]
    assert found(settings=for_path) == ["c.py"]


def test_the_scope_of_a_project_leaves_out_what_is_excluded(here: Path) -> None:
    names = ("a.py", "b.py", "x/gen/b.py", "b_pb2.py", "lib/old/c.py", "old/c.py")
    write({}, *names)
    scope = Scope(["gen/a.py"], str(here), ("gen/", "*_pb2.py", "lib/old"))
    assert [name for name in names if str(here / name) in scope] == ["a.py", "b.py", "old/c.py"]
    assert "gen/a.py" in scope
    assert str(here.parent / "z.py") not in scope


@pytest.mark.parametrize("order", [1, -1])
@posix
def test_of_several_ways_to_a_file_the_one_without_links_is_shown(order: int, here: Path) -> None:
    write({}, "package/module.py", "d/other.py")
    Path("l.py").symlink_to("package/module.py")
    Path("d/l").symlink_to("../package")
    Path("hard.py").hardlink_to("d/other.py")
    roots = ["l.py", "d", "package/module.py", str(here / "package/module.py"), "../here/l.py"]
    assert found(*roots[::order]) == ["d/other.py", "package/module.py"]
    assert found("d") == ["d/l/module.py", "d/other.py"]
    assert found("l.py", "d") == ["d/other.py", "l.py"]
    assert found("hard.py", "d/other.py") == ["d/other.py", "hard.py"]


@posix
def test_a_way_back_through_a_link(here: Path) -> None:
    write({}, "far/in/a.py", "far/b.py", "b.py")
    Path("near").symlink_to("far/in")
    assert found("near/../b.py") == ["near/../b.py"]
    assert found("near/../b.py", "far/b.py") == ["far/b.py"]
    assert found("far/in/../../b.py") == ["b.py"]


@posix
def test_circles_of_links_end() -> None:
    write({}, "a/x.py", "b/y.py")
    Path("a/to_b").symlink_to("../b")
    Path("b/to_a").symlink_to("../a")
    Path("a/up").symlink_to("..")
    Path("first.py").symlink_to("second.py")
    Path("second.py").symlink_to("first.py")
    assert found() == found("a", "b") == ["a/x.py", "b/y.py"]
    told = discover(["first.py"])
    assert (told.files, [each.severity for each in told.diagnostics]) == ((), [Severity.ERROR])


def test_stubs_are_skipped_and_named_where_a_person_named_them() -> None:
    others = ("stub.pyi", "book.ipynb", "lib/one.ipynb", "lib/stub.pyi")
    write(dict.fromkeys(others, ""), "lib/a.py", "x.py/inside.py", "script")
    told = discover(["stub.pyi", "book.ipynb", "lib", "script", "x.py"])
    assert told.files == ("book.ipynb", "lib/a.py", "lib/one.ipynb", "script", "x.py/inside.py")
    assert [(each.path, each.message.partition(":")[0], each.severity) for each in told.diagnostics] == [
        ("stub.pyi", "skipped", Severity.WARNING),
    ]


@posix
def test_a_pipe_that_nobody_writes_into_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_NOBODY_WRITES", 0.05)
    os.mkfifo("pipe.py")
    assert found() == []
    with pytest.raises(files.SourceError, match="nobody wrote into this pipe"):
        read_source("pipe.py")


@posix
def test_a_pipe_whose_writer_is_slow_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_NOBODY_WRITES", 0.05)
    os.mkfifo("pipe.py")
    with subprocess.Popen(["sh", "-c", "exec > pipe.py; sleep 0.5; echo 'x = 1'"]):
        waited = b""
        while not waited:
            try:
                waited = read_source("pipe.py")
            except files.SourceError:
                continue  # the shell has not started yet
    assert waited == b"x = 1\n"

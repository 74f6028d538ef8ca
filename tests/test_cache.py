"""The cache: whatever was found before, and whatever is done to the cache, a scan finds what it would find without."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelguard.cli.clean import command as clean
from modelguard.findings import ScanReport
from modelguard.scan import cache, engine
from modelguard.scan.analysis import Analysis
from modelguard.scan.engine import scan_paths
from modelguard.settings import CACHE_FOLDER

# Small projects that change between scans: every file has a `Base` and a `step`, its own or another's, and uses them.

MODULES = {
    "a": "a.py",
    "b": "b.py",
    "pkg": "pkg/__init__.py",
    "pkg.a": "pkg/a.py",
    "pkg.b": "pkg/b.py",
    "pkg.sub": "pkg/sub/__init__.py",
    "pkg.sub.b": "pkg/sub/b.py",
    "pkg.sub.c": "pkg/sub/c.py",
}
SHADOWS = ("pkg/b/__init__.py", "a/__init__.py", "pkg/sub.py", "pkg/pkg.py", "sub.py")
BASES = (
    "class Base(nn.Module):\n    pass",
    "class Base(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.mean = torch.zeros(4)",
    "class Base(nn.Module):\n    def __init__(self):\n        self.register_buffer('mean', torch.zeros(4))",
    "class Base(nn.Module):\n    def forward(self, x):\n        self.mean = x\n        return x",
    "class Base:\n    mean = []",
)
STEPS = (
    "def step(net, x):\n    return x",
    "def step(net, x):\n    net.mean = x\n    return x",
    "def step(net, x):\n    net.mean.append(x)\n    return x",
    "def step(net, x):\n    net.held = net.held + x\n    return net.held",
)
NET = """
class Net({base}):
    def forward(self, x):
        {before}
        return {step}(self, x) + self.mean
"""
HEAD = "import torch\nfrom torch import nn\n"


@st.composite
def sources(draw: st.DrawFn, path: str, modules: list[str]) -> str:
    """The text of one file, which takes what it does not define from `modules` or from beside itself."""
    lines = [HEAD]
    names = {}
    for name, own in (("Base", BASES), ("step", STEPS)):
        names[name] = name
        module = draw(st.sampled_from(modules))
        package, _, last = module.rpartition(".")
        beside = [each for each in modules if each.startswith("pkg.")] if path.startswith("pkg/") else []
        way = draw(st.sampled_from(("own", "from", "star", "plain", "as", "module", "beside", "tried", "local")))
        if way == "beside" and beside:
            below = draw(st.sampled_from(beside)).removeprefix("pkg.")
            lines.append(f"from {'.' * path.count('/')}{below} import {draw(st.sampled_from((name, '*')))}")
        elif way == "star":
            lines.append(f"from {module} import *")
        elif way == "plain":
            lines.append(f"import {module}")
            names[name] = f"{module}.{name}"
        elif way == "as":
            lines.append(f"import {module} as {name.lower()}_module")
            names[name] = f"{name.lower()}_module.{name}"
        elif way == "module" and package:
            lines.append(f"from {package} import {last}")
            names[name] = f"{last}.{name}"
        elif way == "tried":
            other = draw(st.sampled_from((*modules, "elsewhere")))
            lines.append(f"try:\n    from {other} import {name}\nexcept ImportError:\n    from {module} import {name}")
        elif way in ("own", "beside"):
            lines.append(draw(st.sampled_from(own)))
        else:
            lines.append(f"from {module} import {name}")
    before = draw(st.sampled_from(("pass", "self.mean = x", f"from {draw(st.sampled_from(modules))} import step")))
    lines.append(NET.format(base=names["Base"], before=before, step=names["step"]))
    if draw(st.integers(0, 15)) == 0:
        lines.append(draw(st.sampled_from(("# modelguard: ignore-file[MG103] known", "def broken(:"))))
    return "\n".join(lines)


@st.composite
def projects(draw: st.DrawFn) -> list[dict[str, str | None]]:
    """A project as it is at first, and what changes in it from scan to scan; None for a file that goes."""
    modules = draw(st.lists(st.sampled_from(list(MODULES)), min_size=3, unique=True))
    paths = [MODULES[module] for module in modules]
    # Without it, what lies below is found from beside alone.
    paths += ["pkg/__init__.py"] if "pkg" not in modules and draw(st.booleans()) else []
    states: list[dict[str, str | None]] = [{path: draw(sources(path, modules)) for path in paths}]
    for _ in range(draw(st.integers(1, 3))):
        changed = draw(st.lists(st.sampled_from((*paths, *SHADOWS)), min_size=1, max_size=2))
        states.append({path: draw(sources(path, modules)) if draw(st.integers(0, 4)) else None for path in changed})
    return states


def write(root: Path, files: dict[str, str | None]) -> None:
    """Write the files below `root`; those without a text are removed."""
    for name, text in files.items():
        path = root / name
        if text is None:
            path.unlink(missing_ok=True)
        elif not path.parent.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def seen(report: ScanReport) -> tuple[object, ...]:
    """All of a report but the time it took."""
    found = (report.findings, report.diagnostics)
    return (*found, report.files, report.module_classes, report.entry_points, report.lines, report.failing)


@contextmanager
def working_in(folder: str | Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture(autouse=True)
def always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_WORTH_RECALLING", 1)


thorough = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


@thorough
@given(states=projects())
def test_the_cache_changes_no_result(states: list[dict[str, str | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder, working_in(folder):
        for change in states:
            write(Path(), change)
            plain = seen(scan_paths(["."]))
            assert seen(scan_paths(["."], cache=".cache")) == plain
            assert seen(scan_paths(["."], cache=".cache")) == plain


@thorough
@given(states=projects(), few=st.sets(st.sampled_from(list(MODULES.values())), min_size=1, max_size=3))
def test_a_few_files_have_the_findings_that_all_have(states: list[dict[str, str | None]], few: set[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, working_in(folder):
        os.mkdir(".git")
        for change in states:
            write(Path(), change)
            named = sorted(name for name in few if os.path.exists(name))
            if named:
                whole = [finding for finding in scan_paths(["."]).findings if finding.location.path in named]
                assert list(scan_paths(named).findings) == whole
                assert list(scan_paths(named, cache=".cache").findings) == whole


# What is in place of a cache, and what is done to it.

NETS = 25
CACHE = Path(CACHE_FOLDER)
DATABASE = CACHE / "scans.sqlite"


ALONE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = {value}

    def forward(self, x):
        self.mean = x
        self.n{number} = x
        return x + self.mean
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with findings in its files, as working directory."""
    monkeypatch.chdir(tmp_path)
    for number in range(NETS):
        value = "torch.zeros(4)" if number % 2 else "[]"
        (tmp_path / f"net{number}.py").write_text(ALONE.format(value=value, number=number))
    return tmp_path


def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are analysed from now on."""
    paths: list[str] = []
    plain = Analysis.scan

    def scan(self: Analysis, path: str) -> object:
        paths.append(path)
        return plain(self, path)

    monkeypatch.setattr(Analysis, "scan", scan)
    return paths


def test_only_what_changed_is_analysed_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan_paths(["."], cache=str(CACHE))
    paths = analysed(monkeypatch)
    scan_paths(["."], cache=str(CACHE))
    assert paths == []
    (project / "net3.py").write_text("from net4 import Net\n")
    scan_paths(["."], cache=str(CACHE))
    assert paths == ["net3.py"]
    paths.clear()
    (project / "net4.py").write_text("import torch\n")
    scan_paths(["."], cache=str(CACHE))
    assert paths == ["net3.py", "net4.py"]


def test_what_another_folder_keeps_in_the_same_cache_is_left_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "below").mkdir()
    (project / "below" / "net0.py").write_text("x = 1\n")
    shared = str(project / "shared")
    whole = seen(scan_paths(["."], cache=shared))
    with working_in("below"):
        assert not scan_paths(["."], cache=shared).findings
    paths = analysed(monkeypatch)
    assert seen(scan_paths(["."], cache=shared)) == whole
    with working_in("below"):
        assert not scan_paths(["."], cache=shared).findings
    assert paths == []


def test_a_cache_of_another_build_is_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = seen(scan_paths(["."], cache=str(CACHE)))
    monkeypatch.setattr(sys, "version", "4.0")
    paths = analysed(monkeypatch)
    assert seen(scan_paths(["."], cache=str(CACHE))) == plain
    assert len(paths) == NETS


def test_runs_that_nobody_asks_for_go(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_RUNS", 2)
    for paths in (["."], ["net1.py", "net2.py"], [str(project)], ["net3.py", "."]):
        scan_paths(paths, cache=str(CACHE))
    with closing(sqlite3.connect(DATABASE)) as connection:
        for table in ("runs", "files", "results"):
            assert connection.execute(f"SELECT count(DISTINCT run) FROM {table}").fetchone() == (2,)


def noise(seed: int, start: int, share: float) -> Callable[[], None]:
    """Change some of the bytes of the database."""

    def damage() -> None:
        chance = random.Random(seed)
        content = bytearray(DATABASE.read_bytes())
        for index in range(start, len(content)):
            if chance.random() < share:
                content[index] = chance.randrange(256)
        DATABASE.write_bytes(content)

    return damage


def shorten(size: int) -> Callable[[], None]:
    return lambda: os.truncate(DATABASE, size)


def query(*statements: str) -> Callable[[], None]:
    def run() -> None:
        with closing(sqlite3.connect(DATABASE)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    return run


def foreign() -> None:
    DATABASE.unlink()
    query("CREATE TABLE files (name TEXT)", "CREATE TABLE photos (name TEXT)")()


DAMAGE = {
    "noise": lambda: DATABASE.write_bytes(random.Random(1).randbytes(9_000)),
    "text": lambda: DATABASE.write_text("no database\n"),
    "empty": shorten(0),
    "half a header": shorten(50),
    "one page": shorten(4096),
    "half a page": shorten(10_000),
    **{f"a few bytes, {seed}": noise(seed, 4096, 0.001) for seed in range(4)},
    **{f"many bytes, {seed}": noise(seed, 100, 0.05) for seed in range(3)},
    "another program's": foreign,
    "without a table": query("DROP TABLE results"),
    "other columns": query("DROP TABLE results", "CREATE TABLE results (run, path, key, scanned, seal)"),
    "other results": query("UPDATE results SET scanned = (SELECT scanned FROM results LIMIT 1)"),
    "other types": query("UPDATE results SET scanned = 'text', key = 7", "UPDATE files SET imports = NULL"),
    "other hashes": query("UPDATE files SET digest = (SELECT digest FROM files LIMIT 1)"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_cache_is_made_anew(project: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[], None]) -> None:
    plain = seen(scan_paths(["."]))
    scan_paths(["."], cache=str(CACHE))
    damage()
    assert seen(scan_paths(["."], cache=str(CACHE))) == plain
    paths = analysed(monkeypatch)
    assert seen(scan_paths(["."], cache=str(CACHE))) == plain
    assert paths == []


def in_the_way(name: str) -> Callable[[], None]:
    def put() -> None:
        DATABASE.unlink()
        (DATABASE if name == "folder" else CACHE / "elsewhere").mkdir()
        if name == "link":
            DATABASE.symlink_to("elsewhere")

    return put


def replaced_by_a_file() -> None:
    cache.remove(str(CACHE))
    CACHE.write_text("mine\n")


def holds_other_things() -> None:
    cache.remove(str(CACHE))
    CACHE.mkdir()
    (CACHE / "notes").write_text("mine\n")


def leads_nowhere() -> None:
    cache.remove(str(CACHE))
    CACHE.symlink_to("nowhere")


UNUSABLE = {
    "a folder for the file": (in_the_way("folder"), "scans.sqlite in it is no file"),
    "a link for the file": (in_the_way("link"), "scans.sqlite in it is no file"),
    "a file for the folder": (replaced_by_a_file, "this is no folder; name another by --cache-dir"),
    "a link to nothing": (leads_nowhere, "this is no folder; name another by --cache-dir"),
    "other things": (holds_other_things, "this folder holds other things; name another by --cache-dir"),
}


@pytest.mark.parametrize(("spoil", "reason"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_cache_that_cannot_be_used_is_remarked_once(project: Path, spoil: Callable[[], None], reason: str) -> None:
    plain = scan_paths(["."])
    scan_paths(["."], cache=str(CACHE))
    spoil()
    report = scan_paths(["."], cache=str(CACHE))
    assert report.findings == plain.findings
    message = f"this cache cannot be used, and the scan went on without: {reason}"
    assert [(each.path, each.message) for each in report.diagnostics] == [(str(CACHE), message)]


def test_a_locked_cache_is_done_without(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_WAIT", 0.05)
    plain = scan_paths(["."], cache=str(CACHE))
    with closing(sqlite3.connect(DATABASE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        report = scan_paths(["."], cache=str(CACHE))
    assert report.findings == plain.findings
    assert [each.message.rpartition(": ")[2] for each in report.diagnostics] == ["database is locked"]


def test_a_read_only_cache_is_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = seen(scan_paths(["."], cache=str(CACHE)))
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, timeout: connect(f"file:{path}?mode=ro", timeout=timeout, uri=True))
    paths = analysed(monkeypatch)
    assert seen(scan_paths(["."], cache=str(CACHE))) == plain
    assert paths == []
    (project / "net3.py").write_text("x = 1\n")
    report = scan_paths(["."], cache=str(CACHE))
    assert report.findings == scan_paths(["."]).findings
    assert [each.message.rpartition(": ")[2] for each in report.diagnostics] == ["attempt to write a readonly database"]


def test_a_full_disk_leaves_the_findings(project: Path) -> None:
    command = [sys.executable, "-m", "modelguard", "scan", "--output-format", "json"]
    plain = subprocess.run([*command, "--no-cache"], capture_output=True, text=True)

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=full)
    assert done.returncode == plain.returncode == 1
    assert (
        done.stdout.replace(" ", "").partition('"diagnostics"')[0] == plain.stdout.replace(" ", "").partition('"diagnostics"')[0]
    )
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(".modelguard_cache: warning: this cache cannot be used, and the scan went on without: ")
    assert subprocess.run(command, capture_output=True, text=True).stdout == plain.stdout


@pytest.mark.parametrize("left", [(), (".gitignore",), (".gitignore", "CACHEDIR.TAG"), ("scans.sqlite",)], ids=len)
def test_what_a_stopped_scan_left_of_a_cache_is_taken(
    project: Path, monkeypatch: pytest.MonkeyPatch, left: tuple[str, ...]
) -> None:
    CACHE.mkdir()
    for name in left:
        (CACHE / name).touch()
    plain = seen(scan_paths(["."], cache=str(CACHE)))
    paths = analysed(monkeypatch)
    assert seen(scan_paths(["."], cache=str(CACHE))) == plain
    assert paths == []
    assert cache.is_cache(str(CACHE))


def test_a_linked_folder_and_one_inside_the_project_are_used(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "real").mkdir()
    (project / "link").symlink_to("real")
    for folder in ("link", "sub/cache"):
        plain = seen(scan_paths(["."], cache=folder))
        with monkeypatch.context() as patch:
            paths = analysed(patch)
            assert seen(scan_paths(["."], cache=folder)) == plain
            assert paths == []


def test_names_that_are_no_utf_8_are_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = os.fsdecode(b"caf\xe9.py")
    try:
        (project / name).write_text((project / "net1.py").read_text())
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    plain = seen(scan_paths(["."]))
    assert seen(scan_paths(["."], cache=str(CACHE))) == plain
    assert seen(scan_paths(["."], cache=str(CACHE))) == plain


# Scans at the same time, and files that change during one.


def _scan_often(barrier: object, seed: int) -> None:
    engine._WORTH_RECALLING = 1
    barrier.wait()  # type: ignore[attr-defined]
    chance = random.Random(seed)
    for _ in range(6):
        name = f"net{chance.randrange(NETS)}.py"
        Path(name).write_text(Path(f"net{chance.randrange(NETS)}.py").read_text() + "\n" * chance.randrange(3))
        said = scan_paths(["."], cache=str(CACHE)).diagnostics
        # A file that another process was just writing may be reported as changed.
        assert not [each for each in said if "cache" in each.message], said


def test_scans_at_the_same_time_share_a_cache(project: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    scans = [context.Process(target=_scan_often, args=(barrier, seed)) for seed in range(3)]
    for each in scans:
        each.start()
    for each in scans:
        each.join()
    assert [each.exitcode for each in scans] == [0, 0, 0]
    assert seen(scan_paths(["."], cache=str(CACHE))) == seen(scan_paths(["."]))


HELPED = "from helper import Base\n\n\nclass Net(Base):\n    def forward(self, x):\n        self.mean = x\n        return x\n"
BUFFER = "import torch\nfrom torch import nn\n\n\nclass Base(nn.Module):\n    def __init__(self):\n" + (
    "        self.register_buffer('mean', torch.zeros(4))\n"
)
MEANWHILE: dict[str, tuple[dict[str, str | None], dict[str, str | None]]] = {
    "changed": ({"lib/helper.py": BUFFER}, {"lib/helper.py": "Base = object\n"}),
    "removed": ({"lib/helper.py": BUFFER}, {"lib/helper.py": None}),
    "came": ({}, {"lib/helper.py": BUFFER}),
    "shadowed": ({"lib/helper.py": BUFFER}, {"src/helper.py": "Base = object\n"}),
}


@pytest.mark.parametrize(("before", "after"), MEANWHILE.values(), ids=MEANWHILE)
def test_what_was_found_while_a_file_changed_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, str | None], after: dict[str, str | None]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    write(Path(), {"src/net.py": HELPED, "lib/other.py": "", **before})
    plain = Analysis.scan

    def scan(self: Analysis, path: str) -> object:
        scanned = plain(self, path)
        write(Path(), after)
        return scanned

    with monkeypatch.context() as patch:
        patch.setattr(Analysis, "scan", scan)
        scan_paths(["src"], cache=".cache")
    assert seen(scan_paths(["src"], cache=".cache")) == seen(scan_paths(["src"]))


# What a file needs from another, by every way there is: each change there shows.

NET_OF = "{}\n\n\nclass Net({}):\n    def forward(self, x):\n        self.mean = x\n        return x\n"
NEEDS = {
    "a name": {"net.py": NET_OF.format("from pkg.part import Base", "Base")},
    "a module": {"net.py": NET_OF.format("import pkg.part", "pkg.part.Base")},
    "a module by another name": {"net.py": NET_OF.format("import pkg.part as part", "part.Base")},
    "a module of a package": {"net.py": NET_OF.format("from pkg import part", "part.Base")},
    "a star": {"net.py": NET_OF.format("from pkg.part import *", "Base")},
    "a star's star": {"net.py": NET_OF.format("from other import *", "Base"), "other.py": "from pkg.part import *\n"},
    "a re-export": {"net.py": NET_OF.format("from pkg import Base", "Base"), "pkg/__init__.py": "from .part import Base\n"},
    "a name beside": {"pkg/net.py": NET_OF.format("from .part import Base", "Base")},
    "a module beside": {"pkg/net.py": NET_OF.format("from . import part", "part.Base")},
    "a fallback": {
        "net.py": NET_OF.format(
            "try:\n    from pkg.part import Base\nexcept ImportError:\n    from elsewhere import Base", "Base"
        )
    },
    "in a function": {"net.py": NET_OF.format("def make():\n    from pkg.part import Base", "Base")},
    "on one line": {"net.py": NET_OF.format("if True: x = 1; from pkg.part import (  # why\n    Base as Root,\n)", "Root")},
    "under another name": {"net.py": NET_OF.format("import pkg.part\nRoot = pkg.part.Base", "Root")},
    "far away": {
        "net.py": NET_OF.format("from one import Base", "Base"),
        **{f"{name}.py": f"from {other} import Base\n" for name, other in (("one", "two"), ("two", "six"), ("six", "pkg.part"))},
    },
    "in a circle": {
        "net.py": NET_OF.format("from one import Base", "Base"),
        "one.py": "from two import other\nfrom pkg.part import Base\n",
        "two.py": "from one import Base\nother = Base\n",
    },
    "below a package": {"net.py": NET_OF.format("import pkg", "pkg.part.Base")},
    "below a package by another name": {"net.py": NET_OF.format("import pkg as p", "p.part.Base")},
    "below a package from elsewhere": {
        "net.py": NET_OF.format("from other import p", "p.part.Base"),
        "other.py": "import pkg as p\n",
    },
    "beside what was imported": {"net.py": NET_OF.format("import pkg.other", "pkg.part.Base"), "pkg/other.py": ""},
    "below a star": {"net.py": NET_OF.format("from pkg import *", "part.Base")},
    "below another's star": {
        "net.py": NET_OF.format("from other import part", "part.Base"),
        "other.py": "from pkg import *\n",
    },
}
STATES = (BUFFER, "Base = object\n", None, BUFFER, "from torch.nn import Module as Base\n", BUFFER + "\n")


def assert_changes_show(files: dict[str, str | None], processes: int) -> None:
    """Change `pkg/part.py`, which the net in `files` needs, and scan after each change, all and the net alone."""
    write(Path(), {"pkg/__init__.py": "", **files})
    net = next(name for name in files if name.endswith("net.py"))
    found = []
    for part in STATES:
        write(Path(), {"pkg/part.py": part})
        for paths in (["."], [net]):
            plain = seen(scan_paths(paths))
            assert seen(scan_paths(paths, jobs=processes, cache=".cache")) == plain
            assert seen(scan_paths(paths, jobs=processes, cache=".cache")) == plain
        found.append(plain)
    assert found[0] == found[3]
    assert found[0] != found[1] and found[0] != found[4]


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("files", NEEDS.values(), ids=NEEDS)
def test_a_change_in_what_a_file_needs_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str | None], processes: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "_WORTH_SHARING", 0)
    assert_changes_show(files, processes)


# `modelguard clean`.


def test_clean_removes_a_cache_and_says_so(project: Path) -> None:
    assert CliRunner().invoke(clean, []).output == "no cache in .modelguard_cache\n"
    scan_paths(["."], cache=str(CACHE))
    assert CliRunner().invoke(clean, []).output == "removed .modelguard_cache\n"
    assert not CACHE.exists()


def test_clean_leaves_what_is_not_the_cache(project: Path) -> None:
    scan_paths(["."], cache=str(CACHE))
    (CACHE / "notes").write_text("mine")
    assert "not the other things there" in CliRunner().invoke(clean, []).output
    assert os.listdir(CACHE) == ["notes"]
    done = CliRunner().invoke(clean, [])
    assert str(done.exception) == ".modelguard_cache is no cache of modelguard; nothing was removed"
    assert os.listdir(CACHE) == ["notes"]


def test_clean_follows_a_link(project: Path) -> None:
    (project / "link").symlink_to("real")
    (project / "real").mkdir()
    scan_paths(["."], cache="link")
    assert CliRunner().invoke(clean, ["--cache-dir", "link"]).output == "removed link\n"
    assert not os.path.lexists("link") and not os.path.lexists("real")


@pytest.mark.parametrize("jobs", [1, 2])
def test_texts_in_place_of_files(jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "_WORTH_SHARING", 0)
    base, own = tmp_path / "base.py", tmp_path / "own.py"
    for at in range(engine._WORTH_RECALLING):
        (tmp_path / f"more{at}.py").write_text("x = 1\n")
    base.write_text(f"{HEAD}{BASES[0]}\n")
    own.write_text(f"{HEAD}from base import Base\nclass Net(Base):\n    def forward(self, x):\n        return x\n")
    changed = {str(base): f"{HEAD}{BASES[2]}\n".encode(), str(own): own.read_bytes().replace(b"return x", b"self.mean = x")}
    for _ in range(2):
        assert scan_paths(["."], jobs=jobs, cache="kept").findings == ()
        assert [each.code for each in scan_paths(["."], jobs=jobs, cache="kept", given=changed).findings] == ["MG101"]
    for path, content in changed.items():
        Path(path).write_bytes(content)
    assert [each.code for each in scan_paths(["."], jobs=jobs, cache="kept").findings] == ["MG101"]

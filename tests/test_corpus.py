"""Real sources, whatever of them is on this machine: none stops a scan, and the filter of stage one loses nothing on any."""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path

import pytest

from modelguard.findings import ScanReport
from modelguard.scan.engine import scan_paths
from modelguard.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = Path(sysconfig.get_path("stdlib"))
TESTS = LIBRARY / "test"

STAND_INS = Settings(
    module_bases=("unittest.TestCase", "threading.Thread", "Exception", "io.RawIOBase", "ast.NodeVisitor", "enum.Enum"),
    entry_points=("setUp", "tearDown", "run", "read", "write", "close", "send", "feed", "get", "put", "parse", "visit", "update"),
)
"""The standard library holds no modules: its test cases and readers stand in for them, so that there is something to walk."""

OWN = Settings(
    module_bases=("walk.Walk", "recorder.Recorder", "engine._Scan", "extraction._Extractor", "files._Walk"),
    entry_points=("region", "declare", "run", "add", "report", "write", "read", "add_root", "follow_links"),
)
"""Classes of modelguard that stand in for modules."""


def torch_folder(name: str) -> Path:
    """A folder of torch's source, found without importing torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("torch is not installed")
    return Path(spec.origin).parent / name


def every(folder: Path, step: int, start: int = 0) -> list[Path]:
    """Every `step`-th Python file below a folder, the same ones in each run."""
    if not folder.is_dir():
        pytest.skip(f"this Python is shipped without {folder.name}")
    files = sorted(path for path in folder.rglob("*.py") if "site-packages" not in path.parts)
    return files[start::step]


def too_deep(report: ScanReport) -> list[str]:
    said = [f"{d.path}:{d.line}: {d.message}" for d in report.diagnostics]
    return said + [f.message for f in report.findings if "nested too deeply" in f.message]


def test_the_library_s_tests_stop_no_scan() -> None:
    paths = every(TESTS, 1)
    report = scan_paths(paths, Settings(exclude=()))
    unparsable = [Path(f.location.path).name for f in report.findings if f.code == "MG901"]
    assert report.files + len(unparsable) == len(paths)
    assert [name for name in unparsable if not name.startswith("bad")] == []
    assert too_deep(report) == []


def test_the_library_stops_no_scan() -> None:
    paths = [path for path in every(LIBRARY, 2) if TESTS not in path.parents]
    report = scan_paths(paths, Settings(exclude=()))
    unparsable = [f.location.path for f in report.findings if f.code == "MG901"]
    assert report.files + len(unparsable) == len(paths)
    assert [path for path in unparsable if "lib2to3" not in path] == []
    assert too_deep(report) == []


@pytest.mark.parametrize(("folder", "step"), [(TESTS, 4), (LIBRARY, 6)], ids=["tests", "library"])
def test_walking_the_library(folder: Path, step: int) -> None:
    report = scan_paths(every(folder, step, start=1), STAND_INS)
    assert report.entry_points > 100 and report.findings
    assert too_deep(report) == []


@pytest.mark.parametrize("settings", [Settings(), OWN], ids=["modules", "stand-ins"])
def test_walking_what_is_here(settings: Settings) -> None:
    report = scan_paths([ROOT / "examples", ROOT / "tests", ROOT / "modelguard"], settings)
    assert report.entry_points and report.findings
    assert too_deep(report) == []


@pytest.mark.parametrize("name", ["nn", "ao"])
def test_walking_torch(name: str) -> None:
    report = scan_paths([torch_folder(name)])
    assert report.module_classes > 50
    assert [f for f in report.findings if f.code == "MG901"] == [] == too_deep(report)

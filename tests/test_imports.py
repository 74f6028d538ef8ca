"""What a scan must not import: torch never, LibCST and the rest only where they are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

CLEAN_FILE = """\
from torch import nn


class Double(nn.Module):
    def forward(self, x):
        y = x + x
        return y
"""

REPORT_IMPORTS = """\
import sys
from modelguard.cli.main import main
status = main(sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(status)
"""

HEAVY = (
    *("libcst", "rich", "msgspec", "sqlite3", "pathspec", "tomllib", "concurrent.futures", "multiprocessing"),
    *("logging", "difflib", "json", "pickle", "tempfile", "subprocess", "asyncio", "http", "socket", "numpy"),
)


def imported(*arguments: str) -> tuple[int, set[str]]:
    command = [sys.executable, "-c", REPORT_IMPORTS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, set(done.stderr.split("\n")[-2].split())


@pytest.fixture
def clean_file(tmp_path: Path) -> str:
    path = tmp_path / "clean.py"
    path.write_text(CLEAN_FILE)
    return str(path)


def test_a_scan_of_a_clean_file_imports_little(clean_file: str) -> None:
    status, modules = imported("scan", clean_file)
    assert status == 0
    assert modules & {"torch", *HEAVY} == set()


def test_other_files_of_a_project_import_no_more(clean_file: str) -> None:
    folder = Path(clean_file).parent
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "pyproject.toml").write_text('[project]\nname = "double"\n')
    for arguments in ([clean_file], [clean_file, "--force-exclude"], [clean_file, "--exclude", "build"]):
        status, modules = imported("scan", *arguments)
        assert (status, modules & {"torch", *HEAVY}) == (0, set())


def test_what_git_ignores_by_plain_names_needs_no_matcher(clean_file: str) -> None:
    folder = Path(clean_file).parent
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("# made by tools\nbuild/\n/dist\ndocs/_build\n!dist/keep.py\n")
    assert "pathspec" not in imported("scan", str(folder))[1]
    (folder / ".gitignore").write_text("*.log\n")
    assert "pathspec" in imported("scan", str(folder))[1]


def test_an_exclude_pattern_imports_the_matcher(clean_file: str) -> None:
    assert "pathspec" not in imported("scan", clean_file, "--exclude", "generated")[1]
    assert "pathspec" in imported("scan", str(Path(clean_file).parent), "--exclude", "generated/*_pb2.py")[1]


def test_a_scan_with_findings_never_imports_torch() -> None:
    status, modules = imported("scan", str(EXAMPLES))
    assert status == 1
    assert modules & {"torch", "rich", "libcst", "modelguard.catalog"} == set()


def test_the_error_catalogue_is_read_without_torch() -> None:
    status, modules = imported("explain", "RuntimeError: call_module is not allowed for codegen target submod_3.")
    assert status == 0
    assert "modelguard.catalog.lookup" in modules
    assert modules & {"torch", "libcst", "rich", "modelguard.scan.engine"} == set()


@pytest.mark.parametrize(
    ("command", "others"),
    [
        ("scan", ("explain", "rules")),
        ("rules", ("explain", "scan")),
        ("explain", ("rules", "scan")),
    ],
)
def test_a_command_does_not_import_the_others(command: str, others: tuple[str, ...]) -> None:
    status, modules = imported(command, "--help")
    assert status == 0
    assert f"modelguard.cli.{command}" in modules
    assert modules & {"torch", *(f"modelguard.cli.{other}" for other in others)} == set()

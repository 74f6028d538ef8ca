"""The pinned model libraries that the benchmarks scan, fetched into a cache outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

PINNED = {"transformers": "5.24.0", "diffusers": "0.42.1", "timm": "1.0.31"}


class Unavailable(Exception):
    """Something could not be fetched or installed; the message says what and why."""


def default_cache() -> Path:
    """The folder for caches that the platform gives a user."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "modelguard-benchmarks"


def fetch(name: str, cache: Path) -> Path:
    """The unpacked package of a pinned library, downloaded the first time."""
    version = PINNED[name]
    folder = cache / "corpus" / f"{name}-{version}"
    package = folder / name
    if package.is_dir():
        return package
    wheels = cache / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(wheels)]
    _run([*command, f"{name}=={version}"], f"{name} {version} could not be downloaded")
    wheel = next(wheels.glob(f"{name}-{version}-*.whl"))
    partial = folder.with_name(folder.name + ".part")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(partial)
    partial.rename(folder)
    return package


def tool(requirement: str, program: str, cache: Path) -> Path:
    """A program of a package that is installed, the first time, in a virtual environment of its own."""
    folder = cache / "tools" / requirement.replace("==", "-")
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    suffix = ".exe" if os.name == "nt" else ""
    if not (scripts / (program + suffix)).exists():
        _run([sys.executable, "-m", "venv", str(folder)], f"no virtual environment for {requirement}")
        install = [str(scripts / ("python" + suffix)), "-m", "pip", "install", "--quiet", requirement]
        _run(install, f"{requirement} could not be installed")
    return scripts / (program + suffix)


def _run(command: list[str], complaint: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise Unavailable(f"{complaint}: {reason}")


def python_files(root: Path) -> list[Path]:
    """Every Python file below a folder, in a fixed order."""
    return sorted(root.rglob("*.py"))


def count_lines(files: list[Path]) -> int:
    """The lines in all of the files."""
    return sum(file.read_bytes().count(b"\n") for file in files)

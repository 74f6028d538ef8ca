"""How long a scan takes, as ratios measured in one run.

python benchmarks/scan_speed.py           # everything, peers included; several minutes
python benchmarks/scan_speed.py --quick   # only the cold scan against `ast.parse` of every file
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from corpus import Unavailable, count_lines, default_cache, fetch, python_files, tool

CHECKOUT = Path(__file__).resolve().parents[1]

PARSE = """
import ast, sys
for path in open(sys.argv[1], encoding="utf-8").read().splitlines():
    with open(path, "rb") as stream:
        ast.parse(stream.read())
"""

PROJECT = {
    "base.py": """
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
""",
    "net.py": """
from base import Base


class Net(Base):
    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return x - self.mean
""",
}
"""A class in one file, its base in another: what pre-commit hands over when the class was changed."""

TORCHFIX_SHARE = 60
"""TorchFix looks at one folder in this many: all of them would take an hour."""


class Cost(NamedTuple):
    """What a process used, its children included; `share` of the corpus is what it looked at."""

    wall: float
    cpu: float
    peak: float
    share: float = 1.0


class Bench:
    """Commands run in one environment, each as often as asked."""

    def __init__(self, cache: Path, runs: int) -> None:
        self.runs = runs
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(CHECKOUT),
            "PYTHONPYCACHEPREFIX": str(cache / "pycache"),
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.modelguard = [sys.executable, "-m", "modelguard", "scan", "--output-format", "json"]

    def measure(self, command: list[str], runs: int | None = None, good: tuple[int, ...] = (0, 1)) -> Cost:
        """The best of several runs, wall and CPU time and peak memory each by itself."""
        costs = [self._once(command, good) for _ in range(runs or self.runs)]
        return Cost(*(min(cost[index] for cost in costs) for index in range(3)))

    def _once(self, command: list[str], good: tuple[int, ...]) -> Cost:
        with tempfile.TemporaryFile() as errors:
            start = time.perf_counter()
            process = subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode not in good:
                errors.seek(0)
                reason = errors.read().decode(errors="replace").strip().splitlines() or ["no message"]
                raise Unavailable(f"{Path(command[0]).name} ended with status {process.returncode}: {reason[-1]}")
        per_megabyte = 1 << 20 if sys.platform == "darwin" else 1 << 10
        return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / per_megabyte)

    def parse(self, files: list[Path]) -> Cost:
        """`ast.parse` of every file in one process."""
        with tempfile.TemporaryDirectory() as folder:
            listing = Path(folder, "files")
            listing.write_text("\n".join(map(str, files)), encoding="utf-8")
            return self.measure([sys.executable, "-c", PARSE, str(listing)])

    def scan(self, paths: list[Path], *options: str) -> Cost:
        """A cold scan, or what the options make of it."""
        return self.measure([*self.modelguard, "--no-cache", *options, *map(str, paths)])

    def warm_scan(self, path: Path) -> Cost:
        """A scan for which nothing has changed since the last one."""
        with tempfile.TemporaryDirectory() as folder:
            command = [*self.modelguard, "--cache-dir", str(Path(folder, "cache")), str(path)]
            self.measure(command, runs=1)
            return self.measure(command)


def main(argv: list[str] | None = None) -> int:
    """Measures and prints; 2 where not even the corpus could be fetched."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only the cold scan against ast.parse")
    parser.add_argument(
        "--cache", type=Path, default=default_cache(), help="where wheels and peers are kept (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=3, help="how often each is run; the best counts (default: %(default)s)")
    options = parser.parse_args(argv)
    if not hasattr(os, "wait4"):
        print("this benchmark needs os.wait4, which this platform lacks", file=sys.stderr)
        return 2
    try:
        models = fetch("transformers", options.cache) / "models"
        others = [] if options.quick else [fetch(name, options.cache) for name in ("diffusers", "timm")]
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 2
    bench = Bench(options.cache, options.runs)
    files = python_files(models)
    lines = count_lines(files)
    print(f"transformers' models: {len(files)} files, {lines} lines; best of {options.runs}")
    base = bench.parse(files)
    rows = [
        ("ast.parse of every file, one process", base),
        ("modelguard scan --jobs 1, cold", bench.scan([models], "--jobs", "1")),
        (f"modelguard scan, cold, {os.cpu_count()} cores", bench.scan([models])),
        ("modelguard scan, warm", bench.warm_scan(models)),
    ]
    if not options.quick:
        rows += list(peers(bench, models, lines, options.cache))
    print_costs(rows, base)
    if not options.quick:
        print_small(bench, models)
        print_growth(bench, models)
        print_others(bench, others)
    return 0


def peers(bench: Bench, models: Path, lines: int, cache: Path) -> Iterator[tuple[str, Cost]]:
    """Other tools over the same files; what cannot be had is said and left out."""

    def ruff() -> Cost:
        program = tool("ruff==0.17.6", "ruff", cache)
        return bench.measure([str(program), "check", "--isolated", "--select", "B,F", "--no-cache", "--quiet", str(models)])

    def mlinter() -> Cost:
        program = tool("transformers-mlinter==0.1.5", "mlinter", cache)
        return bench.measure([str(program), "--no-cache", "--no-progress", str(models)], runs=1)

    def torchfix() -> Cost:
        program = tool("torchfix==0.7.0", "torchfix", cache)
        sample = folders(models)[::TORCHFIX_SHARE]
        share = sum(count_lines(python_files(folder)) for folder in sample) / lines
        return bench.measure([str(program), *map(str, sample)], runs=1)._replace(share=share)

    tools: list[tuple[str, Callable[[], Cost]]] = [
        ("ruff 0.17.6, --select B,F --no-cache", ruff),
        ("transformers-mlinter 0.1.5, --no-cache", mlinter),
        ("TorchFix 0.7.0, on a sample, scaled", torchfix),
    ]
    for name, run in tools:
        try:
            yield name, run()
        except Unavailable as error:
            print(f"left out: {name}: {error}")


def folders(models: Path) -> list[Path]:
    """The models' folders, in an order that does not follow their names' first letters."""
    found = sorted(path for path in models.iterdir() if path.is_dir() and any(path.glob("*.py")))
    return [found[(index * 7919) % len(found)] for index in range(len(found))] if len(found) % 7919 else found


def print_costs(rows: list[tuple[str, Cost]], base: Cost) -> None:
    """Each cost, and its ratio to the first."""
    table = [["", "wall s", "CPU s", "peak MiB", "wall ratio", "CPU ratio"]]
    for name, cost in rows:
        wall, cpu = cost.wall / cost.share, cost.cpu / cost.share
        suffix = f" (1/{round(1 / cost.share)} of the lines)" if cost.share < 1 else ""
        numbers = [f"{wall:.2f}", f"{cpu:.2f}", f"{cost.peak:.0f}", f"{wall / base.wall:.2f}", f"{cpu / base.cpu:.2f}"]
        table.append([name + suffix, *numbers])
    print_table(table)


def print_small(bench: Bench, models: Path) -> None:
    """What a scan of one file costs against starting Python."""
    nothing = bench.measure([sys.executable, "-c", "pass"])
    clean = models / "bert" / "configuration_bert.py"
    rows = [("python -c pass", nothing), (f"scan {clean.name}", bench.scan([clean]))]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in PROJECT.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        rows.append(("scan a subclass, its base in another file", bench.scan([Path(folder, "net.py")])))
    rows.append(("scan modeling_mistral.py", bench.scan([models / "mistral" / "modeling_mistral.py"])))
    print("\none file, cold")
    print_costs(rows, nothing)


def print_growth(bench: Bench, models: Path) -> None:
    """How time grows with the number of lines."""
    everything = folders(models)
    table = [["part of the folders", "lines", "wall s", "CPU s", "us of CPU a line"]]
    for share in (8, 4, 2, 1):
        part = everything[::share]
        lines = sum(count_lines(python_files(folder)) for folder in part)
        cost = bench.scan(part)
        table.append([f"1/{share}", str(lines), f"{cost.wall:.2f}", f"{cost.cpu:.2f}", f"{cost.cpu / lines * 1e6:.2f}"])
    print("\ngrowth")
    print_table(table)


def print_others(bench: Bench, packages: list[Path]) -> None:
    """The other libraries against `ast.parse`."""
    for package in packages:
        files = python_files(package)
        base = bench.parse(files)
        print(f"\n{package.name}: {len(files)} files, {count_lines(files)} lines")
        print_costs([("ast.parse of every file", base), ("modelguard scan, cold", bench.scan([package]))], base)


def print_table(rows: list[list[str]]) -> None:
    """A table whose first row is its header."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main())

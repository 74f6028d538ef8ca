"""Runs the cases, each in a process of its own with a time limit, and gathers what was observed."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from truth.sources import Sources

MEMORY_LIMIT = 9 << 30
_ENVIRONMENT = {
    "TORCHDYNAMO_DISABLE": "1",
    "PYTORCH_JIT": "0",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def observe_all(only: str, widely: bool, jobs: int, timeout: float) -> dict[str, Any]:
    """The observations of all cases whose name matches; of those so far, if interrupted."""
    os.environ.update(_ENVIRONMENT)
    from truth.cases import PACKAGES, all_cases

    roots = {package: root for package in PACKAGES if (root := package_root(package)) is not None}
    cases = [case for case in all_cases(widely) if re.search(only, case.name)]
    merged = Merged(Sources(roots))
    running: dict[int, tuple[str, Path, float]] = {}
    told = 0
    with tempfile.TemporaryDirectory(prefix="scan-truth-") as folder, contextlib.suppress(KeyboardInterrupt):
        pending = list(reversed(list(enumerate(cases))))
        while pending or running:
            while pending and len(running) < jobs:
                number, case = pending.pop()
                result = Path(folder, f"{number}.json")
                running[_start(case, roots, result)] = (case.name, result, time.monotonic())
            _collect(running, merged, timeout)
            if merged.done and (sys.stderr.isatty() or merged.done % 50 == 0) and merged.done != told:
                told = merged.done
                print(f"{told} of {len(cases)} cases", end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)
    return merged.observations(roots)


def package_root(package: str) -> str | None:
    """Where a package is installed, without importing it."""
    spec = importlib.util.find_spec(package)
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else None


def _start(case: Any, roots: dict[str, str], result: Path) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
        with open(os.devnull, "w") as silence, contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            answer = _run(case, roots)
        partial = result.with_suffix(".part")
        partial.write_text(json.dumps(answer))
        partial.rename(result)
        status = 0
    finally:
        os._exit(status)


def _run(case: Any, roots: dict[str, str]) -> dict[str, Any]:
    import torch

    from truth.observer import observe

    torch.set_num_threads(1)
    sources = Sources(roots)
    answer: dict[str, Any] = {"writes": [], "executed": [], "unattributed": [], "modes": [], "errors": []}
    for mode, training in (("eval", False), ("train", True)):
        try:
            record = observe(case.build, sources, training)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            answer["errors"].append(f"{mode}: {type(error).__name__}: {str(error)[:600]} ({place.filename}:{place.lineno})")
            continue
        answer["modes"].append(mode)
        answer["writes"].extend([*write, mode] for write in record.writes)
        answer["executed"].extend(record.executed)
        answer["unattributed"].extend(record.unattributed)
    return answer


def _collect(running: dict[int, tuple[str, Path, float]], merged: Merged, timeout: float) -> None:
    child, status = os.waitpid(-1, os.WNOHANG)
    if child in running:
        name, result, _ = running.pop(child)
        merged.add(name, json.loads(result.read_text()) if result.exists() else {"errors": [f"ended with status {status}"]})
        result.unlink(missing_ok=True)
        return
    for child, (_, _, started) in running.items():
        if time.monotonic() - started > timeout:
            os.kill(child, signal.SIGKILL)
    time.sleep(0.02)


class Merged:
    """What all cases together showed."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.done = 0
        self.cases: list[dict[str, Any]] = []
        self.writes: dict[tuple[str, int, str], dict[str, Any]] = {}
        self.executed: dict[str, set[int]] = {}
        self.unattributed: set[str] = set()

    def add(self, case: str, answer: dict[str, Any]) -> None:
        """Takes in one case."""
        self.done += 1
        self.cases.append({"case": case, "modes": answer.get("modes", []), "errors": answer["errors"]})
        for name, line in answer.get("executed", ()):
            self.executed.setdefault(name, set()).add(line)
        for name, line, kind, owner, attribute, mode in answer.get("writes", ()):
            entry = self.writes.setdefault((name, line, kind), {"owners": set(), "cases": {}, "modes": set()})
            entry["owners"].add(readable(f"{owner}.{attribute}"))
            entry["cases"][case] = None
            entry["modes"].add(mode)
        self.unattributed.update(answer.get("unattributed", ()))

    def observations(self, roots: dict[str, str]) -> dict[str, Any]:
        """All of it, ready for JSON and in a fixed order."""
        writes = []
        for (name, line, kind), entry in sorted(self.writes.items()):
            statement = self.sources.statement_at(name, line)
            source = Path(self.sources.path_of(name)).read_text(encoding="utf-8").splitlines()[line - 1].strip()
            writes.append(
                {
                    "path": name,
                    "line": statement.first,
                    "end_line": statement.last,
                    "kind": kind,
                    "source": source,
                    "owners": sorted(entry["owners"])[:5],
                    "cases": sorted(entry["cases"])[:5],
                    "case_count": len(entry["cases"]),
                    "modes": sorted(entry["modes"]),
                }
            )
        return {
            "packages": {package: {"root": root, "version": _version(package)} for package, root in roots.items()},
            "cases": sorted(self.cases, key=lambda case: str(case["case"])),
            "writes": writes,
            "executed": {name: sorted(lines) for name, lines in sorted(self.executed.items())},
            "unattributed": sorted(self.unattributed)[:200],
        }


def readable(path: str) -> str:
    """A path as source would spell it, with layer numbers left out."""
    path = re.sub(r"\._(?:modules|buffers|parameters)\['([^']*)'\]", r".\1", path)
    return re.sub(r"\.\d+(?=[.\[]|$)", "[*]", path)


def _version(package: str) -> str:
    for distribution in importlib.metadata.packages_distributions().get(package, []):
        return importlib.metadata.version(distribution)
    return "unknown"

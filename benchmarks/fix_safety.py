"""What fixes do to real files: `python benchmarks/fix_safety.py [--unsafe-fixes] PATHS...`. Nothing is written.

Of each file that a fix changes: is a second run idle, and is every finding of a warning or more that is left one that was there
before? And where the file has a function `build` that returns a module and the arguments of several calls, are the outputs of all
calls the same before and after, both as they were returned and as they are once all calls are done?
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from modelguard.cli import fixing
from modelguard.findings import Finding, ScanReport, Severity
from modelguard.scan.engine import scan_paths
from modelguard.scan.files import decode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--unsafe-fixes", action="store_true")
    given = parser.parse_args(arguments)

    def scan(texts: Mapping[str, bytes]) -> ScanReport:
        return scan_paths(given.paths, jobs=None, given={str(Path(path).absolute()): text for path, text in texts.items()})

    before = scan({})
    files, told, after = fixing.repair(before, scan, given.unsafe_fixes)
    faults = [f"{diagnostic.path}: {diagnostic.message}" for diagnostic in told]
    counts: Counter[str] = Counter()
    ran = 0
    for file in files:
        counts.update(file.counts)
        new = identities(after, file.path) - identities(before, file.path)
        faults += [f"{file.path}: new: {identity}" for identity in sorted(map(str, new))]
        results = [outputs(decode(content, file.path), file.path) for content in (file.before, file.content)]
        if results[0] is not None:
            ran += 1
            if not same(*results):
                faults.append(f"{file.path}: other outputs")
    contents = {file.path: file.content for file in files}
    again = fixing.repair(after, scan, given.unsafe_fixes, contents).files
    faults += [f"{file.path}: a second run changes it again" for file in again]
    print(f"{before.files} files, {len(files)} changed, {ran} run; fixed: {dict(sorted(counts.items()))}; faults: {len(faults)}")
    print(*faults, sep="\n", end="\n" if faults else "")
    return bool(faults)


def identities(report: ScanReport, path: str) -> set[tuple[str, str | None, str | None]]:
    """What was found in a file, whatever the line."""
    serious: list[Finding] = [each for each in report.findings if each.severity.at_least(Severity.WARNING)]
    return {(each.code, each.class_name, each.attribute) for each in serious if each.location.path == path}


def outputs(source: str, path: str) -> Any:
    """What the calls of `build()` return, copied at once, and copied when all are done; None where there is no such function."""
    if "\ndef build()" not in source:
        return None
    import torch

    names: dict[str, Any] = {"__name__": Path(path).stem}
    exec(compile(source, path, "exec"), names)
    build: Callable[[], Any] = names["build"]
    torch.manual_seed(0)
    module, calls = build()[:2]
    at_once, held = [], []
    for call in calls:
        held.append(module(*call))
        at_once.append(copied(held[-1]))
    return at_once, copied(held)


def copied(value: Any) -> Any:
    """A copy that shares no memory with `value`."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return [copied(item) for item in value]
    return {key: copied(item) for key, item in value.items()} if isinstance(value, dict) else copy.deepcopy(value)


def same(left: Any, right: Any) -> bool:
    """Whether two results hold the same numbers, of the same types and shapes."""
    import torch

    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return (
        left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
        if isinstance(left, dict)
        else left == right
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

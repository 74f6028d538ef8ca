"""Proves on real libraries that the first stage hides nothing: the same findings come with its filter on and off.

python benchmarks/scan_soundness.py                  # the three pinned libraries
python benchmarks/scan_soundness.py path/to/package  # any other source
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[1])]

from corpus import PINNED, Unavailable, default_cache, fetch  # noqa: E402

from modelguard.findings import Finding  # noqa: E402
from modelguard.scan.engine import scan_paths  # noqa: E402
from modelguard.settings import Settings  # noqa: E402


def main(argv: list[str] | None = None) -> int:
    """Scans twice and compares; 1 if anything came out only without the filter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="what to scan (default: the pinned libraries)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where wheels are kept (default: %(default)s)")
    options = parser.parse_args(argv)
    try:
        paths = options.paths or [fetch(name, options.cache) for name in PINNED]
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 2
    for path in paths:
        if not path.exists():
            print(f"{path} does not exist", file=sys.stderr)
            return 2
    hidden = sum(compare(path) for path in paths)
    print("the filter hid nothing" if not hidden else f"the filter hid {hidden} findings")
    return 1 if hidden else 0


def compare(path: Path) -> int:
    """How many findings the filter hides in one package; each is printed."""
    settings = Settings()
    start = time.perf_counter()
    kept = scan_paths([path], settings)
    middle = time.perf_counter()
    everything = scan_paths([path], replace(settings, filter_facts=False))
    end = time.perf_counter()
    known = {identity(finding) for finding in kept.findings}
    hidden = [finding for finding in everything.findings if identity(finding) not in known]
    print(
        f"{path.name}: {kept.files} files, {len(kept.findings)} findings with the filter in {middle - start:.1f} s,"
        f" {len(everything.findings)} without it in {end - middle:.1f} s, {len(hidden)} of them hidden by it",
        flush=True,
    )
    for finding in hidden:
        where = finding.location
        print(f"  {where.path}:{where.line}:{where.column}: {finding.code} {finding.severity.value}: {finding.message}")
    return len(hidden)


def identity(finding: Finding) -> tuple[str, int, int, str, str]:
    """What makes two findings the same one."""
    return finding.sort_key


if __name__ == "__main__":
    sys.exit(main())

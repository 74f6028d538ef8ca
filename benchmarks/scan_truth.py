"""Judges `modelguard scan` by writes to module state that were observed while real models ran.

python benchmarks/scan_truth.py --write observations.json      # slow: builds and runs every case
python benchmarks/scan_truth.py --observations observations.json
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def main(argv: list[str] | None = None) -> int:
    """Observes where no observations are given, then judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--observations", type=Path, nargs="+", help="read the observations of earlier runs, which are put together"
    )
    parser.add_argument("--write", type=Path, help="keep the observations in this file")
    parser.add_argument("--only", default="", help="run only cases whose name matches this regular expression")
    parser.add_argument("--wide", action="store_true", help="every class of every architecture, not two of each")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases run at the same time")
    parser.add_argument("--timeout", type=float, default=90.0, help="seconds that one case may take")
    parser.add_argument("--findings", type=Path, help="judge this JSON output of a scan instead of scanning")
    parser.add_argument("--no-judge", action="store_true", help="stop after the observations")
    parser.add_argument("--all", action="store_true", help="list every miss and false alarm, not the first of each kind")
    options = parser.parse_args(argv)

    from truth import judge

    if options.observations:
        observations = judge.merge([judge.read(path) for path in options.observations])
    else:
        from truth import pool

        observations = pool.observe_all(options.only, options.wide, options.jobs, options.timeout)
    if options.write:
        judge.write(options.write, observations)
    if options.no_judge:
        return 0
    return judge.report(observations, options.findings, options.all)


if __name__ == "__main__":
    sys.exit(main())

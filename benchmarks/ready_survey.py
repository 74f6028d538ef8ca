"""Takes small random models of many architectures through `ready`, and writes what stands in the way of each.

python benchmarks/ready_survey.py                         # 25 architectures of transformers, 25 of timm; ten minutes on two cores
python benchmarks/ready_survey.py --only '^timm:'         # some of them
python benchmarks/ready_survey.py --write docs/ready-survey.md
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from confirm_survey import cases, names

TIMEOUT = 240
"""Seconds for a model."""

HEADER = """\
# What stands in the way

`python benchmarks/ready_survey.py --write docs/ready-survey.md` wrote this page: small models of random weights, each traced by
`modelguard ready` with fixed and with symbolic sizes, in evaluation mode, on a CPU, with {versions}.

| model | one graph | graphs | calls in the largest | in the way |
|---|---|---|---|---|
"""


def survey_case(name: str) -> dict[str, Any]:
    """One model, as `modelguard ready` tells it."""
    import torch

    from modelguard.errors import ModelguardError
    from modelguard.readiness import child
    from modelguard.runtime.targets import Target

    torch.manual_seed(0)
    torch.set_num_threads(1)
    build = next(case.build for case in cases() if case.name == name)
    try:
        model, calls = build()
    except Exception as error:
        # Small sizes, or the inputs that the survey knows, do not suit every architecture.
        return {"misfit": f"{type(error).__name__}: {error}"}
    args, kwargs = calls[0]
    child.called_target = lambda *_: (Target(model, [args], kwargs), [])
    asked = {
        "target": name,
        "inputs": [],
        "train": False,
        "tracer": "dynamo",
        "dynamic": True,
        "split_ops": [],
        "timeout": TIMEOUT,
    }
    try:
        return child.observe(asked)
    except ModelguardError as error:
        return {"refused": str(error)}


def in_process_of_its_own(name: str) -> dict[str, Any]:
    """One case, with a time limit."""
    try:
        done = subprocess.run([sys.executable, __file__, "--case", name], capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {"failed": f"took more than {TIMEOUT} s"}
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def verdict(result: dict[str, Any]) -> str:
    """What a model counts as."""
    if "runs" not in result:
        return next(iter(result))
    return "one graph" if result["runs"][0]["one_graph"] else "several graphs"


def row(name: str, result: dict[str, Any]) -> str:
    """A line of the table."""
    if "runs" not in result:
        kind, told = next(iter(result.items()))
        return f"| {name} | {kind} | | | {told.splitlines()[0][:200]} |"
    static = result["runs"][0]
    one = [run["shapes"] for run in result["runs"] if run["one_graph"]]
    slow = ", dynamic took too long" if any(run["stopped"] is not None for run in result["runs"]) else " only"
    whole = "yes" if len(one) == len(result["runs"]) else f"{one[0]}{slow}" if one else "no"
    told = [
        f"{each['kind']} at {os.path.basename(each['stack'][-1]['path'])}:{each['stack'][-1]['line']}"
        if each["stack"]
        else f"{each['kind']}: {each['reason'][:80]}"
        for each in result["obstacles"]
    ]
    refused = [f"no code: {graph['refused'][:80]}" for graph in result["graphs"] if graph["refused"]]
    wrong = [f"code off by {graph['max_abs_error']}" for graph in result["graphs"] if (graph["max_abs_error"] or 0) > 1e-4]
    share = f"{static['ops_of_largest']} ({static['share_of_ops']:.0%})"
    return f"| {name} | {whole} | {static['graphs']} | {share} | {'; '.join([*told, *refused, *wrong]) or 'nothing'} |"


def main() -> int:
    """Run the survey, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run only cases whose name matches this regular expression")
    parser.add_argument("--count", type=int, default=25, help="architectures of each library (default: 25)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases run at the same time")
    parser.add_argument("--write", type=Path, help="write the table as a page to this file, too")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(survey_case(options.case)))
        return 0
    rows: list[str] = []
    kinds: Counter[str] = Counter()
    everything = names(sys.maxsize, options.only)
    with ThreadPoolExecutor(options.jobs) as pool:
        for library in ("timm", "transformers"):
            waiting = (name for name in everything if name.startswith(f"{library}:"))
            wanted = len(rows) + options.count
            while batch := list(itertools.islice(waiting, wanted - len(rows))):
                for name, result in zip(batch, pool.map(in_process_of_its_own, batch), strict=True):
                    told = row(name.replace("|", "/"), result)
                    print(told, flush=True)
                    # The next architecture takes its place.
                    if "misfit" not in result:
                        kinds[verdict(result)] += 1
                        rows.append(told)
    print(", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    if options.write is not None:
        versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers", "timm"))
        options.write.write_text(HEADER.format(versions=versions) + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

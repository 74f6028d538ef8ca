"""Takes small random models of many architectures through `confirm`'s checks, and prints what they show.

python benchmarks/confirm_survey.py                     # 30 architectures of transformers, 30 of timm; ten minutes on two cores
python benchmarks/confirm_survey.py --only '^timm:'     # some of them
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truth.cases import Case

sys.path.insert(0, str(Path(__file__).parent))

STEPS = 4


def survey_case(name: str) -> dict[str, Any]:
    """One model: the verdict of replay, the side effects that Dynamo sees, and what each took."""
    import torch

    from modelguard.errors import ModelguardError
    from modelguard.runtime.child import effect_record, replay_record
    from modelguard.runtime.copying import deep_copied
    from modelguard.runtime.observing import side_effects_of
    from modelguard.runtime.replay import replay

    torch.manual_seed(0)
    torch.set_num_threads(1)
    build = next(case.build for case in cases() if case.name == name)
    model, calls = build()
    args, kwargs = calls[0]
    model.eval()
    with torch.no_grad():
        start = time.perf_counter()
        for _ in range(STEPS):
            deep_copied(model)(*args, **kwargs)
        eager = time.perf_counter() - start
    start = time.perf_counter()
    try:
        compared = replay_record(replay(model, [args], kwargs, steps=STEPS))
    except ModelguardError as error:
        return {"refused": str(error)}
    replayed = time.perf_counter() - start
    start = time.perf_counter()
    effects, problem = side_effects_of(*deep_copied((model, [args], kwargs)))
    return {
        "replay": compared,
        "side_effects": [effect_record(effect) for effect in effects],
        "dynamo_stopped": problem,
        "seconds": {"eager": eager, "replay": replayed, "dynamo": time.perf_counter() - start},
    }


def cases() -> Iterator[Case]:
    """Those of the two libraries."""
    from truth import cases_timm, cases_transformers

    yield from cases_timm.cases(widely=False)
    yield from cases_transformers.cases(widely=False)


def names(count: int, only: str) -> list[str]:
    """The first case of each architecture, so many of each library."""
    chosen: dict[str, str] = {}
    for case in cases():
        library, _, rest = case.name.partition(":")
        if library in ("transformers", "timm") and re.search(only, case.name):
            chosen.setdefault(f"{library}:{re.split('[:_]', rest)[0]}", case.name)
    taken: Counter[str] = Counter()
    kept = []
    for key, name in chosen.items():
        library = key.partition(":")[0]
        taken[library] += 1
        if taken[library] <= count:
            kept.append(name)
    return kept


def in_process_of_its_own(name: str) -> dict[str, Any]:
    """One case, with a time limit."""
    try:
        done = subprocess.run([sys.executable, __file__, "--case", name], capture_output=True, text=True, timeout=240)
    except subprocess.TimeoutExpired:
        return {"failed": "took more than 240 s"}
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    """Run the survey and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run only cases whose name matches this regular expression")
    parser.add_argument("--count", type=int, default=30, help="architectures of each library (default: 30)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases run at the same time")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(survey_case(options.case)))
        return 0
    chosen = names(options.count, options.only)
    verdicts: Counter[str] = Counter()
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, result in zip(chosen, pool.map(in_process_of_its_own, chosen), strict=True):
            verdict = result["replay"]["verdict"] if "replay" in result else next(iter(result))
            verdicts[verdict] += 1
            print(f"{name}: {verdict}{_told(result)}", flush=True)
    print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    return 0


def _place(frame: dict[str, Any]) -> str:
    return f"{os.path.basename(frame['path'])}:{frame['line']}"


def _told(result: dict[str, Any]) -> str:
    if "replay" not in result:
        return f" {next(iter(result.values()))[:200]}"
    replay = result["replay"]
    parts = []
    if replay["where"]:
        parts.append(f"where {', '.join(replay['where'][:3])}")
    if replay["stale"]:
        parts.append(f"stale {', '.join(replay['stale'][:3])}")
    if replay["freed"]:
        parts.append(f"freed {', '.join(replay['freed'][:3])}")
    reads = [
        f"{read['operator']} at {os.path.basename(read.get('path', '?'))}:{read.get('line')}" for read in replay["host_reads"][:2]
    ]
    parts += [f"host reads {', '.join(reads)}"] if reads else []
    effects = [
        f"{effect['object']}.{effect['attribute']} {effect['operation']}"
        + (f" at {_place(effect['stack'][-1])}" if effect["stack"] else "")
        for effect in result["side_effects"][:3]
    ]
    parts += [f"dynamo {'; '.join(effects)}"] if effects else []
    if result["dynamo_stopped"]:
        parts.append(f"dynamo stopped: {result['dynamo_stopped'][:80]}")
    seconds = result["seconds"]
    parts.append(f"{(seconds['replay'] + seconds['dynamo']) / max(1e-9, seconds['eager'] + seconds['dynamo']):.1f}x")
    return "; " + "; ".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())

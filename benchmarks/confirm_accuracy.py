"""Does running a model tell the truth? `confirm` beside the check for `update` in the compiled code's names.

python benchmarks/confirm_accuracy.py CASES            # CASES: a folder of case files, see README.md; two seconds a case
python benchmarks/confirm_accuracy.py CASES --verbose  # each case
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import CodeType
from typing import Any

EXPECTED = re.compile(r"^# EXPECT: (?:(\d+) (\S+) (\S+)|none)", re.MULTILINE)
CHECKED = re.compile(r"^# CHECKED: .*?replay model: ([^;]*)(.*)$", re.MULTILINE)

WRITES_THAT_COUNT = ("error", "warning")


def run_case(path: str) -> dict[str, Any]:
    """What running one case shows, by `confirm`'s own parts and by the names in the compiled code."""
    import torch

    from modelguard.runtime.bytecode_hook import bytecode_hook
    from modelguard.runtime.child import effect_record, replay_record
    from modelguard.runtime.copying import deep_copied
    from modelguard.runtime.observing import side_effects_of
    from modelguard.runtime.replay import replay
    from modelguard.runtime.targets import load_target

    torch.manual_seed(0)
    target = load_target(f"{path}:build")
    compared = replay(target.model, target.calls, target.kwargs, others=target.others)
    named: list[bool] = []

    def look(original: CodeType, compiled: CodeType) -> None:
        named.append("update" in compiled.co_names)

    with bytecode_hook(look):
        effects, _ = side_effects_of(*deep_copied((target.model, target.calls[:3], target.kwargs)))
    return {
        "replay": replay_record(compared),
        "side_effects": [effect_record(effect) for effect in effects],
        "update_in_names": any(named),
    }


def in_process_of_its_own(path: Path) -> dict[str, Any]:
    """One case, where nothing of another one is left."""
    done = subprocess.run([sys.executable, __file__, "--case", str(path)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{path} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    """Run all cases and print what each check gets right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, nargs="?", help="a folder of case files")
    parser.add_argument("--verbose", action="store_true", help="print each case")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(run_case(options.case)))
        return 0
    paths = sorted(options.cases.glob("*.py")) if options.cases else []
    if not paths:
        parser.error("name a folder of case files")
    count: Counter[str] = Counter()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        checked = CHECKED.search(text)
        expected = [(int(line), severity) for line, _, severity in EXPECTED.findall(text) if line]
        seen = in_process_of_its_own(path)
        remarks = list(_counted(count, seen, expected, checked.groups() if checked else None))
        if options.verbose or any(remark.startswith("!") for remark in remarks):
            print(f"{path.name}: {seen['replay']['verdict']}; {'; '.join(remarks)}")
    print(f"\n{len(paths)} cases")
    print(f"replay verdict as in the header      {count['verdict right']} of {count['verdict']}")
    print(f"memory said to be freed is found     {count['freed found']} of {count['freed']}")
    print(f"lines of side effects are expected   {count['line right']} of {count['line']}")
    print("\n                                     hits       false alarms")
    for way in ("replay or Dynamo", "replay alone", "Dynamo alone", "`update` in names"):
        print(f"{way:36} {count[f'{way} hit']} of {count['harmful']}   {count[f'{way} false']} of {count['harmless']}")
    return 0


def _counted(count: Counter[str], seen: dict[str, Any], expected: list[tuple[int, str]], checked: Any) -> list[str]:
    remarks = []
    verdict = seen["replay"]["verdict"]
    if checked is not None:
        wanted, rest = checked
        count["verdict"] += 1
        kinds = {"WRONG-OUTPUT": ("wrong-output",), "STALE-STATE": ("stale-state",)}.get(wanted.split()[0], ("same",))
        kinds += ("refused",) * ("host read" in rest) + ("freed-memory",) * ("freed" in rest)
        count["verdict right"] += verdict in kinds
        remarks += [] if verdict in kinds else [f"! the header says {wanted}"]
        if "freed" in rest:
            count["freed"] += 1
            count["freed found"] += bool(seen["replay"]["freed"])
            remarks += [] if seen["replay"]["freed"] else ["! freed memory was not found"]
    lines = {line for line, _ in expected}
    for effect in seen["side_effects"]:
        count["line"] += 1
        places = [frame["line"] for frame in effect["stack"]]
        right = bool(lines.intersection(places))
        count["line right"] += right
        remarks.append(f"{'' if right else '! '}{effect['object']}.{effect['attribute']} {effect['operation']} at {places}")
    harmful = any(severity in WRITES_THAT_COUNT for _, severity in expected)
    kind, outcome = ("harmful", "hit") if harmful else ("harmless", "false")
    count[kind] += 1
    by_replay = verdict in ("wrong-output", "stale-state", "freed-memory", "shape-changes")
    by_dynamo = bool(seen["side_effects"])
    for way, told in (
        ("replay or Dynamo", by_replay or by_dynamo),
        ("replay alone", by_replay),
        ("Dynamo alone", by_dynamo),
        ("`update` in names", seen["update_in_names"]),
    ):
        count[f"{way} {outcome}"] += told
    return remarks


if __name__ == "__main__":
    raise SystemExit(main())

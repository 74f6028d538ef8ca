"""What the truth of a predicate says of the code behind it: that it trains, that it is never captured, that it never runs."""

from __future__ import annotations

from functools import lru_cache

from modelguard.scan.tables import CAPTURE_PREDICATES, SCRIPT_PREDICATES
from modelguard.scan.values import NO_FACTS, Facts, Test

NO_TEST = Test(NO_FACTS, NO_FACTS)
TRAINING = Test(Facts(training=True), Facts(evaluating=True))
ALWAYS = Test(NO_FACTS, Facts(dead=True))
NEVER = Test(Facts(dead=True), NO_FACTS)
_CAPTURED = Test(NO_FACTS, Facts(eager=True))

_CAPTURE_NAMES = frozenset(name.rpartition(".")[2] for name in CAPTURE_PREDICATES)
_SCRIPT_NAMES = frozenset(name.rpartition(".")[2] for name in SCRIPT_PREDICATES)


@lru_cache(maxsize=4096)
def predicate(dotted: str) -> Test | None:
    """What a call of a predicate on the compiler's state says."""
    last = dotted.rpartition(".")[2]
    if dotted in CAPTURE_PREDICATES or (last in _CAPTURE_NAMES and not dotted.startswith("torch.jit")):
        return _CAPTURED
    if dotted in SCRIPT_PREDICATES or last in _SCRIPT_NAMES:
        return NEVER
    if dotted == "torch.is_grad_enabled":
        return Test(Facts(training=True), NO_FACTS)
    return None

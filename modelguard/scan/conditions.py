"""What tests say of the code behind them: that it trains, is never captured or never runs, and what they ask of the state."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache

from modelguard.observation import Kind, Root
from modelguard.scan.paths import NO_FACTS, Check, Facts, Path, Test
from modelguard.scan.tables import CAPTURE_PREDICATES, INSTANCE_DICTS, SCRIPT_PREDICATES
from modelguard.scan.values import NONE, External, Value

NO_TEST = Test(NO_FACTS, NO_FACTS)
TRAINING = Test(Facts(training=True), Facts(evaluating=True))
ALWAYS = Test(NO_FACTS, Facts(dead=True))
NEVER = Test(Facts(dead=True), NO_FACTS)
_CAPTURED = Test(NO_FACTS, Facts(eager=True))

_CAPTURE_NAMES = frozenset(name.rpartition(".")[2] for name in CAPTURE_PREDICATES)
_SCRIPT_NAMES = frozenset(name.rpartition(".")[2] for name in SCRIPT_PREDICATES)
_MISSING_ERRORS = frozenset(("AttributeError", "KeyError", "IndexError", "Exception", "LookupError"))


@lru_cache(maxsize=4096)
def predicate(dotted: str) -> Value | None:
    """The truth value that a predicate on the compiler's state returns; None for any other function."""
    last = dotted.rpartition(".")[2]
    if dotted in CAPTURE_PREDICATES or (last in _CAPTURE_NAMES and not dotted.startswith("torch.jit")):
        return Value(Kind.BOOL, test=_CAPTURED)
    if dotted in SCRIPT_PREDICATES or last in _SCRIPT_NAMES:
        return Value(Kind.BOOL, test=NEVER)
    if dotted == "torch.is_grad_enabled":
        return Value(Kind.BOOL, test=Test(Facts(training=True), NO_FACTS))
    return None


def truth(value: Value) -> Test:
    """What the truth of a value says."""
    if value.test is not None:
        return value.test
    for item in value.objects:
        if isinstance(item, External) and item.dotted.endswith("TYPE_CHECKING"):
            return NEVER
    if not value.paths:
        if value.kinds == Kind.NONE or value.constant is False:
            return NEVER
        if value.constant is True or _certain_object(value):
            return ALWAYS
    for path in value.paths:
        if path.steps and path.steps[-1] == "training" and path.root is not Root.GLOBAL:
            return TRAINING
    if value.kinds & ~(Kind.BOOL | Kind.NUMBER):
        checks = tuple(Check(path, "missing") for path in value.paths)
    else:
        checks = ()
    sizes = tuple(Check(path, "size") for path in value.about)
    if checks or sizes:
        return Test(Facts(checks=sizes), Facts(checks=checks + sizes))
    return NO_TEST


def membership(key: Value, container: Value) -> tuple[Check, ...]:
    """What `key in container` asks."""
    checks = []
    for path in container.paths:
        if path.steps and path.steps[-1] in INSTANCE_DICTS:
            path = path.parent().step(key.key_name)
        checks.append(Check(path, "missing"))
    return tuple(checks) + tuple(Check(path, "missing") for path in container.about)


def comparison(operator: ast.cmpop, left: Value, right: Value) -> tuple[Facts, Facts]:
    """What holds where a comparison is true, and where it is false."""
    if left is NONE or right is NONE:
        subject = right if left is NONE else left
        if not subject.paths and isinstance(operator, (ast.Is, ast.IsNot)):
            known = ALWAYS if subject.kinds == Kind.NONE else NEVER if _certain_object(subject) else None
            if known is not None:
                return known if isinstance(operator, ast.Is) else Test(known.false, known.true)
        facts = Facts(checks=tuple(Check(path, "missing") for path in subject.paths))
        same = isinstance(operator, (ast.Is, ast.Eq))
        return (facts, NO_FACTS) if same else (NO_FACTS, facts)
    checks = [Check(path, "size") for path in left.about + right.about]
    checks += [Check(path, "compare") for path in left.paths + right.paths]
    if not checks:
        for side in (left, right):
            # `self.training is True`, `self.training == False`
            if side.test is not None:
                return side.test.true, side.test.false
        return NO_FACTS, NO_FACTS
    facts = Facts(checks=tuple(checks))
    if any(path.steps and path.steps[-1] == "training" for path in left.paths):
        wanted = right.constant is not False
        yes, no = TRAINING if wanted else (TRAINING.false, TRAINING.true)
        return (yes, no) if isinstance(operator, (ast.Is, ast.Eq)) else (no, yes)
    if isinstance(operator, (ast.Eq, ast.Is)):
        # `len(self.cache) == 0`, `self.table.numel() == 0`: empty is missing.
        empty = left.about and right.constant == 0
        return (Facts(checks=tuple(Check(path, "missing") for path in left.about)), facts) if empty else (NO_FACTS, facts)
    if isinstance(operator, (ast.NotEq, ast.IsNot)):
        return facts, NO_FACTS
    return facts, facts


def handler_facts(handler: ast.ExceptHandler, tried: Sequence[Path]) -> Facts:
    """`except AttributeError:` around a read asks whether the state is there."""
    if handler.type is None:
        caught = {"Exception"}
    else:
        nodes = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        caught = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in nodes}
    if caught.isdisjoint(_MISSING_ERRORS):
        return NO_FACTS
    return Facts(checks=tuple(Check(path, "missing") for path in dict.fromkeys(tried)))


def _certain_object(value: Value) -> bool:
    """Whether a value is a function, a class or an object made here, and so neither None nor false."""
    return bool(value.objects) and not value.kinds & (Kind.NONE | Kind.UNKNOWN | Kind.CONTAINER) and not value.paths

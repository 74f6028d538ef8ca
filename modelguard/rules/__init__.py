"""The rules, in order of precedence: one write gets one finding, from the first rule that claims it; one obstacle, its rule's."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from types import MappingProxyType

from modelguard.observation import Obstacle, StateWrite
from modelguard.rules.base import CaptureRule, Rule, Verdict
from modelguard.rules.mg101_buffer_rebound import BufferRebound
from modelguard.rules.mg102_parameter_rebound import ParameterRebound
from modelguard.rules.mg103_tensor_attribute_rebound import TensorAttributeRebound
from modelguard.rules.mg104_python_state_changed import PythonStateChanged
from modelguard.rules.mg105_container_mutated import ContainerMutated
from modelguard.rules.mg106_registered_in_forward import RegisteredInForward
from modelguard.rules.mg107_storage_swapped import StorageSwapped
from modelguard.rules.mg108_buffer_written_in_place import BufferWrittenInPlace
from modelguard.rules.mg109_lazy_cache import LazyCache
from modelguard.rules.mg110_attribute_deleted import AttributeDeleted
from modelguard.rules.mg111_shared_state_changed import SharedStateChanged
from modelguard.rules.mg112_foreign_state_changed import ForeignStateChanged
from modelguard.rules.mg113_unresolved_mutator import UnresolvedMutator
from modelguard.rules.mg114_memoised_tensor import MemoisedTensor
from modelguard.rules.mg201_host_sync import HostSync
from modelguard.rules.mg202_data_dependent_branch import DataDependentBranch
from modelguard.rules.mg203_data_dependent_shape import DataDependentShape
from modelguard.rules.mg204_output_in_forward import OutputInForward
from modelguard.rules.mg205_clock_or_randomness import ClockOrRandomness
from modelguard.rules.mg206_opaque_call import OpaqueCall
from modelguard.rules.mg207_constant_copied_to_device import ConstantCopiedToDevice
from modelguard.rules.mg208_shape_branch import ShapeBranch
from modelguard.rules.mg301_call_module_left import CallModuleLeft
from modelguard.rules.mg302_get_attr_left import GetAttrLeft
from modelguard.rules.mg303_call_method_left import CallMethodLeft
from modelguard.rules.mg304_graph_break import GraphBreak
from modelguard.rules.mg305_unsupported_node import UnsupportedNode
from modelguard.rules.mg306_untraceable import Untraceable
from modelguard.rules.mg401_replay_diverged import ReplayDiverged
from modelguard.rules.mg402_unforeseen_side_effect import UnforeseenSideEffect
from modelguard.rules.mg901_unparsable_file import UnparsableFile
from modelguard.rules.mg902_unused_suppression import UnusedSuppression
from modelguard.rules.mg903_unknown_code_in_suppression import UnknownCodeInSuppression

RULES: tuple[Rule, ...] = (
    MemoisedTensor(),
    AttributeDeleted(),
    RegisteredInForward(),
    StorageSwapped(),
    SharedStateChanged(),
    LazyCache(),
    BufferWrittenInPlace(),
    ForeignStateChanged(),
    BufferRebound(),
    ParameterRebound(),
    TensorAttributeRebound(),
    ContainerMutated(),
    UnresolvedMutator(),
    PythonStateChanged(),
    HostSync(),
    DataDependentBranch(),
    DataDependentShape(),
    OutputInForward(),
    ClockOrRandomness(),
    OpaqueCall(),
    ConstantCopiedToDevice(),
    ShapeBranch(),
    CallModuleLeft(),
    GetAttrLeft(),
    CallMethodLeft(),
    GraphBreak(),
    UnsupportedNode(),
    Untraceable(),
    ReplayDiverged(),
    UnforeseenSideEffect(),
    UnparsableFile(),
    UnusedSuppression(),
    UnknownCodeInSuppression(),
)

by_code: Mapping[str, Rule] = MappingProxyType({rule.code: rule for rule in sorted(RULES, key=lambda rule: rule.code)})
"""The rules by their code, in the order of the codes."""

_by_hindrance = {rule.hindrance: rule for rule in RULES if isinstance(rule, CaptureRule)}


def verdict_on(obstacle: Obstacle) -> tuple[Rule, Verdict]:
    """The rule that an obstacle belongs to, and what it says."""
    rule = _by_hindrance[obstacle.hindrance]
    return rule, rule.verdict(obstacle)


def judge(write: StateWrite, seconds: dict[str, float] | None = None) -> tuple[Rule, Verdict] | None:
    """The first rule that claims `write`, and what it says. `seconds` adds up, by code, what the rules have taken."""
    for rule in RULES:
        start = perf_counter()
        verdict = rule.check(write)
        if seconds is not None:
            seconds[rule.code] = seconds.get(rule.code, 0.0) + perf_counter() - start
        if verdict is not None:
            return rule, verdict
    return None


def find(text: str) -> Rule | None:
    """The rule that `text` names by its code or its name, in upper or lower case."""
    wanted = text.strip()
    rule = by_code.get(wanted.upper())
    if rule is not None:
        return rule
    return next((rule for rule in RULES if rule.name == wanted.lower()), None)


def rule_names() -> dict[str, str]:
    """The name of every rule, by its code."""
    return {code: rule.name for code, rule in by_code.items()}


def nearest(text: str) -> list[str]:
    """The codes and names that `text` may have meant, at most three, best first."""
    from difflib import get_close_matches

    wanted = text.strip().lower()
    letters = wanted.rstrip("0123456789")
    if letters != wanted and letters.isalpha() and not set(letters) <= set("mg"):
        # A code of another tool, such as `F401`.
        return []
    spellings = {code.lower(): code for code in by_code} | {rule.name: rule.name for rule in by_code.values()}
    begun = [spelling for low, spelling in spellings.items() if wanted and low.startswith(wanted)]
    return (begun or [spellings[low] for low in get_close_matches(wanted, spellings)])[:3]

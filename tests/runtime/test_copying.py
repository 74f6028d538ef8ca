"""Deep copies share nothing with their originals that a step could change."""

from __future__ import annotations

import copy
import functools
import math
import threading
from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
from torch import nn

from modelguard.runtime.copying import deep_copied


class Box:
    """Whatever it is given."""

    def __init__(self, **kept: Any) -> None:
        self.__dict__.update(kept)

    def grown(self) -> int:
        self.items.append(1)
        return len(self.items)


class Slotted:
    __slots__ = ("__hidden", "call")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call, self.__hidden = call, call

    @property
    def hidden(self) -> Callable[[], Any]:
        return self.__hidden


def closing(box: Box) -> Callable[[], int]:
    return lambda: box.grown()


def counting() -> Callable[[], int]:
    count = 0

    def advance() -> int:
        nonlocal count
        count += 1
        return count

    return advance


def decorated(box: Box) -> Callable[[], int]:
    @functools.wraps(box.grown)
    def outer() -> int:
        return inner()

    inner = closing(box)
    return outer


def bound(box: Box) -> Callable[[], int]:
    inner = closing(box)
    return MethodType(lambda self: inner() + 0 * len(self.items), box)


HOLDERS: dict[str, Callable[[Box], Any]] = {
    "closure": closing,
    "decorated": decorated,
    "method": lambda box: box.grown,
    "bound closure": bound,
    "partial": lambda box: functools.partial(closing(box)),
    "partial of a method": lambda box: functools.partial(box.grown),
    "in a list": lambda box: [closing(box)][0],
    "in slots": lambda box: Slotted(closing(box)).hidden,
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_a_copied_callable_acts_on_the_copy(hold: Callable[[Box], Any]) -> None:
    box = Box(items=[])
    box.call = hold(box)
    copied = deep_copied(box)
    assert [copied.call(), copied.call()] == [1, 2]
    assert (box.items, copied.items) == ([], [1, 1])


def test_variables_of_enclosing_functions_are_copied_once() -> None:
    advance = counting()
    assert advance() == 1
    first, second = deep_copied((advance, advance))
    assert first is second
    assert [first(), first(), advance()] == [2, 3, 2]


def test_a_variable_without_a_value_is_left_so() -> None:
    def call() -> int:
        return late

    copied = deep_copied(Box(call=call))
    with pytest.raises(NameError):
        copied.call()
    late = 3
    assert call() == 3


def test_memos_of_instances_are_their_own() -> None:
    box = Box(items=[])
    box.memo = functools.lru_cache(maxsize=2)(lambda key: key * 2)
    box.memo(1)
    copied = deep_copied(box)
    copied.memo(2)
    assert copied.memo.cache_parameters()["maxsize"] == 2
    assert [each.memo.cache_info().currsize for each in (box, copied)] == [1, 1]


def test_what_is_shared_stays_shared() -> None:
    weight = nn.Parameter(torch.ones(2))
    model, calls = deep_copied((nn.ParameterList([weight, weight]), [weight]))
    assert model[0] is model[1] is calls[0] is not weight


def test_modules_of_python_s_are_no_part_of_a_copy() -> None:
    box = Box(library=math)
    box.call = lambda: math.pi + box.library.pi
    assert deep_copied(box).call() == 2 * math.pi


def test_what_cannot_be_copied_raises_and_leaves_copy_as_it_was() -> None:
    box = Box(lock=threading.Lock())
    with pytest.raises(TypeError, match="lock"):
        deep_copied(box)
    method = copy.deepcopy(Box(items=[]).grown)
    assert method() == 1


def test_ready_copies_are_used() -> None:
    given, ready = torch.ones(2), torch.zeros(2)
    assert deep_copied([given, given], {id(given): ready})[1] is ready

"""The table of all that a model keeps, and what running copies leaves of what they share."""

from __future__ import annotations

import functools
import logging
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from modelguard.runtime import state


@dataclass(slots=True)
class Slotted:
    level: int = 1


class Words(OrderedDict[str, Any]):
    """A record that is a dictionary as well."""

    def __init__(self, **words: Any) -> None:
        super().__init__(words)
        self.__dict__.update(words)


class Inner(nn.Module):
    seen: ClassVar[list[int]] = [0]

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(2))
        self.plain = torch.ones(1)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Inner()])
        self.n = 3
        self.exact = Decimal("1.5")
        self.queue = deque([1, {"k": 2}])
        self.members = {1, 2}
        self.keyed = {(1, "a"): 3, Slotted: 4}
        self.record = Slotted()
        self.words = Words(logits=1)
        self.array = np.arange(2, dtype=np.int16)
        self.lock = threading.Lock()
        self.logger = logging.getLogger(__name__)
        self.itself = self

    def forward(self, x: Any) -> Any:
        return x


GLOBAL = {"deep": [Slotted(0)]}
TENSOR = torch.zeros(2)


@functools.lru_cache(maxsize=3)
def doubled(number: int) -> int:
    return 2 * number


class Holder:
    @staticmethod
    @functools.lru_cache
    def tripled(number: int) -> int:
        return 3 * number


def test_paths_and_values() -> None:
    table = state.state_of(Model())
    expected = {
        "self.training": True,
        "self.n": 3,
        "self.exact": Decimal("1.5"),
        "len(self.queue)": 2,
        "self.queue[0]": 1,
        "self.queue[1]['k']": 2,
        "self.members": frozenset((1, 2)),
        "self.keyed[(1, 'a')]": 3,
        "self.keyed[ABCMeta 1]": 4,
        "self.record.level": 1,
        "self.words['logits']": 1,
        "self.array": b"\0\0\1\0",
        "Inner.seen[0]": 0,
        "test_state.GLOBAL['deep'][0].level": 0,
    }
    expected["self.keyed[type 1]"] = expected.pop("self.keyed[ABCMeta 1]")
    assert {path: table.get(path) for path in expected} == expected
    assert "self.layers[0].mean" in table and "self.layers[0].plain" in table and "test_state.TENSOR" in table
    assert not [path for path in table if path.startswith(("self.itself", "self.logger", "self.lock", "self.words.logits"))]


def test_apart_puts_back_what_copies_share() -> None:
    doubled(1), Holder.tripled(1)
    memory, inner = TENSOR.data_ptr(), GLOBAL["deep"]
    before = state.state_of(Model())
    with state.apart(Model()):
        assert doubled.cache_info().currsize == 0 and Holder.tripled.cache_info().currsize == 0
        doubled(5), Holder.tripled(5)
        TENSOR.add_(1)
        TENSOR.data = torch.ones(9)
        GLOBAL["deep"][0].level = 7
        GLOBAL["deep"].append(Slotted())
        GLOBAL["more"] = []
        Inner.seen[0] += 1
        Inner.seen = []
        Inner.fresh = 1
        Model.forward = lambda self, x: -x
        globals()["NEW"] = 3
    assert doubled.cache_info().currsize == 1 and doubled.cache_info().maxsize == 3
    assert Holder.tripled.cache_info().currsize == 1
    assert TENSOR.data_ptr() == memory and TENSOR.tolist() == [0, 0]
    assert GLOBAL["deep"] is inner and "NEW" not in globals() and not hasattr(Inner, "fresh")
    assert Model()(1) == 1
    after = state.state_of(Model())
    assert {path: value for path, value in after.items() if not isinstance(value, torch.Tensor)} == {
        path: value for path, value in before.items() if not isinstance(value, torch.Tensor)
    }


def test_apart_puts_back_when_the_block_fails() -> None:
    try:
        with state.apart(Model()):
            GLOBAL["deep"][0].level = 7
            raise ValueError
    except ValueError:
        pass
    assert GLOBAL["deep"][0].level == 0


def test_putting_back_does_not_spoil_the_caller_s_gradients() -> None:
    weight = nn.Parameter(torch.ones(2))
    loss = (weight * TENSOR.exp()).sum()
    with state.apart(Model()):
        TENSOR.data.add_(1)
    loss.backward()
    assert weight.grad is not None and weight.grad.tolist() == [1, 1]

"""What a target may return, and how it is found."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from modelguard.runtime.targets import TargetError, load_target

SOURCE = """
import torch
from torch import nn

X = torch.ones(2)
model = nn.Linear(2, 2)


def module():
    return nn.Linear(2, 2)


def with_args():
    return nn.Linear(2, 2), (X,)


def with_kwargs():
    return nn.Linear(2, 2), (), {"input": X}


def with_calls():
    return nn.Linear(2, 2), [(X,), (X,)]


def with_others():
    return nn.Linear(2, 2), [(X,)], [(X, X)]


def alone():
    return (nn.Linear(2, 2),)


class Made(nn.Identity):
    @staticmethod
    def build():
        return Made(), (X,)


def not_a_dict():
    return nn.Linear(2, 2), (X,), 3


def too_many():
    return nn.Linear(2, 2), (X,), {}, 3
"""


@pytest.fixture
def place(tmp_path: Path) -> str:
    path = tmp_path / f"{tmp_path.name}.py"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("name", "calls", "kwargs", "others"),
    [
        ("module", [], [], []),
        ("model", [], [], []),
        ("Made", [], [], []),
        ("Made.build", [1], [], []),
        ("alone", [], [], []),
        ("with_args", [1], [], []),
        ("with_kwargs", [0], ["input"], []),
        ("with_calls", [1, 1], [], []),
        ("with_others", [1], [], [2]),
    ],
)
def test_shapes(place: str, name: str, calls: list[int], kwargs: list[str], others: list[int]) -> None:
    target = load_target(f"{place}:{name}")
    assert isinstance(target.model, torch.nn.Module)
    assert (list(map(len, target.calls)), list(target.kwargs), list(map(len, target.others))) == (calls, kwargs, others)


@pytest.mark.parametrize(
    ("name", "message"),
    [("not_a_dict", r"\(Linear, tuple, int\)"), ("too_many", "int"), ("X", "is not callable"), ("nope", "it has .*with_args")],
)
def test_other_shapes(place: str, name: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        load_target(f"{place}:{name}")


def test_a_module_of_another_name_is_not_replaced(tmp_path: Path) -> None:
    import inspect

    path = tmp_path / "inspect.py"
    path.write_text(SOURCE, encoding="utf-8")
    assert load_target(f"{path}:with_args").calls
    import inspect as again

    assert again is inspect and hasattr(again, "signature")


def test_what_lies_beside_a_file_and_dotted_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_of_targets.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "uses_beside_of_targets.py").write_text("from beside_of_targets import with_args\n", encoding="utf-8")
    assert load_target(f"{tmp_path / 'uses_beside_of_targets.py'}:with_args").calls
    monkeypatch.chdir(tmp_path)
    assert load_target("beside_of_targets:with_others").others

"""State writes of compiled code: those that are there are named, with their line, and those that are not are not."""

from __future__ import annotations

import collections
import inspect
import linecache
import sys
from types import FunctionType, ModuleType
from typing import Any

import elsewhere
import pytest
import torch
from torch import nn

from modelguard.runtime import CompiledForward, Frame, SideEffect, StateWriteError
from modelguard.runtime.side_effects import of_bytecode, side_effects


class Config:
    """A plain object."""

    def __init__(self, x: int) -> None:
        self.x = x


COUNT = 0
SEEN: list[int] = []
SETTINGS = Config(0)


class Words(dict[str, Any]):
    """A container of the project's own."""


class Model(nn.Module):
    total = 0

    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.flag = False
        self.t = torch.zeros(3)
        self.register_buffer("buf", torch.zeros(3))
        self.p = nn.Parameter(torch.zeros(3))
        self.l: list[Any] = []
        self.pair: list[Any] = [1, 2]
        self.d: dict[str, Any] = {"old": [1]}
        self.s: set[int] = set()
        self.queue: collections.deque[Any] = collections.deque()
        self.words = Words()
        self.config = Config(1)
        self.rotary = elsewhere.Inner()
        self.layers = nn.ModuleList([elsewhere.Inner(), elsewhere.Inner()])
        self.numbers = iter(range(4))

    @property
    def level(self) -> int:
        return self.n

    @level.setter
    def level(self, value: int) -> None:
        self.n = value  # here: setter


def counter(self: Any, x: Any) -> Any:
    self.n += 1  # here
    return x + self.n


def tensor_attribute(self: Any, x: Any) -> Any:
    self.t = self.t + x  # here
    return x + 1


def buffer(self: Any, x: Any) -> Any:
    self.buf = self.buf + x  # here
    return x + 1


def parameter(self: Any, x: Any) -> Any:
    self.p = nn.Parameter(x)  # here
    return x + 1


def registered(self: Any, x: Any) -> Any:
    self.register_buffer("fresh", x * 2)  # here
    return x + 1


def appended(self: Any, x: Any) -> Any:
    self.l.append(x)  # here
    return x + 1


def list_item(self: Any, x: Any) -> Any:
    self.pair[0] = x  # here
    return x + 1


def updated(self: Any, x: Any) -> Any:
    self.d.update(new=x)  # here
    return x + 1


def item(self: Any, x: Any) -> Any:
    self.d["new"] = x  # here
    return x + 1


def popped(self: Any, x: Any) -> Any:
    self.d.pop("old")  # here
    return x + 1


def nested_item(self: Any, x: Any) -> Any:
    self.d["old"].append(x)  # here
    return x + 1


def set_member(self: Any, x: Any) -> Any:
    self.s.add(3)  # here
    return x + 1


def queued(self: Any, x: Any) -> Any:
    self.queue.append(x)  # here
    return x + 1


def own_container(self: Any, x: Any) -> Any:
    self.words["a"] = x  # here
    return x + 1


def new_attribute(self: Any, x: Any) -> Any:
    self.fresh = x + 1  # here
    return x + 1


def by_setattr(self: Any, x: Any) -> Any:
    setattr(self, "n", 5)  # noqa: B010  # here
    return x + 1


def deleted(self: Any, x: Any) -> Any:
    del self.n  # here
    return x + 1


def new_child(self: Any, x: Any) -> Any:
    self.rotary = self.layers[0]  # here
    return x + 1


def deleted_buffer(self: Any, x: Any) -> Any:
    del self.buf  # here
    return x + 1


def child(self: Any, x: Any) -> Any:
    self.rotary.cos = x + 1  # here
    return x + 1


def child_s_container(self: Any, x: Any) -> Any:
    self.layers[1].memo["k"] = x  # here
    return x + 1


def listed_child(self: Any, x: Any) -> Any:
    self.layers[1].cos = x + 1  # here
    return x + 1


def plain_object(self: Any, x: Any) -> Any:
    self.config.x = 2  # here
    return x + 1


def by_local_name(self: Any, x: Any) -> Any:
    config = self.config
    config.x = 2  # here
    return x + 1


def class_attribute(self: Any, x: Any) -> Any:
    Model.total += 1  # here
    return x + 1


def module_variable(self: Any, x: Any) -> Any:
    global COUNT
    COUNT += 1  # here
    return x + 1


def module_list(self: Any, x: Any) -> Any:
    SEEN.append(1)  # here
    return x + 1


def module_object(self: Any, x: Any) -> Any:
    SETTINGS.x = 4  # here
    return x + 1


def iterated(self: Any, x: Any) -> Any:
    return x + next(self.numbers)  # here


def tensor_s_attribute(self: Any, x: Any) -> Any:
    self.t.scale = 3  # here
    return x + 1


def over_lines(self: Any, x: Any) -> Any:
    self.d[  # here
        "new"
    ] = x
    return x + 1


ME = __name__
WRITES = [
    (counter, "self", "n", "rebound"),
    (tensor_attribute, "self", "t", "rebound"),
    (buffer, "self", "buf", "rebound"),
    (parameter, "self", "p", "rebound"),
    (registered, "self", "fresh", "created"),
    (appended, "self", "l", "changed"),
    (list_item, "self", "pair", "changed"),
    (updated, "self", "d", "changed"),
    (item, "self", "d", "changed"),
    (popped, "self", "d", "changed"),
    (nested_item, "self", "d['old']", "changed"),
    (set_member, "self", "s", "changed"),
    (queued, "self", "queue", "changed"),
    (own_container, "self", "words", "changed"),
    (new_attribute, "self", "fresh", "created"),
    (by_setattr, "self", "n", "rebound"),
    (deleted, "self", "n", "deleted"),
    (new_child, "self", "rotary", "rebound"),
    (deleted_buffer, "self", "buf", "deleted"),
    (child, "self.rotary", "cos", "rebound"),
    (child_s_container, "self.layers[1]", "memo", "changed"),
    (listed_child, "self.layers[1]", "cos", "rebound"),
    (plain_object, "self.config", "x", "rebound"),
    (by_local_name, "self.config", "x", "rebound"),
    (class_attribute, "Model", "total", "rebound"),
    (module_variable, ME, "COUNT", "rebound"),
    (module_list, ME, "SEEN", "changed"),
    (module_object, f"{ME}.SETTINGS", "x", "rebound"),
    (iterated, "self", "numbers", "advanced"),
    (tensor_s_attribute, "self.t", "scale", "created"),
    (over_lines, "self", "d", "changed"),
]


def with_forward(forward: Any) -> nn.Module:
    return type("Case", (Model,), {"forward": forward})()


def line_of(function: FunctionType, mark: str = "# here") -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(index for index, line in enumerate(lines) if line.rstrip().endswith(mark))


def marked_line(module: ModuleType, mark: str) -> int:
    lines = inspect.getsource(module).splitlines()
    return 1 + next(index for index, line in enumerate(lines) if line.endswith(f"# here: {mark}"))


def refused(module: nn.Module, *args: Any, **options: Any) -> StateWriteError:
    wrapper = CompiledForward(module, backend="eager", cuda_graphs=True, **options)
    with pytest.raises(StateWriteError) as caught:
        wrapper(*(args or (torch.ones(3),)))
    assert not wrapper.compiled
    return caught.value


@pytest.mark.parametrize(("forward", "owner", "attribute", "operation"), WRITES, ids=[case[0].__name__ for case in WRITES])
def test_write_is_named_with_its_line(forward: FunctionType, owner: str, attribute: str, operation: str) -> None:
    module = with_forward(forward)
    line = line_of(forward)
    error = refused(module)
    assert [(each.object_path, each.attribute, each.operation) for each in error.side_effects] == [(owner, attribute, operation)]
    assert error.side_effects[0].stack == (Frame(__file__, line, forward.__name__),)
    assert f"{owner}.{attribute} is {operation} at {__file__}:{line} in {forward.__name__}" in str(error)


IN_TABLES = {
    buffer: "self._buffers",
    registered: "self._buffers",
    deleted_buffer: "self._buffers",
    new_child: "self._modules",
    parameter: "self._parameters",
}


@pytest.mark.parametrize(
    ("forward", "owner", "attribute"), [case[:3] for case in WRITES], ids=[case[0].__name__ for case in WRITES]
)
def test_write_is_in_the_instructions(forward: FunctionType, owner: str, attribute: str) -> None:
    """What is read where torch keeps no table: the object is right, though a module's own table stands for its entries."""
    wrapper = CompiledForward(with_forward(forward), backend="eager")
    wrapper(torch.ones(3))
    assert wrapper.bytecode is not None
    expected = IN_TABLES.get(forward, f"{owner}.{attribute}".removeprefix(f"{ME}."))
    assert {each.path for each in of_bytecode(wrapper.bytecode)} == {expected}


def test_refused_forward_has_not_run() -> None:
    module = with_forward(counter)
    refused(module)
    assert module.n == 0


def test_every_write_is_listed_each_line_once() -> None:
    def forward(self: Any, x: Any) -> Any:
        self.n += 1
        self.t = x * 2
        for _ in range(3):
            self.l.append(1)
        self.l.append(2)
        return x

    first = inspect.getsourcelines(forward)[1]
    found = refused(with_forward(forward)).side_effects
    assert sorted((each.path, each.stack[-1].line - first) for each in found) == [
        ("self.l", 4),
        ("self.l", 5),
        ("self.n", 1),
        ("self.t", 2),
    ]


def test_write_in_a_helper_of_another_file() -> None:
    def forward(self: Any, x: Any) -> Any:
        elsewhere.note(self, x * 2)
        return x + 1

    (effect,) = refused(with_forward(forward)).side_effects
    line = marked_line(elsewhere, "helper")
    assert effect.path == "self.seen"
    assert effect.stack[-1] == Frame(str(elsewhere.__file__), line, "note")
    assert [frame.function for frame in effect.stack] == ["forward", "note"]


def test_write_of_another_module_s_variable() -> None:
    def forward(self: Any, x: Any) -> Any:
        elsewhere.step()
        return x + 1

    (effect,) = refused(with_forward(forward)).side_effects
    assert (effect.path, effect.stack[-1].line) == ("elsewhere.STEPS", marked_line(elsewhere, "step"))


def test_write_in_a_base_of_another_file() -> None:
    class Derived(elsewhere.Base):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * 2

    (effect,) = refused(Derived()).side_effects
    assert (effect.path, effect.stack[-1]) == (
        "self.n",
        Frame(str(elsewhere.__file__), marked_line(elsewhere, "base"), "forward"),
    )


def test_write_of_a_child_in_its_own_forward() -> None:
    def forward(self: Any, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x

    found = refused(with_forward(forward)).side_effects
    assert [each.path for each in found] == ["self.layers[0].cos", "self.layers[1].cos"]
    assert {each.stack[-1].line for each in found} == {marked_line(elsewhere, "inner")}


def test_write_in_a_property_setter() -> None:
    def forward(self: Any, x: Any) -> Any:
        self.level = 4
        return x + 1

    (effect,) = refused(with_forward(forward)).side_effects
    assert (effect.path, effect.stack[-1].line) == ("self.n", marked_line(sys.modules[__name__], "setter"))


def test_write_in_a_decorated_forward() -> None:
    (effect,) = refused(with_forward(torch.no_grad()(counter))).side_effects
    assert (effect.path, effect.stack[-1].line) == ("self.n", line_of(counter))


def test_write_into_an_argument() -> None:
    def forward(self: Any, x: Any, cache: dict[str, Any]) -> Any:
        cache["k"] = x
        return x + 1

    (effect,) = refused(with_forward(forward), torch.ones(3), {}).side_effects
    assert (effect.path, effect.attribute) == ("cache", None)


def test_write_of_an_enclosing_variable() -> None:
    calls = 0

    def forward(self: Any, x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x + 1

    (effect,) = refused(with_forward(forward)).side_effects
    assert (effect.path, effect.operation) == ("calls", "rebound")
    assert calls == 0


def test_write_without_the_bytecode_hook() -> None:
    (effect,) = refused(with_forward(counter), bytecode_hook=False).side_effects
    assert effect.path == "self.n"


def test_writes_are_known_where_dynamo_keeps_no_stacks_by_itself() -> None:
    with torch._dynamo.config.patch(side_effect_replay_policy="silent"):
        (effect,) = refused(with_forward(appended)).side_effects
    assert effect.stack[-1].line == line_of(appended)


# --- none of these is one


def nothing(self: Any, x: Any) -> Any:
    return x + self.n


def local_containers(self: Any, x: Any) -> Any:
    d: dict[str, Any] = {}
    d.update(a=x)
    d["b"] = x
    items = [x]
    items.append(x)
    return d["a"] + items[1]


def local_object(self: Any, x: Any) -> Any:
    made = Words()
    made["a"] = x
    return made["a"] + 1


def in_place(self: Any, x: Any) -> Any:
    self.buf.copy_(x)
    self.buf.add_(x)
    self.buf[0] = 1
    self.t.mul_(2)
    return x + self.buf


def restored(self: Any, x: Any) -> Any:
    old = self.n
    self.n = 7
    y = x * self.n
    self.n = old
    return y


def restored_tensor(self: Any, x: Any) -> Any:
    old = self.t
    self.t = x
    y = x * self.t
    self.t = old
    return y


def restored_buffer(self: Any, x: Any) -> Any:
    old = self.buf
    self.buf = x
    y = x * self.buf
    self.buf = old
    return y


def raised_and_lowered(self: Any, x: Any) -> Any:
    self.flag = True
    y = x + 1 if self.flag else x
    self.flag = False
    return y


def appended_and_popped(self: Any, x: Any) -> Any:
    self.pair.append(x)
    return self.pair.pop() + 1


def put_and_taken(self: Any, x: Any) -> Any:
    self.d["new"] = x
    return self.d.pop("new") + 1


def made_and_deleted(self: Any, x: Any) -> Any:
    self.scratch = x
    y = self.scratch + 1
    del self.scratch
    return y


HARMLESS = [
    nothing,
    local_containers,
    local_object,
    in_place,
    restored,
    restored_tensor,
    restored_buffer,
    raised_and_lowered,
    appended_and_popped,
    put_and_taken,
    made_and_deleted,
]


@pytest.mark.parametrize("forward", HARMLESS, ids=[case.__name__ for case in HARMLESS])
def test_harmless_forward_is_not_refused(forward: Any) -> None:
    torch.manual_seed(0)
    x = torch.rand(3)
    expected = with_forward(forward)(x)
    wrapper = CompiledForward(with_forward(forward), backend="eager", cuda_graphs=True)
    assert torch.equal(wrapper(x), expected)
    assert wrapper.side_effects == ()


def test_side_effects_are_told_where_they_are_allowed() -> None:
    module = with_forward(counter)
    wrapper = CompiledForward(module, backend="eager")
    assert wrapper.side_effects == ()
    wrapper(torch.ones(3))
    assert wrapper.side_effects == (SideEffect("self", "n", "rebound", (Frame(__file__, line_of(counter), "counter"),)),)
    assert module.n == 1


def test_side_effects_and_code_are_there_after_a_refusal() -> None:
    wrapper = CompiledForward(with_forward(counter), backend="eager", cuda_graphs=True)
    with pytest.raises(StateWriteError) as caught:
        wrapper(torch.ones(3))
    assert wrapper.side_effects == caught.value.side_effects != ()
    assert wrapper.bytecode is not None and not wrapper.compiled
    wrapper.cleanup()
    assert wrapper.side_effects == () and wrapper.bytecode is None


def test_error_holds_the_code() -> None:
    pytest.importorskip("depyf")
    error = refused(with_forward(counter))
    assert error.source not in str(error) and str(error).endswith("forward.")
    if error.source.startswith("# instructions, because depyf cannot decompile them"):
        pytest.skip("this depyf does not know the bytecode of this Python")
    assert error.source.startswith("# decompiled by depyf\n")
    assert "def counter(self, x)" in error.source


def test_error_says_where_depyf_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "depyf", None)
    error = refused(with_forward(counter))
    assert "depyf, which turns them into Python, is not installed" in error.source
    assert "RETURN_VALUE" in error.source


def test_source_lines_are_left_to_python() -> None:
    before = set(linecache.cache)
    CompiledForward(with_forward(nothing), backend="eager")(torch.ones(3))
    assert not [name for name in set(linecache.cache) - before if "modelguard" in name]


def test_write_is_told_without_its_place_where_torch_keeps_no_table() -> None:
    module = with_forward(counter)
    wrapper = CompiledForward(module, backend="eager")
    wrapper(torch.ones(3))
    assert wrapper.bytecode is not None
    (effect,) = side_effects(wrapper.bytecode, module, None)
    assert effect == SideEffect("self", "n", "rebound", ())
    assert str(effect) == "self.n is rebound (this version of torch does not tell where)"


class _TakesKeywords(nn.Module):
    def forward(self, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        kwargs["scale"] = 2.0
        if "cache" in kwargs:
            kwargs["cache"]["last"] = x
        return x.sin() * kwargs.pop("scale")


def test_the_dict_of_keywords_is_the_calls_own() -> None:
    wrapper = CompiledForward(_TakesKeywords(), backend="eager", cuda_graphs=True)
    wrapper(torch.ones(3), other=1)
    assert wrapper.side_effects == ()


def test_what_keywords_hold_is_the_callers() -> None:
    wrapper = CompiledForward(_TakesKeywords(), backend="eager")
    wrapper(torch.ones(3), cache={})
    assert [effect.path for effect in wrapper.side_effects] == ["kwargs['cache']"]


def added_in_place(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.total += x
    self.plain -= x
    self.child.scale *= 2
    self.tensors[0] += x
    self.total = self.total.mul_(0.5)
    return self.total + self.plain


def made_anew(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.total = self.total + x
    return x * 2


def stored_elsewhere(self: Any, x: torch.Tensor) -> torch.Tensor:
    total = self.total
    total += x
    self.plain = total
    return x * 2


@pytest.mark.parametrize(
    ("forward", "written"), [(added_in_place, []), (made_anew, ["self.total"]), (stored_elsewhere, ["self.plain"])]
)
def test_a_tensor_that_is_written_and_stored_where_it_was_is_no_state_write(forward: Any, written: list[str]) -> None:
    class Accumulating(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.plain = torch.zeros(3)
            self.tensors = [torch.zeros(3)]
            self.child = nn.Module()
            self.child.register_buffer("scale", torch.ones(3))

    Accumulating.forward = forward
    wrapper = CompiledForward(Accumulating(), backend="eager")
    wrapper(torch.ones(3))
    assert [effect.path for effect in wrapper.side_effects] == written

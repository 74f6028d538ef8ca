"""Generated code in files: everything comes back as it was, and nothing else is read."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import math
import operator
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from codegen_checks import Decoder, assert_same, double, generated
from torch.nn.attention.flex_attention import flex_attention
from torch.utils import _pytree

from modelguard.codegen import (
    ArtifactError,
    compile_execution_fn,
    load_artifact,
    save_artifact,
    split_graph,
    trace,
)

Pair = collections.namedtuple("Pair", ["first", "second"])


@dataclasses.dataclass(frozen=True)
class Settings:
    scale: float
    inner: Any = None
    doubled: float = dataclasses.field(init=False, default=0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", self.scale * 2)


@dataclasses.dataclass
class Scaled:
    scale: float
    times: dataclasses.InitVar[int] = 1

    def __post_init__(self, times: int) -> None:
        self.scale *= times * 2


class Doubled(collections.namedtuple("Doubled", ["first"])):
    __slots__ = ()

    def __new__(cls, first: int) -> Doubled:
        return super().__new__(cls, first * 2)


class Noted(Pair):
    """Has a `__dict__`, unlike other named tuples."""


def noted() -> Noted:
    made = Noted(1, 2)
    made.note = 3
    return made


def set_later() -> Scaled:
    made = Scaled(1.0)
    made.later = 1  # type: ignore[attr-defined]
    return made


class Mode(enum.Enum):
    HALF = 0.5
    TWICE = (2.0, "twice")
    ALSO_HALF = 0.5  # noqa: PIE796 - an alias


class Level(enum.IntEnum):
    LOW = 1


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


class Outer:
    @staticmethod
    def method(x: Any) -> Any:
        return x


CONSTANTS = {
    "inf": math.inf,
    "nan": math.nan,
    "-0.0": -0.0,
    "complex": complex(-0.0, math.nan),
    "huge int": 10**700,
    "negative huge int": -(10**5000),
    "bool": True,
    "None": None,
    "text": "é\n\0\U0001f600'\"\\",
    "text of half a character": "\udcff",
    "bytes": bytes(range(256)),
    "empty": ((), [], {}, set(), frozenset(), "", b""),
    "tuple that looks like a tag": ("tuple", [1, 2]),
    "containers": (1, [2, (3,)], {"a": {4: (5,), (6, 7): None}}, {8}, frozenset({9})),
    "slice": slice(1, None, -2),
    "slice of slices": (slice(None), slice("a", (1,), 2.5)),
    "range": range(3, 9, 2),
    "ellipsis": (..., ...),
    "not implemented": NotImplemented,
    "dtype": torch.bfloat16,
    "device": torch.device("cuda", 1),
    "Size": torch.Size([2, 3]),
    "layout": torch.sparse_coo,
    "memory format": torch.channels_last,
    "treespec": _pytree.tree_structure({"a": (1, [2, 3]), "b": None}),
    "enum": Mode.TWICE,
    "alias of an enum": Mode.ALSO_HALF,
    "int enum": Level.LOW,
    "flags": Flags.A | Flags.B,
    "no flags": Flags(0),
    "named tuple": Pair(1, [Mode.HALF]),
    "dataclass": Settings(2.0, Pair(math.inf, slice(1))),
    "dataclass that changes what it is given": Scaled(2.0, 3),
    "named tuple that changes what it is given": Doubled(2),
    "overload": torch.ops.aten.add.Tensor,
    "packet": torch.ops.aten.add,
    "function": double,
    "function of torch": torch.nn.functional.gelu,
    "builtin of torch": torch.relu,
    "builtin of torch.nn": torch.nn.functional.linear,
    "builtin of a torch module": torch.special.expm1,
    "method of Tensor": torch.Tensor.add,
    "method of Tensor in Python": torch.Tensor.norm,
    "function that import torch does not load": flex_attention,
    "builtin of a library": math.floor,
    "builtin": len,
    "operator": operator.add,
    "class": Settings,
    "class of torch": torch.nn.ReLU,
    "static method": Outer.method,
    "exception": ValueError,
}


def saved(path: Path, *consts: Any) -> list[Any]:
    save_artifact(path, "code", ["a"], list(consts))
    return load_artifact(path).consts


@pytest.mark.parametrize("value", CONSTANTS.values(), ids=CONSTANTS)
def test_constants_come_back(tmp_path: Path, value: Any) -> None:
    (found,) = saved(tmp_path / "a", value)
    assert_same(found, value)
    if callable(value) or isinstance(value, enum.Enum):
        assert found is value


TENSORS = {
    "float": torch.randn(2, 3),
    "scalar": torch.tensor(1.5),
    "empty": torch.empty(0, 3),
    "bool": torch.tensor([True, False]),
    "complex": torch.randn(3, dtype=torch.complex64),
    "conjugate": torch.randn(3, dtype=torch.complex64).conj(),
    "negative": torch.randn(3, dtype=torch.complex64).conj().imag,
    "transposed": torch.randn(2, 3).t(),
    "strided": torch.randn(8)[1::3],
    "channels last": torch.randn(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "nan": torch.tensor([math.nan, math.inf, -0.0]),
    "bfloat16": torch.randn(3).bfloat16(),
    "float8": torch.randn(3).to(torch.float8_e4m3fn),
    "int": torch.tensor([1, 2], dtype=torch.uint16),
    "leaf": torch.randn(3, requires_grad=True),
    "parameter": torch.nn.Parameter(torch.randn(3)),
    "frozen parameter": torch.nn.Parameter(torch.randn(3), requires_grad=False),
    "buffer": torch.nn.Buffer(torch.randn(3)),
    "expanded": torch.randn(1).expand(4),
}


@pytest.mark.parametrize("value", TENSORS.values(), ids=TENSORS)
def test_tensors_come_back(tmp_path: Path, value: torch.Tensor) -> None:
    (found,) = saved(tmp_path / "a", value)
    assert_same(found, value)
    assert found.stride() == value.stride() and found.is_conj() == value.is_conj() and found.is_neg() == value.is_neg()
    assert isinstance(found, torch.nn.Parameter) == isinstance(value, torch.nn.Parameter)


def test_tensors_that_share_storage_still_do(tmp_path: Path) -> None:
    whole = torch.arange(6.0)
    parameter = torch.nn.Parameter(whole)
    found, part, same, inner = saved(tmp_path / "a", whole, whole[2:4], parameter, (whole[0],))
    found.add_(10)
    assert torch.equal(part, torch.tensor([12.0, 13.0])) and torch.equal(same, found) and inner[0] == 10
    assert isinstance(same, torch.nn.Parameter)


def test_one_object_at_two_places_is_one_object(tmp_path: Path) -> None:
    parameter, pair = torch.nn.Parameter(torch.ones(2)), Pair(1, 2)
    first, second, (third,), fourth, fifth = saved(tmp_path / "a", parameter, parameter, (parameter,), pair, pair)
    assert torch.equal(first, second) and first.data_ptr() == second.data_ptr() == third.data_ptr()
    assert fourth == fifth == pair


def local() -> Any:
    def inside() -> None: ...

    return inside


def of_the_script() -> Any:
    def function() -> None: ...

    function.__module__, function.__qualname__ = "__main__", "function"
    return function


class Unknown:
    def __repr__(self) -> str:
        return "<Unknown\n " + "x" * 100 + ">"


class Sub(torch.Tensor):
    """A class of tensors whose content is not known."""


def holding_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


REFUSED = {
    "lambda": (lambda: lambda x: x, r"`[\w.<>]+<lambda>` cannot be imported by that name"),
    "local function": (local, r"`[\w.<>]+inside` cannot be imported by that name"),
    "function of the script": (of_the_script, "`function` is defined in the script that runs"),
    "module": (lambda: math, "<module 'math'.* is neither a plain value nor importable"),
    "nn.Module": (lambda: torch.nn.ReLU(), r"ReLU\(\) has no name to import it by"),
    "unknown object": (Unknown, r"<Unknown x+\.\.\. is neither"),
    "partial": (lambda: functools.partial(double, 1), "functools.partial.* has no name"),
    "bound method": (lambda: torch.ones(1).add, "<built-in method add.* has no name"),
    "inside a container": (lambda: (1, {"a": [Unknown()]}), "<Unknown"),
    "holds itself": (holding_itself, "nested too deeply, or hold themselves"),
    "meta tensor": (lambda: torch.empty(2, device="meta"), "a meta tensor"),
    "class of tensors": (lambda: torch.ones(2).as_subclass(Sub), "is neither"),
    "result of an operator": (lambda: torch.ones(2, requires_grad=True) * 2, "computed"),
    "subclass of int": (lambda: type("Own", (int,), {})(3), "3 is neither"),
    "generator": (lambda: (x for x in ()), "generator"),
    "structure with tuples as keys": (lambda: _pytree.tree_structure({(1, 2): 3}), "keys that come back different"),
    "attribute of a named tuple": (noted, r"attributes besides its fields \(note\), which would be lost"),
    "attribute of a dataclass": (set_later, r"attributes besides its fields \(later\), which would be lost"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_kept_is_named(tmp_path: Path, make: Any, message: str) -> None:
    with pytest.raises(ArtifactError, match=f"constant 1 cannot be kept: .*{message}"):
        save_artifact(tmp_path / "a", "code", [], [0, make()])
    assert list(tmp_path.iterdir()) == []


def test_a_model_s_artifact_runs(tmp_path: Path) -> None:
    traced = trace(Decoder(), (torch.arange(6).view(2, 3),), tracer="export")
    gm = split_graph(traced.graph, ["aten.scaled_dot_product_attention"])
    code = generated(gm)
    content_hash = save_artifact(tmp_path / "decoder", *code)
    artifact = load_artifact(tmp_path / "decoder", content_hash)
    assert (artifact.code, artifact.submod_names, artifact.content_hash) == (code.text, code.names, content_hash)
    assert artifact.torch_version == torch.__version__
    fn = compile_execution_fn(artifact.code, {}, artifact.submod_names, artifact.consts)
    assert_same(fn(*traced.inputs), gm(*traced.inputs))


def test_the_hash_is_the_content_s(tmp_path: Path) -> None:
    content = ("code", ["a", "b"], [1, torch.ones(2), Mode.HALF])
    first = save_artifact(tmp_path / "a", *content)
    assert first == save_artifact(str(tmp_path / "b"), *content)
    assert first != save_artifact(tmp_path / "c", "code ", *content[1:])
    assert first != save_artifact(tmp_path / "d", "code", ["a", "c"], content[2])
    assert first != save_artifact(tmp_path / "e", "code", ["a", "b"], [1, torch.zeros(2), Mode.HALF])


def changed(data: bytes, what: str) -> bytes:
    header, _, payload = data.partition(b"\n")
    magic, version, content_hash = header.split(b" ")
    return {
        "empty": b"",
        "no artifact": b"import torch\n",
        "magic alone": magic,
        "header alone": header,
        "no payload": header + b"\n",
        "version": b" ".join([magic, b"2", content_hash]) + b"\n" + payload,
        "version that is no number": b" ".join([magic, b"\xff", content_hash]) + b"\n" + payload,
        "hash": b" ".join([magic, version, b"0" * 64]) + b"\n" + payload,
        "short hash": b" ".join([magic, version, content_hash[:-1]]) + b"\n" + payload,
        "one field more": header + b" 1\n" + payload,
        "cut": data[:-1],
        "cut in the middle": data[: len(data) // 2],
        "more": data + b"\n",
        "payload twice": data + payload,
        "line ends": data.replace(b"\n", b"\r\n", 1),
    }[what]


DAMAGES = {
    "empty": "no artifact of modelguard",
    "no artifact": "no artifact of modelguard",
    "magic alone": "no artifact",
    "header alone": "no artifact",
    "no payload": "is damaged",
    "version": "has version 2; this modelguard reads version 1",
    "version that is no number": "has version .*xff",
    "hash": "is damaged",
    "short hash": "is damaged",
    "one field more": "no artifact",
    "cut": "is damaged",
    "cut in the middle": "is damaged",
    "more": "is damaged",
    "payload twice": "is damaged",
    "line ends": "is damaged",
}


@pytest.mark.parametrize(("what", "message"), DAMAGES.items(), ids=DAMAGES)
def test_damage_is_told_before_anything_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, message: str
) -> None:
    path = tmp_path / "a"
    module, ran = importable(tmp_path, monkeypatch)
    save_artifact(path, "code", [], [module.function])
    forget(monkeypatch, module)
    ran.unlink()
    data = path.read_bytes()
    path.write_bytes(changed(data, what))
    with pytest.raises(ArtifactError, match=message) as raised:
        load_artifact(path)
    assert raised.value.path == str(path) and str(raised.value).startswith(str(path))
    assert not ran.exists() and module.__name__ not in sys.modules
    path.write_bytes(data)
    assert load_artifact(path).consts[0]() == 1
    assert ran.exists()


def test_other_content_than_expected_is_told_before_anything_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, ran = importable(tmp_path, monkeypatch)
    content_hash = save_artifact(tmp_path / "a", "code", [], [module.function])
    forget(monkeypatch, module)
    ran.unlink()
    with pytest.raises(ArtifactError, match=f"other content than expected \\(hash {content_hash}, not 1234\\)"):
        load_artifact(tmp_path / "a", "1234")
    assert not ran.exists()


def importable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Path]:
    """A module that leaves a file when it is imported."""
    ran = folder / "ran"
    source = f"from pathlib import Path\nPath({str(ran)!r}).touch()\n\ndef function():\n    return 1\n"
    source += "import enum, dataclasses\nclass E(enum.Enum):\n    A = 1\n@dataclasses.dataclass\nclass D:\n    a: int\n"
    (folder / "imported_by_artifact.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "imported_by_artifact", raising=False)
    return __import__("imported_by_artifact"), ran


def forget(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    monkeypatch.delitem(sys.modules, module.__name__)


@pytest.mark.parametrize(
    ("const", "source"),
    [
        pytest.param("function", "x = 1", id="the function is gone"),
        pytest.param("function", None, id="the module is gone"),
        pytest.param("function", "import no_such_module", id="the module cannot be imported"),
        pytest.param("function", "1 / 0", id="the module fails"),
        pytest.param("function", "this is no Python", id="the module is broken"),
        pytest.param("E.A", "import enum\nclass E(enum.Enum):\n    B = 2", id="the enum's member is gone"),
        pytest.param("D(1)", "import dataclasses\n@dataclasses.dataclass\nclass D:\n    b: int", id="the field is gone"),
        pytest.param("D(1)", "D = 3", id="the class is none"),
    ],
)
def test_what_is_no_longer_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, const: str, source: str | None
) -> None:
    module, _ = importable(tmp_path, monkeypatch)
    save_artifact(tmp_path / "a", "code", [], [0, eval(const, vars(module))])
    forget(monkeypatch, module)
    file = tmp_path / "imported_by_artifact.py"
    if source is None:
        file.unlink()
    else:
        file.write_text(f"# another\n\n{source}\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for cached in tmp_path.glob("__pycache__/*"):
        cached.unlink()
    with pytest.raises(ArtifactError, match=r"constant 1 cannot be restored: .*imported_by_artifact"):
        load_artifact(tmp_path / "a")


SAVES_ITS_OWN_OPERATOR = """
import sys, torch
from modelguard.codegen import save_artifact
library = torch.library.Library("modelguard_gone", "DEF")
library.define("op(Tensor x) -> Tensor")
save_artifact(sys.argv[1], "code", [], [torch.ops.modelguard_gone.op.default])
"""


def test_an_operator_that_is_not_registered_here_is_named(tmp_path: Path) -> None:
    # In another process: torch does not forget an operator for good.
    subprocess.run([sys.executable, "-c", SAVES_ITS_OWN_OPERATOR, str(tmp_path / "a")], check=True)
    with pytest.raises(ArtifactError, match=r"torch\.ops\.modelguard_gone\.op\.default does not exist here"):
        load_artifact(tmp_path / "a")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be read: No such file"):
        load_artifact(tmp_path / "none")
    with pytest.raises(ArtifactError, match="cannot be read"):
        load_artifact(tmp_path)


def test_saving_replaces_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    save_artifact(path, "old", [], [])
    before = path.read_bytes()
    with pytest.raises(ArtifactError, match="constant 0 cannot be kept"):
        save_artifact(path, "new", [], [Unknown()])
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a"]
    save_artifact(path, "new", [], [])
    assert load_artifact(path).code == "new" and os.listdir(tmp_path) == ["a"]


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be written: No such file"):
        save_artifact(tmp_path / "none" / "a", "code", [], [])
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ArtifactError, match="cannot be written"):
        save_artifact(folder, "code", [], [])
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save_artifact(path, "old", [], [])
    before = path.read_bytes()
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(ArtifactError, match="cannot be written: Permission denied"):
            save_artifact(path, "new", [], [])
        assert path.read_bytes() == before and os.listdir(tmp_path) == ["a"]
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_file_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    save_artifact(tmp_path / "a", "code", [], [])
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_file_is_left_alone(tmp_path: Path, kind: str) -> None:
    path = Path(os.devnull) if kind == "device" else tmp_path / "there"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    before = path.stat().st_mode
    with pytest.raises(ArtifactError, match=f"{path}: cannot be written: it is not a file"):
        save_artifact(path, "code", [], [])
    with pytest.raises(ArtifactError, match=f"{path}: cannot be read: it is not a file"):
        load_artifact(path)
    assert path.stat().st_mode == before


def test_a_link_is_written_through_and_the_longest_name_taken(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / ("n" * 255))
    save_artifact(link, "code", [], [])
    assert link.is_symlink() and load_artifact(tmp_path / ("n" * 255)).code == "code"

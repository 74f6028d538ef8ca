"""A step of a model recorded as a CUDA graph would record it, and run again without its Python. For machines without CUDA.

A graph holds kernels and addresses. So does the tape: each operator that reached the dispatcher, with the memory that its
arguments and results lie in. Running it again reads and writes that same memory. Memory that was there before the step and that
nobody owns any more is filled with garbage first, because the allocator would have given it to somebody else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type
from torch.utils._pytree import tree_flatten, tree_unflatten

from modelguard.runtime import dynamo
from modelguard.runtime.side_effects import Frame, is_model

_HOST_READS = frozenset(
    f"aten::{name}" for name in ("_local_scalar_dense", "item", "is_nonzero", "equal", "nonzero", "masked_select")
)
_NO_KERNEL = frozenset(
    f"aten::{name}"
    for name in (
        *("set_", "resize_", "resize_as_", "squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_", "as_strided_"),
        *("detach_", "rename_", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"),
    )
)
"""What changes or makes a tensor without a kernel: nothing of it is in a graph."""


_HANDED_TO_PYTHON = frozenset(
    getattr(torch.Tensor, name) for name in ("numpy", "tolist", "cpu", "__array__", "__repr__", "__format__")
)
"""What waits for a device without any operator that tells of it here."""


class UnrecordableError(Exception):
    """A tensor is of a kind that the tape has no way to run again."""


class ShapeChanged(Exception):
    """An operator's result has another size than when it was recorded."""


@dataclass(frozen=True, slots=True)
class HostRead:
    """A kernel's result that Python asked for: capture ends there with an error."""

    operator: str
    place: Frame | None


@dataclass(frozen=True, slots=True)
class _Memory:
    """A tensor as its memory: where it lies, and how it is read. Sizes and strides in elements."""

    storage: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    is_conjugated: bool
    is_negated: bool


@dataclass(frozen=True, slots=True)
class _Call:
    operator: Callable[..., Any]
    arguments: list[Any]
    structure: Any
    results: list[tuple[int, _Memory]]
    """What it computes anew, by place among its results; views and what is written in place are not among them."""
    is_needed: bool


class Tape:
    """One recorded step."""

    def __init__(self) -> None:
        self.host_reads: list[HostRead] = []
        self._calls: list[_Call] = []
        self._storages: list[torch.UntypedStorage] = []
        self._index: dict[int, int] = {}
        self._external: set[int] = set()
        self._read_as: dict[int, _Memory] = {}
        self._is_checking = False

    def record(self, step: Callable[[], Any]) -> Any:
        """Run a step and keep what it does; what it returns is returned."""
        with _Reads(self), _Recorder(self) as self._recorder:
            return step()

    def replay(self) -> None:
        """Do what was recorded, in the same memory.

        Raises:
            ShapeChanged: a result no longer fits where it was.
        """
        with torch.no_grad():
            for call in self._calls:
                if call.is_needed:
                    self._run(call)

    def freed(self) -> list[int]:
        """The addresses of memory that the step found there and that nobody but the tape holds by now."""
        return [self._storages[index]._cdata for index in sorted(self._external) if not self._is_owned(index)]

    def poison(self) -> None:
        """Fill memory that nobody owns, as whoever gets it next would."""
        for index in self._external:
            if not self._is_owned(index):
                memory = self._read_as[index]
                count = self._storages[index].nbytes() // memory.dtype.itemsize
                whole = self._empty(memory).set_(self._storages[index], 0, (count,), (1,))
                if memory.dtype is torch.bool:
                    whole.logical_not_()
                elif memory.dtype.is_floating_point or memory.dtype.is_complex:
                    whole.fill_(float("nan"))
                else:
                    whole.fill_(torch.iinfo(memory.dtype).max // 2)

    def add(self, operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run one operator and keep it."""
        if not isinstance(operator, torch._ops.OpOverload):
            # It runs code of its own, chosen by what a tensor holds, such as `cond`.
            self._read(str(operator))
            parts, structure = tree_flatten((args, dict(kwargs)))
            args, kwargs = tree_unflatten([self._recording(part) if callable(part) else part for part in parts], structure)
            return operator(*args, **kwargs)
        arguments, structure = tree_flatten((args, dict(kwargs)))
        name = operator._schema.name
        before = [self._memory(value, arrives=name != "aten::lift_fresh") for value in arguments]
        if _reads_on_host(operator, arguments):
            self._read(name.removeprefix("aten::"))
        result = operator(*args, **kwargs)
        sources = {memory.storage for memory in before if isinstance(memory, _Memory)}
        results = []
        for place, value in enumerate(tree_flatten(result)[0]):
            memory = self._memory(value, arrives=False)
            if isinstance(memory, _Memory) and memory.storage not in sources:
                results.append((place, memory))
        is_needed = name not in _NO_KERNEL and bool(results or operator._schema.is_mutable)
        self._calls.append(_Call(operator, before, structure, results, is_needed))
        return result

    def call(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call a function of torch, and note what no operator tells."""
        if function in _HANDED_TO_PYTHON:
            self._read(function.__name__)
        if function is not torch.nn.functional.one_hot or not (kwargs.get("num_classes") or args[1:]):
            return function(*args, **kwargs)
        # Only on a CPU does it look at the indices that it is given.
        self._is_checking = True
        try:
            return function(*args, **kwargs)
        finally:
            self._is_checking = False

    def _recording(self, part: Callable[..., Any]) -> Callable[..., Any]:
        """The code that an operator runs, recorded as the code around it is."""

        def run(*args: Any) -> Any:
            with self._recorder:
                return part(*args)

        return run

    def _read(self, operator: str) -> None:
        if not self._is_checking:
            self.host_reads.append(HostRead(operator, _users_place()))

    def _memory(self, value: Any, arrives: bool) -> Any:
        """A tensor's memory, and anything else as it is. What arrives from outside was there before the step."""
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout is not torch.strided or value.is_quantized:
            raise UnrecordableError(f"it computes with a {value.layout} tensor of type {value.dtype}, which has no plain memory")
        storage = value.untyped_storage()
        index = self._index.get(storage._cdata)
        if index is None:
            index = self._index[storage._cdata] = len(self._storages)
            self._storages.append(storage)
            # What torch did not allocate, such as a NumPy array, its allocator cannot give away.
            if arrives and storage.resizable():
                self._external.add(index)
        memory = _Memory(
            index, value.dtype, tuple(value.size()), value.stride(), int(value.storage_offset()), value.is_conj(), value.is_neg()
        )
        self._read_as.setdefault(index, memory)
        return memory

    def _tensor(self, memory: _Memory) -> torch.Tensor:
        tensor = self._empty(memory).set_(self._storages[memory.storage], memory.offset, memory.size, memory.stride)
        if memory.is_conjugated:
            tensor = tensor.conj()
        return torch._neg_view(tensor) if memory.is_negated else tensor

    def _empty(self, memory: _Memory) -> torch.Tensor:
        return torch.empty(0, dtype=memory.dtype, device=self._storages[memory.storage].device)

    def _run(self, call: _Call) -> None:
        arguments = [self._tensor(value) if isinstance(value, _Memory) else value for value in call.arguments]
        args, kwargs = tree_unflatten(arguments, call.structure)
        values = tree_flatten(call.operator(*args, **kwargs))[0]
        for place, memory in call.results:
            if values[place].size() != memory.size:
                raise ShapeChanged(f"{call.operator} made {tuple(values[place].size())}, recorded was {memory.size}")
            self._tensor(memory).copy_(values[place])

    def _is_owned(self, index: int) -> bool:
        return dynamo.storage_users(self._storages[index]) > 1


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    supports_higher_order_operators = True

    def __init__(self, tape: Tape) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tape = tape

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(map(is_traceable_wrapper_subclass_type, types)):
            # Their own code calls operators on the tensors that they hold.
            return NotImplemented
        # Without autograd's keys, as in inference mode, composed operators come whole.
        if isinstance(func, torch._ops.OpOverload) and func._can_decompose():
            with self:
                parts = func.decompose(*args, **(kwargs or {}))
            if parts is not NotImplemented:
                return parts
        return self._tape.add(func, args, kwargs or {})


class _Reads(TorchFunctionMode):
    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._tape.call(func, args, kwargs or {})


def _reads_on_host(operator: torch._ops.OpOverload, arguments: list[Any]) -> bool:
    name = operator._schema.name
    if name in _HOST_READS or torch.Tag.data_dependent_output in operator.tags:
        return True
    if name in ("aten::index", "aten::index_put", "aten::index_put_"):
        return any(isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8) for value in arguments[1:])
    return torch.Tag.dynamic_output_shape in operator.tags


def _users_place() -> Frame | None:
    return next(_model_frames(), None)


def _model_frames() -> Iterator[Frame]:
    frame = sys._getframe(1)
    while frame is not None:
        if is_model(frame.f_code.co_filename):
            yield Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]

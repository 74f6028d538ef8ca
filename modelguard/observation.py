"""What the static pass saw, before any rule judged it.

One `StateWrite` for each statement that changes state, one `Obstacle` for each that no capture can hold.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from modelguard.findings import Frame, GuardContext, Location


class Kind:
    """What a value may be, as bits of an int: an attribute holds the union of all that is bound to it.

    Plain ints rather than `enum.Flag`: the walk joins kinds millions of times.
    """

    NOTHING = 0
    BUFFER = 1 << 0
    PARAMETER = 1 << 1
    TENSOR = 1 << 2
    MODULE = 1 << 3
    DICT = 1 << 4
    LIST = 1 << 5
    SET = 1 << 6
    DEQUE = 1 << 7
    TUPLE = 1 << 8
    NUMBER = 1 << 9
    BOOL = 1 << 10
    STRING = 1 << 11
    NONE = 1 << 12
    FUNCTION = 1 << 13
    OBJECT = 1 << 14
    CONFIG = 1 << 15
    GROWING_DICT = 1 << 16
    """A defaultdict: reading a missing key writes."""
    UNKNOWN = 1 << 17

    SIZE = 1 << 18
    """A number, or a shape, that measures a tensor computed from the inputs."""
    READ = 1 << 19
    """Something in Python that was read from a tensor's data."""
    ARRAY = 1 << 20
    """Something of NumPy's."""
    MASK = 1 << 21
    """A tensor of truth values."""
    ON_CPU = 1 << 22
    """A tensor that is made in host memory, whatever device the model is on."""

    MARKS = SIZE | READ | ARRAY | MASK | ON_CPU
    """What is known of a value besides its type: these bits stand beside others, never alone."""
    ANY_TENSOR = BUFFER | PARAMETER | TENSOR
    CONTAINER = DICT | LIST | SET | DEQUE | GROWING_DICT
    PYTHON = NUMBER | BOOL | STRING | NONE | TUPLE


class Root(enum.Enum):
    """Where a state path starts."""

    SELF = "self"
    ARGUMENT = "argument"
    CLASS = "class"
    GLOBAL = "global"
    CLOSURE = "closure"


class Operation(enum.Enum):
    """How the state is changed."""

    REBIND = "rebind"
    """`self.x = value`, `setattr(self, "x", value)`, `self.__dict__["x"] = value`."""
    AUGMENT = "augment"
    """`self.x += value`, where the type of `x` decides between rebinding and writing in place."""
    ITEM = "item"
    """`self.x[key] = value`, `self.x[key] += value` on a container."""
    MUTATE = "mutate"
    """A method that changes a container: `self.x.append(value)`."""
    IN_PLACE = "in-place"
    """A kernel that writes a tensor's memory: `self.x.copy_(value)`, `self.x[...] = value`, `out=self.x`."""
    SWAP = "swap"
    """Another storage under the same tensor: `self.x.data = value`, `set_`, `resize_`, `swap_tensors`, `child.to(device)`."""
    REGISTER = "register"
    """`register_buffer`, `register_parameter`, `add_module`, a hook, a module or parameter assigned, a method replaced."""
    DELETE = "delete"
    """`del self.x`, `delattr`."""
    GROW = "grow"
    """A key that a defaultdict adds because it was read."""
    MODE = "mode"
    """`.train()`, `.eval()`, `.requires_grad_()` on a module."""
    MEMOISE = "memoise"
    """A memoised function's result is taken: the cache, not the graph, owns it."""
    CACHE_PROPERTY = "cache-property"
    """A `cached_property` is read for the first time."""


class Hindrance(enum.Enum):
    """What keeps code from being captured whole, or makes replay repeat the first step's answer."""

    SYNC = "sync"
    """A tensor's data is read by the host: `.item()`, `float(x)`, `torch.equal(x, y)`."""
    BRANCH = "branch"
    """A test asks for a tensor's data, or for a number that was read from it."""
    DYNAMIC_SHAPE = "dynamic-shape"
    """The size of a result depends on a tensor's data: `nonzero`, `x[mask]`."""
    OUTPUT = "output"
    """Something is printed, logged or warned of."""
    CHANCE = "chance"
    """The clock, or randomness that is not torch's, is asked."""
    OPAQUE_CALL = "opaque-call"
    """Something is called that no graph can hold: a disabled function, an RNN, a scripted module, `DataParallel`."""
    COPY = "copy"
    """Host memory is copied to the device."""
    SIZE_BRANCH = "size-branch"
    """A test asks for the size of an input."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An expression in a region that no capture can hold as it is.

    `subject` is the source of what is read, tested or called; `verb` says how (`.item()`, `float(...)`) or what it is (`LSTM`).
    """

    hindrance: Hindrance
    verb: str
    subject: str
    location: Location
    source_line: str
    function: str
    class_name: str | None
    training_only: bool = False
    entry_points: tuple[str, ...] = ()
    chain: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class StateWrite:
    """One statement in a region that changes what a state path means.

    `declared` is what the class declares the target to be, `value` what is written, `owner` what the object is whose attribute
    or item is written (each a union of `Kind` bits). `verb` is the method or function that does it (`append`, `copy_`), where one
    does. `filled_once` tells a guard that never asks again once the state is there (`is None`, `hasattr`, `not in`) from one that
    compares sizes or dtypes. `depends_on_inputs` says whether the value, or the key it is kept under, is computed from what the
    entry point was given (data or shape; device and dtype do not count). `round_trip` marks an argument that the entry point
    creates when it is missing, writes, and hands back.
    """

    path: str
    root: Root
    operation: Operation
    location: Location
    source_line: str
    function: str
    class_name: str | None
    verb: str = ""
    declared: int = Kind.UNKNOWN
    value: int = Kind.UNKNOWN
    owner: int = Kind.MODULE
    depends_on_inputs: bool = False
    carried: bool = False
    guard: GuardContext = GuardContext.UNCONDITIONAL
    training_only: bool = False
    filled_once: bool = False
    round_trip: bool = False
    entry_points: tuple[str, ...] = ()
    chain: tuple[Frame, ...] = ()

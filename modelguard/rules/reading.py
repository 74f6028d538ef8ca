"""What several rules ask of a write, and the words they share."""

from __future__ import annotations

from modelguard.observation import Kind, Operation, Root, StateWrite

_CONTAINER_WORDS = (
    (Kind.GROWING_DICT, "defaultdict"),
    (Kind.DICT, "dict"),
    (Kind.LIST, "list"),
    (Kind.SET, "set"),
    (Kind.DEQUE, "deque"),
)
_TENSOR_WORDS = ((Kind.BUFFER, "buffer"), (Kind.PARAMETER, "parameter"), (Kind.TENSOR, "tensor"))


def holds(kind: int, bits: int) -> bool:
    """Whether a value of `kind` may be one of `bits`."""
    return bool(kind & bits)


def within(kind: int, bits: int) -> bool:
    """Whether a value of `kind` can only be one of `bits`."""
    return kind != Kind.NOTHING and not kind & ~bits


def writes_in_place(write: StateWrite) -> bool:
    """Whether a kernel writes the memory of a tensor that stays where it is."""
    if write.operation is Operation.IN_PLACE:
        return True
    if not holds(write.declared, Kind.ANY_TENSOR):
        return False
    if write.operation is Operation.AUGMENT:
        return not holds(write.declared, Kind.NUMBER)
    return write.operation is Operation.ITEM and not holds(write.declared, Kind.CONTAINER)


def is_shared(write: StateWrite) -> bool:
    """Whether the state is reached by a name that no instance owns."""
    return write.root in (Root.CLASS, Root.GLOBAL, Root.CLOSURE)


def is_foreign(write: StateWrite) -> bool:
    """Whether the attribute belongs to an object that is not a module."""
    return holds(write.owner, Kind.CONFIG) or (
        holds(write.owner, Kind.OBJECT | Kind.UNKNOWN) and not holds(write.owner, Kind.MODULE)
    )


def fills_once(write: StateWrite) -> bool:
    """Whether the first call settles the state for good, from nothing that later calls could change."""
    once = write.filled_once or write.operation is Operation.CACHE_PROPERTY
    return once and not write.depends_on_inputs


def container_word(kind: int) -> str:
    """`list` for a list, `container` where it may be anything."""
    return next((word for bit, word in _CONTAINER_WORDS if kind & bit), "container")


def tensor_word(kind: int) -> str:
    """`buffer`, `parameter` or `tensor`."""
    return next((word for bit, word in _TENSOR_WORDS if kind & bit), "tensor")


def local_name(path: str) -> str:
    """A name for a local that stands in for a state path: `cos` for `self.rope[*]._cos`."""
    return path.replace("[*]", "").rpartition(".")[2].strip("_") or "value"


def change(write: StateWrite) -> str:
    """How the write is spelled in the source, in few words: `.append(...)`, an item assignment."""
    if write.operation is Operation.ITEM:
        return "an item assignment"
    if write.operation is Operation.AUGMENT:
        return "an augmented assignment"
    if write.operation is Operation.GROW:
        return "a read of a missing key"
    return f"`.{write.verb}(...)`" if write.verb else "a call"

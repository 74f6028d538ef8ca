"""What the text of one function says. Regular expressions cost a tenth of visiting its nodes, and can only find too much."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from modelguard.scan.bindings import CONSTRUCTORS, NO_NAMES, Seen, dotted
from modelguard.scan.facts import FunctionNode
from modelguard.scan.tables import CONTAINER_MUTATORS, HOOK_REGISTRATIONS, MODULE_MOVERS, REGISTRATIONS, VIEW_FUNCTIONS

_MUTATORS = CONTAINER_MUTATORS | HOOK_REGISTRATIONS | REGISTRATIONS.keys() | {"train", "eval", "__setattr__", "__delattr__"}
_RECEIVER = re.compile(r"(?<![\w.\])])(\w+)(?:\.\w+|\[[^\[\]]*\])*$")
_MOVERS = MODULE_MOVERS | {"load_state_dict", "zero_grad"}
_OUT = re.compile(r"[(,]\s*out\s*=(?!=)")
_SUSPECTS = frozenset(
    (
        "setattr delattr vars setitem delitem iadd heapq heappush heappop insort insort_left insort_right swap_tensors copyto "
        "__dict__ _buffers _parameters _modules batch_norm instance_norm native_batch_norm"
    ).split()
)
_NORMS = frozenset(("batch_norm", "instance_norm", "native_batch_norm"))
_NOBODY = "?"
"""Stands for a receiver that was made on the spot."""
_NAMERS = frozenset(("getattr", "attrgetter", "methodcaller", "__class__"))
_WORDS = frozenset(("next", "shuffle"))
_WORD_CALL = re.compile(r"(?:next|shuffle)\s*\(")
_DECLARES = frozenset("setattr __setattr__ __dict__ vars _buffers _parameters _modules".split()) | REGISTRATIONS.keys()
_ATTRIBUTE = re.compile(r"\.\s*([A-Za-z_]\w*)")
_OWN = re.compile(r"self\s*\.\s*([A-Za-z_]\w*)")
_SUPER = re.compile(r"super\([^()]*\)\s*\.\s*([A-Za-z_]\w*)")
_BARE_SELF = re.compile(r"self\b(?![ \t]*[.\w(\[])")
_NOT_CALLED = re.compile(r"(?<![.\w])([A-Za-z_]\w*)\b(?!\s*[(.=])")
WORD = re.compile(r"[A-Za-z_]\w*")
_MEMOISED = re.compile(r"cache|memo", re.IGNORECASE)


class FunctionText(NamedTuple):
    """What the text of a function says, wherever it stands; `own` is None where any name may be taken off the first parameter."""

    stores: dict[str, bool]
    inner: list[ast.stmt]
    attributes: frozenset[str]
    words: tuple[str, ...]
    own: frozenset[str] | None
    items: bool
    supers: frozenset[str]
    uncalled: frozenset[str]
    declares: bool
    may_write: bool
    memoisers: tuple[str, ...]
    hands: dict[str, int]
    moves: frozenset[str]
    fills: bool
    borrows: frozenset[str]
    hands_out: bool
    states: frozenset[str]
    lent: dict[str, set[str]]
    arguments: frozenset[str]
    nests: bool
    keeps: frozenset[str]


def read_text(node: FunctionNode, text: str, seen: Seen) -> FunctionText:
    attributes = set(map(intern, _ATTRIBUTE.findall(text)))
    words = set(map(intern, WORD.findall(text)))
    fresh = seen.fresh
    if node.name in CONSTRUCTORS:
        fresh.add(seen.owner)
    moves = NO_NAMES
    handed = seen.handed - fresh
    if not _MOVERS.isdisjoint(attributes):
        moves = frozenset(m.group(1) or "" for m in _moves(seen.owner).finditer(text))
        if "" in moves and seen.owner not in ("self", "cls"):
            # A helper moves what it is handed: that must be a module.
            moves -= {""}
            handed.add(seen.owner)
    changed: set[str] = set()
    taken = False
    if not _MUTATORS.isdisjoint(attributes) or text.count("_(") > text.count("__(") or "_ (" in text:
        changed = {_receiver(text, found.start()) for found in _calls().finditer(text)} - fresh - {_NOBODY}
        # `keep = self.history.append`: taken off to be called by another name.
        taken = any(text.count(f".{name}") > text.count(f".{name}(") for name in _MUTATORS & attributes)
    may_write = (
        seen.written
        or not changed <= seen.arguments | seen.borrowed.keys()
        or not seen.returning.isdisjoint(changed | seen.handed)
        or taken
        or f"for {seen.owner}." in text
        or _suspicious(words, text)
        or ("out" in words and _OUT.search(text) is not None)
        or (not _WORDS.isdisjoint(words) and _WORD_CALL.search(text) is not None)
    )
    handed |= changed & seen.arguments
    places = {name: index for index, name in enumerate(seen.parameters)}
    borrows = seen.lenders.union(*(seen.borrowed[name] for name in changed & seen.borrowed.keys()))
    naming = not _NAMERS.isdisjoint(words)
    own: frozenset[str] | None = None
    if "self" in words and not naming and not _renames_self(text):
        own = frozenset(map(intern, _OWN.findall(text)))
    return FunctionText(
        stores=seen.stores,
        inner=seen.inner,
        # `getattr(self, "step")(x)`: a name in a string is a name too.
        attributes=frozenset(attributes | words if naming else attributes),
        words=tuple(words),
        own=own,
        items=f"{seen.owner}[" in text,
        supers=frozenset(_SUPER.findall(text)) if "super" in words else NO_NAMES,
        uncalled=frozenset(words.intersection(_NOT_CALLED.findall(text))) if node.name == "__init__" else NO_NAMES,
        declares=not _DECLARES.isdisjoint(words),
        may_write=may_write,
        memoisers=tuple(name for name in map(dotted, node.decorator_list) if _MEMOISED.search(name)),
        hands={name: places.get(name, -1) for name in handed},
        moves=moves,
        fills=seen.fills,
        borrows=frozenset(borrows),
        hands_out=seen.hands_out,
        states=seen.states,
        lent=seen.borrowed,
        arguments=frozenset(seen.arguments),
        nests=seen.nests or "lambda" in words,
        keeps=frozenset(map(intern, _kept(seen.owner).findall(text))) if node.name == "__init__" or seen.hands_out else NO_NAMES,
    )


def _suspicious(words: set[str], text: str) -> bool:
    """Whether a function is named that writes what it is handed. `self.batch_norm(x)` calls a child of that name."""
    suspects = _SUSPECTS & words
    if suspects and suspects <= _NORMS:
        return any(text.count(name) > text.count(f"self.{name}") for name in suspects)
    return bool(suspects)


@lru_cache(maxsize=1)
def _calls() -> re.Pattern[str]:
    """Finds calls of what may change its receiver. Made when the first is looked for: most small scans have none."""
    return re.compile(rf"\.\s*(?:{'|'.join(sorted(_MUTATORS))}|(?!__)\w*[A-Za-z0-9]_)\s*\(")


@lru_cache(maxsize=64)
def _kept(owner: str) -> re.Pattern[str]:
    """Finds the attributes that are taken off the first parameter, and neither called nor bound: `self.step = self._eager`."""
    return re.compile(rf"\b{owner or 'self'}\s*\.\s*([A-Za-z_]\w*)\b(?!\s*(?:[(.\[]|=(?!=)))")


@lru_cache(maxsize=64)
def _moves(owner: str) -> re.Pattern[str]:
    """Finds what is moved or cast of the first parameter: `self.x.to(`, with the attribute."""
    return re.compile(rf"\b{owner or 'self'}(?:\.(\w+)(?:\.\w+)*)?\.(?:{'|'.join(sorted(_MOVERS))})\(")


def _renames_self(text: str) -> bool:
    """Whether `self` may get another name: `net = self`, `for net in [self]`, `with a(self) as net`, `type(self).f(self)`."""
    for found in _BARE_SELF.finditer(text):
        start = text.rfind("\n", 0, found.start()) + 1
        before = text[start : found.start()]
        if before.lstrip().startswith(("def ", "async def ")):
            continue
        end = text.find("\n", found.end())
        if (
            "=" in before
            or before.endswith("type(")
            or " in " in before
            or " as " in text[found.end() : end if end > 0 else len(text)]
        ):
            return True
    return False


def _receiver(text: str, end: int) -> str:
    """The name that the chain of attributes, items and calls before `end` starts with; empty where it starts with something else.

    `torch.zeros(n).scatter_(...)` starts with nobody, unless the function hands out a view of its argument.
    """
    found = _RECEIVER.search(text[text.rfind("\n", 0, end) + 1 : end])
    if found is not None:
        return found.group(1)
    while text[end - 1 : end] in (")", "]"):
        end = _opening(text, end - 1)
        found = _RECEIVER.search(text, max(0, text.rfind("\n", 0, end) + 1), end)
        if found is not None:
            root, _, name = found.group().rpartition(".")
            if root not in ("torch", "np", "F"):
                return found.group(1) if root else ""
            return _NOBODY if name not in VIEW_FUNCTIONS else ""
    return ""


def _opening(text: str, closing: int) -> int:
    """Where the bracket opens that closes at `closing`; 0 where it does not."""
    depth = 0
    for index in range(closing, -1, -1):
        if text[index] in ")]}":
            depth += 1
        elif text[index] in "([{":
            depth -= 1
            if depth == 0:
                return index
    return 0

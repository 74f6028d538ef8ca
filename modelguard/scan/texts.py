"""What the text of one function says. Regular expressions cost a tenth of visiting its nodes, and can only find too much."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from modelguard.scan.bindings import CONSTRUCTORS, NO_NAMES, FunctionNode, Seen, dotted
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
WORD = re.compile(r"[A-Za-z_]\w*")
_MEMOISED = re.compile(r"cache|memo", re.IGNORECASE)


class FunctionText(NamedTuple):
    """What the text of a function says, wherever it stands; `own` is None where any name may be taken off the first parameter."""

    stores: frozenset[str]
    inner: list[ast.stmt]
    attributes: frozenset[str]
    words: tuple[str, ...]
    own: frozenset[str] | None
    items: bool
    supers: frozenset[str]
    declares: bool
    may_write: bool


def read_text(node: FunctionNode, text: str, seen: Seen) -> FunctionText:
    attributes = set(map(intern, _ATTRIBUTE.findall(text)))
    words = set(map(intern, WORD.findall(text)))
    fresh = seen.fresh | {seen.owner} if node.name in CONSTRUCTORS else seen.fresh
    changed: set[str] = set()
    if not _MUTATORS.isdisjoint(attributes) or text.count("_(") > text.count("__(") or "_ (" in text:
        changed = {_receiver(text, found.start()) for found in _calls().finditer(text)} - fresh - {_NOBODY}
    may_write = (
        seen.written
        or bool(changed)
        # `keep = self.history.append`: taken off to be called by another name.
        or any(text.count(f".{name}") > text.count(f".{name}(") for name in _MUTATORS & attributes)
        or not _MOVERS.isdisjoint(attributes)
        or f"for {seen.owner}." in text
        or _suspicious(words, text)
        or any(_MEMOISED.search(dotted(item)) for item in node.decorator_list)
        or ("out" in words and _OUT.search(text) is not None)
        or (not _WORDS.isdisjoint(words) and _WORD_CALL.search(text) is not None)
    )
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
        declares=not _DECLARES.isdisjoint(words),
        may_write=may_write,
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

"""Arguments of nodes as text. What has no literal spelling is handed over as an object, `__vllm_consts__[k]`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch.fx import Node
from torch.fx.immutable_collections import immutable_dict, immutable_list

from modelguard.codegen.names import CONSTS, is_identifier

_DEEPEST = 60
"""Brackets in brackets; Python's parser takes at most 200."""


class NestedTooDeeply(Exception):
    """An argument is a container in a container, and so on, beyond what source can spell."""


class Consts:
    """The objects that generated code is handed, each once, in the order of first use."""

    def __init__(self, objects: list[Any], index: dict[int, int]) -> None:
        """`objects` and `index` (of an object's `id`) are the caller's, and grow."""
        self.objects = objects
        self._index = index

    def reference(self, value: object) -> str:
        """The text that means `value`."""
        key = id(value)
        if key not in self._index:
            self._index[key] = len(self.objects)
            self.objects.append(value)
        return f"{CONSTS}[{self._index[key]}]"


class Arguments:
    """Writes the arguments of one function's nodes."""

    def __init__(self, names: Mapping[Node, str], consts: Consts) -> None:
        self._names = names
        self._consts = consts

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
        """The arguments of a call, in order.

        Raises:
            NestedTooDeeply: an argument cannot be spelt.
        """
        written = [self.value(argument) for argument in args]
        written += [keyword(key, self.value(value)) for key, value in kwargs.items()]
        return written

    def value(self, value: Any, depth: int = 0) -> str:
        """The expression that means `value`, with the names of nodes in place of nodes."""
        if depth > _DEEPEST:
            raise NestedTooDeeply
        kind = type(value)
        if isinstance(value, Node):
            return self._names[value]
        if value is None or kind in (bool, str, bytes):
            return repr(value)
        if kind is int:
            # Python refuses to read or write decimal integers of many thousand digits.
            return repr(value) if value.bit_length() <= 64 else hex(value)
        if kind is float:
            return repr(value) if math.isfinite(value) else f"float('{value}')"
        if kind in (list, immutable_list):
            return "[" + self._items(value, depth) + "]"
        if kind is tuple:
            return "(" + self._items(value, depth) + ("," if len(value) == 1 else "") + ")"
        if kind in (dict, immutable_dict):
            pairs = (f"{self.value(key, depth + 1)}: {self.value(item, depth + 1)}" for key, item in value.items())
            return "{" + ", ".join(pairs) + "}"
        if kind is slice:
            return "slice(" + self._items((value.start, value.stop, value.step), depth) + ")"
        if isinstance(value, tuple) and hasattr(kind, "_fields") and _holds_node(value):
            return f"{self._consts.reference(kind)}({self._items(value, depth)})"
        return self._consts.reference(value)

    def primary(self, value: Any) -> str:
        """`value` where something is asked of it: `.method` or `[item]`."""
        text = self.value(value)
        return text if isinstance(value, Node) else f"({text})"

    def index(self, index: Any) -> str:
        """`index` as it stands in brackets, where slices and `...` have a spelling of their own."""
        if type(index) is tuple and index:
            return ", ".join(self._part(item) for item in index) + ("," if len(index) == 1 else "")
        return self._part(index)

    def _part(self, index: Any) -> str:
        if index is Ellipsis:
            return "..."
        if type(index) is not slice:
            return self.value(index)
        start, stop, step = ("" if bound is None else self.value(bound) for bound in (index.start, index.stop, index.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")

    def _items(self, values: Any, depth: int) -> str:
        return ", ".join(self.value(value, depth + 1) for value in values)


def keyword(key: str, text: str) -> str:
    """The keyword argument `key`, which need not be an identifier."""
    return f"{key}={text}" if is_identifier(key) else f"**{{{key!r}: {text}}}"


def _holds_node(values: Any) -> bool:
    if isinstance(values, Node):
        return True
    if isinstance(values, slice):
        return any(map(_holds_node, (values.start, values.stop, values.step)))
    if isinstance(values, dict):
        return any(map(_holds_node, values.values()))
    return isinstance(values, (list, tuple)) and any(map(_holds_node, values))

"""What is certain of tensors from the text alone: how a buffer is made, and whether an expression has its shape and dtype."""

from __future__ import annotations

import ast
import enum
from typing import NamedTuple

from modelguard.fixes.source import Source, dotted
from modelguard.fixes.uses import Uses


class Number(enum.IntEnum):
    """What the elements of a tensor are, or what a Python number is; ordered as torch promotes them."""

    BOOL = 0
    INT = 1
    FLOAT = 2


_FLOATS = frozenset({"rand", "randn", "empty", "eye", "linspace", "logspace", "zeros", "ones"})
"""Functions that make a tensor of the default dtype, which is a float."""

_MAKERS = _FLOATS | {"tensor", "full", "arange"}

_DTYPES = {
    **dict.fromkeys(("float", "float32", "float64", "double", "half", "float16", "bfloat16"), Number.FLOAT),
    **dict.fromkeys(("long", "int64", "int", "int32", "short", "int16", "int8", "uint8"), Number.INT),
    "bool": Number.BOOL,
}

_SAME = frozenset({"clone", "roll", "flip", "zeros_like", "ones_like", "empty_like"})
"""What gives a tensor of the same shape and dtype, whatever the dtype."""

_SAME_NUMBERS = frozenset({"abs", "neg", "clamp", "clamp_min", "clamp_max", "maximum", "minimum"})
"""The same, for numbers, if all arguments are numbers of no higher kind or tensors of the same sort."""

_SAME_FLOATS = frozenset({"sqrt", "sigmoid", "tanh", "relu", "sin", "cos", "floor", "ceil", "round", "rand_like", "randn_like"})
"""The same, for floats; not what autocast runs in single precision, such as a power or a logarithm."""


class Made(NamedTuple):
    """A tensor that was made on the spot, that nobody else holds and that needs no gradient."""

    numbers: Number | None
    """What it holds, where that is known."""


def made(value: ast.expr) -> Made | None:
    """The tensor that an expression makes, or None where it may be somebody else's."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    name = value.func.attr
    if dotted(value.func) != f"torch.{name}":
        # `torch.ones(4).double()`
        is_cast = name in _DTYPES and not value.args and not value.keywords and made(value.func.value) is not None
        return Made(_DTYPES[name]) if is_cast else None
    keywords = {keyword.arg: keyword.value for keyword in value.keywords}
    if name not in _MAKERS or not keywords.keys().isdisjoint((None, "out", "requires_grad")):
        return None
    if "dtype" in keywords:
        return Made(_DTYPES.get((dotted(keywords["dtype"]) or "").removeprefix("torch.")))
    if name in _FLOATS:
        return Made(Number.FLOAT)
    if name == "arange":
        return Made(Number.INT if all(literal(argument) is Number.INT for argument in value.args) else None)
    element = value.args[-1] if value.args else None
    return Made(literal(element) if element is not None else None)


def literal(value: ast.expr) -> Number | None:
    """What sort of number a literal is."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return literal(value.operand)
    if not isinstance(value, ast.Constant):
        return None
    return {bool: Number.BOOL, int: Number.INT, float: Number.FLOAT}.get(type(value.value))


class Agreement:
    """Tells which expressions have the shape and dtype of the buffer that `path` names, and are new tensors."""

    def __init__(self, source: Source, path: str, numbers: Number | None, owner: ast.ClassDef | None) -> None:
        self._source = source
        self._path = path
        self._numbers = numbers
        """What the buffer holds, if that is known."""
        self._owner = owner

    def agrees(self, value: ast.expr) -> bool:
        """Whether the value has the shape and the dtype of the buffer, and is no name for the buffer itself."""
        if isinstance(value, ast.UnaryOp):
            return isinstance(value.op, ast.USub) and self._is_like(value.operand) and self._numbers not in (None, Number.BOOL)
        if isinstance(value, ast.BinOp):
            return self._is_arithmetic(value)
        if isinstance(value, ast.Call):
            return self._is_call(value)
        return False

    def needs_no_gradient(self, value: ast.expr) -> bool:
        """Whether a value is a number, or computed from numbers and the buffer alone."""
        return self._number(value) is not None or self._is_like(value)

    def _is_like(self, value: ast.expr) -> bool:
        return dotted(value) == self._path or self.agrees(value)

    def _is_arithmetic(self, value: ast.BinOp) -> bool:
        sides = (value.left, value.right)
        if self._numbers in (None, Number.BOOL) or not any(map(self._is_like, sides)) or not all(map(self._fits, sides)):
            return False
        if isinstance(value.op, (ast.Add, ast.Sub, ast.Mult)):
            return True
        return self._numbers is Number.FLOAT and isinstance(value.op, (ast.Div, ast.FloorDiv, ast.Mod))

    def _is_call(self, value: ast.Call) -> bool:
        function = value.func
        if not isinstance(function, ast.Attribute) or any(
            keyword.arg in (None, "dtype", "device", "out") for keyword in value.keywords
        ):
            return False
        if dotted(function) == f"torch.{function.attr}":
            operands = value.args
        else:
            operands = [function.value, *value.args]
            if function.attr.endswith("_like"):
                return False
        if not operands or not self._is_like(operands[0]):
            return False
        rest = [*operands[1:], *(keyword.value for keyword in value.keywords)]
        if function.attr in _SAME:
            return True
        if function.attr in _SAME_NUMBERS:
            return self._numbers not in (None, Number.BOOL) and all(map(self._fits, rest))
        return function.attr in _SAME_FLOATS and self._numbers is Number.FLOAT and not rest

    def _fits(self, value: ast.expr) -> bool:
        """Whether a value, combined with the buffer, leaves its shape and dtype."""
        number = self._number(value)
        return self._is_like(value) or (number is not None and self._numbers is not None and number <= self._numbers)

    def _number(self, value: ast.expr) -> Number | None:
        """What sort of number a value is: a literal, arithmetic on them, or an attribute that is bound once, to a literal."""
        known = literal(value)
        if known is not None:
            return known
        if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            left, right = self._number(value.left), self._number(value.right)
            if left is None or right is None:
                return None
            return Number.FLOAT if isinstance(value.op, ast.Div) else max(left, right, Number.INT)
        if isinstance(value, ast.Attribute) and self._owner is not None and dotted(value) == f"self.{value.attr}":
            uses = Uses(self._source, value.attr, self._owner)
            if len(uses.bound) == 1 and not uses.spelt and uses.is_first(uses.bound[0]):
                statement = self._source.parents[uses.bound[0]]
                return literal(statement.value) if isinstance(statement, ast.Assign) else None
        return None

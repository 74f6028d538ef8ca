"""What a file does with an attribute, told by its name: where it is bound, where it is read, and what becomes of what was read.

Nothing here is known of values. What a name could mean counts as meant, so that an answer of "nobody" holds for the whole file.
Of other files only so much is known: a class with bases elsewhere can be written or read there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeGuard

from modelguard.fixes.source import FUNCTIONS, FunctionNode, Source, dotted

_PLAIN_BASES = frozenset({"nn.Module", "torch.nn.Module", "object"})

_BY_NAME = frozenset(
    {"__dict__", "_buffers", "_parameters", "buffers", "named_buffers", "get_buffer", "state_dict", "__getattribute__"}
)
"""Attributes through which a module's state is reached without being named."""

_HOOKS = frozenset({"__setattr__", "__getattr__", "__getattribute__", "register_buffer"})
"""Methods by which a class says itself what its attributes are."""

_MEASURES = frozenset({"shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "layout"})

_NO_GRADIENTS = frozenset({"torch.no_grad", "torch.inference_mode"})

_FRESH = frozenset(
    {
        *("clone", "item", "tolist", "size", "dim", "numel", "nelement", "is_floating_point", "element_size", "stride"),
        *("sum", "mean", "any", "all", "amax", "amin", "argmax", "argmin", "abs", "neg", "roll", "flip", "tril", "triu"),
        *("sqrt", "rsqrt", "exp", "log", "sigmoid", "tanh", "relu", "clamp", "cos", "sin", "round", "floor", "ceil", "cumsum"),
        *(
            "add",
            "sub",
            "mul",
            "div",
            "matmul",
            "mm",
            "bmm",
            "maximum",
            "minimum",
            "where",
            "embedding",
            "index_select",
            "gather",
        ),
    }
)
"""Methods of a tensor, and functions of torch, whose result is another tensor or no tensor, whatever they are given."""


class Uses:
    """The places where the attribute `name` of one class and its kin is touched; of every class, where `owner` is None."""

    def __init__(self, source: Source, name: str, owner: ast.ClassDef | None) -> None:
        self.source = source
        self.name = name
        self._kin = _kin(source, owner) if owner is not None else None
        self.bound: list[ast.Attribute] = []
        self.read: list[ast.Attribute] = []
        self.registered: list[ast.Call] = []
        self.spelt = False
        """Is the name spelt as a string, or is state reached by another way than by its name?"""
        for node in source.nodes:
            if isinstance(node, ast.Attribute):
                if node.attr in _BY_NAME:
                    self.spelt = True
                if node.attr == name and self._is_meant(node):
                    (self.read if isinstance(node.ctx, ast.Load) else self.bound).append(node)
            elif isinstance(node, ast.Name):
                self.spelt |= node.id in ("vars", "getattr", "setattr") and not _spells_another(source, node, name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and name in node.value.split("."):
                call = source.parents[node]
                if is_registration(call) and call.args[0] is node:
                    if self._is_meant(call.func):
                        self.registered.append(call)
                else:
                    self.spelt = True
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                # A property, or a class that handles its attributes itself.
                self.spelt |= node.name == name or node.name in _HOOKS

    def knows_bases(self) -> bool:
        """Whether the class, if one is asked about, is built on nothing that other files define."""
        if self._kin is None:
            return False
        defined = {each.name for each in self._kin}
        return all(
            (spelling := dotted(base)) is not None and (spelling in _PLAIN_BASES or spelling in defined)
            for each in self._kin
            for base in each.bases
        )

    def is_first(self, node: ast.AST) -> bool:
        """Whether a place lies in `__init__` itself, and no function in it: it runs before any step."""
        function = self.source.function(node)
        return isinstance(function, ast.FunctionDef) and function.name == "__init__"

    def _is_meant(self, attribute: ast.expr) -> bool:
        """Whether an attribute's object can be of the classes asked about: `self` of a method of others is not."""
        if self._kin is None or not isinstance(attribute, ast.Attribute):
            return True
        method = self.source.method(attribute)
        if method is None or not isinstance(attribute.value, ast.Name):
            return True
        owner, function = method
        return owner in self._kin or attribute.value.id != receiver(function)


def receiver(method: FunctionNode) -> str | None:
    """What a method calls its object; None for one that has none."""
    arguments = [*method.args.posonlyargs, *method.args.args]
    is_static = isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
        dotted(decorator) == "staticmethod" for decorator in method.decorator_list
    )
    return arguments[0].arg if arguments and not is_static else None


def owner_of(source: Source, attribute: ast.expr) -> ast.ClassDef | None:
    """The class whose attribute is named, where it is named on a method's own object."""
    method = source.method(attribute)
    is_own = isinstance(attribute, ast.Attribute) and isinstance(attribute.value, ast.Name)
    return method[0] if method is not None and is_own and attribute.value.id == receiver(method[1]) else None  # type: ignore[attr-defined]


def is_registration(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether a node is `X.register_buffer(name, ...)`."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and bool(node.args)
    return is_call and node.func.attr == "register_buffer"  # type: ignore[attr-defined]


def escapes(source: Source, read: ast.expr) -> bool:
    """Whether somebody may keep the tensor that is read, or a view of it, or write into it.

    It does not escape where another value is computed from it at once.
    """
    parent = source.parents[read]
    if isinstance(parent, ast.UnaryOp):
        # `+x` is x.
        return isinstance(parent.op, ast.UAdd)
    if isinstance(parent, (ast.BinOp, ast.Compare, ast.FormattedValue)):
        return False
    if isinstance(parent, (ast.If, ast.While, ast.IfExp)):
        return parent.test is not read
    if isinstance(parent, ast.Attribute):
        if parent.attr in _MEASURES:
            return False
        call = source.parents[parent]
        return not (isinstance(call, ast.Call) and call.func is parent and parent.attr in _FRESH and not _has_out(call))
    if isinstance(parent, ast.Subscript) and parent.value is read and isinstance(parent.ctx, ast.Load):
        return escapes(source, parent)
    if isinstance(parent, ast.Call) and read in parent.args:
        function = dotted(parent.func) or ""
        return not (function.startswith(("torch.", "F.")) and function.rpartition(".")[2] in _FRESH and not _has_out(parent))
    return True


def kept_for_backward(source: Source, read: ast.expr, needs_none: Callable[[ast.expr], bool]) -> bool:
    """Whether autograd may keep the tensor for the backward pass: where it meets, other than in a sum, what may need a gradient.

    `needs_none` says of an expression that it needs no gradient for sure.
    """
    if _without_gradients(source, read):
        return False
    parent = source.parents[read]
    if isinstance(parent, ast.Subscript):
        return kept_for_backward(source, parent, needs_none)
    if isinstance(parent, ast.BinOp):
        return not isinstance(parent.op, (ast.Add, ast.Sub)) and not (needs_none(parent.left) and needs_none(parent.right))
    call = source.parents[parent] if isinstance(parent, ast.Attribute) else parent
    if isinstance(call, ast.Call):
        others = [*call.args, *(keyword.value for keyword in call.keywords)]
        return not all(other is read or needs_none(other) for other in others)
    return False


def _without_gradients(source: Source, node: ast.AST) -> bool:
    """Whether a node runs where gradients are off, by a decorator or `with` of its own function."""
    for each in source.around(node):
        contexts: list[ast.expr] = []
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            contexts = each.decorator_list
        elif isinstance(each, (ast.With, ast.AsyncWith)):
            contexts = [item.context_expr for item in each.items]
        for context in reversed(contexts):
            function = dotted(context.func if isinstance(context, ast.Call) else context) or ""
            if function in _NO_GRADIENTS and not (isinstance(context, ast.Call) and (context.args or context.keywords)):
                return True
            if "grad" in function or "inference" in function:
                # It may turn them on again.
                return False
        if isinstance(each, FUNCTIONS):
            # A function may run later than what stands around it.
            return False
    return False


def _has_out(call: ast.Call) -> bool:
    return any(keyword.arg in (None, "out") for keyword in call.keywords)


def _spells_another(source: Source, name: ast.Name, attribute: str) -> bool:
    """Whether `getattr` or `setattr` is called with the name of another attribute."""
    call = source.parents[name]
    if not (isinstance(call, ast.Call) and call.func is name and len(call.args) > 1):
        return False
    spelt = call.args[1]
    return isinstance(spelt, ast.Constant) and spelt.value != attribute


def _kin(source: Source, owner: ast.ClassDef) -> set[ast.ClassDef]:
    """The classes of the file that are connected with `owner` by their bases, by name."""
    classes = [node for node in source.nodes if isinstance(node, ast.ClassDef)]
    kin = {owner}
    while True:
        names = {each.name for each in kin} | {name for each in kin for name in _bases(each)}
        more = {each for each in classes if each not in kin and (each.name in names or not names.isdisjoint(_bases(each)))}
        if not more:
            return kin
        kin |= more


def _bases(node: ast.ClassDef) -> Iterator[str]:
    return (spelling for base in node.bases if (spelling := dotted(base)) is not None and spelling not in _PLAIN_BASES)

"""Generated source as a function: what it names is looked up once, and its lines are there for tracebacks and debuggers."""

from __future__ import annotations

import ast
import builtins
import importlib
import io
import itertools
import linecache
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from torch._dynamo.utils import dynamo_timed
from torch._logging._internal import trace_structured

from modelguard.codegen.emit import ENTRY
from modelguard.codegen.errors import CodegenError
from modelguard.codegen.names import CONSTS, ROOTS, SUBMODS

_numbers = itertools.count(1)


@dynamo_timed("modelguard.compile_execution_fn")
def compile_execution_fn(
    code: str,
    submod_callables: Mapping[str, Callable[..., Any]],
    submod_names: list[str],
    consts: list[Any] | None = None,
) -> Callable[..., Any]:
    """Make the function that generated source defines.

    What the source names with dots (`torch.ops.aten.mm.default`) or by number (`__vllm_submods__[3]`) is looked up here, once:
    each is one variable of the function that is returned, so a call costs no attribute chains. Tracebacks and pdb show the
    source's lines for as long as the function lives; `function.source` is all of it.

    Args:
        code: what `generate_execution_code` returned, or vLLM's function of that name.
        submod_callables: what to call for each path in `submod_names`; `dict(split_gm.named_modules())` has them all. Children
            that are generated in the source need no entry.
        submod_names: the paths, in the order of `__vllm_submods__`.
        consts: the objects of `__vllm_consts__`; None for source that uses none.

    Returns:
        A function that takes the graph's inputs.

    Raises:
        CodegenError: the source is not what a generator makes, or names an operator or a constant that is not there. A
            submodule without callable is told when it is called.
    """
    filename = f"<modelguard {ENTRY} {next(_numbers)}>"
    tree = _parsed(code, filename)
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "modelguard_execution_code", "encoding": "string"},
        payload_fn=lambda: code,
    )
    submods = [submod_callables.get(name) for name in submod_names]
    bound = _Bound(submods, submod_names, consts)
    try:
        bound.bind(tree)
    except RecursionError as error:
        raise _no_source(error) from error
    namespace = dict(bound.values)
    _define(tree, filename, namespace)
    function = _rehomed(tree, namespace, {CONSTS: consts, SUBMODS: submods, **ROOTS})
    # Debuggers and tracebacks find lines by this; an entry without time stamp is never thrown away by them.
    lines = io.StringIO(code, newline=None).readlines()
    linecache.cache[filename] = (len(code), None, lines, filename)
    # By the code object, which a traceback keeps alive, not by the function.
    weakref.finalize(function.__code__, linecache.cache.pop, filename, None).atexit = False
    function.source = code  # type: ignore[attr-defined]
    return function


def _parsed(code: str, filename: str) -> ast.Module:
    try:
        tree = ast.parse(code, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _no_source(error) from error
    if not any(isinstance(statement, ast.FunctionDef) and statement.name == ENTRY for statement in tree.body):
        raise CodegenError(
            f"the source defines no function `{ENTRY}`", remedy="pass the whole text that generate_execution_code returned"
        )
    return tree


def _define(tree: ast.Module, filename: str, namespace: dict[str, Any]) -> None:
    try:
        exec(compile(tree, filename, "exec"), namespace)
    except Exception as error:
        # Source that no generator made can do anything while its functions are defined.
        raise _no_source(error) from error


def _no_source(error: BaseException) -> CodegenError:
    line = f" line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
    return CodegenError(
        f"the generated source{line} is not Python that can be run: {type(error).__name__}: {error}",
        remedy="generate it again; it was changed or cut off",
    )


class _Bound(ast.NodeTransformer):
    """Replaces what the source looks up at each call by a variable, whose name is the replaced text itself.

    No identifier in the source can equal such a name, so nothing is shadowed.
    """

    def __init__(self, submods: list[Callable[..., Any] | None], submod_names: list[str], consts: list[Any] | None) -> None:
        self.values: dict[str, Any] = {}
        self._submods = submods
        self._submod_names = submod_names
        self._consts = consts
        self._locals: set[str] = set()

    def bind(self, tree: ast.Module) -> None:
        """Rewrite all functions of `tree` in place."""
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef):
                self._locals = set(_local_names(statement))
                self.generic_visit(statement)
                _drop_parameter(statement.args, SUBMODS)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """`torch.a.b` and `operator.a`, unless a local of that name hides the module."""
        dotted = _dotted(node)
        if dotted is None or dotted[0] not in ROOTS or dotted[0] in self._locals:
            self.generic_visit(node)
            return node
        name = ".".join(dotted)
        if name not in self.values:
            self.values[name] = _looked_up(dotted)
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """`__vllm_submods__[i]` and `__vllm_consts__[k]`."""
        self.generic_visit(node)
        if not (isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant) and type(node.slice.value) is int):
            return node
        table, place = node.value.id, node.slice.value
        if table not in (SUBMODS, CONSTS):
            return node
        name = f"{table}[{place}]"
        if name not in self.values:
            self.values[name] = self._submod(place) if table == SUBMODS else self._const(place)
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Submodules need not be passed on, and `float('inf')` is a constant."""
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != SUBMODS]
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "float" and "float" not in self._locals and not node.keywords:
            match node.args:
                case [ast.Constant(value=("inf" | "-inf" | "nan") as value)]:
                    return ast.copy_location(ast.Constant(float(value)), node)
        return node

    def _submod(self, place: int) -> Callable[..., Any]:
        if not 0 <= place < len(self._submods):
            raise CodegenError(
                f"the source uses submodule {place} of {len(self._submods)}", remedy="pass the names that belong to this source"
            )
        # A module can be false: an empty `Sequential` has no length.
        submod = self._submods[place]
        return _missing(self._submod_names[place]) if submod is None else submod

    def _const(self, place: int) -> Any:
        count = len(self._consts or ())
        if not 0 <= place < count:
            raise CodegenError(
                f"the source uses constant {place} of {count}", remedy="pass the consts that belong to this source"
            )
        return (self._consts or ())[place]


def _missing(name: str) -> Callable[..., Any]:
    def submodule(*args: object, **kwargs: object) -> None:
        raise CodegenError(
            f"submodule `{name}` was given no callable", remedy="pass compile_execution_fn one for each name that is called"
        )

    return submodule


def _dotted(node: ast.expr) -> list[str] | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return parts[::-1]


def _looked_up(dotted: list[str]) -> Any:
    """The object behind a dotted name; modules that `import torch` does not load are imported."""
    found: Any = ROOTS[dotted[0]]
    for place, attribute in enumerate(dotted[1:], start=1):
        try:
            found = getattr(found, attribute)
        except AttributeError:
            if not isinstance(found, ModuleType) or not _imports(".".join(dotted[: place + 1])):
                raise CodegenError(
                    f"the source calls `{'.'.join(dotted)}`, which does not exist here",
                    remedy="import the library that registers it, or use the version of torch that it was generated with",
                ) from None
            found = getattr(found, attribute)
    return found


def _imports(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def _local_names(function: ast.FunctionDef) -> Iterator[str]:
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None:
            yield argument.arg
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _drop_parameter(arguments: ast.arguments, name: str) -> None:
    places = [place for place, argument in enumerate(arguments.kwonlyargs) if argument.arg == name]
    for place in places:
        del arguments.kwonlyargs[place], arguments.kw_defaults[place]


def _rehomed(tree: ast.Module, namespace: dict[str, Any], shown: Mapping[str, Any]) -> FunctionType:
    """The entry function, each function with globals of its own.

    A function whose globals hold it is freed by the garbage collector alone, and its submodules and constants with it, whenever
    that runs; functions that are only held by their callers are freed at once.
    """
    defined = [statement.name for statement in tree.body if isinstance(statement, ast.FunctionDef)]
    homes: dict[str, dict[str, Any]] = {}
    functions: dict[str, FunctionType] = {}
    for name in defined:
        original = namespace[name]
        home = {"__builtins__": builtins, "__name__": "modelguard.generated", **shown}
        home.update((used, namespace[used]) for used in original.__code__.co_names if used in namespace)
        copy = FunctionType(original.__code__, home, name, original.__defaults__)
        copy.__kwdefaults__ = original.__kwdefaults__
        homes[name], functions[name] = home, copy
    for home in homes.values():
        home.update((name, functions[name]) for name in defined if name in home)
    namespace.clear()
    return functions[ENTRY]

"""Any `torch.fx` graph as plain Python source.

The text has the shape that vLLM's `vllm/compilation/codegen.py` (v0.33) gives the graph that stitches a model's pieces
together, and takes submodules and constants in the same way: code made here runs under its executor, and the other way round.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo.utils import dynamo_timed
from torch.fx import GraphModule, Node
from torch.fx.graph import _PyTreeInfo

from modelguard.codegen.arguments import Arguments, Consts, NestedTooDeeply, keyword
from modelguard.codegen.errors import CodegenError
from modelguard.codegen.graphs import (
    attribute,
    check_graph,
    check_parameters,
    checked_nodes,
    has_keywords,
    is_flat,
    is_inlined,
    last_uses,
    pytree_info,
)
from modelguard.codegen.names import INLINED, SUBMODS, Names, is_free, is_identifier, qualified_name
from modelguard.codegen.places import source_place

ENTRY = "execution_fn"
"""The name of the function that the generated code defines for the caller."""

_IMPORTS = "import torch\nimport operator\n"


@dynamo_timed("modelguard.generate_execution_code")
def generate_execution_code(split_gm: GraphModule) -> tuple[str, list[str], list[Any]]:
    """Generate the source of a function that does what `split_gm` does, without its `nn.Module` overhead.

    Children that are graph modules become functions in the same source; all other children are called through a list.

    Args:
        split_gm: any graph module, of any tracer; usually what `split_graph` returns.

    Returns:
        The source; the paths of the submodules in the order of `__vllm_submods__`; the objects of `__vllm_consts__`, which
        hold the parameters and buffers that the graph reads by name. Two traces of one model give equal results.

    Raises:
        CodegenError: the graph is not well-formed, refers to what is not there, or holds itself.
    """
    code, submod_names, consts = generate_execution_code_with_name(split_gm, ENTRY, with_submod=True)
    return _IMPORTS + code, submod_names, consts


def generate_execution_code_with_name(
    split_gm: GraphModule,
    fn_name: str,
    with_submod: bool,
    consts: list[Any] | None = None,
    const_index: dict[int, int] | None = None,
) -> tuple[str, list[str], list[Any]]:
    """Generate one function under the name `fn_name`, and those of its graph-module children, without imports.

    Args:
        split_gm: any graph module.
        fn_name: an identifier.
        with_submod: whether the function may use submodules. If not, the rules are the reference's: a call of a module, of a
            method or an attribute read by name is refused.
        consts: the list that constants are added to, shared by functions of one source.
        const_index: the place of each constant in `consts`, by `id`.

    Raises:
        CodegenError: as `generate_execution_code`; a RuntimeError with the reference's own message for what is refused.
    """
    # The reference names the functions of children by this argument, too.
    if not is_free(fn_name) and not (fn_name.startswith(INLINED) and is_identifier(fn_name) and not with_submod):
        raise CodegenError(
            f"{fn_name!r} cannot be the name of the function",
            remedy="give an ASCII identifier that is no keyword, builtin or imported name",
        )
    check_graph(split_gm)
    table = Consts([] if consts is None else consts, {} if const_index is None else const_index)
    try:
        source = _Source(split_gm, table, strict=not with_submod)
        source.add(split_gm, fn_name, "")
    except RecursionError as error:
        raise CodegenError(
            "the graph's modules are nested too deeply", remedy="inline them into one graph, or raise sys.setrecursionlimit"
        ) from error
    return "".join(source.functions), source.submod_names, source.consts.objects


class _Function:
    """What the caller of a generated function must know of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parameters: dict[str, str] = {}
        """The parameter's name in the source, by the name under which the graph module takes it."""
        self.uses_submods = False
        self.finished = False


class _Source:
    """The functions of one source, the innermost first, and what they share."""

    def __init__(self, root: GraphModule, consts: Consts, strict: bool) -> None:
        self.consts = consts
        self.strict = strict
        self.functions: list[str] = []
        self.submod_names: list[str] = []
        self._submod_index: dict[str, int] = {}
        # A module that is reached by several paths has one name: the one under which `named_modules()` has it.
        self._paths = {id(module): path for path, module in root.named_modules()}
        self._inlined: dict[int, _Function] = {}
        self._qualified: dict[int, str | None] = {}

    def add(self, module: GraphModule, name: str, path: str) -> _Function:
        """Generate the function of `module`, which the root knows by `path`."""
        function = self._inlined[id(module)] = _Function(name)
        writer = _Writer(self, module, path, function)
        body = list(writer.body())
        parameters = list(writer.parameters)
        if not path and not self.strict:
            function.uses_submods = True
        if function.uses_submods:
            # A bare star may not follow `*args`, and `**kwargs` comes last.
            last = parameters.pop() if parameters and parameters[-1].startswith("**") else None
            starred = any(parameter.startswith("*") for parameter in parameters)
            parameters += [SUBMODS] if starred else ["*", SUBMODS]
            parameters += [last] if last else []
        header = f"\ndef {name}({', '.join(parameters)}):"
        self.functions.append("\n".join([header, *(body or ["    pass"])]) + "\n")
        function.finished = True
        return function

    def index(self, module: torch.nn.Module, path: str) -> int:
        """The place of a submodule in `submod_names`."""
        path = self._paths.get(id(module), path)
        if path not in self._submod_index:
            self._submod_index[path] = len(self.submod_names)
            self.submod_names.append(path)
        return self._submod_index[path]

    def inlined(self, module: GraphModule, path: str, node: Node) -> _Function:
        """The function of a child, generated when it is first called."""
        place = self.index(module, path)
        function = self._inlined.get(id(module))
        if function is None:
            return self.add(module, f"{INLINED}{place}", path)
        if not function.finished:
            raise CodegenError(f"module `{path}` holds itself", node, remedy="a graph that calls itself has no end; unroll it")
        return function

    def callee(self, target: Any) -> str:
        """The text that means the callable `target`."""
        key = id(target)
        if key not in self._qualified:
            self._qualified[key] = qualified_name(target)
        return self._qualified[key] or self.consts.reference(target)


class _Writer:
    """Writes the statements of one function."""

    def __init__(self, source: _Source, module: GraphModule, path: str, function: _Function) -> None:
        self._source = source
        self._module = module
        self._path = path
        self._function = function
        self._nodes = checked_nodes(module)
        self._names: dict[Node, str] = {}
        self._arguments = Arguments(self._names, source.consts)
        self._pytree = pytree_info(module.graph)
        self.parameters: list[str] = []

    def body(self) -> Iterator[str]:
        """The lines below the header; `parameters` are complete once they are all taken."""
        placeholders = [node for node in self._nodes if node.op == "placeholder"]
        info = self._pytree
        spread = info is not None and not is_flat(info, len(placeholders))
        outer = [name for name in info.orig_args if name != "self"] if info is not None and spread else []
        names = Names([*outer, *(node.name for node in self._nodes)])
        if info is not None and spread:
            self.parameters += [names.give(name) for name in outer]
            self._function.parameters.update(zip(outer, self.parameters, strict=True))
        for node in placeholders:
            self._names[node] = names.give(node.name)
        if info is not None and spread:
            yield from self._unpacking(info, placeholders)
        else:
            check_parameters(placeholders)
            self.parameters += [self._told(node, self._parameter) for node in placeholders]
        dying = last_uses(self._nodes)
        unused = [node for node in placeholders if node not in dying.used]
        if unused:
            yield self._deletion(unused)
        for node in self._nodes:
            if node.op == "placeholder":
                continue
            statement = self._told(node, self._statement)
            if node.op == "output":
                yield self._line(statement, node)
                return
            name = self._names[node] = names.give(node.name)
            yield self._line(f"{name} = {statement}", node)
            if node in dying.after:
                yield self._deletion(dying.after[node])

    @staticmethod
    def _told(node: Node, write: Callable[[Node], str]) -> str:
        try:
            return write(node)
        except NestedTooDeeply:
            raise CodegenError(
                "an argument nests containers too deeply for source code", node, remedy="build it in several steps"
            ) from None

    def _line(self, statement: str, node: Node) -> str:
        """With the model's own line behind it, which tracebacks through this one then show."""
        place = source_place(node)
        return f"    {statement}" if place is None else f"    {statement}  # {place}"

    def _deletion(self, nodes: list[Node]) -> str:
        return f"    del {', '.join(sorted(self._names[node] for node in nodes))}"

    def _parameter(self, node: Node) -> str:
        target, name = str(node.target), self._names[node]
        stars = target[: len(target) - len(target.lstrip("*"))]
        if not stars:
            self._function.parameters[target] = name
        default = f"={self._arguments.value(node.args[0])}" if node.args else ""
        return f"{stars}{name}{default}"

    def _unpacking(self, info: _PyTreeInfo, placeholders: list[Node]) -> Iterator[str]:
        """Take the function's structured arguments apart, as the graph module's own `forward` does."""
        if not placeholders:
            return
        spec = info.in_spec
        # A tracer that was told concrete arguments counts the module itself among them.
        this = "None, " if "self" in info.orig_args[:1] else ""
        values = f"({this}" + "".join(f"{name}, " for name in self.parameters) + ")"
        if has_keywords(info):
            count = spec.child(0).num_children
            positional = "".join(f"{name}, " for name in self.parameters[:count])
            keywords = zip(spec.child(1).context, self.parameters[count:], strict=False)
            values = f"(({positional}), {{{', '.join(f'{key!r}: {name}' for key, name in keywords)}}})"
        leaves = "".join(f"{self._names[node]}, " for node in placeholders).rstrip()
        structure = self._source.consts.reference(spec)
        yield f"    {'_, ' if this else ''}{leaves} = torch.fx._pytree.tree_flatten_spec({values}, {structure})"
        yield f"    del {', '.join(self.parameters)}"

    def _statement(self, node: Node) -> str:
        if node.op == "output":
            return self._output(node)
        if self._source.strict and node.op in ("get_attr", "call_method"):
            raise CodegenError(f"Unsupported node from codegen: {node.format_node()}", node, exact=True)
        if node.op == "call_function":
            return self._call_function(node)
        if node.op == "call_module":
            return self._call_module(node)
        if node.op == "call_method":
            return self._call_method(node)
        return self._get_attr(node)

    def _output(self, node: Node) -> str:
        result = self._arguments.value(node.args[0])
        if self._pytree is None or self._pytree.out_spec is None:
            return f"return {result}"
        if not isinstance(node.args[0], (list, tuple)):
            result = f"[{result}]"
        spec = self._source.consts.reference(self._pytree.out_spec)
        return f"return torch.utils._pytree.tree_unflatten({result}, {spec})"

    def _call_function(self, node: Node) -> str:
        if node.target is operator.getitem and len(node.args) == 2 and not node.kwargs:
            source, index = node.args
            return f"{self._arguments.primary(source)}[{self._arguments.index(index)}]"
        return f"{self._source.callee(node.target)}({', '.join(self._arguments.call(node.args, node.kwargs))})"

    def _call_method(self, node: Node) -> str:
        if not node.args:
            raise CodegenError(
                f"method `{node.target}` is called on nothing", node, remedy="give it its object as first argument"
            )
        this, *others = node.args
        arguments = ", ".join(self._arguments.call(tuple(others), node.kwargs))
        method = str(node.target)
        if is_identifier(method):
            return f"{self._arguments.primary(this)}.{method}({arguments})"
        return f"getattr({self._arguments.value(this)}, {method!r})({arguments})"

    def _get_attr(self, node: Node) -> str:
        """A parameter or buffer as it is now; a module, such as the branch of a `cond`, as what the caller gives for it."""
        found = attribute(self._module, node)
        if not isinstance(found, torch.nn.Module):
            return self._source.consts.reference(found)
        self._function.uses_submods = True
        return f"{SUBMODS}[{self._source.index(found, self._path_of(node))}]"

    def _path_of(self, node: Node) -> str:
        return f"{self._path}.{node.target}" if self._path else str(node.target)

    def _call_module(self, node: Node) -> str:
        target = str(node.target)
        if self._source.strict:
            raise CodegenError(f"call_module is not allowed for codegen target {target}.", node, exact=True)
        path = self._path_of(node)
        child = attribute(self._module, node)
        if not is_inlined(child):
            self._function.uses_submods = True
            arguments = self._arguments.call(node.args, node.kwargs)
            return f"{SUBMODS}[{self._source.index(child, path)}]({', '.join(arguments)})"
        positional = self._arguments.call(node.args, {})
        keywords = {key: self._arguments.value(value) for key, value in node.kwargs.items()}
        function = self._source.inlined(child, path, node)
        # A graph module takes keywords by the targets of its placeholders, the function by their names.
        parameters = function.parameters
        for key in keywords.keys() - parameters.keys():
            if key in parameters.values():
                raise CodegenError(
                    f"keyword `{key}` is the name of another parameter in the source", node, remedy=f"rename it in `{target}`"
                )
        arguments = positional + [keyword(parameters.get(key, key), value) for key, value in keywords.items()]
        if function.uses_submods:
            self._function.uses_submods = True
            arguments.append(f"{SUBMODS}={SUBMODS}")
        return f"{function.name}({', '.join(arguments)})"

"""What is asked of a graph before code is written for it: is it well-formed, when do its values die, what does it take."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, TypeGuard

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.graph import CodeGen, _PyTreeCodeGen, _PyTreeInfo

from modelguard.codegen.errors import CodegenError

_WRAPPER = "GraphModule.recompile.<locals>.call_wrapped"
"""The `__call__` that `recompile` gives the class of a graph module."""


class LastUses:
    """`after` a node these values are used no more; `used` are all that are used at all."""

    def __init__(self) -> None:
        self.after: dict[Node, list[Node]] = {}
        self.used: set[Node] = set()


def last_uses(nodes: list[Node]) -> LastUses:
    """Where the values of a graph are used last."""
    result = LastUses()
    for node in reversed(nodes):
        first_seen = [value for value in node.all_input_nodes if value not in result.used]
        result.used.update(first_seen)
        if node.op in ("output", "placeholder"):
            continue
        dead = first_seen if node in result.used else [*first_seen, node]
        if dead:
            result.after[node] = dead
    return result


def check_graph(module: object) -> None:
    """Refuse what has no graph.

    Raises:
        CodegenError: it is no graph module.
    """
    if not isinstance(module, GraphModule):
        raise CodegenError(
            f"a {type(module).__name__} has no graph",
            remedy="give a torch.fx.GraphModule; `modelguard.codegen.trace(model, args).graph` makes one",
        )


def checked_nodes(module: GraphModule) -> list[Node]:
    """The nodes of a graph up to its output, once it is known to be well-formed.

    Raises:
        CodegenError: names the first node at fault.
    """
    graph = module.graph
    defined: set[Node] = set()
    nodes: list[Node] = []
    remedy = "call `graph.lint()` after each change of the graph, and `recompile()` at the end"
    for node in graph.nodes:
        for value in node.all_input_nodes:
            if value.graph is not graph:
                raise CodegenError(f"it uses `{value.name}`, which belongs to another graph", node, remedy=remedy)
            if value not in defined:
                raise CodegenError(f"it uses `{value.name}`, which is defined later or was erased", node, remedy=remedy)
        if node.op not in ("placeholder", "call_function", "call_module", "call_method", "get_attr", "output"):
            raise CodegenError(
                f"Unsupported node from codegen: {node.format_node()}", node, remedy=f"there is no kind {node.op!r}"
            )
        if node.op == "call_function":
            if not callable(node.target):
                raise CodegenError(f"it calls {node.target!r}, which is not callable", node, remedy=remedy)
        elif not isinstance(node.target, str):
            raise CodegenError(f"its target {node.target!r} is not a name", node, remedy=remedy)
        defined.add(node)
        nodes.append(node)
        if node.op == "output":
            break
    return nodes


def check_parameters(placeholders: list[Node]) -> None:
    """Can a function take these parameters in this order?

    Raises:
        CodegenError: names the first that it cannot take.
    """
    stage = 0
    for node in placeholders:
        target = str(node.target)
        stars = len(target) - len(target.lstrip("*"))
        if not stars and stage == 2:
            continue
        kind = stars + 1 if stars else int(bool(node.args))
        if kind > 3 or kind < stage or (stars and (kind == stage or node.args)):
            raise CodegenError(
                f"no function can take `{target}` at this place",
                node,
                remedy="placeholders come in the order of parameters: without default, with default, `*args`, `**kwargs`",
            )
        stage = kind


def attribute(module: GraphModule, node: Node) -> Any:
    """What the target of a `get_attr` or `call_module` node means."""
    found: Any = module
    for atom in str(node.target).split("."):
        if not hasattr(found, atom):
            raise CodegenError(
                f"`{node.target}` does not exist in the graph module",
                node,
                remedy="add it with `add_submodule` or `register_buffer`",
            )
        found = getattr(found, atom)
    if node.op == "call_module" and not isinstance(found, torch.nn.Module):
        raise CodegenError(
            f"`{node.target}` is called but is no module, it is a {type(found).__name__}",
            node,
            remedy="call a module, or read it with `get_attr`",
        )
    return found


def has_global_hooks() -> bool:
    """Are there hooks around the `forward` of every module?"""
    any_hook: Any = torch.nn.modules.module._has_any_global_hook
    return bool(any_hook())


def runs_forward(module: torch.nn.Module) -> bool:
    """Does a call of `module` run its `forward` and nothing else?"""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    if any(hooks) or has_global_hooks() or module._compiled_call_impl is not None:
        return False
    if "_call_impl" in vars(module) or type(module)._call_impl is not torch.nn.Module._call_impl:
        return False
    return _call(type(module)) is torch.nn.Module.__call__


def _call(kind: type[torch.nn.Module]) -> Callable[..., Any]:
    """The `__call__` of a class, behind the one that `recompile` puts around that of a graph module's."""
    wrapped = vars(kind).get("_wrapped_call")
    if wrapped is None or kind.__call__.__qualname__ != _WRAPPER:
        return kind.__call__
    return wrapped.cls_call or super(kind, kind).__call__  # type: ignore[no-any-return,misc]


def is_inlined(module: torch.nn.Module) -> TypeGuard[GraphModule]:
    """Does a call of `module` run its graph, as it is now, and nothing else?"""
    return isinstance(module, GraphModule) and "forward" not in vars(module) and runs_forward(module) and _runs_graph(module)


def _runs_graph(module: GraphModule) -> bool:
    """Is the `forward` of its class what its graph says? Somebody may have set another, or not called `recompile()`."""
    codegen = module.graph._codegen
    if type(codegen) not in (CodeGen, _PyTreeCodeGen) or codegen._body_transformer is not None:
        return False
    if isinstance(module, _LazyGraphModule) and module._needs_recompile():
        return True
    forward: Any = type(module).forward
    try:
        expected = module.graph.python_code("self")
        compiled = compile(expected.src, "", "exec", dont_inherit=True)
        (code,) = (each for each in compiled.co_consts if isinstance(each, CodeType))
    except Exception:
        # What cannot be written by `fx` is not what was written.
        return False
    return forward.__code__ == code and all(forward.__globals__.get(name) is value for name, value in expected.globals.items())


def pytree_info(graph: Graph) -> _PyTreeInfo | None:
    """How the graph's own `forward` takes arguments apart and puts results together; None where they pass as they are."""
    codegen = graph._codegen
    if type(codegen) is _PyTreeCodeGen:
        return codegen.pytree_info
    if type(codegen) is not CodeGen:
        raise CodegenError(
            f"the graph's `forward` is written by a {type(codegen).__name__}, whose meaning is not known",
            remedy="set it back with `graph.set_codegen(torch.fx.graph.CodeGen())` and hand it flat arguments",
        )
    return None


def has_keywords(info: _PyTreeInfo) -> bool:
    spec = info.in_spec
    return bool(spec.type is tuple and spec.num_children == 2 and spec.child(0).type is tuple and spec.child(1).type is dict)


def is_flat(info: _PyTreeInfo, placeholders: int) -> bool:
    """Is each argument one placeholder?"""
    spec = info.in_spec
    if has_keywords(info):
        if spec.child(1).num_children:
            return False
        spec = spec.child(0)
    return bool(len(info.orig_args) == placeholders == spec.num_children and all(child.is_leaf() for child in spec.children()))

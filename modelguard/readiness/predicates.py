"""Questions for tests and servers: can code be generated for a graph, and what of a model is left outside of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.fx import GraphModule

from modelguard.codegen import CodegenError, generate_execution_code_with_name
from modelguard.readiness.inspect import INSIDE, inspected
from modelguard.readiness.modules import ModuleTree, ran
from modelguard.readiness.trace import traced
from modelguard.runtime.copying import deep_copied
from modelguard.runtime.state import apart


def codegen_ready(graph: GraphModule, with_submod: bool = False) -> bool:
    """Whether code can be generated for a graph.

    Args:
        graph: any graph module.
        with_submod: whether the code may call submodules and methods and read attributes. If not, the rules are those of
            vLLM's generator for what it inlines.
    """
    try:
        generate_execution_code_with_name(graph, "execution_fn", with_submod)
    except (CodegenError, RuntimeError):
        return False
    return True


def leftover_modules(
    model: nn.Module, *args: Any, kwargs: Mapping[str, Any] | None = None, dynamic: bool = False
) -> dict[str, str]:
    """The modules that do not become part of one graph when Dynamo traces a call, and what became of each.

    Args:
        model: left as it is; copies are run and traced. What Dynamo had compiled in this process is dropped.
        args: the arguments of the call.
        kwargs: its keyword arguments.
        dynamic: trace with symbolic sizes.

    Returns:
        Statuses such as `graph-break`, `disabled` or `call-module` by the module's path, which is empty for the model itself.
        There are none if the model is one graph that can be captured; modules that the call does not reach are not told.

    Raises:
        Exception: whatever the model raises when it is called eagerly.
    """
    call = (args, dict(kwargs or {}))
    with apart(model):
        copied, (own_args, own_kwargs) = deep_copied((model, call))
        did = ran(ModuleTree(copied), own_args, own_kwargs)
        copied, own = deep_copied((model, call))
        tree = ModuleTree(copied)
        found = traced(tree, [own], did, dynamic=dynamic, run=lambda graph, inputs: graph.forward)
    quiet = (*INSIDE, "never-reached")
    return {each.path: each.status for each in inspected(tree, found, did, "dynamo") if each.status not in quiet}

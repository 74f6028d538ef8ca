"""What runs when an instance is made, as far as names tell."""

from __future__ import annotations

from collections.abc import Container

from modelguard.scan.symbols import ClassInfo, Method

_HOOKS = frozenset(("register_forward_pre_hook", "register_forward_hook"))

_CONSTRUCTION = 2
"""Calls from `__init__` that are followed for what registers a hook: further on, names say little of what really runs."""


def construction(info: ClassInfo) -> list[Method]:
    """The methods that run when an instance is made: `__init__`, and what it names, in the class and its bases."""
    found: dict[tuple[str, int], Method] = {}
    work = [(Method(item, item.facts.methods["__init__"]), 0) for item in info.ancestry() if "__init__" in item.facts.methods]
    while work:
        method, depth = work.pop(0)
        key = (method.owner.file.path, method.facts.line)
        if key in found:
            continue
        found[key] = method
        for name in method.facts.own if depth < _CONSTRUCTION else ():
            inner = info.method(name)
            if inner is not None:
                work.append((inner, depth + 1))
    return list(found.values())


def registering(info: ClassInfo, inside: Container[str]) -> list[Method]:
    """The methods of the project's own files that register a forward hook while an instance is made."""
    named = [
        facts
        for item in info.ancestry()
        if item.file.path in inside
        for facts in item.facts.methods.values()
        if not _HOOKS.isdisjoint(facts.names)
    ]
    return [method for method in construction(info) if method.facts in named] if named else []

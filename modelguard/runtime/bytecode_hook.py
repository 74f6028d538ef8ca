"""Dynamo's bytecode hook, for as long as it is needed and no longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType

from modelguard.runtime import dynamo


@contextmanager
def bytecode_hook(hook: Callable[[CodeType, CodeType], CodeType | None]) -> Iterator[None]:
    """Have `hook(original, compiled)` called for every code object that Dynamo compiles meanwhile, in any thread."""
    # Dynamo walks its table of hooks while it compiles, in whichever thread that is: the table may not change under its feet.
    with dynamo.compile_lock:
        handle = dynamo.register_bytecode_hook(hook)
    try:
        yield
    finally:
        with dynamo.compile_lock:
            handle.remove()

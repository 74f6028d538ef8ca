"""The writes that compiled code does after its graph, read from its instructions.

Dynamo's code for them is straight: it puts objects and values on the stack, then stores. So one pass with a stack of expressions
finds what each store is on. The names that code merely mentions say nothing: they are those of the original.
"""

from __future__ import annotations

import dis
import inspect
from types import CodeType

_Write = tuple[str, str | None, str]
"""Expression of the object, attribute if one is stored, operation."""

_SILENT = frozenset(
    ("RESUME", "PRECALL", "KW_NAMES", "CACHE", "NOP", "DELETE_FAST", "EXTENDED_ARG", "COPY_FREE_VARS", "MAKE_CELL")
)
_METHODS = frozenset(("update", "extend", "append", "clear", "setstate", "__setitem__"))
_OF_DYNAMO = ("__compiled_fn_", "__import_torch_dot__dynamo", "___module_", "__resume_at_")


def written(code: CodeType) -> list[_Write]:
    """What the instructions store into objects that came in from outside."""
    machine = _Machine(code)
    for instruction in dis.get_instructions(code):
        try:
            machine.step(instruction)
        except IndexError:
            # A jump was met: what follows starts from a stack that is not known.
            machine.stack.clear()
    return machine.found


class _Machine:
    def __init__(self, code: CodeType) -> None:
        starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + starred]
        self.names: dict[str, str | None] = {name: name for name in arguments}
        self.stack: list[str | None] = []
        """Expressions; None for what is new in this call."""
        self.found: list[_Write] = []

    def step(self, instruction: dis.Instruction) -> None:
        name, argument = instruction.opname, instruction.argval
        handler = getattr(self, f"_{name.lower()}", None)
        if handler is not None:
            handler(instruction)
        elif name == "LOAD_CONST":
            self.stack.append(repr(argument))
        elif name.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")) and isinstance(argument, str):
            self.stack.append(self.names.get(argument, argument if "DEREF" in name else None))
        elif name in ("CALL", "CALL_FUNCTION", "CALL_METHOD"):
            self._called(instruction)
        elif name not in _SILENT:
            self._other(instruction)

    def _other(self, instruction: dis.Instruction) -> None:
        """Whatever else leaves something new on the stack."""
        effect = dis.stack_effect(instruction.opcode, instruction.arg, jump=False)
        for _ in range(-effect):
            self.stack.pop()
        self.stack += [None] * effect
        if self.stack and instruction.opname != "POP_TOP":
            self.stack[-1] = None

    def _load_global(self, instruction: dis.Instruction) -> None:
        if "NULL" in instruction.argrepr:
            self.stack.append(None)
        self.stack.append(f"G['{instruction.argval}']")

    def _load_attr(self, instruction: dis.Instruction) -> None:
        self._attribute(instruction, is_method="NULL" in instruction.argrepr)

    def _load_method(self, instruction: dis.Instruction) -> None:
        self._attribute(instruction, is_method=True)

    def _attribute(self, instruction: dis.Instruction, *, is_method: bool) -> None:
        owner = self.stack.pop()
        value = None if owner is None else f"{owner}.{instruction.argval}"
        self.stack += [value, owner] if is_method else [value]

    def _store_fast(self, instruction: dis.Instruction) -> None:
        self.names[instruction.argval] = self.stack.pop()

    def _copy(self, instruction: dis.Instruction) -> None:
        self.stack.append(self.stack[-(instruction.arg or 1)])

    def _dup_top(self, _: dis.Instruction) -> None:
        self.stack.append(self.stack[-1])

    def _swap(self, instruction: dis.Instruction) -> None:
        other = -(instruction.arg or 1)
        self.stack[-1], self.stack[other] = self.stack[other], self.stack[-1]

    def _rot_two(self, _: dis.Instruction) -> None:
        self.stack[-2:] = [self.stack[-1], self.stack[-2]]

    def _binary_subscr(self, _: dis.Instruction) -> None:
        key, owner = self.stack.pop(), self.stack.pop()
        self.stack.append(None if owner is None or key is None else f"{owner}[{key}]")

    def _store_attr(self, instruction: dis.Instruction) -> None:
        owner = self.stack.pop()
        self.stack.pop()
        self._note(owner, instruction.argval, "rebound")

    def _delete_attr(self, instruction: dis.Instruction) -> None:
        self._note(self.stack.pop(), instruction.argval, "deleted")

    def _store_subscr(self, _: dis.Instruction) -> None:
        owner = self.stack[-2]
        del self.stack[-3:]
        self._note(owner, None, "changed")

    def _store_global(self, instruction: dis.Instruction) -> None:
        self.stack.pop()
        self._note(f"G['{instruction.argval}']", None, "rebound")

    def _store_deref(self, instruction: dis.Instruction) -> None:
        self.stack.pop()
        self._note(instruction.argval, None, "rebound")

    def _called(self, instruction: dis.Instruction) -> None:
        count = instruction.arg or 0
        arguments = [self.stack.pop() for _ in range(count)][::-1]
        # A function has a null on one side of it, a method its object behind it.
        places = 1 if instruction.opname == "CALL_FUNCTION" else 2
        callee = next((each for each in [self.stack.pop() for _ in range(places)][::-1] if each is not None), None)
        self.stack.append(None)
        if callee is None:
            return
        owner, _, method = callee.rpartition(".")
        if method == "type" or callee == "G['type']":
            self.stack[-1] = None if arguments[0] is None else f"type({arguments[0]})"
        elif method in ("object_setattr_ignore_descriptor", "__setattr__") and count == 3:
            self._note(arguments[0], str(arguments[1]).strip("'\""), "rebound")
        elif method == "object_delattr_ignore_descriptor" and count == 2:
            self._note(arguments[0], str(arguments[1]).strip("'\""), "deleted")
        elif method == "iter_next":
            self._note(arguments[0], None, "advanced")
        elif method in _METHODS:
            # Subclasses of containers are written to by the methods of the container: `list.extend(self.x, ...)`.
            is_unbound = owner == "G['list']" or ".__mro__[" in owner
            self._note(arguments[0] if is_unbound else owner, None, "changed")

    def _note(self, owner: str | None, attribute: str | None, operation: str) -> None:
        if owner is not None and not any(f"G['{name}" in owner for name in _OF_DYNAMO):
            self.found.append((owner, attribute, operation))

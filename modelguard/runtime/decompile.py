"""Compiled code as text: depyf's Python, or its instructions."""

from __future__ import annotations

import dis
import importlib
from types import CodeType


def decompiled(code: CodeType) -> str:
    """Python source of a code object where depyf is installed and can tell it, else its instructions; a comment says which."""
    try:
        depyf = importlib.import_module("depyf")
    except ImportError:
        return f"# instructions, because depyf, which turns them into Python, is not installed\n{_instructions(code)}"
    try:
        return f"# decompiled by depyf\n{depyf.decompile(code)}"
    except Exception as error:
        # Decompilers meet bytecode they do not know, and say so in any way they like.
        return f"# instructions, because depyf cannot decompile them ({type(error).__name__})\n{_instructions(code)}"


def _instructions(code: CodeType) -> str:
    return dis.Bytecode(code).dis()

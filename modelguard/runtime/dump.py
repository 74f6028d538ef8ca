"""Compiled code in files, for people who look for what went wrong."""

from __future__ import annotations

import itertools
import os
import re
import warnings
from types import CodeType

import torch

from modelguard.runtime.decompile import decompiled


def dump(folder: str, name: str, code: CodeType) -> str | None:
    """Write compiled code into a new file of a folder, made where it is missing. Where that fails: None, and a warning."""
    text = f"# {name} of {code.co_filename}:{code.co_firstlineno}, compiled by torch {torch.__version__}\n{decompiled(code)}\n"
    stem = os.path.join(folder, re.sub(r"[^\w.-]", "_", name))
    try:
        os.makedirs(folder, exist_ok=True)
        for number in itertools.count(1):
            path = f"{stem}.{number}.py"
            try:
                with open(path, "x", encoding="utf-8", errors="backslashreplace") as stream:
                    stream.write(text)
                return path
            except FileExistsError:
                continue
    except OSError as error:
        warnings.warn(f"the compiled code of {name} could not be written into {folder}: {error}", RuntimeWarning, stacklevel=2)
    return None

"""What TOML's own reader does not tell: on which lines the keys of a document stand; and how to write strings."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

# Compiled where they are used, which is where a mistake or a person asks for a line: that takes longer than to look for a file.
_KEY = r"""(?:"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[A-Za-z0-9_.\- \t])+"""
_BETWEEN = r"(?:[ \t\n]|#[^\n]*)*"
_HEADER = rf"\[\[?({_KEY})\]\]?"
_ASSIGNMENT = rf"({_KEY})="
_VALUE_TOKEN = (
    r'''"""(?:\\[\s\S]|[^\\])*?"{3,5}|\'\'\'[\s\S]*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*|[\[\]{}\n]|[^"'#\[\]{}\n]+'''
)


def loads(text: str) -> dict[str, Any]:
    """The document that `text` is; what is wrong with it is a ValueError or a RecursionError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line on which each key of a valid document first stands, apart from keys in braces."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    header_pattern, assignment = re.compile(_HEADER), re.compile(_ASSIGNMENT)
    between = re.compile(_BETWEEN)
    line, counted, position = 1, 0, _end(between, text, 0)
    while position < len(text):
        line, counted = line + text.count("\n", counted, position), position
        header = header_pattern.match(text, position)
        if header:
            key = table = _parts(header[1])
            position = header.end()
        else:
            end = _end(assignment, text, position)
            key = table + _parts(text[position : end - 1])
            position = _value_end(text, end)
        for length in range(1, len(key) + 1):
            lines.setdefault(key[:length], line)
        position = _end(between, text, position)
    return lines


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else len(text)


def _value_end(text: str, position: int) -> int:
    depth = 0
    for token in re.compile(_VALUE_TOKEN).finditer(text, position):
        depth += (token[0] in ("[", "{")) - (token[0] in ("]", "}"))
        if token[0] == "\n" and depth <= 0:
            return token.end()
    return len(text)


def _parts(key: str) -> tuple[str, ...]:
    """The parts of a dotted key. TOML's own reader takes off the quotes."""
    parts: list[str] = []
    value: Any = loads(f"{key} = 0")
    while isinstance(value, dict):
        ((part, value),) = value.items()
        parts.append(part)
    return tuple(parts)


def quoted(text: str) -> str:
    """`text` as a string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in escaped) + '"'


def quoted_key(key: str) -> str:
    """`key` as a part of a key of TOML."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quoted(key)


def dotted(keys: Iterable[str]) -> str:
    """`keys` as one key of TOML."""
    return ".".join(map(quoted_key, keys))

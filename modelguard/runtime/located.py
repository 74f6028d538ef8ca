"""Findings that running a model gives: their place in its source, and whether somebody suppressed them there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from modelguard.errors import ModelguardError
from modelguard.findings import Finding, Frame, Location, Severity
from modelguard.rules.base import Rule
from modelguard.scan.files import decode, read_source
from modelguard.suppressions import read


def located(
    rule: type[Rule],
    message: str,
    stack: Sequence[Mapping[str, Any]],
    *,
    help: str,
    attribute: str | None = None,
    class_name: str | None = None,
    severity: Severity | None = None,
) -> Finding:
    """A finding at the last frame of a stack, as processes that run targets tell them (`path`, `line`, `function`)."""
    place: Mapping[str, Any] = stack[-1] if stack else {"path": "", "line": 1, "function": ""}
    path = shown_path(place["path"])
    source = _line(path, place["line"])
    start = len(source) - len(source.lstrip()) + 1
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=severity or rule.severity,
        message=message,
        location=Location(path, place["line"], start, place["line"], max(start, len(source.rstrip()) + 1)),
        source_line=source,
        class_name=class_name,
        attribute=attribute,
        chain=tuple(Frame(frame["function"], shown_path(frame["path"]), frame["line"]) for frame in stack[:-1]),
        evidence=(rule.evidence,),
        help=help,
    )


def shown_path(path: str) -> str:
    """A path as the scan spells it: relative where it lies below the current directory."""
    below = os.path.realpath(os.curdir) + os.sep
    return os.path.relpath(path) if path and os.path.realpath(path).startswith(below) else path


def is_suppressed(path: str, line: int, code: str | None = None) -> bool:
    """Whether a comment covers a line, for a code if one is given."""
    return any(each.covers(line) and (code is None or _names(each.codes, code)) for each in read(_text(path)))


def _names(codes: Sequence[str], code: str) -> bool:
    return any(code.startswith(each.upper()) for each in codes)


def _line(path: str, line: int) -> str:
    lines = _text(path).splitlines()
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _text(path: str) -> str:
    try:
        return decode(read_source(path), path)
    except ModelguardError:
        return ""

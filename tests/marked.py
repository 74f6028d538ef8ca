"""Sources that say themselves what a scan must report: `code  # <- MG101 error self.mean`, several separated by `;`.

What has no attribute is told without one: `code  # <- MG201 warning`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from textwrap import dedent, indent
from typing import NamedTuple

from modelguard.findings import Finding

_MARK = re.compile(r"[ \t]*# <- (.*)$", re.MULTILINE)

IMPORTS = """\
import collections
import contextlib
import functools
import heapq
import operator

import torch
import torch.nn.functional as F
from torch import nn
"""

NET = """
class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("scale", torch.ones(width))
        self.n = 0

    def forward(self, x):
        return x * self.scale

    def rescale(self, x):
        self.scale.copy_(x.amax(0))


class Net(nn.Module):
    def __init__(self, width=4, config=None):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.weight = nn.Parameter(torch.zeros(width))
        self.anchor = torch.zeros(width)
        self.mask = None
        self.n = 0
        self.ready = False
        self.history = []
        self.cache = {}
        self.seen = set()
        self.window = collections.deque(maxlen=4)
        self.proj = nn.Linear(width, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))
        self.config = config
"""


class Expected(NamedTuple):
    """One finding, as a table can name it."""

    line: int
    code: str
    severity: str
    attribute: str | None


class Marked(NamedTuple):
    """A source without its marks, and what they said."""

    text: str
    expected: list[Expected]


def read(marked: str) -> Marked:
    """Take the marks out of a source: names in a comment must not help the scan."""
    expected = []
    for number, line in enumerate(marked.split("\n"), 1):
        found = _MARK.search(line)
        for each in found[1].split(";") if found else ():
            code, severity, *attribute = each.split()
            expected.append(Expected(number, code, severity, attribute[0] if attribute else None))
    return Marked(_MARK.sub("", marked), sorted(expected, key=_order))


def in_net(methods: str, before: str = "", init: str = "") -> str:
    """A module with class `Net`, which has state of every kind: `init` adds to its constructor, `methods` to the class."""
    constructor = indent(dedent(init).strip("\n"), " " * 8)
    return f"{IMPORTS}\n{dedent(before)}\n{NET}{constructor}\n\n{indent(dedent(methods).strip(), ' ' * 4)}\n"


def whole(source: str) -> str:
    """A module with classes of its own."""
    return f"{IMPORTS}\n{dedent(source).strip()}\n"


def shown(findings: Iterable[Finding]) -> list[Expected]:
    """Findings as a table names them."""
    return sorted((Expected(f.location.line, f.code, f.severity.value, f.attribute) for f in findings), key=_order)


def _order(expected: Expected) -> tuple[int, str, str, str]:
    return (expected.line, expected.code, expected.severity, expected.attribute or "")

"""Whatever a file holds: repaired, it is still Python, has no finding that it had not, and is left alone by a second run."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelguard.cli import fixing
from modelguard.findings import ScanReport, Severity
from modelguard.scan.engine import scan_source

HEAD = """\
from torch import nn
import torch as th, torch


class Base(nn.Module):
    def __init__(self): super().__init__(); self.total = 0; self.register_buffer("seen", torch.zeros(()))


class Net(Base):
    def __init__(self):
        super().__init__()
        self.n = self.m = 0
        self.k: int = 3  # counted
        self.register_buffer("b", torch.zeros(4))
        self.register_buffer("c", torch.ones(4).double())
        self.d = nn.Buffer(torch.zeros(4))
        self.rows = torch.zeros(4)

"""
STATEMENTS = (
    *(
        "self.b = self.b + 1",
        "self.c = self.c * 0.5;",
        "self.b = (\n  self.b  # kept\n  + 1\n)",
        "self.b = \\\n  self.b + \\\n    1",
    ),
    *(
        "self.b = self.b + 1; self.k += 1; x = x + 1",
        "\\\nself.k += 1",
        "self.k -= x.shape[0]  # modelguard: ignore[MG104] known",
    ),
    *(
        "self.k = (self.k + 1) % 8",
        "self.total += 1",
        "self.total = self.total * 2",
        "self.n += 1",
        "self.seen = self.seen + 1",
        "self.d = -self.d",
    ),
    *(
        "self.c = self.c.to(x.device)\nx = x + self.c",
        "self.c, self.b = self.c.half(), self.b.half()",
        "x = x * self.c",
        "y = self.b",
    ),
    *(
        "self.rows = self.rows.to(x)\nx = [self.rows[i] for i in x]",
        "if x is None: self.k += 1; self.b = self.b + 1",
        "x = f'{self.b}'",
    ),
    *(
        "for self.k in x:\n  self.b = self.b + 1",
        "with x as y, \\\n    x:\n  self.c = self.c.to(x); x = self.c",
        "x = 'é😀'; self.k += 1",
    ),
    *(
        "if not hasattr(self, 'late'):\n  self.register_buffer('late', torch.ones(4))",
        "self.register_buffer('other', torch.ones(self.k))",
    ),
    *(
        "# modelguard: ignore[MG101] gone",
        "x = x  # noqa: MG104, E501 # modelguard: ignore[MG105, MG101]",
        "# modelguard: ignore-file[MG110]",
    ),
    *(
        "def inner(): self.k += 1; return self.b\nx = inner()",
        "@th.no_grad()\ndef inner():\n  self.b = self.b * self.b\ninner()",
        "\fself.k += 1",
    ),
    *(
        "x = (lambda: self.k)()",
        "self.c = self.c.double() if x is None else None",
        "self.c = torch.roll(self.c, 1, 0)  \t",
        "pass",
    ),
)
BODIES = st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=6)


def module(statements: list[str], end: str, indentation: str, last: str) -> str:
    """A file whose `forward` holds the statements."""
    lines = [line.replace("  ", indentation) for statement in statements for line in statement.split("\n")]
    body = "".join(f"{indentation * 2}{line}\n" for line in [*lines, "return x"]).replace(
        f"{indentation * 2}\f", f"\f{indentation * 2}"
    )
    return (HEAD.replace("    ", indentation) + f"{indentation}def forward(self, x):\n{body}{last}").replace("\n", end)


def scan(texts: Mapping[str, bytes]) -> ScanReport:
    return scan_source(texts["net.py"], "net.py")


def serious(report: ScanReport) -> set[str | None]:
    """What has a finding; by which rule may change with what is known of a type."""
    return {finding.attribute for finding in report.findings if finding.severity.at_least(Severity.WARNING)}


def others(source: bytes) -> list[str]:
    """The comments of others."""
    text = source.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    found = [token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT]
    return [comment for comment in found if "modelguard" not in comment and "noqa" not in comment]


@settings(deadline=None, max_examples=150)
@given(
    BODIES,
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["    ", "\t", "  "]),
    st.sampled_from(["", "\n\n", "# modelguard: ignore[MG101]", "x = 1"]),
    st.booleans(),
    st.booleans(),
)
def test_a_repaired_file(statements: list[str], end: str, indentation: str, last: str, bom: bool, unsafe: bool) -> None:
    source = ("\ufeff" * bom + module(statements, end, indentation, last)).encode()
    before = scan({"net.py": source})
    files, told, after = fixing.repair(before, scan, unsafe, {"net.py": source})
    assert told == []
    for file in files:
        compile(file.content, "net.py", "exec")
        assert serious(after) <= serious(before)
        assert fixing.repair(after, scan, unsafe, {"net.py": file.content})[:2] == ([], [])
        assert file.repaired > 0
        assert others(source) == others(file.content)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_stands_in_a_file_that_is_python(statement: str) -> None:
    compile(module([statement], "\n", "    ", ""), "net.py", "exec")

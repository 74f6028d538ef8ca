"""Which findings have a fix, what it makes of the source, and how safe it is said to be."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap

import pytest

from modelguard import fixes
from modelguard.findings import Applicability, Finding, Fix, Severity
from modelguard.scan.engine import scan_source

SAFE, UNSAFE = Applicability.SAFE, Applicability.UNSAFE

HEAD = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("table", torch.ones(4).double(), persistent=False)
        self.rows = torch.rand(4)
        self.count = 0
        self.ratio = 0.9

"""


def offered(source: str) -> list[tuple[Finding, Fix]]:
    """The findings of a source that have a fix."""
    found = [(finding, fixes.fix_for(finding, source)) for finding in scan_source(source, "net.py").findings]
    for finding, fix in found:
        assert fixes.applicability_of(finding, source) == (fix.applicability if fix else None)
    return [(finding, fix) for finding, fix in found if fix is not None]


def module(*parts: str) -> str:
    """A module whose methods are `parts`."""
    return HEAD + "\n".join(textwrap.indent(textwrap.dedent(part).strip("\n"), "    ") + "\n" for part in parts)


def repaired(source: str) -> tuple[str, set[Applicability]]:
    """The source with all that can be repaired at once, and how safe that was."""
    found = [fix for _, fix in offered(source)]
    allowed = fixes.compatible(found)
    edits = [edit for fix, is_allowed in zip(found, allowed, strict=True) if is_allowed for edit in fix.edits]
    return fixes.apply(source, edits), {fix.applicability for fix in found}


@pytest.mark.parametrize(
    ("forward", "expected", "applicability"),
    [
        pytest.param(
            "def forward(self, x):\n    self.mean = self.mean + 1  # count\n    return x + self.mean",
            "def forward(self, x):\n    self.mean.copy_(self.mean + 1)  # count\n    return x + self.mean",
            SAFE,
            id="in-place",
        ),
        pytest.param(
            "def forward(self, x):\n    self.mean = (  # slowly\n        self.mean * self.ratio  # decay\n    )\n    return x",
            "def forward(self, x):\n    self.mean.copy_(  # slowly\n        self.mean * self.ratio  # decay\n    )\n    return x",
            SAFE,
            id="brackets-and-comments-stay",
        ),
        pytest.param(
            "def forward(self, x):\n    self.mean = \\\n        self.mean + \\\n        1\n    return x",
            "def forward(self, x):\n    self.mean.copy_(self.mean + \\\n        1)\n    return x",
            SAFE,
            id="backslashes",
        ),
        pytest.param(
            "def forward(self, x): self.mean = self.mean * 0.5; return x",
            "def forward(self, x): self.mean.copy_(self.mean * 0.5); return x",
            SAFE,
            id="one-line",
        ),
        pytest.param(
            "@torch.no_grad()\ndef forward(self, x):\n    self.mean = torch.roll(self.mean, 1, 0)\n    return x * self.mean",
            "@torch.no_grad()\ndef forward(self, x):\n    self.mean.copy_(torch.roll(self.mean, 1, 0))\n    return x * self.mean",
            SAFE,
            id="no-gradients-no-risk",
        ),
        pytest.param(
            "def forward(self, x):\n    def bump():\n    \tself.mean = self.mean + 1\n    bump()\n    return x",
            "def forward(self, x):\n    def bump():\n    \tself.mean.copy_(self.mean + 1)\n    bump()\n    return x",
            SAFE,
            id="nested-function-with-tabs",
        ),
        pytest.param(
            "def forward(self, x):\n    self.mean = self.ratio * self.mean + 0.1 * x.mean(0)\n    return x",
            "def forward(self, x):\n    self.mean.copy_(self.ratio * self.mean + 0.1 * x.mean(0))\n    return x",
            UNSAFE,
            id="the-shape-may-differ",
        ),
        pytest.param(
            "def forward(self, x):\n    self.mean = self.mean + 1\n    return x * self.mean",
            "def forward(self, x):\n    self.mean.copy_(self.mean + 1)\n    return x * self.mean",
            UNSAFE,
            id="kept-for-backward",
        ),
        pytest.param(
            "def forward(self, x):\n    self.mean = self.mean + 1\n    return self.mean",
            "def forward(self, x):\n    self.mean.copy_(self.mean + 1)\n    return self.mean",
            UNSAFE,
            id="handed-out",
        ),
        pytest.param(
            "def forward(self, x):\n    self.table = self.table.to(x.device)\n    return x + self.table",
            "def forward(self, x):\n    table = self.table.to(x.device)\n    return x + table",
            SAFE,
            id="cast-to-a-device",
        ),
        pytest.param(
            "def forward(self, x):\n    self.table = self.table.half()\n    return self.table[0] + (lambda: x * self.table)()",
            "def forward(self, x):\n    table = self.table.half()\n    return table[0] + (lambda: x * table)()",
            SAFE,
            id="cast-to-a-dtype",
        ),
        pytest.param(
            "def forward(self, x):\n    self.table = self.table.to(x.dtype)\n    return x + self.table",
            "def forward(self, x):\n    table = self.table.to(x.dtype)\n    return x + table",
            UNSAFE,
            id="cast-that-follows-the-input",
        ),
        pytest.param(
            "def forward(self, x):\n    self.table, self.mean = self.table.to(x), self.mean.to(x)\n    x = x * self.table\n"
            "    return x + self.mean",
            "def forward(self, x):\n    table, mean = self.table.to(x), self.mean.to(x)\n    x = x * table\n    return x + mean",
            UNSAFE,
            id="casts-in-a-tuple",
        ),
        pytest.param(
            "def forward(self, x, table):\n    self.table = self.table.double()\n    return table + self.table",
            "def forward(self, x, table):\n    table_ = self.table.double()\n    return table + table_",
            SAFE,
            id="a-name-that-is-taken",
        ),
        pytest.param(
            "def forward(self, x):\n    self.rows = self.rows.to(x.device)\n    return x + self.rows",
            "def forward(self, x):\n    rows = self.rows.to(x.device)\n    return x + rows",
            UNSAFE,
            id="a-plain-tensor-is-copied-again",
        ),
        pytest.param(
            "def forward(self, x):\n    self.rows = self.rows.half()\n    return x + self.rows",
            "def forward(self, x):\n    rows = self.rows.half()\n    return x + rows",
            SAFE,
            id="a-plain-tensor",
        ),
    ],
)
def test_fix(forward: str, expected: str, applicability: Applicability) -> None:
    changed, how_safe = repaired(module(forward))
    assert changed == module(expected)
    assert how_safe == {applicability}
    assert repaired(changed) == (changed, set())
    assert [f.code for f in scan_source(changed, "net.py").findings if f.severity.at_least(Severity.WARNING)] == []


@pytest.mark.parametrize(
    ("statement", "others"),
    [
        pytest.param("self.mean = self.mean + 1", "def get(self):\n    return self.mean", id="getter"),
        pytest.param("self.mean = self.mean + 1", "def view(self):\n    first = self.mean[0]", id="view"),
        pytest.param("self.mean = self.mean + 1", "def reset(self, other):\n    self.mean = other", id="bound-elsewhere"),
        pytest.param("self.mean = self.mean + 1", "def read(self):\n    return getattr(self, 'mean') + 1", id="by-its-name"),
        pytest.param("self.mean = self.mean + 1", "def read(self):\n    return list(self.buffers())", id="all-buffers"),
        pytest.param("self.mean = self.mean + 1", "def __setattr__(self, name, value):\n    pass", id="own-attributes"),
        pytest.param("self.table = self.table.half()", "def read(self):\n    return self.table.sum()", id="cast-read-elsewhere"),
    ],
)
def test_other_methods_make_a_fix_unsafe(statement: str, others: str) -> None:
    forward = f"def forward(self, x):\n    {statement}\n    return x + self.mean + self.table"
    assert [fix.applicability for _, fix in offered(module(forward))] == [SAFE]
    assert [fix.applicability for _, fix in offered(module(forward, others))] == [UNSAFE]


def test_a_base_elsewhere_makes_a_fix_unsafe() -> None:
    source = module("def forward(self, x):\n    self.mean = self.mean + 1\n    return x")
    assert [fix.applicability for _, fix in offered(source)] == [SAFE]
    mixed = source.replace("class Net(nn.Module)", "class Net(Mixin, nn.Module)").replace(
        "import torch\n", "import torch\nfrom a import Mixin\n", 1
    )
    assert [fix.applicability for _, fix in offered(mixed)] == [UNSAFE]


def test_another_class_with_an_attribute_of_that_name_does_not() -> None:
    source = module("def forward(self, x):\n    self.mean = self.mean + 1\n    return x")
    other = "\n\nclass Other(nn.Module):\n    def forward(self, x):\n        return self.mean\n"
    assert [fix.applicability for _, fix in offered(source + other)] == [SAFE]
    assert [fix.applicability for _, fix in offered(source + other.replace("nn.Module", "Net"))] == [UNSAFE]
    assert [fix.applicability for _, fix in offered(source + other.replace("return self.mean", "return x.mean"))] == [UNSAFE]


def test_an_unsafe_fix_says_why() -> None:
    ((_, fix),) = offered(module("def forward(self, x):\n    self.mean = self.mean + 1\n    return x * self.mean"))
    assert fix.message == "write into `self.mean` in place: autograd may have kept the tensor that was there for a backward pass"


@pytest.mark.parametrize(
    "forward",
    [
        pytest.param("self.mean = torch.cat([self.mean, x])\nreturn x", id="grows"),
        pytest.param("self.mean = self.mean[1:]\nreturn x", id="shrinks"),
        pytest.param("self.mean = self.grown(x)\nreturn x", id="whatever-a-method-gives"),
        pytest.param("self.mean = x\nreturn x", id="an-input"),
        pytest.param("self.mean = None\nreturn x", id="none"),
        pytest.param("setattr(self, 'mean', self.mean + 1)\nreturn x", id="setattr"),
        pytest.param("y = self.mean = self.mean + 1\nreturn x", id="several-targets"),
        pytest.param("self.table = self.table.to(x)\nreturn x", id="cast-for-others"),
        pytest.param("if x.sum() > 0:\n    self.table = self.table.to(x)\nreturn x + self.table", id="cast-on-one-way"),
        pytest.param("for _ in x:\n    self.table = self.table.to(x)\n    x = x + self.table\nreturn x", id="cast-in-a-loop"),
        pytest.param("self.table = self.table.to(x)\nself.table[0] = 1\nreturn x", id="cast-then-written"),
        pytest.param("self.table = self.table.to(x)\nself.table.add_(1)\nreturn x", id="cast-then-written-in-place"),
        pytest.param("self.count += 1\nreturn x[: self.count]", id="counter-in-a-slice"),
        pytest.param("self.count += 1\nreturn x if self.count > 3 else -x", id="counter-that-decides"),
        pytest.param("self.count += 0.5\nreturn x", id="no-whole-number"),
        pytest.param("self.count = x.shape[0]\nreturn x + self.count", id="no-counter"),
        pytest.param("self.ratio += 1\nreturn x + self.ratio", id="counter-of-floats"),
        pytest.param("self.last = x\nreturn x", id="kept-for-others"),
    ],
)
def test_no_fix(forward: str) -> None:
    source = module("def forward(self, x):\n" + textwrap.indent(forward, "    "))
    assert [f.code for f in scan_source(source, "net.py").findings] != []
    assert offered(source) == []


@pytest.mark.parametrize(
    "registration",
    [
        pytest.param("", id="elsewhere"),
        pytest.param('        self.register_buffer("mean", None)\n', id="none-at-first"),
        pytest.param('        self.register_buffer("mean", a)\n        self.register_buffer("mean", b)\n', id="twice"),
    ],
)
def test_no_fix_without_the_one_registration(registration: str) -> None:
    source = module("def forward(self, x):\n    self.mean = self.mean + 1\n    return x")
    line = re.search(r'.*register_buffer\("mean".*\n', source)
    assert line is not None
    changed = source.replace(line.group(), registration)
    assert [fix for finding, fix in offered(changed) if finding.attribute == "self.mean"] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("self.count += 1", "self.count.add_(1)", id="add"),
        pytest.param("self.count -= x.shape[0]", "self.count.sub_(x.shape[0])", id="sub"),
        pytest.param("self.count = self.count + 1", "self.count.copy_(self.count + 1)", id="assigned"),
        pytest.param("self.count = (self.count + 1) % 8", "self.count.copy_((self.count + 1) % 8)", id="modulo"),
    ],
)
def test_counter(before: str, after: str) -> None:
    reset = "def reset(self):\n    self.count = 0"
    forward = "def forward(self, x):\n    {}\n    return x * self.count"
    expected = module(reset.replace("= 0", "").replace("self.count ", "self.count.fill_(0)"), forward.format(after))
    expected = expected.replace(
        "        self.count = 0\n", '        self.register_buffer("count", torch.tensor(0), persistent=False)\n'
    )
    assert repaired(module(reset, forward.format(before))) == (expected, {UNSAFE})


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        pytest.param("from torch import nn", "import torch\nfrom torch import nn", id="added"),
        pytest.param("import torch as th\nfrom torch import nn", None, id="another-name"),
        pytest.param("import torch.nn\nfrom torch import nn", None, id="by-a-submodule"),
        pytest.param("import torch.nn as nn", "import torch\nimport torch.nn as nn", id="submodule-renamed"),
    ],
)
def test_a_counter_needs_torch(imports: str, expected: str | None) -> None:
    source = f"{imports}\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__(); self.n: int = 2\n"
    source += "    def forward(self, x):\n        self.n += 1\n        return x\n"
    name = "th" if " as th" in imports else "torch"
    wanted = source.replace(imports, expected or imports).replace("self.n += 1", "self.n.add_(1)")
    wanted = wanted.replace("self.n: int = 2", f'self.register_buffer("n", {name}.tensor(2), persistent=False)')
    assert repaired(source)[0] == wanted


MOVED = """\
import torch
from torch import nn


class Masked(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
{0}
    def forward(self, x):
{1}        return x + self.mask
"""
REGISTER = 'self.register_buffer("mask", torch.ones(self.size).tril(), persistent=False)'


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(f"        {REGISTER}\n", id="always"),
        pytest.param(f"        if not hasattr(self, 'mask'):\n            {REGISTER}\n", id="once"),
    ],
)
def test_registration_moves_to_init(lines: str) -> None:
    source = MOVED.format("", lines)
    assert repaired(source) == (MOVED.format(f"        {REGISTER}\n", ""), {UNSAFE})


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(f"        {REGISTER.replace('self.size', 'x.shape[0]')}\n", id="made-of-the-input"),
        pytest.param(f"        y = 1\n        {REGISTER.replace('self.size', 'y')}\n", id="made-of-a-local"),
        pytest.param(f"        {REGISTER.replace('self.size', 'self.width')}\n", id="made-of-what-is-not-there-yet"),
        pytest.param(
            f"        if not hasattr(self, 'mask'):\n            {REGISTER}\n            x = x + 1\n", id="more-is-done"
        ),
        pytest.param(
            f"        if not hasattr(self, 'mask'):\n            # once\n            {REGISTER}\n", id="a-comment-would-be-lost"
        ),
    ],
)
def test_registration_stays(lines: str) -> None:
    assert offered(MOVED.format("", lines)) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("y = x  # modelguard: ignore[MG104] why, see #12", "y = x", id="behind-code"),
        pytest.param("y = x  # modelguard: ignore[MG104] why  # type: ignore", "y = x  # type: ignore", id="another-tool-behind"),
        pytest.param("y = x  # type: ignore # modelguard: ignore[MG104]", "y = x  # type: ignore", id="another-tool-before"),
        pytest.param("y = x  # noqa: E501, MG104 because", "y = x  # noqa: E501 because", id="noqa-of-several"),
        pytest.param("y = x  # noqa: MG104 because", "y = x", id="noqa"),
        pytest.param(
            "self.n += 1  # modelguard: ignore[MG105, MG104] why", "self.n += 1  # modelguard: ignore[MG104] why", id="one-of-two"
        ),
        pytest.param(
            "self.n += 1  # modelguard: ignore[ MG104 , MG105 ]", "self.n += 1  # modelguard: ignore[ MG104]", id="spaces"
        ),
        pytest.param(
            "self.n += 1  # modelguard: ignore[MG104, MG1O5, MG105]",
            "self.n += 1  # modelguard: ignore[MG104, MG1O5]",
            id="unknown-stays",
        ),
        pytest.param("y = '#'  # modelguard: ignore[MG104]", "y = '#'", id="number-sign-in-a-string"),
        pytest.param("# modelguard: ignore[MG104] why\n        y = x", "y = x", id="line-of-its-own"),
        pytest.param("y = x  # noqa: MG101 ## modelguard: ignore[MG104]", "y = x", id="two-in-one"),
    ],
)
def test_unused_suppressions_go(line: str, expected: str) -> None:
    source = (
        "from torch import nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.n = 0\n"
    )
    source += "    def forward(self, x):\n        {}\n        return x\n"
    changed = source.format(line)
    while any(finding.code == "MG902" for finding, _ in offered(changed)):
        changed, how_safe = repaired(changed)
        assert how_safe == {SAFE}
    assert changed == source.format(expected)


def test_a_comment_at_the_end_of_a_file_without_a_line_end() -> None:
    source = "import torch\n# modelguard: ignore[MG104] nothing below"
    assert repaired(source) == ("import torch\n", {SAFE})


def test_a_misplaced_comment_stays() -> None:
    assert offered("import torch  # modelguard: ignore-file[MG104]\n") == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks_stay(end: str, bom: str) -> None:
    source = module(
        "def forward(self, x):\n    é = '😀'; self.mean = (self.mean +\n        1)\n    self.count += 1\n    return x"
    )
    changed, _ = repaired(bom + source.replace("\n", end))
    assert changed == bom + repaired(source)[0].replace("\n", end)
    assert "self.mean.copy_(self.mean +" in changed and 'register_buffer("count"' in changed


def test_text_that_has_changed_since() -> None:
    source = module("def forward(self, x):\n    self.mean = self.mean + 1\n    return x")
    ((finding, _),) = offered(source)
    for other in (source.replace("+ 1", "+ 2"), "\n" + source, "", "not Python ("):
        assert fixes.fix_for(finding, other) is None
        assert fixes.applicability_of(finding, other) is None


def test_libcst_is_imported_for_edits_alone() -> None:
    source = module("def forward(self, x):\n    self.mean = self.mean + 1\n    return x")
    code = "\n".join(
        (
            "import sys",
            "from modelguard import fixes",
            "from modelguard.scan.engine import scan_source",
            f"source = {source!r}",
            "finding, = scan_source(source, 'net.py').findings",
            "assert fixes.applicability_of(finding, source) is not None and 'libcst' not in sys.modules",
            "assert fixes.fix_for(finding, source) is not None and 'libcst' in sys.modules",
            "assert 'torch' not in sys.modules",
        )
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("line", "applicability"),
    [
        pytest.param("self.size = self.table.shape[0]", SAFE, id="read-at-once"),
        pytest.param("self.size = lambda: self.table.shape[0]", UNSAFE, id="read-later"),
    ],
)
def test_what_init_reads(line: str, applicability: Applicability) -> None:
    source = module("def forward(self, x):\n    self.table = self.table.half()\n    return x + self.table")
    source = source.replace("        self.ratio = 0.9\n", f"        {line}\n")
    assert [fix.applicability for _, fix in offered(source)] == [applicability]


@pytest.mark.parametrize(
    ("context", "applicability"),
    [
        pytest.param("torch.no_grad()", SAFE, id="no-grad"),
        pytest.param("torch.inference_mode()", SAFE, id="inference-mode"),
        pytest.param("torch.inference_mode(False)", UNSAFE, id="no-inference-mode"),
        pytest.param("torch.inference_mode(mode=False)", UNSAFE, id="no-inference-mode-by-name"),
        pytest.param("torch.enable_grad()", UNSAFE, id="enable-grad"),
        pytest.param("torch.no_grad(), torch.enable_grad()", UNSAFE, id="both"),
        pytest.param("open(x)", UNSAFE, id="something-else"),
    ],
)
def test_where_gradients_are_off(context: str, applicability: Applicability) -> None:
    forward = f"def forward(self, x):\n    self.mean = self.mean + 1\n    with {context}:\n        return x * self.mean"
    assert [fix.applicability for _, fix in offered(module(forward))] == [applicability]

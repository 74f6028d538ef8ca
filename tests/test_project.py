"""Classes and helpers in other files: what a name means, whose state is written, and how often a write is reported."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from marked import read, whole

from modelguard.findings import ScanReport
from modelguard.scan.engine import scan_paths

Files = dict[str, str]
Found = list[tuple[str, int, str, str, str | None]]

BASE = whole("""
    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
""")

STEPPING = whole("""
    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def step(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
""")


def net(imports: str, base: str = "Base") -> str:
    """A file with a module class whose `forward` rebinds what its base, from elsewhere, declares as a buffer."""
    return f"""\
{imports}


class Net({base}):
    def forward(self, x):
        self.mean = x  # <- MG101 error self.mean
        return x
"""


def caller(imports: str, name: str = "Net", base: str = "Base") -> str:
    """A file with a module class whose `forward` calls what its base, from elsewhere, does."""
    return f"{imports}\n\n\nclass {name}({base}):\n    def forward(self, x):\n        return self.step(x)\n"


def write(root: Path, files: Files) -> Found:
    """Write the files below `root`; what a scan must report, by their marks."""
    expected = []
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        source = read(text)
        path.write_text(source.text, encoding="utf-8")
        expected += [(name, *each) for each in source.expected]
    return sorted(expected)


def found(report: ScanReport, root: Path) -> Found:
    return sorted(
        (
            os.path.relpath(f.location.path, root).replace(os.sep, "/"),
            f.location.line,
            f.code,
            f.severity.value,
            f.attribute,
        )
        for f in report.findings
    )


IMPORTS: dict[str, Files] = {
    "relative": {"pkg/__init__.py": "", "pkg/base.py": BASE, "pkg/net.py": net("from .base import Base")},
    "relative-module": {"pkg/__init__.py": "", "pkg/base.py": BASE, "pkg/net.py": net("from . import base", "base.Base")},
    "parent": {
        "pkg/__init__.py": "",
        "pkg/base.py": BASE,
        "pkg/deep/__init__.py": "",
        "pkg/deep/net.py": net("from ..base import Base"),
    },
    "absolute": {"pkg/__init__.py": "", "pkg/base.py": BASE, "pkg/net.py": net("from pkg.base import Base")},
    "absolute-module": {"pkg/__init__.py": "", "pkg/base.py": BASE, "pkg/net.py": net("import pkg.base", "pkg.base.Base")},
    "module-under-another-name": {
        "pkg/__init__.py": "",
        "pkg/base.py": BASE,
        "pkg/net.py": net("import pkg.base as foundation", "foundation.Base"),
    },
    "class-under-another-name": {
        "pkg/__init__.py": "",
        "pkg/base.py": BASE,
        "pkg/net.py": net("from .base import Base as Root", "Root"),
    },
    "module-imported-from-its-package": {
        "pkg/__init__.py": "",
        "pkg/base.py": BASE,
        "net.py": net("from pkg import base", "base.Base"),
    },
    "star": {"pkg/__init__.py": "", "pkg/base.py": BASE, "pkg/net.py": net("from .base import *")},
    "exported-again": {"pkg/__init__.py": "from .base import Base\n", "pkg/base.py": BASE, "net.py": net("from pkg import Base")},
    "exported-again-by-star": {
        "pkg/__init__.py": "from .base import *\n",
        "pkg/base.py": BASE,
        "net.py": net("import pkg", "pkg.Base"),
    },
    "exported-twice": {
        "pkg/__init__.py": "from .inner import Base as Root\n",
        "pkg/inner/__init__.py": "from .base import Base\n",
        "pkg/inner/base.py": BASE,
        "net.py": net("from pkg import Root", "Root"),
    },
    "assigned-another-name": {
        "base.py": BASE,
        "net.py": net("import base\n\nRoot = base.Base", "Root"),
    },
    "sibling-of-a-script": {"tools/base.py": BASE, "tools/net.py": net("from base import Base")},
    "package-beside-a-script": {
        "app/pkg/__init__.py": "",
        "app/pkg/base.py": BASE,
        "app/net.py": net("from pkg.base import Base"),
    },
    "namespace-package": {"space/base.py": BASE, "net.py": net("from space.base import Base")},
    "inside-try": {
        "base.py": BASE,
        "net.py": net("try:\n    from fast_base import Base\nexcept ImportError:\n    from base import Base"),
    },
    "inside-if": {
        "base.py": BASE,
        "net.py": net("import sys\n\nif sys.version_info >= (3, 8):\n    from base import Base"),
    },
    "base-in-a-try": {
        "base.py": "try:\n" + "".join(f"    {line}\n" for line in BASE.splitlines()) + "except ImportError:\n    Base = None\n",
        "net.py": net("from base import Base"),
    },
    "base-in-an-if": {
        "base.py": "if True:\n" + "".join(f"    {line}\n" for line in BASE.splitlines()) + "else:\n    Base = None\n",
        "net.py": net("from base import Base"),
    },
    "base-from-a-function": {
        "base.py": whole("""
            def make():
                class Base(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.register_buffer("mean", torch.zeros(4))

                    def forward(self, x):
                        self.mean = x  # <- MG101 error self.mean
                        return x

                return Base
        """),
    },
    "generic": {
        "base.py": BASE.replace("class Base(nn.Module)", "class Base(nn.Module, Generic[T])").replace(
            "import torch\n", "from typing import Generic, TypeVar\n\nimport torch\n\nT = TypeVar('T')\n", 1
        ),
        "net.py": net("from base import Base", "Base[int]"),
    },
    "own-name": {"base.py": BASE, "net.py": net("from base import Base as Net", "Net")},
    "long-way": {
        "a.py": BASE,
        "b.py": "from a import Base\n\n\nclass Middle(Base):\n    pass\n",
        "c.py": "from b import Middle\n\n\nclass Lower(Middle):\n    pass\n",
        "net.py": net("from c import Lower", "Lower"),
    },
    "mixin-elsewhere": {
        "mixin.py": """\
class Recording:
    def forward(self, x):
        self.last = x.detach()  # <- MG103 warning self.last
        return super().forward(x)
""",
        "net.py": "from torch import nn\n\nfrom mixin import Recording\n\n\nclass Net(Recording, nn.Linear):\n    pass\n",
    },
    "two-bases-with-one-ancestor": {
        "base.py": STEPPING,
        "left.py": "from base import Base\n\n\nclass Left(Base):\n    def forward(self, x):\n        return self.step(x)\n",
        "right.py": """\
from base import Base


class Right(Base):
    def step(self, x):
        self.last = x.detach()  # <- MG103 warning self.last
        return super().step(x)
""",
        "net.py": "from left import Left\nfrom right import Right\n\n\nclass Net(Left, Right):\n    pass\n",
    },
    "two-classes-of-one-name": {
        "a.py": BASE,
        "b.py": whole("""
            class Base(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.mean = 0
        """),
        "one.py": net("from a import Base"),
        "two.py": net("from b import Base").replace("self.mean = x  # <- MG101 error", "self.mean = 1  # <- MG104 warning"),
    },
    "cyclic-imports": {
        "a.py": "import b\n" + BASE,
        "b.py": "import a\n\n\nclass Middle(a.Base):\n    pass\n",
        "net.py": net("from b import Middle", "Middle"),
    },
    "module-of-the-same-name-as-its-class": {
        "pkg/__init__.py": "from .Base import Base\n",
        "pkg/Base.py": BASE,
        "net.py": net("from pkg import Base"),
    },
}


@pytest.mark.parametrize("files", IMPORTS.values(), ids=list(IMPORTS))
def test_a_base_is_found(tmp_path: Path, files: Files) -> None:
    expected = write(tmp_path, files)
    report = scan_paths([tmp_path])
    assert found(report, tmp_path) == expected != []
    assert report.diagnostics == ()


REGIONS: dict[str, Files] = {
    "inherited-method": {"base.py": STEPPING, "net.py": caller("from base import Base")},
    "helper-function": {
        "helpers.py": "def assign(net, value):\n    net.mean = value  # <- MG101 error self.mean\n",
        "net.py": BASE + "\n    def forward(self, x):\n        helpers.assign(self, x)\n        return x\n\nimport helpers\n",
    },
    "helper-function-that-hands-on": {
        "deep.py": "def write(module, value):\n    module.mean = value  # <- MG101 error self.mean\n",
        "helpers.py": "from deep import write\n\n\ndef assign(net, value):\n    write(net, value)\n",
        "net.py": f"from helpers import assign\n{BASE}\n    def forward(self, x):\n        assign(self, x)\n        return x\n",
    },
    "decorator": {
        "wrappers.py": """\
import functools


def recorded(forward):
    @functools.wraps(forward)
    def wrapper(self, *args, **kwargs):
        self.calls += 1  # <- MG104 warning self.calls
        return forward(self, *args, **kwargs)

    return wrapper
""",
        "net.py": whole("""
            from wrappers import recorded

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.calls = 0

                @recorded
                def forward(self, x):
                    return x
        """),
    },
    "child": {
        "codebook.py": whole("""
            class Codebook(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("codes", torch.zeros(4))

                def update(self, x):
                    self.codes = x  # <- MG101 error self.codes
        """),
        "net.py": whole("""
            from codebook import Codebook

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.codebook = Codebook()

                def forward(self, x):
                    self.codebook.update(x)
                    return x
        """),
    },
    "plain-object": {
        "meter.py": """\
class Meter:
    def __init__(self):
        self.calls = 0

    def tick(self):
        self.calls += 1  # <- MG112 error self.calls
        return self.calls
""",
        "net.py": whole("""
            from meter import Meter

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.meter = Meter()

                def forward(self, x):
                    return x / self.meter.tick()
        """),
    },
    "global-of-another-file": {
        "state.py": "STEPS = []\n\n\ndef note(x):\n    STEPS.append(x)  # <- MG111 warning STEPS\n",
        "net.py": whole("""
            import state

            class Net(nn.Module):
                def forward(self, x):
                    state.note(x)
                    return x
        """),
    },
    "attribute-of-another-module": {
        "state.py": "step = 0\n",
        "net.py": whole("""
            import state

            class Net(nn.Module):
                def forward(self, x):
                    state.step = state.step + 1  # <- MG111 error step
                    return x / state.step
        """),
    },
    "memoised": {
        "tables.py": "import functools\n\nimport torch\n\n\n@functools.lru_cache\ndef table(n):\n    return torch.arange(n)\n",
        "net.py": whole("""
            from tables import table

            class Net(nn.Module):
                def forward(self, x):
                    return x + table(8)  # <- MG114 error table
        """),
    },
}


@pytest.mark.parametrize("files", REGIONS.values(), ids=list(REGIONS))
def test_a_region_goes_on_in_another_file(tmp_path: Path, files: Files) -> None:
    expected = write(tmp_path, files)
    assert found(scan_paths([tmp_path]), tmp_path) == expected != []


CYCLES: dict[str, Files] = {
    "own-base": {"net.py": "class Net(Net):\n    def forward(self, x):\n        self.n = x\n        return x\n"},
    "two-classes": {
        "net.py": "class A(B):\n    def forward(self, x):\n        self.n = x\n        return x\n\n\nclass B(A):\n    pass\n"
    },
    "two-files": {
        "a.py": "from b import B\n\n\nclass A(B):\n    def forward(self, x):\n        self.n = x\n        return x\n",
        "b.py": "from a import A\n\n\nclass B(A):\n    pass\n",
    },
    "imports-in-a-circle": {"a.py": "from b import Base\n", "b.py": "from a import Base\n", "c.py": net("from a import Base")},
    "stars-in-a-circle": {"a.py": "from b import *\n", "b.py": "from a import *\n", "c.py": net("from a import *")},
    "name-that-means-itself": {"a.py": "Base = Base\n", "c.py": net("from a import Base")},
}


@pytest.mark.parametrize("files", CYCLES.values(), ids=list(CYCLES))
def test_a_circle_is_left_and_the_rest_is_scanned(tmp_path: Path, files: Files) -> None:
    write(tmp_path, files)
    expected = write(tmp_path / "sound", {"sound.py": net("from well import Base"), "well.py": BASE})
    assert found(scan_paths([tmp_path]), tmp_path / "sound") == expected


def test_a_module_in_a_cycle_is_still_a_module(tmp_path: Path) -> None:
    expected = write(
        tmp_path,
        {
            "net.py": whole("""
                class A(B, nn.Module):
                    def forward(self, x):
                        self.n = x  # <- MG103 warning self.n
                        return x

                class B(A):
                    pass
            """)
        },
    )
    assert found(scan_paths([tmp_path]), tmp_path) == expected


LAYOUT: Files = {
    "pkg/__init__.py": "",
    "pkg/core/__init__.py": "from .base import Base\n",
    "pkg/core/base.py": STEPPING,
    "pkg/models/__init__.py": "from .first import First\n",
    "pkg/models/first.py": caller("from ..core import Base", "First"),
    "pkg/models/second.py": caller("from pkg.core.base import Base", "Second"),
    "pkg/models/third.py": caller("from .first import First", "Third", "First"),
    "pkg/models/own.py": net("from pkg.core import Base"),
}


@pytest.mark.parametrize("scanned", ["", "pkg", "pkg/models", "pkg/models/own.py"])
def test_what_is_found_does_not_depend_on_where_the_scan_starts(tmp_path: Path, scanned: str) -> None:
    expected = [each for each in write(tmp_path, LAYOUT) if each[0].startswith(scanned)]
    assert found(scan_paths([tmp_path / scanned]), tmp_path) == expected != []


def test_a_base_outside_the_scan_is_read_and_not_reported(tmp_path: Path) -> None:
    write(tmp_path, LAYOUT)
    report = scan_paths([tmp_path / "pkg" / "models" / "second.py"])
    assert (report.findings, report.files, report.module_classes) == ((), 1, 1)


def test_what_is_found_does_not_depend_on_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = write(tmp_path, LAYOUT)
    monkeypatch.chdir(tmp_path / "pkg" / "models")
    assert found(scan_paths(["../.."]), Path.cwd().parent.parent) == expected
    assert found(scan_paths(["."]), Path.cwd()) == [("own.py", *each[1:]) for each in expected if each[0].endswith("own.py")]


def test_the_order_of_the_paths_does_not_matter(tmp_path: Path) -> None:
    write(tmp_path, LAYOUT)
    paths = [tmp_path / "pkg" / "core", tmp_path / "pkg" / "models" / "first.py", tmp_path / "pkg" / "models"]
    reports = [scan_paths(order).findings for order in itertools.permutations(paths)]
    assert reports[0] != ()
    assert [report for report in reports if report != reports[0]] == []


def test_a_write_in_a_base_is_reported_once_for_all_subclasses(tmp_path: Path) -> None:
    expected = write(
        tmp_path,
        {"base.py": STEPPING} | {f"net_{name}.py": caller("from base import Base", f"Net{name}") for name in "abcdefgh"},
    )
    report = scan_paths([tmp_path])
    assert found(report, tmp_path) == expected
    assert report.findings[0].class_name == "Base"
    assert sorted(report.findings[0].entry_points) == [f"Net{name}.forward" for name in "abcdefgh"]


def sharing(name: str, body: str) -> str:
    """A file with a module class that calls a helper of `helpers`, as others do."""
    return whole(f"""
        import helpers

        class Net{name}(nn.Module):
            def __init__(self):
                super().__init__()
                self.history = []
                self.anchor = torch.zeros(4)

            def forward(self, x):
                {body}
                return x
    """)


MANY = "abcdefghij"


def test_a_write_in_a_helper_lists_all_that_call_it(tmp_path: Path) -> None:
    helper = "def keep(net, value):\n    net.history.append(value)  # <- MG105 warning self.history\n"
    files = {f"net_{name}.py": sharing(name, "helpers.keep(self, x)") for name in MANY}
    expected = write(tmp_path, {"helpers.py": helper} | files)
    report = scan_paths([tmp_path])
    assert found(report, tmp_path) == expected
    assert sorted(report.findings[0].entry_points) == [f"Net{name}.forward" for name in MANY]


@pytest.mark.parametrize(
    ("helper", "body", "mark"),
    [
        ("return net.history", "x = sum(helpers.get(self) + [helpers.get(self).append(x)])", "MG105 error self.history"),
        ("return net.anchor * 2", "self.anchor = helpers.get(self)", "MG103 error self.anchor"),
        ("return len(net.history)", "self.steps = helpers.get(self)", "MG104 warning self.steps"),
        ("return net", "helpers.get(self).history.append(x)", "MG105 warning self.history"),
        ("return function(net)", "helpers.get(self, lambda net: net.history.clear())", "MG105 warning self.history"),
    ],
    ids=["state", "tensor", "number", "module", "call"],
)
def test_what_a_helper_hands_back_is_known_however_many_call_it(tmp_path: Path, helper: str, body: str, mark: str) -> None:
    files = {f"net_{name}.py": sharing(name, f"{body}  # <- {mark}") for name in MANY}
    expected = write(tmp_path, {"helpers.py": f"def get(net, function=None):\n    {helper}\n"} | files)
    assert found(scan_paths([tmp_path]), tmp_path) == expected


def test_the_type_in_a_subclass_decides(tmp_path: Path) -> None:
    expected = write(
        tmp_path,
        {
            "base.py": whole("""
                class Base(nn.Module):
                    def forward(self, x):
                        self.state += 1  # <- MG104 error self.state
                        return x + self.state
            """),
            "number.py": whole("""
                from base import Base

                class Number(Base):
                    def __init__(self):
                        super().__init__()
                        self.state = 0
            """),
        },
    )
    assert found(scan_paths([tmp_path]), tmp_path) == expected


def test_the_chain_of_calls_leads_from_the_entry_point_to_the_write(tmp_path: Path) -> None:
    files = {
        "helpers.py": "def update(net, value):\n    net.mean = value\n",
        "base.py": f"from helpers import update\n{BASE}\n    def step(self, x):\n        update(self, x)\n        return x\n",
        "net.py": caller("from base import Base"),
    }
    write(tmp_path, files)
    (finding,) = scan_paths([tmp_path]).findings
    chain = [(frame.function, os.path.relpath(frame.path, tmp_path), frame.line) for frame in finding.chain]
    assert chain == [
        ("Net.forward", "net.py", line_of(files["net.py"], "self.step(x)")),
        ("Base.step", "base.py", line_of(files["base.py"], "update(self, x)")),
    ]
    assert (os.path.relpath(finding.location.path, tmp_path), finding.location.line) == ("helpers.py", 2)
    assert (finding.attribute, finding.class_name, finding.entry_points) == ("self.mean", "Base", ("Net.forward",))


def test_a_write_in_the_entry_point_itself_has_no_chain(tmp_path: Path) -> None:
    write(tmp_path, {"base.py": BASE, "net.py": net("from base import Base")})
    (finding,) = scan_paths([tmp_path]).findings
    assert finding.chain == ()


def line_of(source: str, text: str) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


REPORT = """\
import sys
from modelguard.scan.engine import scan_paths

report = scan_paths(sys.argv[1:])
print([(f.code, f.attribute, f.class_name) for f in report.findings], report.files)
"""


@pytest.mark.parametrize(
    ("package", "imports", "base"),
    [
        pytest.param("base.py", "from vendor.base import Base", "Base", id="module"),
        pytest.param("__init__.py", "from vendor import Base", "Base", id="package"),
        pytest.param("__init__.py", "import vendor", "vendor.Base", id="dotted"),
    ],
)
def test_the_source_of_an_installed_package_is_read_and_not_reported(
    tmp_path: Path, package: str, imports: str, base: str
) -> None:
    installed = tmp_path / "lib" / "vendor"
    write(installed, {"__init__.py": "raise RuntimeError('imported')\n", package: "raise RuntimeError('imported')\n" + STEPPING})
    source = caller(imports, base=base) + "\n    def forward_cuda(self, x):\n        self.mean = x\n        return x\n"
    write(tmp_path / "src", {"net.py": source})
    command = [sys.executable, "-c", REPORT, str(tmp_path / "src")]
    with_it = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(tmp_path / "lib")}, capture_output=True, text=True, check=True
    )
    without = subprocess.run(command, capture_output=True, text=True, check=True)
    assert with_it.stdout == "[('MG101', 'self.mean', 'Net')] 1\n"
    assert without.stdout == "[] 1\n"


def test_a_base_that_nobody_has_is_known_by_a_configured_name(tmp_path: Path) -> None:
    from modelguard.settings import Settings

    source = net("from elsewhere import Widget", "Widget").partition("  # <-")[0] + "\n        return x\n"
    write(tmp_path, {"net.py": source})
    assert scan_paths([tmp_path]).findings == ()
    report = scan_paths([tmp_path], Settings(module_bases=("elsewhere.Widget",)))
    assert [f.attribute for f in report.findings] == ["self.mean"]


@pytest.mark.parametrize("level", [2, 3, 9])
def test_a_relative_import_from_above_the_root_leads_nowhere(tmp_path: Path, level: int) -> None:
    imports = f"from {'.' * level}base import Base\nfrom torch import nn"
    source = net(imports, "Base, nn.Module").replace("MG101 error", "MG103 warning").replace("= x ", "= x.clone() ")
    expected = write(tmp_path, {"pkg/base.py": BASE, "pkg/net.py": source})
    assert found(scan_paths([tmp_path]), tmp_path) == expected


def test_one_decorator_around_two_methods_is_followed_twice(tmp_path: Path) -> None:
    files = {
        "net.py": textwrap.dedent("""
            import functools

            import torch
            from torch import nn

            def traced(method):
                @functools.wraps(method)
                def wrapper(self, *args):
                    return method(self, *args)

                return wrapper

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("mean", torch.zeros(4))

                @traced
                def forward(self, x):
                    return self.encode(x)

                @traced
                def encode(self, x):
                    self.mean = x  # <- MG101 error self.mean
                    return x
        """)
    }
    expected = write(tmp_path, files)
    assert found(scan_paths([tmp_path]), tmp_path) == expected != []


@pytest.mark.parametrize(
    ("imported", "called"),
    [
        ("import pkg.sub", "pkg.sub.step(self, x)"),
        ("import pkg", "pkg.sub.step(self, x)"),
        ("import pkg.sub as s", "s.step(self, x)"),
        ("from pkg import sub", "sub.step(self, x)"),
    ],
    ids=["dotted", "package", "renamed", "module"],
)
def test_helpers_below_a_package(tmp_path: Path, imported: str, called: str) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sub.py").write_text("def step(m, x):\n    m.n += 1\n    return x * m.n\n")
    (tmp_path / "net.py").write_text(
        f"{imported}\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.n = 0\n\n    def forward(self, x):\n        return {called}\n"
    )
    report = scan_paths([str(tmp_path)])
    assert [(f.code, Path(f.location.path).name, f.attribute) for f in report.findings] == [("MG104", "sub.py", "self.n")]

"""Notebooks: cells are scanned as one module, findings are told by cell and line, and fixes go back into the cells."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import modelguard
from modelguard.cli.main import main
from modelguard.scan import notebooks

IMPORTS = "import torch\nfrom torch import nn"
MODEL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bias", torch.zeros(4))

    def forward(self, x):
        self.bias = self.bias + 1
        return self.shifted(x)

    def shifted(self, x):
        self.n = 1
        return x + self.bias"""
FIXED = MODEL.replace("self.bias = self.bias + 1", "self.bias.copy_(self.bias + 1)")
HELPER = "def count(net):\n    net.calls += 1"
CALLER = "class Counted(nn.Module):\n    def forward(self, x):\n        count(self)\n        return x"

Scan = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def scan(capsys: pytest.CaptureFixture[str]) -> Scan:
    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["scan", "--no-cache", *arguments])
        return status, *capsys.readouterr()

    return run


def code(source: str | list[str], **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source, **more}


def prose(text: str = "# A title") -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def document(*cells: dict[str, Any] | str, **metadata: Any) -> dict[str, Any]:
    found = [code(cell) if isinstance(cell, str) else cell for cell in cells]
    return {"cells": found, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def write(*cells: dict[str, Any] | str, name: str = "book.ipynb", **metadata: Any) -> None:
    Path(name).write_text(json.dumps(document(*cells, **metadata), indent=1) + "\n", encoding="utf-8")


def sources(name: str = "book.ipynb") -> list[Any]:
    return [cell["source"] for cell in json.loads(Path(name).read_text(encoding="utf-8"))["cells"]]


def places(output: str) -> list[tuple[str, int | None, int, int]]:
    return [(each["code"], each["cell"], each["line"], each["column"]) for each in json.loads(output)["findings"]]


# Where findings are


def test_text_names_the_cell_and_the_line_in_it(scan: Scan) -> None:
    write(prose(), IMPORTS, MODEL)
    status, out, _ = scan("book.ipynb")
    assert status == 1
    assert out.startswith("book.ipynb:cell 3:7:9: error[MG101] [*] buffer-rebound: ")
    assert " 7 |         self.bias = self.bias + 1\n" in out
    assert "in: Net.forward (line 8) -> line 11\n" in out


def test_json_has_the_cell_and_lines_within_it(scan: Scan) -> None:
    write(prose(), IMPORTS, HELPER, CALLER, MODEL)
    Path("plain.py").write_text(f"{IMPORTS}\n{MODEL}\n")
    _, out, _ = scan("--output-format", "json", ".")
    schema = Path(modelguard.__file__).parent / "report" / "schema.json"
    jsonschema.validate(json.loads(out), json.loads(schema.read_text(encoding="utf-8")))
    expected = [("MG104", 3, 2, 5), ("MG101", 5, 7, 9), ("MG104", 5, 11, 9), ("MG101", None, 9, 9), ("MG104", None, 13, 9)]
    assert places(out) == expected
    counted, rebound, *_ = json.loads(out)["findings"]
    assert counted["call_chain"] == [{"function": "Counted.forward", "path": "book.ipynb", "cell": 4, "line": 3}]
    assert {(edit["cell"], edit["line"]) for edit in rebound["fix"]["edits"]} == {(5, 7)}


def test_a_chain_through_another_cell_names_it(scan: Scan) -> None:
    write(IMPORTS, HELPER, CALLER)
    assert "in: Counted.forward (book.ipynb:cell 3:3) -> line 2\n" in scan("book.ipynb")[1]


def test_a_chain_from_a_notebook_into_a_file_names_the_cell(scan: Scan) -> None:
    Path("helper.py").write_text(HELPER)
    write("from torch import nn\nfrom helper import count", CALLER)
    assert "in: Counted.forward (book.ipynb:cell 2:3) -> line 2\n" in scan("book.ipynb", "helper.py")[1]
    # Of the helper alone, the notebook is looked through for what leads there.
    Path("modelguard.toml").touch()
    assert "in: Counted.forward (book.ipynb:cell 2:3) -> line 2\n" in scan("helper.py")[1]


@pytest.mark.parametrize(
    ("output_format", "words"),
    [
        ("concise", ["book.ipynb:cell 2:7:9: MG101 buffer"]),
        ("grouped", ["book.ipynb:\n", "  cell 2:7:9   error    MG101 buffer-rebound: "]),
        ("github", ["::error file=book.ipynb,line=1,title=modelguard (MG101)::book.ipynb:cell 2:7:9: MG101 "]),
        ("gitlab", ['"description": "cell 2:7:9: MG101 ', '"begin": 1']),
        ("junit", ['file="book.ipynb">', ">book.ipynb:cell 2:7:9: MG101 ", "in: Net.forward (book.ipynb:cell 2:8)"]),
        ("sarif", ['"text": "cell 2:7:9: buffer `self.bias`', '"startLine": 1\n']),
    ],
)
def test_other_formats_name_the_cell_and_no_line_that_the_file_lacks(output_format: str, words: list[str], scan: Scan) -> None:
    write(IMPORTS, MODEL)
    _, out, _ = scan("--output-format", output_format, "book.ipynb")
    assert [word for word in words if word not in out] == []


def test_from_python(scan: Scan) -> None:
    write(IMPORTS, MODEL)
    where = modelguard.scan(["book.ipynb"]).findings[0].location
    assert where.cell is not None
    assert (where.cell.number, where.line_in_cell, where.place) == (2, 7, "cell 2:7:9")


def test_a_finding_is_the_same_one_when_its_cell_moves(scan: Scan) -> None:
    def found() -> list[str]:
        return [each["fingerprint"] for each in json.loads(scan("--output-format", "json", "book.ipynb")[1])["findings"]]

    write(IMPORTS, MODEL)
    before = found()
    write(IMPORTS, prose(), "x = 1", "\n\n" + MODEL)
    assert found() == before


# What a cell may hold


MAGICS = """\
%matplotlib inline
!pip install thing \\
    it's "open
?nn.Module
nn.Module??
import torch
from torch import nn
files = !ls
shape = %who
rest = (7
        % 3)
text = '''
%d of (
'''
if files:
    !ls {files}
await some.thing()
"""


def test_what_ipython_understands_is_passed_over(scan: Scan) -> None:
    # The cell's own line end does not count as a line of another.
    write(MAGICS, "%%time\n" + MODEL, "%%bash\nls 'x", "%%writefile model.py\n" + MODEL, "")
    status, out, err = scan("--output-format", "json", "book.ipynb")
    assert (places(out), status, err) == ([("MG101", 2, 8, 9), ("MG104", 2, 12, 9)], 1, "")


@pytest.mark.parametrize(
    ("cell", "place"),
    [
        pytest.param("def f(:", (1, 7), id="wrong"),
        pytest.param("x = 1\ny = (", (2, 5), id="open-bracket"),
        pytest.param("x = '''\n", (1, 5), id="open-string"),
        pytest.param("x = 1 +\\", None, id="goes-on"),
    ],
)
def test_a_cell_that_is_no_python_costs_only_that_cell(cell: str, place: tuple[int, int] | None, scan: Scan) -> None:
    write(IMPORTS, cell, MODEL)
    _, out, _ = scan("--output-format", "json", "book.ipynb")
    (broken, *found) = places(out)
    assert broken[:2] == ("MG901", 2)
    assert place is None or broken[2] == place[0]
    assert found == [("MG101", 3, 7, 9), ("MG104", 3, 11, 9)]
    assert "this cell is no Python" in out


def test_a_broken_cell_is_shown_as_it_is(scan: Scan) -> None:
    write("def f(:")
    assert " 1 | def f(:\n" in scan("book.ipynb")[1]


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param([code(IMPORTS), code([line + "\n" for line in MODEL.split("\n")])], id="lists-of-lines"),
        pytest.param([code(IMPORTS, outputs=[{"data": {"image/png": "A" * 3_000_000}}]), code(MODEL)], id="large-outputs"),
        pytest.param([code(IMPORTS), code(MODEL.replace("\n", "\r\n"))], id="windows-line-ends"),
        pytest.param([code(IMPORTS), code(MODEL), code("ls()", metadata={"vscode": {"languageId": "r"}})], id="cell-in-r"),
    ],
)
def test_kinds_of_cells(cells: Sequence[dict[str, Any]], scan: Scan) -> None:
    write(*cells)
    _, out, err = scan("--output-format", "json", "book.ipynb")
    assert (places(out), err) == ([("MG101", 2, 7, 9), ("MG104", 2, 11, 9)], "")
    assert scan("--fix", "book.ipynb")[0] == 1
    fixed = sources()[1]
    assert "self.bias.copy_(self.bias + 1)" in "".join(fixed)
    assert isinstance(fixed, type(cells[1]["source"]))


def test_format_3(scan: Scan) -> None:
    cells = [
        {"cell_type": "heading", "source": "A title"},
        {"cell_type": "code", "language": "python", "input": IMPORTS, "outputs": []},
        {"cell_type": "code", "language": "python", "input": [MODEL], "outputs": []},
    ]
    old = {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells}]}
    Path("book.ipynb").write_text(json.dumps(old))
    assert places(scan("--output-format", "json", "--fix", "book.ipynb")[1])[-1] == ("MG104", 3, 11, 9)
    cells[2]["input"] = [line + ("\n" if line != "        return x + self.bias" else "") for line in FIXED.split("\n")]
    assert json.loads(Path("book.ipynb").read_text()) == old


@pytest.mark.parametrize(
    ("metadata", "language"),
    [
        ({"kernelspec": {"language": "R", "name": "ir"}}, "R"),
        ({"language_info": {"name": "julia"}}, "julia"),
    ],
)
def test_other_languages_are_named_and_passed_over(metadata: dict[str, Any], language: str, scan: Scan) -> None:
    write("x <- 1", **metadata)
    status, _, err = scan("book.ipynb")
    assert status == 0
    assert err.startswith(f"book.ipynb: note: skipped: this notebook is written in {language}\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(b'{\n "cells": [\n', "book.ipynb:3:1: warning[MG901]", id="torn"),
        pytest.param(b"[]", "this is no notebook", id="list"),
        pytest.param(b"{}", "this is no notebook", id="no-cells-at-all"),
        pytest.param(b'{"cells": {}}', "this is no notebook", id="cells-are-a-table"),
        pytest.param(b'{"cells": [1]}', "this is no notebook", id="cell-is-a-number"),
        pytest.param(b'{"cells": [{"cell_type": "code", "source": 1}]}', "this is no notebook", id="source-is-a-number"),
        pytest.param(b'{"cells": [{"cell_type": "code", "source": "\xff"}]}', "not UTF-8", id="latin"),
        pytest.param(b"[" * 200_000, "cannot be parsed", id="deep"),
    ],
)
def test_what_is_no_notebook_is_said_and_left_alone(content: bytes, words: str, scan: Scan) -> None:
    Path("book.ipynb").write_bytes(content)
    status, out, _ = scan("--fix", "book.ipynb")
    assert status == 1
    assert "warning[MG901] unparsable-file: cannot be parsed" in out
    assert words in out
    assert Path("book.ipynb").read_bytes() == content


@pytest.mark.parametrize(
    "cell", [pytest.param("x = '\udc80'", id="half-of-a-surrogate-pair"), pytest.param("x = '\0'", id="nul")]
)
def test_what_no_python_source_can_hold_costs_the_notebook(cell: str, scan: Scan) -> None:
    write(IMPORTS, cell, MODEL)
    assert [code for code, *_ in places(scan("--output-format", "json", "book.ipynb")[1])] == ["MG901"]


@pytest.mark.parametrize("content", ["", "\n", json.dumps(document()), json.dumps(document(prose(), "", "# nothing"))])
def test_a_notebook_without_code_is_clean(content: str, scan: Scan) -> None:
    Path("book.ipynb").write_text(content)
    assert scan("book.ipynb")[:2] == (0, "no findings in 1 file (0 module classes, 0 entry points)\n")


# Settings, suppressions, baselines


def test_checkpoints_are_left_out(scan: Scan) -> None:
    Path(".ipynb_checkpoints").mkdir()
    write(IMPORTS, MODEL, name=".ipynb_checkpoints/book-checkpoint.ipynb")
    assert scan(".")[0] == 0


def test_settings_for_files(scan: Scan) -> None:
    write(IMPORTS, MODEL)
    Path("modelguard.toml").write_text('[per-file-ignores]\n"*.ipynb" = ["MG101", "MG104"]\n')
    assert scan(".")[0] == 0
    Path("modelguard.toml").write_text('extend-exclude = ["*.ipynb"]\n')
    assert scan("--force-exclude", "book.ipynb")[1].startswith("no findings in 0 files")


def test_suppressions_in_cells(scan: Scan) -> None:
    ignored = MODEL.replace("= self.bias + 1", "= self.bias + 1  # modelguard: ignore[MG101] shown as it is")
    write(IMPORTS, ignored.replace("self.n = 1", "self.n = 1  # noqa: MG104"))
    assert scan("book.ipynb")[0] == 0
    write("# modelguard: ignore-file[MG1]", IMPORTS, MODEL)
    assert scan("book.ipynb")[0] == 0


def test_unused_suppressions_are_told_by_the_lines_of_their_cell(scan: Scan) -> None:
    write(IMPORTS, "x = 1\ny = 2  # modelguard: ignore[MG101]\n# modelguard: ignore[MG102]", "z = 3")
    _, out, _ = scan("--output-format", "json", "book.ipynb")
    assert [(each["cell"], each["line"], each["message"]) for each in json.loads(out)["findings"]] == [
        (2, 2, "nothing is found on line 2 that `MG101` would suppress"),
        (2, 3, "no statement follows this comment, so there is nothing for `MG102` to suppress"),
    ]
    assert scan("--fix", "book.ipynb")[0] == 0
    assert sources() == [IMPORTS, "x = 1\ny = 2", "z = 3"]


def test_ignores_are_added_to_cells(scan: Scan) -> None:
    write("%time f()\n" + IMPORTS, MODEL)
    status, _, err = scan("--add-ignore", "for show", "book.ipynb")
    assert (status, err) == (0, "modelguard: 2 lines suppressed in 1 file\n")
    assert sources()[0] == "%time f()\n" + IMPORTS
    assert "self.bias = self.bias + 1  # modelguard: ignore[MG101] for show\n" in sources()[1]
    assert scan("book.ipynb")[0] == 0


def test_a_baseline_knows_a_finding_in_another_cell(scan: Scan) -> None:
    write(IMPORTS, MODEL)
    assert scan("book.ipynb", "--baseline", "known.json", "--write-baseline")[0] == 0
    write(IMPORTS, prose(), "x = 1", MODEL)
    assert scan("book.ipynb", "--baseline", "known.json")[0] == 0


def test_the_cache_knows_the_cells(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(20):  # as many as are worth a cache
        write(IMPORTS, MODEL, name=f"{number}.ipynb")
    write("def f(:", name="broken.ipynb")
    outputs = []
    for _ in range(2):
        assert main(["scan", "--output-format", "json", "."]) == 1
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert places(outputs[1])[0] == ("MG101", 2, 7, 9)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_of_a_base_in_git_a_notebook_changed_as_a_whole_or_not_at_all(scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CONFIG_GLOBAL": os.devnull, "AUTHOR_NAME": "t", "AUTHOR_EMAIL": "t@example.com"}.items():
        monkeypatch.setenv(f"GIT_{name}", value)
    monkeypatch.setenv("GIT_COMMITTER_NAME", "t")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "t@example.com")
    write(IMPORTS, MODEL, name="old.ipynb")
    write(IMPORTS, MODEL, name="changed.ipynb")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", *arguments], check=True)
    write(IMPORTS, MODEL, "x = 1", name="changed.ipynb")
    write(IMPORTS, MODEL, name="new.ipynb")
    _, out, _ = scan("--diff-base", "HEAD", "--output-format", "json", ".")
    assert {each["path"] for each in json.loads(out)["findings"]} == {"changed.ipynb", "new.ipynb"}
    assert json.loads(out)["summary"]["unchanged"] == 2


# Fixes


def test_a_fix_changes_its_lines_and_not_a_byte_besides(scan: Scan) -> None:
    lines = [line + "\n" for line in MODEL.split("\n")]
    odd = document(
        prose('\N{SNOWMAN} \\ " </script>'),
        code("%time x\n" + IMPORTS),
        code(lines, outputs=[{"text": "1e5 \u00fc"}]),
        zeta=1e5,
        alpha=1.0,
    )
    raw = "\ufeff" + json.dumps(odd, indent="\t", ensure_ascii=False, separators=(" ,", ":  ")) + "\r\n\r\n"
    Path("book.ipynb").write_bytes(raw.encode())
    assert scan("--fix", "book.ipynb")[0] == 1
    expected = raw.replace("self.bias = self.bias + 1", "self.bias.copy_(self.bias + 1)")
    assert Path("book.ipynb").read_bytes().decode() == expected != raw


def test_unsafe_fixes_add_lines_to_their_cell(scan: Scan) -> None:
    source = MODEL.replace("super().__init__()", "super().__init__()\n        self.steps = 0").replace(
        "self.n = 1", "self.steps += 1"
    )
    write(IMPORTS, code([line + "\n" for line in source.split("\n")]), CALLER)
    before = Path("book.ipynb").read_text()
    scan("--fix", "--unsafe-fixes", "book.ipynb")
    after = Path("book.ipynb").read_text()
    changed = [line.strip().rstrip(",") for line in after.split("\n") if line not in before.split("\n")]
    assert [json.loads(line).strip() for line in changed] == [
        'self.register_buffer("steps", torch.tensor(0), persistent=False)',
        "self.bias.copy_(self.bias + 1)",
        "self.steps.add_(1)",
    ]


def test_a_diff_is_of_cells(scan: Scan) -> None:
    write(IMPORTS, MODEL)
    before = Path("book.ipynb").read_bytes()
    status, out, _ = scan("--diff", "book.ipynb")
    assert status == 1
    assert out.startswith("--- book.ipynb:cell 2\n+++ book.ipynb:cell 2\n@@ -4,7 +4,7 @@\n")
    assert "-        self.bias = self.bias + 1\n+        self.bias.copy_(self.bias + 1)\n" in out
    assert Path("book.ipynb").read_bytes() == before


def test_a_notebook_whose_cells_cannot_be_told_apart_is_not_written(scan: Scan) -> None:
    write(IMPORTS, MODEL, "#\x1e what the tool writes itself")
    before = Path("book.ipynb").read_bytes()
    status, _, err = scan("--fix", "book.ipynb")
    assert status == 2
    assert "its cells cannot be told apart" in err
    assert Path("book.ipynb").read_bytes() == before


def test_standard_input(scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.dumps(document(IMPORTS, MODEL)).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    status, out, _ = scan("--stdin-filename", "book.ipynb", "-")
    assert (status, out.partition(" ")[0]) == (1, "book.ipynb:cell")
    assert " 7 |         self.bias = self.bias + 1\n" in out
    command = [sys.executable, "-m", "modelguard", "scan", "--fix", "--stdin-filename", "book.ipynb", "-"]
    done = subprocess.run(command, input=content, capture_output=True)
    assert json.loads(done.stdout)["cells"][1]["source"] == FIXED


# The way there and back


LINES = st.sampled_from(
    ["x = 1", "%magic", "!ls 'x", "f?", "y = !ls \\", "'''", "(", ")", "    z", "", "\r", "#\N{SNOWMAN}", "\\", "%%bash"]
)
SOURCES = st.lists(st.lists(LINES, max_size=6).map("\n".join), max_size=4)


@given(SOURCES, st.booleans(), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_any_cells_come_back_as_they_were(texts: list[str], as_lists: bool, indent: Any, plain: bool) -> None:
    cells = [code([text] if as_lists else text) for text in texts]
    content = json.dumps(document(*cells), indent=indent, ensure_ascii=plain).encode()
    notebook = notebooks.read(content, "x.ipynb")
    assert notebooks.cells_of(notebook.text) == dict(enumerate(texts, 1))
    assert notebooks.put_back(notebook.text, content, "x.ipynb") == content
    compile(notebook.text, "x.ipynb", "exec", 0x400)  # parses


@given(SOURCES.filter(bool), st.booleans(), st.sampled_from([None, 1]))
def test_a_changed_cell_is_all_that_changes(texts: list[str], as_lists: bool, indent: Any) -> None:
    cells = [code([text] if as_lists else text) for text in texts]
    content = json.dumps(document(*cells), indent=indent).encode()
    text = notebooks.read(content, "x.ipynb").text
    added = notebooks.put_back(text + "\nlast = 1", content, "x.ipynb")
    assert ["".join(cell["source"]) for cell in json.loads(added)["cells"]] == [*texts[:-1], texts[-1] + "\nlast = 1"]

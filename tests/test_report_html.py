"""Pages: what is on them, that nothing in the data runs or breaks them, and how they work in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, DRIVER, Browser, opened

from modelguard.findings import Applicability, Diagnostic, Finding, Fix, Location, ScanReport, Severity
from modelguard.report.html import render, render_confirmation, render_readiness

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPT = files("modelguard.report.html").joinpath("page.js").read_text(encoding="utf-8")

# A model with an obstacle, a size that depends on values, recompilations, and names and text that would like to be markup.
HOSTILE = """\
import torch
from torch import nn


class Inner(nn.Module):
    def forward(self, x):
        text = "</script></code><img src=x onerror=hacked=1> \u202e &lt;"
        if x.sum() > 0:
            x = x + len(text)
        return x


Evil = type("</code><script>window.hacked=1</script>", (nn.Module,), {"forward": lambda self, x: x.nonzero().sum() + x})


INNER, EVIL = '"><img src=x onerror=hacked=1>', "'\u202e\\udcff&amp;"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(2, 2) for _ in range(3)])
        self.add_module(INNER, Inner())
        self.add_module(EVIL, Evil())

    def forward(self, x):
        x = self.layers(x)
        x = getattr(self, INNER)(x)
        return getattr(self, EVIL)(x)


def build():
    return Net(), (torch.ones(2, 2),)
"""

VOID = {"input", "meta"}


@dataclass
class Tag:
    """An element of a page."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Any] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, name: str = "", **attributes: str) -> list[Tag]:
        """What is in it of a name, with these words in its attributes."""
        found = []
        for child in self.children:
            if isinstance(child, Tag):
                fits = all(word in child.attributes.get(key.strip("_"), "").split() for key, word in attributes.items())
                found += [child] if fits and name in ("", child.name) else []
                found += child.all(name, **attributes)
        return found

    def one(self, name: str = "", **attributes: str) -> Tag:
        """The only one."""
        (found,) = self.all(name, **attributes)
        return found


class Parser(HTMLParser):
    """Reads a page, and insists that whatever begins also ends."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open = [Tag("")]
        self.feed(text)
        self.close()
        assert len(self.open) == 1, f"never ends: {self.open[-1].name}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        element = Tag(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def parsed(text: str) -> Tag:
    """A page, checked for what has to hold of every page."""
    assert text.isascii()
    page = Parser(text).open[0].one("html")
    assert_loads_nothing(page)
    names = [tag.attributes["id"] for tag in page.all() if "id" in tag.attributes]
    assert len(names) == len(set(names))
    for link in page.all("a"):
        target = link.attributes["href"]
        assert target.startswith(("https://", "http://")) or target.removeprefix("#") in names
    headings = [int(tag.name[1]) for tag in page.all() if re.fullmatch("h[1-6]", tag.name)]
    assert headings[0] == 1 and all(after <= before + 1 for before, after in pairwise(headings))
    return page


def assert_loads_nothing(page: Tag) -> None:
    style, script = page.one("style").text, page.one("script").text
    assert script == SCRIPT
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    (policy,) = (tag for tag in page.all("meta") if tag.attributes.get("http-equiv") == "Content-Security-Policy")
    allowed = [f"style-src 'sha256-{hashes[0]}'", f"script-src 'sha256-{hashes[1]}'"]
    assert policy.attributes["content"].split("; ") == ["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"]
    for tag in page.all():
        assert tag.name not in {"img", "iframe", "object", "embed", "link", "base", "use", "image", "foreignobject"}
        assert not tag.attributes.keys() & {"src", "srcset", "style", "xlink:href", "action", "formaction"}
        assert not [name for name in tag.attributes if name.startswith("on")]
    assert "@import" not in style and re.findall(r"url\((.*?)\)", style) == ['"#refused"']


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modelguard", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@dataclass
class Made:
    """A page that a command made, and what the same run says as JSON."""

    path: Path
    page: Tag
    told: dict[str, Any]


def made(folder: Path, *arguments: str, status: int = 1) -> Made:
    path = folder / "report.html"
    done = run(folder, *arguments, "--output-format", "html", "--output-file", str(path), "--output", "json=report.json")
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    return Made(path, parsed(path.read_text("ascii")), json.loads((folder / "report.json").read_text()))


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("ready")
    name = "a<b>&'\"%20.py"
    (folder / name).write_text(HOSTILE, encoding="utf-8")
    return made(folder, "ready", f"{name}:build")


@pytest.fixture(scope="module")
def confirm(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("confirm"), "confirm", f"{EXAMPLES / 'counter.py'}:build")


# What is on them.


def test_ready_has_a_verdict_and_scores(ready: Made) -> None:
    header = ready.page.one("header")
    assert header.one("h1").text == ready.told["target"]
    assert header.one("p", class_="bad").text.startswith("Not ready ")
    rows = header.one("tbody").all("tr")
    assert [row.one("th").text for row in rows] == ["fixed sizes", "symbolic sizes"]
    assert [row.all("td")[0].text for row in rows] == [str(each["graphs"]) for each in ready.told["runs"]]
    counts = [link.text for link in ready.page.one("nav").all("li")]
    assert counts == [f"{name} {len(ready.told[name.lower()])}" for name in ("Findings", "Modules", "Graphs")]


def test_ready_shows_each_finding_in_its_source(ready: Made) -> None:
    articles = ready.page.one("section", id="findings").all("article")
    assert len(articles) == len(ready.told["findings"]) > 1
    shown = {article.one("mark").text.replace("\N{REPLACEMENT CHARACTER}", "\u202e") for article in articles}
    assert "if x.sum() > 0:" in shown
    article = next(each for each in articles if each.one("mark").text == "if x.sum() > 0:")
    assert [line.attributes["data-line"] for line in article.all("span", class_="line")] == [
        str(line) for line in range(5, 12) if line != 11
    ]
    assert article.one("span", class_="hit").attributes["data-line"] == "8"
    assert '</script></code><img src=x onerror=hacked=1> \N{REPLACEMENT CHARACTER} &lt;"' in article.text
    told = {pair.one("dt").text: pair.one("dd").text for pair in article.all("div") if pair.all("dt")}
    assert '"><img src=x onerror=hacked=1>' in told["modules"]
    assert "torch.where" in told["help"] and "says more" in told["help"]
    assert "Data-dependent branching" in told["tracer"]


def test_ready_has_the_tree_of_modules(ready: Made) -> None:
    section = ready.page.one("section", id="modules")
    tree = section.one("ul", class_="tree")
    root = tree.all("li")[0]
    names = [item.all("code", class_="name")[0].text for item in root.children[0].children[1].children]
    assert names[-1] == "layers" and names[0] == '"><img src=x onerror=hacked=1>'
    assert "'\N{REPLACEMENT CHARACTER}\\udcff&amp;" in names
    assert "</code><script>window.hacked=1</script>" in tree.text
    folded = next(item for item in tree.all("li") if item.attributes["data-find"].startswith("layers.0 "))
    assert (
        folded.one("code", class_="name").text == "0, 1, 2"
        and folded.one("span", class_="times").text == "\N{MULTIPLICATION SIGN}3"
    )
    assert folded.attributes["data-find"] == "layers.0 layers.1 layers.2 Linear inlined"
    statuses = {each["status"] for each in ready.told["modules"]}
    assert {item.text.rpartition(" ")[0] for item in section.one("ul", class_="legend").all("li")} == statuses
    # What has nothing in the way is closed; without a script the tree can be read, and what needs one is hidden.
    assert ["open" in fold.attributes for fold in tree.all("details")] == [True, False]
    assert "hidden" in section.one("form").attributes
    links = [link.attributes["href"] for link in tree.all("a")]
    assert links and {link.removeprefix("#") for link in links} <= {each.attributes["id"] for each in ready.page.all("article")}


def test_ready_has_a_picture_of_the_graphs_and_their_code(ready: Made) -> None:
    section = ready.page.one("section", id="graphs")
    graphs = ready.told["graphs"]
    picture = section.one("svg", role="img")
    assert len(picture.all("g", class_="piece")) == sum(len(graph["pieces"]) for graph in graphs)
    assert len(picture.all("g", class_="break")) == len(graphs) - 1 > 0
    assert [tag.text for tag in section.all("code") if "def execution_fn" in tag.text] == [graph["code"] for graph in graphs]


def test_confirm_plots_each_step(confirm: Made) -> None:
    replay = confirm.told["replay"]
    assert "Wrong output" in confirm.page.one("header").text and "self.step_index" in confirm.page.one("header").text
    section = confirm.page.one("section", id="divergence")
    titles = [point.one("title").text for point in section.all("g", class_="point")]
    assert len(titles) == len(replay["errors"])
    assert titles[:2] == ["step 0 (eager): 0", "step 1 (captured): 0"] and titles[2].startswith("step 2 (after capture): ")
    differing = [bool(error) for error in replay["errors"]]
    assert ["differs" in point.attributes["class"] for point in section.all("g", class_="point")] == differing
    assert section.one("text", class_="value").text == f"{replay['max_abs_error']:.3g}"
    assert len(section.one("tbody").all("tr")) == len(replay["errors"])
    assert confirm.page.one("section", id="findings").one("mark").text == "self.step_index"
    assert "static, dynamo, replay" in confirm.page.text
    assert "self.step_index" in confirm.page.one("section", id="side-effects").text


REPLAY = {
    "verdict": "wrong-output",
    "device": "tape",
    "step": 2,
    "where": ["output"],
    "max_abs_error": None,
    "freed": [],
    "stale": [],
    "host_reads": [],
    "captured": 1,
}


def plotted(errors: list[float | None], **other: Any) -> Tag:
    page = parsed(render_confirmation("t", ScanReport(), {}, {**REPLAY, "errors": errors, **other}, [], None, []))
    return page.one("section", id="divergence")


@pytest.mark.parametrize(
    ("errors", "labels"),
    [
        pytest.param([0.0, 0.0, 0.25, 0.5], ["equal", "0.2", "0.4", "0.6"], id="linear"),
        pytest.param(
            [0.0, 0.0, 1e-6, 1.0], ["equal", *(f"10{power}" for power in ("⁻⁶", "⁻⁵", "⁻⁴", "⁻³", "⁻²", "⁻¹", "⁰"))], id="decades"
        ),
        pytest.param(
            [0.0, 0.0, 1e-300, None, 1.7e308],
            ["equal", "10⁻³⁰⁰", "10⁻¹⁹⁸", "10⁻⁹⁶", "10⁶", "10¹⁰⁸", "10²¹⁰", "no number"],
            id="all",
        ),
        pytest.param([0.0, 0.0, None], ["equal", "no number"], id="no-number"),
        pytest.param([0.0, 0.0, 0.0], ["equal"], id="same"),
    ],
)
def test_scales(errors: list[float | None], labels: list[str]) -> None:
    section = plotted(errors)
    marks = [tag for tag in section.all("text") if tag.attributes.get("text-anchor") == "end" and tag.text != "step"]
    assert [tag.text for tag in marks] == labels
    assert ("logarithmic" in section.one("figcaption").text) == any(label.startswith("10") for label in labels)
    heights = [float(tag.attributes["y"]) for tag in marks]
    assert heights == sorted(heights, reverse=True)
    points = [float(tag.attributes["cy"]) for tag in section.all("circle")]
    assert all(min(heights) - 4 <= y <= max(heights) for y in points)
    # A larger error is drawn higher.
    assert sorted(points, reverse=True) == [
        y for _, y in sorted(zip([each for each in errors if each is not None], points, strict=True))
    ]


def test_steps_that_were_not_made() -> None:
    section = plotted([0.0, 0.0], verdict="shape-changes")
    assert [tag.text for tag in section.all("title")][-1] == "step 2 could not be made"
    assert "No step was made" in plotted([], verdict="refused", step=0, captured=None).text


def test_many_steps_have_few_labels() -> None:
    labels = [tag.text for tag in plotted([0.0] * 1000).all("text") if tag.attributes.get("text-anchor") == "middle"]
    assert labels[:2] == ["0", "63"] and len(labels) == 16


RECORD: dict[str, Any] = {
    "tracer": "export",
    "torch": "2.13.0",
    "guessed_inputs": ["x=float32[2,2]"],
    "runs": [
        {
            "shapes": "static",
            "stopped": None,
            "one_graph": True,
            "graphs": 1,
            "ops_of_largest": 12,
            "share_of_ops": 1.0,
            "share_of_modules": 1.0,
            "max_abs_error": 0,
        }
    ],
    "modules": [
        {"path": "", "class": "Net", "status": "inlined", "reason": "", "ops": 12, "functions": 0, "graphs": [0], "source": None}
    ],
    "obstacles": [],
    "graphs": [],
    "recompiles": [{"function": "forward", "path": "n.py", "line": 3, "reasons": ["size of `x` <changed>"]}],
}


def graph(pieces: list[dict[str, Any]], **other: Any) -> dict[str, Any]:
    plain = {"number": 0, "ops": 12, "inputs": 1, "refused": None, "max_abs_error": 0, "leftovers": [], "code": ""}
    return {**plain, "generated_us": 1.5, "graph_module_us": 2000.5, "pieces": pieces, **other}


def piece(ops: int, **other: Any) -> dict[str, Any]:
    return {"name": f"submod_{ops}", "ops": ops, "splits": False, "calls": ["mul"], "refused": None, **other}


def drawn(*graphs: dict[str, Any]) -> Tag:
    page = parsed(render_readiness("t", ScanReport(), True, {**RECORD, "graphs": graphs}))
    return page.one("section", id="graphs")


def test_pieces_are_as_wide_as_they_have_calls() -> None:
    section = drawn(graph([piece(100), piece(1, splits=True, calls=["attention"]), piece(50, refused="a <reason>")]))
    blocks = section.one("svg", role="img").all("g", class_="piece")
    widths = [float(block.all("rect")[0].attributes["width"]) for block in blocks]
    assert widths[0] == pytest.approx(2 * widths[2], abs=0.1) and widths[1] == 12
    assert "splits" in blocks[1].attributes["class"] and "refused" in blocks[2].attributes["class"]
    assert [block.one("title").text for block in blocks] == [
        "submod_100: 100 calls (mul)",
        "submod_1: 1 call (attention); splits the graph",
        "submod_50: 50 calls (mul); strict generation refuses it: a <reason>",
    ]
    assert "a splitting operator" in section.text and "refuses it" in section.text


@pytest.mark.parametrize("count", [1, 2, 60, 1000])
def test_pieces_stay_inside_the_picture_and_apart(count: int) -> None:
    pieces = [piece(number % 7 * 3) for number in range(count)]
    section = drawn(graph(pieces), graph([piece(1)]))
    rects = [block.all("rect")[0].attributes for block in section.one("svg", role="img").all("g", class_="piece")]
    spans = [(float(rect["y"]), float(rect["x"]), float(rect["x"]) + float(rect["width"])) for rect in rects]
    assert spans == sorted(spans)
    assert all(120 <= start < end <= 960.5 for _, start, end in spans)
    assert all(top != below or end < start for (top, _, end), (below, start, _) in pairwise(spans))


def test_graphs_without_code_and_costs() -> None:
    section = drawn(
        graph([], refused="an <operator>"), graph([piece(1)], generated_us=None, graph_module_us=None, max_abs_error=None)
    )
    assert "no code can be generated: an <operator>" in section.text and "it did not run" in section.text
    assert "another result" in drawn(graph([piece(1)], max_abs_error=None)).text


def test_sizes_that_took_too_long() -> None:
    runs = [*RECORD["runs"], {"shapes": "dynamic", "stopped": "it took <long>"}]
    page = parsed(render_readiness("t", ScanReport(), True, {**RECORD, "runs": runs}))
    assert page.one("header").one("tbody").all("tr")[1].text == "symbolic sizesit took <long>"


def test_recompilations_and_guesses() -> None:
    page = parsed(render_readiness("t", ScanReport(), True, RECORD))
    assert "Ready" in page.one("p", class_="good").text and "x=float32[2,2]" in page.one("header").text
    assert "size of `x` <changed>" in page.one("section", id="recompiles").text
    assert not page.all("section", id="graphs")
    assert page.one("section", id="findings").text.endswith("Nothing was found.")


BARE = Finding("MG104", "python-state-changed", Severity.ERROR, "`self.n` changes", Location("m.py", 2, 5, 2, 11))


def found(folder: Path, text: str, finding: Finding) -> Tag:
    path = folder / "m.py"
    path.write_text(text, encoding="utf-8")
    location = finding.location._replace(path=str(path))
    return parsed(render(ScanReport((replace(finding, location=location),), failing=1))).one("article")


def test_source_frames(tmp_path: Path) -> None:
    article = found(tmp_path, "\n\tself.n = 1  # é\n\n\n", replace(BARE, location=Location("", 2, 2, 2, 8)))
    assert [line.text for line in article.all("span", class_="line")] == ["\tself.n = 1  # é"]
    assert article.one("mark").text == "self.n"
    several = replace(BARE, location=Location("", 1, 1, 3, 2))
    article = found(tmp_path, "f(\n    a,\n)\nrest\n", several)
    assert [mark.text for mark in article.all("mark")] == ["f(", "a,", ")"]


def test_what_changed_since_is_shown_as_it_was(tmp_path: Path) -> None:
    finding = replace(BARE, source_line="    self.n = 1")
    article = found(tmp_path, "one\nanother line\nthree\n", finding)
    assert [line.text for line in article.all("span", class_="line")] == ["    self.n = 1"]
    gone = parsed(render(ScanReport((finding,))))
    assert gone.one("mark").text == "self.n" and "m.py:2:5" in gone.text
    assert not parsed(render(ScanReport((BARE,)))).all("pre")


def test_a_notebook_is_told_by_its_cells(tmp_path: Path) -> None:
    model = "class Net(nn.Module):\n    def forward(self, x):\n        self.n += 1\n        return x * self.n"
    cells = [
        {"cell_type": "code", "source": text, "metadata": {}} for text in ("import torch\nfrom torch import nn", model, "x = 1")
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "n.ipynb").write_text(json.dumps(notebook))
    article = parsed(run(tmp_path, "scan", "n.ipynb", "--output-format", "html", "--no-cache").stdout).one("article")
    assert article.one("figcaption").text == "n.ipynb:cell 2:3:9"
    assert [line.attributes["data-line"] for line in article.all("span", class_="line")] == ["1", "2", "3"]
    assert article.one("mark").text == "self.n"


def test_long_lines_are_cropped_around_the_mark(tmp_path: Path) -> None:
    article = found(tmp_path, f"x\n{'a' * 5000}self.n{'b' * 10**6}\n", replace(BARE, location=Location("", 2, 5001, 2, 5007)))
    line = article.one("span", class_="hit")
    assert (
        article.one("mark").text == "self.n"
        and len(line.text) < 600
        and line.text.startswith("...a")
        and line.text.endswith("b...")
    )


def test_a_fix_is_told() -> None:
    fix = Fix("write `self.n` in place: it may change", Applicability.UNSAFE, ())
    assert "fixwrite self.n in place: it may change (unsafe)" in parsed(render(ScanReport((replace(BARE, fix=fix),)))).text


def test_links_lead_to_pages_only() -> None:
    for url in ("javascript:alert(1)", "data:text/html,x", " https://x", "file:///etc/passwd"):
        assert not parsed(render(ScanReport((replace(BARE, help_url=url),)))).all("a")
    page = parsed(render(ScanReport((replace(BARE, help_url="https://example.com/a?b&c"),))))
    assert page.one("a").attributes["href"] == "https://example.com/a?b&c"


def test_a_scan(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("")
    done = run(tmp_path, "scan", str(EXAMPLES / "counter.py"), str(tmp_path / "gone.py"), "--output-format", "html", "--no-cache")
    page = parsed(done.stdout)
    assert done.returncode == 2
    assert "1 error" in page.one("header").text and "3 module classes" in page.one("header").text
    assert "gone.py" in page.one("section", id="diagnostics").text
    # Notes are there, and folded.
    assert page.one("details", class_="notes").one("article", class_="note").one("mark").text
    assert "No findings" in parsed(render(ScanReport(files=1))).one("p", class_="good").text
    hostile = Diagnostic("</script>\x1b[31m\udcff", "<b>&\u202e", severity=Severity.ERROR)
    assert "</script>\N{REPLACEMENT CHARACTER}[31m\\udcff" in parsed(render(ScanReport(diagnostics=(hostile,)))).text


# In a browser.


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs Chromium and its driver (Debian: chromium, chromium-driver)")
    with opened(tmp_path_factory.mktemp("profile")) as started:
        yield started


def visible(browser: Browser) -> list[str]:
    """The names of the modules that can be seen, from top to bottom."""
    script = """
        return [...document.querySelectorAll(".tree .row")].filter((row) => row.checkVisibility())
            .map((row) => (row.querySelector(".name") || row.querySelector(".class")).textContent)
    """
    names: list[str] = browser.run(script)
    return names


def test_a_page_loads_nothing_and_runs_nothing_of_the_data(ready: Made, confirm: Made, browser: Browser) -> None:
    for each in (ready, confirm):
        browser.open(each.path)
        assert browser.problems() == []
        assert browser.run("return performance.getEntriesByType('resource').length") == 0
        assert browser.run("return typeof window.hacked") == "undefined"
        assert browser.run("return document.querySelector('h1').textContent") == each.told["target"]
        assert browser.run("return document.querySelectorAll('article').length") == len(each.told["findings"])


def test_its_policy_holds_even_for_markup_that_got_in(ready: Made, browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "injected.html"
    bad = '<script>window.hacked=1</script><img src="http://127.0.0.1:9/x" onerror="window.hacked=2"><p style="color:red">'
    path.write_text(ready.path.read_text().replace("<main>", f"<main>{bad}"))
    browser.open(path)
    assert browser.run("return typeof window.hacked") == "undefined"
    assert sum("Content Security Policy" in problem for problem in browser.problems()) >= 3
    # The page's own script still works.
    assert browser.run("return document.querySelector('form').hidden") is False


def test_the_tree_opens_and_closes(ready: Made, browser: Browser) -> None:
    browser.open(ready.path)
    assert "layers" in visible(browser) and "0, 1, 2" not in visible(browser)
    browser.click(".tree ul details > summary")
    assert "0, 1, 2" in visible(browser)
    browser.click("button[name=close]")
    assert visible(browser) == ["Net"]
    # By the keyboard.
    browser.run("document.querySelector('.tree summary').focus()")
    browser.press("\ue007")
    assert "layers" in visible(browser) and "0, 1, 2" not in visible(browser)
    browser.click("button[name=open]")
    assert len(visible(browser)) == 5
    assert browser.problems() == []


def test_the_tree_is_filtered(ready: Made, browser: Browser) -> None:
    browser.open(ready.path)
    before = visible(browser)
    browser.type("input[type=search]", "LAYERS.1 inlined")
    assert visible(browser) == ["Net", "layers", "0, 1, 2"]
    assert browser.run("return document.querySelector('output').textContent") == "1 of 5 shown"
    browser.type("input[type=search]", "no such module")
    assert visible(browser) == []
    browser.type("input[type=search]", " ")
    assert visible(browser) == before
    assert browser.problems() == []


def test_the_tree_is_ordered(ready: Made, browser: Browser) -> None:
    browser.open(ready.path)
    worst = visible(browser)
    browser.click("input[value=model]")
    assert visible(browser) == ["Net", "layers", worst[1], worst[2]]
    browser.click("input[value=worst]")
    assert visible(browser) == worst


def test_a_link_leads_from_a_module_to_its_finding(ready: Made, browser: Browser) -> None:
    browser.open(ready.path)
    browser.click(".tree ul a")
    assert browser.run("return document.querySelector('article:target mark').textContent").startswith("if x.sum()")


def test_it_is_dark_where_its_reader_wants_that(confirm: Made, browser: Browser) -> None:
    shades = []
    for scheme in ("light", "dark"):
        browser.media(prefers_color_scheme=scheme)
        browser.open(confirm.path)
        color = browser.run("return getComputedStyle(document.documentElement).backgroundColor")
        shades.append(sum(int(part) for part in re.findall(r"\d+", color)[:3]))
    browser.media()
    assert shades[0] > 700 and shades[1] < 120


def test_it_fits_a_narrow_window_and_paper(ready: Made, confirm: Made, browser: Browser) -> None:
    for each in (ready, confirm):
        browser.open(each.path)
        browser.call("POST", "/window/rect", {"width": 520, "height": 900})
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        browser.call("POST", "/window/rect", {"width": 1280, "height": 1000})
        closed = browser.run("return document.querySelectorAll('details:not([open])').length")
        assert base64.b64decode(browser.call("POST", "/print", {})).startswith(b"%PDF")
        assert browser.run("return document.querySelectorAll('details:not([open])').length") == closed > 0

"""The documentation holds together: links lead somewhere, commands and options exist, lists are complete."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from modelguard.cli.main import cli
from modelguard.report import formats
from modelguard.settings import DEFAULT_EXCLUDE

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted((*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("*/README.md")))
each_page = pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])

FENCE = re.compile(r"^[ ]*```(\w*)\n(.*?)^[ ]*```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
COMMAND = re.compile(r"(?:^|[\s(])(?:\.venv/bin/)?modelguard ([^|>&)]*)")
"""A command, up to where a shell goes on to something else."""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose_of(page: Path) -> str:
    return FENCE.sub("", text_of(page))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", LINK.sub("", heading).lower()).replace(" ", "-") for heading in headings}


@each_page
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    lost = []
    for link in LINK.findall(INLINE.sub("", prose_of(page))):
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = page.parent / path if path else page
        if not target.exists() and (ROOT / "benchmarks").exists():
            lost.append(link)
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            lost.append(link)
    assert lost == []


def test_the_index_lists_all_pages() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in LINK.findall(text_of(index))}
    single = {path.resolve() for path in DOCS.glob("*.md")} - {index.resolve()}
    collections = {path.resolve() for path in DOCS.glob("*/index.md")}
    assert single | collections <= linked
    assert "docs/index.md" in text_of(ROOT / "README.md")


def commands(page: Path) -> Iterator[list[str]]:
    """The arguments of each `modelguard` that a page shows, in blocks and within sentences."""
    blocks = [block for language, block in FENCE.findall(text_of(page)) if not language]
    texts = [line.partition("  #")[0] for block in blocks for line in block.split("\n")]
    texts += INLINE.findall(prose_of(page))
    for text in texts:
        for shown in COMMAND.findall(text):
            try:
                yield shlex.split(shown.partition(" < ")[0])
            except ValueError:
                yield shown.split()


def problems(arguments: list[str]) -> Iterator[str]:
    """What a command line names that does not exist."""
    command: click.Command = cli
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        context = click.Context(command)
        found = command.get_command(context, arguments[0])
        if found is None:
            yield f"no command {arguments[0]}"
            return
        command, arguments = found, arguments[1:]
    options = {name: each for each in command.get_params(click.Context(command)) for name in (*each.opts, *each.secondary_opts)}
    for at, word in enumerate(arguments):
        name, _, value = word.partition("=")
        value = value or " ".join(arguments[at + 1 : at + 2])
        if not word.startswith("-") or word == "-":
            continue
        if name not in options:
            yield f"no option {name}"
        elif isinstance(kind := options[name].type, click.Choice) and value.islower() and value not in kind.choices:
            yield f"no value {value} of {name}"


@each_page
def test_commands_and_their_options_exist(page: Path) -> None:
    wrong = [(" ".join(arguments), problem) for arguments in commands(page) for problem in problems(arguments)]
    assert wrong == []


def test_commands_are_found_at_all() -> None:
    """The check above is worth something: it sees commands, and what is wrong with one."""
    assert sum(len(list(commands(page))) for page in PAGES) > 50
    for wrong in (["scam"], ["scan", "--fixx"], ["scan", "--output-format", "xml"], ["dev", "new-rules"]):
        assert list(problems(wrong)) != []


def test_the_readme_lists_all_options_of_a_scan() -> None:
    _, _, section = text_of(ROOT / "README.md").partition("## Options of `modelguard scan")
    cells = [line.split(" | ")[0] for line in section.partition("\n## ")[0].split("\n") if line.startswith("| `")]
    listed = {option for cell in cells for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", cell)}
    scan = cli.get_command(click.Context(cli), "scan")
    assert scan is not None
    assert listed == {name for each in scan.params if isinstance(each, click.Option) for name in each.opts}


def test_lists_of_names_are_complete() -> None:
    table = re.findall(r"^\| `(\w+)` \|", text_of(DOCS / "formats.md"), re.MULTILINE)
    assert tuple(table) == formats.NAMES
    assert [name for name in DEFAULT_EXCLUDE if f"`{name}`" not in text_of(DOCS / "settings.md")] == []

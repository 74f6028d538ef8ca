"""A rule as a page of Markdown: what `modelguard explain` prints and what docs/rules/ holds.

`python -m modelguard.rules.pages` writes the pages, those of the error catalogue and the table in README.md; with a DIRECTORY,
the pages of the rules only, there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from modelguard.catalog import pages as error_pages
from modelguard.catalog import tagged
from modelguard.findings import Applicability
from modelguard.rules import by_code, rule_names
from modelguard.rules.base import Invalid, Rule

_ROOT = Path(__file__).parents[2]
_DOCS = _ROOT / "docs"
_README = _ROOT / "README.md"
_BEGIN, _END = "<!-- rules: begin -->\n", "<!-- rules: end -->\n"


def page(rule: Rule) -> str:
    """The page of one rule."""
    sections = rule.sections()
    parts = [
        f"# {rule.name} ({rule.code})",
        rule.summary(),
        f"## What it does\n\n{sections['What it does']}",
        f"## Why it is bad\n\n{sections['Why it is bad']}",
        f"## Example\n\n{_code(marked(rule, rule.INVALID[0]))}",
        f"## Use instead\n\n{sections['Use instead']}\n\n{_code(rule.VALID[0].text)}",
        f"## Fix\n\n{_fix(rule)}",
        f"## Severity\n\n{sections['Severity']}",
        f"To leave the rule out of a run: `modelguard scan --ignore {rule.code}`.",
        *_errors(rule),
        f"## References\n\n{sections['References']}",
        f"Since modelguard {rule.since}.",
    ]
    return "\n\n".join(parts) + "\n"


def _fix(rule: Rule) -> str:
    """Whether there are fixes, in a sentence."""
    kinds = rule.fixes()
    if not kinds:
        return "None."
    if kinds == {Applicability.SAFE}:
        return "`modelguard scan --fix` repairs it."
    if kinds == {Applicability.UNSAFE}:
        return "`modelguard scan --fix --unsafe-fixes` repairs some cases; read the change, it may alter what the code does."
    return (
        "`modelguard scan --fix` repairs the cases that are provably the same afterwards, and with `--unsafe-fixes` some others, "
        "whose changes you should read."
    )


def index() -> str:
    """The page that lists all rules."""
    return "# Rules\n\n" + _table("")


def readme(text: str) -> str:
    """README.md as `text`, with the table of all rules between its two markers."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"README.md needs the lines {_BEGIN.strip()} and {_END.strip()}, in this order")
    return before + begin + _table("docs/rules/") + end + after


def pages() -> dict[str, str]:
    """All pages, by the name of their file."""
    return {"index.md": index()} | {f"{rule.code}.md": page(rule) for rule in by_code.values()}


def marked(rule: Rule, example: Invalid) -> str:
    """The example, with the code of the rule behind the line that it reports."""
    lines = example.text.splitlines()
    lines[example.line - 1] += f"  # {rule.code}"
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the pages of the rules; without a directory, all pages and the table in README.md."""
    if arguments:
        _write(Path(arguments[0]), pages())
        return 0
    _README.write_text(readme(_README.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
    _write(_DOCS / "rules", pages())
    _write(_DOCS / "errors", error_pages.pages(rule_names()))
    return 0


def _write(directory: Path, wanted: dict[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for stale in set(directory.glob("*.md")) - {directory / name for name in wanted}:
        stale.unlink()
    for name, text in wanted.items():
        (directory / name).write_text(text, encoding="utf-8", newline="\n")


def _errors(rule: Rule) -> list[str]:
    """What is told at run time of models with this fault, where something is."""
    rows = [f"- [{error_pages.title(record)}](../errors/{record.id}.md)" for record in tagged(rule.code)]
    return ["## Errors at run time\n\n" + "\n".join(rows)] if rows else []


def _table(folder: str) -> str:
    rows = [
        f"| [{rule.code}]({folder}{rule.code}.md) | {rule.name} | {rule.severity.value} | {rule.summary()} |"
        for rule in by_code.values()
    ]
    head = ["| code | name | severity | summary |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def _code(source: str) -> str:
    return f"```python\n{source}```"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

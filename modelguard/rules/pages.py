"""A rule as a page of Markdown: what `modelguard explain` prints and what docs/rules/ holds.

`python -m modelguard.rules.pages [DIRECTORY]` writes the pages.
"""

from __future__ import annotations

import sys
from pathlib import Path

from modelguard.rules import by_code
from modelguard.rules.base import Invalid, Rule

_DOCS = Path(__file__).parents[2] / "docs" / "rules"


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
        f"## Severity\n\n{sections['Severity']}",
        f"To accept one occurrence, end its line with `# modelguard: ignore[{rule.code}] reason`.",
        f"## References\n\n{sections['References']}",
        f"Since modelguard {rule.since}.",
    ]
    return "\n\n".join(parts) + "\n"


def index() -> str:
    """The page that lists all rules."""
    rows = [
        f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity.value} | {rule.summary()} |" for rule in by_code.values()
    ]
    head = ["# Rules", "", "| code | name | severity | summary |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def pages() -> dict[str, str]:
    """All pages, by the name of their file."""
    return {"index.md": index()} | {f"{rule.code}.md": page(rule) for rule in by_code.values()}


def marked(rule: Rule, example: Invalid) -> str:
    """The example, with the code of the rule behind the line that it reports."""
    lines = example.text.splitlines()
    lines[example.line - 1] += f"  # {rule.code}"
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the pages into a directory."""
    directory = Path(arguments[0]) if arguments else _DOCS
    directory.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for stale in set(directory.glob("*.md")) - {directory / name for name in wanted}:
        stale.unlink()
    for name, text in wanted.items():
        (directory / name).write_text(text, encoding="utf-8", newline="\n")
    return 0


def _code(source: str) -> str:
    return f"```python\n{source}```"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

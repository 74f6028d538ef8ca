"""A record as a page of Markdown: what `modelguard explain` prints and what docs/errors/ holds.

`python -m modelguard.rules.pages` writes them, together with the pages of the rules, because each names the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from modelguard.catalog.records import Record, records

_SUBJECTS = {
    "engine-configuration": "Settings of the engine",
    "code-generation": "Generated code",
    "state-in-forward": "State written in forward",
    "graph-breaks": "Graph breaks",
    "compile-time-errors": "Errors while compiling",
    "recompilation": "Recompilation",
    "dynamic-shapes": "Dynamic shapes",
    "cuda-graphs": "CUDA graphs",
}


def page(record: Record, rule_names: Mapping[str, str]) -> str:
    """The page of one record; `rule_names` are the names of the rules by their codes."""
    sections = [
        ("What it means", record.documentation.strip()),
        ("When it comes", f"{record.triggerScenarios.strip()}\n\nOften: {record.commonSituations.strip()}"),
        ("What to do", f"{_listed(record.solutions)}\n\n{record.handlingStrategy.strip()}"),
        ("Example", _code(record.exampleFix)),
        ("How to check", _code(record.validationCode)),
        ("How to tell", _code(record.typeGuard)),
        ("How to go on where it is met", _code(record.tryCatchPattern)),
        ("How to keep it away", _listed(record.preventionTips)),
        (
            "Found before the run by",
            _listed(f"[{tag} {rule_names[tag]}](../rules/{tag}.md)" for tag in record.tags if tag in rule_names),
        ),
        ("Related", _listed(f"[{other}]({other}.md)" for other in record.related)),
    ]
    head = [f"# {title(record)}", f"`{record.id}`: {record.severity}, `{record.errorClass}`, said by {_place(record)}."]
    return "\n\n".join(head + [f"## {heading}\n\n{text}" for heading, text in sections if text]) + "\n"


def index() -> str:
    """The page that lists all records, by subject."""
    parts = ['# Errors\n\n`modelguard explain "..."` finds the page of a message, `modelguard explain -` those of a whole log.']
    for subject, heading in _SUBJECTS.items():
        rows = [
            f"| [{record.id}]({record.id}.md) | `{title(record)}` |"
            for record in records().values()
            if record.backgroundTag == subject
        ]
        parts.append("\n".join([f"## {heading}\n", "| record | message |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def pages(rule_names: Mapping[str, str]) -> dict[str, str]:
    """All pages, by the name of their file."""
    return {"index.md": index()} | {f"{record.id}.md": page(record, rule_names) for record in records().values()}


def title(record: Record) -> str:
    """The message as one line: its first sentence."""
    line = record.errorMessage.splitlines()[0]
    return line.split(". ", 1)[0].rstrip(". ") if len(line) > 100 else line.strip()


def _place(record: Record) -> str:
    line = "" if record.lineNumber is None else f":{record.lineNumber}"
    return f"`{record.filePath}{line}` of {record.repo} at {record.analyzedSha[:12]}"


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _code(source: str | None) -> str:
    return f"```python\n{source.strip()}\n```" if source else ""

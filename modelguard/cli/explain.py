"""`modelguard explain`: the page of a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelguard.rules.base import Rule


@click.command("explain")
@click.argument("rule", metavar="CODE")
@click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print the page."
)
def command(rule: str, output_format: str) -> None:
    """Print what the rule CODE reports, why it is bad and what to do instead.

    CODE is a code (MG101) or a name (buffer-rebound), in upper or lower case.
    """
    from modelguard.rules import find, nearest
    from modelguard.rules.pages import page

    found = find(rule)
    if found is None:
        close = nearest(rule)
        hint = f"did you mean {' or '.join(close)}?" if close else "`modelguard rules` lists them."
        raise click.UsageError(f"unknown rule {rule!r}; {hint}")
    if output_format == "json":
        import json

        click.echo(json.dumps(_record(found), indent=2))
        return
    click.echo(page(found), nl=False)


def _record(rule: Rule) -> dict[str, object]:
    sections = rule.sections()
    return {
        "schema_version": 1,
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "since": rule.since,
        "summary": rule.summary(),
        "what_it_does": sections["What it does"],
        "why_it_is_bad": sections["Why it is bad"],
        "use_instead": sections["Use instead"],
        "severity_text": sections["Severity"],
        "references": sections["References"],
        "invalid": [
            {"source": example.text, "line": example.line, "attribute": example.attribute or None} for example in rule.INVALID
        ],
        "valid": [{"source": example.text} for example in rule.VALID],
    }

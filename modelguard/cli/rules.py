"""`modelguard rules`: the table of rules."""

from __future__ import annotations

import click


@click.command("rules")
@click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print the table."
)
def command(output_format: str) -> None:
    """List the rules: code, name, severity and summary."""
    from modelguard.rules import by_code

    if output_format == "json":
        import json

        table = [
            {
                "code": rule.code,
                "name": rule.name,
                "severity": rule.severity.value,
                "summary": rule.summary(),
                "since": rule.since,
            }
            for rule in by_code.values()
        ]
        click.echo(json.dumps({"schema_version": 1, "rules": table}, indent=2))
        return
    rows = [(rule.code, rule.name, rule.severity.value, rule.summary()) for rule in by_code.values()]
    code, name, severity = (max(len(row[column]) for row in rows) for column in range(3))
    for row in rows:
        click.echo(f"{row[0]:{code}}  {row[1]:{name}}  {row[2]:{severity}}  {row[3]}")

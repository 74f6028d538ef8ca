"""`modelguard catalog`: all records of the error catalogue."""

from __future__ import annotations

import click


@click.command("catalog")
@click.option(
    "--output-format",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
    help="All of each record, or a table.",
)
def command(output_format: str) -> None:
    """Print the error catalogue: what `modelguard explain` knows of the messages of engines, of torch and of modelguard."""
    from modelguard.catalog import dataset_version, records
    from modelguard.catalog.pages import title
    from modelguard.catalog.records import SCHEMA_VERSION

    if output_format == "json":
        import json

        document = {
            "datasetVersion": dataset_version(),
            "schemaVersion": SCHEMA_VERSION,
            "records": [record.as_json() for record in records().values()],
        }
        click.echo(json.dumps(document, indent=2))
        return
    width = max(map(len, records()))
    for record in records().values():
        click.echo(f"{record.id:{width}}  {record.severity:7}  {title(record)}")

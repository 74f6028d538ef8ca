"""`modelguard settings`: what is in force for a path, and where that comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from modelguard.cli import options
from modelguard.report.frame import printable
from modelguard.settings import Settings
from modelguard.settings_files import SettingsFiles
from modelguard.settings_table import shown
from modelguard.toml_text import quoted, quoted_key

_WIDTH = 100

Value = bool | str | tuple[str, ...] | dict[str, str] | dict[str, tuple[str, ...]]


@click.command("settings")
@click.argument("path", default=os.curdir)
@options.config
@options.isolated
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print.")
def command(path: str, config: str | None, isolated: bool, output_format: str) -> None:
    """Print the settings in force for PATH (default: here), and where each comes from.

    The text is a settings file itself: saved as modelguard.toml, it means the same.
    """
    files = SettingsFiles(config=config, isolated=isolated)
    if not os.path.lexists(path):
        raise click.UsageError(f"no such file or directory: {path!r}")
    settings = files.for_path(path)
    values, origins = _values(settings), files.origins(path)
    if output_format == "json":
        import json

        table = {name: {"value": value, "origin": origins[name]} for name, value in values.items()}
        click.echo(json.dumps({"schema_version": 1, "path": path, "source": settings.source, "settings": table}, indent=2))
        return
    click.echo(_text(path, settings.source, values, origins), nl=False)


def _values(settings: Settings) -> dict[str, Value]:
    """The settings by their keys; tables come last, as TOML wants them."""
    return {
        "select": settings.select,
        "ignore": settings.ignore,
        "exclude": settings.exclude,
        "entry-points": settings.entry_points,
        "module-bases": settings.module_bases,
        "fail-on": settings.fail_on.value if settings.fail_on else "never",
        "training-captured": settings.training_step_captured,
        "show-notes": settings.show_notes,
        "follow-installed": settings.follow,
        "respect-gitignore": settings.respect_gitignore,
        "baseline": _relative(settings.baseline, settings.root or os.curdir) if settings.baseline else "",
        "per-file-ignores": dict(settings.per_file_ignores),
        "severities": {code: severity.value for code, severity in settings.severities},
    }


def _relative(path: str, folder: str) -> str:
    """`path` from `folder`, with slashes, which mean the same on Windows."""
    return os.path.relpath(path, folder).replace(os.sep, "/")


def _text(path: str, source: str | None, values: Mapping[str, Value], origins: Mapping[str, str]) -> str:
    where = f"settings file: {shown(source)}" if source else "no settings file"
    lines = [f"# {where} (for {path})"]
    for name, value in values.items():
        if isinstance(value, dict):
            lines += ["", f"[{name}]  # {origins[name]}"]
            lines += [f"{quoted_key(key)} = {_written(item)}" for key, item in value.items()]
        else:
            lines += _lines(f"{name} = {_written(value)}", value, origins[name])
    return "".join(f"{printable(line)}\n" for line in lines)


def _lines(line: str, value: Value, origin: str) -> list[str]:
    """One setting on one line, or each item of a long list on its own."""
    if isinstance(value, tuple) and len(line) > _WIDTH:
        start = line.partition("[")[0]
        return [f"{start}[  # {origin}", *(f"    {quoted(item)}," for item in value), "]"]
    return [f"{line}  # {origin}"]


def _written(value: bool | str | tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quoted(value)
    return f"[{', '.join(map(quoted, value))}]"

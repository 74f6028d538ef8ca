"""Options that several commands have."""

from __future__ import annotations

import os
import sys

import click

from modelguard.settings import CACHE_FOLDER, Settings

config = click.option("--config", metavar="FILE", help="Take the settings from FILE, a pyproject.toml or modelguard.toml.")
isolated = click.option("--isolated", is_flag=True, help="Read no settings file.")
baseline = click.option("--baseline", metavar="FILE", help="Leave out the findings that FILE holds.")
cache_dir = click.option("--cache-dir", metavar="DIR", help=f"Keep the cache there.  [default: {CACHE_FOLDER} of the project]")


color = click.option(
    "--color",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "always", "never"]),
    help="Colour text: auto does so on a terminal, unless NO_COLOR is set.",
)


def is_colored(color: str, output_file: str | None = None) -> bool:
    """Whether text is to be coloured."""
    if color != "auto":
        return color == "always"
    plain = output_file is not None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and sys.stdout.isatty()


def default_cache_dir(settings: Settings) -> str:
    """Where a project keeps its cache: beside its settings, or else in the working directory."""
    return os.path.join(os.path.relpath(settings.root) if settings.root else "", CACHE_FOLDER)


def listed(values: tuple[str, ...]) -> tuple[str, ...] | None:
    """The items of an option that takes comma-separated lists and may be given again; None where it is not given."""
    return tuple(item.strip() for value in values for item in value.split(",")) if values else None

"""Options that several commands have."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from modelguard.settings import CACHE_FOLDER, Settings

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

FC = TypeVar("FC", bound=Callable[..., Any])

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


def complete_codes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The rule codes that the last item of a list may become, for shells."""
    from click.shell_completion import CompletionItem

    from modelguard.rules import by_code

    before, comma, start = incomplete.rpartition(",")
    fitting = (rule for rule in by_code.values() if rule.code.startswith(start.upper()))
    return [CompletionItem(before + comma + rule.code, help=rule.name) for rule in fitting]


def codes(name: str, help: str) -> Callable[[FC], FC]:
    """An option that takes codes, several with commas between them."""
    return click.option(name, multiple=True, metavar="CODES", shell_complete=complete_codes, help=help)


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

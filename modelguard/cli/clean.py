"""`modelguard clean`: removes the cache."""

from __future__ import annotations

import os

import click

from modelguard.cli import options
from modelguard.errors import ModelguardError
from modelguard.settings_files import SettingsFiles


@click.command("clean")
@options.cache_dir
def command(cache_dir: str | None) -> None:
    """Remove the cache of the project in the working directory, or the one in --cache-dir."""
    from modelguard.scan.cache import is_cache, remove

    folder = cache_dir or options.default_cache_dir(SettingsFiles().for_path(os.curdir))
    if not os.path.lexists(folder):
        click.echo(f"no cache in {folder}")
        return
    if not is_cache(folder):
        raise ModelguardError(f"{folder} is no cache of modelguard; nothing was removed")
    try:
        whole = remove(folder)
    except OSError as error:
        raise ModelguardError(f"cannot remove {folder}: {error.strerror}") from None
    click.echo(f"removed {folder}" if whole else f"removed the cache in {folder}, but not the other things there")

"""What a command says on stderr, besides its output."""

from __future__ import annotations

from contextlib import suppress

import click

from modelguard.report.frame import printable


def remark(line: str) -> None:
    """Print one line for people. What comes from outside, such as a path, must not steer their terminal.

    That the line cannot be written changes nothing: the exit status still says how the run ended.
    """
    with suppress(OSError):
        click.echo(printable(line), err=True)

"""`modelguard server`: findings in an editor."""

from __future__ import annotations

import logging
import os
import sys

import click

from modelguard.cli import options
from modelguard.cli.remarks import remark
from modelguard.errors import ModelguardError
from modelguard.settings_files import SettingsFiles

LEFT, LOST = 0, 1


@click.command("server")
@click.option("--stdio", is_flag=True, help="Talk over standard input and output, as is done anyway; some clients say so.")
@options.config
@options.isolated
@click.option("-v", "--verbose", is_flag=True, help="Also log what the protocol does, on standard error.")
def command(stdio: bool, config: str | None, isolated: bool, verbose: bool) -> int:
    """Answer an editor by the Language Server Protocol, over standard input and output. Editors start it themselves.

    Exit status: 0 if the client said that it would leave, else 1.
    """
    try:
        from modelguard.server.server import Server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise ModelguardError("the server needs pygls, which is not installed here: pip install 'modelguard[lsp]'") from None
    logging.basicConfig(level=logging.INFO if verbose else logging.CRITICAL, stream=sys.stderr)
    if sys.stdin is None:
        raise ModelguardError("standard input is closed; an editor talks over it")
    if sys.stdin.isatty():
        click.echo("modelguard server: waiting for an editor on standard input; Ctrl-C ends it", err=True)
    server = Server(lambda: SettingsFiles(config=config, isolated=isolated))
    # What is printed by mistake must not get among the messages.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as target:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        server.serve(sys.stdin.buffer, target)
    if server.left_in_order:
        return LEFT
    remark("modelguard: the client is gone, and did not say that it would leave")
    return LOST

"""`modelguard completion`: what a shell needs to complete commands, options, rule codes and formats."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script by which SHELL completes `modelguard`: commands, options, rule codes, formats, files.

    \b
    bash, in ~/.bashrc:  eval "$(modelguard completion bash)"
    zsh, in ~/.zshrc:    eval "$(modelguard completion zsh)"
    fish:                modelguard completion fish > ~/.config/fish/completions/modelguard.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # Bash's own `source` would start a bash to look at its version.
    script = ShellComplete.source(kind(context.find_root().command, {}, "modelguard", "_MODELGUARD_COMPLETE"))
    click.echo(script)

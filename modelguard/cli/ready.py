"""`modelguard ready`: whether a model becomes one graph, and what is in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelguard.cli import options, outputs
from modelguard.errors import ModelguardError
from modelguard.report import formats
from modelguard.settings_files import Overrides, SettingsFiles

if TYPE_CHECKING:
    from modelguard.readiness.ready import Readiness

READY, NOT_READY = 0, 1


@click.command("ready")
@click.argument("target")
@click.option(
    "--tracer",
    type=click.Choice(["dynamo", "export", "fx", "make_fx"]),
    default="dynamo",
    show_default=True,
    help="What traces the model; only Dynamo tells all obstacles.",
)
@click.option("--split-op", "split_ops", multiple=True, metavar="OP", help="Split graphs at OP, as `codegen` does. Repeatable.")
@click.option("--train/--eval", "train", default=False, help="Put the model into that mode first.  [default: eval]")
@click.option("--dynamic/--static", "dynamic", default=True, help="Trace with symbolic sizes, too.  [default: dynamic]")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=DTYPE[SIZES]",
    help="A random input, as x=float32[2,16], in place of TARGET's.",
)
@click.option("--timeout", type=click.IntRange(min=1), default=300, show_default=True, metavar="SECONDS", help="For all of it.")
@click.option(
    "--memory-limit", type=click.IntRange(min=512), default=16384, show_default=True, metavar="MIB", help="For its process."
)
@options.config
@options.isolated
@click.option("--fail-on", type=click.Choice(["error", "warning", "note", "never"]), help="As for `scan`.  [default: warning]")
@click.option("--show-all", is_flag=True, help="Show modules that nothing is wrong with, and notes.")
@outputs.output_format
@outputs.output_file
@outputs.also
@options.color
def command(
    target: str,
    tracer: str,
    split_ops: tuple[str, ...],
    train: bool,
    dynamic: bool,
    inputs: tuple[str, ...],
    timeout: int,
    memory_limit: int,
    config: str | None,
    isolated: bool,
    fail_on: str | None,
    show_all: bool,
    output_format: str,
    output_file: str | None,
    also: tuple[outputs.Output, ...],
    color: str,
) -> int:
    """Trace a model as serving engines do: is it one graph, what became of each module, what is in the way.

    TARGET is package.module:callable or path/to/file.py:callable, as for `modelguard confirm`. Its first call is traced; others
    tell what would be compiled again. It runs in a process of its own.

    Exit status: 0 it is one graph that can be captured, 1 it is not, 2 it could not be told.
    """
    try:
        from modelguard.readiness.ready import Request, ready
        from modelguard.runtime.process import Limits
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModelguardError(
            "`modelguard ready` needs torch; install modelguard with its extra `runtime` where the model runs"
        ) from None
    written = outputs.planned(output_format, output_file, also, [target.rpartition(":")[0]])
    settings = SettingsFiles(Overrides(fail_on=fail_on), config, isolated)
    request = Request(target, tracer, split_ops, train, dynamic, inputs, Limits(timeout, memory_limit))
    result = ready(request, settings)

    def rendered(output: outputs.Output) -> str:
        return _rendered(result, output.format, show_all=show_all, color=options.is_colored(color, output.path))

    outputs.write(written, rendered)
    return READY if result.is_ready else NOT_READY


def _rendered(result: Readiness, output_format: str, *, show_all: bool, color: bool) -> str:
    if output_format == "json":
        from modelguard.report import json

        return json.render_readiness(result.target, result.report, result.is_ready, result.record)
    if output_format == "html":
        from modelguard.report import html

        return html.render_readiness(result.target, result.report, result.is_ready, result.record)
    if output_format != "text":
        return formats.render(output_format, result.report)
    from modelguard.report import readiness

    return readiness.render(result.target, result.report, result.is_ready, result.record, show_all=show_all, color=color)

"""`modelguard confirm`: a target's findings, proved by running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from modelguard.cli import options, outputs
from modelguard.errors import ModelguardError
from modelguard.report import formats
from modelguard.settings_files import Overrides, SettingsFiles

if TYPE_CHECKING:
    from modelguard.runtime.confirm import Confirmation

CLEAN, FOUND = 0, 1


@click.command("confirm")
@click.argument("target")
@click.option(
    "--steps", type=click.IntRange(min=3), default=6, show_default=True, help="Steps to make, if TARGET gives one call."
)
@click.option(
    "--train/--eval", "train", default=None, help="Put the model into that mode first.  [default: as TARGET returns it]"
)
@click.option(
    "--device", type=click.Choice(["cuda", "tape"]), help="Capture a CUDA graph, or record operators.  [default: by model]"
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=DTYPE[SIZES]",
    help="A random input, as x=float32[2,16], in place of TARGET's.",
)
@click.option("--same-inputs", is_flag=True, help="Give each step the values of TARGET's only call.  [default: vary them]")
@click.option("--timeout", type=click.IntRange(min=1), default=300, show_default=True, metavar="SECONDS", help="For all of it.")
@click.option(
    "--memory-limit", type=click.IntRange(min=512), default=16384, show_default=True, metavar="MIB", help="For its process."
)
@options.config
@options.isolated
@click.option("--fail-on", type=click.Choice(["error", "warning", "note", "never"]), help="As for `scan`.  [default: warning]")
@outputs.output_format
@outputs.output_file
@outputs.also
def command(
    target: str,
    steps: int,
    train: bool | None,
    device: str | None,
    inputs: tuple[str, ...],
    same_inputs: bool,
    timeout: int,
    memory_limit: int,
    config: str | None,
    isolated: bool,
    fail_on: str | None,
    output_format: str,
    output_file: str | None,
    also: tuple[outputs.Output, ...],
) -> int:
    """Run a model eagerly, replayed from a captured step, and compiled; print its findings with what that showed.

    TARGET is package.module:callable or path/to/file.py:callable. It is called without arguments, and returns a module, whose
    inputs --input describes, or are guessed; (module, args), optionally with kwargs; or (module, calls), a tuple a step,
    optionally with calls of other sizes to make in between. It runs in a process of its own.

    Exit status: 0 replay gives the same and no finding was confirmed that fails a run, 1 otherwise, 2 it could not be told.
    """
    try:
        from modelguard.runtime.confirm import Request, confirm
        from modelguard.runtime.process import Limits
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModelguardError(
            "`modelguard confirm` needs torch; install modelguard with its extra `runtime` where the model runs"
        ) from None
    written = outputs.planned(output_format, output_file, also, [target.rpartition(":")[0]])
    settings = SettingsFiles(Overrides(fail_on=fail_on), config, isolated)
    request = Request(target, steps, train, device, inputs, Limits(timeout, memory_limit), not same_inputs)
    result = confirm(request, settings)
    outputs.write(written, lambda output: _rendered(result, output.format))
    return CLEAN if result.is_clean else FOUND


def _rendered(result: Confirmation, output_format: str) -> str:
    from modelguard.report import confirmation, html, json

    whole = {"html": html.render_confirmation, "json": json.render_confirmation, "text": confirmation.render}
    if output_format not in whole:
        return formats.render(output_format, result.report)
    return whole[output_format](
        result.target,
        result.report,
        result.unconfirmed,
        result.replay,
        result.side_effects,
        result.dynamo_stopped,
        result.guessed_inputs,
    )

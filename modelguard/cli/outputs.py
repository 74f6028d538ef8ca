"""Where a command's findings go: in one format to stdout or a file, and in any others each to a file of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from errno import EACCES, EBUSY, EPERM
from typing import NamedTuple

import click

from modelguard.errors import ModelguardError
from modelguard.report import formats
from modelguard.settings import nearest


class Output(NamedTuple):
    """One format, and the file it is written to by which option; without a file, stdout."""

    format: str
    path: str | None = None
    option: str = ""


def _outputs(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[Output, ...]:
    return tuple(_output(value) for value in values)


def _output(value: str) -> Output:
    name, _, path = value.partition("=")
    if name not in formats.NAMES:
        meant = nearest(name, formats.NAMES)
        hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(formats.NAMES)}."
        raise click.UsageError(f"--output: unknown format {name!r}; {hint}")
    if not path:
        raise click.UsageError(f"--output: {value!r} names no file; write {name}=FILE")
    return Output(name, path, "--output")


output_format = click.option(
    "--output-format", type=click.Choice(formats.NAMES), default="text", show_default=True, help="How to print."
)
output_file = click.option("--output-file", metavar="FILE", type=click.Path(dir_okay=False), help="Write the findings there.")
also = click.option(
    "--output",
    "also",
    multiple=True,
    metavar="FORMAT=FILE",
    callback=_outputs,
    help="Also write the findings to FILE, in that format; may be given again.",
)


def planned(
    output_format: str, output_file: str | None, also: Sequence[Output], inputs: Sequence[str] = ()
) -> tuple[Output, ...]:
    """All that is to be written, first what is printed. Refuses two formats for one file, and to write over `inputs`."""
    if output_file == "":
        raise click.UsageError("--output-file: the name is empty")
    written = (Output(output_format, output_file, "--output-file"), *also)
    taken: set[str] = set()
    for each in written:
        if each.path is None:
            continue
        if os.path.isfile(each.path) and any(os.path.exists(path) and os.path.samefile(path, each.path) for path in inputs):
            raise click.UsageError(f"{each.option}: {each.path!r} is one of the files to look at")
        if os.path.abspath(each.path) in taken:
            raise click.UsageError(f"{each.option}: {each.path!r} is named for another format too")
        taken.add(os.path.abspath(each.path))
    return written


def write(outputs: Sequence[Output], render: Callable[[Output], str], *, to_stderr: bool = False) -> None:
    """Write what `render` makes of the findings for each of `outputs`; to stderr what has no file, where stdout is taken."""
    for each in outputs:
        _write(render(each), each, to_stderr)


def _write(text: str, output: Output, to_stderr: bool) -> None:
    if output.path is None:
        (sys.stderr if to_stderr else sys.stdout).write(text)
        return
    try:
        _write_file(output.path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ModelguardError(f"{output.option}: cannot write {output.path}: {error.strerror}") from None


def _write_file(path: str, content: bytes) -> None:
    """Write a file as a whole; a device, a pipe and a file that nothing can take the place of are written into."""
    if os.path.isfile(path) or not os.path.exists(path):
        from modelguard.cli.files import replace_file

        try:
            replace_file(path, content)
            return
        except OSError as error:
            # Its folder takes no files, or it is a mount of its own.
            if error.errno not in (EACCES, EPERM, EBUSY):
                raise
    with open(path, "wb") as stream:
        stream.write(content)

"""The `modelguard` command: finds the subcommand, and turns every way a run can end into an exit status."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import click

from modelguard import __version__
from modelguard.cli.remarks import remark
from modelguard.errors import ModelguardError
from modelguard.report.frame import printable
from modelguard.settings import nearest

FAILED = 2
INTERRUPTED = 130
TERMINATED = 143
READER_GONE = 141

_COMMANDS = {
    "catalog": "modelguard.cli.catalog",
    "clean": "modelguard.cli.clean",
    "codegen": "modelguard.cli.codegen",
    "completion": "modelguard.cli.completion",
    "confirm": "modelguard.cli.confirm",
    "dev": "modelguard.cli.dev",
    "explain": "modelguard.cli.explain",
    "ready": "modelguard.cli.ready",
    "rules": "modelguard.cli.rules",
    "scan": "modelguard.cli.scan",
    "server": "modelguard.cli.server",
    "settings": "modelguard.cli.settings",
}


class _ReaderGone(Exception):
    """Nobody reads stdout any more, as after `| head`. Not an OSError, because click would end the process for one."""


class _Terminated(BaseException):
    """The process was asked to end (SIGTERM): what it started ends with it, and nothing is left half written."""


class LazyGroup(click.Group):
    """A group whose subcommands are imported when they are called: each lives in a module, under the name `command`."""

    def __init__(self, modules: Mapping[str, str], **attributes: object) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all subcommands, in the order of the help page."""
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of that name, imported now."""
        module = self._modules.get(cmd_name)
        if module is None:
            return None
        command: click.Command = import_module(module).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand that the arguments name; a misspelt one is answered with the nearest."""
        name = args[0]
        # A shell that asks what can follow wants no advice.
        if not ctx.resilient_parsing and name not in self._modules and not name.startswith("-"):
            meant = nearest(name, self._modules)
            hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(self.list_commands(ctx))}."
            if meant is None and os.path.exists(name):
                hint = f"to scan it, run `modelguard scan {printable(name)}`."
            raise click.UsageError(f"no such command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGone from None


cli = LazyGroup(
    _COMMANDS,
    name="modelguard",
    help="Find module state that PyTorch models write in `forward`, which a replayed CUDA graph gets silently wrong.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, prog_name="modelguard", message="%(prog)s %(version)s")(cli)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is what the subcommand returns, and 2 where it could not do its work."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    _never_miss_a_stream()
    _never_choke_on_characters()
    _end_in_order()
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except (_ReaderGone, BrokenPipeError):
        _drop_output()
        return READER_GONE
    except OSError as error:
        _drop_output()
        remark(f"modelguard: error: cannot write the output: {error.strerror}")
        return FAILED
    except KeyboardInterrupt:
        _drop_output()
        return _interrupted()
    except _Terminated:
        _drop_output()
        remark("modelguard: terminated")
        return TERMINATED
    return status


def run() -> NoReturn:
    """The `modelguard` command. Leaves without taking its objects apart one by one, which after a large scan takes seconds."""
    status = main()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)


def _run(arguments: list[str]) -> int:
    try:
        result = cli.main(arguments, prog_name="modelguard", standalone_mode=False)
    except ModelguardError as error:
        for line in f"modelguard: error: {error}".splitlines() if error.several_lines else (f"modelguard: error: {error}",):
            remark(line)
        return error.status
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return FAILED
    except (KeyboardInterrupt, click.Abort):
        return _interrupted()
    except _ReaderGone:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:
            # Not of a file that was opened: of stdout.
            raise
        return _internal_error(error, verbose=not {"--verbose", "-v"}.isdisjoint(arguments))
    return result if isinstance(result, int) else 0


def _internal_error(error: Exception, verbose: bool) -> int:
    what = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
    if verbose:
        import traceback

        for line in "".join(traceback.format_exception(error)).splitlines():
            remark(line)
        remark(f"modelguard: internal error: {what}")
    else:
        remark(f"modelguard: internal error: {what}; run with --verbose for the traceback")
    return FAILED


def _interrupted() -> int:
    remark("modelguard: interrupted")
    return INTERRUPTED


def _end_in_order() -> None:
    """Let SIGTERM unwind the stack, as Ctrl-C does. In a thread of another program signals are that program's matter."""

    def end(number: int, frame: object) -> None:
        raise _Terminated

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)


def _drop_output() -> None:
    """Send what is still to be written nowhere: whoever flushes it once more must find an open stream."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _never_miss_a_stream() -> None:
    """A stream that the caller has closed (`>&-`) is one that nobody reads."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")


def _never_choke_on_characters() -> None:
    """Let a terminal that cannot show a character show its escape instead."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")

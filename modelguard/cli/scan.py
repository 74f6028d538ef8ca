"""`modelguard scan`: the static pass over files and directories."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import click

from modelguard.cli.remarks import remark
from modelguard.errors import ModelguardError
from modelguard.findings import ScanReport, Severity
from modelguard.report import text
from modelguard.scan.engine import scan_paths
from modelguard.settings import Settings, check_codes, check_entry_points, check_exclude, check_fail_on

CLEAN, FOUND, FAILED = 0, 1, 2

_LISTED = 5
"""Paths that a remark names: pre-commit hands over hundreds."""


@click.command(name="scan")
@click.argument("paths", nargs=-1, type=click.Path(readable=False))  # one that is not must not stop the rest
@click.option("--select", multiple=True, metavar="CODES", help="Only these codes, or beginnings of codes such as MG1.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these codes; the longer of two that fit decides.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Also skip files and folders that fit, as in a .gitignore.")
@click.option(
    "--fail-on",
    default="warning",
    show_default=True,
    type=click.Choice(["error", "warning", "note", "never"]),
    help="Exit with status 1 from this severity upward.",
)
@click.option("--output-format", default="text", show_default=True, type=click.Choice(["text", "json"]), help="How to print.")
@click.option("--output-file", metavar="FILE", type=click.Path(dir_okay=False), help="Write the findings there.")
@click.option("--entry-point", multiple=True, metavar="METHOD", help="Another method that is captured, besides forward.")
@click.option("--training-captured", is_flag=True, help="The training step is captured too: keep the full severity there.")
@click.option("--show-notes", is_flag=True, help="Print notes, not just their number.")
@click.option("--no-cache", is_flag=True, help="Read and write no cache. No scan does yet.")
@click.option("-q", "--quiet", is_flag=True, help="Print findings and errors, nothing else.")
@click.option("-v", "--verbose", is_flag=True, help="Also print where the time went, and the traceback of an internal error.")
@click.option(
    "--color",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "always", "never"]),
    help="Colour text: auto does so on a terminal, unless NO_COLOR is set.",
)
def command(
    paths: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    exclude: tuple[str, ...],
    fail_on: str,
    output_format: str,
    output_file: str | None,
    entry_point: tuple[str, ...],
    training_captured: bool,
    show_notes: bool,
    no_cache: bool,
    quiet: bool,
    verbose: bool,
    color: str,
) -> int:
    """Find module state that is written in `forward`, in PATHS (files or directories; default: here).

    Exit status: 0 clean, 1 findings, 2 a usage error, an internal error, or something that could not be scanned.
    """
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other")
    _check_places(paths, output_file)
    defaults = Settings()
    settings = Settings(
        select=_codes(select, "--select") or defaults.select,
        ignore=_codes(ignore, "--ignore"),
        exclude=defaults.exclude + check_exclude(exclude, "--exclude"),
        entry_points=tuple(dict.fromkeys(defaults.entry_points + check_entry_points(entry_point, "--entry-point"))),
        training_step_captured=training_captured,
        fail_on=check_fail_on(fail_on, "--fail-on"),
        # A note that fails the run must be seen.
        show_notes=show_notes or fail_on == "note",
    )
    roots = paths or (os.curdir,)
    report = scan_paths(roots, settings)
    _write(_rendered(report, settings, output_format, quiet, _wants_color(color, output_file)), output_file)
    _remarks(report, roots, quiet, verbose)
    return _status(report, settings)


def _check_places(paths: tuple[str, ...], output_file: str | None) -> None:
    """Refuse what a shell makes of a variable that is not set, and to write over what was to be read."""
    try:
        os.getcwd()
    except OSError:
        raise ModelguardError("the working directory does not exist any more; change to one that does") from None
    if "" in paths:
        raise click.UsageError("a path is empty; without any path, the current directory is scanned")
    if output_file is None:
        return
    if not output_file:
        raise click.UsageError("--output-file: the name is empty")
    if os.path.isfile(output_file) and any(os.path.exists(path) and os.path.samefile(path, output_file) for path in paths):
        raise click.UsageError(f"--output-file: {output_file!r} is one of the files to scan")


def _codes(values: tuple[str, ...], option: str) -> tuple[str, ...]:
    """The codes in comma-separated lists. The rules, which know all codes, are imported only when there are some."""
    if not values:
        return ()
    codes = [code.strip() for value in values for code in value.split(",")]
    from modelguard.rules import by_code

    return check_codes(codes, {code: rule.name for code, rule in by_code.items()}, option)


def _wants_color(color: str, output_file: str | None) -> bool:
    if color != "auto":
        return color == "always"
    plain = output_file is not None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and sys.stdout.isatty()


def _rendered(report: ScanReport, settings: Settings, output_format: str, quiet: bool, color: bool) -> str:
    if output_format == "json":
        from modelguard.report import json

        return json.render(report)
    return text.render(report, show_notes=settings.show_notes, summary=not quiet, color=color)


def _write(output: str, path: str | None) -> None:
    if path is None:
        sys.stdout.write(output)
        return
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(output)
    except OSError as error:
        raise ModelguardError(f"--output-file: cannot write {path}: {error.strerror}") from None


def _remarks(report: ScanReport, roots: Iterable[str], quiet: bool, verbose: bool) -> None:
    """What a reader of the findings must know besides them, on stderr."""
    for diagnostic in report.diagnostics:
        if not quiet or diagnostic.severity is Severity.ERROR:
            remark(text.render_diagnostic(diagnostic))
    if not quiet:
        where = _listed(list(roots))
        if not report.files:
            remark(f"modelguard: no Python file was scanned: {where}")
        elif not report.module_classes:
            among = text.plural(report.files, "file")
            remark(f"modelguard: no module class among {among}: {where}")
    if verbose:
        for stage, seconds in report.timings.items():
            remark(f"modelguard: {stage}: {seconds * 1000:.1f} ms")


def _listed(paths: list[str]) -> str:
    more = len(paths) - _LISTED
    return ", ".join(paths[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _status(report: ScanReport, settings: Settings) -> int:
    if any(diagnostic.severity is Severity.ERROR for diagnostic in report.diagnostics):
        return FAILED
    failing = settings.fail_on
    if failing is not None and any(finding.severity.at_least(failing) for finding in report.findings):
        return FOUND
    return CLEAN

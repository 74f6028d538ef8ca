"""`modelguard scan`: the static pass over files and directories."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from modelguard.cli import options
from modelguard.cli.progress import progress_on_terminal
from modelguard.cli.remarks import remark
from modelguard.errors import ModelguardError
from modelguard.findings import Diagnostic, ScanReport, Severity
from modelguard.report import text
from modelguard.scan.engine import scan_paths, scan_source
from modelguard.scan.files import unscanned
from modelguard.settings_files import Overrides, SettingsFiles

if TYPE_CHECKING:
    from modelguard.cli.fixing import Fixed

CLEAN, FOUND, FAILED = 0, 1, 2

_INPUT = "<stdin>"

_LISTED = 5
"""Paths that a remark names: pre-commit hands over hundreds."""


@click.command(name="scan")
@click.argument("paths", nargs=-1, type=click.Path(readable=False, allow_dash=True))  # one that is not must not stop the rest
@click.option("--select", multiple=True, metavar="CODES", help="Only these codes, or beginnings of codes such as MG1.")
@click.option("--extend-select", multiple=True, metavar="CODES", help="These codes too.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these codes; the longer of two that fit decides.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Also skip files and folders that fit, as in a .gitignore.")
@click.option("--force-exclude", is_flag=True, help="Skip what is excluded even where it is named in PATHS.")
@options.config
@options.isolated
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    help="Exit with status 1 from this severity upward.  [default: warning]",
)
@click.option(
    "--output-format",
    default="text",
    show_default=True,
    type=click.Choice(["text", "json", "github", "gitlab"]),
    help="How to print.",
)
@click.option("--output-file", metavar="FILE", type=click.Path(dir_okay=False), help="Write the findings there.")
@click.option("--statistics", is_flag=True, help="Print how many findings each rule has, in place of the findings.")
@click.option("--fix", is_flag=True, help="Repair in the files what can safely be repaired, and print what remains.")
@click.option("--unsafe-fixes", is_flag=True, help="Also apply, or mark, fixes that may change what the code does.")
@click.option("--diff", is_flag=True, help="Print what --fix would change, and change nothing; status 1 if that is anything.")
@click.option("--show-fixes", is_flag=True, help="List what --fix repairs, or --diff would.")
@click.option("--add-ignore", metavar="REASON", help="Write a comment into the files that suppresses what fails the run.")
@click.option("--stdin-filename", metavar="FILE", help="Scan standard input (PATHS is -) as if it were this file.")
@click.option("--entry-point", multiple=True, metavar="METHOD", help="Another method that is captured, besides forward.")
@click.option("--training-captured", is_flag=True, help="The training step is captured too: keep the full severity there.")
@click.option("--show-notes", is_flag=True, help="Print notes, not just their number.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Processes to use, at most.  [default: one for each core]")
@options.cache_dir
@click.option("--no-cache", is_flag=True, help="Read and write no cache.")
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
    extend_select: tuple[str, ...],
    ignore: tuple[str, ...],
    exclude: tuple[str, ...],
    force_exclude: bool,
    config: str | None,
    isolated: bool,
    fail_on: str | None,
    output_format: str,
    output_file: str | None,
    statistics: bool,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    show_fixes: bool,
    add_ignore: str | None,
    stdin_filename: str | None,
    entry_point: tuple[str, ...],
    training_captured: bool,
    show_notes: bool,
    jobs: int | None,
    cache_dir: str | None,
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
    if statistics and output_format != "text":
        raise click.UsageError("--statistics is text; --output-format json has the same numbers in its findings")
    if show_fixes and not fix and not diff:
        raise click.UsageError("--show-fixes lists what --fix repairs, or --diff would; add one of them")
    if diff and (statistics or output_file is not None or output_format != "text"):
        raise click.UsageError("--diff prints no findings; ask for those in another run")
    if add_ignore is not None:
        from modelguard.cli.add_ignore import add_ignores_to_files, check_reason

        if fix or diff:
            raise click.UsageError(
                "--add-ignore and --fix both write into files; fix first, and ignore what remains in another run"
            )
        if statistics or output_file is not None or output_format != "text":
            raise click.UsageError("--add-ignore writes into files and prints no findings; ask for those in another run")
        if not paths:
            raise click.UsageError("--add-ignore writes into files: name them, or the folders, besides the reason")
        add_ignore = check_reason(add_ignore)
    _check_places((*paths, stdin_filename) if stdin_filename is not None else paths, output_file)
    settings = SettingsFiles(
        Overrides(
            select=options.listed(select),
            extend_select=options.listed(extend_select),
            ignore=options.listed(ignore),
            extend_exclude=exclude or None,
            entry_points=entry_point or None,
            fail_on=fail_on,
            training_captured=training_captured or None,
            show_notes=show_notes or None,
        ),
        config,
        isolated,
    )
    roots = paths or (os.curdir,)
    given: dict[str, bytes] = {}
    if roots == ("-",):
        if add_ignore is not None:
            raise click.UsageError("--add-ignore writes into files; standard input is none")
        roots = (stdin_filename or _INPUT,)
        given[roots[0]] = _read_input(roots[0])
    elif "-" in roots or stdin_filename is not None:
        raise click.UsageError("standard input is scanned on its own: `modelguard scan --stdin-filename FILE -`")

    def scan(texts: Mapping[str, bytes]) -> ScanReport:
        """Scan PATHS, with `texts`, by path, in place of what lies there."""
        if given:
            return _scan_input(roots[0], texts[roots[0]], settings, force_exclude)
        cache = None if no_cache else cache_dir or options.default_cache_dir(settings.for_path(roots[0]))
        absolute = {os.path.abspath(path): content for path, content in texts.items()}
        with progress_on_terminal(quiet or bool(texts)) as progress:
            return scan_paths(
                roots, settings, jobs=jobs, cache=cache, force_exclude=force_exclude, progress=progress, given=absolute
            )

    report = scan(given)
    if add_ignore is not None:
        done, refused = add_ignores_to_files(report, settings, add_ignore)
        report = replace(report, diagnostics=report.diagnostics + refused)
        if not quiet:
            remark(done)
        _remarks(report, roots, quiet, verbose)
        return FAILED if _is_incomplete(report) else CLEAN
    fixed = None
    if fix or diff:
        report, files = _fix(report, settings, scan, given, unsafe_fixes, diff)
        fixed = sum(file.repaired for file in files)
        if show_fixes or (diff and not quiet):
            remark(f"modelguard: {'would fix' if diff else 'fixed'} {text.plural(fixed, 'finding')}")
        if show_fixes:
            for line in (line for file in files for line in file.listed()):
                remark(line)
    if diff:
        _remarks(report, roots, quiet, verbose)
        return FAILED if _is_incomplete(report) else FOUND if fixed else CLEAN
    chosen = "statistics" if statistics else output_format
    output = _rendered(report, settings, chosen, quiet, _wants_color(color, output_file), given, unsafe_fixes, fixed)
    if fix and given and output_file is None:
        # Standard output holds the repaired source.
        click.echo(output, nl=False, err=True)
    else:
        _write(output, output_file)
    _remarks(report, roots, quiet, verbose)
    return FAILED if _is_incomplete(report) else FOUND if report.failing else CLEAN


def _fix(
    report: ScanReport,
    settings: SettingsFiles,
    scan: Callable[[Mapping[str, bytes]], ScanReport],
    given: dict[str, bytes],
    unsafe: bool,
    diff: bool,
) -> tuple[ScanReport, list[Fixed]]:
    """Repair what is shown of the report, or print how; the files that it concerns, and what is left to report."""
    from modelguard.cli import fixing

    files, told, repaired = fixing.repair(report, scan, unsafe, given, lambda report: _shown(report, settings))
    if diff:
        sys.stdout.write(fixing.diff(files))
    elif given:
        given.update((file.path, file.content) for file in files)
        sys.stdout.flush()
        for content in given.values():
            sys.stdout.buffer.write(content)
        report = repaired
    else:
        refused = fixing.write(files)
        # What was refused is still as it was.
        report = scan({}) if refused else repaired
        told += refused
    return replace(report, diagnostics=(*report.diagnostics, *told)), files


def _read_input(path: str) -> bytes:
    """What standard input, as the file at `path`, holds."""
    if os.path.isdir(path):
        raise click.UsageError(f"--stdin-filename: {path!r} is a directory; name the file that standard input stands for")
    if sys.stdin is None:
        raise ModelguardError("standard input is closed")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise ModelguardError(f"cannot read standard input: {(error.strerror or str(error)).lower()}") from None


def _scan_input(path: str, source: bytes, settings: SettingsFiles, force_exclude: bool) -> ScanReport:
    """Scan what standard input held as the file at `path`."""
    reason = unscanned(path)
    if reason is not None:
        return ScanReport(diagnostics=(Diagnostic(path, reason),))
    if force_exclude:
        from modelguard.scan.excludes import leaves_out

        if leaves_out(path, settings.for_path):
            return ScanReport()
    return scan_source(source, path, settings)


def _check_places(paths: tuple[str, ...], output_file: str | None) -> None:
    """Refuse what a shell makes of a variable that is not set, and to write over what was to be read."""
    if "" in paths:
        raise click.UsageError("a path is empty; without any path, the current directory is scanned")
    if output_file is None:
        return
    if not output_file:
        raise click.UsageError("--output-file: the name is empty")
    if os.path.isfile(output_file) and any(os.path.exists(path) and os.path.samefile(path, output_file) for path in paths):
        raise click.UsageError(f"--output-file: {output_file!r} is one of the files to scan")


def _wants_color(color: str, output_file: str | None) -> bool:
    if color != "auto":
        return color == "always"
    plain = output_file is not None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and sys.stdout.isatty()


def _rendered(
    report: ScanReport,
    settings: SettingsFiles,
    output_format: str,
    quiet: bool,
    color: bool,
    given: Mapping[str, bytes],
    unsafe_fixes: bool,
    fixed: int | None,
) -> str:
    if output_format == "json":
        from modelguard.cli.fixing import with_fixes
        from modelguard.report import json

        return json.render(with_fixes(report, given))
    if output_format == "github":
        from modelguard.report import github

        return github.render(_shown(report, settings))
    if output_format == "gitlab":
        from modelguard.report import gitlab

        return gitlab.render(report)
    if output_format == "statistics":
        from modelguard.report import statistics

        return statistics.render(report)
    shown = _shown(report, settings)
    marks = {}
    if shown.findings:
        from modelguard.cli.fixing import fixable

        marks = fixable(shown, given)
    notes = any(finding.severity is Severity.NOTE for finding in shown.findings)
    return text.render(
        # Where no note is shown, all are counted.
        shown if notes else report,
        show_notes=notes,
        summary=not quiet,
        color=color,
        from_disk=not given,
        fixes=text.Fixes(marks, unsafe_fixes, fixed),
    )


def _shown(report: ScanReport, settings: SettingsFiles) -> ScanReport:
    """The report without the notes that the settings of their files hide; those that fail the run are never hidden."""
    findings = (
        finding
        for finding in report.findings
        if finding.severity is not Severity.NOTE or settings.for_path(finding.location.path).show_notes
    )
    return replace(report, findings=tuple(findings))


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
        for diagnostic in report.diagnostics:
            for line in diagnostic.detail.splitlines():
                remark(line)
        for stage, seconds in report.timings.items():
            remark(f"modelguard: {stage}: {seconds * 1000:.1f} ms")


def _listed(paths: list[str]) -> str:
    more = len(paths) - _LISTED
    return ", ".join(paths[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _is_incomplete(report: ScanReport) -> bool:
    """Whether something that was to be scanned was not."""
    return any(diagnostic.severity is Severity.ERROR for diagnostic in report.diagnostics)

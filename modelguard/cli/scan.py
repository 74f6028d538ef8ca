"""`modelguard scan`: the static pass over files and directories."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from modelguard.cli import options, outputs
from modelguard.cli.baselines import Baselines
from modelguard.cli.progress import progress_on_terminal
from modelguard.cli.remarks import remark
from modelguard.errors import ModelguardError
from modelguard.findings import Applicability, Diagnostic, ScanReport, Severity
from modelguard.report import formats, text
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
@options.codes("--select", "Only these codes, or beginnings of codes such as MG1.")
@options.codes("--extend-select", "These codes too.")
@options.codes("--ignore", "Not these codes; the longer of two that fit decides.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Also skip files and folders that fit, as in a .gitignore.")
@click.option("--force-exclude", is_flag=True, help="Skip what is excluded even where it is named in PATHS.")
@options.config
@options.isolated
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    help="Exit with status 1 from this severity upward.  [default: warning]",
)
@outputs.output_format
@outputs.output_file
@outputs.also
@click.option("--statistics", is_flag=True, help="Print how many findings each rule has, in place of the findings.")
@click.option("--fix", is_flag=True, help="Repair in the files what can safely be repaired, and print what remains.")
@click.option("--unsafe-fixes", is_flag=True, help="Also apply, or mark, fixes that may change what the code does.")
@click.option("--diff", is_flag=True, help="Print what --fix would change, and change nothing; status 1 if that is anything.")
@click.option("--show-fixes", is_flag=True, help="List what --fix repairs, or --diff would.")
@click.option("--add-ignore", metavar="REASON", help="Write a comment into the files that suppresses what fails the run.")
@options.baseline
@click.option("--write-baseline", is_flag=True, help="Take what is found into the baseline.")
@click.option("--prune-baseline", is_flag=True, help="Take out of the baseline what is not found any more.")
@click.option("--diff-base", metavar="REVISION", help="Only findings on lines that changed since then, by git.")
@click.option("--stdin-filename", metavar="FILE", help="Scan standard input (PATHS is -) as if it were this file.")
@click.option("--watch", is_flag=True, help="Scan again whenever a file changes, until Ctrl-C.")
@click.option("--entry-point", multiple=True, metavar="METHOD", help="Another method that is captured, besides forward.")
@click.option("--training-captured", is_flag=True, help="The training step is captured too: keep the full severity there.")
@click.option("--show-notes", is_flag=True, help="Print notes, not just their number.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Processes to use, at most.  [default: one for each core]")
@options.cache_dir
@click.option("--no-cache", is_flag=True, help="Read and write no cache.")
@click.option("-q", "--quiet", is_flag=True, help="Print findings and errors, nothing else.")
@click.option("-v", "--verbose", is_flag=True, help="Also print where the time went, and the traceback of an internal error.")
@options.color
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
    also: tuple[outputs.Output, ...],
    statistics: bool,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    show_fixes: bool,
    add_ignore: str | None,
    baseline: str | None,
    write_baseline: bool,
    prune_baseline: bool,
    diff_base: str | None,
    stdin_filename: str | None,
    watch: bool,
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
    if diff and (statistics or also or output_file is not None or output_format != "text"):
        raise click.UsageError("--diff prints no findings; ask for those in another run")
    if add_ignore is not None:
        from modelguard.cli.add_ignore import add_ignores_to_files, check_reason

        if fix or diff:
            raise click.UsageError(
                "--add-ignore and --fix both write into files; fix first, and ignore what remains in another run"
            )
        if statistics or also or output_file is not None or output_format != "text":
            raise click.UsageError("--add-ignore writes into files and prints no findings; ask for those in another run")
        if not paths:
            raise click.UsageError("--add-ignore writes into files: name them, or the folders, besides the reason")
        add_ignore = check_reason(add_ignore)
    if (fix or diff) and (write_baseline or prune_baseline):
        raise click.UsageError("--fix and a baseline that is written exclude each other; fix first, and take in what remains")
    if (fix or diff) and diff_base is not None:
        raise click.UsageError("--fix looks at whole files, and --diff-base at lines as they are; use one of them")
    if diff_base is not None and (write_baseline or prune_baseline):
        raise click.UsageError("--diff-base and a baseline that is written exclude each other: it would hold what is not shown")
    named = (*paths, stdin_filename) if stdin_filename is not None else paths
    if "" in named:
        raise click.UsageError("a path is empty; without any path, the current directory is scanned")
    written = outputs.planned(output_format, output_file, also, named)
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
            baseline=baseline,
        ),
        config,
        isolated,
    )
    roots = paths or (os.curdir,)
    if watch:
        if fix or diff or write_baseline or prune_baseline or add_ignore is not None or "-" in paths:
            raise click.UsageError("--watch prints what is found in files; change files, or scan standard input, in another run")
        from modelguard.cli import watching

        context = click.get_current_context()
        again = {**context.params, "watch": False}
        return watching.watch(lambda: context.invoke(command, **again), roots, [file for file in (config, baseline) if file])
    changes = None
    given: dict[str, bytes] = {}
    if roots == ("-",):
        if add_ignore is not None:
            raise click.UsageError("--add-ignore writes into files; standard input is none")
        if diff_base is not None:
            raise click.UsageError("--diff-base compares files; standard input is none")
        roots = (stdin_filename or _INPUT,)
        given[roots[0]] = _read_input(roots[0])
    elif "-" in roots or stdin_filename is not None:
        raise click.UsageError("standard input is scanned on its own: `modelguard scan --stdin-filename FILE -`")
    elif diff_base is not None:
        from modelguard.cli.changes import Changes

        changes = Changes(diff_base, roots)
    baselines = Baselines(settings, roots, write_baseline, prune_baseline)

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

    def new(report: ScanReport) -> tuple[ScanReport, list[str]]:
        """The report without what a baseline holds, and what is to be said of that."""
        return baselines.apply(report, not _is_incomplete(report))

    found = scan(given)
    report, said = new(found)
    if changes is not None:
        report = changes.narrow(report, settings)
    if add_ignore is not None:
        done, refused = add_ignores_to_files(report, settings, add_ignore)
        report = replace(report, diagnostics=report.diagnostics + refused)
        if not quiet:
            remark(done)
        _remarks(report, roots, said, quiet, verbose)
        return FAILED if _is_incomplete(report) else CLEAN
    fixed = None
    if fix or diff:
        hint = _unsafe_hint(_shown(report, settings), given) if diff and not unsafe_fixes and not quiet else ""
        found, files = _fix(found, settings, scan, given, unsafe_fixes, diff, lambda report: _shown(new(report)[0], settings))
        report, said = new(found)
        fixed = sum(file.repaired for file in files)
        if show_fixes or (diff and not quiet):
            remark(f"modelguard: {'would fix' if diff else 'fixed'} {text.plural(fixed, 'finding')}{hint}")
        if show_fixes:
            for line in (line for file in files for line in file.listed()):
                remark(line)
    if diff:
        _remarks(report, roots, said, quiet, verbose)
        return FAILED if _is_incomplete(report) else FOUND if fixed else CLEAN

    def rendered(output: outputs.Output) -> str:
        chosen = "statistics" if statistics and output is written[0] else output.format
        colored = options.is_colored(color, output.path)
        return _rendered(report, settings, chosen, quiet, colored, given, unsafe_fixes, fixed)

    # Standard output holds the repaired source.
    outputs.write(written, rendered, to_stderr=fix and bool(given))
    _remarks(report, roots, said, quiet, verbose)
    return FAILED if _is_incomplete(report) else FOUND if report.failing else CLEAN


def _fix(
    report: ScanReport,
    settings: SettingsFiles,
    scan: Callable[[Mapping[str, bytes]], ScanReport],
    given: dict[str, bytes],
    unsafe: bool,
    diff: bool,
    shown: Callable[[ScanReport], ScanReport],
) -> tuple[ScanReport, list[Fixed]]:
    """Repair what is shown of the report, or print how; the files that it concerns, and what is left to report."""
    from modelguard.cli import fixing

    files, told, repaired = fixing.repair(report, scan, unsafe, given, shown)
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


def _unsafe_hint(report: ScanReport, given: Mapping[str, bytes]) -> str:
    """How many findings have a fix that is not proved safe."""
    from modelguard.cli.fixing import fixable

    count = sum(applicability is Applicability.UNSAFE for applicability in fixable(report, given).values())
    return f"; {count} more with --unsafe-fixes" if count else ""


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
    if output_format == "statistics":
        from modelguard.report import statistics

        return statistics.render(report)
    if output_format in formats.WITH_FIXES:
        from modelguard.cli.fixing import with_fixes

        report = with_fixes(report, given)
    if output_format != "text":
        return formats.render(output_format, report if output_format in formats.WITH_NOTES else _shown(report, settings))
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
    findings = (finding for finding in report.findings if settings.for_path(finding.location.path).shows(finding.severity))
    return replace(report, findings=tuple(findings))


def _remarks(report: ScanReport, roots: Iterable[str], said: Iterable[str], quiet: bool, verbose: bool) -> None:
    """What a reader of the findings must know besides them, on stderr."""
    for diagnostic in report.diagnostics:
        if not quiet or diagnostic.severity is Severity.ERROR:
            remark(text.render_diagnostic(diagnostic))
    if not quiet:
        for line in said:
            remark(line)
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

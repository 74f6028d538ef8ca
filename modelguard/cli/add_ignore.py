"""`modelguard scan --add-ignore`: writes suppressions into the files that hold what fails a run."""

from __future__ import annotations

import os

from modelguard.cli.files import replace_file
from modelguard.errors import ModelguardError, SourceError
from modelguard.findings import Diagnostic, Finding, ScanReport, Severity
from modelguard.report.text import plural
from modelguard.scan.engine import SettingsFor
from modelguard.scan.files import decode, encode, encoding_of, read_source
from modelguard.suppressions import add_ignores
from modelguard.suppressions.applying import GET_NO_COMMENT


def check_reason(reason: str) -> str:
    """The reason, in one line that says something."""
    if not any(char.isprintable() and not char.isspace() for char in reason) or len(reason.strip().splitlines()) > 1:
        raise ModelguardError("--add-ignore: say in one line why the findings are ignored, as in --add-ignore 'known, see #12'")
    return reason.strip()


def add_ignores_to_files(report: ScanReport, settings: SettingsFor, reason: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """Suppress the findings that fail the run, each file written as a whole or not at all.

    Gives what was done, in a sentence, and which files could not be written; the others are.
    """
    by_file: dict[str, list[Finding]] = {}
    left: set[str] = set()
    for finding in report.findings:
        if not settings.for_path(finding.location.path).fails(finding.severity):
            continue
        if finding.code in GET_NO_COMMENT:
            left.add(finding.code)
        else:
            by_file.setdefault(finding.location.path, []).append(finding)
    changed = added = 0
    refused = []
    for path, findings in by_file.items():
        try:
            if _add(path, findings, reason):
                changed += 1
                added += len({finding.location.line for finding in findings})
        except SourceError as error:
            refused.append(Diagnostic(path, f"--add-ignore: {error.message}", severity=Severity.ERROR))
    done = f"modelguard: {plural(added, 'line')} suppressed in {plural(changed, 'file')}"
    if left:
        done += f"; findings of {', '.join(sorted(left))} get no comment"
    return done, tuple(refused)


def _add(path: str, findings: list[Finding], reason: str) -> bool:
    """Write the comments into one file; whether that changed it."""
    if not os.path.isfile(path):
        raise SourceError(path, None, "this is no regular file, so nothing can be written into it")
    source = read_source(path)
    text = decode(source, path)
    result = add_ignores(text, findings, reason)
    if result == text:
        return False
    try:
        content = encode(result, source, path)
    except UnicodeEncodeError:
        encoding = encoding_of(source, path)
        raise SourceError(path, None, f"the reason has a character that {encoding}, the encoding of this file, lacks") from None
    try:
        replace_file(path, content)
    except OSError as error:
        raise SourceError(path, None, f"cannot write this file: {(error.strerror or str(error)).lower()}") from None
    return True

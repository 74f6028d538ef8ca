"""`modelguard scan --add-ignore`: writes suppressions into the files that hold what fails a run."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress

from modelguard.errors import ModelguardError, SourceError
from modelguard.findings import Finding, ScanReport
from modelguard.report.text import plural
from modelguard.scan.engine import SettingsFor
from modelguard.scan.files import decode, encoding_of, read_source
from modelguard.suppressions import add_ignores


def add_ignores_to_files(report: ScanReport, settings: SettingsFor, reason: str) -> str:
    """Suppress the findings that fail the run, each file written as a whole or not at all; what was done, in a sentence."""
    if not reason.strip() or "\n" in reason:
        raise ModelguardError("--add-ignore: say in one line why the findings are ignored, as in --add-ignore 'known, see #12'")
    by_file: dict[str, list[Finding]] = {}
    for finding in report.findings:
        failing = settings.for_path(finding.location.path).fail_on
        if failing is not None and finding.severity.at_least(failing):
            by_file.setdefault(finding.location.path, []).append(finding)
    changed = added = 0
    for path, findings in by_file.items():
        try:
            source = read_source(path)
            text = decode(source, path)
        except SourceError:
            # Its finding says so, and cannot be suppressed.
            continue
        result = add_ignores(text, findings, reason.strip())
        if result != text:
            _replace(path, result, encoding_of(source, path))
            changed += 1
            added += len({finding.location.line for finding in findings})
    return f"modelguard: {plural(added, 'line')} suppressed in {plural(changed, 'file')}"


def _replace(path: str, text: str, encoding: str) -> None:
    """Write a file beside the old one, and put it in its place: what reads it meanwhile sees one or the other."""
    target = os.path.realpath(path)
    try:
        content = text.encode(encoding)
    except UnicodeEncodeError as error:
        wrong = f"{path}: --add-ignore: the reason has a character that {encoding}, the encoding of this file, lacks"
        raise ModelguardError(wrong) from error
    try:
        handle, partial = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".modelguard-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            os.chmod(partial, os.stat(target).st_mode & 0o7777)
            os.replace(partial, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise
    except OSError as error:
        raise ModelguardError(f"{path}: --add-ignore: cannot write this file: {error.strerror}") from None

"""Findings for GitHub Actions: workflow commands, which become annotations of the lines."""

from __future__ import annotations

from modelguard.findings import Diagnostic, Finding, ScanReport, Severity
from modelguard.report.places import repository_path

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}

_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _DATA | str.maketrans({":": "%3A", ",": "%2C"})


def render(report: ScanReport) -> str:
    """The report as workflow commands, one a line: first the findings, then what kept the scan from a file."""
    commands = [_finding(finding) for finding in report.findings]
    commands += [_diagnostic(diagnostic) for diagnostic in report.diagnostics]
    return "".join(f"{command}\n" for command in commands)


def _finding(finding: Finding) -> str:
    where = finding.location
    path = repository_path(where.path)
    # What changed in a notebook is shown as the JSON that it is, whose lines are others.
    span = {"line": where.line, "endLine": where.end_line} if where.cell is None else {"line": 1}
    if where.line == where.end_line and where.cell is None:
        # The runner refuses columns of a span of several lines.
        span |= {"col": where.column, "endColumn": where.end_column}
    # The log shows the message alone, without its place.
    message = f"{path}:{where.place}: {finding.code} {finding.name}: {finding.message}"
    if finding.help:
        message += f"\nhelp: {finding.help}"
    return _command(finding.severity, message, file=path, **span, title=f"modelguard ({finding.code})")


def _diagnostic(diagnostic: Diagnostic) -> str:
    path = repository_path(diagnostic.path)
    if diagnostic.line is None:
        return _command(diagnostic.severity, f"{path}: {diagnostic.message}", file=path, title="modelguard")
    message = f"{path}:{diagnostic.line}: {diagnostic.message}"
    return _command(diagnostic.severity, message, file=path, line=diagnostic.line, title="modelguard")


def _command(severity: Severity, message: str, **properties: str | int) -> str:
    listed = ",".join(f"{name}={str(value).translate(_PROPERTY)}" for name, value in properties.items())
    return f"::{_COMMANDS[severity]} {listed}::{message.translate(_DATA)}"

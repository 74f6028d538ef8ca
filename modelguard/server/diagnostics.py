"""Findings as diagnostics of the protocol."""

from __future__ import annotations

import os

from lsprotocol.types import (
    CodeDescription,
    Diagnostic,
    DiagnosticRelatedInformation,
    DiagnosticSeverity,
    DiagnosticTag,
    Location,
    Position,
    Range,
)

from modelguard.findings import Finding, Frame, Severity
from modelguard.report.places import well_formed
from modelguard.rules.mg902_unused_suppression import UnusedSuppression
from modelguard.server.documents import Document, uri_of
from modelguard.server.positions import Positions

SOURCE = "modelguard"

_WHOLE_LINE = 10_000
"""A column behind the end of any line, which a client takes for that end."""


def diagnostic(finding: Finding, document: Document, positions: Positions) -> Diagnostic:
    """One finding in an open document. A note that the settings hide elsewhere is a hint, which editors show faintly."""
    severity = {
        Severity.ERROR: DiagnosticSeverity.Error,
        Severity.WARNING: DiagnosticSeverity.Warning,
        Severity.NOTE: DiagnosticSeverity.Information if document.settings.shows(Severity.NOTE) else DiagnosticSeverity.Hint,
    }[finding.severity]
    return Diagnostic(
        range=positions.range_of(finding.location),
        severity=severity,
        code=finding.code,
        code_description=CodeDescription(finding.help_url) if finding.help_url else None,
        source=SOURCE,
        message=well_formed(f"{finding.message}\nhelp: {finding.help}" if finding.help else finding.message),
        tags=[DiagnosticTag.Unnecessary] if finding.code == UnusedSuppression.code else None,
        related_information=[_call(frame, document, positions) for frame in finding.chain] or None,
    )


def _call(frame: Frame, document: Document, positions: Positions) -> DiagnosticRelatedInformation:
    """A call on the way from the entry point to the write."""
    if os.path.abspath(frame.path) == document.path:
        where = Location(document.uri, positions.line(frame.line))
    else:
        start = Position(frame.line - 1, 0)
        where = Location(uri_of(frame.path), Range(start, Position(frame.line - 1, _WHOLE_LINE)))
    return DiagnosticRelatedInformation(where, well_formed(f"in {frame.function}, this call leads to the write"))

"""What an editor offers to do about findings."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol.types import (
    CodeAction,
    CodeActionKind,
    OptionalVersionedTextDocumentIdentifier,
    PositionEncodingKind,
    Range,
    TextDocumentEdit,
    TextEdit,
    WorkspaceEdit,
)

from modelguard.findings import Finding
from modelguard.scan.files import plain_line_ends
from modelguard.server.diagnostics import diagnostic
from modelguard.server.documents import Document, alike
from modelguard.server.positions import Positions
from modelguard.suppressions import add_ignores

_REASON = "TODO: say why"
"""Stands for the reason, which only a person knows."""


def actions(document: Document, lines: Range, encoding: PositionEncodingKind, versioned: bool) -> Iterator[CodeAction]:
    """What can be done about the findings on some lines. `versioned` clients refuse an edit of what has changed meanwhile."""
    positions = Positions(document.text, encoding)
    offered = set()
    for finding in document.findings():
        first, last = finding.location.line - 1, finding.location.end_line - 1
        if first <= lines.end.line and lines.start.line <= last and (finding.code, first) not in offered:
            offered.add((finding.code, first))
            edit = _suppressing(finding, document, positions)
            if edit is not None:
                yield CodeAction(
                    title=f"Suppress {finding.code} on this line",
                    kind=CodeActionKind.QuickFix,
                    diagnostics=[diagnostic(finding, document, positions)],
                    edit=_workspace_edit(document, edit, versioned),
                )


def _suppressing(finding: Finding, document: Document, positions: Positions) -> TextEdit | None:
    """The comment that suppresses a finding, where one can."""
    old = plain_line_ends(document.text)
    new = add_ignores(old, [finding], _REASON)
    if new == old:
        return None
    head, tail = alike(old, new)
    return TextEdit(Range(positions.at(head), positions.at(len(old) - tail)), new[head : len(new) - tail])


def _workspace_edit(document: Document, edit: TextEdit, versioned: bool) -> WorkspaceEdit:
    if not versioned:
        return WorkspaceEdit(changes={document.uri: [edit]})
    identifier = OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=document.version)
    return WorkspaceEdit(document_changes=[TextDocumentEdit(identifier, [edit])])

"""What an editor offers to do about findings: fixes, and comments that suppress them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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

from modelguard.findings import Applicability, Edit, Finding, Location
from modelguard.fixes import compatible, fix_for
from modelguard.scan.files import plain_line_ends
from modelguard.server.diagnostics import diagnostic
from modelguard.server.documents import Document, alike
from modelguard.server.positions import Positions
from modelguard.suppressions import add_ignores

FIX_ALL = f"{CodeActionKind.SourceFixAll.value}.modelguard"
KINDS = (CodeActionKind.QuickFix.value, FIX_ALL)

_REASON = "TODO: say why"
"""Stands for the reason, which only a person knows."""


class Actions:
    """What can be done in one document. `versioned` clients refuse an edit of what has changed meanwhile."""

    def __init__(self, document: Document, encoding: PositionEncodingKind, versioned: bool) -> None:
        self._document = document
        self._text = plain_line_ends(document.text)
        self._line_end = "\r\n" if "\r\n" in document.text else "\n"
        self._positions = Positions(document.text, encoding)
        self._versioned = versioned

    def on(self, lines: Range) -> Iterator[CodeAction]:
        """What can be done about the findings on some lines."""
        here: dict[tuple[str, int], Finding] = {}
        for finding in self._document.findings():
            first, last = finding.location.line - 1, finding.location.end_line - 1
            if first <= lines.end.line and lines.start.line <= last:
                here.setdefault((finding.code, first), finding)
        for finding in here.values():
            fix = fix_for(finding, self._text)
            if fix is not None:
                safe = fix.applicability is Applicability.SAFE
                yield self._quick_fix(f"Fix {finding.code}: {fix.message}", finding, self._edits(fix.edits), safe)
            new = add_ignores(self._text, [finding], _REASON)
            if new != self._text:
                yield self._quick_fix(f"Suppress {finding.code} on this line", finding, [self._change(new)], False)

    def fix_all(self) -> Iterator[CodeAction]:
        """All safe fixes that can be applied together, if there are any."""
        found = [fix_for(finding, self._text) for finding in self._document.findings()]
        safe = [fix for fix in found if fix is not None and fix.applicability is Applicability.SAFE]
        edits = {edit for fix, fits in zip(safe, compatible(safe), strict=True) if fits for edit in fix.edits}
        if edits:
            yield CodeAction("Apply all safe fixes of modelguard", kind=FIX_ALL, edit=self._edit(self._edits(sorted(edits))))

    def _quick_fix(self, title: str, finding: Finding, edits: list[TextEdit], preferred: bool) -> CodeAction:
        return CodeAction(
            title,
            kind=CodeActionKind.QuickFix,
            diagnostics=[diagnostic(finding, self._document, self._positions)],
            is_preferred=preferred or None,
            edit=self._edit(edits),
        )

    def _edits(self, edits: Sequence[Edit]) -> list[TextEdit]:
        places = [self._positions.range_of(Location(self._document.path, *edit[:4])) for edit in edits]
        return [self._text_edit(place, edit.content) for place, edit in zip(places, edits, strict=True)]

    def _change(self, new: str) -> TextEdit:
        """What makes the text another."""
        head, tail = alike(self._text, new)
        end = len(self._text) - tail
        return self._text_edit(Range(self._positions.at(head), self._positions.at(end)), new[head : len(new) - tail])

    def _text_edit(self, place: Range, text: str) -> TextEdit:
        return TextEdit(place, text.replace("\n", self._line_end))

    def _edit(self, edits: list[TextEdit]) -> WorkspaceEdit:
        uri = self._document.uri
        if not self._versioned:
            return WorkspaceEdit(changes={uri: edits})
        identifier = OptionalVersionedTextDocumentIdentifier(uri=uri, version=self._document.version)
        return WorkspaceEdit(document_changes=[TextDocumentEdit(identifier, list(edits))])


def wanted(kind: str, only: Sequence[str] | None) -> bool:
    """Whether a client asks for actions of a kind, by its name or the beginning of it: `source` means `source.fixAll`, too."""
    return only is not None and any(not each or kind == each or kind.startswith(f"{each}.") for each in only)

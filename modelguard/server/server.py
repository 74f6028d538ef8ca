"""The server: what a client tells it, and what it answers. All of this runs in one event loop, checks in one thread beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, BinaryIO

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter

from modelguard import __version__
from modelguard.scan.analysis import prepared
from modelguard.server.actions import FIX_ALL, KINDS, Actions, wanted
from modelguard.server.checks import Checked, Checks, Request, Stopped
from modelguard.server.diagnostics import diagnostic
from modelguard.server.documents import Document, location_of
from modelguard.server.hovers import hover
from modelguard.server.positions import Positions
from modelguard.server.schedule import Job, Schedule
from modelguard.settings_files import SettingsFiles
from modelguard.settings_table import OWN, PYPROJECT

_SWIFT = 0.1
"""Seconds of computing that a check may take and still follow each keystroke; a longer one waits as long for another."""

_PATIENCE = 0.5
"""Seconds without a keystroke before the rest of the project is looked at; the longest that a check waits, too."""

_STACK = 64 << 20
"""Bytes of stack for the thread of the checks: deeply nested sources are walked by recursion."""

_WATCHED = ("**/*.py", f"**/{PYPROJECT}", f"**/{OWN}", "**/.gitignore")


class _Protocol(LanguageServerProtocol):
    """The protocol; a request that cannot be read is answered, where pygls would let the client wait for ever."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if isinstance(data.get("id"), (int, str)) and "method" in data:
                self._send_response(data["id"], error=error.to_response_error())
            raise


class Server(LanguageServer):
    """Diagnostics, hovers and actions for the documents that a client has open."""

    def __init__(self, read_settings: Callable[[], SettingsFiles]) -> None:
        super().__init__(
            "modelguard",
            __version__,
            # Incremental changes count lines as Python's `splitlines` does, which a form feed is enough to confuse.
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
            protocol_cls=_Protocol,
            converter_factory=default_converter,
        )
        self.left_in_order = False
        """Whether the client said that it would leave."""
        self._documents: dict[str, Document] = {}
        self._checks = Checks(read_settings)
        self._schedule = Schedule(self._check)
        self._thread = ThreadPoolExecutor(1, "checks")
        self._worker: asyncio.Task[None] | None = None
        self._said: set[str] = set()
        for method, handler in (
            (types.INITIALIZED, self._initialized),
            (types.SHUTDOWN, self._leave),
            (types.TEXT_DOCUMENT_DID_OPEN, self._open),
            (types.TEXT_DOCUMENT_DID_CHANGE, self._change),
            (types.TEXT_DOCUMENT_DID_SAVE, self._save),
            (types.TEXT_DOCUMENT_DID_CLOSE, self._close),
            (types.WORKSPACE_DID_CHANGE_WATCHED_FILES, self._renew),
            (types.TEXT_DOCUMENT_HOVER, self._hover),
        ):
            # pygls notes things on the function, which a bound method does not allow.
            self.feature(method)(partial(handler))
        options = types.CodeActionOptions(code_action_kinds=list(KINDS))
        self.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)(partial(self._actions))

    def serve(self, source: BinaryIO, target: BinaryIO) -> None:
        """Answer a client until it leaves."""
        threading.stack_size(_STACK)
        with prepared():
            self.start_io(source, target)

    def report_server_error(self, error: Exception, source: type[Exception]) -> None:
        """Tell of a message that could not be dealt with. One that asks for an answer has got an error for it."""
        self._say(f"a message could not be dealt with, and was passed over: {_in_words(error)}")

    # What the client tells.

    def _initialized(self, params: types.InitializedParams) -> None:
        watching = self.client_capabilities.workspace and self.client_capabilities.workspace.did_change_watched_files
        if watching and watching.dynamic_registration:
            watchers = [types.FileSystemWatcher(glob_pattern=pattern) for pattern in _WATCHED]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
            registration = types.Registration("watched-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            self.client_register_capability(types.RegistrationParams([registration]))

    def _leave(self, params: None) -> None:
        self.left_in_order = True

    def _open(self, params: types.DidOpenTextDocumentParams) -> None:
        opened = params.text_document
        place = location_of(opened.uri)
        if place is None:
            return
        path, is_file = place
        self._documents[opened.uri] = Document(opened.uri, path, is_file, opened.version, opened.text)
        self._thread.submit(self._checks.renew)
        self._changed(opened.uri, 0.0)

    def _change(self, params: types.DidChangeTextDocumentParams) -> None:
        document = self._documents.get(params.text_document.uri)
        if document is not None and params.content_changes:
            document.version = params.text_document.version
            document.text = params.content_changes[-1].text
            self._changed(document.uri, min(document.spent, _PATIENCE) if document.spent > _SWIFT else 0.0)

    def _save(self, params: types.DidSaveTextDocumentParams) -> None:
        self._thread.submit(self._checks.renew)
        if params.text_document.uri in self._documents:
            self._changed(params.text_document.uri, 0.0)

    def _close(self, params: types.DidCloseTextDocumentParams) -> None:
        closed = self._documents.pop(params.text_document.uri, None)
        if closed is not None:
            self._schedule.drop(closed.uri)
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(closed.uri, []))
            # Its file may say something else.
            self._recheck(closed)

    def _renew(self, params: types.DidChangeWatchedFilesParams) -> None:
        self._said.clear()
        self._thread.submit(self._checks.renew)
        for uri in self._documents:
            self._schedule.add(uri, alone=True, spreads=False)

    # What the client asks.

    def _hover(self, params: types.HoverParams) -> types.Hover | None:
        document = self._documents.get(params.text_document.uri)
        return hover(document, params.position, self._encoding) if document is not None else None

    def _actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        document = self._documents.get(params.text_document.uri)
        if document is None:
            return []
        edits = self.client_capabilities.workspace and self.client_capabilities.workspace.workspace_edit
        actions = Actions(document, self._encoding, bool(edits and edits.document_changes))
        only = params.context.only
        quick = only is None or wanted(types.CodeActionKind.QuickFix, only)
        # What changes the whole document is offered to those who ask for it.
        return [*(actions.on(params.range) if quick else ()), *(actions.fix_all() if wanted(FIX_ALL, only) else ())]

    # What follows.

    def _changed(self, uri: str, delay: float) -> None:
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._schedule.work())
        self._schedule.add(uri, alone=True, spreads=True, delay=delay)

    def _recheck(self, changed: Document) -> None:
        """Check the other documents again that depend on one."""
        for uri, document in self._documents.items():
            if document is not changed and changed.path in document.needs:
                self._schedule.add(uri, alone=True, spreads=False)

    async def _check(self, uri: str, job: Job, stop: threading.Event) -> None:
        """Check a document, and tell the client what was found in it."""
        document = self._documents.get(uri)
        if document is None:
            return
        beside = {each.path: each.text for each in self._documents.values() if each.is_file}
        request = Request(document.path, document.text, beside, job.alone or not document.is_file)
        loop = asyncio.get_running_loop()
        try:
            checked = await loop.run_in_executor(self._thread, self._checks.check, request, stop)
            if self._documents.get(uri) is document and document.text == request.text:
                self._take(document, job, checked)
        except Stopped:
            self._schedule.add(uri, alone=job.alone, spreads=job.spreads, delay=_PATIENCE)
        except Exception as error:
            # One document must not end the checks of the others.
            self._say(f"{document.path}: internal error, so that this file was not checked: {_in_words(error)}")
        self._thread.submit(self._checks.tidy, not job.alone)

    def _take(self, document: Document, job: Job, checked: Checked) -> None:
        document.settings = checked.settings
        document.needs = checked.needs
        if not checked.parsed:
            # While somebody types, a text is broken now and again: what was found stays, and that it is broken is told later.
            if document.unparsed or not job.alone:
                document.unparsed = checked.findings
        elif job.alone:
            document.spent = checked.spent
            document.take_own(checked.findings)
        else:
            document.take_all(checked.findings)
        self._publish(document)
        for mistake in checked.mistakes:
            self._say(mistake, shown=True)
        for sentence in checked.said:
            self._say(sentence)
        if job.alone:
            self._schedule.add(document.uri, alone=False, spreads=job.spreads, delay=_PATIENCE)
        elif job.spreads:
            self._recheck(document)

    def _publish(self, document: Document) -> None:
        positions = Positions(document.text, self._encoding)
        found = [diagnostic(finding, document, positions) for finding in document.findings()]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(document.uri, found, document.version))

    def _say(self, sentence: str, shown: bool = False) -> None:
        """Tell once what no diagnostic can hold; `shown` is what a person must see, all else goes into a log."""
        if sentence in self._said:
            return
        self._said.add(sentence)
        if shown:
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"modelguard: {sentence}"))
        else:
            self.window_log_message(types.LogMessageParams(types.MessageType.Warning, f"modelguard: {sentence}"))

    @property
    def _encoding(self) -> types.PositionEncodingKind:
        return types.PositionEncodingKind(self.server_capabilities.position_encoding or types.PositionEncodingKind.Utf16)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")

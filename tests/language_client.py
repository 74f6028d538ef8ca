"""A client of the language server: a process of its own, over its standard input and output."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

WAIT = 60.0
"""Seconds after which a server that does not answer is taken for hung; nothing is measured by it."""


class Client:
    """Starts a server in a folder; `say` is what the client says of itself beyond what it must."""

    def __init__(self, folder: Path, *options: str, encodings: tuple[str, ...] = (), **capabilities: Any) -> None:
        command = [sys.executable, "-m", "modelguard", "server", *options]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe)
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._errors: list[bytes] = []
        self._later: list[dict[str, Any]] = []
        self._number = 0
        self._readers = [threading.Thread(target=target, daemon=True) for target in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()
        if encodings:
            capabilities["general"] = {"positionEncodings": list(encodings)}
        opening = {"processId": None, "rootUri": None, "capabilities": capabilities}
        self.capabilities = self.ask("initialize", opening)["capabilities"]
        self.tell("initialized", {})

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        """Send a request; its result, or the whole answer where that is an error."""
        self._number += 1
        number = self._number
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer = self.next(lambda message: message.get("id") == number and "method" not in message)
        return answer.get("result", answer) if "error" not in answer else answer

    def send_bytes(self, content: bytes) -> None:
        """Send anything."""
        assert self.process.stdin is not None
        self.process.stdin.write(content)
        self.process.stdin.flush()

    def next(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next message that fits; the others stay for later."""
        for message in self._later:
            if fits(message):
                self._later.remove(message)
                return message
        while True:
            message = self._messages.get(timeout=WAIT)
            assert message is not None, self.errors()
            if fits(message):
                return message
            self._later.append(message)

    def has(self, fits: Callable[[dict[str, Any]], bool]) -> bool:
        """Whether a message that fits came before the one that was waited for."""
        return any(map(fits, self._later))

    def said(self, method: str) -> dict[str, Any]:
        """What the next notification of a method, or request, says."""
        params: dict[str, Any] = self.next(lambda message: message.get("method") == method)["params"]
        return params

    def published(self, uri: str, version: int | None = None) -> list[dict[str, Any]]:
        """The next diagnostics of a document, of a version or of any."""

        def fits(message: dict[str, Any]) -> bool:
            params = message.get("params") or {}
            wanted = message.get("method") == "textDocument/publishDiagnostics" and params["uri"] == uri
            return wanted and (version is None or params.get("version") == version)

        found: list[dict[str, Any]] = self.next(fits)["params"]["diagnostics"]
        return found

    def until(self, uri: str, fits: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The next diagnostics of a document that fit."""
        while True:
            found = self.published(uri)
            if fits(found):
                return found

    def open(self, uri: str, text: str, version: int = 1) -> None:
        document = {"uri": uri, "languageId": "python", "version": version, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})

    def change(self, uri: str, text: str, version: int) -> None:
        changes = [{"text": text}]
        self.tell("textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": changes})

    def save(self, uri: str) -> None:
        self.tell("textDocument/didSave", {"textDocument": {"uri": uri}})

    def close(self, uri: str) -> None:
        self.tell("textDocument/didClose", {"textDocument": {"uri": uri}})

    def leave(self) -> int:
        """Say good-bye; the exit status of the server."""
        self.ask("shutdown", None)
        self.tell("exit", None)
        return self.process.wait(WAIT)

    def vanish(self) -> int:
        """Go without a word; the exit status of the server."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(WAIT)

    def errors(self) -> str:
        """What the server has said on standard error, once it has ended."""
        self.process.wait(WAIT)
        self._readers[1].join(WAIT)
        return b"".join(self._errors).decode()

    def kill(self) -> None:
        """End the server, however it fares."""
        self.process.kill()
        self.process.wait(WAIT)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            try:
                stream.close()
            except OSError:
                pass

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while header := stream.readline():
            length = int(header.partition(b":")[2]) if header.startswith(b"Content-Length") else 0
            while header.strip():
                header = stream.readline()
            message = json.loads(stream.read(length))
            if "method" in message and "id" in message:
                self._send({"jsonrpc": "2.0", "id": message["id"], "result": None})
            self._messages.put(message)
        self._messages.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._errors.append(line)

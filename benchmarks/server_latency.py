"""How soon an editor hears of a keystroke: from a change of a document to its diagnostics, by a client over stdio.

python benchmarks/server_latency.py            # files of transformers near 500, 2,000 and 5,000 lines
python benchmarks/server_latency.py --files 5  # so many of each size
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from corpus import Unavailable, default_cache, fetch
from lsprotocol import types
from pygls.lsp.client import LanguageClient

CHECKOUT = Path(__file__).resolve().parents[1]
SIZES = (500, 2_000, 5_000)
TYPED = "        scale = x.shape[0] # typed"


class Measured(NamedTuple):
    """One file: its lines, seconds from opening it to the first answer, from each keystroke to its answer, and of a scan."""

    lines: int
    opened: float
    keystrokes: list[float]
    scan: float


class Editor:
    """A client that waits for what it is told of a version."""

    def __init__(self) -> None:
        self.client = LanguageClient("benchmark", "1")
        self._answered: dict[tuple[str, int | None], asyncio.Event] = {}

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def _(params: types.PublishDiagnosticsParams) -> None:
            self._event(params.uri, params.version).set()

        @self.client.feature(types.WINDOW_LOG_MESSAGE)
        def _(params: types.LogMessageParams) -> None:
            """Nothing that counts here."""

    async def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        await self.client.start_io(sys.executable, "-m", "modelguard", "server", env=environment)
        await self.client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
        self.client.initialized(types.InitializedParams())

    async def leave(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    async def open(self, uri: str, text: str) -> float:
        """Seconds from opening a document to what is found in it."""
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, text)))
        return await self._seconds(uri, 1)

    async def change(self, uri: str, text: str, version: int) -> float:
        """Seconds from a change of a document to what is found in it then."""
        identifier = types.VersionedTextDocumentIdentifier(version=version, uri=uri)
        changes = [types.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, changes))
        return await self._seconds(uri, version)

    def close(self, uri: str) -> None:
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    async def _seconds(self, uri: str, version: int) -> float:
        start = time.perf_counter()
        await self._event(uri, version).wait()
        return time.perf_counter() - start

    def _event(self, uri: str, version: int | None) -> asyncio.Event:
        return self._answered.setdefault((uri, version), asyncio.Event())


async def measure(path: Path, pause: float) -> Measured:
    """Type a line into the body of a `forward` in the middle of a file, letter by letter."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    middle = len(lines) // 2
    place = next((at for at in range(middle, len(lines)) if lines[at].startswith("        return")), middle)
    editor = Editor()
    await editor.start()
    try:
        uri = path.as_uri()
        opened = await editor.open(uri, text)
        keystrokes = []
        for count in range(1, len(TYPED) + 1):
            await asyncio.sleep(pause)
            typed = "\n".join([*lines[:place], TYPED[:count], *lines[place:]])
            keystrokes.append(await editor.change(uri, typed, count + 1))
        editor.close(uri)
    finally:
        await editor.leave()
    return Measured(len(lines), opened, keystrokes, scan(path))


def scan(path: Path) -> float:
    """The seconds of a scan of one file by the command line, as an editor without a server would run it: the best of three."""
    command = [sys.executable, "-m", "modelguard", "scan", "--no-cache", "--quiet", str(path)]
    best = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, capture_output=True, check=False)
        best.append(time.perf_counter() - start)
    return min(best)


def near(models: Path, size: int, most: int) -> list[Path]:
    """Model files whose number of lines is nearest to a size, each of another model."""
    found = sorted(models.glob("*/modeling_*.py"))
    return sorted(found, key=lambda path: (abs(path.read_bytes().count(b"\n") - size), path.name))[:most]


def main(argv: list[str] | None = None) -> int:
    """Measures and prints; 2 where the corpus could not be fetched."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where wheels are kept (default: %(default)s)")
    parser.add_argument("--files", type=int, default=3, help="files of each size (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=0.12, help="seconds before each keystroke (default: %(default)s)")
    options = parser.parse_args(argv)
    try:
        models = fetch("transformers", options.cache) / "models"
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{'file':34} {'lines':>6} {'opened':>8} {'median':>8} {'90 %':>8} {'scan':>8} {'ratio':>6}   (milliseconds)")
    for size in SIZES:
        found = []
        for path in near(models, size, options.files):
            each = asyncio.run(measure(path, options.pause))
            found.append(each)
            show(path.name, each.lines, each.opened, each.keystrokes, each.scan)
        keystrokes = [seconds for each in found for seconds in each.keystrokes]
        opened = statistics.median(each.opened for each in found)
        scanned = statistics.median(each.scan for each in found)
        show(f"all near {size} lines", size, opened, keystrokes, scanned)
    return 0


def show(name: str, lines: int, opened: float, keystrokes: list[float], scanned: float) -> None:
    """One row; the ratio is the median keystroke's to a scan of that file by the command line."""
    median, late = statistics.median(keystrokes), statistics.quantiles(keystrokes, n=10)[-1]
    numbers = [f"{1000 * seconds:8.0f}" for seconds in (opened, median, late, scanned)]
    print(f"{name:34} {lines:6} {' '.join(numbers)} {median / scanned:6.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""A headless Chromium, spoken to by the WebDriver protocol: opens files, runs scripts, and tells what went wrong on the page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

DRIVER = shutil.which("chromedriver")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
    "--window-size=1280,1000",
)


class Browser:
    """One window."""

    def __init__(self, address: str) -> None:
        # The driver is on this machine, whatever proxy leads out of it.
        self._opener = build_opener(ProxyHandler({}))
        self._address = address
        self._session = ""

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A request of the protocol; its answer's value."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._address}{self._session}{path}", data, {"Content-Type": "application/json"}, method=method)
        with self._opener.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def start(self, profile: Path) -> None:
        """Open the window."""
        chrome = {"binary": CHROMIUM, "args": [*_ARGUMENTS, f"--user-data-dir={profile}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}}
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{session['sessionId']}"

    def open(self, page: Path) -> None:
        """Load a file. What an earlier page had to say is forgotten."""
        self.problems()
        self.call("POST", "/url", {"url": page.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns; it gets `arguments`."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def problems(self) -> list[str]:
        """What the console has to say since it was last asked: errors of scripts, and whatever the page's policy refused."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def click(self, selector: str) -> None:
        """Click the first element that a selector finds."""
        self.call("POST", f"/element/{self._element(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Put text in the place of what a field holds, key by key."""
        element = self._element(selector)
        # Control-A and Backspace, as a person would: to clear a field by the protocol tells the page nothing.
        self.call("POST", f"/element/{element}/value", {"text": "\ue009a\ue000\ue003" + text})

    def press(self, key: str) -> None:
        """Press a key, where the focus is."""
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": keys}]})

    def media(self, **features: str) -> None:
        """What the page is told of its reader: `prefers_color_scheme="dark"`."""
        told = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": told}})

    def _element(self, selector: str) -> str:
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        return str(next(iter(found.values())))


@contextmanager
def opened(profile: Path) -> Iterator[Browser]:
    """A browser with a profile of its own, which ends with the block."""
    assert DRIVER is not None
    driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert driver.stdout is not None
        started = next(match for line in driver.stdout if (match := re.search(r"started successfully on port (\d+)", line)))
        browser = Browser(f"http://127.0.0.1:{started[1]}")
        browser.start(profile)
        yield browser
        browser.call("DELETE", "")
    finally:
        driver.terminate()
        driver.wait()

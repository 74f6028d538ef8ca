"""`modelguard server`, by a client over its standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from language_client import WAIT, Client

from modelguard.rules import by_code
from modelguard.rules.pages import page
from modelguard.scan.engine import scan_source

NORM = """\
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x
        return x - self.mean
"""
CLEAN = NORM.replace("self.mean = 0.9 * self.mean + 0.1 * x", "self.mean.mul_(0.9).add_(x)")
BASE = NORM.replace("class Norm", "class Base").partition("\n    def forward")[0] + "\n"
NET = """\
from base import Base


class Net(Base):
    def forward(self, x):
        self.mean = self.mean + x
        return self.mean
"""
HELPER = """\
from torch import nn


class Counts(nn.Module):
    def count(self):
        self.n = self.n + 1
"""
CALLER = """\
from helper import Counts


class Net(Counts):
    def forward(self, x):
        self.count()
        return x * self.n
"""

Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started = []

    def begin(*options: str, **capabilities: Any) -> Client:
        started.append(Client(tmp_path, *options, **capabilities))
        return started[-1]

    yield begin
    for client in started:
        client.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One client for all that must leave no trace in a server."""
    client = Client(tmp_path_factory.mktemp("shared"))
    yield client
    try:
        assert client.leave() == 0
        assert client.errors() == ""
    finally:
        client.kill()


def codes(found: list[dict[str, Any]]) -> list[str]:
    return [each["code"] for each in found if each["severity"] < 3]


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return path.as_uri()


def apply(text: str, edits: list[dict[str, Any]]) -> str:
    """The text after edits of a client that counts in UTF-16."""
    lines = [line.encode("utf-16-le") for line in text.split("\n")]
    *others, edit = sorted(edits, key=lambda edit: (edit["range"]["start"]["line"], edit["range"]["start"]["character"]))
    first, last = edit["range"]["start"], edit["range"]["end"]
    before = b"".join(line + "\n".encode("utf-16-le") for line in lines[: first["line"]])
    before += lines[first["line"]][: 2 * first["character"]]
    after = lines[last["line"]][2 * last["character"] :]
    after += b"".join("\n".encode("utf-16-le") + line for line in lines[last["line"] + 1 :])
    changed = (before + edit["newText"].encode("utf-16-le") + after).decode("utf-16-le")
    return apply(changed, others) if others else changed


def at(line: int, character: int) -> dict[str, int]:
    return {"line": line, "character": character}


def test_open_change_save_close(start: Start, tmp_path: Path) -> None:
    client, uri = start(), write(tmp_path / "norm.py", NORM)
    client.open(uri, NORM)
    (found,) = client.published(uri, 1)
    assert (found["code"], found["severity"], found["source"]) == ("MG101", 1, "modelguard")
    assert found["range"] == {"start": at(10, 8), "end": at(10, 17)}
    assert "help: " in found["message"]
    client.change(uri, CLEAN, 2)
    assert codes(client.published(uri, 2)) == []
    client.change(uri, "\n" + NORM, 3)
    assert client.published(uri, 3)[0]["range"]["start"] == at(11, 8)
    client.save(uri)
    assert codes(client.published(uri, 3)) == ["MG101"]
    client.close(uri)
    assert client.until(uri, lambda found: not found) == []
    assert client.leave() == 0
    assert client.errors() == ""


def test_the_same_as_a_scan(start: Start, tmp_path: Path) -> None:
    example = Path(__file__).parent.parent / "examples" / "lazy_mask.py"
    text = example.read_text()
    path = tmp_path / "lazy_mask.py"
    client, uri = start(), write(path, text)
    client.open(uri, text)
    found = client.published(uri)
    wanted = scan_source(text, str(path)).findings
    assert [(each["code"], each["range"]["start"]["line"] + 1) for each in found] == [
        (each.code, each.location.line) for each in wanted
    ]


def test_calls_that_lead_to_a_write_are_related_information(start: Start, tmp_path: Path) -> None:
    write(tmp_path / "helper.py", HELPER)
    both = HELPER + CALLER.partition("\n")[2]
    client, uri = start(), write(tmp_path / "both.py", both)
    client.open(uri, both)
    found = next(each for each in client.published(uri) if each["code"] == "MG104")
    (call,) = found["relatedInformation"]
    assert call["location"]["uri"] == uri
    assert both.split("\n")[call["location"]["range"]["start"]["line"]].strip() == "self.count()"
    assert call["message"] == "in Net.forward, this call leads to the write"


def test_unsaved_content_of_other_documents_counts(start: Start, tmp_path: Path) -> None:
    base, net = write(tmp_path / "base.py", "Base = object\n"), write(tmp_path / "net.py", NET)
    client = start()
    client.open(net, NET)
    assert codes(client.published(net)) == []
    client.open(base, "Base = object\n")
    client.change(base, BASE, 2)
    # Nobody touched the other document: that it depends on this one is known.
    assert codes(client.until(net, bool)) == ["MG101"]
    client.close(base)
    assert client.until(net, lambda found: not found) == []


def test_what_other_files_reach_is_found_and_stays_while_somebody_types(start: Start, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.modelguard]\n")
    helper = write(tmp_path / "helper.py", HELPER)
    write(tmp_path / "caller.py", CALLER)
    client = start()
    client.open(helper, HELPER)
    assert codes(client.published(helper)) == []
    found = client.until(helper, bool)
    assert codes(found) == ["MG104"]
    assert found[0]["relatedInformation"][0]["location"]["uri"] == (tmp_path / "caller.py").as_uri()
    client.change(helper, "# one line more\n" + HELPER, 2)
    (moved,) = client.published(helper, 2)
    assert moved["range"]["start"]["line"] == found[0]["range"]["start"]["line"] + 1


def test_what_is_found_stays_while_the_text_is_broken(start: Start, tmp_path: Path) -> None:
    client, uri = start(), write(tmp_path / "norm.py", NORM)
    client.open(uri, NORM)
    client.published(uri, 1)
    client.change(uri, "import (\n" + NORM, 2)
    (found,) = client.published(uri, 2)
    assert (found["code"], found["range"]["start"]["line"]) == ("MG101", 11)
    # Once nobody types, what is wrong is told.
    found = client.until(uri, lambda found: len(found) == 2)
    assert [each["code"] for each in found] == ["MG901", "MG101"]
    client.change(uri, NORM, 3)
    assert codes(client.published(uri, 3)) == ["MG101"]


def test_a_broken_file_is_told_when_it_is_opened(start: Start, tmp_path: Path) -> None:
    client, uri = start(), write(tmp_path / "norm.py", "class\n")
    client.open(uri, "class\n")
    assert codes(client.until(uri, bool)) == ["MG901"]


def test_settings_of_the_project_hold_and_are_read_again(start: Start, tmp_path: Path) -> None:
    settings = tmp_path / "pyproject.toml"
    settings.write_text('[tool.modelguard]\nignore = ["MG101"]\n')
    client = start(workspace={"didChangeWatchedFiles": {"dynamicRegistration": True}})
    (registration,) = client.said("client/registerCapability")["registrations"]
    patterns = {each["globPattern"] for each in registration["registerOptions"]["watchers"]}
    assert {"**/pyproject.toml", "**/modelguard.toml"} <= patterns
    uri = write(tmp_path / "norm.py", NORM)
    client.open(uri, NORM)
    assert client.published(uri) == []
    settings.write_text("")
    client.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": settings.as_uri(), "type": 2}]})
    assert codes(client.until(uri, bool)) == ["MG101"]
    settings.write_text('[tool.modelguard]\nignore = ["MG101"]\n')
    client.save(uri)
    assert client.until(uri, lambda found: not found) == []


def test_a_mistake_in_the_settings_is_told_and_what_held_before_holds_on(start: Start, tmp_path: Path) -> None:
    settings = tmp_path / "pyproject.toml"
    settings.write_text('[tool.modelguard]\nignore = ["MG101"]\n')
    client, uri = start(), write(tmp_path / "norm.py", NORM + "\n")
    client.open(uri, NORM)
    assert client.published(uri) == []
    settings.write_text('[tool.modelguard]\nignroe = ["MG101"]\n')
    client.save(uri)
    message = client.said("window/showMessage")
    assert message["type"] == 1
    assert "pyproject.toml:2" in message["message"] and "did you mean" in message["message"]
    client.change(uri, NORM + "\n", 2)
    assert client.published(uri, 2) == []


def test_excluded_files_are_left_alone(start: Start, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.modelguard]\nextend-exclude = ["generated"]\n')
    (tmp_path / "generated").mkdir()
    client, uri = start(), write(tmp_path / "generated" / "norm.py", NORM)
    client.open(uri, NORM)
    assert client.published(uri) == []


def test_notes_are_hints_or_information(start: Start, tmp_path: Path) -> None:
    client, uri = start(), write(tmp_path / "norm.py", CLEAN)
    client.open(uri, CLEAN)
    assert {(each["code"], each["severity"]) for each in client.published(uri)} == {("MG108", 4)}
    (tmp_path / "pyproject.toml").write_text("[tool.modelguard]\nshow-notes = true\n")
    client.save(uri)
    found = client.until(uri, lambda found: found[0]["severity"] != 4)
    assert {each["severity"] for each in found} == {3}


def test_what_a_baseline_holds_is_left_out(start: Start, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.modelguard]\nbaseline = "known.json"\n')
    uri = write(tmp_path / "norm.py", NORM)
    command = [sys.executable, "-m", "modelguard", "scan", "--write-baseline", "--no-cache", "."]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    client = start()
    client.open(uri, NORM)
    assert client.published(uri) == []
    (tmp_path / "known.json").write_text("{")
    client.change(uri, NORM + "\n", 2)
    assert codes(client.published(uri, 2)) == ["MG101"]
    assert "known.json:1: this baseline is not valid JSON" in client.said("window/logMessage")["message"]


def test_the_page_of_a_rule_hovers_over_its_finding(start: Start, tmp_path: Path) -> None:
    client, uri = start(), write(tmp_path / "norm.py", NORM)
    client.open(uri, NORM)
    client.published(uri)
    result = client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": at(10, 12)})
    assert result["contents"] == {"kind": "markdown", "value": page(by_code["MG101"])}
    assert result["range"]["start"] == at(10, 8)
    assert client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": at(0, 0)}) is None


@pytest.mark.parametrize("name", ["MG101", "mg101", "buffer-rebound"])
def test_the_page_of_a_rule_hovers_over_its_name_in_a_suppression(start: Start, tmp_path: Path, name: str) -> None:
    text = NORM.replace("0.1 * x\n", f"0.1 * x  # modelguard: ignore[MG104, {name}] 💥 is known\n")
    client, uri = start(), write(tmp_path / "norm.py", text)
    client.open(uri, text)
    client.published(uri)
    column = text.split("\n")[10].index(name)
    result = client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": at(10, column + 2)})
    assert result["contents"]["value"] == page(by_code["MG101"])
    assert result["range"] == {"start": at(10, column), "end": at(10, column + len(name))}


@pytest.mark.parametrize("name", ["norm.py", "модель #1%;?.py"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NORM, id="plain"),
        pytest.param(NORM.replace("0.1 * x\n", '0.1 * x  # "💥💥"\n'), id="astral"),
        pytest.param(NORM.replace("0.1 * x\n", "0.1 * x  # modelguard: ignore[MG104] known\n"), id="merged"),
        pytest.param(NORM.replace("0.1 * x\n", f"0.1 * x  # {'long ' * 30}\n"), id="above"),
        pytest.param(NORM.replace("from torch", "\x0cfrom torch"), id="form-feed"),
    ],
)
def test_a_finding_is_suppressed_by_its_action(start: Start, tmp_path: Path, text: str, name: str) -> None:
    client, uri = start(), write(tmp_path / name, text)
    client.open(uri, text)
    found = next(each for each in client.published(uri) if each["code"] == "MG101")
    (action,) = suppressing(client, uri, found)
    assert action["title"] == "Suppress MG101 on this line"
    assert action["kind"] == "quickfix"
    assert action["diagnostics"] == [found]
    changed = apply(text, action["edit"]["changes"][uri])
    assert ("modelguard: ignore[" in changed and "TODO: say why" in changed) or "known" in changed
    client.change(uri, changed, 2)
    assert "MG101" not in codes(client.published(uri, 2))


def suppressing(client: Client, uri: str, found: dict[str, Any], **context: Any) -> list[dict[str, Any]]:
    context = {"diagnostics": [found], **context}
    asked = {"textDocument": {"uri": uri}, "range": found["range"], "context": context}
    actions: list[dict[str, Any]] = client.ask("textDocument/codeAction", asked)
    return [action for action in actions if action["title"].startswith("Suppress")]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_finding_is_fixed_by_its_action(start: Start, tmp_path: Path, end: str) -> None:
    text = "#\n" + NORM
    client, uri = start(), write(tmp_path / "norm.py", text)
    client.open(uri, text.replace("\n", end))
    (found,) = client.published(uri)
    asked = {"textDocument": {"uri": uri}, "range": found["range"], "context": {"diagnostics": [found]}}
    fix, suppression = client.ask("textDocument/codeAction", asked)
    assert fix["kind"] == suppression["kind"] == "quickfix"
    assert fix["title"].startswith("Fix MG101: ")
    changed = apply(text, fix["edit"]["changes"][uri]).replace("\r", "")
    assert "self.mean.copy_(" in changed
    client.change(uri, changed, 2)
    assert codes(client.published(uri, 2)) == []


def test_all_safe_fixes_are_applied_on_request(start: Start, tmp_path: Path) -> None:
    text = CLEAN.replace("return x - self.mean", "return x - self.mean  # modelguard: ignore[MG104] gone")
    (tmp_path / "pyproject.toml").write_text("[tool.modelguard]\n")
    client, uri = start(), write(tmp_path / "norm.py", text)
    client.open(uri, text)
    assert "MG902" in codes(client.published(uri))
    # It moves along with its line.
    client.change(uri, "#\n" + text, 2)
    client.published(uri, 2)
    for only in (["source.fixAll.modelguard"], ["source.fixAll"], ["source"]):
        nowhere, context = {"start": at(0, 0), "end": at(0, 0)}, {"diagnostics": [], "only": only}
        asked = {"textDocument": {"uri": uri}, "range": nowhere, "context": context}
        (action,) = client.ask("textDocument/codeAction", asked)
        assert action["kind"] == "source.fixAll.modelguard"
        assert apply("#\n" + text, action["edit"]["changes"][uri]) == "#\n" + CLEAN


def test_an_edit_says_for_which_version_it_is_where_a_client_can_tell(start: Start, tmp_path: Path) -> None:
    client = start(workspace={"workspaceEdit": {"documentChanges": True}})
    uri = write(tmp_path / "norm.py", NORM)
    client.open(uri, NORM, version=7)
    (found,) = client.published(uri)
    (action,) = suppressing(client, uri, found)
    (edit,) = action["edit"]["documentChanges"]
    assert edit["textDocument"] == {"uri": uri, "version": 7}
    assert suppressing(client, uri, found, only=["source.organizeImports"]) == []
    assert len(suppressing(client, uri, found, only=["quickfix"])) == 1


def test_what_cannot_be_suppressed_has_no_such_action(start: Start, tmp_path: Path) -> None:
    text = CLEAN.replace("return x - self.mean", "return x - self.mean  # modelguard: ignore[MG104] gone")
    client, uri = start(), write(tmp_path / "norm.py", text)
    client.open(uri, text)
    found = next(each for each in client.published(uri) if each["code"] == "MG902")
    assert found["tags"] == [1]
    assert suppressing(client, uri, found) == []


@pytest.mark.parametrize(
    ("encodings", "agreed", "column"),
    [((), "utf-16", 23), (("utf-8", "utf-16"), "utf-8", 27), (("utf-32",), "utf-32", 21), (("utf-7",), "utf-16", 23)],
)
def test_columns_are_counted_as_agreed(
    start: Start, tmp_path: Path, encodings: tuple[str, ...], agreed: str, column: int
) -> None:
    text = NORM.replace("        self.mean = 0.9", '        "💥💥 is"; x = x; self.mean = 0.9').replace("x = x; ", "")
    client, uri = start(encodings=encodings), write(tmp_path / "norm.py", text)
    assert client.capabilities["positionEncoding"] == agreed
    client.open(uri, text)
    (found,) = client.published(uri)
    start_at = text.split("\n")[10].index("self.mean")
    shift = {"utf-8": 6, "utf-16": 2, "utf-32": 0}[agreed]
    assert found["range"]["start"] == at(10, start_at + shift)
    assert found["range"]["end"] == at(10, start_at + shift + len("self.mean"))
    hovering = {"textDocument": {"uri": uri}, "position": at(10, start_at + shift + 1)}
    assert client.ask("textDocument/hover", hovering)["range"] == found["range"]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_other_systems(start: Start, tmp_path: Path, end: str) -> None:
    text = NORM.replace("\n", end)
    client, uri = start(), write(tmp_path / "norm.py", "")
    client.open(uri, text)
    (found,) = client.published(uri)
    assert found["range"]["start"] == at(10, 8)
    (action,) = suppressing(client, uri, found)
    (edit,) = action["edit"]["changes"][uri]
    assert edit["range"] == {"start": at(10, 45), "end": at(10, 45)}


def test_a_text_declares_no_encoding_to_an_editor(start: Start, tmp_path: Path) -> None:
    text = "# coding: latin-1\n" + NORM.replace("        self.mean = 0.9", '        "é💥"; self.mean = 0.9')
    client, uri = start(), write(tmp_path / "norm.py", "")
    client.open(uri, text)
    (found,) = client.published(uri)
    assert found["range"]["start"] == at(11, 15)


@pytest.mark.parametrize(
    "uri",
    [
        "untitled:Untitled-1",
        "untitled:/somewhere/new.py",
        "file:///c%3A/models/norm.py",
        "file:///C:/models/norm.py",
        "file://server/share/norm.py",
        "file:///%ff%fe.py",
        "file:///a%0Ab/%F0%9F%92%A5.py",
    ],
)
def test_documents_without_a_file(shared: Client, uri: str) -> None:
    shared.open(uri, NORM)
    assert codes(shared.published(uri, 1)) == ["MG101"]
    shared.change(uri, CLEAN, 2)
    assert codes(shared.published(uri, 2)) == []
    shared.close(uri)


@pytest.mark.parametrize(
    "uri",
    ["git:/norm.py?x", "vscode-notebook-cell:/n.ipynb#1", "output:1", "", "file://", "file:///", "file:///%00.py", "norm.py"],
)
def test_documents_that_are_not_looked_at(shared: Client, tmp_path: Path, uri: str) -> None:
    other = write(tmp_path / "norm.py", NORM)
    shared.open(uri, NORM)
    shared.change(uri, CLEAN, 2)
    shared.save(uri)
    shared.close(uri)
    shared.open(other, NORM)
    assert codes(shared.published(other)) == ["MG101"]
    assert not shared.has(lambda message: (message.get("params") or {}).get("uri") == uri)
    assert shared.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": at(0, 0)}) is None
    shared.close(other)


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.parametrize(
    "nonsense",
    [
        pytest.param(b"hello\r\n\r\n", id="no header"),
        pytest.param(b"Content-Length: many\r\n\r\n", id="no length"),
        pytest.param(framed(b"{"), id="no JSON"),
        pytest.param(framed(b"\xff\xfe"), id="no text"),
        pytest.param(framed(b"17"), id="a number"),
        pytest.param(framed(b"[]"), id="a list"),
        pytest.param(framed(b"{}"), id="an empty message"),
        pytest.param(framed(b"[" * 100_000), id="nested deeply"),
        pytest.param(framed(b'{"jsonrpc": "2.0", "method": "textDocument/didOpen"}'), id="without parameters"),
        pytest.param(
            framed(b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": 3}}'), id="wrong type"
        ),
        pytest.param(framed(b'{"jsonrpc": "2.0", "method": "no/such", "params": {}}'), id="unknown notification"),
        pytest.param(framed(b'{"jsonrpc": "2.0", "id": 99, "result": 1}'), id="an answer to nothing"),
        pytest.param(framed(b'{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 98}}'), id="cancels nothing"),
    ],
)
def test_nonsense_is_passed_over(shared: Client, tmp_path: Path, nonsense: bytes) -> None:
    uri = write(tmp_path / "norm.py", NORM)
    shared.open(uri, NORM)
    shared.send_bytes(nonsense)
    shared.change(uri, CLEAN, 2)
    assert codes(shared.published(uri, 2)) == []
    shared.close(uri)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("textDocument/hover", {"textDocument": {}}),
        ("textDocument/hover", []),
        ("textDocument/codeAction", {"range": "all"}),
        ("no/such/method", {}),
    ],
)
def test_a_request_that_makes_no_sense_gets_an_error(shared: Client, method: str, params: Any) -> None:
    assert shared.ask(method, params)["error"]["code"] < 0


def test_places_outside_of_the_text(start: Start, tmp_path: Path) -> None:
    client, uri = start(), write(tmp_path / "norm.py", NORM)
    client.open(uri, NORM)
    client.published(uri)
    for position in (at(4000, 0), at(10, 4000), at(4000, 4000)):
        client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": position})
    asked = {"textDocument": {"uri": uri}, "range": {"start": at(0, 0), "end": at(9000, 9)}, "context": {"diagnostics": []}}
    titles = [action["title"] for action in client.ask("textDocument/codeAction", asked)]
    assert [title.partition(":")[0] for title in titles] == ["Fix MG101", "Suppress MG101 on this line"]


def test_a_client_that_dies(start: Start, tmp_path: Path) -> None:
    client, uri = start(), write(tmp_path / "norm.py", NORM)
    client.open(uri, NORM)
    assert client.vanish() == 1
    assert "modelguard: the client is gone" in client.errors()


def test_a_client_that_dies_in_the_middle_of_a_message(start: Start) -> None:
    client = start()
    client.send_bytes(b'Content-Length: 5000\r\n\r\n{"jsonrpc"')
    assert client.vanish() == 1


def test_a_client_that_leaves_without_a_word_before(start: Start) -> None:
    client = start()
    client.tell("exit", None)
    assert client.process.wait(WAIT) == 1


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_server_that_is_told_to_end(start: Start) -> None:
    client = start()
    client.process.terminate()
    assert client.process.wait(WAIT) == 143


def test_the_last_of_many_keystrokes_is_answered(start: Start, tmp_path: Path) -> None:
    large = NORM + "".join(NORM.partition("\n\n\n")[2].replace("Norm", f"Norm{number}") for number in range(300))
    client, uri = start(), write(tmp_path / "large.py", large)
    client.open(uri, large)
    assert len(client.published(uri, 1)) == 301
    for version in range(2, 32):
        client.change(uri, large + "#" * version + "\n", version)
    assert len(client.published(uri, 31)) == 301
    assert client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": at(10, 8)}) is not None


def test_nothing_is_printed_among_the_messages_and_torch_is_not_imported(tmp_path: Path) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}).encode()
    code = "import sys; from modelguard.cli.main import main; status = main(['server']); print('torch' in sys.modules, status)"
    done = subprocess.run([sys.executable, "-c", code], input=framed(body), capture_output=True, cwd=tmp_path)
    assert done.stdout.startswith(b"Content-Length: ")
    assert done.stdout.endswith(b"}")
    assert done.stderr.endswith(b"False 1\n")


def test_without_the_extra(tmp_path: Path) -> None:
    code = "import sys; sys.modules['pygls'] = None; from modelguard.cli.main import main; sys.exit(main(['server']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, input="", cwd=tmp_path)
    assert done.returncode == 2
    assert (
        done.stderr == "modelguard: error: the server needs pygls, which is not installed here: pip install 'modelguard[lsp]'\n"
    )


def test_settings_named_at_the_start(start: Start, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('ignore = ["MG101"]\n')
    uri = write(tmp_path / "norm.py", NORM)
    client = start("--stdio", "--config", "other.toml")
    client.open(uri, NORM)
    assert client.published(uri) == []
    client = start("--isolated")
    client.open(uri, NORM)
    assert codes(client.published(uri)) == ["MG101"]


def test_a_mistake_at_the_start(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "modelguard", "server", "--config", "missing.toml"]
    done = subprocess.run(command, capture_output=True, text=True, input="", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no file missing.toml" in done.stderr

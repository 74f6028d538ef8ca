"""Notebooks as Python: the text of all code cells, in which the rest of the tool works as in a file, and the way back.

Each cell follows on a line of its own that names it. What only IPython understands becomes a comment behind a mark, on the same
line, so that the cells are whole again when the marks are taken away.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from modelguard.errors import SourceError
from modelguard.findings import Cell, Finding, cell_at

_MARK = "#\x1e"
"""Begins what was hidden; nobody types that character."""

_HIDDEN = re.compile(rf"(?:(?:pass|None)  )?{_MARK}")
_HEADER = re.compile(rf"^pass  {_MARK}cell (\d+)$", re.MULTILINE)
_LINE_END = re.compile(r"\r\n|\r|\n")

_UNREADABLE = re.compile("[\0\ud800-\udfff]")
"""What the parser refuses even in a comment."""

_MAGIC = re.compile(
    r""" (?P<indentation>[ \t]*)(?![ \t]) (?: [%!?] | (?=[^\n\#"'=]*\?[ \t]*$) )
       | (?P<target>[\w.,*\[\] \t]+=[ \t]*) (?=[%!][^=\n]) """,
    re.MULTILINE | re.VERBOSE,
)
"""How a line begins that is a command (`%time`, `!ls`), a question (`?x`, `x?`), or keeps what a command gives (`x = !ls`)."""
_COMMAND = re.compile(r"(?:[^\n]*\\\r?\n)*[^\n]*")
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_RUN_HERE = frozenset("capture debug ipytest memit prun time timeit".split())
"""Magics of whole cells whose cell is Python that runs in the notebook."""

_LEXEME = re.compile(
    r""" \"{3}|'{3} | "(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'? | \#[^\n]* | [(\[{] | [)\]}] | \\\r?\n | \n """,
    re.DOTALL | re.VERBOSE,
)
_JSON_LEXEME = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]')

_Place = tuple[str | int, ...]
"""The keys and indices that lead to a value."""


class Fault(NamedTuple):
    """A cell that is no Python: where, counted through all code, and why."""

    line: int
    message: str


class Notebook(NamedTuple):
    """A notebook's code. `language` is set where that is not Python, and so not looked at."""

    text: str
    cells: tuple[Cell, ...] = ()
    faults: tuple[Fault, ...] = ()
    language: str | None = None


def read(content: bytes, path: str) -> Notebook:
    """The code of the notebook that `content` holds; a cell that does not parse is hidden, so that the others are looked at."""
    document = _document(content, path)
    language = _language(document)
    if language is not None:
        return Notebook("", language=language)
    pieces, cells, faults = [], [], []
    lines = 0
    for number, _, source in _sources(document, path):
        if _UNREADABLE.search(source):
            raise SourceError(path, None, f"cell {number} holds a NUL byte, or half of a surrogate pair; remove it")
        body, problem = _python(source)
        if problem is not None:
            faults.append(Fault(lines + 1 + problem[0], f"this cell is no Python, so nothing in it was looked at: {problem[1]}"))
        cells.append(Cell(number, lines + 1))
        # A statement, so that a comment at the end of a cell is not taken for one on what the next cell begins with.
        pieces += [f"pass  {_MARK}cell {number}", body]
        lines += 2 + len(_LINE_END.findall(body))
    return Notebook("\n".join(pieces), tuple(cells), tuple(faults))


def put_back(text: str, content: bytes, path: str) -> bytes:
    """The notebook `content` with its cells as `text` has them now; all else stays as it is, byte for byte."""
    document = _document(content, path)
    raw = content.decode("utf-8")
    changed = cells_of(text)
    sources = list(_sources(document, path))
    if cells_of(read(content, path).text) != {number: source for number, _, source in sources} or len(changed) != len(sources):
        raise SourceError(path, None, "its cells cannot be told apart; change this notebook by hand")
    strings = _strings(raw)
    for number, place, source in reversed(sources):
        if changed.get(number, source) != source:
            start, stop, written = _rewritten(raw, strings, place, changed[number])
            raw = raw[:start] + written + raw[stop:]
    return raw.encode("utf-8", "surrogatepass")


def cells_of(text: str) -> dict[int, str]:
    """The sources of the cells in a notebook's code, by their numbers."""
    _, *parts = _HEADER.split(text)
    bodies = (shown(body.removeprefix("\n")) for body in parts[1::2])
    *first, last = bodies if parts else ("",)
    return dict(zip(map(int, parts[::2]), (*(body.removesuffix("\n") for body in first), last), strict=False))


def shown(text: str) -> str:
    """A part of a notebook's code as it stands in the notebook."""
    return _HIDDEN.sub("", text)


def located(finding: Finding, cells: Mapping[str, Sequence[Cell]]) -> Finding:
    """The finding with the cells of the places that lie in notebooks; `cells` holds those of each, in order."""
    where = finding.location
    chain = tuple(frame._replace(cell=cell_at(cells.get(frame.path, ()), frame.line)) for frame in finding.chain)
    return replace(finding, location=where._replace(cell=cell_at(cells.get(where.path, ()), where.line)), chain=chain)


def _document(content: bytes, path: str) -> dict[str, Any]:
    if not content.strip():
        return {"cells": []}  # What editors make of a new one before it is first saved.
    try:
        document = json.loads(content.decode("utf-8").removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise SourceError(path, error.lineno, f"this notebook is not valid JSON: {error.msg}; restore it or exclude it") from None
    except UnicodeDecodeError:
        raise SourceError(path, None, "this notebook is not UTF-8; restore it or exclude it") from None
    except (RecursionError, ValueError) as error:
        raise SourceError(path, None, f"cannot read this notebook: {error}; restore it or exclude it") from None
    if not isinstance(document, dict):
        raise _no_notebook(path)
    return document


def _no_notebook(path: str) -> SourceError:
    return SourceError(path, None, "this is no notebook of format 3 or 4; restore it or exclude it")


def _language(document: Mapping[str, Any]) -> str | None:
    """The language of a notebook that says it is none of Python."""
    metadata = _table(document.get("metadata"))
    for name in (_table(metadata.get("kernelspec")).get("language"), _table(metadata.get("language_info")).get("name")):
        if isinstance(name, str) and name:
            return None if "python" in name.lower() else name
    return None


def _sources(document: Mapping[str, Any], path: str) -> Iterator[tuple[int, _Place, str]]:
    """Of each code cell its number among all cells, the place of its source, and that."""
    for number, (place, cell) in enumerate(_cells(document, path), 1):
        if not isinstance(cell, dict):
            raise _no_notebook(path)
        key = "source" if "source" in cell else "input"
        language = cell.get("language") or _table(_table(cell.get("metadata")).get("vscode")).get("languageId") or "python"
        if cell.get("cell_type") != "code" or language != "python" or key not in cell:
            continue
        lines = [cell[key]] if isinstance(cell[key], str) else cell[key]
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise _no_notebook(path)
        yield number, (*place, key), "".join(lines)


def _cells(document: Mapping[str, Any], path: str) -> Iterator[tuple[_Place, Any]]:
    sheets: list[tuple[_Place, Any]] = [((), document)]
    if "cells" not in document and isinstance(document.get("worksheets"), list):
        sheets = [(("worksheets", at), sheet) for at, sheet in enumerate(document["worksheets"])]
    for place, sheet in sheets:
        cells = _table(sheet).get("cells")
        if not isinstance(cells, list):
            raise _no_notebook(path)
        yield from (((*place, "cells", at), cell) for at, cell in enumerate(cells))


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _python(source: str) -> tuple[str, tuple[int, str] | None]:
    """A cell's source with what is no Python hidden; and where it does not parse, the line and the reason."""
    magic = _CELL_MAGIC.match(source)
    if magic is not None and magic[1] not in _RUN_HERE:
        return _hidden(source), None
    body = "".join(_without_commands(source))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(body)
    except SyntaxError as error:
        return _hidden(source), (error.lineno or 1, error.msg)
    except (RecursionError, MemoryError):
        return _hidden(source), (1, "nested too deeply to parse")
    return body, None


def _hidden(source: str) -> str:
    return _LINE_END.sub(lambda end: end[0] + _MARK, _MARK + source)


def _without_commands(source: str) -> Iterator[str]:
    """The statements of a cell, those for IPython hidden."""
    at = 0
    while at < len(source):
        magic = _MAGIC.match(source, at)
        if magic is None:
            end = _end_of_statement(source, at)
            yield source[at:end]
        else:
            start = magic.end("target") if magic["target"] is not None else magic.end("indentation")
            command = _COMMAND.match(source, start)
            assert command is not None
            end = command.end()
            yield f"{source[at:start]}{'None' if magic['target'] is not None else 'pass'}  {_hidden(command[0])}"
        at = end


def _end_of_statement(source: str, at: int) -> int:
    """Where the logical line ends that begins at `at`: behind its line end."""
    depth = 0
    while (found := _LEXEME.search(source, at)) is not None:
        at = found.end()
        lexeme = found[0]
        if lexeme in ('"""', "'''"):
            closing = re.compile(rf"(?:\\.|[^\\])*?{lexeme}", re.DOTALL).match(source, at)
            at = closing.end() if closing is not None else len(source)
        elif lexeme in "([{":
            depth += 1
        elif lexeme in ")]}":
            depth -= 1
        elif lexeme == "\n" and depth <= 0:
            return at
    return len(source)


def _strings(raw: str) -> dict[_Place, tuple[int, int]]:
    """Where the strings of a JSON text lie that are values, by their places."""
    found: dict[_Place, tuple[int, int]] = {}
    place: list[str | int] = []
    before = ""
    for lexeme in _JSON_LEXEME.finditer(raw):
        sign = lexeme[0]
        if sign in "{[":
            place.append("" if sign == "{" else 0)
        elif sign in "}]":
            place.pop()
        elif sign == ",":
            if isinstance(place[-1], int):
                place[-1] += 1
        elif isinstance(place[-1], str) and before in ("{", ","):
            place[-1] = json.loads(sign)
        else:
            found[tuple(place)] = lexeme.span()
        before = sign
    return found


def _rewritten(raw: str, strings: Mapping[_Place, tuple[int, int]], place: _Place, source: str) -> tuple[int, int, str]:
    """What to replace, from where to where, so that the value at `place` is `source`, as one string or as lines, like before."""
    if place in strings:
        return *strings[place], _quoted(source, raw)
    spans: list[tuple[int, int]] = []
    while (span := strings.get((*place, len(spans)))) is not None:
        spans.append(span)
    start, stop = spans[0][0], spans[-1][1]
    if len(spans) > 1:
        between = raw[spans[0][1] : spans[1][0]]
    else:
        between = "," + raw[len(raw[:start].rstrip()) : start]
    lines = re.findall(r"[^\n]*\n|[^\n]+", source) or [""]
    return start, stop, between.join(_quoted(line, raw) for line in lines)


def _quoted(text: str, raw: str) -> str:
    return json.dumps(text, ensure_ascii=raw.isascii())

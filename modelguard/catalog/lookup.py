"""Which errors a text tells of: a message on its own, or anywhere in a long log."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from modelguard.catalog.records import OWN, WRAPPER, Record, records

_STEERING = re.compile(r"\x1b(?:\[[0-9;:?]*[A-Za-z]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\))")
_ESCAPED = re.compile(r"\\([nrt\"'])")
_CHARACTERS = {"n": "\n", "r": "\n", "t": " "}

# What loggers, workers and pytest write before each line, so that a message of several lines can be read across them.
_PREFIX = re.compile(
    r"""(?:
        \[[^\[\]]{0,40}rank\d+\]:\ ?                                                  # torchrun
      | \([^()]{0,60}pid=\d+[^()]{0,60}\)\s+                                          # an engine's or Ray's process
      | \d{4}-\d\d-\d\d[T\ ][\d:.,]+Z?\s+(?:(?:stdout|stderr)\ [FP]\ |[|-]\s)?        # containers, logging
      | (?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\ [\d-]+\ [\d:.,]+\ \[[^\]]{1,100}\]\ ?  # vLLM
      | [VIWECF]\d{4}\ [\d:.]+\ \d+\ [^\]\s]{1,200}\]\ ?(?:\[[^\]]{0,60}\]\ ?){0,4}   # torch
      | E\ {3}                                                                        # pytest
    )+""",
    re.VERBOSE,
)
_FRAME = " \t\r│┃"
_TRACEBACK = re.compile(
    r"(?P<chained>direct cause of the following exception:\s+|another exception occurred:\s+)?Traceback \(most recent call last\)"
)


@dataclass(frozen=True, slots=True)
class Match:
    """A record, and where a text tells of it: the line, counted from 1, the words, and what the pattern's groups matched."""

    record: Record
    line: int
    text: str
    groups: dict[str, str]


def by_id(name: str) -> Record | None:
    """The record that `name` means by its id or its slug."""
    wanted = name.strip().lower()
    return records().get(wanted) or next((record for record in records().values() if record.slug == wanted), None)


def tagged(tag: str) -> list[Record]:
    """The records with that tag, such as a rule's code."""
    return [record for record in records().values() if tag in record.tags]


def remedy(text: str) -> str | None:
    """What to do first about the error that `text` tells of; None where no record knows it."""
    matches = match(text)
    return matches[0].record.solutions[0] if matches else None


def match(text: str) -> list[Match]:
    """The errors that `text` tells of, each once, the one to look at first.

    That is an exception before a warning, a specific error before one that wraps any other, what modelguard says before what
    torch told it, the last traceback before earlier ones, and of exceptions that caused each other the first.
    """
    lines = [_PREFIX.sub("", line.strip(_FRAME), count=1).strip(_FRAME) for line in _plain(text).split("\n")]
    joined = _Joined(lines, " ")
    found = _found(joined, _pattern)
    if all(WRAPPER in one.record.tags for one in found):
        # Perhaps a terminal of fixed width has cut the words that say more, or the message is as the source spells it.
        return _found(_Joined(lines, ""), _cut) or found or _found(joined, _spelled)
    return found


class _Joined:
    """Lines as one, so that a message is found across them."""

    def __init__(self, lines: list[str], separator: str) -> None:
        self.text = separator.join(lines)
        self._starts = list(accumulate((len(line) + len(separator) for line in lines[:-1]), initial=0))
        self._tracebacks = [found.start() for found in _TRACEBACK.finditer(self.text) if not found["chained"]]

    def line(self, position: int) -> int:
        return bisect_right(self._starts, position)

    def traceback(self, position: int) -> int:
        """How many tracebacks begin before; those of exceptions that caused each other are one."""
        return bisect_right(self._tracebacks, position)


def _pattern(record: Record) -> str:
    return record.messagePattern


def _cut(record: Record) -> str:
    """The pattern, for a text whose words may be cut anywhere."""
    return record.messagePattern.replace(r"\s+", r"\s*")


def _spelled(record: Record) -> str:
    """The message itself, braces and all."""
    return r"\s+".join(map(re.escape, record.errorMessage.split()))


def _found(joined: _Joined, pattern: Callable[[Record], str]) -> list[Match]:
    ranked = []
    for record in records().values():
        best = min(_hits(pattern(record), joined), key=lambda hit: hit[0], default=None)
        if best is not None:
            ranked.append((_rank(record), *best, record))
    ranked.sort(key=lambda entry: entry[:2])
    return [
        Match(
            record,
            joined.line(hit.start()),
            " ".join(hit[0].split()),
            {name: " ".join(value.split()) for name, value in hit.groupdict().items() if value},
        )
        for _, _, hit, record in ranked
    ]


def _hits(pattern: str, joined: _Joined) -> Iterator[tuple[tuple[int, int], re.Match[str]]]:
    """Where the text has what the pattern describes, and which of these places comes first."""
    for hit in re.finditer(pattern, joined.text):
        yield (-joined.traceback(hit.start()), hit.start()), hit


def _rank(record: Record) -> tuple[bool, bool, bool]:
    return record.errorType != "exception", WRAPPER in record.tags, record.repo != OWN


def _plain(text: str) -> str:
    """The text without colours, and with the lines and quotes that a log escapes."""
    return _ESCAPED.sub(lambda found: _CHARACTERS.get(found[1], found[1]), _STEERING.sub("", text)).replace("\r", "\n")

"""Suppressions as they stand in a text: what each names, and the lines that it covers."""

from __future__ import annotations

import io
import re
import tokenize
from typing import NamedTuple

BOM = "\ufeff"

_DIRECTIVE = re.compile(
    r"""(?<![^\s\#]) \# [ \t]* (?:
        modelguard [ \t]* : [ \t]* ignore (?P<file>[-_]file)? (?![\w-]) (?: [ \t]* \[ (?P<codes>[^\[\]]*) \] )?
        | noqa [ \t]* : [ \t]* (?P<noqa>[a-z]+\d+ (?:[ \t,]+ [a-z]+\d+)*)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_OWN_CODE = re.compile(r"MG\d+", re.IGNORECASE)
_BETWEEN_CODES = re.compile(r"[\s,;]+")

_WITHOUT_CODE = frozenset(
    (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER)
)


class Suppression(NamedTuple):
    """One comment that suppresses findings.

    `line`, `column` and `end_column` say where it stands, as in a `Location`. `codes` holds what it names, as it is written:
    codes, beginnings of codes, names of rules; none is all of them in `ignore-file`, and a mistake elsewhere. It covers the lines
    from `first` to `last`; both are 0 where it covers nothing.
    """

    line: int
    column: int
    end_column: int
    codes: tuple[str, ...]
    reason: str
    first: int
    last: int
    is_file: bool
    noqa: bool

    def covers(self, line: int) -> bool:
        """Whether a finding on `line` is within reach."""
        return self.first <= line <= self.last


class Statement(NamedTuple):
    """The lines of a logical line: simple statements, or the header of a compound one with what stands behind its colon."""

    first: int
    last: int
    decorates: bool
    """Whether it is a decorator, which belongs to the header below it."""


class _Comment(NamedTuple):
    """A comment; its column counts from 0."""

    line: int
    column: int
    text: str
    statement: int
    """The number of the statement that the comment stands in, or else of the next one."""
    inside: bool
    alone: bool


def suppressions_of(text: str) -> tuple[Suppression, ...]:
    """What `read` returns."""
    statements, comments = _lexed(text)
    lines = text.count("\n") + 1
    return tuple(found for comment in comments for found in _directives(comment, statements, lines))


def statements_of(text: str) -> list[Statement]:
    """The statements of a text whose line ends are `\\n`, in order. Where it is not Python, those above that place."""
    return _lexed(text)[0]


def brackets_of(comment: str) -> tuple[int, int]:
    """Where the names stand in the suppression that `comment` starts with, brackets included; or where they would stand."""
    match = _DIRECTIVE.match(comment)
    assert match is not None
    return (match.start("codes") - 1, match.end("codes") + 1) if match["codes"] is not None else (match.end(), match.end())


def _directives(comment: _Comment, statements: list[Statement], lines: int) -> list[Suppression]:
    """One comment can hold several, such as a `noqa` with a reason in modelguard's own words behind it."""
    matches = list(_DIRECTIVE.finditer(comment.text))
    found = []
    for number, match in enumerate(matches, 1):
        end = matches[number].start() if number < len(matches) else len(comment.text)
        is_file, noqa = match["file"] is not None, match["noqa"] is not None
        if noqa:
            codes = _OWN_CODE.findall(match["noqa"])
            if not codes:
                continue
            end = match.end()
        else:
            codes = [code for code in _BETWEEN_CODES.split(match["codes"] or "") if code]
        if is_file:
            first, last = (1, lines) if comment.alone else (0, 0)
        else:
            first, last = _reach(comment, statements)
        found.append(
            Suppression(
                line=comment.line,
                column=comment.column + match.start() + 1,
                end_column=comment.column + len(comment.text[:end].rstrip()) + 1,
                codes=tuple(dict.fromkeys(codes)),
                reason=comment.text[match.end() : end].strip(" \t\f:-"),
                first=first,
                last=last,
                is_file=is_file,
                noqa=noqa,
            )
        )
    return found


def _reach(comment: _Comment, statements: list[Statement]) -> tuple[int, int]:
    """The statement around the comment, or else the one below it, through its decorators."""
    if comment.statement == len(statements):
        return 0, 0
    last = comment.statement
    while not comment.inside and statements[last].decorates and last + 1 < len(statements):
        last += 1
    return statements[comment.statement].first, statements[last].last


def _lexed(text: str) -> tuple[list[Statement], list[_Comment]]:
    """All statements and comments of a text."""
    statements: list[Statement] = []
    comments: list[_Comment] = []
    opened: Statement | None = None
    # Only `\n` ends a line here: a form feed does not, and a carriage return within a line is no business of ours.
    lines = io.StringIO(text.removeprefix(BOM), newline="\n")
    try:
        for token in tokenize.generate_tokens(lines.readline):
            row = token.start[0]
            if token.type == tokenize.COMMENT:
                alone = not token.line[: token.start[1]].strip()
                inside = opened is not None
                comments.append(_Comment(row, token.start[1], token.string, len(statements), inside, alone))
            elif token.type == tokenize.NEWLINE:
                if opened is not None:
                    statements.append(opened._replace(last=row))
                opened = None
            elif token.type not in _WITHOUT_CODE:
                opened = opened or Statement(row, row, token.string == "@")
                opened = opened._replace(last=token.end[0])
    except (tokenize.TokenError, SyntaxError, ValueError):
        # What is read up to here holds; that the file is no Python, MG901 says. ValueError: halves of surrogate pairs.
        if opened is not None:
            statements.append(opened)
    return statements, comments

"""Places in a text as the protocol counts them: lines from 0, columns from 0 in units of the encoding that was agreed on."""

from __future__ import annotations

from lsprotocol.types import Position, PositionEncodingKind, Range

from modelguard.findings import Location
from modelguard.scan.files import split_lines


class Positions:
    """Places in one text. Ours count lines and characters from 1."""

    def __init__(self, text: str, encoding: PositionEncodingKind) -> None:
        self._lines = split_lines(text)
        self._width = _WIDTHS[encoding]

    def range_of(self, where: Location) -> Range:
        """A place of ours; what lies outside of the text is moved to its edge."""
        return Range(self.position(where.line, where.column), self.position(where.end_line, where.end_column))

    def line(self, number: int) -> Range:
        """A whole line, for what is known by its number alone."""
        return Range(self.position(number, 1), self.position(number, len(self._line(number)) + 1))

    def position(self, line: int, column: int) -> Position:
        """A line and a character of ours."""
        line = min(max(line, 1), len(self._lines))
        return Position(line - 1, sum(map(self._width, self._line(line)[: max(column, 1) - 1])))

    def at(self, offset: int) -> Position:
        """The place of a character that is given by its index in the text, whose line ends are `\\n`."""
        for number, line in enumerate(self._lines, 1):
            if offset <= len(line):
                return self.position(number, offset + 1)
            offset -= len(line) + 1
        return self.position(len(self._lines), len(self._lines[-1]) + 1)

    def place(self, position: Position) -> tuple[int, int]:
        """The line and character of ours that a position means; one behind the end of a line is that end."""
        line = min(position.line + 1, len(self._lines))
        left, column = position.character, 1
        for char in self._line(line):
            left -= self._width(char)
            if left < 0:
                break
            column += 1
        return line, column

    def _line(self, number: int) -> str:
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""


def _utf8(char: str) -> int:
    return len(char.encode("utf-8", "surrogatepass"))


def _utf16(char: str) -> int:
    return 2 if ord(char) > 0xFFFF else 1


def _utf32(char: str) -> int:
    return 1


_WIDTHS = {PositionEncodingKind.Utf8: _utf8, PositionEncodingKind.Utf16: _utf16, PositionEncodingKind.Utf32: _utf32}

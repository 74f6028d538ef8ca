"""Errors that a person can put right. The command line shows each as one line, without a traceback."""

from __future__ import annotations

from typing import ClassVar


class ModelguardError(Exception):
    """Something is wrong with what the tool was given; the message says what, and what to do."""

    status: ClassVar[int] = 2
    """The exit status of a run that ends with this error."""

    several_lines: ClassVar[bool] = False
    """Is the message written for more than one line, as where it holds a traceback?"""


class SettingsError(ModelguardError):
    """A setting has a value that is not allowed."""


class SourceError(ModelguardError):
    """A file's text cannot be had; `message` is one sentence with the remedy, without the path."""

    def __init__(self, path: str, line: int | None, message: str) -> None:
        super().__init__(path, line, message)
        self.path = path
        self.line = line
        self.message = message

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.message}"

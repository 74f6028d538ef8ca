"""HTML that is escaped by construction: whatever is not `Markup` is text.

Pages are plain ASCII, with references for all other characters, so that no terminal, pipe or server can spoil them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from modelguard.report.frame import printable


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | Iterable["Content"] | None
"""What an element holds: text, markup, or several of them; None is nothing."""

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_CODE = re.compile(r"`([^`]+)`")


def element(name: str, /, *content: Content, **attributes: str | int | float | bool | None) -> Markup:
    """An element. Attributes are named as in Python, `class_` or `stroke_width`; False and None leave one out."""
    spelled = "".join(_attribute(key.strip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Markup(f"<{name}{spelled}>{_joined(content)}</{name}>")


def void(name: str, /, **attributes: str | int | float | bool | None) -> Markup:
    """An element that holds nothing and has no end, such as `<input>`."""
    return Markup(element(name, **attributes).removesuffix(f"</{name}>"))


def group(*content: Content) -> Markup:
    """Several, one after another."""
    return Markup(_joined(content))


def lines(text: str) -> Markup:
    """Text of several lines, for `<pre>`: line ends and tabs stay, everything else that steers a display does not."""
    return Markup("\n".join("\t".join(map(_text, line.split("\t"))) for line in text.split("\n")))


def sentence(text: str) -> Markup:
    """A sentence in which what stands in backticks is code."""
    parts = _CODE.split(text)
    return group(element("code", part) if number % 2 else part for number, part in enumerate(parts))


def _joined(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return _text(content)
    return "".join(map(_joined, content))


def _attribute(name: str, value: str | int | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{_text(str(value))}"'


def _text(text: str) -> str:
    # What is no character, a half of a surrogate pair, is spelled out.
    whole = printable(text).encode("utf-8", "backslashreplace").decode("utf-8")
    return whole.translate(_ESCAPES).encode("ascii", "xmlcharrefreplace").decode("ascii")

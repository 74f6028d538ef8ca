"""The frame of every page: one file that loads nothing, whatever the data in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from modelguard import __version__
from modelguard.report.html.markup import Content, Markup, element, group, void


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page."""

    name: str
    """What links lead to."""
    title: str
    content: Content
    count: int | None = None


def page(title: str, heading: Markup, *sections: Section | None) -> str:
    """A whole document. Its policy forbids to load anything and to run any script but its own, by their hashes."""
    there = [each for each in sections if each is not None]
    style, script = _asset("page.css"), _asset("page.js")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        void("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", style),
    )
    footer = element("footer", f"modelguard {__version__}")
    body = element("body", heading, _contents(there), element("main", map(_section, there)), footer, element("script", script))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def heading(command: str, target: str, is_good: bool, verdict: str, told: Content, *content: Content) -> Markup:
    """The top of a page: what was asked, and the answer."""
    return element(
        "header",
        element("p", f"modelguard {command}", class_="kicker"),
        element("h1", target),
        element("p", element("strong", verdict), " ", told, class_="verdict good" if is_good else "verdict bad"),
        *content,
    )


def _contents(sections: list[Section]) -> Markup | None:
    if len(sections) < 2:
        return None
    links = [element("li", element("a", each.title, href=f"#{each.name}"), _count(each)) for each in sections]
    return element("nav", element("ul", links), aria_label="Contents")


def _section(section: Section) -> Markup:
    return element("section", element("h2", section.title, _count(section)), section.content, id=section.name)


def _count(section: Section) -> Markup | None:
    return None if section.count is None else group(" ", element("span", str(section.count), class_="count"))


def facts(*pairs: tuple[str, Content]) -> Markup | None:
    """Names and what they are, without those that are nothing."""
    told = [element("div", element("dt", name), element("dd", value)) for name, value in pairs if value]
    return element("dl", told) if told else None


def table(names: Iterable[str], rows: Iterable[Content], caption: str | None = None) -> Markup:
    """Rows of cells below the names of columns; those that begin with # are of numbers. Wide ones scroll on their own."""
    columns = [
        element("th", name.removeprefix("#"), scope="col", class_="number" if name.startswith("#") else None) for name in names
    ]
    parts = (
        element("caption", caption) if caption else None,
        element("thead", element("tr", columns)),
        element("tbody", [element("tr", row) for row in rows]),
    )
    return element("div", element("table", *parts), class_="wide", tabindex=0)


def amount(content: Content) -> Markup:
    """A cell that holds a number."""
    return element("td", content, class_="number")


def _asset(name: str) -> Markup:
    return Markup(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

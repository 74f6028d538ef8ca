"""The graphs of a traced model on a page: a picture of their pieces, what they cost, and their code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelguard.report import text
from modelguard.report.html.markup import Content, Markup, element, group, lines
from modelguard.report.html.page import Section, amount, table

_WIDTH, _LEFT = 960, 120
_HEIGHT, _GAP, _LEAST = 32, 5, 12
_ROW, _BREAK = 46, 30
_CHARACTER = 7.5

Record = Mapping[str, Any]


def graphs(found: Sequence[Record], breaks: Sequence[str]) -> Section | None:
    """The section of graphs. `breaks` are the places at which they were broken."""
    if not found:
        return None
    where = group("Dynamo breaks the graph at ", _enumerated(breaks), ".") if breaks else None
    caption = element("figcaption", "Pieces in order, as wide as they have calls. ", _legend(found), where)
    return Section(
        "graphs",
        "Graphs",
        group(
            element("figure", _picture(found), caption, class_="picture"),
            _table(found),
            [_code(graph) for graph in found if graph["code"]],
        ),
        len(found),
    )


def _enumerated(places: Sequence[str]) -> list[Content]:
    return [group(", " if number else None, element("code", place)) for number, place in enumerate(places)]


def _legend(found: Sequence[Record]) -> Iterator[Markup]:
    pieces = [piece for graph in found for piece in _pieces(graph)]
    if any(piece["splits"] for piece in pieces):
        yield group(_swatch("piece splits"), "a splitting operator, which runs outside of graphs. ")
    if any(piece["refused"] is not None for piece in pieces):
        yield group(_swatch("piece refused", fill="url(#refused)"), "strict code generation refuses it. ")


def _swatch(kind: str, fill: str | None = None) -> Markup:
    rects = [element("rect", x=1, y=1, width=22, height=12, rx=2, fill=each) for each in (None, *([fill] if fill else []))]
    return element("svg", element("g", rects, class_=kind), class_="swatch", viewBox="0 0 24 14", aria_hidden="true")


def _pieces(graph: Record) -> Sequence[Record]:
    """What is drawn of a graph: its pieces, or all of it where it has none."""
    whole = {"name": "", "ops": graph["ops"], "splits": False, "calls": [], "refused": graph["refused"]}
    return graph["pieces"] or [whole]


def _picture(found: Sequence[Record]) -> Markup:
    scale = min(map(_scale, found))
    parts: list[Markup] = []
    top = 4.0
    for number, graph in enumerate(found):
        if number:
            parts.append(_break(top))
            top += _BREAK
        blocks, height = _flow(graph, scale, top)
        title = f"graph {graph['number']}"
        inputs = f"{text.plural(graph['inputs'], 'input')}, {text.plural(graph['ops'], 'call')}"
        parts += [
            element("text", title, class_="title", x=0, y=top + 13),
            element("text", inputs, class_="small", x=0, y=top + 28),
            *blocks,
        ]
        top += height
    told = ", then ".join(
        f"graph {graph['number']} of {text.plural(len(_pieces(graph)), 'piece')}, {text.plural(graph['ops'], 'call')}"
        for graph in found
    )
    hatch = element(
        "pattern",
        element("path", d="M0 6L6 0", class_="hatch"),
        id="refused",
        width=6,
        height=6,
        patternUnits="userSpaceOnUse",
    )
    return element("svg", element("defs", hatch), parts, role="img", aria_label=told, viewBox=f"0 0 {_WIDTH} {top:g}")


def _scale(graph: Record) -> float:
    """How wide a call is where the graph fills a row. Where its pieces are too many, they take more rows than one."""
    pieces = _pieces(graph)
    room = _WIDTH - _LEFT - _GAP * (len(pieces) - 1)
    scale: float = room / max(1, sum(piece["ops"] for piece in pieces))
    small: list[Record] = []
    while len(small) < len(found := [piece for piece in pieces if piece["ops"] * scale < _LEAST]) < len(pieces):
        # Pieces that take the least width leave less to the others.
        small = found
        scale = (room - _LEAST * len(small)) / sum(piece["ops"] for piece in pieces if piece not in small)
    return max(scale, 1.0)


def _flow(graph: Record, scale: float, top: float) -> tuple[list[Markup], float]:
    """The pieces of a graph from left to right, in as many rows as it takes, and the height of them."""
    blocks: list[Markup] = []
    x, y = float(_LEFT), top
    for piece in _pieces(graph):
        width = max(_LEAST, piece["ops"] * scale)
        if x > _LEFT and x + width > _WIDTH + 0.5:
            x, y = float(_LEFT), y + _ROW - 8
        elif x > _LEFT:
            middle = y + _HEIGHT / 2
            blocks.append(element("line", class_="link", x1=_short(x - _GAP), x2=_short(x), y1=middle, y2=middle))
        blocks.append(_block(piece, x, y, width))
        x += width + _GAP
    return blocks, y - top + _ROW - 8


def _block(piece: Record, x: float, y: float, width: float) -> Markup:
    refused = piece["refused"] is not None
    kind = " ".join(["piece", *(["splits"] if piece["splits"] else []), *(["refused"] if refused else [])])
    called = ", ".join(piece["calls"][:12]) + (f" and {len(piece['calls']) - 12} more" if len(piece["calls"]) > 12 else "")
    told = [
        f"{piece['name'] or 'all of it'}: {text.plural(piece['ops'], 'call')}" + (f" ({called})" if called else ""),
        "splits the graph" if piece["splits"] else "",
        f"strict generation refuses it: {piece['refused']}" if refused else "",
    ]
    label = _label(piece, refused, width)
    return element(
        "g",
        element("title", "; ".join(filter(None, told))),
        element("rect", x=_short(x), y=y, width=_short(width), height=_HEIGHT, rx=2),
        element("rect", x=_short(x), y=y, width=_short(width), height=_HEIGHT, rx=2, fill="url(#refused)") if refused else None,
        element("text", label, x=_short(x + width / 2), y=y + _HEIGHT / 2 + 4, text_anchor="middle") if label else None,
        class_=kind,
    )


def _label(piece: Record, refused: bool, width: float) -> str:
    """The longest that fits of what a piece is called and how many calls it has."""
    cross = "\N{MULTIPLICATION SIGN} " if refused else ""
    name = piece["calls"][0] if piece["splits"] and piece["calls"] else text.plural(piece["ops"], "call")
    fitting = (label for label in (cross + name, f"{cross}{piece['ops']}", cross.strip()) if len(label) * _CHARACTER < width - 4)
    return next(fitting, "")


def _break(top: float) -> Markup:
    middle = top + _BREAK / 2 - 5
    return element(
        "g",
        element("line", x1=_LEFT, x2=_WIDTH, y1=middle, y2=middle),
        element("rect", x=_LEFT + 14, y=middle - 8, width=86, height=16),
        element("text", "graph break", x=_LEFT + 20, y=middle + 4),
        class_="break",
    )


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _table(found: Sequence[Record]) -> Markup:
    names = ("graph", "#calls", "#inputs", "#pieces", "#refused", "result", "#generated", "#GraphModule")
    caption = (
        "What was generated: how many pieces strict generation refuses, its result against the graph's, and what a call costs, "
        "also of the GraphModule"
    )
    return table(names, map(_cells, found), caption)


def _cells(graph: Record) -> Iterator[Markup]:
    yield element("th", str(graph["number"]), scope="row")
    yield from (amount(str(count)) for count in (graph["ops"], graph["inputs"], len(graph["pieces"])))
    if graph["refused"] is not None:
        yield element("td", f"no code can be generated: {graph['refused']}", colspan=4, class_="bad")
        return
    yield amount(str(sum(piece["refused"] is not None for piece in graph["pieces"])))
    if graph["generated_us"] is None:
        yield element("td", "it did not run", colspan=3)
        return
    error = graph["max_abs_error"]
    right = "another result" if error is None else "the same" if error == 0 else f"off by {error:.2g}"
    yield element("td", right, class_=None if error == 0 else "bad")
    yield from (amount(f"{graph[key]:,.1f} \N{MICRO SIGN}s") for key in ("generated_us", "graph_module_us"))


def _code(graph: Record) -> Markup:
    count = text.plural(graph["code"].count("\n"), "line")
    title = element("summary", f"Code of graph {graph['number']} ", element("span", count, class_="dim"))
    return element("details", title, element("pre", element("code", lines(graph["code"])), tabindex=0), class_="code")

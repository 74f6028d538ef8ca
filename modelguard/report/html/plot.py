"""How far each replayed step is from its eager one, as a plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modelguard.report.html.markup import Markup, element, group
from modelguard.report.html.page import amount, table

_WIDTH = 960.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 88.0, 24.0, 40.0, 44.0
_HIGH, _LOW = 196.0, 36.0
"""How high the plot is where something differs, and where nothing does."""

_BAND = 26.0
"""What zeros take below a logarithmic scale, and what is no number above any."""

_MOST_LABELS = 16
_RAISED = str.maketrans("-0123456789", "\N{SUPERSCRIPT MINUS}\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")


class _Scale:
    """Heights of errors: zero at the bottom, what is no number at the top, between them linear, or logarithmic over decades."""

    def __init__(self, errors: Sequence[float | None]) -> None:
        numbers = [error for error in errors if error]
        self.is_log = bool(numbers) and max(numbers) >= 10 * min(numbers)
        self.zero = _TOP + (_HIGH if any(error != 0 for error in errors) else _LOW)
        self._top = _TOP + (_BAND if None in errors else 0)
        self._numbers = _round_numbers(max(numbers)) if numbers and not self.is_log else []
        self._powers = (math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))) if self.is_log else (0, 0)

    def y(self, error: float | None) -> float:
        """Where an error is drawn."""
        if error is None:
            return _TOP + 4
        if not error:
            return self.zero
        return self._of_power(math.log10(error)) if self.is_log else self._part(error / self._numbers[-1], self.zero)

    def ticks(self) -> list[tuple[float, str]]:
        """Heights and what they mean."""
        if not self.is_log:
            return [(self.y(number), f"{number:g}") for number in self._numbers]
        low, high = self._powers
        powers = range(low, high + 1, math.ceil((high - low) / 6))
        return [(self._of_power(power), f"10{str(power).translate(_RAISED)}") for power in powers]

    def _of_power(self, power: float) -> float:
        low, high = self._powers
        return self._part((power - low) / (high - low), self.zero - _BAND)

    def _part(self, part: float, bottom: float) -> float:
        return bottom + (self._top - bottom) * part


def _round_numbers(highest: float) -> list[float]:
    """From three to five numbers up to at least the highest: steps of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(highest / 2))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * 4 >= highest)
    return [step * number for number in range(1, math.ceil(highest / step - 1e-9) + 1)]


def divergence(replay: Mapping[str, Any]) -> Markup:
    """The figure of a comparison: an SVG, a caption, and the numbers as a table."""
    errors: list[float | None] = list(replay["errors"])
    if not errors:
        return element("p", "No step was made that could be compared.", class_="nothing")
    scale = _Scale(errors)
    stopped = replay["step"] if replay["step"] is not None and replay["step"] >= len(errors) else None
    count = len(errors) + (stopped is not None)
    width = _WIDTH - _LEFT - _RIGHT
    xs = [_LEFT + width * (number + 0.5) / count for number in range(count)]
    picture = element(
        "svg",
        _axes(scale, xs, None in errors),
        _captured(replay["captured"], xs, scale),
        _line(errors, xs, scale),
        [_point(number, error, xs[number], scale.y(error), replay["captured"]) for number, error in enumerate(errors)],
        _largest(errors, xs, scale),
        _stopped(stopped, xs, scale),
        role="img",
        aria_label=f"Largest difference of an output at each of {len(errors)} steps",
        viewBox=f"0 0 {_WIDTH:g} {scale.zero + _BOTTOM:g}",
    )
    how = "; logarithmic scale" if scale.is_log else ""
    caption = element("figcaption", f"Largest difference of an output from the eager step, by step{how}.")
    return element("figure", picture, caption, _numbers(errors, replay["captured"]), class_="plot")


def shown(error: float | None) -> str:
    """An error for people."""
    return "no number" if error is None else "0" if not error else f"{error:.3g}"


def _ran(step: int, captured: int | None) -> str:
    """How the replayed side made a step. After the capture, one of other sizes is made eagerly, too."""
    return "eager" if captured is None or step < captured else "captured" if step == captured else "after capture"


def _axes(scale: _Scale, xs: Sequence[float], has_no_number: bool) -> Iterator[Markup]:
    right = _WIDTH - _RIGHT
    marks = [(scale.zero, "equal"), *scale.ticks()]
    if has_no_number:
        marks.append((scale.y(None), "no number"))
    for y, label in marks:
        kind = "base" if y == scale.zero else "grid"
        yield element("line", class_=kind, x1=_LEFT, x2=right, y1=f"{y:.1f}", y2=f"{y:.1f}")
        yield element("text", label, class_="small", x=_LEFT - 10, y=f"{y + 4:.1f}", text_anchor="end")
    every = math.ceil(len(xs) / _MOST_LABELS) or 1
    for number, x in enumerate(xs):
        if number % every == 0:
            yield element("text", str(number), class_="small", x=f"{x:.1f}", y=scale.zero + 18, text_anchor="middle")
    yield element("text", "step", class_="small", x=right, y=scale.zero + 36, text_anchor="end")


def _captured(step: int | None, xs: Sequence[float], scale: _Scale) -> Markup | None:
    if step is None or step >= len(xs):
        return None
    x = f"{xs[step]:.1f}"
    return group(
        element("line", class_="captured", x1=x, x2=x, y1=_TOP - 18, y2=scale.zero),
        element("text", "captured", class_="small", x=f"{xs[step] + 6:.1f}", y=_TOP - 10),
    )


def _line(errors: Sequence[float | None], xs: Sequence[float], scale: _Scale) -> Markup:
    """From point to point; there is no way to what is no number."""
    path, is_open = [], False
    for x, error in zip(xs, errors, strict=False):
        if error is not None:
            path.append(f"{'L' if is_open else 'M'}{x:.1f} {scale.y(error):.1f}")
        is_open = error is not None
    return element("path", class_="curve", d="".join(path))


def _point(number: int, error: float | None, x: float, y: float, captured: int | None) -> Markup:
    title = element("title", f"step {number} ({_ran(number, captured)}): {shown(error)}")
    if error is None:
        return element("g", title, element("path", d=f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"), class_="point none")
    return element("g", title, element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=4), class_="point differs" if error else "point")


def _largest(errors: Sequence[float | None], xs: Sequence[float], scale: _Scale) -> Markup | None:
    """The largest number, written at its point."""
    error, number = max(((error or 0.0, -number) for number, error in enumerate(errors)), default=(0.0, 0))
    if not error:
        return None
    return element(
        "text", shown(error), class_="value", x=f"{xs[-number]:.1f}", y=f"{scale.y(error) - 10:.1f}", text_anchor="middle"
    )


def _stopped(step: int | None, xs: Sequence[float], scale: _Scale) -> Markup | None:
    """The step that could not be made."""
    if step is None:
        return None
    x, y = xs[-1], scale.zero
    return element(
        "g",
        element("title", f"step {step} could not be made"),
        element("path", d=f"M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"),
        element("text", "ended here", class_="small", x=f"{x:.1f}", y=f"{y - 14:.1f}", text_anchor="middle"),
        class_="point none",
    )


def _numbers(errors: Sequence[float | None], captured: int | None) -> Markup:
    rows = (
        (element("th", str(step), scope="row"), element("td", _ran(step, captured)), amount(shown(error)))
        for step, error in enumerate(errors)
    )
    return element("details", element("summary", "Numbers"), table(("step", "made", "#largest difference"), rows))

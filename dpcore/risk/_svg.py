"""Small plots as inline SVG, for a report that needs no library, no script and no network."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Sequence

# Okabe and Ito's palette; lines also differ in dashes and carry their names, so colour is never alone.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
DASHES = ("", "7 4", "2 3", "9 3 2 3")
INK, FAINT, GOOD, IDLE = "#222222", "#d9d9d9", "#009E73", "#9a9a9a"
WIDTH = 760


def number(x: float) -> str:
    """A short number for a tick."""
    if x == 0:
        return "0"
    if 1e-3 <= abs(x) < 1e3:
        return f"{x:.4g}"
    if 1e3 <= abs(x) < 1e9:
        return f"{x:,.0f}"
    return f"{x:.0e}"


@dataclasses.dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis between two values, mapped to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, x: float) -> float:
        share = (math.log(x) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """1, 2, 5 times powers of ten; powers alone when the range is wide."""
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1, 2, 5) if math.log10(self.high / self.low) < 3.2 else (1,)
        all_ticks = [s * 10.0**d for d in decades for s in steps]
        return [t for t in all_ticks if self.low * 0.999 <= t <= self.high * 1.001]


def text(x: float, y: float, words: str, *, anchor: str = "start", colour: str = INK, bold: bool = False) -> str:
    """One line of text."""
    weight = " font-weight='600'" if bold else ""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{colour}'{weight}>{html.escape(words)}</text>"
    )


def line(
    x1: float, y1: float, x2: float, y2: float, *, colour: str = INK, width: float = 1, dash: str = ""
) -> str:
    """A straight line."""
    dashed = f" stroke-dasharray='{dash}'" if dash else ""
    return (
        f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' "
        f"stroke-width='{width:g}'{dashed}/>"
    )


def canvas(height: float, title: str, parts: Sequence[str]) -> str:
    """The picture, scaling with the page, with a title for screen readers."""
    return (
        f"<svg viewBox='0 0 {WIDTH} {height:.0f}' role='img' aria-label='{html.escape(title, quote=True)}' "
        f"font-family='inherit' font-size='13'>{''.join(parts)}</svg>"
    )


@dataclasses.dataclass(frozen=True)
class Bar:
    """A range of epsilon that a requirement allows."""

    name: str
    low: float
    high: float
    used: bool


def ranges(title: str, bars: Sequence[Bar], feasible: tuple[float, float], epsilon: float | None) -> str:
    """Allowed ranges of epsilon, one row a requirement, the feasible band and the recommended level on top."""
    marks = [x for bar in bars for x in (bar.low, bar.high) if 0 < x < math.inf]
    marks += [epsilon] if epsilon is not None else []
    marks = marks or [1.0]  # nothing is allowed at all
    # About 6.6 pixels a letter at this size; never more than half of the picture.
    left = min(20.0 + 6.6 * max(len(bar.name) for bar in bars), WIDTH / 2)
    right, top, row = WIDTH - 24.0, 34.0, 30.0
    axis = LogAxis(min(marks) / 3, max(marks) * 3, left, right)
    bottom = top + row * len(bars)
    parts = []
    low, high = feasible
    if low <= high and high > 0:
        x1, x2 = axis(max(low, axis.low)), axis(min(high, axis.high))
        parts.append(
            f"<rect x='{x1:.1f}' y='{top - 6:.1f}' width='{max(x2 - x1, 2):.1f}' height='{bottom - top + 6:.1f}' "
            f"fill='{GOOD}' opacity='.16'/>"
        )
    for tick in axis.ticks():
        parts.append(line(axis(tick), top - 6, axis(tick), bottom, colour=FAINT))
        parts.append(text(axis(tick), bottom + 18, number(tick), anchor="middle"))
    for index, bar in enumerate(bars):
        y = top + row * (index + 0.5)
        parts.append(text(left - 10, y + 4, bar.name, anchor="end", colour=INK if bar.used else "#666666"))
        nothing = bar.high <= 0 or bar.low == math.inf
        if nothing:
            parts.append(text(left + 6, y + 4, "no value is allowed", colour="#666666"))
            continue
        x1, x2 = axis(max(bar.low, axis.low)), axis(min(bar.high, axis.high))
        colour = COLOURS[0] if bar.used else IDLE
        parts.append(
            f"<rect x='{x1:.1f}' y='{y - 6:.1f}' width='{max(x2 - x1, 2):.1f}' height='12' rx='2' fill='{colour}' "
            f"opacity='{'.9' if bar.used else '.45'}'/>"
        )
        for x, value, anchor, shift in ((x1, bar.low, "end", -5), (x2, bar.high, "start", 5)):
            if 0 < value < math.inf:
                room = x + shift > left + 40 if anchor == "end" else x + shift < right - 40
                if epsilon is not None:  # the line of the recommendation would run through the number
                    ends = sorted((x + 0.4 * shift, x + 8 * shift))
                    room = room and not ends[0] < axis(epsilon) < ends[1]
                where = (x + shift, anchor) if room else (x - shift, "start" if anchor == "end" else "end")
                inside = not room
                parts.append(
                    text(
                        where[0],
                        y + 4,
                        number(float(f"{value:.3g}")),
                        anchor=where[1],
                        colour="#ffffff" if inside and bar.used else INK,
                    )
                )
    parts.append(line(left, bottom, right, bottom))
    parts.append(
        text(
            (left + right) / 2,
            bottom + 40,
            "epsilon in total (larger: more accurate, less private)",
            anchor="middle",
        )
    )
    if epsilon is not None:
        x = axis(epsilon)
        parts.append(line(x, top - 10, x, bottom, colour=COLOURS[1], width=2.5))
        side = "end" if x > WIDTH - 170 else "start" if x < left + 120 else "middle"
        parts.append(text(x, top - 16, f"recommended: {epsilon:.3g}", anchor=side, colour=COLOURS[1], bold=True))
    return canvas(bottom + 50, title, parts)


def curves(
    title: str,
    epsilon: Sequence[float],
    series: Sequence[tuple[str, Sequence[float]]],
    limit: tuple[str, float] | None,
    chosen: float | None,
    unit: str,
) -> str:
    """Curves over epsilon on logarithmic axes, with a limit and the recommended level."""
    positive = [y for _, ys in series for y in ys if y > 0]
    top_y = max(positive + ([limit[1]] if limit and limit[1] > 0 else []))
    low_y = max(min(positive + ([limit[1]] if limit and limit[1] > 0 else [])), top_y * 1e-6)
    left, right, top, bottom = 84.0, WIDTH - 24.0, 30.0, 300.0
    x_axis = LogAxis(epsilon[0], epsilon[-1], left, right)
    y_axis = LogAxis(low_y / 1.3, top_y * 1.3, bottom, top)
    parts = []
    for tick in x_axis.ticks():
        parts.append(line(x_axis(tick), top, x_axis(tick), bottom, colour=FAINT))
        parts.append(text(x_axis(tick), bottom + 18, number(tick), anchor="middle"))
    for tick in y_axis.ticks():
        parts.append(line(left, y_axis(tick), right, y_axis(tick), colour=FAINT))
        parts.append(text(left - 8, y_axis(tick) + 4, number(tick), anchor="end"))
    parts.append(text(left - 60, top - 12, unit))
    parts.append(text((left + right) / 2, bottom + 40, "epsilon in total", anchor="middle"))
    for index, (_, ys) in enumerate(series):
        # A noise of zero has no place on a logarithmic axis: it is drawn at its lower edge.
        points = " ".join(
            f"{x_axis(x):.1f},{y_axis(max(y, y_axis.low)):.1f}" for x, y in zip(epsilon, ys, strict=True)
        )
        dash = f" stroke-dasharray='{DASHES[index % 4]}'" if DASHES[index % 4] else ""
        parts.append(
            f"<polyline points='{points}' fill='none' stroke='{COLOURS[index % 4]}' stroke-width='2.4'{dash}/>"
        )
    if limit is not None and limit[1] > 0:
        y = y_axis(limit[1])
        parts.append(line(left, y, right, y, colour=INK, width=1.4, dash="4 3"))
        parts.append(text(right - 4, y - 6, f"{limit[0]}: {number(limit[1])}", anchor="end"))
    if chosen is not None:
        x = x_axis(chosen)
        parts.append(line(x, top - 4, x, bottom, colour=COLOURS[1], width=2))
        parts.append(text(x, top - 10, f"{chosen:.3g}", anchor="middle", colour=COLOURS[1], bold=True))
    y = bottom + 64
    for index, (name, _) in enumerate(series):
        x = left + (index % 2) * 330
        parts.append(line(x, y - 4, x + 34, y - 4, colour=COLOURS[index % 4], width=2.4, dash=DASHES[index % 4]))
        parts.append(text(x + 42, y, name))
        y += 20 if index % 2 else 0
    return canvas(y + (20 if len(series) % 2 else 4), title, parts)

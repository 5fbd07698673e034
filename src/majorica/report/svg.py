"""Charts as inline SVG: crisp at any size, a few hundred bytes each, coloured by the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from majorica.report.text import both_ends, escape, number

F64 = npt.NDArray[np.float64]


def path_data(x: npt.ArrayLike, y: npt.ArrayLike) -> str:
    """A polyline through pixel positions rounded to halves, as relative moves."""
    points = np.rint(2 * np.column_stack([np.asarray(x, dtype=float), np.asarray(y, dtype=float)])).astype(int)
    if len(points) == 0:
        return ""
    steps = np.diff(points, axis=0)
    start = f"M{points[0, 0] / 2:g} {points[0, 1] / 2:g}"
    return start + "".join(f"l{dx / 2:g} {dy / 2:g}" for dx, dy in steps.tolist() if dx or dy)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers between `low` and `high`."""
    if not high > low:
        return [low]
    raw = (high - low) / max(count, 1)
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Powers of ten between `low` and `high` (both log10), thinned to about `most`."""
    exponents = list(range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1))
    every = max(1, math.ceil(len(exponents) / most))
    return [float(exponent) for exponent in exponents[::every]]


def power_label(exponent: float) -> str:
    """``10`` to a whole power with a raised exponent."""
    if exponent in (0, 1):
        return "1" if exponent == 0 else "10"
    digits = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{digits}"


@dataclass
class Chart:
    """A small chart: say the data's range, add marks, take the text.

    Parameters
    ----------
    x_range, y_range : tuple of float
        Data at the edges; logarithms if `log_y`.
    title : str
        Read out by screen readers.
    x_label, y_label : str
    log_y : bool
        Whether y values are log10 and ticks are powers of ten.
    width, height : int
        In pixels of the drawing; it scales with the page.
    """

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    title: str
    x_label: str = ""
    y_label: str = ""
    log_y: bool = False
    width: int = 460
    height: int = 210
    show_y: bool = True
    marks: list[str] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Room for the labels of the y axis."""
        return (52 if self.width > 300 else 34) if self.show_y else 8

    def x(self, value: npt.ArrayLike) -> F64:
        """Data to pixels."""
        low, high = self.x_range
        span = (high - low) or 1.0
        return self.left + (np.asarray(value, dtype=float) - low) / span * (self.width - self.left - 10)

    def y(self, value: npt.ArrayLike) -> F64:
        """Data to pixels."""
        low, high = self.y_range
        span = (high - low) or 1.0
        inside = np.clip(np.asarray(value, dtype=float), low, high)
        return (self.height - 34) - (inside - low) / span * (self.height - 34 - 12)

    def line(self, x: npt.ArrayLike, y: npt.ArrayLike, kind: str = "line") -> None:
        """A line through the points, in the style `kind`."""
        self.marks.append(f'<path class="{kind}" d="{path_data(self.x(x), self.y(y))}"/>')

    def steps(self, edges: npt.ArrayLike, heights: npt.ArrayLike, kind: str = "bars") -> None:
        """A filled histogram."""
        x = np.repeat(self.x(edges), 2)
        y = self.y(np.concatenate([[self.y_range[0]], np.repeat(np.asarray(heights), 2), [self.y_range[0]]]))
        self.marks.append(f'<path class="{kind}" d="{path_data(x, y)}Z"/>')

    def upright(self, x: Sequence[float], kind: str = "rule") -> None:
        """Vertical lines over the whole height."""
        for position in self.x(x).tolist():
            self.marks.append(f'<path class="{kind}" d="M{position:.1f} 12V{self.height - 34}"/>')

    def render(self) -> str:
        """The chart as one ``svg`` element."""
        floor = self.height - 34
        parts = [
            f'<svg class="chart" viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(self.title)}">'
        ]
        for value in log_ticks(*self.y_range) if self.log_y else ticks(*self.y_range, 4):
            y = float(self.y(value))
            parts.append(f'<path class="grid" d="M{self.left} {y:.1f}H{self.width - 10}"/>')
            if self.show_y:
                label = power_label(value) if self.log_y else tick_label(value, self.y_range, 4)
                parts.append(f'<text class="end" x="{self.left - 7}" y="{y + 3.5:.1f}">{label}</text>')
        parts += self.marks
        parts.append(f'<path class="axis" d="M{self.left} {floor}H{self.width - 10}"/>')
        for value in ticks(*self.x_range, 5):
            x = float(self.x(value))
            parts.append(f'<text class="mid" x="{x:.1f}" y="{floor + 15}">{tick_label(value, self.x_range, 5)}</text>')
        if self.x_label:
            middle = (self.left + self.width - 10) / 2
            parts.append(f'<text class="mid name" x="{middle:g}" y="{self.height - 3}">{escape(self.x_label)}</text>')
        if self.y_label:
            parts.append(f'<text class="name" x="{self.left}" y="8">{escape(self.y_label)}</text>')
        return "".join(parts) + "</svg>"


def tick_label(value: float, span: tuple[float, float], count: int) -> str:
    """`value` with as many decimals as neighbouring ticks of `span` need to differ."""
    found = ticks(*span, count)
    step = found[1] - found[0] if len(found) > 1 else span[1] - span[0]
    if not 1e-4 < step < 1e6:
        return number(value)
    decimals = next((d for d in range(5) if abs(step * 10**d - round(step * 10**d)) < 1e-6), 5)
    return f"{value + 0.0:,.{decimals}f}".replace("-", "−")


def spark(values: F64, *, width: int = 600, height: int = 60, limit: float = 5.0, columns: int = 220) -> str:
    """Path of a time course about the middle line, thinned so that no peak is lost."""
    x, y = thin(values, columns)
    peak = max(limit, float(np.abs(values).max(initial=0.0)))
    span = max(len(values) - 1, 1)
    return path_data(x / span * width, height / 2 - y / peak * (height / 2 - 2))


def thin(values: F64, columns: int) -> tuple[F64, F64]:
    """Positions and values with at most two points a column, its least and its largest."""
    n = len(values)
    if n <= 2 * columns:
        return np.arange(n, dtype=float), values
    edges = np.linspace(0, n, columns + 1).astype(int)
    chosen = []
    for start, stop in pairwise(edges.tolist()):
        piece = values[start:stop]
        chosen += sorted({start + int(piece.argmin()), start + int(piece.argmax())})
    index = np.array(chosen)
    return index.astype(float), values[index]


def bars(names: Sequence[str], values: F64, *, width: int = 190, row: int = 20) -> str:
    """Horizontal bars beside their names, for the weights of a few features; those below zero point left."""
    values = np.asarray(values, dtype=np.float64)
    above, below = max(float(values.max(initial=0.0)), 0.0), max(float(-values.min(initial=0.0)), 0.0)
    height = row * len(names) + 4
    labels = 0.52 * width
    scale = (width - labels) / ((above + below) or 1.0)
    zero = labels + below * scale
    parts = [f'<svg class="chart weights" viewBox="0 0 {width} {height}" role="img" aria-label="largest weights">']
    for k, (name, value) in enumerate(zip(names, values.tolist(), strict=True)):
        length = abs(value) * scale
        start = zero if value >= 0 else zero - length
        kind = "positive" if value >= 0 else "negative"
        parts.append(
            f'<rect class="{kind}" x="{start:.1f}" y="{k * row + 4}" width="{length:.1f}" height="{row - 7}"/>'
        )
        parts.append(
            f'<text x="0" y="{k * row + 15}"><title>{escape(name)}</title>{escape(both_ends(name, 12))}</text>'
        )
    parts.append(f'<path class="axis" d="M{zero:.1f} 0V{height}"/>')
    return "".join(parts) + "</svg>"

"""The list of components in a report: one line each, and panels that unfold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.report.layout import HeadMap
from majorica.report.measure import EDGES, Measures
from majorica.report.png import data_uri, diverging_image, grey_image
from majorica.report.svg import Chart, bars, spark
from majorica.report.text import escape, isolate, number, share

F64 = npt.NDArray[np.float64]

#: Components with panels of their own; the rest have their line only, so that the page stays small.
MOST_PANELS = 250
#: Features named on the line of a component.
NAMED = 3


@dataclass
class Drawing:
    """How the components of one model are drawn."""

    measures: Measures
    mixing: F64  #: (f, k), sources at unit variance
    filters: F64  #: (k, f)
    names: Sequence[str]
    image_shape: tuple[int, int] | None = None
    head: HeadMap | None = None
    sfreq: float | None = None

    def component(self, i: int, *, panels: bool) -> str:
        """Component `i` as a line, with its panels if asked for."""
        found, measures = self.map(i), self.measures
        kind = measures.kind(i)
        strongest = np.argsort(-np.abs(self.mixing[:, i]), kind="stable")[:NAMED]
        labels = [self.names[j] for j in strongest.tolist()]
        text = " ".join([f"ic {i}", kind.lower(), str(measures.densities[i]), *labels])
        described = f"density {family(measures.densities[i])}" if self.image_shape else ", ".join(labels)
        width = 100 * min(1.0, float(measures.explained[i] / max(measures.explained.max(), 1e-300)))
        data = {
            "number": str(i),
            "explained": f"{measures.explained[i]:.6g}",
            "kurtosis": f"{measures.kurtosis[i]:.6g}",
            "largest": f"{measures.largest[i]:.6g}",
            "text": escape(text.lower(), 400),
        }
        attributes = "".join(f' data-{key}="{value}"' for key, value in data.items())
        line = (
            f'<span class="thumb">{found}</span>'
            f'<span class="who"><b>IC {i}</b><span>{isolate(described, 60)}</span></span>'
            f'<span class="share">{share(float(measures.explained[i]))}'
            f'<span class="meter"><i style="width:{width:.1f}%"></i></span></span>'
            f'<span class="kurt">{kind}<span>kurtosis {number(float(measures.kurtosis[i]), 2)}</span></span>'
            f'<span class="sparkbox"><svg class="spark" viewBox="0 0 600 60" preserveAspectRatio="none" '
            f'aria-hidden="true"><path class="wave" id="t{i}" d="{spark(measures.trace[i])}"/></svg></span>'
        )
        plain = "" if found else " plain"
        if not panels:
            return f'<div class="component{plain}"{attributes}><div class="row">{line}</div></div>'
        return (
            f'<details class="component{plain}"{attributes}><summary>{line}</summary>'
            f'<div class="panels">{self.panels(i)}</div></details>'
        )

    def map(self, i: int) -> str:
        """The component over its features as a small drawing; empty if the features have no places."""
        if self.image_shape is not None:
            return image_svg(data_uri(grey_image(self.mixing[:, i].reshape(self.image_shape))), f"m{i}")
        if self.head is not None:
            return head_svg(self.head, self.mixing[:, i], f"m{i}")
        return ""

    def panels(self, i: int) -> str:
        """What unfolds below the line."""
        parts: list[str] = []
        used = f'<svg class="map" viewBox="-112 -116 224 230" role="img" aria-label="map"><use href="#m{i}"/></svg>'
        if self.image_shape is not None:
            filtered = image_svg(data_uri(grey_image(self.filters[i].reshape(self.image_shape))), f"f{i}", kind="map")
            parts.append(panel("quarter", "What it adds", used.replace("-112 -116 224 230", "0 0 100 100")))
            parts.append(panel("quarter", "Its filter", filtered))
            parts.append(
                panel(
                    "half chartbox",
                    "Distribution",
                    density_chart(self.measures, i) + density_key(self.measures.densities[i]),
                )
            )
            return "".join(parts)
        parts.append(panel("wide", "Source", self.trace(i)))
        if self.head is not None:
            parts.append(panel("quarter", "Map", used))
        size = "quarter" if self.head is not None else "third"
        parts.append(panel(size, "Largest weights", self.weights(i)))
        rest = "quarter" if self.head is not None else "third"
        if self.measures.spectrum.shape[1]:
            parts.append(panel(f"{rest} chartbox", "Spectrum", spectrum_chart(self.measures, i, self.sfreq)))
        parts.append(
            panel(
                f"{rest} chartbox",
                "Distribution",
                density_chart(self.measures, i) + density_key(self.measures.densities[i]),
            )
        )
        return "".join(parts)

    def trace(self, i: int) -> str:
        """The stretch of the source that its line shows, larger."""
        measures = self.measures
        length = measures.trace.shape[1]
        rate = self.sfreq
        first, last = measures.trace_start, measures.trace_start + length
        low, high = (f"{first / rate:,.1f} s", f"{last / rate:,.1f} s") if rate else (f"{first:,}", f"{last:,}")
        unit = "" if rate else " samples"
        return (
            f'<svg class="trace" viewBox="0 0 600 60" preserveAspectRatio="none" role="img" aria-label="source">'
            f'<use href="#t{i}"/></svg><div class="scale"><span>{low}</span><span>{high}{unit}</span></div>'
        )

    def weights(self, i: int) -> str:
        """Bars of the features with the largest weights."""
        column = self.mixing[:, i]
        chosen = np.argsort(-np.abs(column), kind="stable")[:7]
        return bars([self.names[j] for j in chosen.tolist()], column[chosen])


def density_key(density: object) -> str:
    """What the lines of a distribution mean."""
    return (
        f'<div class="key"><span><i class="k-bars"></i>data</span><span><i></i>{isolate(family(density), 48)}</span>'
        '<span><i class="k-gauss"></i>Gaussian</span></div>'
    )


def family(density: object) -> str:
    """The name of a density without its parameters."""
    return str(density).partition("(")[0]


def panel(size: str, title: str, content: str) -> str:
    """One panel with a small heading; `content` is markup already."""
    return f'<div class="panel {size}"><h3>{escape(title)}</h3>{content}</div>'


def image_svg(uri: str, name: str, *, kind: str = "") -> str:
    """A small image that scales without blur."""
    style = f' class="{kind}"' if kind else ""
    return (
        f'<svg{style} viewBox="0 0 100 100" role="img" aria-label="weights as an image">'
        f'<image id="{name}" href="{uri}" width="100" height="100" preserveAspectRatio="xMidYMid"/></svg>'
    )


def head_svg(head: HeadMap, values: F64, name: str) -> str:
    """A head seen from above, nose up; the extremes are signed so that it reads without colour."""
    image = data_uri(diverging_image(head(values)))
    sensors = "".join(f'<circle class="sensor" cx="{x:.0f}" cy="{y:.0f}" r="1.6"/>' for x, y in _pixels(head.positions))
    signs = ""
    for index, sign in ((int(values.argmax()), "+"), (int(values.argmin()), "−")):
        if (values[index] > 0) == (sign == "+") and abs(values[index]) > 0.35 * np.abs(values).max():
            x, y = _pixels(head.positions)[index]
            signs += f'<text class="sign" x="{x:.0f}" y="{y + 4:.0f}" style="font-size:22px">{sign}</text>'
    return (
        '<svg viewBox="-112 -116 224 230" role="img" aria-label="map over the head">'
        f'<g id="{name}"><path class="head" '
        'd="M-16 -99L0 -115L16 -99M-101 -18q-9 2 -8 18t8 18M101 -18q9 2 8 18t-8 18"/>'
        f'<image href="{image}" x="-100" y="-100" width="200" height="200" clip-path="circle(100px at 100px 100px)" '
        f'style="image-rendering:auto"/><circle class="head" r="100"/>{sensors}{signs}</g></svg>'
    )


def _pixels(positions: F64) -> list[tuple[float, float]]:
    return [(100 * float(x), -100 * float(y)) for x, y in positions]


def density_chart(measures: Measures, i: int) -> str:
    """Histogram of the source against the fitted density and a Gaussian of the same variance."""
    s = np.linspace(EDGES[0], EDGES[-1], 101)
    model = measures.model_density(i, s)
    top = 1.08 * max(float(measures.histogram[i].max()), float(model.max()), 0.4)
    chart = Chart(
        (EDGES[0], EDGES[-1]), (0, top), "distribution", "standard deviations", width=250, height=170, show_y=False
    )
    chart.steps(EDGES, measures.histogram[i])
    chart.line(s, np.exp(-0.5 * s * s) / np.sqrt(2 * np.pi), "gauss")
    chart.line(s, model, "model")
    return chart.render()


def spectrum_chart(measures: Measures, i: int, sfreq: float | None) -> str:
    """Power spectral density on a logarithmic scale."""
    power = np.log10(np.maximum(measures.spectrum[i][1:], 1e-300))
    frequencies = measures.frequencies[1:]
    low, high = float(power.min()), float(power.max())
    margin = max(0.06 * (high - low), 1.0 - 0.5 * (high - low))  # two decades at least: noise is to look flat
    label = "frequency, Hz" if sfreq else "cycles a sample"
    span = (0.0, float(frequencies[-1]))
    power_unit = "power, 1/Hz" if sfreq else "power"  # sources have unit variance
    chart = Chart(span, (low - margin, high + margin), "spectrum", label, power_unit, log_y=True, width=250, height=170)
    chart.line(frequencies, power)
    return chart.render()


def feature_names(ica: Any) -> list[str]:
    """The features' own names, or their numbers."""
    given = getattr(ica, "feature_names_in_", None)
    return [f"feature {j}" for j in range(ica.n_features_in_)] if given is None else [str(name) for name in given]

"""The convergence charts of a report."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from majorica.report.svg import Chart

#: Records drawn; longer traces are thinned evenly.
MOST_POINTS = 400


def convergence_section(ica: Any) -> str:
    """Loss and gradient against passes and, at a click, against seconds."""
    trace = ica.trace_
    if len(trace) < 2:
        return '<p class="note">The fit took a single step.</p>'
    keep = np.unique(np.linspace(0, len(trace) - 1, MOST_POINTS).astype(int))
    trace = trace[keep]
    grown = np.flatnonzero(np.diff(trace["n_samples"]) > 0) + 1
    online = ica.stop_reason_.startswith("the stream")
    by_passes, by_time = (
        _charts(trace, trace[name], label, trace[name][grown].tolist() if len(grown) < 20 else [], target(ica))
        for name, label in (("passes", "samples" if online else "passes over the data"), ("seconds", "seconds"))
    )
    rule = '<span><i class="k-rule"></i>more samples join in</span>' if 0 < len(grown) < 20 else ""
    early = '<span><i class="k-early"></i>gradient on a subset</span>' if len(grown) else ""
    goal = '<span><i class="k-target"></i>goal</span>' if target(ica) and "k-goal" in by_passes else ""
    return (
        '<input class="pick" type="radio" name="axis" id="by-passes" checked><label for="by-passes">'
        f"{'Samples' if online else 'Passes'}</label>"
        '<input class="pick" type="radio" name="axis" id="by-time"><label for="by-time">Time</label>'
        f'<div class="two by-passes">{by_passes}</div><div class="two by-time">{by_time}</div>'
        f'<div class="key">{early}{rule}{goal}</div>'
    )


def target(ica: Any) -> float | None:
    """The gradient at which the fit was to stop; None if it had no such goal, or stopped by another rule."""
    if ica.tol is not None:
        return float(ica.tol) or None
    floor = 0.1 / math.sqrt(ica.n_samples_seen_)
    return floor if ica._fitted.gradient <= floor else None


def _charts(trace: Any, x: Any, label: str, rules: list[float], goal: float | None) -> str:
    span = (0.0, float(x[-1]) or 1.0)
    loss, level = trace["loss"], trace["n_samples"]
    last = level == level[-1]
    # Losses of different samples are not comparable: only those of the last level are drawn.
    if last.sum() < 2:
        last = np.ones_like(last)
    low, high = float(np.nanmin(loss[last])), float(np.nanmax(loss[last]))
    margin = 0.06 * max(high - low, 1e-9)
    chart = Chart(span, (low - margin, high + margin), "loss", label, "Loss, nats a sample")
    chart.upright(rules)
    chart.line(x[last], loss[last])
    parts = [f"<div>{chart.render()}</div>"]
    known = trace["gradient"] > 0
    if known.sum() > 1:
        gradient = np.log10(trace["gradient"][known])
        low, high = float(gradient.min()), float(gradient.max())
        if goal is not None:
            low = min(low, math.log10(goal))
        margin = 0.05 * max(high - low, 0.5)
        chart = Chart(span, (low - margin, high + margin), "gradient", label, "Largest relative gradient", log_y=True)
        chart.upright(rules)
        if goal is not None:
            chart.line(span, [math.log10(goal)] * 2, "target k-goal")
        for size in np.unique(level):
            chosen = level[known] == size
            chart.line(x[known][chosen], gradient[chosen], "line" if size == level[-1] else "early")
        parts.append(f"<div>{chart.render()}</div>")
    return "".join(parts)

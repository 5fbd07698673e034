"""The convergence charts of a report."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from majorica.report.svg import Chart

#: Records drawn; longer traces are thinned evenly.
MOST_POINTS = 400


def convergence_section(ica: Any) -> str:
    """Loss and gradient against passes (samples, if each step has its own) and, at a click, against seconds."""
    trace = ica.trace_
    if len(trace) < 2:
        return '<p class="note">The fit took a single step.</p>'
    keep = np.unique(np.linspace(0, len(trace) - 1, MOST_POINTS).astype(int))
    level, over, name = steps(ica)
    trace, level, axis = trace[keep], level[keep], (over[keep], name)
    grown = np.flatnonzero(np.diff(level) > 0) + 1
    by_passes, by_time = (
        _charts(trace, level, x, label, x[grown].tolist() if len(grown) < 20 else [], target(ica))
        for x, label in (axis, (trace["seconds"], "seconds"))
    )
    rule = '<span><i class="k-rule"></i>more samples join in</span>' if 0 < len(grown) < 20 else ""
    early = '<span><i class="k-early"></i>gradient on a subset</span>' if len(grown) else ""
    goal = '<span><i class="k-target"></i>goal</span>' if target(ica) and "k-goal" in by_passes else ""
    return (
        '<input class="pick" type="radio" name="axis" id="by-passes" checked><label for="by-passes">'
        f"{name.split()[0].capitalize()}</label>"
        '<input class="pick" type="radio" name="axis" id="by-time"><label for="by-time">Time</label>'
        f'<div class="two by-passes">{by_passes}</div><div class="two by-time">{by_time}</div>'
        f'<div class="key">{early}{rule}{goal}</div>'
    )


def steps(ica: Any) -> tuple[Any, Any, str]:
    """The samples in play at each step, what steps are drawn over, and the name of that.

    Losses of different samples are not comparable, but for those of a stream there are no others.
    """
    if learns_in_passing(ica):
        return np.zeros(len(ica.trace_)), np.cumsum(ica.trace_["n_samples"]), "samples"
    return ica.trace_["n_samples"], ica.trace_["passes"], "passes over the data"


def learns_in_passing(ica: Any) -> bool:
    """Whether each step had samples of its own, as in a stream past its start; a fit of few samples has not."""
    session = getattr(ica, "_stream", None)
    return session is not None and session.state is not None


def target(ica: Any) -> float | None:
    """The gradient at which the fit was to stop; None if it had no such goal, or stopped by another rule."""
    if ica.tol is not None:
        return float(ica.tol) or None
    floor = 0.1 / math.sqrt(ica.n_samples_seen_)
    return floor if ica._fitted.gradient <= floor else None


def _charts(trace: Any, level: Any, x: Any, label: str, rules: list[float], goal: float | None) -> str:
    span = (0.0, float(x[-1]) or 1.0)
    loss = trace["loss"]
    last = level == level[-1]  # only losses of the last level are drawn
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

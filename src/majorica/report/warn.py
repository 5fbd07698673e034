"""What a reader of a report should be warned of."""

from __future__ import annotations

from typing import Any

import numpy as np

from majorica.fewsamples import ENOUGH_A_COMPONENT
from majorica.report.measure import GAUSSIAN, OUTLIER, Measures
from majorica.report.text import escape, number


def alerts(ica: Any, measures: Measures) -> str:
    """The warnings as a list; empty if there are none."""
    found = warnings_of(ica, measures)
    if not found:
        return ""
    items = "".join(f"<li><strong>{escape(head)}</strong> {escape(text, 400)}</li>" for head, text in found)
    return f'<ul class="alerts" aria-label="Warnings">{items}</ul>'


def warnings_of(ica: Any, measures: Measures) -> list[tuple[str, str]]:
    """Each warning as a short head and a sentence that says what to do."""
    found: list[tuple[str, str]] = []
    k, n = int(ica.n_components_), int(ica.n_samples_seen_)
    if not ica.converged_:
        found.append(
            ("Not converged.", f"The components may still move: {ica.stop_reason_.removeprefix('not converged: ')}.")
        )
    if ica.rank_ < ica.n_features_in_:
        found.append(
            (
                "Rank below the number of features.",
                f"The data spans {ica.rank_:,} of {ica.n_features_in_:,} dimensions "
                "(average reference, interpolated or constant features?); there are no more components than that.",
            )
        )
    if n < ENOUGH_A_COMPONENT * k:
        found.append(
            ("Few samples.", f"{n / k:.1f} samples a component; {ENOUGH_A_COMPONENT} or more make components reliable.")
        )
    driven = np.flatnonzero(measures.largest > OUTLIER)
    if len(driven):
        worst = int(driven[np.argmax(measures.largest[driven])])
        found.append(
            (
                "Outliers.",
                f"{_these(driven)} single samples beyond {OUTLIER:g} standard deviations "
                f"(IC {worst} reaches {number(float(measures.largest[worst]), 3)}); look at its source, "
                "and drop such samples if they are artefacts.",
            )
        )
    flat = np.flatnonzero(np.abs(measures.kurtosis) < GAUSSIAN)
    if len(flat) > 1:
        found.append(
            (
                "Nearly Gaussian sources.",
                f"{_these(flat)} a kurtosis near 0; among such components the directions are not determined.",
            )
        )
    return found


def _these(components: Any) -> str:
    listed = [f"IC {i}" for i in components.tolist()]
    if len(listed) == 1:
        return f"{listed[0]} has"
    shown = ", ".join(listed[:5])
    return f"{shown} have" if len(listed) <= 5 else f"{shown} and {len(listed) - 5} more have"

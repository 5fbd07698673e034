"""The report: a fitted model and its data on one page that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import platform
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata, resources
from string import Template
from typing import IO, Any

import numpy as np
import numpy.typing as npt

import majorica
from majorica.errors import ParameterError
from majorica.origin import origin_of
from majorica.persistence.atomic import write_atomically
from majorica.report.components import MOST_PANELS, Drawing, feature_names
from majorica.report.convergence import convergence_section, learns_in_passing
from majorica.report.layout import HeadMap, image_shape_of, positions_of
from majorica.report.measure import measure, sampling_rate, source_variance, unit_variance_unmixing
from majorica.report.repeat import fitted_path, heading, notes, parameter_rows, path_in, python_lines, shell_command
from majorica.report.text import clean, clean_lines, duration, escape, isolate, number
from majorica.report.warn import alerts
from majorica.sources import as_source
from majorica.statistics import F64

#: Components on a page; more would only make it slow.
MOST_COMPONENTS = 1000
#: Relative difference up to which two components explain as much as each other, and stay in the model's order.
TIE = 0.01
#: Characters of a command that is shown; a longer one would be cut and do something else.
LONGEST_COMMAND = 2000


class Report:
    """A page on a fitted model: convergence, every component, warnings, and how to repeat it.

    The page is one file without any outside address; all names are escaped.

    Parameters
    ----------
    ica : ICA
        Fitted.
    X : object
        The data, anything ``as_source`` takes. Up to `max_samples` of it are
        read, in stretches spread over all of it.
    title : str, optional
        By default the name of the file, if `X` is one.
    sfreq : float, optional
        Samples a second; recordings know it.
    positions : array (n_features, 2) or (n_features, 3), optional
        Where the sensors are; recordings may know it.
    image_shape : (height, width) or False, optional
        The image that the features form. By default a square number of
        features that behave like pixels is drawn as one.
    max_samples : int, default=200_000
        Samples to look at.

    Examples
    --------
    >>> import numpy as np
    >>> from majorica import ICA, Report
    >>> X = np.random.default_rng(0).laplace(size=(2000, 3))
    >>> page = Report(ICA(random_state=0).fit(X), X, title="Three sources")
    >>> page.html.startswith("<!doctype html>")
    True
    """

    def __init__(
        self,
        ica: Any,
        X: Any,
        *,
        title: str | None = None,
        sfreq: float | None = None,
        positions: npt.ArrayLike | None = None,
        image_shape: tuple[int, int] | bool | None = None,
        max_samples: int = 200_000,
    ) -> None:
        if not hasattr(ica, "components_"):
            raise ParameterError("the model is not fitted; call fit before making a report")
        if sfreq is not None and not sfreq > 0:
            raise ParameterError(f"sfreq={sfreq!r} must be a positive number of samples a second")
        source = as_source(X)
        self.ica = ica
        self.path = path_of(X, source)
        read = origin_of(source)
        self.looked_at = path_in(read)
        files = os.path.basename(self.path or "") or clean(heading(read), 1000)
        self.title = title if title is not None else files or "Independent components"
        self.sfreq = sampling_rate(source) if sfreq is None else float(sfreq)
        self.measures = measure(ica, source, sfreq=self.sfreq, max_samples=max_samples)
        self.names = feature_names(ica)
        places = positions_of(source, getattr(source, "feature_names", None), positions)
        shape = None if places is not None else image_shape_of(ica, image_shape)
        W, _, _ = unit_variance_unmixing(ica)
        self.drawing = Drawing(
            measures=self.measures,
            mixing=np.asarray(ica.mixing_) * np.sqrt(source_variance(ica)),
            filters=W,
            names=self.names,
            image_shape=shape,
            head=None if places is None else HeadMap(places),
            sfreq=self.sfreq,
        )

    @property
    def html(self) -> str:
        """The whole page."""
        ica, script = self.ica, _resource("page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        good = bool(ica.converged_)
        return Template(_resource("page.html")).substitute(
            title=escape(self.title),
            heading=isolate(self.title),
            lead=self._lead(),
            status=escape(_sentence(ica.stop_reason_), 300),
            status_class="closed" if good else "open",
            facts=self._facts(),
            warnings=alerts(ica, self.measures),
            convergence=convergence_section(ica),
            components_note=self._components_note(),
            components=self._components(),
            repeat=self._repeat(),
            parameters=_table(parameter_rows(ica)),
            versions=_table([(name, value, False) for name, value in versions()]),
            date=datetime.now().astimezone().strftime("%d %B %Y, %H:%M"),
            version=escape(majorica.__version__),
            style=_resource("page.css"),
            script=script,
            script_hash=f"sha256-{digest}",
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to `path`; a reader never sees half of it."""

        def write(file: IO[bytes]) -> None:
            file.write(self.html.encode("utf-8"))

        write_atomically(path, write)

    def _repr_html_(self) -> str:
        # A frame of its own: the page's style and script stay out of the notebook's.
        return (
            '<iframe title="Majorica report" sandbox="allow-scripts" style="width:100%;height:720px;border:0" '
            f'srcdoc="{html.escape(self.html, quote=True)}"></iframe>'
        )

    def _lead(self) -> str:
        ica = self.ica
        data = f"{ica.n_samples_seen_:,} samples of {_count(ica.n_features_in_, 'feature')}"
        path = fitted_path(ica)
        where = f" from {isolate(path)}" if path and os.path.basename(path) != self.title else ""
        return f"{_count(ica.n_components_, 'component')} of {data}{where}."

    def _facts(self) -> str:
        ica, seconds = self.ica, fit_seconds(self.ica)
        explained, gradient = self.measures.explained_together, float(self.ica._fitted.gradient)
        loss_of = "nats a sample, the last ones" if learns_in_passing(ica) else "nats a sample"
        facts = [
            ("Samples", f"{ica.n_samples_seen_:,}", f"{ica.n_features_in_:,} features"),
            ("Components", f"{ica.n_components_:,}", f"rank {ica.rank_:,}"),
            ("Explained", f"{100 * explained:.3g} %", "of the variance"),
            ("Time", duration(seconds), f"{number(float(passes(ica)), 3)} passes"),
            ("Loss", f"{ica.loss_:.4f}".replace("-", "−"), loss_of),
            ("Gradient", number(gradient, 2), "not computed" if np.isnan(gradient) else "largest entry, relative"),
        ]
        return "".join(
            f"<div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>" for name, value, note in facts
        )

    def _components_note(self) -> str:
        measures, k = self.measures, int(self.ica.n_components_)
        if measures.n_samples is not None and measures.n_used < measures.n_samples:
            text = f"Measured on {measures.n_used:,} of {measures.n_samples:,} samples, spread over all of them."
        else:
            text = f"Measured on {measures.n_used:,} samples."
        fitted = fitted_path(self.ica)
        if fitted and self.looked_at and fitted != self.looked_at:
            text += f" They are of {isolate(self.looked_at)}; fitted was another file."
        if k > MOST_COMPONENTS:
            text += f" The first {MOST_COMPONENTS:,} of {k:,} components are listed."
        if k > MOST_PANELS:
            text += f" The first {MOST_PANELS} unfold."
        return "In descending explained variance; unfold one for its details. " + text

    def _components(self) -> str:
        listed = descending(self.measures.explained)[:MOST_COMPONENTS]
        return "".join(self.drawing.component(i, panels=place < MOST_PANELS) for place, i in enumerate(listed))

    def _repeat(self) -> str:
        parts = []
        command = shell_command(self.ica)
        if command is not None and len(command) <= LONGEST_COMMAND:
            parts.append(f'<pre dir="ltr">{escape(command, LONGEST_COMMAND)}</pre>')
        parts.append(f'<pre dir="ltr">{html.escape(clean_lines(python_lines(self.ica)), quote=True)}</pre>')
        open_points = notes(self.ica)
        if open_points:
            parts.append(f'<p class="note">{escape(" ".join(open_points), 2000)}</p>')
        return "".join(parts)


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def descending(explained: F64) -> list[int]:
    """Components by explained variance: as they are numbered but where a stream, which keeps places, has changed it."""
    steps = np.diff(explained) > TIE * explained[:-1]
    order = np.argsort(-explained, kind="stable") if steps.any() else np.arange(len(explained))
    numbers: list[int] = order.tolist()
    return numbers


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _resource(name: str) -> str:
    return resources.files("majorica.report").joinpath(name).read_text(encoding="utf-8")


def _table(rows: Sequence[tuple[str, str, bool]]) -> str:
    """Rows of name, value, and whether the value was set by the user."""
    lines = "".join(
        f"<tr{' class=set' if changed else ''}><th>{escape(name)}</th><td>{isolate(value)}</td></tr>"
        for name, value, changed in rows
    )
    return f"<table>{lines}</table>"


def fit_seconds(ica: Any) -> float:
    """Seconds the steps of the fit took; NaN if there is no record of them."""
    return float(ica.trace_["seconds"][-1]) if len(ica.trace_) else float("nan")


def passes(ica: Any) -> float:
    """Passes over the data, in fractions."""
    return float(ica._fitted.passes)


def path_of(X: Any, source: Any) -> str | None:
    """The path that `X` is, if it is one."""
    if isinstance(X, str | os.PathLike):
        return clean(os.fsdecode(os.fspath(X)), 1000)
    path = getattr(source, "path", None)
    return clean(path, 1000) if isinstance(path, str) else None


def versions() -> list[tuple[str, str]]:
    """Versions of everything that computes."""
    found = [("majorica", majorica.__version__), ("python", platform.python_version())]
    for package in ("numpy", "scipy", "numba", "scikit-learn"):
        try:
            found.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            continue
    return [*found, ("platform", f"{platform.system()} {platform.machine()}")]

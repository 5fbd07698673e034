"""What a report says about a fitted model and its data, measured in one pass over excerpts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.densities.base import Density
from majorica.errors import DataError
from majorica.inputs import check_features
from majorica.sources import Source, Stream
from majorica.units import in_unit_of

F64 = npt.NDArray[np.float64]

#: Edges of the histograms, in standard deviations.
EDGES = np.linspace(-5.0, 5.0, 62)
#: Samples in a stretch of contiguous data; long enough for spectra.
STRETCH = 8192
#: Samples in a segment of a spectrum.
SEGMENT = 512
#: Samples of the trace shown when the sampling rate is not known, and seconds when it is.
TRACE_SAMPLES, TRACE_SECONDS = 600, 5.0
#: A component that reaches this many standard deviations is driven by single samples.
OUTLIER = 40.0
#: Excess kurtosis below which a source looks Gaussian.
GAUSSIAN = 0.05


@dataclass
class Measures:
    """Statistics of the sources, all at unit variance, one row a component."""

    n_used: int  #: samples looked at
    n_samples: int | None  #: samples there are, None for a stream
    explained: F64  #: share of the data's total variance that each component has alone, (k,)
    explained_together: float  #: share that all have together; of correlated sources not the sum of the above
    kurtosis: F64  #: excess kurtosis, (k,)
    largest: F64  #: largest absolute value, in standard deviations, (k,)
    histogram: F64  #: estimated density in each bin of EDGES, (k, bins)
    trace: F64  #: a stretch of each source, (k, t)
    trace_start: int  #: sample at which the stretch starts
    frequencies: F64  #: in Hz, or cycles a sample, (f,)
    spectrum: F64  #: power spectral density, (k, f)
    model_scale: F64  #: standard deviation of each source in the model's units, (k,)
    densities: Sequence[Density]

    def model_density(self, i: int, s: npt.ArrayLike) -> F64:
        """The fitted density of component `i` at `s` standard deviations."""
        density, scale = self.densities[i], float(self.model_scale[i])
        values = np.asarray(s, dtype=np.float64) * scale
        return scale * np.exp(-np.asarray(density.loss(values)) - density.log_normaliser)

    def kind(self, i: int) -> str:
        """Whether component `i` has heavier or lighter tails than a Gaussian, or cannot be told from one."""
        if abs(self.kurtosis[i]) < GAUSSIAN:
            return "near Gaussian"
        return "super-Gaussian" if self.kurtosis[i] > 0 else "sub-Gaussian"


@dataclass
class _Sums:
    """Running sums over the sources; O(k) memory but for the spectra."""

    k: int
    n: int = 0
    powers: F64 = field(init=False)
    variance: float = 0.0
    residual: float = 0.0
    largest: F64 = field(init=False)
    counts: F64 = field(init=False)
    spectrum: F64 = field(init=False)
    segments: int = 0

    def __post_init__(self) -> None:
        self.powers = np.zeros((4, self.k))
        self.largest = np.zeros(self.k)
        self.counts = np.zeros((self.k, len(EDGES) - 1))
        self.spectrum = np.zeros((self.k, SEGMENT // 2 + 1))

    def add(self, X: F64, S: F64, mixing: F64) -> None:
        """Samples `X`, centred, their sources `S`, and the matrix that takes sources to samples."""
        self.n += len(S)
        self.variance += float((X * X).sum())
        self.residual += float(((X - S @ mixing.T) ** 2).sum())
        power = np.ones_like(S)
        for row in self.powers:
            power *= S
            row += power.sum(axis=0)
        np.maximum(self.largest, np.abs(S).max(axis=0), out=self.largest)
        bins = np.floor((S - EDGES[0]) / (EDGES[1] - EDGES[0])).astype(np.intp)
        inside = (bins >= 0) & (bins < len(EDGES) - 1)
        flat = (bins + np.arange(self.k) * (len(EDGES) - 1))[inside]
        self.counts += np.bincount(flat, minlength=self.counts.size).reshape(self.counts.shape)
        self._add_spectrum(S)

    def _add_spectrum(self, S: F64) -> None:
        window = np.hanning(SEGMENT)[:, None]
        for start in range(0, len(S) - SEGMENT + 1, SEGMENT // 2):
            piece = S[start : start + SEGMENT]
            transform = np.fft.rfft((piece - piece.mean(axis=0)) * window, axis=0)
            self.spectrum += (np.abs(transform) ** 2).T
            self.segments += 1


def measure(ica: Any, source: Source | Stream, *, sfreq: float | None = None, max_samples: int = 200_000) -> Measures:
    """Look at up to `max_samples` of `source`, in stretches spread over all of it.

    Costs one read of those samples and ``O(k)`` memory beyond one stretch.
    Raises DataError if the samples do not belong to the model or are not finite.
    """
    check_features(ica, source)
    source = in_unit_of(ica, source)
    W, mean, scale = unit_variance_unmixing(ica)
    mixing = np.asarray(ica.mixing_) * np.sqrt(source_variance(ica))
    sums = _Sums(len(W))
    wanted = TRACE_SAMPLES if sfreq is None else max(32, min(STRETCH, math.ceil(TRACE_SECONDS * sfreq)))
    trace, trace_start = np.empty((len(W), 0)), 0
    for start, block in stretches(source, max_samples):
        centred = np.asarray(block, dtype=np.float64) - mean
        if not np.isfinite(centred).all():
            raise DataError("the data contains NaN or infinity; drop or interpolate such samples first")
        S = centred @ W.T
        sums.add(centred, S, mixing)
        if trace.shape[1] < min(wanted, len(S)):
            trace, trace_start = np.ascontiguousarray(S[:wanted].T), start
    if sums.n == 0:
        raise DataError("the data has no samples")
    return _measures(ica, sums, source.n_samples, trace, trace_start, sfreq, scale)


def _measures(
    ica: Any, sums: _Sums, n_samples: int | None, trace: F64, trace_start: int, sfreq: float | None, scale: F64
) -> Measures:
    first, second, third, fourth = sums.powers / sums.n
    variance = np.maximum(second - first**2, 1e-300)
    central = fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4
    total = sums.variance / sums.n
    share = (np.asarray(ica.mixing_) ** 2).sum(axis=0) * source_variance(ica) / max(total, 1e-300)
    width = EDGES[1] - EDGES[0]
    rate = 1.0 if sfreq is None else sfreq
    spectrum = 2 * sums.spectrum / (max(sums.segments, 1) * rate * (np.hanning(SEGMENT) ** 2).sum())
    return Measures(
        n_used=sums.n,
        n_samples=n_samples,
        explained=share,
        explained_together=max(0.0, 1 - sums.residual / max(sums.variance, 1e-300)),
        kurtosis=central / variance**2 - 3,
        largest=sums.largest,
        histogram=sums.counts / (sums.n * width),
        trace=trace,
        trace_start=trace_start,
        frequencies=np.asarray(np.arange(SEGMENT // 2 + 1) * (rate / SEGMENT), dtype=np.float64),
        spectrum=spectrum if sums.segments else np.empty((len(share), 0)),
        model_scale=scale,
        densities=list(ica._fitted.densities),
    )


def sampling_rate(source: Any) -> float | None:
    """Samples a second, if the source is a recording."""
    rate = getattr(source, "sfreq", None)
    return None if rate is None else float(rate)


def unit_variance_unmixing(ica: Any) -> tuple[F64, F64, F64]:
    """Unmixing matrix to sources of unit variance, the mean, and the sources' scale in the model's units."""
    fitted = ica._fitted
    scale = np.sqrt(np.einsum("ij,jk,ik->i", fitted.W, fitted.covariance, fitted.W))
    W = (fitted.W / scale[:, None]) @ fitted.whitening.matrix
    return W, np.asarray(ica.mean_, dtype=np.float64), scale


def source_variance(ica: Any) -> F64:
    """Variance of each source as the model publishes it: 1, or the density's own."""
    if ica.whiten == "unit-variance":
        return np.ones(ica.n_components_)
    scale = unit_variance_unmixing(ica)[2]
    return np.asarray(scale**2)


def stretches(source: Source | Stream, max_samples: int) -> Iterator[tuple[int, Any]]:
    """Contiguous stretches spread evenly over the source (the first ones of a stream), with their starts."""
    if isinstance(source, Stream):
        seen = 0
        for block in source:
            if len(block):
                yield seen, block
            seen += len(block)
            if seen >= max_samples:
                return
        return
    n = source.n_samples
    if n <= max_samples:
        starts = np.arange(0, n, STRETCH)
    else:
        starts = np.linspace(0, n - STRETCH, max(1, max_samples // STRETCH)).astype(np.intp)
    for start in starts.tolist():
        yield start, source.read(start, min(start + STRETCH, n))

"""Sources that are at rest most of the time: what tells them, for their scores are not to fall."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from majorica.sources.base import Array
from majorica.statistics import F64
from majorica.whitening import REPEATED

#: A source whose standard deviation is over so many times its mean size is at rest most of the time: 1.4 are a Laplace
#: source's, 2 one of Student 2.5, up to 3.5 those of image patches, 4.5 those of a Laplace source a tenth of the time.
SPARSE = 4.0
#: Numbers that are looked at together: copies of all would be a third of what a fit may take beside small data.
AT_A_TIME = 10_000
#: Samples are the same if no source differs by over so much of its standard deviation.
SAME = 1e-3


def at_rest(sources: Array) -> npt.NDArray[np.bool_]:
    """Which of the `sources` ``(p, m)`` are at rest most of the time; all if many samples equal the one before."""
    p, m = sources.shape
    powers, sizes = np.empty((2, p))
    step = max(1, AT_A_TIME // m)
    for first in range(0, p, step):
        Y = sources[first : first + step].astype(np.float64, copy=False)
        np.einsum("it,it->i", Y, Y, out=powers[first : first + step])
        np.einsum("it->i", np.abs(Y), out=sizes[first : first + step])
    deviations = np.sqrt(powers / m)
    sparse: npt.NDArray[np.bool_] = deviations > SPARSE * sizes / m
    return sparse | _repeat(sources, deviations)


def _repeat(sources: Array, deviations: F64) -> bool:
    """Whether over a twentieth of the samples equal the one before in every source."""
    least, same = REPEATED * sources.shape[1], None
    for source, deviation in zip(sources, deviations.tolist(), strict=True):  # mostly the first one says no
        y = source.astype(np.float64, copy=False)
        apart = np.abs(y[1:] - y[:-1])
        same = apart <= SAME * deviation if same is None else same & (apart <= SAME * deviation)
        if np.count_nonzero(same) <= least:
            return False
    return True

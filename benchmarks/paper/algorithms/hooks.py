"""Reading the iterates of a library that shows none: its nonlinearity is called with ``Y = W X`` at each iteration.

Both Picard and FastICA take the nonlinearity from the user. W is recovered
from a few columns of Y by least squares, off the clock, so that one run gives
every iterate.
"""

from __future__ import annotations

import numpy as np


class IterateReader:
    """Recovers M from ``Y = M X``.

    Parameters
    ----------
    X : ndarray (p, n)
        The matrix the library starts from, well-conditioned (white).
    """

    def __init__(self, X: np.ndarray) -> None:
        p, n = X.shape
        self.columns = np.unique(np.linspace(0, n - 1, min(n, 20 * p)).astype(int))
        self.pseudo_inverse = np.linalg.pinv(X[:, self.columns])

    def read(self, Y: np.ndarray) -> np.ndarray:
        """M."""
        return Y[:, self.columns] @ self.pseudo_inverse

"""Online majorization-minimization: the paper's Algorithm 2.

``solver`` takes a stream mini-batch by mini-batch, ``plain`` several at once through one kernel where nothing is odd.
``outliers`` and ``flat`` say what is odd, ``following`` keeps shapes up to date, ``averages`` chooses the matrix shown.
"""

from __future__ import annotations

from majorica.solvers.online.solver import Online, OnlineState

__all__ = ["Online", "OnlineState"]

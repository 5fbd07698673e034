"""Incremental majorization-minimization: the paper's Algorithm 1.

``solver`` is the loop. ``touching`` remembers where majorizers touch, ``minibatch`` visits samples through the
kernels, ``rounds`` visits whole blocks on a cluster.
"""

from __future__ import annotations

from majorica.solvers.incremental.solver import Incremental, IncrementalState, default_batch_size

__all__ = ["Incremental", "IncrementalState", "default_batch_size"]

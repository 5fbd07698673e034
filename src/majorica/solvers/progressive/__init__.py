"""The default solver for finite data: quasi-Newton on growing random subsets, with MM steps as a safety net.

``solver`` is the loop. It looks at samples (``levels``, ``held``, ``looks``), asks what is left to gain (``gains``,
``curvatures``), steps (``moves``, ``quasinewton``), and leaves places from which no step leads on (``seeking``,
``lost``, ``rotations``, ``ridges``); ``rest`` tells sources that fine shapes would not fit.
"""

from __future__ import annotations

from majorica.solvers.progressive.gains import ProgressiveState
from majorica.solvers.progressive.solver import Progressive

__all__ = ["Progressive", "ProgressiveState"]

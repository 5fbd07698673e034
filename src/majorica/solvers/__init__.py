"""Solvers: init and step on one explicit state, run by one driver loop."""

from __future__ import annotations

from majorica.solvers.base import Callback, State, Step, StopReason, Trace, drive
from majorica.solvers.batch import Batch
from majorica.solvers.incremental.solver import Incremental
from majorica.solvers.online.solver import Online
from majorica.solvers.progressive.solver import Progressive

__all__ = ["Batch", "Callback", "Incremental", "Online", "Progressive", "State", "Step", "StopReason", "Trace", "drive"]

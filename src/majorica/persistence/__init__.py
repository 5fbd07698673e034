"""Files that outlive a process: models and checkpoints, safe to open, atomic to write."""

from __future__ import annotations

from majorica.persistence.checkpoints import Checkpoint, warn_interrupted
from majorica.persistence.models import load_model, save_model

__all__ = ["Checkpoint", "load_model", "save_model", "warn_interrupted"]

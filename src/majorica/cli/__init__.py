"""The program ``majorica``; see ``docs/cli.md``.

Nothing heavy is imported until a command runs, so ``--help`` is instant.
"""

from __future__ import annotations

from majorica.cli.app import main

__all__ = ["main"]

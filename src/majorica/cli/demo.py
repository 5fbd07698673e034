"""``majorica demo``."""

from __future__ import annotations

import os
from typing import Any

from majorica.cli.failures import UsageError
from majorica.cli.files import check_output
from majorica.cli.info import show_table
from majorica.cli.messages import emit, progress_level, say, spoken_warnings


def run(*, folder: str, jobs: int | None, force: bool, as_json: bool, verbose: int, quiet: bool) -> None:
    """Learn from the photographs that scikit-learn brings; write a picture and a report."""
    if not os.path.isdir(folder):
        raise UsageError(f"{folder}: there is no such directory")
    picture, page = (os.path.join(folder, f"majorica-demo.{end}") for end in ("png", "html"))
    for output in (picture, page):
        check_output(output, force=force)
    with spoken_warnings(quiet=quiet):
        from majorica.demo import run_demo

        result: dict[str, Any] = run_demo(
            picture, page, n_jobs=jobs, verbose=progress_level(verbose=verbose, quiet=quiet)
        )
    if as_json:
        emit(result)
        return
    if not quiet:
        rows = [
            ("samples", f"{result['n_samples']:,} patches of 10 x 10 pixels"),
            ("components", f"{result['n_components']}"),
            ("passes", f"{result['passes']:.1f}"),
            ("loss", f"{result['loss']:.3f} nats a sample"),
            ("seconds", f"{result['seconds']:.1f}"),
        ]
        show_table("Edge detectors from two photographs", rows)
        say(f"wrote {picture} and {page}")

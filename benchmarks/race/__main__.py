"""``python -m benchmarks.race``: run what is not yet stored, then print and write the tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.blas import let_it_choose
from benchmarks.common import ROOT
from benchmarks.race.datasets import entries
from benchmarks.race.methods import BY_NAME
from benchmarks.race.page import write
from benchmarks.race.run import Race


def main() -> None:
    """Run the race."""
    names = [entry.name for entry in entries(quick=True)]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race", description=__doc__)
    parser.add_argument("--eeg", type=Path, help="a recording: .npy (channels or samples first) or what majorica reads")
    parser.add_argument(
        "--images", type=Path, help="grey images: .npz or a folder; scikit-learn's and -image's if none"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the command")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="DATA", help=", ".join(names))
    parser.add_argument("--methods", nargs="+", choices=list(BY_NAME), default=list(BY_NAME), metavar="METHOD")
    parser.add_argument("--repeats", type=int, default=2, help="processes a method")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds a process")
    parser.add_argument("--no-curves", action="store_true", help="end points only, no loss against time")
    parser.add_argument("--fresh", action="store_true", help="ignore stored results")
    parser.add_argument(
        "--render", action="store_true", help="only print and write the newest stored runs, whichever code made them"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "race")
    asked = parser.parse_args()
    race = Race(asked.results, quick=asked.quick, eeg=asked.eeg, images=asked.images, repeats=asked.repeats)
    race.timeout = 60.0 if asked.quick and asked.timeout == 240.0 else asked.timeout
    race.newest = asked.render
    if not asked.render:
        race.run(asked.only, asked.methods, fresh=asked.fresh, curves=not asked.no_curves)
    command = (
        "python -m benchmarks.race" + (" --eeg PATH" if asked.eeg else "") + (" --images PATH" if asked.images else "")
    )
    write(race, command + (" --quick" if asked.quick else ""))


if __name__ == "__main__":
    let_it_choose()
    main()

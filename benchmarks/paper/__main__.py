"""``python -m benchmarks.paper``: run what is missing, draw the figures, bring docs/reproduction.md up to date."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """The command line; gives the exit code."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # one thread an algorithm: set before NumPy is loaded
    from benchmarks.paper.claims import CLAIMS, run_claims
    from benchmarks.paper.figures import FIGURES, Bench
    from benchmarks.paper.report import save_results, update_page

    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the paper's sizes (hours) instead of small ones (minutes)")
    parser.add_argument("--figure", choices=[*FIGURES, "claims"], action="append", help="only this; may be repeated")
    parser.add_argument("--claim", choices=list(CLAIMS), action="append", help="only this claim of the text")
    parser.add_argument("--data-eeg", type=Path, default=os.environ.get("MAJORICA_EEG"), help=".npy file, (p, n)")
    parser.add_argument("--data-images", type=Path, default=os.environ.get("MAJORICA_IMAGES"), help="folder or .npz")
    parser.add_argument("--fresh", action="store_true", help="run everything again")
    parser.add_argument("--keep-stale", action="store_true", help="use stored results of other code versions too")
    parser.add_argument("--repeats", type=int, help="at most so many repeats of each run; more can be added later")
    options = parser.parse_args(arguments)
    eeg, images = (None if path in (None, "") else Path(path) for path in (options.data_eeg, options.data_images))
    bench = Bench(options.full, eeg, images, options.fresh, options.keep_stale, options.repeats)
    chosen = options.figure or (["claims"] if options.claim else [*FIGURES, "claims"])
    if "real" in chosen and eeg is None:
        print("no EEG: pass --data-eeg PATH (or set MAJORICA_EEG) for the lower half of figure 3", file=sys.stderr)
    started = time.perf_counter()
    results = {}
    for name in chosen:
        results |= {"claims": run_claims(bench, options.claim)} if name == "claims" else FIGURES[name](bench)
    minutes = (time.perf_counter() - started) / 60
    save_results(bench, results)
    update_page(bench)
    print(f"done in {minutes:.1f} minutes: docs/reproduction.md, docs/images/paper, docs/data/paper")
    return 0


if __name__ == "__main__":
    sys.exit(main())

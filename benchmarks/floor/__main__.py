"""``python -m benchmarks.floor``: time every solver's pass against its bare products."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.blas import let_it_choose
from benchmarks.common import ROOT, write_section
from benchmarks.floor import measure, startup
from benchmarks.floor.page import render
from benchmarks.floor.passes import SOLVERS
from majorica.engines import single_threaded_blas

PARTS = ("floors", "threads", "transcription", "exponents", "startup")


def merge(before: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of all sizes and solvers, the newer where there are two, by size."""
    records = {(record["p"], record["solver"]): record for record in [*before, *new]}
    return [records[key] for key in sorted(records, key=lambda key: (key[0], SOLVERS.index(key[1])))]


def is_whole(found: dict[str, Any]) -> bool:
    """Whether all parts are there, and all sizes and solvers: half a table is not for the page."""
    lines = {(record["p"], record["solver"]) for record in found.get("floors", [])}
    return set(PARTS) <= set(found) and lines >= {(p, solver) for p in measure.SIZES for solver in SOLVERS}


def main() -> None:
    """Measure the parts asked for; parts, sizes and solvers measured before stay on the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floor", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the command")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(measure.SIZES), metavar="P")
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=SOLVERS, metavar="SOLVER")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--render", action="store_true", help="only print and write what is stored")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "floor")
    asked = parser.parse_args()
    stored = asked.results / ("quick.json" if asked.quick else "full.json")
    found = json.loads(stored.read_text()) if stored.exists() else {}
    options = {"quick": asked.quick, "repeats": asked.repeats}
    work = {
        "floors": lambda: measure.floors(asked.sizes, asked.solvers, **options),
        "threads": lambda: measure.threads(**options),
        "transcription": lambda: measure.transcription(**options),
        "exponents": lambda: measure.exponents(**options),
        "startup": lambda: startup.measure(2 if asked.quick else 5),
    }
    for part in () if asked.render else asked.only:
        with single_threaded_blas():  # that of SciPy too, which may not be loaded yet
            new = work[part]()
        found[part] = merge(found.get(part, []), new) if part == "floors" else new
        asked.results.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps(found))
    text = render(found, "python -m benchmarks.floor" + (" --quick" if asked.quick else ""))
    print(text)
    if not asked.quick and is_whole(found):
        write_section("floor", text)


if __name__ == "__main__":
    let_it_choose()
    main()

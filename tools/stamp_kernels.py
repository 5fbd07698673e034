"""Write into each kernel module the digest of the modules compiled into it.

Numba's cache on disk looks at a kernel's own file alone. The digest makes that
file change whenever code it inlines changes, so that no installation ever runs
yesterday's formulas. Run after editing a kernel; a test notices if you forget.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "majorica"
#: Kernel module -> modules whose code or constants are compiled into it, lowest first.
INLINED = {
    "kernels/elementwise.py": ["densities/base.py", "densities/piecewise.py"],
    "kernels/dependence.py": ["kernels/elementwise.py", "kernels/products.py"],
    "kernels/rows.py": ["kernels/machine.py", "kernels/tiles.py"],
    "kernels/sweep.py": ["kernels/rows.py"],
    "kernels/outer.py": [
        "kernels/machine.py",
        "kernels/scratch.py",
        "kernels/tiles.py",
        "kernels/rows.py",
        "kernels/views.py",
    ],
    "kernels/panels.py": ["kernels/machine.py", "kernels/rows.py", "kernels/tiles.py"],
    "kernels/strips.py": ["kernels/machine.py", "kernels/rows.py", "kernels/tiles.py"],
    "kernels/products.py": ["kernels/machine.py", "kernels/scratch.py", "kernels/tiles.py"],
    "kernels/covariance.py": ["kernels/machine.py", "kernels/products.py", "kernels/tiles.py"],
    "kernels/scores.py": ["kernels/elementwise.py", "kernels/machine.py", "kernels/tiles.py"],
    "kernels/pairs.py": ["kernels/machine.py", "kernels/products.py", "kernels/rows.py", "kernels/tiles.py"],
    "kernels/moments.py": [
        "kernels/centre.py",
        "kernels/elementwise.py",
        "kernels/pairs.py",
        "kernels/panels.py",
        "kernels/products.py",
        "kernels/views.py",
    ],
    "kernels/stream.py": [
        "kernels/elementwise.py",
        "kernels/views.py",
        "kernels/rows.py",
        "kernels/outer.py",
        "kernels/pairs.py",
        "kernels/panels.py",
        "kernels/products.py",
        "kernels/scores.py",
        "kernels/team.py",
    ],
    "kernels/algebra.py": ["kernels/machine.py", "kernels/views.py"],
    "kernels/plain.py": [
        "kernels/algebra.py",
        "kernels/elementwise.py",
        "kernels/machine.py",
        "kernels/pairs.py",
        "kernels/products.py",
        "kernels/scores.py",
        "kernels/sweep.py",
        "kernels/views.py",
    ],
    "kernels/compiled.py": [
        "kernels/centre.py",
        "kernels/elementwise.py",
        "kernels/views.py",
        "kernels/scores.py",
        "kernels/sweep.py",
        "kernels/products.py",
    ],
    "kernels/gaps.py": ["kernels/elementwise.py", "kernels/machine.py", "kernels/scratch.py", "kernels/tiles.py"],
    "kernels/moves.py": ["kernels/elementwise.py", "kernels/rounding.py", "kernels/rows.py"],
    "kernels/few.py": ["kernels/machine.py", "kernels/moves.py", "kernels/rows.py"],
    "kernels/ranks.py": ["kernels/machine.py", "kernels/tiles.py", "kernels/views.py"],
    "kernels/buckets.py": ["kernels/machine.py", "kernels/tiles.py"],
    "kernels/unmixing.py": ["kernels/machine.py", "kernels/tiles.py"],
    "kernels/choose.py": [
        "kernels/buckets.py",
        "kernels/gaps.py",
        "kernels/machine.py",
        "kernels/ranks.py",
        "kernels/rounding.py",
        "kernels/unmixing.py",
        "kernels/views.py",
    ],
    "kernels/minibatch.py": [
        "kernels/views.py",
        "kernels/sweep.py",
        "kernels/choose.py",
        "kernels/few.py",
        "kernels/moves.py",
        "kernels/team.py",
        "kernels/outer.py",
        "kernels/strips.py",
    ],
    "kernels/newton.py": ["kernels/algebra.py", "kernels/elementwise.py", "kernels/machine.py", "kernels/views.py"],
    "kernels/search.py": [
        "kernels/algebra.py",
        "kernels/views.py",
        "kernels/scores.py",
        "kernels/newton.py",
        "kernels/products.py",
    ],
    "kernels/partition.py": ["kernels/elementwise.py", "kernels/views.py"],
    "kernels/shapes.py": ["kernels/elementwise.py", "kernels/machine.py", "kernels/partition.py"],
    "kernels/scales.py": ["kernels/elementwise.py", "kernels/partition.py", "kernels/shapes.py"],
}
PATTERN = re.compile(r'^INLINED_DIGEST = "(\w*)"$', re.MULTILINE)


def digest(names: list[str]) -> str:
    """Short digest of the contents of some modules."""
    content = b"".join((PACKAGE / name).read_bytes() for name in names)
    return hashlib.sha256(content).hexdigest()[:16]


def stale() -> list[str]:
    """Modules whose digest is missing or out of date."""
    found = {name: PATTERN.search((PACKAGE / name).read_text()) for name in INLINED}
    return [name for name, match in found.items() if match is None or match.group(1) != digest(INLINED[name])]


def main() -> None:
    """Bring every digest up to date."""
    for name, inlined in INLINED.items():
        path = PACKAGE / name
        path.write_text(PATTERN.sub(f'INLINED_DIGEST = "{digest(inlined)}"', path.read_text()))
    sys.exit(f"no digest in {stale()}" if stale() else 0)


if __name__ == "__main__":
    main()

"""``python -m benchmarks.big``: fit files larger than memory under a hard limit, next to merely reading them."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from benchmarks.big.data import samples_in, write_patches
from benchmarks.big.measure import measure, say
from benchmarks.big.page import render
from benchmarks.common import ROOT, write_section


def main() -> None:
    """Make, read and fit the files asked for; sizes measured before stay on the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.big", description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=float, default=None, metavar="GB", help="default 1 10 16")
    parser.add_argument("--quick", action="store_true", help="small files, to try the command")
    parser.add_argument("--images", type=Path, help="images: .npz or a folder; scikit-learn's and -image's if none")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "big", help="where the files go")
    parser.add_argument("--memory-limit", default="1GB")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds a fit")
    parser.add_argument("--make", action="store_true", help="only write the files, and keep them")
    parser.add_argument("--keep", action="store_true", help="do not remove the files in the end")
    parser.add_argument("--render", action="store_true", help="only print and write what is stored")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "big")
    asked = parser.parse_args()
    stored = asked.results / ("quick.json" if asked.quick else "full.json")
    found = json.loads(stored.read_text()) if stored.exists() else {}
    sizes = asked.sizes or ([0.02, 0.08] if asked.quick else [1.0, 10.0, 16.0])
    for size in () if asked.render else sizes:
        path = asked.folder / f"patches-{size:g}GB.npy"
        if not path.exists():
            make_room(asked.folder, size)
            write_patches(path, samples_in(size), asked.images)
            say(f"{path}: written")
        if asked.make:
            continue
        found[f"{size:g}"] = measure(path, memory_limit=asked.memory_limit, timeout=asked.timeout)
        asked.results.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps(found))
        if not asked.keep:
            path.unlink()
    if asked.make or not found:
        return
    command = "python -m benchmarks.big" + (" --quick" if asked.quick else "")
    text = render(found, command + (" --images PATH" if asked.images else ""))
    print(text)
    if not asked.quick:
        write_section("big", text)


def make_room(folder: Path, gigabytes: float) -> None:
    """Stop here rather than fill the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free / 1e9
    if free < gigabytes + 2:
        raise SystemExit(f"{folder}: {free:.0f} GB are free, {gigabytes + 2:.0f} are needed; pass --folder or --sizes")


if __name__ == "__main__":
    main()

"""Every Python block of the README and of the documentation runs, in order, as one script a page.

A block that cannot run here (it needs a cluster, a device, hours) is marked by
a comment on the line before it: ``<!-- not run: why -->``.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"(?P<mark><!-- not run: .+? -->\n)?```python[^\n]*\n(?P<code>.*?)```", re.DOTALL)


def blocks_of(page):
    """The code of each block that runs, with the line it starts on."""
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        if not block["mark"]:
            yield text.count("\n", 0, block.start("code")), block["code"]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """The data files that pages open."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(3000, 8)) @ rng.normal(size=(8, 8)) + 1
    np.save(folder / "data.npy", X)
    np.save(folder / "recording.npy", X.T)
    mne = pytest.importorskip("mne")
    info = mne.create_info(["Fp1", "Fp2", "C3", "C4", "Cz", "O1", "O2", "Pz"], 100.0, "eeg").set_montage("biosemi16")
    raw = mne.io.RawArray(1e-5 * X.T, info, verbose="ERROR")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw.save(folder / "eeg_raw.fif", verbose="ERROR")
        raw.save(folder / "recording.fif", verbose="ERROR")
        mne.export.export_raw(folder / "eeg.set", raw, verbose="ERROR")
    return folder


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks_of(page))], ids=lambda page: page.stem)
def test_page_runs(page, prepared, tmp_path, monkeypatch):
    lines = []
    for line, code in blocks_of(page):
        lines += [""] * (line - len(lines)) + code.splitlines()  # errors then show the page's own line numbers
    script = tmp_path / f"{page.stem}.py"
    script.write_text("\n".join(lines), encoding="utf-8")
    for file in prepared.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        runpy.run_path(str(script), run_name=f"page_{page.stem.replace('-', '_')}")


def test_marks_say_why_and_are_few():
    marks = [m for page in PAGES for m in re.findall(r"<!-- not run: (.*?) -->", page.read_text(encoding="utf-8"))]
    assert all(len(mark) > 5 for mark in marks)


def test_links_and_images_exist():
    """Images and files that pages link to are there; links between pages are left to the site's build."""
    missing = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not target.endswith(".md") and not (page.parent / target).exists():
                missing.append(f"{page.name}: {target}")
    assert missing == []


@pytest.mark.slow
def test_site_is_whole(tmp_path):
    """The site builds without a warning: no broken link, no page outside the contents, no docstring that misrenders."""
    for package in ("sphinx", "furo", "myst_parser", "latex2mathml"):
        pytest.importorskip(package)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    page = (tmp_path / "how-it-works.html").read_text(encoding="utf-8")
    assert "<math" in page
    assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', page), "pages fetch nothing"

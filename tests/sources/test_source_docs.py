"""The page on sources says what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from majorica.errors import MissingDependencyError
from majorica.sources import FORMATS, Source, as_source, check_source

PAGE = (Path(__file__).parents[2] / "docs" / "sources.md").read_text(encoding="utf-8")


def test_write_your_own_source_in_ten_lines():
    code = re.search(r"## Write your own source.*?```python\n(.*?)```", PAGE, re.DOTALL)[1]
    definition = code.partition("class ")[2].partition("\n\n\n")[0]
    assert len([line for line in definition.splitlines() if line.strip()]) <= 10
    names = {}
    exec(code, names)
    source = names["source"]
    assert isinstance(source, Source)
    check_source(source)
    assert as_source(source) is source


def test_every_format_is_in_the_table():
    assert [suffix for suffix in FORMATS if f"`{suffix}`" not in PAGE] == []


def test_import_is_light():
    """Optional libraries are imported when one of their files is opened, not before."""
    code = "import sys, majorica.sources; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"h5py", "zarr", "pyarrow", "pandas", "mne", "dask", "xarray", "scipy", "sklearn", "numba"}
    assert heavy.isdisjoint(loaded)


@pytest.mark.parametrize(
    ("suffix", "package", "extra"),
    [(".h5", "h5py", "io"), (".parquet", "pyarrow", "io"), (".fif", "mne", "mne")],
)
def test_missing_package_names_its_extra(suffix, package, extra, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / f"x{suffix}").write_bytes(b"1234")
    with pytest.raises(MissingDependencyError, match=rf"majorica\[{extra}\]"):
        as_source(tmp_path / f"x{suffix}")


def test_missing_zarr_names_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    (tmp_path / "x.zarr").mkdir()
    with pytest.raises(MissingDependencyError, match=r"majorica\[io\]"):
        as_source(tmp_path / "x.zarr")
    assert as_source(np.ones((3, 2))).n_samples == 3, "arrays need nothing"

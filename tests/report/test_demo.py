"""The demo, on fewer patches."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from majorica import demo
from majorica.errors import MissingDependencyError


def test_patches():
    X = demo.patches(2000)
    assert X.shape == (2000, 100)
    assert X.dtype == np.float32
    np.testing.assert_allclose(X.mean(axis=1), 0, atol=1e-5)
    np.testing.assert_array_equal(X, demo.patches(2000))


def test_writes_picture_and_page(tmp_path):
    result = demo.run_demo(str(tmp_path / "d.png"), str(tmp_path / "d.html"), n=6000)
    assert result["n_components"] == 64
    assert (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "d.html").read_text(encoding="utf-8")
    assert page.count("<image") == 128
    assert len(page) < 3_000_000


def test_says_which_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'majorica\[plot\]'"):
        demo.run_demo(str(tmp_path / "d.png"), str(tmp_path / "d.html"))
    assert not list(tmp_path.iterdir())

"""Messages know features by their names where there are any: short, on one line, and never too many."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from majorica import ICA
from majorica.errors import DataError, FlatWarning, OutlierWarning, RankWarning
from majorica.sources import as_source
from majorica.sources.names import LONGEST, MOST, feature_label, quoted, some_of
from majorica.streaming import farthest_feature

NAMES = ["Fz", "Cz", "Pz", "Oz"]
NASTY = ["a\nb", "\x1b[31mred\x07", "x" * 1_000_000, "\u202eabc"]


def frame(X: np.ndarray, names: list[str] = NAMES) -> pd.DataFrame:
    return pd.DataFrame(X, columns=names)


def mixture(n: int = 14_000, p: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.laplace(size=(n, p)) @ rng.normal(size=(p, p))


def test_a_stream_of_frames_that_goes_flat_names_its_columns() -> None:
    X = mixture()
    X[12_000:, [1, 3]] = 0.0
    ica = ICA(random_state=0).partial_fit(frame(X[:12_000]))
    with pytest.warns(FlatWarning, match="no variance along features Cz, Oz "):
        ica.partial_fit(frame(X[12_000:]))


@pytest.mark.parametrize("kind", ["raw", "csv", "xarray"])
def test_an_online_fit_names_the_channels_that_went_flat(kind: str, tmp_path) -> None:
    X = mixture()
    X[12_000:, 2] = 0.0
    if kind == "raw":
        mne = pytest.importorskip("mne")
        data = mne.io.RawArray(1e-5 * X.T, mne.create_info(NAMES, 100.0, "eeg"), verbose="ERROR")
    elif kind == "csv":
        data = tmp_path / "x.csv"
        frame(X).to_csv(data, index=False)
    else:
        data = pytest.importorskip("xarray").DataArray(X, dims=["s", "f"], coords={"f": NAMES})
    with pytest.warns(FlatWarning, match="no variance along feature Pz "):
        ICA(solver="online", random_state=0).fit(data)


@pytest.mark.parametrize("at", [500, 12_500])
@pytest.mark.parametrize("names", [NAMES, None])
def test_the_feature_a_sample_is_far_out_in_is_named(at: int, names: list[str] | None) -> None:
    X = mixture()
    X[at, 2] = 1e7
    wanted = "Pz" if names else "2"
    given = frame(X) if names else X
    with pytest.warns(OutlierWarning, match=f"as far out as any may, farthest in feature {wanted}; such samples"):
        ICA(solver="online", random_state=0).fit(given)
    ica = ICA(random_state=0)
    with pytest.warns(OutlierWarning, match=f"farthest in feature {wanted};"):
        ica.partial_fit(given[:2_000]).partial_fit(given[2_000:])


def test_a_loaded_model_goes_on_naming(tmp_path) -> None:
    X = mixture()
    ICA(random_state=0).partial_fit(frame(X[:12_000])).save(tmp_path / "m.npz")
    X[12_000:, 0] = 1.0
    with pytest.warns(FlatWarning, match="along feature Fz "):
        ICA.load(tmp_path / "m.npz").partial_fit(frame(X[12_000:]))


def test_what_the_start_of_a_stream_finds_is_named() -> None:
    X = mixture(3_000)
    X[:, 1] = 5.0
    with pytest.warns(RankWarning, match=r"constant feature\(s\) Cz\)"):
        ICA(solver="online", random_state=0).fit(frame(X))
    X[7, 3] = np.nan
    for ica in (ICA(), ICA(random_state=0).partial_fit(frame(mixture(200)))):
        with pytest.raises(DataError, match="sample 7 of this block, feature Oz; the block was not used"):
            ica.partial_fit(frame(X))


@pytest.mark.parametrize("solver", ["online", "progressive"])
def test_names_that_hold_anything_stay_short_and_on_one_line(solver: str) -> None:
    X = mixture(12_000)
    X[500] *= 1e7
    with pytest.warns(OutlierWarning) as caught:
        ICA(solver=solver, random_state=0).fit(frame(X, NASTY))
    for each in caught:
        said = str(each.message)
        assert said.isprintable()
        assert len(said) < 400


def test_a_file_with_nan_names_the_column(tmp_path) -> None:
    X = mixture(300)
    X[31, 2] = np.nan
    frame(X).to_csv(tmp_path / "x.csv", index=False, na_rep="nan")
    with pytest.raises(DataError, match="sample 31, feature Pz;"):
        ICA().fit(tmp_path / "x.csv")


def test_of_many_flat_features_a_few_are_named() -> None:
    p = 3 * MOST
    X = mixture(16_000, p)
    X[12_000:] = 0.0
    names = [f"channel {j}" for j in range(p)]
    with pytest.warns(FlatWarning, match=rf"features 'channel 0', .*'channel {MOST - 1}' and {p - MOST} more \("):
        ICA(random_state=0).partial_fit(frame(X[:12_000], names)).partial_fit(frame(X[12_000:], names))


def test_a_name_more_or_less_is_told_in_few_words() -> None:
    X = mixture(300)
    ica = ICA(random_state=0).fit(as_source(frame(X, NASTY)))
    with pytest.raises(DataError) as caught:
        ica.transform(as_source(frame(X, [*NASTY[:3], "\x00" * 500])))
    assert re.search(r"differs: '(\\x00)+\.\.\.' unknown, '\\u202eabc' missing", str(caught.value))
    assert str(caught.value).isprintable()


# ---------------------------------------------------------------------------- parts


@given(st.text(st.characters(), max_size=80))
def test_any_name_is_quoted_on_one_short_line(name: str) -> None:
    shown = quoted(name)
    assert shown.isprintable()
    assert len(shown) <= LONGEST + 5
    if name.isprintable() and len(name) <= LONGEST and not set("'\"\\") & set(name):
        assert shown == f"'{name}'"


def test_labels_and_lists() -> None:
    assert feature_label(None, 3) == "3"
    assert feature_label(["a", "b"], 2) == "2"
    for plain in ("b", "Fp1", "EEG001", "A1-A2", "x.y_z", "Øz"):
        assert feature_label(["a", plain], 1) == plain
    for other in ("MEG 0113", "", "1", "--", "a, b", "a'", "\u202eabc", "x" * 31):
        assert feature_label(["a", other], 1) == quoted(other)
    assert some_of(["a", "b"], 2) == "a, b"
    assert some_of(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_the_farthest_value_in_units_of_each_feature() -> None:
    X = np.array([[1.0, 50.0, 0.0], [-3.0, -60.0, 1e9]])
    assert farthest_feature(X, np.zeros(3), np.array([1.0, 100.0, 0.0])) == 0
    assert farthest_feature(X, np.zeros(3), np.array([1.0, 10.0, 1.0])) == 2

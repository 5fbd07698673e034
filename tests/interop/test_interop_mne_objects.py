"""MNE's own ICA objects: same sources, exact way back, plots, files and labels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

mne = pytest.importorskip("mne")

from interop_recordings import NAMES, make_eeg, make_meeg  # noqa: E402

import majorica  # noqa: E402
from majorica.errors import DataError, ParameterError  # noqa: E402
from majorica.interop import mne as interop  # noqa: E402
from majorica.interop.matrices import ica_from_matrices, symmetrising_scale  # noqa: E402
from majorica.sources import as_source  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:the data has rank")


def agree(ica, raw):
    """Same sources as MNE computes, and the same data back, to 1e-10; also after saving."""
    theirs = interop.to_mne(ica, raw.info)
    sources = ica.transform(as_source(raw, picks=list(ica.feature_names_in_)))
    np.testing.assert_allclose(theirs.get_sources(raw).get_data().T, sources, atol=1e-10)
    data = raw.get_data()
    back = theirs.apply(raw.copy().load_data(verbose="ERROR"), verbose="ERROR").get_data()
    assert (np.abs(back - data).max(axis=1) <= 1e-10 * np.abs(data).max(axis=1)).all()
    return theirs, sources


def write(raw, folder, suffix):
    path = folder / f"x_raw{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if suffix == ".fif":
            raw.save(path, verbose="ERROR")
        else:
            mne.export.export_raw(path, raw, verbose="ERROR")
    return mne.io.read_raw(path, verbose="ERROR")


@pytest.mark.parametrize("n_components", [None, 5])
@pytest.mark.parametrize("reference", ["average", None])
@pytest.mark.parametrize("suffix", [".fif", ".edf", ".vhdr", ".set"])
def test_round_trip_of_files(suffix, reference, n_components, tmp_path):
    raw = write(make_eeg(), tmp_path, suffix)
    if reference:
        raw.load_data(verbose="ERROR").set_eeg_reference("average", verbose="ERROR")
    ica = interop.fit_raw(raw, n_components, random_state=0)
    assert ica.rank_ == (7 if reference else 8)
    theirs, sources = agree(ica, raw)
    theirs.exclude = [1]
    theirs.save(tmp_path / "x-ica.fif", verbose="ERROR")
    again = mne.preprocessing.read_ica(tmp_path / "x-ica.fif", verbose="ERROR")
    np.testing.assert_allclose(again.get_sources(raw).get_data().T, sources, atol=1e-10)
    assert again.exclude == [1]
    assert (again.method, again.fit_params["extended"]) == ("infomax", True)
    loaded = raw.copy().load_data(verbose="ERROR")
    cleaned = again.apply(loaded.copy(), verbose="ERROR").get_data()
    removed = np.outer(ica.mixing_[:, 1], sources[:, 1])
    np.testing.assert_allclose(cleaned, loaded.get_data() - removed, atol=1e-10 * np.abs(removed).max())
    imported = interop.from_mne(again)
    np.testing.assert_allclose(imported.transform(raw), sources, atol=1e-10)


@pytest.mark.parametrize("whiten", ["unit-variance", "arbitrary-variance"])
@pytest.mark.parametrize("n_components", [None, 4])
def test_any_ica_of_the_recording(n_components, whiten):
    """Also fits that did not go through fit_raw: scales per channel, both whitenings."""
    raw = make_eeg().set_eeg_reference("average", verbose="ERROR")
    theirs, sources = agree(majorica.ICA(n_components, whiten=whiten, random_state=0).fit(raw), raw)
    variance = (theirs.pca_components_[: sources.shape[1]] @ (raw.get_data() / theirs.pre_whitener_)).var(axis=1)
    np.testing.assert_allclose(variance, theirs.pca_explained_variance_[: len(variance)], rtol=1e-6)
    unnamed = majorica.ICA(n_components, whiten=whiten, random_state=0).fit(raw.get_data().T)
    np.testing.assert_allclose(interop.to_mne(unnamed, raw).get_sources(raw).get_data().T, sources, atol=1e-8)


@pytest.mark.parametrize("n_components", [None, 7])
def test_mixed_channel_types(n_components):
    raw = make_meeg()
    agree(interop.fit_raw(raw, n_components, random_state=0), raw)


def test_projection_over_channels_that_were_not_picked():
    raw = make_eeg()
    raw.set_eeg_reference("average", projection=True, verbose="ERROR").apply_proj(verbose="ERROR")
    theirs, _ = agree(interop.fit_raw(raw, picks=NAMES[:5], random_state=0), raw)
    assert theirs.info["projs"] == []
    assert len(raw.info["projs"]) == 1, "the recording keeps its own"


def test_from_mne_fit_by_mne():
    """Their fit, with projections, in our object: same sources, mixing and clean data."""
    raw = make_eeg()
    raw.set_eeg_reference("average", projection=True, verbose="ERROR").apply_proj(verbose="ERROR")
    theirs = mne.preprocessing.ICA(5, method="fastica", random_state=0, max_iter=1000).fit(raw, verbose="ERROR")
    ours = interop.from_mne(theirs)
    np.testing.assert_allclose(ours.transform(raw), theirs.get_sources(raw).get_data().T, atol=1e-10)
    maps = theirs.get_components() * theirs.pre_whitener_
    np.testing.assert_allclose(ours.mixing_, maps, rtol=1e-10)
    assert list(ours.feature_names_in_) == NAMES
    assert "MNE" in ours.stop_reason_
    assert np.isfinite(ours.score(raw))
    both = interop.to_mne(ours, raw.info)
    np.testing.assert_allclose(both.get_sources(raw).get_data(), theirs.get_sources(raw).get_data(), atol=1e-10)
    with pytest.raises(ParameterError, match="not a fitted ICA"):
        interop.from_mne(mne.preprocessing.ICA())


def test_plots_and_repr():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    raw = make_eeg()
    theirs = interop.to_mne(interop.fit_raw(raw, 4, random_state=0), raw.info)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.plot_components(show=False)
        theirs.plot_sources(raw, show=False, show_scrollbars=False)
        theirs.plot_overlay(raw, exclude=[0], show=False)
        plt.close("all")
    assert "infomax" in repr(theirs)
    assert theirs.get_explained_variance_ratio(raw)["eeg"] > 0.5
    assert theirs.copy().n_components_ == 4


def test_icalabel_takes_it_without_a_warning_about_the_method():
    features = pytest.importorskip("mne_icalabel.iclabel.features")
    raw = make_eeg()
    raw.set_eeg_reference("average", verbose="ERROR")
    with raw.info._unlock():
        raw.info["lowpass"] = 45.0
    ica = interop.fit_raw(raw, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        features.get_iclabel_features(raw, interop.to_mne(ica, raw.info))
    assert not [w for w in caught if "algorithm" in str(w.message)]
    fixed = interop.to_mne(interop.fit_raw(raw, density="huber", random_state=0), raw.info)
    assert fixed.fit_params["extended"] is False


def test_wrong_channels_are_named():
    raw = make_eeg()
    ica = interop.fit_raw(raw, 3, random_state=0)
    with pytest.raises(DataError, match=r"lacks 1 channel\(s\) of the ICA: Fp1"):
        interop.to_mne(ica, raw.copy().drop_channels(["Fp1"]).info)
    unnamed = majorica.ICA(random_state=0).fit(raw.get_data()[:4].T)
    with pytest.raises(DataError, match="4 features without names"):
        interop.to_mne(unnamed, raw.info)
    with pytest.raises(DataError, match="do not belong together"):
        ica_from_matrices(np.eye(3), 2 * np.eye(3), np.zeros(3))


@pytest.mark.parametrize("k", [1, 3, 6])
def test_scale_makes_the_projector_symmetric(k):
    rng = np.random.default_rng(k)
    scale = 10.0 ** rng.uniform(-13, 3, 6)
    axes = np.linalg.qr(rng.standard_normal((6, k)))[0]
    inner = rng.standard_normal((k, k))
    B, M = np.linalg.inv(inner) @ axes.T / scale, scale[:, None] * axes @ inner
    found = symmetrising_scale(B, M)
    projector = (M / found[:, None]) @ (B * found)
    np.testing.assert_allclose(projector, projector.T, atol=1e-10)


def test_imported_and_reduced_models_are_saved_and_go_on(tmp_path):
    raw = make_eeg()
    reduced = interop.fit_raw(raw, 4, random_state=0)
    imported = interop.from_mne(interop.to_mne(reduced, raw.info))
    for ica in (reduced, imported):
        ica.save(tmp_path / "x.npz")
        again = majorica.ICA.load(tmp_path / "x.npz")
        np.testing.assert_array_equal(again.transform(raw), ica.transform(raw))
        np.testing.assert_allclose(
            interop.to_mne(again, raw.info).get_sources(raw).get_data().T, ica.transform(raw), atol=1e-10
        )
        del again.feature_names_in_
        again.partial_fit(as_source(raw).read(0, 2000))
        assert again.components_.shape == (4, 8)


@pytest.mark.parametrize("wrong", [4, -1, "ICA000", True, 1.0])
def test_components_to_exclude_must_be_there(wrong):
    raw = make_eeg()
    ica = interop.fit_raw(raw, 4, random_state=0)
    assert interop.to_mne(ica, raw.info, exclude=np.array([3, 0])).exclude == [3, 0]
    with pytest.raises(ParameterError, match=f"exclude names component {wrong!r}; pass numbers from 0 to 3"):
        interop.to_mne(ica, raw.info, exclude=[0, wrong])

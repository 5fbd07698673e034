"""fit_raw and fit_epochs see exactly the samples MNE's own ICA sees, without loading the recording."""

from __future__ import annotations

import sys

import numpy as np
import pytest

mne = pytest.importorskip("mne")

from interop_recordings import NAMES, SFREQ, make_eeg, make_meeg  # noqa: E402

import majorica  # noqa: E402
from majorica.errors import (  # noqa: E402
    DataError,
    DataTypeError,
    MissingDependencyError,
    ParameterError,
    RankError,
    RankWarning,
)
from majorica.interop import mne as interop  # noqa: E402
from majorica.sources import as_source, check_source  # noqa: E402


def annotated():
    raw = make_eeg()
    raw.set_annotations(mne.Annotations([1.0, 12.345, 20.0], [0.5, 3.21, 2.0], ["BAD", "bad_x", "fine"]))
    return raw


SELECTIONS = [
    {},
    {"decim": 3},
    {"start": 150, "stop": 2501},
    {"start": 1.2, "stop": 13.0, "decim": 2},
    {"reject": {"eeg": 4e-4}},
    {"reject": {"eeg": 4e-4}, "flat": {"eeg": 5e-5}, "decim": 3, "start": 77},
    {"reject": {"eeg": 4e-4}, "reject_by_annotation": False, "tstep": 0.5},
]


@pytest.mark.parametrize("options", SELECTIONS, ids=str)
def test_same_samples_as_mne(options, monkeypatch):
    """MNE's fit is run up to where it has gathered its data; the samples must be the same to the last bit."""
    raw = annotated()
    raw._data[2, 700:900] *= 8  # something to reject
    gathered = []
    monkeypatch.setattr(mne.preprocessing.ICA, "_fit", lambda self, data, kind: gathered.append(data.copy()))
    monkeypatch.setattr(mne.preprocessing.ica, "_ica_explained_variance", lambda *_: np.zeros(1))
    monkeypatch.setattr(mne.preprocessing.ica, "_sort_components", lambda *_, **__: None)
    mne.preprocessing.ICA().fit(raw, picks="eeg", verbose="ERROR", **options)
    source = interop.raw_source(raw, **options)
    check_source(source)
    np.testing.assert_array_equal(source.read(0, source.n_samples), gathered[0].T)
    middle = source.n_samples // 2
    np.testing.assert_array_equal(source.read(middle - 7, middle + 90), gathered[0].T[middle - 7 : middle + 90])
    if "reject" in options:
        assert 0 < source.n_samples < 3000 // options.get("decim", 1)


def test_bad_channels_are_not_judged_and_picks_are_honoured():
    raw = make_eeg(extra=["eog"])
    raw._data[3] *= 100
    raw.info["bads"] = [NAMES[3]]
    everything = interop.raw_source(raw, reject={"eeg": 1e-3})
    assert NAMES[3] not in everything.feature_names
    picked = interop.raw_source(raw, picks=[NAMES[3], NAMES[0]], reject={"eeg": 1e-3})
    assert picked.n_samples == everything.n_samples == 3000
    raw.info["bads"] = []
    with pytest.raises(DataError, match="no tile of 200 samples"):
        interop.raw_source(raw, reject={"eeg": 1e-3})
    ica = interop.fit_raw(raw, picks=["eog0", *NAMES[:3]], random_state=0)
    assert list(ica.feature_names_in_) == ["eog0", *NAMES[:3]]


def test_nothing_is_loaded(tmp_path):
    make_eeg().save(tmp_path / "x_raw.fif", verbose="ERROR")
    raw = mne.io.read_raw_fif(tmp_path / "x_raw.fif", verbose="ERROR")
    ica = interop.fit_raw(raw, decim=2, random_state=0, reject={"eeg": 1.0})
    assert not raw.preload
    assert ica.n_samples_seen_ == 1500
    whole = interop.fit_raw(raw.copy().load_data(verbose="ERROR"), decim=2, random_state=0)
    np.testing.assert_array_equal(ica.components_, whole.components_)


def test_projections_and_reference_lower_the_rank():
    raw = make_eeg()
    raw.set_eeg_reference("average", projection=True, verbose="ERROR")
    assert interop.fit_raw(raw, random_state=0).n_components_ == 8, "not applied: ignored, as in MNE"
    raw.apply_proj(verbose="ERROR")
    with pytest.warns(RankWarning, match="rank 7 in 8"):
        ica = interop.fit_raw(raw, random_state=0)
    assert (ica.n_components_, ica.rank_) == (7, 7)
    with pytest.raises(RankError, match="exceeds the data's rank 7"):
        interop.fit_raw(raw, 8)


@pytest.mark.parametrize("n_components", [6, 0.9])
def test_reduction_scales_channels_per_type(n_components):
    """The principal components kept are those MNE keeps, in spite of units 1e8 apart."""
    raw = make_meeg()
    ica = interop.fit_raw(raw, n_components, random_state=0)
    theirs = mne.preprocessing.ICA(n_components, max_iter=1000, random_state=0)
    theirs.fit(raw, picks=["mag", "grad", "eeg"], verbose="ERROR")
    k = theirs.n_components_
    assert (ica.n_components_, ica.rank_) == (k, 12)
    ours = interop.to_mne(ica, raw.info)
    ratio = ours.pre_whitener_ / theirs.pre_whitener_
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-9)
    spans = ours.pca_components_[:k] @ theirs.pca_components_[:k].T
    np.testing.assert_allclose(np.linalg.svd(spans)[1], 1, atol=1e-9)


def test_epochs(tmp_path):
    raw = make_eeg()
    raw._data[2, 700:900] *= 50
    raw.save(tmp_path / "x_raw.fif", verbose="ERROR")
    raw = mne.io.read_raw_fif(tmp_path / "x_raw.fif", verbose="ERROR")
    events = mne.make_fixed_length_events(raw, duration=1.0)
    epochs = mne.Epochs(raw, events, tmin=0, tmax=0.99, baseline=None, reject={"eeg": 2e-3}, verbose="ERROR")
    ica = interop.fit_epochs(epochs, decim=2, random_state=0)
    assert not epochs.preload
    kept = epochs.copy().load_data().get_data()[:, :, ::2]
    assert len(kept) < len(events)
    assert ica.n_samples_seen_ == kept.shape[0] * 50
    direct = majorica.ICA(random_state=0).fit(np.hstack(kept).T)
    np.testing.assert_allclose(
        ica.components_, direct.components_, rtol=1e-9, atol=1e-9 * np.abs(ica.components_).max()
    )
    sources = interop.to_mne(ica, epochs.info).get_sources(epochs.copy().load_data()).get_data()
    np.testing.assert_allclose(np.hstack(sources[:, :, ::2]).T, ica.transform(as_source(np.hstack(kept).T)), atol=1e-10)
    with pytest.raises(DataTypeError, match="fit_raw"):
        interop.fit_epochs(raw)


def test_the_estimator_takes_epochs_as_fit_epochs_does():
    raw = make_eeg(extra=["eog"])
    raw.info["bads"] = [NAMES[3]]
    epochs = mne.make_fixed_length_epochs(raw, 1.0, preload=False, verbose="ERROR")
    ica = majorica.ICA(random_state=0).fit(epochs)
    assert list(ica.feature_names_in_) == [name for name in NAMES if name != NAMES[3]]
    np.testing.assert_array_equal(ica.components_, interop.fit_epochs(epochs, random_state=0).components_)
    samples = np.hstack(epochs.get_data(picks=list(ica.feature_names_in_), verbose="ERROR")).T
    np.testing.assert_allclose(ica.transform(epochs), (samples - ica.mean_) @ ica.components_.T, atol=1e-9)
    assert ica.score(epochs) == pytest.approx(ica.score(as_source(samples)))


def test_reordered_and_renamed_channels_are_refused(tmp_path):
    raw = make_eeg()
    ica = majorica.ICA(n_components=5, random_state=0).fit(raw)
    wanted = ica.transform(raw)
    raw.reorder_channels(NAMES[::-1]).save(tmp_path / "x_raw.fif", verbose="ERROR")
    epochs = mne.make_fixed_length_epochs(raw, 1.0, verbose="ERROR")
    for X in (raw, tmp_path / "x_raw.fif", epochs):
        for method in (ica.transform, ica.score, ica.partial_fit):
            with pytest.raises(DataError, match=r"order differs: feature 0 is 'Pz' and was 'Fp1'"):
                method(X)
    np.testing.assert_allclose(ica.transform(as_source(raw, picks=list(ica.feature_names_in_))), wanted)
    with pytest.raises(DataError, match=r"set of names differs: 'FC3' unknown, 'C3' missing"):
        ica.transform(raw.rename_channels({"C3": "FC3"}))


def test_messages():
    raw = make_eeg()
    for options, words in [
        ({"decim": 0}, "decim=0"),
        ({"decim": 1.5}, "decim"),
        ({"reject": {"egg": 1}}, "no channel type"),
        ({"flat": {"eeg": -1}}, ">= 0"),
        ({"tstep": 0}, "tstep"),
        ({"start": "1"}, "start and stop"),
    ]:
        with pytest.raises(ParameterError, match=words):
            interop.fit_raw(raw, **options)
    with pytest.raises(DataError, match="no good samples"):
        interop.fit_raw(raw, start=200, stop=100)
    with pytest.raises(DataTypeError, match="fit_epochs"):
        interop.fit_raw(np.zeros((4, 100)))
    with pytest.raises(ParameterError, match="not fitted"):
        interop.to_mne(majorica.ICA(), raw.info)
    raw._data[0, 5] = np.nan
    with pytest.raises(DataError, match=r"NaN .* sample 5, feature Fp1"):
        interop.fit_raw(raw, 3)


def test_missing_mne_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mne", None)
    for call in (interop.fit_raw, interop.fit_epochs, interop.from_mne):
        with pytest.raises(MissingDependencyError, match=r"majorica\[mne\]"):
            call(None)
    with pytest.raises(MissingDependencyError, match=r"majorica\[mne\]"):
        interop.to_mne(None, None)


def test_time_limits_are_mne_s():
    raw = make_eeg()
    assert interop.raw_source(raw, start=1.0, stop=2.0).n_samples == SFREQ

"""A recording is the same recording in volts and in microvolts, whichever of them was fitted."""

from __future__ import annotations

import numpy as np
import pytest
from interop_datasets import NAMES, X, write_set

from majorica import ICA, Report
from majorica.cli.transform import write_sources
from majorica.errors import DataError, DataTypeError, ModelFileError, ParameterError, UnitWarning
from majorica.interop import eeglab
from majorica.sources import as_source, check_source
from majorica.sources.units import factor, in_unit

mne = pytest.importorskip("mne")

from majorica.interop.mne import fit_epochs, fit_raw, from_mne, raw_source, to_mne  # noqa: E402


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """One recording as a dataset, as a FIF file and as a Raw object."""
    folder = tmp_path_factory.mktemp("recording")
    path = write_set(folder, X)
    raw = mne.io.read_raw_eeglab(path, preload=True, verbose="ERROR")
    raw.save(folder / "x_raw.fif", fmt="double", verbose="ERROR")
    return path, folder / "x_raw.fif", raw


@pytest.fixture(scope="module")
def models(both):
    path, fif, _ = both
    return ICA(random_state=0).fit(path), ICA(random_state=0).fit(fif)


def close(a, b, tolerance=1e-7):  # a FIF file keeps its factors in float32
    assert np.abs(a - b).max() < tolerance * np.abs(b).max()


def test_sources_and_models_know_their_unit(both, models, tmp_path):
    path, fif, raw = both
    epochs = mne.make_fixed_length_epochs(raw, 1.0, verbose="ERROR")
    assert as_source(path).unit == "uV"
    for recording in (fif, raw, epochs):
        assert as_source(recording).unit == "V"
    assert raw_source(raw, decim=2).unit == "V"
    assert as_source(X).unit is None
    assert [ica.unit_ for ica in models] == ["uV", "V"]
    assert fit_raw(raw, 3, random_state=0).unit_ == fit_epochs(epochs, random_state=0).unit_ == "V"
    for ica in models:
        ica.save(tmp_path / "model.npz")
        assert ICA.load(tmp_path / "model.npz").unit_ == ica.unit_
    ica = ICA(random_state=0).fit(path)
    assert not hasattr(ica.fit(X), "unit_")
    ica.unit_ = 5
    ica.save(tmp_path / "odd.npz")
    with pytest.raises(ModelFileError, match="unit"):
        ICA.load(tmp_path / "odd.npz")


def test_the_estimator_converts(both, models):
    path, fif, raw = both
    for ica, own in zip(models, (path, fif), strict=True):
        expected, score = ica.transform(own), ica.score(own)
        for other in (path, fif, raw):
            close(ica.transform(other), expected)
            assert ica.score(other) == pytest.approx(score, rel=1e-7)


def test_streams_of_both_are_one_stream(both):
    path, fif, _ = both
    own = ICA(random_state=0).partial_fit(path).partial_fit(path)
    other = ICA(random_state=0).partial_fit(path).partial_fit(fif)
    assert other.unit_ == "uV"
    close(other.components_, own.components_, 1e-6)
    close(other.mixing_, own.mixing_, 1e-6)


def test_lists_of_both_are_one_recording(both):
    path, fif, _ = both
    joined = as_source([path, fif])
    check_source(joined)
    assert joined.unit == "uV"
    close(joined.read(1500, 4000), as_source([path, path]).read(1500, 4000))
    assert as_source([fif, path]).unit == "V"
    mixed = as_source([as_source(fif).read(0, 10), as_source(as_source(path).read(0, 10))])
    assert mixed.unit is None


def test_merged_models_have_the_unit_of_the_first(both, models):
    microvolts, volts = models
    merged = ICA.merge([microvolts, volts])
    assert merged.unit_ == "uV"
    close(merged.mixing_, ICA.merge([microvolts, microvolts]).mixing_, 1e-6)
    close(merged.transform(both[1]), microvolts.transform(both[0]), 1e-2)


def test_reports_and_the_program_convert(both, models, tmp_path):
    path, fif, _ = both
    for ica, own in zip(models, (path, fif), strict=True):
        expected = Report(ica, own)
        for other in (path, fif):
            report = Report(ica, other)
            np.testing.assert_allclose(report.measures.explained, expected.measures.explained, rtol=1e-6)
            np.testing.assert_allclose(report.measures.largest, expected.measures.largest, rtol=1e-6)
            with open(tmp_path / "sources.npy", "wb") as file:
                write_sources(ica, as_source(other), file, lambda samples: None)
            close(np.load(tmp_path / "sources.npy"), ica.transform(own))


def test_mne_gets_volts(both, models):
    _, _, raw = both
    for ica in models:
        theirs = to_mne(ica, raw.info)
        close(theirs.get_sources(raw).get_data().T, ica.transform(raw))
        back = theirs.apply(raw.copy(), exclude=[], verbose="ERROR").get_data()
        close(back, raw.get_data())
        cleaned = theirs.apply(raw.copy(), exclude=[0], verbose="ERROR").get_data()
        assert np.abs(cleaned).max() < 2 * np.abs(raw.get_data()).max()
        imported = from_mne(theirs)
        assert imported.unit_ == "V"
        close(imported.transform(both[0]), ica.transform(raw))


def test_a_model_of_numbers_warns_of_recordings_in_a_unit_they_hardly_had(both, models, tmp_path):
    """Sources were off by a million, silently."""
    path, _, raw = both
    expected = models[0].transform(path)
    microvolts, volts = ICA(random_state=0).fit(X), ICA(random_state=0).fit(1e-6 * X)
    for ica, wrong, right, unit in ((microvolts, raw, path, "uV"), (volts, path, raw, "V")):
        close(ica.transform(right), expected, 1e-5)  # no warning
        for use in (ica.transform, ica.score, lambda given, ica=ica: Report(ica, given)):
            with pytest.warns(UnitWarning, match=rf"takes as they are; .* set ica\.unit_ = '{unit}' if") as told:
                use(wrong)
            assert told[0].filename == __file__
        ica.unit_ = unit
        ica.save(tmp_path / "model.npz")
        close(ICA.load(tmp_path / "model.npz").transform(wrong), expected, 1e-5)


def test_mne_is_told_the_unit_of_arrays(both, models):
    raw, expected = both[2], models[0].transform(both[0])
    unknown = ICA(random_state=0).fit(X)  # microvolts
    with pytest.warns(UnitWarning, match=r"taken as volts, but half of the channels deviate by .* units='uV'") as told:
        to_mne(unknown, raw.info)
    assert told[0].filename == __file__
    close(to_mne(unknown, raw.info, units="uV").get_sources(raw).get_data().T, expected)
    assert not hasattr(unknown, "unit_")
    volts = ICA(random_state=0).fit(1e-6 * X)
    for units in (None, "V"):  # no warning
        close(to_mne(volts, raw.info, units=units).get_sources(raw).get_data().T, expected, 1e-5)
    magnetic = mne.create_info(NAMES, 100.0, "mag")
    to_mne(unknown, magnetic)
    to_mne(models[1], raw.info, units="V")
    with pytest.raises(ParameterError, match="fitted on samples in V; leave units out"):
        to_mne(models[1], raw.info, units="uV")
    with pytest.raises(ParameterError, match="units='mV' must be 'uV' or 'V'"):
        to_mne(unknown, raw.info, units="mV")


def test_eeglab_gets_microvolts(both, models, tmp_path):
    path, fif, raw = both
    stored = []
    for number, ica in enumerate(models):
        target = tmp_path / f"{number}.set"
        eeglab.write_ica(path, ica, target)
        again = eeglab.read_ica(target)
        assert again.unit_ == "uV"
        for recording in (path, fif):
            close(again.transform(recording), ica.transform(raw) + ica.components_ @ ica.mean_)
        stored.append(again.mixing_)
    close(np.abs(stored[1]), np.abs(stored[0]), 1e-2)
    close(to_mne(again, raw.info).get_sources(raw).get_data().T, again.transform(fif))


def test_eeglab_is_not_left_to_guess(both, models, tmp_path):
    path = both[0]
    unknown = ICA(random_state=0).fit(X)
    with pytest.raises(ParameterError, match="does not know the unit"):
        eeglab.write_ica(path, unknown, tmp_path / "y.set")
    with pytest.raises(ParameterError, match="fitted on samples in V"):
        eeglab.write_ica(path, models[1], tmp_path / "y.set", units="uV")
    assert not (tmp_path / "y.set").exists()
    eeglab.write_ica(path, unknown, tmp_path / "y.set", units="uV")
    close(eeglab.read_ica(tmp_path / "y.set").mixing_, unknown.mixing_)
    assert not hasattr(unknown, "unit_")


def test_what_has_no_unit_stays_as_it_is(both, models):
    path, fif, _ = both
    unknown = ICA(random_state=0).fit(X)
    microvolts = models[0]
    close(unknown.transform(as_source(path)), unknown.transform(X))
    with pytest.warns(UnitWarning, match="takes as they are"):
        taken = unknown.transform(as_source(fif))
    close(taken - unknown.transform(np.zeros((1, 5))), 1e-6 * (X @ unknown.components_.T))
    close(microvolts.transform(as_source(X)), microvolts.transform(path))
    assert microvolts.feature_names_in_.tolist() == NAMES


def test_messages(both):
    assert factor("mV", "uV") == 1000.0
    with pytest.raises(DataError, match="samples in T cannot be turned into uV"):
        factor("T", "uV")

    class Live:
        n_samples, n_features, dtype, feature_names, unit = None, 5, np.dtype(float), None, "V"

        def __iter__(self):
            yield X

    with pytest.raises(DataTypeError, match="a stream in V is not converted to uV"):
        in_unit(Live(), "uV")
    assert in_unit(Live(), None).unit == "V"

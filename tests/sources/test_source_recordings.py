"""Recordings: MNE objects and files, EEGLAB datasets."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import source_containers as containers

from majorica.errors import DataError, ParameterError, SourceError
from majorica.sources import as_source, check_source

mne = pytest.importorskip("mne")
X = np.random.default_rng(0).standard_normal((1000, 4))
SFREQ = 100.0
#: In EEGLAB's coordinates: to the nose, to the left ear, up.
PLACES = [(0.9, 0.1, 0.3), (0.1, -0.8, 0.5), (0.2, 0.1, 0.7), (-0.7, 0.2, 0.6)]


def make_raw(first_samp=0, types="eeg"):
    info = mne.create_info([f"c{j}" for j in range(4)], SFREQ, types)
    return mne.io.RawArray(1e-5 * X.T, info, first_samp=first_samp, verbose="ERROR")


def annotate(raw, dated):
    if dated:
        raw.set_meas_date(1_000_000)
    raw.set_annotations(
        mne.Annotations(
            [0.5, 2.0, 2.2, 5.0, 6.0, 8.0, 9.7],
            [0.3, 0.5, 0.1, 0.0, 0.513, 1.0, 9.0],
            ["BAD_a", "bad b", "BAD", "BAD_zero", "BAD", "good", "BAD_end"],
        ),
        verbose="ERROR",
        emit_warning=False,
    )
    return raw


@pytest.mark.parametrize("first_samp", [0, 250])
@pytest.mark.parametrize("dated", [False, True])
def test_bad_annotations_are_left_out(first_samp, dated):
    raw = annotate(make_raw(first_samp), dated)
    expected = raw.get_data(reject_by_annotation="omit", verbose="ERROR").T
    source = as_source(raw)
    assert 0 < source.n_samples < 1000
    check_source(source)
    for start, stop in [(0, len(expected)), (40, 60), (49, 51), (100, 700), (len(expected) - 1, len(expected))]:
        np.testing.assert_array_equal(source.read(start, stop), expected[start:stop])


def test_all_bad():
    raw = make_raw()
    raw.set_annotations(mne.Annotations([0], [10], ["BAD"]))
    with pytest.raises(DataError, match="annotated as BAD"):
        as_source(raw)


def test_picks():
    raw = make_raw(types=["eeg", "eog", "eeg", "stim"])
    assert as_source(raw).feature_names == ("c0", "c2")
    raw.info["bads"] = ["c0"]
    assert as_source(raw).feature_names == ("c2",)
    assert as_source(raw, picks=["c3", "c0"]).feature_names == ("c3", "c0")
    assert as_source(raw, picks="eog").feature_names == ("c1",)
    np.testing.assert_array_equal(as_source(raw, picks=["c3", "c0"]).read(5, 9), 1e-5 * X[5:9, [3, 0]])
    assert raw.ch_names == ["c0", "c1", "c2", "c3"]
    with pytest.raises(ParameterError, match="nothing"):
        as_source(raw, picks=["nothing"])
    raw.rename_channels({"c0": "Fcz.", "c2": "Cz.."})
    known = r"the channels are 'Fcz\.', 'c1', 'Cz\.\.', 'c3'"
    with pytest.raises(ParameterError, match=rf"no channel or type 'cz' \(did you mean 'Cz\.\.'\?\); {known}$"):
        as_source(raw, picks=["c1", "cz"])
    with pytest.raises(ParameterError, match=r"no channel or type 'cz', 'CZ' \(did you mean 'Cz\.\.'\?\)"):
        as_source(raw, picks=["cz", "CZ"])
    with pytest.raises(DataError, match="no good data channel"):
        as_source(make_raw(types="stim"))
    with pytest.raises(ParameterError, match="samples-first"):
        as_source(raw, layout="samples-first")
    assert as_source(raw, layout="channels-first").n_features == 1


@pytest.mark.parametrize("preload", [False, True])
def test_epochs_are_their_samples_one_after_the_other(preload):
    raw = make_raw(types=["eeg", "eog", "eeg", "stim"])
    raw._data[0, 220] = 1.0
    events = mne.make_fixed_length_events(raw, duration=1.0)
    options = {"tmax": 0.49, "baseline": None, "reject": {"eeg": 1e-2}, "preload": preload, "verbose": "ERROR"}
    epochs = mne.Epochs(raw, events, tmin=0, **options)
    source = as_source(epochs)
    check_source(source)
    assert epochs.preload == preload
    assert source.feature_names == ("c0", "c2")
    kept = epochs.copy().load_data().get_data(picks=["c0", "c2"])
    assert source.n_samples == 50 * len(kept) == 450
    np.testing.assert_array_equal(source.read(0, 450), np.hstack(kept).T)
    np.testing.assert_array_equal(source.read(40, 120), np.hstack(kept).T[40:120])
    assert as_source(epochs, picks="eog").feature_names == ("c1",)
    with pytest.raises(ParameterError, match="samples-first"):
        as_source(epochs, layout="samples-first")
    with pytest.raises(DataError, match="no epochs left"):
        as_source(mne.Epochs(raw, events, tmin=0, **options | {"reject": {"eeg": 1e-9}}))


def write(folder, suffix):
    path = folder / f"x_raw{suffix}"
    raw = make_raw()
    if suffix == ".fif":
        raw.save(path, verbose="ERROR")
    else:
        mne.export.export_raw(path, raw, verbose="ERROR")
    return path


@pytest.mark.filterwarnings("ignore:Encountered data in 'double' format")
@pytest.mark.parametrize("suffix", [".fif", ".edf", ".vhdr"])
def test_files(suffix, tmp_path):
    path = write(tmp_path, suffix)
    raw = mne.io.read_raw(path, preload=True, verbose="ERROR")
    source = as_source(path)
    assert not source.raw.preload
    check_source(source)
    np.testing.assert_array_equal(source.read(100, 600), raw.get_data(start=100, stop=600).T)
    np.testing.assert_allclose(source.read(100, 600), 1e-5 * X[100:600], atol=1e-8)
    copy = pickle.loads(pickle.dumps(as_source(path, picks=["c1"])))
    assert copy.feature_names == ("c1",)
    assert not source.raw.preload
    with pytest.raises(ParameterError, match="channels-first"):
        as_source(path, layout="samples-first")


def test_truncated_edf(tmp_path):
    path = write(tmp_path, ".edf")
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(SourceError, match="truncated"):
        as_source(path)


def test_truncated_fif(tmp_path):
    path = write(tmp_path, ".fif")
    whole = path.read_bytes()
    for cut in (2001, 300, len(whole) - 10, len(whole) - 1500):
        path.write_bytes(whole[:-cut])
        with pytest.raises(SourceError, match=r"x_raw\.fif: truncated"):
            as_source(path)


def test_truncated_bdf_header(tmp_path):
    header = b"\xffBIOSEMI" + b" " * 176 + b"512     " + b" " * 44 + b"10      " + b"1       " + b"1   "
    (tmp_path / "x.bdf").write_bytes(header + b" " * 216 + b"100     " + b" " * 32 + b"\0" * 100)
    with pytest.raises(SourceError, match=r"truncated.*\(3512 bytes\)"):
        as_source(tmp_path / "x.bdf")


def test_eeglab_picks_and_layout(tmp_path):
    path, _ = containers.eeglab_fdt(X, tmp_path)
    source = as_source(path, picks=["c2", 0])
    assert source.feature_names == ("c2", "c0")
    np.testing.assert_array_equal(source.read(3, 9), X.astype(np.float32)[3:9, [2, 0]])
    for picks in (["nothing"], [7], []):
        with pytest.raises(ParameterError, match="picks"):
            as_source(path, picks=picks)
    with pytest.raises(ParameterError, match="channels-first"):
        as_source(path, layout="samples-first")


def test_eeglab_renamed_truncated_and_missing_samples(tmp_path):
    path, _ = containers.eeglab_fdt(X, tmp_path)
    renamed = tmp_path / "renamed.set"
    renamed.write_bytes(path.read_bytes())
    data = (tmp_path / "x.fdt").read_bytes()
    (tmp_path / "renamed.fdt").write_bytes(data)
    (tmp_path / "x.fdt").unlink()
    assert as_source(renamed).n_samples == 1000
    with pytest.raises(SourceError, match=r"'x\.fdt' beside it"):
        as_source(path)
    (tmp_path / "x.fdt").write_bytes(data[:-10])
    with pytest.raises(SourceError, match=r"truncated.*1000 samples of 4 channels"):
        as_source(path)


def test_eeglab_does_not_leave_its_folder(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    X.astype("<f4").tofile(tmp_path / "secret.fdt")
    path = containers._set_file(X, inside, "../secret.fdt")
    with pytest.raises(SourceError, match=r"'secret\.fdt' beside it"):
        as_source(path)


def test_eeglab_epochs_and_bare_structure(tmp_path):
    import scipy.io

    epochs = X.T.reshape(4, 250, 4, order="F")
    fields = {"nbchan": 4.0, "pnts": 250.0, "trials": 4.0, "data": epochs}
    scipy.io.savemat(tmp_path / "x.set", fields, appendmat=False)
    source = as_source(tmp_path / "x.set")
    np.testing.assert_array_equal(source.read(0, 1000), X)
    assert source.feature_names is None
    scipy.io.savemat(tmp_path / "y.set", {"other": X}, appendmat=False)
    with pytest.raises(SourceError, match="not an EEGLAB dataset"):
        as_source(tmp_path / "y.set")


def write_matlab_73(path, data, **attributes):
    """The layout MATLAB gives a structure in its HDF5 files."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        eeg = file.create_group("EEG")
        for name, value in {"nbchan": 4.0, "pnts": 250.0, "trials": 4.0}.items():
            eeg[name] = np.array([[value]])
        eeg.create_dataset("data", data=data).attrs.update(attributes)
        labels = [file.create_dataset(f"#refs#/{j}", data=np.array([[99], [48 + j]], "u2")) for j in range(4)]
        eeg["srate"] = np.array([[128.0]])
        references = eeg.create_dataset("chanlocs/labels", (4, 1), dtype=h5py.ref_dtype)
        for j, label in enumerate(labels):
            references[j, 0] = label.ref
        for axis, name in enumerate("XYZ"):
            references = eeg.create_dataset(f"chanlocs/{name}", (4, 1), dtype=h5py.ref_dtype)
            for j in range(4):
                if j == 3:  # as MATLAB stores []
                    place = file.create_dataset(f"#refs#/{name}{j}", data=np.zeros(2, np.uint64))
                    place.attrs["MATLAB_empty"] = np.uint8(1)
                else:
                    place = file.create_dataset(f"#refs#/{name}{j}", data=np.array([[PLACES[j][axis]]]))
                references[j, 0] = place.ref


@pytest.mark.parametrize("kind", ["continuous", "epochs", "fdt"])
def test_eeglab_matlab_73(kind, tmp_path):
    x = X.astype(np.float32)
    if kind == "fdt":
        x.tofile(tmp_path / "x.fdt")
        name = np.array([[ord(letter)] for letter in "x.fdt"], "u2")
        write_matlab_73(tmp_path / "x.set", name, MATLAB_class=np.bytes_("char"))
    else:
        write_matlab_73(tmp_path / "x.set", x if kind == "continuous" else x.reshape(4, 250, 4))
    source = as_source(tmp_path / "x.set")
    check_source(source)
    assert source.feature_names == ("c0", "c1", "c2", "c3")
    np.testing.assert_array_equal(source.read(123, 877), x[123:877])
    assert source.sfreq == 128.0
    assert set(source.sensors) == {"c0", "c1", "c2"}
    np.testing.assert_allclose(source.sensors["c2"], [-0.1, 0.2, 0.7])
    source.close()


@pytest.mark.parametrize("kind", ["cartesian", "polar", "none"])
def test_eeglab_knows_rate_and_places(kind, tmp_path):
    import scipy.io

    fields = {"cartesian": ["X", "Y", "Z"], "polar": ["theta", "radius"], "none": []}[kind]
    places = np.array(PLACES) / np.linalg.norm(PLACES, axis=1, keepdims=True)
    front, left, up = places.T
    values = {"X": front, "Y": left, "Z": up, "theta": -np.degrees(np.arctan2(left, front))}
    values["radius"] = np.arccos(up) / np.pi
    chanlocs = np.zeros((1, 4), dtype=[(name, object) for name in ["labels", *fields]])
    for j in range(4):
        chanlocs["labels"][0, j] = f"c{j}"
        for name in fields:
            chanlocs[name][0, j] = np.array([[values[name][j]]]) if j < 3 else np.zeros((0, 0))
    eeg = {"nbchan": 4.0, "pnts": 1000.0, "trials": 1.0, "data": X.T, "chanlocs": chanlocs}
    scipy.io.savemat(tmp_path / "x.set", {"EEG": eeg if kind == "none" else eeg | {"srate": 128.0}})
    source = as_source(tmp_path / "x.set")
    assert source.sfreq == (None if kind == "none" else 128.0)
    if kind == "none":
        assert source.sensors is None
        return
    assert set(source.sensors) == {"c0", "c1", "c2"}, "the last one has no place"
    for j in range(3):
        np.testing.assert_allclose(source.sensors[f"c{j}"], [-left[j], front[j], up[j]], atol=1e-12)
    assert as_source([tmp_path / "x.set"] * 2).sfreq == 128.0
    assert set(as_source([tmp_path / "x.set"] * 2).sensors) == {"c0", "c1", "c2"}


def test_recordings_know_rate_and_places():
    raw = make_raw()
    assert as_source(raw).sensors is None
    places = {f"c{j}": np.array(PLACES[j]) for j in range(4)}
    raw.set_montage(mne.channels.make_dig_montage(places, coord_frame="head"))
    epochs = mne.make_fixed_length_epochs(raw, 1.0, verbose="ERROR")
    for recording in (raw, epochs, [raw.copy(), raw]):
        source = as_source([as_source(part) for part in recording] if isinstance(recording, list) else recording)
        assert source.sfreq == SFREQ
        np.testing.assert_allclose(source.sensors["c1"], PLACES[1], atol=1e-7)


def test_eeglab_agrees_with_mne(tmp_path):
    eeglabio = pytest.importorskip("eeglabio.raw")
    eeglabio.export_set(str(tmp_path / "x.set"), 1e-5 * X.T, SFREQ, [f"c{j}" for j in range(4)])
    raw = mne.io.read_raw_eeglab(tmp_path / "x.set", verbose="ERROR")
    source = as_source(tmp_path / "x.set")
    np.testing.assert_allclose(source.read(0, 1000), 1e6 * raw.get_data().T, rtol=1e-6)

"""EEGLAB datasets: what EEGLAB would compute from the file is what the ICA computes."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.io
from interop_datasets import NAMES, X, write_set

from majorica import ICA
from majorica.errors import DataError, OutputExistsError, ParameterError, SourceError
from majorica.interop import eeglab
from majorica.sources import as_source

pytestmark = pytest.mark.filterwarnings("ignore:the data has rank")


def load(path):
    content = scipy.io.loadmat(path, squeeze_me=True, struct_as_record=False)
    return content["EEG"] if "EEG" in content else type("EEG", (), content)


def activations(path, data):
    """EEGLAB's formula."""
    eeg = load(path)
    return (np.asarray(eeg.icaweights) @ np.asarray(eeg.icasphere) @ data.T[eeg.icachansind.astype(int) - 1]).T


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


@pytest.mark.parametrize("n_components", [None, 3])
@pytest.mark.parametrize("referenced", [False, True])
@pytest.mark.parametrize("kind", ["inside", "fdt", "bare"])
def test_same_activations(kind, referenced, n_components, tmp_path):
    data = X - X.mean(axis=1, keepdims=True) if referenced else X
    path = write_set(tmp_path, data, fdt=kind == "fdt", bare=kind == "bare")
    with eeglab.read_set(path) as source:
        ica = ICA(n_components, random_state=0).fit(source)
        stored = source.read(0, source.n_samples).astype(np.float64)
    target = tmp_path / "out" / "y.set"
    target.parent.mkdir()
    eeglab.write_ica(path, ica, target)
    expected = ica.transform(as_source(stored)) + ica.components_ @ ica.mean_
    assert relative(activations(target, stored), expected) < 1e-6
    eeg = load(target)
    np.testing.assert_allclose(eeg.icawinv, np.linalg.pinv(eeg.icaweights @ eeg.icasphere), atol=1e-9)
    if n_components is None:
        np.testing.assert_allclose(eeg.icawinv, ica.mixing_, rtol=1e-9)
    assert np.size(eeg.icaact) == 0
    assert not hasattr(eeg.etc, "ic_classification")
    assert (eeg.etc.kept, eeg.setname, eeg.filename) == (5, "test", "y.set")
    assert [c.theta for c in eeg.chanlocs] == [0, 7, 14, 21, 28]
    np.testing.assert_array_equal(as_source(target).read(0, 2000), as_source(path).read(0, 2000))
    assert sorted(os.listdir(target.parent)) == (["y.fdt", "y.set"] if kind == "fdt" else ["y.set"])
    again = eeglab.read_ica(target)
    assert relative(again.transform(as_source(stored)), expected) < 1e-6
    assert list(again.feature_names_in_) == NAMES


@pytest.mark.parametrize("n_components", [None, 3])
def test_mne_reads_the_same(n_components, tmp_path):
    mne = pytest.importorskip("mne")
    path = write_set(tmp_path, X - X.mean(axis=1, keepdims=True), fdt=True)
    raw = mne.io.read_raw_eeglab(path, verbose="ERROR")
    ica = ICA(n_components, random_state=0).fit(raw)
    eeglab.write_ica(path, ica, units="V", overwrite=True)
    theirs = mne.preprocessing.read_ica_eeglab(path, verbose="ERROR")
    sources = 1e6 * theirs.get_sources(raw).get_data().T
    assert relative(sources, ica.transform(raw) + ica.components_ @ ica.mean_) < 1e-6


def test_some_channels_in_place(tmp_path):
    path = write_set(tmp_path, X)
    os.chmod(path, 0o640)
    ica = ICA(random_state=0).fit(eeglab.read_set(path, picks=["Oz", "Fz", "Cz"]))
    eeglab.write_ica(path, ica, overwrite=True)
    np.testing.assert_array_equal(load(path).icachansind, [4, 1, 2])
    assert (
        relative(activations(path, X), ica.transform(as_source(X[:, [3, 0, 1]])) + ica.components_ @ ica.mean_) < 1e-6
    )
    assert os.stat(path).st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["x.set"]


@pytest.mark.parametrize("mode", [0o644, 0o444])
def test_nothing_is_replaced_unless_told(mode, tmp_path):
    path = write_set(tmp_path, X, fdt=True)
    ica = ICA(random_state=0).fit(path)
    for name in ("y.set", "z.fdt"):
        (tmp_path / name).write_bytes(b"dear to somebody")
        (tmp_path / name).chmod(mode)
    path.chmod(mode)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    for target, named in (
        (None, "x.set"),
        (path, "x.set"),
        (tmp_path / "y.set", "y.set"),
        (tmp_path / "z.set", "z.fdt"),
    ):
        with pytest.raises(OutputExistsError, match=rf"{named}: exists.*pass overwrite=True") as caught:
            eeglab.write_ica(path, ica, target)
        assert isinstance(caught.value, FileExistsError)
        assert ("read-only" in str(caught.value)) == (mode == 0o444)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before
    for target in (None, tmp_path / "z.set"):
        eeglab.write_ica(path, ica, target, overwrite=True)
        np.testing.assert_allclose(eeglab.read_ica(target or path).mixing_, ica.mixing_)
    assert (tmp_path / "z.fdt").read_bytes() == before["x.fdt"] == (tmp_path / "x.fdt").read_bytes()
    link = tmp_path / "link.set"
    link.symlink_to(tmp_path / "gone.set")
    with pytest.raises(OutputExistsError):
        eeglab.write_ica(path, ica, link)


@pytest.mark.parametrize("fdt", [False, True])
def test_matlab_73(fdt, tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.set"
    x = X.astype(np.float32)
    with h5py.File(path, "w", userblock_size=512) as file:
        eeg = file.create_group("EEG")
        for name, value in {"nbchan": 5.0, "pnts": 2000.0, "trials": 1.0}.items():
            eeg[name] = np.array([[value]])
        eeg.create_dataset("icaact", data=np.ones((3, 2)))
        if fdt:
            x.tofile(tmp_path / "x.fdt")
            letters = np.array([[ord(letter)] for letter in "x.fdt"], "u2")
            eeg.create_dataset("data", data=letters).attrs["MATLAB_class"] = np.bytes_("char")
        else:
            eeg.create_dataset("data", data=x)
    ica = ICA(random_state=0).fit(eeglab.read_set(path))
    eeglab.write_ica(path, ica, tmp_path / "y.set")
    with h5py.File(tmp_path / "y.set") as file:
        eeg = file["EEG"]
        found = (eeg["icaweights"][()].T @ eeg["icasphere"][()].T @ X.T).T
        assert eeg["icaact"].attrs["MATLAB_empty"] == 1
    assert relative(found, ica.transform(X) + ica.components_ @ ica.mean_) < 1e-6
    np.testing.assert_array_equal(as_source(tmp_path / "y.set").read(0, 2000), x)


def test_messages(tmp_path):
    path = write_set(tmp_path, X)
    before = path.read_bytes()
    ica = ICA(random_state=0).fit(X[:, :4])
    with pytest.raises(DataError, match="4 features, the dataset 5 channels"):
        eeglab.write_ica(path, ica)
    ica.feature_names_in_ = np.array(["Fz", "Cz", "Pz", "C9"], dtype=object)
    with pytest.raises(DataError, match=r"lacks 1 channel\(s\) of the ICA: C9"):
        eeglab.write_ica(path, ica)
    with pytest.raises(ParameterError, match="units='mV'"):
        eeglab.write_ica(path, ica, units="mV")
    with pytest.raises(ParameterError, match=r"ends in \.set"):
        eeglab.write_ica(path, ica, tmp_path / "y.mat")
    with pytest.raises(ParameterError, match="not fitted"):
        eeglab.write_ica(path, ICA())
    with pytest.raises(ParameterError, match="path of the dataset first"):
        eeglab.write_ica(ica, path)
    with pytest.raises(ParameterError, match="path of the dataset first"):
        eeglab.write_ica(ICA(), path)
    with pytest.raises(SourceError, match="no decomposition"):
        eeglab.read_ica(path)
    with pytest.raises(SourceError, match="no such file"):
        eeglab.read_ica(tmp_path / "none.set")
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ParameterError, match=r"not a \.set file"):
        eeglab.read_set(tmp_path / "x.npy")
    assert path.read_bytes() == before

"""FIF files: recordings, epochs, and those that hold no samples."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from majorica import ICA, Report
from majorica.cli import main
from majorica.errors import DataError, ParameterError, SourceError
from majorica.sources import as_source, check_source

mne = pytest.importorskip("mne")
RNG = np.random.default_rng(0)
NAMES = ["Fz", "Cz", "Pz", "Oz"]
X = 1e-5 * RNG.laplace(size=(3000, 4)) @ RNG.normal(size=(4, 4))


def make_raw() -> Any:
    info = mne.create_info([*NAMES, "STI"], 100.0, ["eeg"] * 4 + ["stim"])
    return mne.io.RawArray(np.vstack([X.T, np.zeros(len(X))]), info, verbose="ERROR")


def make_epochs() -> Any:
    events = mne.make_fixed_length_events(make_raw(), duration=0.5)
    return mne.Epochs(make_raw(), events, tmin=0, tmax=0.49, baseline=None, preload=True, verbose="ERROR")


def save(thing: Any, path: Path, **options: Any) -> Path:
    thing.save(path, **options)
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the epochs that were read from files."""
    found: list[int] = []
    plain = mne.epochs.EpochsFIF._get_epoch_from_raw

    def noted(self: Any, idx: int, verbose: Any = None) -> Any:
        found.append(idx)
        return plain(self, idx, verbose=verbose)

    monkeypatch.setattr(mne.epochs.EpochsFIF, "_get_epoch_from_raw", noted)
    return found


@pytest.mark.parametrize("name", ["x-epo.fif", "x-epo.fif.gz", "any name.fif"])
def test_a_file_of_epochs_is_read_as_such(name: str, tmp_path: Path, reads: list[int]) -> None:
    save(make_epochs(), tmp_path / "x-epo.fif", fmt="double", verbose="ERROR")
    path = tmp_path / name
    if name.endswith(".gz"):
        save(make_epochs(), path, fmt="double", verbose="ERROR")
    elif not path.exists():
        (tmp_path / "x-epo.fif").rename(path)
    source = as_source(path)
    assert reads == []
    assert (source.n_samples, source.feature_names) == (3000, tuple(NAMES))
    np.testing.assert_array_equal(source.read(70, 130), X[70:130])
    assert set(reads) == {1, 2}
    assert not source.raw.preload
    check_source(source)
    again = pickle.loads(pickle.dumps(as_source(path, picks=["Oz", "Fz"])))
    np.testing.assert_array_equal(again.read(0, 3000), X[:, [3, 0]])
    with pytest.raises(ParameterError, match="samples-first"):
        as_source(path, layout="samples-first")
    source.close()
    with pytest.raises(SourceError, match="closed"):
        source.read(0, 5)


def test_a_fit_of_the_file_is_one_of_its_epochs(tmp_path: Path) -> None:
    path = save(make_epochs(), tmp_path / "x-epo.fif", fmt="double", verbose="ERROR")
    ica = ICA(random_state=0).fit(path)
    wanted = ICA(random_state=0).fit(mne.read_epochs(path, verbose="ERROR"))
    np.testing.assert_array_equal(ica.components_, wanted.components_)
    np.testing.assert_array_equal(ica.transform([path, path])[3000:], wanted.transform(make_epochs()))
    assert ica.score(path) == wanted.score(make_epochs())
    assert Report(ica, path).sfreq == 100.0


def test_epochs_that_were_dropped_are_not_in_the_file(tmp_path: Path) -> None:
    path = save(make_epochs().drop([0, 7], verbose="ERROR"), tmp_path / "x-epo.fif", fmt="double", verbose="ERROR")
    kept = np.delete(X.reshape(60, 50, 4), [0, 7], axis=0).reshape(-1, 4)
    np.testing.assert_array_equal(as_source(path).read(0, len(kept)), kept)


def test_truncated_and_complex_epochs_are_refused(tmp_path: Path) -> None:
    path = save(make_epochs(), tmp_path / "x-epo.fif", verbose="ERROR")
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(SourceError, match=r"x-epo\.fif: truncated"):
        as_source(path)
    analytic = mne.EpochsArray(1j * make_epochs().get_data(), make_epochs().info, verbose="ERROR")
    save(analytic, path, overwrite=True, verbose="ERROR")
    for given in (path, analytic):
        with pytest.raises(DataError, match="Complex"):
            ICA().fit(given)


def average(path: Path) -> None:
    make_epochs().average().save(path, verbose="ERROR")


def covariance(path: Path) -> None:
    mne.compute_raw_covariance(make_raw(), verbose="ERROR").save(path, verbose="ERROR")


def decomposition(path: Path) -> None:
    ica = mne.preprocessing.ICA(2, max_iter=1, random_state=0, verbose="ERROR")
    ica.fit(make_raw(), verbose="ERROR").save(path, verbose="ERROR")


def events(path: Path) -> None:
    mne.write_events(path, make_epochs().events, verbose="ERROR")


def projections(path: Path) -> None:
    mne.write_proj(path, mne.compute_proj_raw(make_raw(), n_eeg=1, verbose="ERROR"), verbose="ERROR")


def transformation(path: Path) -> None:
    mne.write_trans(path, mne.transforms.Transform("head", "mri"), verbose="ERROR")


def description(path: Path) -> None:
    mne.io.write_info(path, make_raw().info)


def positions(path: Path) -> None:
    mne.channels.make_standard_montage("biosemi16").save(path, verbose="ERROR")


def nothing(path: Path) -> None:
    mne.write_proj(path, [], verbose="ERROR")


OTHERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "x-ave.fif": (average, r"averages \(evoked responses\), .* pass the recording or the epochs"),
    "x-ave.fif.gz": (average, r"averages \(evoked responses\)"),
    "x-cov.fif": (covariance, "a covariance matrix, no samples to separate; pass the recording"),
    "x-ica.fif": (decomposition, r"an ICA of MNE, no samples to separate; majorica\.interop\.mne\.from_mne"),
    "x-eve.fif": (events, "events, no samples to separate; pass the recording that they are of"),
    "x-proj.fif": (projections, "projections, no samples to separate"),
    "x-trans.fif": (transformation, "a coordinate transformation, no samples to separate; pass a recording or epochs"),
    "x-trans.fif.gz": (transformation, "a coordinate transformation, no samples"),
    "x-info.fif": (description, "the description of a recording, no samples to separate; pass the recording itself"),
    "x-dig.fif": (positions, "sensor positions, no samples to separate"),
    "no-proj.fif": (nothing, "no samples to separate; pass a recording or epochs"),
}


def number_of(path: Path, tag: int) -> int:
    """Where the content of the first such tag of one number begins in a file."""
    return path.read_bytes().index(struct.pack(">iii", tag, 3, 4)) + 16


@pytest.mark.filterwarnings("ignore")  # of MNE's own fits
@pytest.mark.parametrize("name", OTHERS)
def test_files_without_samples_are_named_in_one_line(name: str, tmp_path: Path, capfd: Any) -> None:
    write, words = OTHERS[name]
    write(tmp_path / name)
    with pytest.raises(SourceError, match=f"{name}: holds {words}") as caught:
        ICA().fit(tmp_path / name)
    assert "\n" not in str(caught.value)
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(tmp_path / name), "-o", str(tmp_path / "m.npz")])
    assert ended.value.code == 3
    assert capfd.readouterr().err == f"majorica: {caught.value}\n"


def test_a_damaged_recording_is_not_taken_for_what_else_it_holds(tmp_path: Path) -> None:
    raw = make_raw()
    raw.add_proj(mne.compute_proj_raw(raw, n_eeg=1, verbose="ERROR"), verbose="ERROR")
    path = save(raw, tmp_path / "x_raw.fif", verbose="ERROR")
    content, at = bytearray(path.read_bytes()), number_of(path, 200)
    assert content[at : at + 4] == struct.pack(">i", 5)
    content[at : at + 4] = struct.pack(">i", 7)  # channels
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"x_raw\.fif: cannot be read as recording; it is damaged"):
        as_source(path)


def test_what_is_no_fif_at_all_is_still_told(tmp_path: Path) -> None:
    path = tmp_path / "x_raw.fif"
    for content in (b"not a recording " * 64, b"\0" * 4096):
        path.write_bytes(content)
        with pytest.raises(SourceError, match=r"x_raw\.fif: "):
            as_source(path)


def test_the_command_line_takes_epochs(tmp_path: Path, capfd: Any) -> None:
    path = save(make_epochs(), tmp_path / "x-epo.fif", fmt="double", verbose="ERROR")
    for words in (
        ["fit", path, "-o", tmp_path / "m.npz"],
        ["transform", tmp_path / "m.npz", path, "-o", tmp_path / "s.npy"],
    ):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words), "--json", "-q"])
        assert ended.value.code == 0
        assert json.loads(capfd.readouterr().out)["n_samples"] == 3000
    np.testing.assert_allclose(np.load(tmp_path / "s.npy").std(axis=0), 1.0, rtol=1e-6)

"""Lists of runs (recordings, files, tables) are joined, wherever samples go in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from majorica import ICA
from majorica.errors import DataError, ParameterError, SourceError
from majorica.sources import as_source, check_source

NAMES = ["Fz", "Cz", "Pz"]
RNG = np.random.default_rng(0)
X = RNG.laplace(size=(900, 3)) @ RNG.normal(size=(3, 3))
CUT = 400


def raw(part: np.ndarray, folder: Path, names: list[str] = NAMES) -> Any:
    mne = pytest.importorskip("mne")
    return mne.io.RawArray(part.T, mne.create_info(names, 100.0, "eeg"), verbose="ERROR")


def epochs(part: np.ndarray, folder: Path) -> Any:
    mne = pytest.importorskip("mne")
    cube = np.swapaxes(part.reshape(-1, 50, 3), 1, 2)
    return mne.EpochsArray(cube, mne.create_info(NAMES, 100.0, "eeg"), verbose="ERROR")


def raw_file(part: np.ndarray, folder: Path) -> Any:
    path = folder / f"{len(part)}_raw.fif"
    raw(part, folder).save(path, fmt="double", verbose="ERROR")
    return path


def npy(part: np.ndarray, folder: Path) -> str:
    np.save(folder / f"{len(part)}.npy", part)
    return str(folder / f"{len(part)}.npy")


def csv(part: np.ndarray, folder: Path) -> Path:
    pd.DataFrame(part, columns=NAMES).to_csv(folder / f"{len(part)}.csv", index=False)
    return folder / f"{len(part)}.csv"


def pandas(part: np.ndarray, folder: Path) -> pd.DataFrame:
    return pd.DataFrame(part, columns=NAMES)


def polars(part: np.ndarray, folder: Path) -> Any:
    return pytest.importorskip("polars").DataFrame(part, schema=NAMES)


def arrow(part: np.ndarray, folder: Path) -> Any:
    return pytest.importorskip("pyarrow").table({name: part[:, j] for j, name in enumerate(NAMES)})


def source(part: np.ndarray, folder: Path) -> Any:
    return as_source(pandas(part, folder))


RUNS: list[Callable[[np.ndarray, Path], Any]] = [
    raw,
    epochs,
    raw_file,
    npy,
    csv,
    pandas,
    polars,
    arrow,
    source,
]


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("container", [list, tuple])
def test_runs_in_a_list_are_one_matrix_to_every_method(
    kind: Callable[[np.ndarray, Path], Any], container: type, tmp_path: Path
) -> None:
    runs = container([kind(X[:CUT], tmp_path), kind(X[CUT:], tmp_path)])
    joined = as_source(runs)
    check_source(joined)
    np.testing.assert_array_equal(joined.read(0, len(X)), X)
    whole = ICA(random_state=0).fit(X)
    ica = ICA(random_state=0).fit(runs)
    np.testing.assert_array_equal(ica.components_, whole.components_)
    np.testing.assert_array_equal(ica.transform(runs), whole.transform(as_source(X)))
    assert ica.score(runs) == whole.score(as_source(X))
    assert list(getattr(ica, "feature_names_in_", NAMES)) == NAMES
    np.testing.assert_array_equal(ICA(random_state=0).fit_transform(runs), whole.transform(X))
    streamed = ICA(random_state=0).partial_fit(runs)
    np.testing.assert_array_equal(streamed.components_, ICA(random_state=0).partial_fit(X).components_)


def test_one_run_in_a_list_is_that_run(tmp_path: Path) -> None:
    one = raw(X, tmp_path)
    ica = ICA(random_state=0).fit(one)
    np.testing.assert_array_equal(ica.transform([one]), ica.transform(one))


def test_kinds_may_be_mixed_if_their_names_agree(tmp_path: Path) -> None:
    runs = [raw(X[:CUT], tmp_path), pandas(X[CUT:], tmp_path)]
    np.testing.assert_array_equal(as_source(runs).read(0, len(X)), X)
    with pytest.raises(DataError, match=r"feature names of block 1"):
        ICA().fit([raw(X[:CUT], tmp_path), raw(X[CUT:], tmp_path, ["Fz", "Cz", "Oz"])])


def test_picks_are_those_of_each_run(tmp_path: Path) -> None:
    runs = [raw(X[:CUT], tmp_path), csv(X[CUT:], tmp_path)]
    joined = as_source(runs, picks=["Pz", "Fz"])
    assert list(joined.feature_names) == ["Pz", "Fz"]
    np.testing.assert_array_equal(joined.read(0, len(X)), X[:, [2, 0]])
    for plain in ([X[:CUT], X[CUT:]], X[:5].tolist()):
        with pytest.raises(ParameterError, match="picks"):
            as_source(plain, picks=["Pz"])


def test_the_file_of_a_list_that_is_not_there_is_named(tmp_path: Path) -> None:
    ica = ICA(random_state=0).fit(X)
    for method in (ICA().fit, ica.transform, ica.score, ica.partial_fit):
        with pytest.raises(SourceError, match=r"nowhere\.npy: no such file"):
            method([npy(X, tmp_path), str(tmp_path / "nowhere.npy")])

"""Data of another width than the fit's: which features are missing or unknown, not only how many there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from majorica import ICA, Report
from majorica.cli import main
from majorica.errors import DataError, ParameterError
from majorica.sources import as_source
from majorica.sources.names import MOST, differences, same_names
from makers import laplace

X, _ = laplace(400, 5)
NAMES = ["Fz", "Cz", "Pz", "Oz", "EOG 1"]


def csv(folder: Path, names: list[str]) -> Path:
    path = folder / f"{len(names)} {names[-1]}.csv"
    pd.DataFrame(X[:, : len(names)], columns=names).to_csv(path, index=False)
    return path


def raw(folder: Path, names: list[str]) -> Any:
    mne = pytest.importorskip("mne")
    return mne.io.RawArray(X[:, : len(names)].T, mne.create_info(names, 100.0, "eeg"), verbose="ERROR")


def xarray(folder: Path, names: list[str]) -> Any:
    data = pytest.importorskip("xarray")
    return data.DataArray(X[:, : len(names)], dims=["s", "f"], coords={"f": names})


def dask_frame(folder: Path, names: list[str]) -> Any:
    frames = pytest.importorskip("dask.dataframe")
    return frames.from_pandas(pd.DataFrame(X[:, : len(names)], columns=names), npartitions=2)


@pytest.mark.parametrize("kind", [csv, raw, xarray])
def test_missing_and_unknown_features_are_named(kind: Callable[[Path, list[str]], Any], tmp_path: Path) -> None:
    ica = ICA(random_state=0).fit(kind(tmp_path, NAMES[:4]))
    cases = {
        "X has 3 features, but ICA is expecting 4 features as input: 'Oz' missing; pass": NAMES[:3],
        "X has 5 features, .* as input: 'EOG 1' unknown; pass picks=NAMES to choose those of feature_names_in_": NAMES,
        "X has 3 features, .* as input: 'A1' unknown, 'Pz', 'Oz' missing; pass": ["Fz", "Cz", "A1"],
    }
    for words, names in cases.items():
        for method in (ica.transform, ica.score, ica.partial_fit):
            with pytest.raises(DataError, match=words):
                method(kind(tmp_path, names))
        with pytest.raises(DataError, match=words):
            Report(ica, kind(tmp_path, names))
    assert ica.n_samples_seen_ == 400


def test_a_channel_that_is_marked_bad_is_named(tmp_path: Path) -> None:
    good = raw(tmp_path, NAMES)
    ica = ICA(random_state=0).fit(good)
    bad = good.copy()
    bad.info["bads"] = ["Cz"]
    with pytest.raises(DataError, match=r"'Cz' missing; .* without it channels marked bad are left out"):
        ica.transform(bad)
    np.testing.assert_array_equal(ica.transform(as_source(bad, picks=NAMES)), ica.transform(good))
    with pytest.raises(DataError, match="block 1 has 4 features, block 0 has 5: 'Cz' missing; pass picks=NAMES"):
        ICA().fit([good, bad])


def test_dask_frames_name_theirs(tmp_path: Path) -> None:
    ica = ICA(random_state=0).fit(dask_frame(tmp_path, NAMES))
    for method in (ica.transform, ica.score):
        with pytest.raises(DataError, match="'EOG 1' missing"):
            method(dask_frame(tmp_path, NAMES[:4]))


def test_the_command_line_names_them_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ICA(random_state=0).fit(csv(tmp_path, NAMES[:4])).save(tmp_path / "m.npz")
    for command in ("transform", "report"):
        with pytest.raises(SystemExit) as ended:
            main([command, str(tmp_path / "m.npz"), str(csv(tmp_path, NAMES)), "-o", str(tmp_path / "out")])
        said = capfd.readouterr().err
        assert ended.value.code == 3
        assert "X has 5 features, but ICA is expecting 4 features as input: 'EOG 1' unknown; pass --picks NAMES" in said
        assert said.count("\n") == 1


def test_counts_are_all_there_is_to_say_without_names(tmp_path: Path) -> None:
    named, plain = ICA(random_state=0).fit(csv(tmp_path, NAMES)), ICA(random_state=0).fit(X)
    for ica, given in ((named, as_source(X[:, :3])), (plain, csv(tmp_path, NAMES[:3])), (plain, X[:, :3])):
        with pytest.raises(DataError, match=r"X has 3 features, but ICA is expecting 5 features as input\.?$"):
            ica.transform(given)


def test_of_many_names_a_few_are_shown(tmp_path: Path) -> None:
    many = np.random.default_rng(0).laplace(size=(500, 40))
    names = [f"channel {j}" for j in range(40)]
    ica = ICA(2, random_state=0).fit(as_source(pd.DataFrame(many, columns=names)))
    with pytest.raises(DataError, match=rf"'channel {MOST + 1}' and {38 - MOST} more missing") as caught:
        ica.transform(as_source(pd.DataFrame(many[:, :2], columns=names[:2])))
    assert len(str(caught.value)) < 500


def test_models_and_blocks_of_other_widths_name_them_too(tmp_path: Path) -> None:
    models = [ICA(random_state=0).fit(csv(tmp_path, names)) for names in (NAMES, NAMES[:4])]
    with pytest.raises(ParameterError, match="5 and 4 features cannot be merged: 'EOG 1' missing in the latter"):
        ICA.merge(models)
    with pytest.raises(DataError, match="names of block 1 differ from those of block 0: 'A1' unknown, 'Oz' missing"):
        as_source([csv(tmp_path, NAMES[:4]), csv(tmp_path, [*NAMES[:3], "A1"])])
    with pytest.raises(DataError, match="block 1 differ from those of block 0: another order"):
        as_source([csv(tmp_path, NAMES), raw(tmp_path, NAMES[::-1])])


def test_differences_in_words() -> None:
    assert differences(["a", "b"], ["b", "c"]) == "'c' unknown, 'a' missing"
    assert differences(["a", "b"], ["b", "a"]) == ""
    assert differences(["a", "b"], ["a", "b", "b"]) == "some come more than once"
    assert differences(None, ["a"]) == differences(["a"], None) == ""
    assert same_names(["a"], ("a",))
    assert same_names(None, None)
    assert not same_names(None, ["a"])
    assert not same_names(["a", "b"], ["b", "a"])

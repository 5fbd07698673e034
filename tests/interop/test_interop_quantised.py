"""Average references that a file of whole numbers has rounded are named; ordinary recordings are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

mne = pytest.importorskip("mne")

from interop_recordings import make_eeg  # noqa: E402

from majorica import ICA  # noqa: E402
from majorica.errors import RankWarning  # noqa: E402
from majorica.interop.mne import fit_raw  # noqa: E402
from majorica.quantised import steps_of  # noqa: E402
from majorica.sources import as_source  # noqa: E402


def export(folder, reference, **options):
    raw = make_eeg(5000)
    raw.filter(2.0, None, verbose="ERROR")
    if reference:
        raw.set_eeg_reference("average", verbose="ERROR")
    path = folder / "x.edf"
    mne.export.export_raw(path, raw, verbose="ERROR", **options)
    return path, raw


@pytest.mark.parametrize("physical_range", ["auto", "channelwise"])
def test_a_rounded_average_reference_is_named(physical_range, tmp_path):
    path, raw = export(tmp_path, True, physical_range=physical_range)
    message = r"1 of 8 directions .* rounding .*average reference.*pass n_components=7"
    with pytest.warns(RankWarning, match=message):
        ica = ICA(random_state=0).fit(path)
    assert ica.rank_ == 8, "the rank is what it was"
    with pytest.warns(RankWarning, match=message):
        fit_raw(mne.io.read_raw(path, verbose="ERROR"), random_state=0)
    norms = np.linalg.norm(ica.components_, axis=1)
    assert norms.max() > 20 * np.median(norms)
    kept = ICA(7, random_state=0).fit(path)
    norms = np.linalg.norm(kept.components_, axis=1)
    assert norms.max() < 20 * np.median(norms)
    with pytest.warns(RankWarning, match="rank 7 in 8"):  # before the file was written
        exact = ICA(random_state=0).fit(raw)
    turn = np.abs(np.corrcoef(kept.transform(path).T, exact.transform(raw).T)[:7, 7:])
    assert turn.max(axis=1).min() > 0.99


@pytest.mark.parametrize("physical_range", ["auto", "channelwise", (-2e4, 2e4)])
def test_ordinary_recordings_are_not(physical_range, tmp_path):
    path, raw = export(tmp_path, False, physical_range=physical_range)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ICA(random_state=0).fit(path)
        ICA(random_state=0).fit(raw)


def test_weak_directions_above_the_rounding_are_not(tmp_path):
    """A source of one step's deviation is a source, if a small one."""
    raw = make_eeg(5000)
    step = 1e-6
    spread, basis = np.linalg.eigh(np.cov(raw.get_data()))
    weak = basis[:, :1] @ (basis[:, :1].T @ raw.get_data())
    data = raw.get_data() - weak * (1 - step / np.sqrt(spread[0]))
    rounded = mne.io.RawArray(step * np.round(data / step), raw.info, verbose="ERROR")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ICA(random_state=0).fit(rounded)
    again = mne.io.RawArray(
        step * np.round((data - weak * step / np.sqrt(spread[0])) / step), raw.info, verbose="ERROR"
    )
    with pytest.warns(RankWarning, match="1 of 8 directions"):
        ICA(random_state=0).fit(again)


@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize(
    ("ending", "physical_range", "grid"),
    [
        ("edf", "channelwise", 0.17),  # most steps of the file are left out: values lie on those of before
        ("edf", (-3276.8, 3276.7), 1.0),  # ten steps make one of before: all channels are rounded alike
        ("bdf", (-4e4, 4e4), 0.0),  # steps finer than single precision tells, of electrodes' offsets
    ],
)
def test_steps_of_every_kind_are_found(ending, physical_range, grid, reference, tmp_path):
    raw = make_eeg(5000)
    raw.filter(2.0, None, verbose="ERROR")
    if not grid:
        raw = mne.io.RawArray(raw.get_data() + np.linspace(-0.03, 0.03, 8)[:, None], raw.info, verbose="ERROR")
    else:
        raw = mne.io.RawArray(1e-6 * grid * np.round(raw.get_data() / (1e-6 * grid)), raw.info, verbose="ERROR")
    if reference:
        raw.set_eeg_reference("average", verbose="ERROR")
    path = tmp_path / f"x.{ending}"
    mne.export.export_raw(path, raw, physical_range=physical_range, verbose="ERROR")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ICA(random_state=0).fit(path)
    told = [str(each.message) for each in caught if each.category is RankWarning]
    assert len(told) == reference
    assert all("1 of 8 directions" in each and "pass n_components=7" in each for each in told), told


def test_channels_rounded_alike_are_told_from_a_weak_mean():
    """A mean within two steps is a small source; within a half of one it is rounding."""
    raw = make_eeg(5000)
    data = raw.get_data() - raw.get_data().mean(axis=0)
    mean = np.random.default_rng(0).laplace(size=data.shape[1])
    for deviation, known in ((2.0, True), (0.2, False)):
        weak = mne.io.RawArray(1e-6 * np.round(1e6 * data + deviation * mean), raw.info, verbose="ERROR")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ICA(random_state=0).fit(weak)
        assert [each.category for each in caught] == ([] if known else [RankWarning])


def test_steps():
    rng = np.random.default_rng(0)
    smooth = 50 * rng.standard_normal(2048)
    columns = [smooth, np.round(smooth), 0.25 * np.round(smooth) + 1e3, np.zeros(2048), 1e-6 * np.round(smooth)]
    np.testing.assert_allclose(steps_of(np.column_stack(columns)), [0, 1, 0.25, 0, 1e-6], rtol=1e-9)
    single = np.column_stack(columns).astype(np.float32)
    np.testing.assert_allclose(steps_of(single), [0, 1, 0.25, 0, 1e-6], rtol=1e-4)
    assert steps_of(np.zeros((0, 3))).tolist() == [0, 0, 0]
    sparse = np.column_stack([0.13 * np.round(np.round(smooth) / 0.13), 1e3 + 1e-6 * np.round(1e5 * smooth)])
    np.testing.assert_allclose(steps_of(sparse), [0.13, 1e-6], rtol=1e-6)


def test_only_recordings_are_looked_at():
    """Rare events and other whole numbers of tables are as they should be."""
    X = np.random.default_rng(0).poisson(40, size=(3000, 4)).astype(float)
    X[:, 3] = X[:, :3].sum(axis=1) + np.round(np.random.default_rng(1).normal(size=3000) * 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ICA(random_state=0).fit(as_source(X))

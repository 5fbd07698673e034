"""Streams: bad blocks, stable components, drift, merging, other threads, endless data."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from majorica import ICA, amari_distance
from majorica.errors import DataError, DataTypeError, MajoricaError, MajoricaWarning, ParameterError
from majorica.streaming import START_SAMPLES, TRACE_RECORDS

STARTED = START_SAMPLES + 2_000


def mixture(n: int, p: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    S, A = rng.laplace(size=(n, p)), np.random.default_rng(99).normal(size=(p, p))
    return S @ A.T, A


def error_of(ica: ICA, A: np.ndarray) -> float:
    return amari_distance(ica.components_, A)


def snapshot(ica: ICA) -> bytes:
    return pickle.dumps(ica)


# ---------------------------------------------------------------------- bad blocks


def _nan(X: np.ndarray) -> Any:
    X = X.copy()
    X[len(X) // 2, 1] = np.nan
    return X


BAD: dict[str, tuple[Any, type[MajoricaError]]] = {
    "nan": (_nan, DataError),
    "infinity": (lambda X: np.where(np.arange(len(X))[:, None] == 7, np.inf, X), DataError),
    "overflow": (lambda X: 1e200 * X, DataError),
    "wider": (lambda X: np.hstack([X, X]), DataError),
    "narrower": (lambda X: X[:, :2], DataError),
    "empty-wider": (lambda X: np.empty((0, 7)), DataError),
    "one-dimension": (lambda X: X[0], DataError),
    "three-dimensions": (lambda X: X[None], DataError),
    "ragged": (lambda X: [[1.0, 2.0, 3.0], [1.0, 2.0]], DataError),
    "text": (lambda X: np.array([["a", "b", "c"]]), DataError),
    "complex": (lambda X: X * 1j, DataError),
    "none": (lambda X: None, DataTypeError),
    "object": (lambda X: np.array([[object()] * 3]), DataTypeError),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("seen", [0, 500, STARTED])
def test_a_bad_block_is_named_and_changes_nothing(kind: str, seen: int) -> None:
    X, _ = mixture(STARTED + 1_000)
    spoil, error = BAD[kind]
    ica = ICA(random_state=0)
    if seen:
        ica.partial_fit(X[:seen])
    elif kind in ("wider", "narrower", "empty-wider"):
        pytest.skip("any width may come first")
    before = snapshot(ica)
    with pytest.raises(error):
        ica.partial_fit(spoil(X[:20]))
    assert snapshot(ica) == before
    ica.partial_fit(X[seen : seen + 1_000])
    assert ica.n_samples_seen_ == seen + 1_000


@pytest.mark.parametrize("units", [(1e80, 1, 1e-80), (1e-160, 1e-160, 1e-160), (1e150, 1e150, 1e150)])
def test_units_do_not_matter_to_a_stream(units: tuple[float, float, float]) -> None:
    X, A = mixture(STARTED + 1_000)
    plain, scaled = ICA(random_state=0), ICA(random_state=0)
    for ica, factors in ((plain, np.ones(3)), (scaled, np.array(units))):
        ica.partial_fit(X[:STARTED] * factors).partial_fit(X[STARTED:] * factors)
    assert amari_distance(scaled.components_ * units, A) == pytest.approx(error_of(plain, A), rel=0.1)


def test_a_model_is_saved_between_two_blocks_not_while_another_thread_learns(tmp_path: Path) -> None:
    X, _ = mixture(STARTED + 1_000)
    ica = ICA(random_state=0).partial_fit(X[:STARTED])
    savers: list[threading.Thread] = []

    def save_meanwhile(step: Any) -> None:
        savers.append(threading.Thread(target=ica.save, args=(tmp_path / "live.npz",)))
        savers[-1].start()
        savers[-1].join(0.1)
        assert savers[-1].is_alive()

    ica.set_params(callbacks=save_meanwhile).partial_fit(X[STARTED:])
    for saver in savers:
        saver.join()
    ica.set_params(callbacks=lambda step: ica.save(tmp_path / "own.npz")).partial_fit(X[:100])  # its own turn already
    assert len(savers) >= 1
    assert ICA.load(tmp_path / "live.npz").n_samples_seen_ == len(X)
    assert ICA.load(tmp_path / "own.npz").n_features_in_ == 3


@pytest.mark.parametrize("change", [{"half_life": 2_000}, {"alpha": 0.9}, {"batch_size": 300}, {"n_updates": 1}])
def test_a_pace_that_changes_counts_from_the_next_block_on(change: dict[str, Any], tmp_path: Path) -> None:
    X, _ = mixture(STARTED + 6_000)
    ica, unchanged = (ICA(random_state=0).partial_fit(X[:STARTED]) for _ in range(2))
    ica.set_params(**change).save(tmp_path / "model.npz")
    for each in (ica, unchanged, loaded := ICA.load(tmp_path / "model.npz")):
        each.partial_fit(X[STARTED:])
    assert np.array_equal(ica.components_, loaded.components_)
    assert not np.array_equal(ica.components_, unchanged.components_)


def test_a_pace_that_cannot_be_is_refused_and_nothing_is_learnt() -> None:
    X, _ = mixture(STARTED)
    ica = ICA(random_state=0).partial_fit(X).set_params(half_life=-3)
    with pytest.raises(ParameterError, match="half_life=-3"):
        ica.partial_fit(X)
    assert ica.n_samples_seen_ == STARTED


def test_an_empty_block_is_nothing_new() -> None:
    X, _ = mixture(1_000)
    ica = ICA(random_state=0).partial_fit(np.empty((0, 3)))
    assert not hasattr(ica, "n_features_in_")
    ica.partial_fit(X)
    before = snapshot(ica)
    ica.partial_fit(X[:0])
    assert snapshot(ica) == before


def test_fuzzed_streams_end_as_if_only_the_good_blocks_had_come() -> None:
    X, _ = mixture(16_000)
    rng = np.random.default_rng(1)
    fuzzed, plain = ICA(random_state=0), ICA(random_state=0)
    kinds, at = list(BAD), 0
    while at < len(X):
        size = int(rng.integers(1, 1_500))
        block = X[at : at + size]
        at += size
        if rng.random() < 0.7 and at > size:
            with pytest.raises(MajoricaError):
                fuzzed.partial_fit(BAD[kinds[rng.integers(len(kinds))]][0](block[:50]))
        block = block.astype(np.float32).astype(np.float64)
        fuzzed.partial_fit(block.astype(np.float32) if rng.random() < 0.5 else block)
        plain.partial_fit(block)
    np.testing.assert_allclose(fuzzed.components_, plain.components_, rtol=1e-4, atol=1e-5)
    assert fuzzed.n_samples_seen_ == len(X)


def test_a_dead_sensor_at_first_does_not_block_the_stream() -> None:
    X, A = mixture(30_000)
    ica = ICA(random_state=0, density="huber")
    ica.partial_fit(np.zeros((6_000, 3)))
    assert not hasattr(ica, "components_")
    with pytest.raises(DataError, match="constant"):
        ica.partial_fit(np.zeros((6_000, 3)))
    ica.partial_fit(X)
    assert error_of(ica, A) < 0.5
    fixed = ICA(n_components=3, random_state=0).partial_fit(X[:2])  # too few for three components yet
    fixed.partial_fit(X[2:2_000])
    assert fixed.n_components_ == 3


def test_half_life_is_in_samples() -> None:
    with pytest.raises(ParameterError, match="half_life='30 s'"):
        ICA(half_life="30 s").partial_fit(mixture(100)[0])


# ---------------------------------------------------------------------- the trace


def test_passes_are_a_share_of_the_data() -> None:
    X, _ = mixture(25_000)
    finite = ICA(solver="online", random_state=0, max_iter=2).fit(X)
    np.testing.assert_allclose(finite.trace_["passes"][[0, -1]], [0.4, 2.0])
    assert finite.n_iter_ == 2
    stream = ICA(random_state=0).fit(iter(np.split(X, 25)))
    assert (stream.trace_["passes"] == 1.0).all()
    assert (np.diff(stream.trace_["seconds"]) >= 0).all()


def test_the_trace_and_the_state_do_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("majorica.streaming.TRACE_RECORDS", 256)
    X, _ = mixture(START_SAMPLES + 2_000)
    ica = ICA(random_state=0, batch_size=4).partial_fit(X)
    size = len(snapshot(ica))
    assert size < 200_000
    for _ in range(3):
        ica.partial_fit(X[:2_000])
        assert len(ica.trace_) <= 256 < TRACE_RECORDS
        assert (np.diff(ica.trace_["seconds"]) >= 0).all()
    assert len(snapshot(ica)) < size + 50_000


# ------------------------------------------------------------ order, signs, drift


def test_order_and_signs_stay_from_the_first_model_on() -> None:
    X, A = mixture(40_000)
    ica = ICA(random_state=0, density="huber")
    last = None
    for stop in [100, 150, 200, 500, 1_000, 3_000, 9_000, 12_000, 20_000, 30_000, 40_000]:
        start = getattr(ica, "n_samples_seen_", 0)
        ica.partial_fit(X[start:stop])
        if last is not None and stop > 500:
            turn = ica.components_ @ last
            assert (np.diag(turn) > 0.7).all(), stop  # same component, same sign
        last = ica.mixing_
    assert error_of(ica, A) < 0.01


def test_fit_then_partial_fit_keeps_the_order() -> None:
    X, _ = mixture(30_000, p=5)
    for solver in ("progressive", "online"):
        ica = ICA(random_state=0, solver=solver, density="huber").fit(X)
        mixing = ica.mixing_.copy()
        ica.partial_fit(X[:2_000])
        assert (np.diag(ica.components_ @ mixing) > 0.9).all()


def rotating(n: int, turns: float, rng: np.random.Generator, A: np.ndarray, block: int = 1_000) -> Any:
    """Blocks whose mixing matrix turns slowly, and the mixing matrix of each."""
    angles = np.linspace(0, 2 * np.pi * turns, n // block)
    for angle in angles:
        turn = np.eye(len(A))
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        mixing = turn @ A
        yield rng.laplace(size=(block, len(A))) @ mixing.T, mixing


def follow(ica: ICA, n: int, turns: float, p: int = 4) -> list[float]:
    rng = np.random.default_rng(3)
    A = np.linalg.qr(rng.normal(size=(p, p)))[0]
    errors = []
    for i, (X, mixing) in enumerate(rotating(n, turns, rng, A)):
        ica.partial_fit(X)
        if i % 100 == 99:
            assert np.isfinite(ica.components_).all()
            errors.append(error_of(ica, mixing))
    return errors


def test_a_million_samples_of_a_slow_rotation_are_followed() -> None:
    ica = ICA(half_life=20_000, density="huber", random_state=0)
    errors = follow(ica, 1_000_000, 0.5)
    assert max(errors) < 0.3
    assert ica.n_samples_seen_ == 1_000_000
    assert ica.drift_ > 0.02
    lazy = follow(ICA(alpha=1.0, density="huber", random_state=0), 400_000, 0.2)
    assert max(lazy) > 3 * max(errors)  # without forgetting it is not


def test_drift_is_small_where_nothing_drifts() -> None:
    X, _ = mixture(100_000)
    ica = ICA(random_state=0, density="huber").fit(iter(np.split(X, 100)))
    assert 0 < ica.drift_ < 0.02


def private_memory() -> int:
    """Memory this process holds itself (kB), not what other programs or an earlier test once took."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("needs /proc")
    return int(status.read_text().split("RssAnon:")[1].split()[0])


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_soak_of_a_hundred_million_samples() -> None:
    n, block = 100_000_000, 10_000
    ica = ICA(half_life=50_000, density="huber", random_state=0)
    rng = np.random.default_rng(3)
    A = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    errors: list[float] = []
    memory: list[int] = []
    sizes: list[int] = []
    for i, (X, mixing) in enumerate(rotating(n, 20.0, rng, A, block=block), 1):
        ica.partial_fit(X)
        assert np.isfinite(ica.components_).all()
        if i % 100 == 0:
            errors.append(error_of(ica, mixing))
            memory.append(private_memory())
        if i % 1_000 == 0:
            sizes.append(len(snapshot(ica)))
            print(f"{i * block:.0e} samples: error {errors[-1]:.4f}, {memory[-1] / 1e3:.1f} MB, model {sizes[-1]} B")
    assert ica.n_samples_seen_ == n
    assert np.isfinite(ica.transform(X)).all()
    assert max(errors) < 0.3
    settled = 10  # a million samples in, all that is made once has been
    assert max(memory[settled:]) < memory[settled] + 20_000
    assert max(sizes) < sizes[0] + 500_000  # the trace fills up to its bound
    print(f"worst error {max(errors):.4f}, memory {min(memory) / 1e3:.1f} to {max(memory) / 1e3:.1f} MB")


# ------------------------------------------------------------------------- merging


@pytest.mark.parametrize("density", ["huber", "adaptive"])
def test_merged_streams_are_as_good_as_one(density: str) -> None:
    ratios = []
    for seed in range(10):
        X, A = mixture(120_000, p=4, seed=seed)
        parts = [X[:40_000], X[40_000:80_000], X[80_000:]]
        models = [ICA(random_state=0, density=density).partial_fit(part) for part in parts]
        merged = ICA.merge(models)
        one = ICA(random_state=0, density=density).partial_fit(X)
        assert merged.n_samples_seen_ == 120_000
        ratios.append(error_of(merged, A) / error_of(one, A))
        np.testing.assert_allclose(merged.mean_, X.mean(axis=0), atol=0.05)
    assert np.median(ratios) < 1.25


def test_merging_goes_on_streaming_and_keeps_the_first_models_order() -> None:
    X, A = mixture(90_000, p=4)
    a, b = (ICA(random_state=0, density="huber").partial_fit(X[i : i + 30_000]) for i in (0, 30_000))
    merged = ICA.merge([a, b])
    assert (np.diag(merged.components_ @ a.mixing_) > 0.9).all()
    before = error_of(merged, A)
    merged.partial_fit(X[60_000:])
    assert merged.n_samples_seen_ == 90_000
    assert error_of(merged, A) < 2 * before
    again = pickle.loads(pickle.dumps(merged))
    np.testing.assert_array_equal(again.components_, merged.components_)


def test_models_of_finite_fits_merge_too() -> None:
    X, A = mixture(60_000, p=4)
    parts = [ICA(random_state=i, density="huber").fit(X[i::3]) for i in range(3)]
    merged = ICA.merge(parts)
    whole = ICA(random_state=0, density="huber").fit(X)
    assert error_of(merged, A) < 1.5 * error_of(whole, A)
    assert error_of(merged, A) < np.mean([error_of(part, A) for part in parts])


@pytest.mark.parametrize("seed", [0, 7, 14])
def test_short_adaptive_fits_merge_whatever_the_scales_of_their_rows(seed: int) -> None:
    """A part's row was taken at its own scale for the first's shape: the merged model was worse than any part."""
    X, A = mixture(1500, p=4, seed=seed)
    parts = [ICA(random_state=0).fit(X[:750]), ICA(random_state=0).fit(X[750:])]
    merged = ICA.merge(parts)
    assert merged.score(X) > min(part.score(X) for part in parts)
    assert error_of(merged, A) < max(error_of(part, A) for part in parts)


def test_models_of_other_mixtures_are_merged_with_a_warning() -> None:
    """What came out was neither's mixture, without a word."""
    X, _ = mixture(20_000, p=4)
    turned = X @ np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    models = [ICA(random_state=0).fit(part) for part in (X[:10_000], turned[:10_000], X[10_000:])]
    with pytest.warns(MajoricaWarning, match="are turned against the first model's by [0-9]+ degrees or more") as told:
        ICA.merge(models)
    assert len(told) == 1
    assert told[0].filename == __file__
    ICA.merge(models[::2])  # no warning


def test_models_that_do_not_fit_together_are_refused() -> None:
    X, _ = mixture(20_000, p=4)
    a = ICA(random_state=0).fit(X)
    with pytest.raises(ParameterError, match="features"):
        ICA.merge([a, ICA(random_state=0).fit(X[:, :3])])
    with pytest.raises(ParameterError, match="shapes"):
        ICA.merge([a, ICA(n_components=2, random_state=0).fit(X)])
    with pytest.raises(ParameterError, match="at least one"):
        ICA.merge([])
    named = [ICA(random_state=0).fit(pd.DataFrame(X, columns=list(names))) for names in ("abcd", "dcba", "abcx")]
    with pytest.raises(DataError, match="order differs: feature 0 is 'd' and was 'a'"):
        ICA.merge(named[:2])
    with pytest.raises(DataError, match="'x' unknown, 'd' missing"):
        ICA.merge(named[::2])
    assert ICA.merge([named[0], a]).n_features_in_ == 4, "nothing to compare without names"
    turned = X @ np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    scale = np.array([10.0, 5.0, 1.0, 0.5])
    with pytest.raises(ParameterError, match="subspaces"):
        ICA.merge([ICA(2, random_state=0).fit(X * scale), ICA(2, random_state=0).fit(turned * scale[::-1])])


def test_merging_one_model_is_that_model() -> None:
    X, _ = mixture(30_000)
    a = ICA(random_state=0, density="huber", n_updates=None).partial_fit(X)
    np.testing.assert_allclose(ICA.merge([a]).components_, a.components_, rtol=0.02, atol=0.02)


# ------------------------------------------------------------------ other threads


def test_transform_in_another_thread_always_sees_one_model() -> None:
    X, _ = mixture(60_000, p=6)
    ica = ICA(random_state=0, density="huber").partial_fit(X[:STARTED] + 100.0)
    probe = X[:200] + 100.0
    stop, wrong = threading.Event(), []

    def watch() -> None:
        while not stop.is_set():
            sources = ica.transform(probe)
            now = vars(ica).copy()
            if not np.isfinite(sources).all():
                wrong.append("not finite")
            product = now["components_"] @ now["mixing_"]
            if np.abs(product - np.eye(6)).max() > 1e-8 or now["n_samples_seen_"] != now["_fitted"].n_samples:
                wrong.append("two models in one")

    threads = [threading.Thread(target=watch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for start in range(STARTED, 60_000, 500):
        ica.partial_fit(X[start : start + 500] + 100.0)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_blocks_from_several_threads_are_all_learnt() -> None:
    X = np.random.default_rng(0).laplace(size=(12_000, 3))
    ica = ICA(random_state=0, density="huber").partial_fit(X[:10_500])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: ica.partial_fit(X[10_500 + 50 * k :][:50]), range(30)))
    assert ica.n_samples_seen_ == len(X)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX only")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_forked_while_a_thread_learns_does_not_wait_for_it() -> None:
    X = np.random.default_rng(0).laplace(size=(12_000, 3))
    reached, go_on = threading.Event(), threading.Event()

    def hold(step: object) -> None:
        reached.set()
        go_on.wait(20)

    ica = ICA(random_state=0, density="huber", callbacks=[hold])
    thread = threading.Thread(target=lambda: ica.partial_fit(X))
    thread.start()
    assert reached.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        ica.set_params(callbacks=None)
        ica.partial_fit(X[:500])
        os._exit(0)
    _, status = os.waitpid(child, 0)
    go_on.set()
    thread.join()
    assert status == 0


def test_a_stream_without_a_model_yet_says_what_it_needs() -> None:
    ica, X = ICA(random_state=0), np.random.default_rng(0).laplace(size=(3, 2))
    ica.partial_fit(X[:1])
    for use in (ica.transform, ica.inverse_transform, ica.score):
        with pytest.raises(NotFittedError, match=r"1 sample\(s\) so far allow no model; give partial_fit more"):
            use(X)
    assert ica.partial_fit(X[1:]).transform(X).shape == (3, 2)

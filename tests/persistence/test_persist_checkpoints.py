"""Checkpoints: the same bits after an interruption, other fits refused by name, failures that keep the old file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from majorica import ICA
from majorica.densities import LogCosh
from majorica.errors import CheckpointError, MajoricaWarning, ParameterError
from majorica.persistence import Checkpoint, atomic
from majorica.sources import as_source

SOLVERS = ["progressive", "incremental", "incremental-codes", "incremental-full", "batch", "online"]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Stopped(Exception):
    """Ends a fit as a crash would."""


def mixture(n: int = 30_000, p: int = 4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.laplace(size=(n, p)) @ rng.normal(size=(p, p))


def make(solver: str, **options: Any) -> ICA:
    name = solver.removesuffix("-full")
    settings: dict[str, Any] = {"random_state": 5, "max_iter": 4, "tol": 0}
    settings |= {"n_updates": None} if solver.endswith("-full") else {}
    return ICA(solver=name, **(settings | options))


def stop_after(steps: int, error: type[BaseException] = Stopped) -> Callable[[Any], None]:
    left = [steps]

    def callback(step: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise error

    return callback


class Counter:
    """Counts steps and remembers where the first one was."""

    def __init__(self) -> None:
        self.passes: list[float] = []

    def __call__(self, step: Any) -> None:
        self.passes.append(step.passes)


def assert_same_bits(a: ICA, b: ICA) -> None:
    for name in ("components_", "mixing_", "mean_", "whitening_", "loss_", "stop_reason_", "densities_", "n_iter_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    for name in ("passes", "n_samples", "loss", "gradient"):
        np.testing.assert_array_equal(a.trace_[name], b.trace_[name], err_msg=name)
    assert (np.diff(b.trace_["seconds"]) >= 0).all()


@pytest.mark.parametrize("density", ["adaptive", "student"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("steps", [1, 7, 17])
def test_resumed_fits_end_in_the_same_bits(solver: str, density: str, steps: int, tmp_path: Path) -> None:
    X, path = mixture(), tmp_path / "run.ckpt"
    whole_steps = Counter()
    whole = make(solver, density=density, callbacks=whole_steps).fit(X)
    if len(whole_steps.passes) <= steps:
        pytest.skip("the fit is over by then")
    with pytest.raises(Stopped):
        make(solver, density=density, callbacks=stop_after(steps)).fit(X, checkpoint=path, checkpoint_every=0)
    if solver == "online" and steps == 1:
        assert not path.exists()  # the first block of a stream was not over
    else:
        assert path.exists()
    rest = Counter()
    again = make(solver, density=density, callbacks=rest).fit(X, checkpoint=path, checkpoint_every=0)
    assert_same_bits(whole, again)
    if steps > 10:
        assert len(rest.passes) < len(whole_steps.passes)
    assert os.listdir(tmp_path) == []  # a finished fit leaves nothing


def test_bursts_and_rare_checkpoints_do_not_change_the_bits(tmp_path: Path) -> None:
    X = mixture()
    plain = make("incremental", batch_size=100).fit(X)
    kept = make("incremental", batch_size=100).fit(X, checkpoint=tmp_path / "a", checkpoint_every=0)
    rare = make("incremental", batch_size=100).fit(X, checkpoint=tmp_path / "b")
    assert_same_bits(plain, kept)
    assert_same_bits(plain, rare)


def test_a_users_density_is_recognised(tmp_path: Path) -> None:
    class Mine(LogCosh):
        code = -1

    Mine.__module__ = "somewhere"
    X, path = mixture(5_000), tmp_path / "run.ckpt"
    whole = make("incremental", density=Mine()).fit(X)
    with pytest.raises(Stopped):
        make("incremental", density=Mine(), callbacks=stop_after(8)).fit(X, checkpoint=path, checkpoint_every=0)
    assert_same_bits(whole, make("incremental", density=Mine()).fit(X, checkpoint=path))


def test_streams_resume_when_they_give_the_same_samples_again(tmp_path: Path) -> None:
    X, path = mixture(40_000), tmp_path / "run.ckpt"

    def blocks(upto: int = 40) -> Any:
        for i in range(upto):
            yield X[1000 * i : 1000 * (i + 1)]
        if upto < 40:
            raise Stopped

    whole = ICA(random_state=0).fit(blocks())
    for upto in (5, 12, 25):  # before and after the start
        with pytest.raises(Stopped):
            ICA(random_state=0).fit(blocks(upto), checkpoint=path, checkpoint_every=0)
    again = ICA(random_state=0).fit(blocks(), checkpoint=path, checkpoint_every=0)
    np.testing.assert_array_equal(whole.components_, again.components_)
    assert again.n_samples_seen_ == 40_000
    with pytest.raises(Stopped):
        ICA(random_state=0).fit(blocks(5), checkpoint=path, checkpoint_every=0)
    with pytest.raises(CheckpointError, match="data was"):
        ICA(random_state=0).fit(iter([X[5:1000]]), checkpoint=path)


CHANGES: dict[str, dict[str, Any]] = {
    "density": {"density": "logcosh"},
    "n_components": {"n_components": 2},
    "batch_size": {"batch_size": 500},
    "n_updates": {"n_updates": 1},
    "tol": {"tol": 0.1},
    "max_iter": {"max_iter": 9},
    "random_state": {"random_state": 6},
    "w_init": {"w_init": np.eye(4)},
}


@pytest.mark.parametrize("name", [*CHANGES, "data", "shape"])
def test_another_call_is_refused_by_name(name: str, tmp_path: Path) -> None:
    X, path = mixture(), tmp_path / "run.ckpt"
    with pytest.raises(Stopped):
        make("incremental", callbacks=stop_after(20)).fit(X, checkpoint=path, checkpoint_every=0)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="solver was incremental, now batch"):
        make("batch").fit(X, checkpoint=path)
    other = {"data": X + 1e-9, "shape": X[:-1]}.get(name, X)
    with pytest.raises(CheckpointError, match=f"{'data' if name == 'shape' else name} was") as caught:
        make("incremental", **CHANGES.get(name, {})).fit(other, checkpoint=path)
    assert isinstance(caught.value, OSError)
    assert path.read_bytes() == before
    make("incremental", n_jobs=1, verbose=0).fit(X, checkpoint=path)  # what does not change the bits may change


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    X, path = mixture(), tmp_path / "run.ckpt"
    with pytest.raises(Stopped):
        make("batch", callbacks=stop_after(2)).fit(X, checkpoint=path, checkpoint_every=0)
    data = path.read_bytes()
    for cut in (0, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(CheckpointError, match="remove it to start"):
            make("batch").fit(X, checkpoint=path)
    path.unlink()
    make("batch").fit(X, checkpoint=path)


# --------------------------------------------------------------- interruptions


@pytest.mark.parametrize("solver", SOLVERS)
def test_ctrl_c_leaves_a_model_and_a_checkpoint(solver: str, tmp_path: Path) -> None:
    X, path = mixture(), tmp_path / "run.ckpt"
    steps = 15 if solver == "online" else 2
    ica = make(solver, callbacks=stop_after(steps, KeyboardInterrupt))
    with pytest.warns(MajoricaWarning, match=r"interrupted after .* passes; .*run\.ckpt"):
        ica.fit(X, checkpoint=path)
    assert ica.stop_reason_.startswith("interrupted")
    assert not ica.converged_
    assert np.isfinite(ica.transform(X)).all()
    whole = make(solver).fit(X)
    if solver != "online":  # there the interrupt fell within a block, and no checkpoint was due yet
        assert path.exists()
    assert_same_bits(whole, make(solver).fit(X, checkpoint=path))


def test_ctrl_c_within_a_step_keeps_the_last_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from majorica.solvers.incremental.solver import Incremental

    X, path = mixture(), tmp_path / "run.ckpt"
    whole = make("incremental").fit(X)
    step, calls = Incremental.step, [0]

    def interrupted(self: Incremental, problem: Any, state: Any) -> None:
        calls[0] += 1
        if calls[0] == 2:
            state.W *= 1.5  # half a step
            raise KeyboardInterrupt
        step(self, problem, state)

    monkeypatch.setattr(Incremental, "step", interrupted)
    with pytest.warns(MajoricaWarning, match="interrupted"):
        make("incremental").fit(X, checkpoint=path, checkpoint_every=0)
    monkeypatch.undo()
    rest = Counter()
    assert_same_bits(whole, make("incremental", callbacks=rest).fit(X, checkpoint=path))
    assert rest.passes[0] > 1.5


def test_ctrl_c_without_a_checkpoint_says_so() -> None:
    with pytest.warns(MajoricaWarning, match="no checkpoint"):
        make("batch", callbacks=stop_after(2, KeyboardInterrupt)).fit(mixture())


# -------------------------------------------------------------------- failures


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_checkpoint(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, path = mixture(), tmp_path / "run.ckpt"
    whole = make("incremental").fit(X)
    with pytest.raises(Stopped):
        make("incremental", callbacks=stop_after(20)).fit(X, checkpoint=path, checkpoint_every=0)
    before = path.read_bytes()

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "write":
        monkeypatch.setattr("majorica.persistence.checkpoints.write_container", full)
    else:
        monkeypatch.setattr(atomic.os, call, full)
    with pytest.raises(CheckpointError, match="No space left"):
        make("incremental").fit(X, checkpoint=path, checkpoint_every=0)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.ckpt"]
    assert_same_bits(whole, make("incremental").fit(X, checkpoint=path))


def test_a_file_size_limit_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    import signal

    X, path = mixture(), tmp_path / "run.ckpt"
    with pytest.raises(Stopped):
        make("incremental", callbacks=stop_after(20)).fit(X, checkpoint=path, checkpoint_every=0)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(CheckpointError, match="could not be written"):
            make("incremental").fit(X, checkpoint=path, checkpoint_every=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    make("incremental").fit(X, checkpoint=path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match="cannot be written"):
        make("batch").fit(mixture(), checkpoint=tmp_path / "nowhere" / "run.ckpt")

    def denied(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(atomic.os, "open", denied)
    with pytest.raises(CheckpointError, match="Permission denied"):
        make("batch").fit(mixture(), checkpoint=tmp_path / "run.ckpt")


def test_two_fits_do_not_share_a_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "run.ckpt"
    with Checkpoint(path), pytest.raises(CheckpointError, match="in use"):
        make("batch").fit(mixture(), checkpoint=path)
    make("batch").fit(mixture(), checkpoint=path)


@pytest.mark.parametrize("every", [-1, float("nan"), "often"])
def test_a_bad_interval_is_named(every: Any, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="checkpoint_every"):
        make("batch").fit(mixture(), checkpoint=tmp_path / "run.ckpt", checkpoint_every=every)


def test_leftovers_of_killed_writers_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".run.ckpt.123.tmp").write_bytes(b"half")
    make("batch").fit(mixture(), checkpoint=tmp_path / "run.ckpt")
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------- memory of incremental on disk


def on_disk_limit(X: np.ndarray, ica: ICA) -> int:
    from majorica.memory import make_plan
    from majorica.parameters import resolve

    plan = make_plan(as_source(X), resolve(ica, ica.solver), n_jobs=1)
    return plan.total - plan.parts["memory of the incremental solver"]


@pytest.mark.parametrize("burst", [False, True])
@pytest.mark.parametrize("solver", ["incremental", "incremental-codes"])
def test_memory_on_disk_resumes_to_the_same_bits(solver: str, burst: bool, tmp_path: Path) -> None:
    X, path = mixture(), tmp_path / "run.ckpt"
    ica = make(solver, n_jobs=1, batch_size=300)
    whole = ica.fit(X)
    limit = on_disk_limit(X, ica)
    for steps in (3, 50, 120):
        with pytest.raises(Stopped):
            make(solver, n_jobs=1, batch_size=300, memory_limit=limit, callbacks=stop_after(steps)).fit(
                X, checkpoint=path, checkpoint_every=0.05
            )
        assert sorted(os.listdir(tmp_path)) == ["run.ckpt", "run.ckpt.touch", "run.ckpt.undo"]
        size = (tmp_path / "run.ckpt.touch").stat().st_size
        assert size == (4 if solver == "incremental" else 1) * X.size
        assert path.stat().st_size < size / 2  # the memory itself is not in it
    callbacks = None if burst else Counter()
    again = make(solver, n_jobs=1, batch_size=300, memory_limit=limit, callbacks=callbacks)
    assert_same_bits(whole, again.fit(X, checkpoint=path))
    assert os.listdir(tmp_path) == []


def test_memory_on_disk_needs_no_checkpoint() -> None:
    X = mixture()
    ica = make("incremental", n_jobs=1)
    whole = ica.fit(X)
    assert_same_bits(whole, make("incremental", n_jobs=1, memory_limit=on_disk_limit(X, ica)).fit(X))


def test_memory_on_disk_stays_safe_when_the_limit_is_lifted(tmp_path: Path) -> None:
    """A fit goes on with another memory_limit and dies between two checkpoints: the memory is put back all the same."""
    X, path = mixture(), tmp_path / "run.ckpt"
    ica = make("incremental", n_jobs=1, batch_size=300)
    whole, limit = ica.fit(X), on_disk_limit(X, ica)
    for steps, options, every in [(50, {"memory_limit": limit}, 0), (30, {}, 1000)]:
        with pytest.raises(Stopped):
            make("incremental", n_jobs=1, batch_size=300, callbacks=stop_after(steps), **options).fit(
                X, checkpoint=path, checkpoint_every=every
            )
    assert_same_bits(whole, make("incremental", n_jobs=1, batch_size=300).fit(X, checkpoint=path))
    assert os.listdir(tmp_path) == []


def test_a_torn_journal_is_read_up_to_the_tear(tmp_path: Path) -> None:
    from majorica.persistence.touch import TouchFile

    path = str(tmp_path / "run.ckpt")
    touch = TouchFile(path)
    array = touch.allocate((100, 3))
    array[:] = np.arange(300).reshape(100, 3)
    wanted = array.copy()
    touch.flush()
    touch.begin(4)
    touch.before_change([(0, 10), (10, 20)])
    touch.before_change([(10, 20), (50, 60)])
    array[0:20] = -1
    touch.flush()
    journal = tmp_path / "run.ckpt.undo"
    journal.write_bytes(journal.read_bytes()[:-5])  # the last record, whose block was not changed yet
    touch.close()
    again = TouchFile(path)
    np.testing.assert_array_equal(again.recover(4, (100, 3)), wanted)
    array[0:20] = -1
    again.close()
    other = TouchFile(path)
    assert (other.recover(5, (100, 3))[0:20] == -1).all()  # the journal of another epoch does not count
    other.close()
    with pytest.raises(CheckpointError, match="missing or of another size"):
        TouchFile(path).recover(5, (101, 3))


def test_a_memory_on_disk_without_room_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from majorica.persistence import touch

    def full(*given: object) -> None:
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(touch.os, "posix_fallocate", full)
    with pytest.raises(CheckpointError, match="no room"):
        touch.TouchFile(str(tmp_path / "run.ckpt")).allocate((100, 3))
    assert os.listdir(tmp_path) == []

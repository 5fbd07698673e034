"""Plain mini-batches of a stream in one call: what the online solver does with one after the other."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from majorica import ICA
from majorica.fitting import make_online
from majorica.kernels import plain as kernels
from majorica.solvers.online import solver as online
from majorica.solvers.online.solver import OnlineState


def sources(kind: str, n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    """Laplace sources, or uniform ones and others among them."""
    draws = [lambda: rng.laplace(size=n), lambda: rng.uniform(-1, 1, n), lambda: rng.standard_t(5, n)]
    return np.column_stack([draws[i % 3 if kind == "mixed" else 0]() for i in range(p)])


def stream(kind: str, n: int, p: int, dtype: type) -> np.ndarray:
    """Mixed sources, in a last block that is no whole mini-batch."""
    rng = np.random.default_rng([n, p])
    return np.ascontiguousarray(sources(kind, n, p, rng) @ rng.normal(size=(p, p)), dtype)


def fitted(X: np.ndarray, monkeypatch: pytest.MonkeyPatch, *, one_by_one: bool, **options: Any) -> ICA:
    """The online fit of X, by the kernel where it can be or by NumPy's orchestration everywhere."""
    calls: list[int] = []
    with monkeypatch.context() as patch:
        learn = online.learn_plainly
        if one_by_one:
            patch.setattr(online, "suits", lambda *_: False)
        patch.setattr(online, "learn_plainly", lambda *given: calls.append(learn(*given)) or calls[-1])
        model = ICA(solver="online", random_state=0, **options).fit(X)
    assert (sum(calls) == 0) == one_by_one
    return model


def assert_same(got: Any, wanted: Any, tolerance: float, where: str = "") -> None:
    """Whether two states are the same to the tolerance, number by number."""
    for field in fields(wanted):
        name, one, other = f"{where}.{field.name}", getattr(got, field.name), getattr(wanted, field.name)
        if is_dataclass(other):
            assert_same(one, other, tolerance, name)
        elif isinstance(other, np.ndarray | float | int):
            scale = float(max(1.0, np.abs(other).max(initial=0)))
            assert type(one) is type(other), name
            np.testing.assert_allclose(one, other, atol=tolerance * scale, rtol=0, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["laplace", "mixed"])
@pytest.mark.parametrize("p", [1, 2, 5, 17, 32])
def test_the_state_is_that_of_one_after_the_other(
    p: int, kind: str, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shapes, averages, rates and all; shapes change on the way."""
    X = stream(kind, 30_000 + 137, p, dtype)
    got, wanted = (fitted(X, monkeypatch, one_by_one=one) for one in (False, True))
    assert got.densities_ == wanted.densities_ or dtype is np.float32
    states = [model._stream.state for model in (got, wanted)]
    assert all(isinstance(state, OnlineState) for state in states)
    assert_same(*states, 1e-11 if dtype is np.float64 else 1e-4)
    np.testing.assert_allclose(got.components_, wanted.components_, atol=1e-11 if dtype is np.float64 else 1e-5)


@pytest.mark.parametrize("options", [{"half_life": 3000}, {"density": "student"}, {"batch_size": 300, "alpha": 0.8}])
def test_options(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    X = stream("laplace", 20_000, 4, np.float64)
    got, wanted = (fitted(X, monkeypatch, one_by_one=one, **options) for one in (False, True))
    assert_same(got._stream.state, wanted._stream.state, 1e-11)


@pytest.mark.filterwarnings("ignore::majorica.errors.MajoricaWarning")
def test_odd_mini_batches_take_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples far out, a flat stretch, a source that falls silent: the same as without the short way."""
    X = stream("mixed", 40_000, 6, np.float64)
    X[15_000] *= 1e4
    X[18_000:19_500, 2] = X[18_000, 2]
    X[25_000:] *= 30
    got, wanted = (fitted(X, monkeypatch, one_by_one=one) for one in (False, True))
    assert wanted._stream.state.excess > 10
    assert wanted._stream.state.unlearnt > 0
    assert_same(got._stream.state, wanted._stream.state, 1e-9)


def test_few_samples_and_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few to tell whether they are flat."""
    X = stream("laplace", 12_000, 5, np.float64)
    models = []
    for one_by_one in (False, True):
        with monkeypatch.context() as patch:
            if one_by_one:
                patch.setattr(online, "suits", lambda *_: False)
            model = ICA(solver="online", random_state=0).partial_fit(X[:11_000])
            for first in range(11_000, 12_000, 7):
                model.partial_fit(X[first : first + 7])
        models.append(model)
    assert_same(models[0]._stream.state, models[1]._stream.state, 1e-11)


def test_an_odd_first_mini_batch_leaves_no_trace() -> None:
    """Means that nothing went into are not there: whoever learns it next would take them for known."""
    model = ICA(solver="online", random_state=0).partial_fit(stream("mixed", 10_000, 4, np.float64))
    session = model._stream
    before = deepcopy(session.state)
    far = 1e6 * np.random.default_rng(0).normal(size=(1000, 4))
    assert online.learn_plainly(make_online(session.options), session.state, far) == 0
    assert_same(session.state, before, 0.0)


def test_ctrl_c_in_the_kernel_loses_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised once the call is over: all that was learnt in it is the model's."""
    X = stream("mixed", 12_000, 4, np.float64)
    model, own = ICA(solver="online", random_state=0).partial_fit(X[:10_000]), kernels.run_plain

    def interrupted(*given: Any) -> Any:
        own(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kernels, "run_plain", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[10_000:])
    wanted = ICA(solver="online", random_state=0).partial_fit(X[:10_000]).partial_fit(X[10_000:11_000])
    assert model.n_samples_seen_ == 11_000
    wanted._stream.state.passes = model._stream.state.passes  # of the trace, in which the call is not
    assert_same(model._stream.state, wanted._stream.state, 0.0)

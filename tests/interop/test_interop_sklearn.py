"""Habits of scikit-learn users: pipelines, searches, data frames, column names, clones, the notebook's repr."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from majorica import ICA

RNG = np.random.default_rng(0)
S = RNG.laplace(size=(2000, 4))
X = S @ RNG.standard_normal((4, 4))
FRAME = pd.DataFrame(X, columns=list("abcd"))


def test_pipeline_ends_in_a_classifier():
    labels = S[:, 1] > 0.3
    pipeline = make_pipeline(StandardScaler(), ICA(random_state=0), LogisticRegression())
    assert cross_val_score(pipeline, X, labels, cv=3).mean() > 0.98
    sources = pipeline[:-1].fit(X).transform(X)
    best = np.abs(np.corrcoef(sources.T, S.T)[:4, 4:]).max(axis=0)
    assert best.min() > 0.99
    np.testing.assert_allclose(pipeline[:-1].inverse_transform(sources), X, atol=1e-10)


def test_grid_search_by_likelihood():
    search = GridSearchCV(ICA(random_state=0), {"n_components": [2, 3, 4]}, cv=3).fit(X)
    assert search.best_params_["n_components"] in (2, 3, 4)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    densities = GridSearchCV(ICA(random_state=0), {"density": ["huber", "student"]}, cv=3).fit(X)
    assert np.isclose(densities.best_score_, densities.best_estimator_.score(X), atol=0.5)


def test_pandas_output():
    ica = ICA(3, random_state=0).set_output(transform="pandas")
    sources = ica.fit_transform(FRAME)
    assert list(sources.columns) == ["ica0", "ica1", "ica2"]
    assert sources.index.equals(FRAME.index)
    assert list(ica.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names should match"):
        ica.transform(FRAME[list("dcba")])


def test_column_transformer_names():
    frame = FRAME.assign(kind=np.arange(len(FRAME)) % 2)
    transformer = ColumnTransformer([("eeg", ICA(2, random_state=0), ["a", "b", "c"])], remainder="passthrough")
    transformer.set_output(transform="pandas")
    assert list(transformer.fit_transform(frame).columns) == [
        "eeg__ica0",
        "eeg__ica1",
        "remainder__d",
        "remainder__kind",
    ]


def test_clone_keeps_every_parameter():
    def watch(step):
        return None

    ica = ICA(3, solver="batch", density="huber", tol=1e-3, callbacks=[watch], n_jobs=1, random_state=3)
    assert clone(ica).get_params() == ica.get_params()
    ica.fit(X)
    assert not hasattr(clone(ica), "components_")
    np.testing.assert_array_equal(clone(ica).fit(X).components_, ica.components_)
    assert ica.set_params(n_components=2).fit(X).n_components_ == 2


def test_callbacks_see_each_step_and_stop():
    seen = []

    def watch(step):
        seen.append((step.passes, step.loss, step.unmixing.shape))
        return len(seen) == 3

    ica = ICA(solver="batch", tol=0, max_iter=50, callbacks=watch, random_state=0).fit(X)
    assert len(seen) == len(ica.trace_) == 3
    assert seen[0][2] == (4, 4)
    assert seen[0][1] >= seen[1][1] >= seen[2][1]
    assert ica.stop_reason_ == "stopped by a callback"


def test_repr_links_to_the_documentation():
    html = ICA(3)._repr_html_()
    assert "majorica.readthedocs.io" in html
    assert repr(ICA(3)) == "ICA(n_components=3)"

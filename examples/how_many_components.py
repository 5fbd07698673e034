"""How many components?
====================

ICA is a scikit-learn transformer with a likelihood, so a grid search chooses
the density, and a pipeline with a classifier chooses the number of components
that serve a purpose.

Run it: ``python examples/how_many_components.py [figure.png]``
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from majorica import ICA


def main(path="how_many_components.png"):
    rng = np.random.default_rng(0)
    S = rng.standard_t(3, size=(4000, 8)) * np.array([3, 2.5, 2, 1.5, 1, 1, 0.3, 0.3])
    X = S @ rng.normal(size=(8, 20)) + 0.2 * rng.standard_normal((4000, 20))
    labels = S[:, 3] > 0.5

    by_likelihood = GridSearchCV(ICA(8, random_state=0), {"density": ["huber", "logcosh", "student"]}, cv=3).fit(X)
    print("density with the best held-out likelihood:", by_likelihood.best_params_["density"])

    pipeline = make_pipeline(StandardScaler(), ICA(random_state=0), LogisticRegression())
    counts = [1, 2, 4, 6, 8, 12]
    search = GridSearchCV(pipeline, {"ica__n_components": counts}, cv=3).fit(X, labels)
    print("components that serve the classifier best:", search.best_params_["ica__n_components"])

    figure, axis = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
    axis.plot(counts, search.cv_results_["mean_test_score"], "o-", color="#0f766e")
    axis.set(xlabel="components", ylabel="accuracy of the classifier")
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    return search


if __name__ == "__main__":
    main(*sys.argv[1:])

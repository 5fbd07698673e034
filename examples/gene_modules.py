"""Modules of genes
================

Expression of 5,000 genes in 300 samples (synthetic): twelve processes each
switch a few dozen genes on and off. Genes are the observations here, samples
the features, so ICA gives one sparse gene signature a process.

Run it: ``python examples/gene_modules.py [figure.png]``
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from majorica import ICA


def simulate(n_samples=300, n_genes=5000, n_modules=12, seed=0):
    """Log expression ``(n_samples, n_genes)``, and which genes each module holds."""
    rng = np.random.default_rng(seed)
    members = rng.random((n_modules, n_genes)) < 0.012
    loadings = members * rng.normal(2.0, 0.5, (n_modules, n_genes)) * rng.choice([-1, 1], (n_modules, n_genes))
    activity = rng.gamma(2.0, size=(n_samples, n_modules))
    noise = 0.8 * rng.standard_normal((n_samples, n_genes))
    return activity @ loadings + rng.normal(6, 2, n_genes) + noise, members


def main(path="gene_modules.png"):
    expression, members = simulate()
    centred = expression - expression.mean(axis=0)  # each gene about its own mean

    ica = ICA(12, random_state=0)
    signatures = ica.fit_transform(centred.T).T  # (12, 5000): one row a module
    activity = ica.mixing_  # (300, 12): how active each module is in each sample

    found = np.abs(signatures) > 3
    shared = found.astype(float) @ members.T.astype(float)
    precision = (shared / found.sum(axis=1, keepdims=True)).max(axis=1)
    recall = (shared / members.sum(axis=1)).max(axis=0)
    print(f"{ica.stop_reason_}, activity {activity.shape}")
    print(f"genes beyond 3 deviations: precision {precision.mean():.2f}, recall {recall.mean():.2f}")

    best = shared.argmax(axis=1)
    figure, axes = plt.subplots(3, 1, figsize=(8, 3.8), sharex=True, layout="constrained")
    for k, axis in enumerate(axes):
        inside = members[best[k]]
        axis.plot(np.flatnonzero(~inside), signatures[k, ~inside], ".", ms=2, color="#c3ccd4")
        axis.plot(np.flatnonzero(inside), signatures[k, inside], ".", ms=4, color="#0f766e")
        axis.set_ylabel(f"signature {k}")
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("gene (true members of the module in green)")
    figure.savefig(path, dpi=120)
    return precision.mean(), recall.mean()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Four solvers, one loss
======================

The same data, the same loss, four ways down, and no step size to set. All but
the online solver lower their own objective at every step; what is drawn is the
loss on samples that were left out. The progressive solver (the default) starts
on few samples, so it is nearly done before the others have seen all data once.

Run it: ``python examples/compare_solvers.py [figure.png]``
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from majorica import ICA
from majorica.metrics import left_out_loss

COLOURS = {"progressive": "#0f766e", "incremental": "#b45309", "batch": "#4338ca", "online": "#be185d"}


def main(path="compare_solvers.png", n=50_000, p=10):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(p, p))
    X, left_out = (rng.laplace(size=(m, p)) @ A.T for m in (n, 10_000))

    curves, end = {}, np.inf
    for solver in COLOURS:
        record = []

        def watch(step, record=record):
            record.append((step.seconds, step.unmixing))

        passes = {"online": 3, "batch": 25, "incremental": 12}.get(solver)
        ica = ICA(solver=solver, density="huber", max_iter=passes, tol=0 if passes else None, callbacks=watch)
        ica.set_params(random_state=0).fit(X)
        centred = left_out - ica.mean_
        seconds = [s for s, _ in record]
        losses = [left_out_loss(W @ ica.whitening_, centred) for _, W in record]
        curves[solver] = (seconds, losses)
        end = min(end, *losses)
        falls = np.diff(ica.trace_["loss"][ica.trace_["n_samples"] == n])
        rises = int((falls > 1e-12).sum())
        print(f"{solver:12s} {ica.n_iter_:3d} passes, {seconds[-1]:.2f} s, rises of its own objective: {rises}")

    figure, axis = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for solver, (seconds, losses) in curves.items():
        axis.loglog(np.maximum(seconds, 1e-3), np.array(losses) - end + 1e-5, color=COLOURS[solver], label=solver)
    axis.set(xlabel="seconds", ylabel="loss on left-out samples, above the best")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])

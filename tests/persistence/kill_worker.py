"""Run by test_persist_kills.py: kill a checkpointed fit at random moments, resume, compare the bits.

Arguments: solver, number of kills, seed, working directory. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings

import numpy as np

from majorica import ICA
from majorica.errors import MemoryLimitError
from majorica.persistence.container import read_container

warnings.simplefilter("ignore")
SIZES = {"progressive": 30_000, "incremental": 12_000, "incremental-on-disk": 12_000, "batch": 8_000, "online": 150_000}


def settings(solver: str) -> dict[str, object]:
    plain = solver.removesuffix("-on-disk")
    options: dict[str, object] = {"solver": plain, "random_state": 3, "tol": 0, "n_jobs": 1}
    options["max_iter"] = {"progressive": 30, "batch": 25, "online": 1}.get(plain, 4)
    if plain == "incremental":
        options |= {"batch_size": 300, "density": "huber"}
    if solver.endswith("-on-disk"):
        options["memory_limit"] = smallest_limit(options)
    return options


def smallest_limit(options: dict[str, object]) -> str:
    """A limit that only the memory on disk fits."""
    for limit in range(200_000, 20_000_000, 20_000):
        try:
            from majorica.memory import make_plan
            from majorica.parameters import resolve
            from majorica.sources import as_source

            ica = ICA(**options)
            plan = make_plan(as_source(data("incremental")), resolve(ica, "incremental"), n_jobs=1, memory_limit=limit)
        except MemoryLimitError:
            continue
        assert plan.touch_on_disk
        return str(limit)
    raise AssertionError("no limit found")


def data(solver: str) -> np.ndarray:
    rng = np.random.default_rng(11)
    return rng.laplace(size=(SIZES[solver], 5)) @ rng.normal(size=(5, 5))


def fit(solver: str, X: np.ndarray, path: str | None, log: str, pause: float) -> ICA:
    with open(log, "w", buffering=1) as steps:

        def note(step: object) -> None:
            steps.write(f"{step.passes} {getattr(step.state, 'seen', 0)}\n")
            time.sleep(pause)

        return ICA(**settings(solver), callbacks=note).fit(X, checkpoint=path, checkpoint_every=0)


def lines(path: str) -> list[float]:
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [float(line.split()[0]) for line in file if line.endswith("\n")]


def ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def main() -> None:
    solver, kills, seed, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    rng = np.random.default_rng(seed)
    X = data(solver)
    path = os.path.join(folder, "run.ckpt")
    whole_log = os.path.join(folder, "whole.log")
    wanted = fit(solver, X, None, whole_log, 0.0)
    total = len(lines(whole_log))
    first, killed, unreadable = [], 0, 0
    for attempt in range(kills):
        log = os.path.join(folder, f"{attempt}.log")
        child = os.fork()
        if child == 0:
            fit(solver, X, path, log, 0.01)
            os._exit(0)
        give_up = time.monotonic() + 30
        # The second step begins when the checkpoint of the first is written: on a busy machine too, some way is made.
        while not (os.path.exists(path) and len(lines(log)) > 1) and time.monotonic() < give_up and not ended(child):
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.01 * max(1.0, total / (kills + 1) - 2)))
        os.kill(child, signal.SIGKILL)
        killed += os.waitpid(child, 0)[1] == signal.SIGKILL
        first.append(lines(log)[0] if lines(log) else None)
        if not os.path.exists(path):
            break
        try:
            read_container(path, schema="majorica checkpoint", version=1)
        except ValueError:
            unreadable += 1
    last_log = os.path.join(folder, "last.log")
    resumed = fit(solver, X, path, last_log, 0.0)
    same = all(
        np.array_equal(getattr(wanted, name), getattr(resumed, name))
        for name in ("components_", "mixing_", "mean_", "whitening_")
    )
    same &= wanted.loss_ == resumed.loss_ and wanted.stop_reason_ == resumed.stop_reason_
    same &= all(
        np.array_equal(wanted.trace_[name], resumed.trace_[name], equal_nan=name == "gradient")
        for name in ("passes", "n_samples", "loss", "gradient")
    )
    first.append(lines(last_log)[0] if lines(last_log) else None)
    print(
        json.dumps(
            {
                "same": bool(same),
                "killed": killed,
                "unreadable": unreadable,
                "first": first,
                "steps": len(lines(last_log)),
                "total": total,
                "left": sorted(os.listdir(folder)),
            }
        )
    )


if __name__ == "__main__":
    main()

"""``majorica fit``."""

from __future__ import annotations

from typing import Any

from majorica.cli.failures import INTERRUPTED, NOT_CONVERGED, Stop, UsageError
from majorica.cli.files import check_output, open_source
from majorica.cli.messages import emit, progress_level, say, spoken_warnings
from majorica.cli.words import for_the_shell


def run(
    *,
    inputs: list[str],
    output: str,
    n_components: str | None,
    solver: Any,
    density: Any,
    whiten: Any,
    max_iter: int | None,
    tol: float | None,
    batch_size: int | None,
    seed: int,
    jobs: int | None,
    memory_limit: str | None,
    checkpoint: str | None,
    checkpoint_every: float,
    layout: Any,
    picks: str | None,
    n_features: int | None,
    force: bool,
    as_json: bool,
    verbose: int,
    quiet: bool,
) -> None:
    """Fit the file and write the model; raises Stop with 4 or 130 if it did not converge."""
    components = parse_components(n_components)
    check_output(output, force=force, inputs=tuple(inputs), ending=".npz")
    with spoken_warnings(quiet=quiet):
        data = open_source(inputs, layout=layout, picks=picks, n_features=n_features)
        from majorica import ICA

        ica = ICA(
            components,
            solver=solver.value,
            density=density.value,
            whiten=whiten.value,
            max_iter=max_iter,
            tol=tol,
            batch_size="auto" if batch_size is None else batch_size,
            random_state=seed,
            n_jobs=jobs,
            memory_limit=memory_limit,
            verbose=progress_level(verbose=verbose, quiet=quiet),
        )
        ica.fit(data, checkpoint=checkpoint, checkpoint_every=checkpoint_every)
        ica.set_params(verbose=0)
        ica.save(output)
    if as_json:
        emit({"model": output, **describe(ica)})
    if not quiet:
        say(f"{sentence(ica)}; wrote {output}")
    if ica.stop_reason_.startswith("interrupted"):
        raise Stop(INTERRUPTED)
    # tol=0 asks for all passes, which were made.
    if not ica.converged_ and tol != 0:
        raise Stop(NOT_CONVERGED)


def parse_components(text: str | None) -> int | float | None:
    """A number of components, or a share of variance between 0 and 1."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise UsageError(f"--n-components {text}: must be a whole number, or a share of variance between 0 and 1")
    return value


def describe(ica: Any) -> dict[str, Any]:
    """The result of a fit in numbers."""
    return {
        "n_samples": int(ica.n_samples_seen_),
        "n_features": int(ica.n_features_in_),
        "n_components": int(ica.n_components_),
        "rank": int(ica.rank_),
        "passes": float(ica._fitted.passes),
        "seconds": float(ica.trace_["seconds"][-1]) if len(ica.trace_) else None,
        "loss": float(ica.loss_),
        "gradient": float(ica._fitted.gradient),
        "converged": bool(ica.converged_),
        "stop_reason": str(ica.stop_reason_),
        "densities": list(ica.densities_),
    }


def sentence(ica: Any) -> str:
    """The result of a fit in a line."""
    seconds = float(ica.trace_["seconds"][-1]) if len(ica.trace_) else 0.0
    return (
        f"{ica.n_components_} components of {ica.n_samples_seen_:,} samples in {seconds:.1f} s, "
        f"{ica._fitted.passes:.3g} passes, loss {ica.loss_:.4f}; {for_the_shell(ica.stop_reason_)}"
    )

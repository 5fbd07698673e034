"""How to repeat a fit: its parameters as a shell command and as Python."""

from __future__ import annotations

import inspect
import shlex
from typing import Any

#: Parameters of the estimator and the options of ``majorica fit`` that set them.
OPTIONS = {
    "n_components": "--n-components",
    "solver": "--solver",
    "density": "--density",
    "whiten": "--whiten",
    "max_iter": "--max-iter",
    "tol": "--tol",
    "random_state": "--seed",
    "memory_limit": "--memory-limit",
    "batch_size": "--batch-size",
}
#: Parameters that do not change the result.
_SILENT = {"verbose", "n_jobs", "callbacks"}


def defaults(ica: Any) -> dict[str, Any]:
    """Default values of the estimator's parameters."""
    parameters = inspect.signature(type(ica).__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def changed(ica: Any) -> dict[str, Any]:
    """Parameters that change the result and are not at their defaults."""
    usual = defaults(ica)
    return {
        name: value
        for name, value in ica.get_params(deep=False).items()
        if name not in _SILENT and not _same(value, usual.get(name))
    }


def _same(value: Any, usual: Any) -> bool:
    return value is usual or (type(value) is type(usual) and bool(value == usual))


def shell_command(ica: Any, path: str, output: str = "model.npz") -> str:
    """The ``majorica fit`` command that repeats the fit of the file `path`."""
    words = ["majorica", "fit", path, "-o", output]
    for name, value in changed(ica).items():
        if name in OPTIONS and isinstance(value, str | int | float):
            words += [OPTIONS[name], str(value)]
    return shlex.join(words)


def python_lines(ica: Any, path: str | None = None) -> str:
    """Python that repeats the fit."""
    arguments = ", ".join(f"{name}={_short(value)}" for name, value in changed(ica).items())
    data = "X" if path is None else repr(path if len(path) < 300 else path[:297] + "...")
    return f"from majorica import ICA\n\nica = ICA({arguments}).fit({data})"


def parameter_rows(ica: Any) -> list[tuple[str, str, bool]]:
    """Name, value, and whether it differs from the default, for every parameter."""
    differs = changed(ica)
    return [(name, _short(value), name in differs) for name, value in ica.get_params(deep=False).items()]


def _short(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"<array of shape {shape}>"
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"

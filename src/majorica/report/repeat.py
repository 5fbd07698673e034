"""How to repeat a fit: its parameters as a shell command and as Python."""

from __future__ import annotations

import inspect
import numbers
import os
import shlex
from dataclasses import replace
from typing import Any

from majorica.densities.base import Density
from majorica.origin import FileUse, Origin
from majorica.solvers import StopReason

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


def origin(ica: Any) -> Origin:
    """How the model came to be, as far as it says."""
    known: Origin = vars(ica).get("_origin", Origin("unknown"))
    return known


def fitted_path(ica: Any) -> str | None:
    """The one file that was fitted, if it was one."""
    return path_in(origin(ica))


def path_in(how: Origin) -> str | None:
    """The one file of an origin, if it is one."""
    return named(how.files[0]) if len(how.files) == 1 and not how.joined else None


def heading(how: Origin) -> str:
    """The files of an origin in a few words, without their folders; empty if there are none."""
    if not how.files:
        return ""
    more = f" and {len(how.files) - 1} more" if len(how.files) > 1 else ""
    return os.path.basename(how.files[0].path) + more


def named(file: FileUse) -> str:
    """A file as ``as_source`` and the program take it, with the array inside it."""
    return file.path if file.member is None else f"{file.path}:{file.member}"


def shell_command(ica: Any, output: str = "model.npz") -> str | None:
    """The ``majorica fit`` command that repeats the fit, if there is one."""
    how = origin(ica)
    if how.call != "fit" or how.blocks or not how.files or how.joined != (len(how.files) > 1):
        return None
    file, options = how.files[0], []
    if any(replace(other, path=file.path, member=file.member) != file for other in how.files):
        return None  # each was read in its own way
    picks = [file.picks] if isinstance(file.picks, str) else file.picks
    if file.odd_picks or any(not isinstance(pick, str) or "," in pick for pick in picks or ()):
        return None
    if file.layout is not None:
        options += ["--layout", file.layout]
    if picks:
        options += ["--picks", ",".join(map(str, picks))]
    for name, value in changed(ica).items():
        if name not in OPTIONS or isinstance(value, bool) or not isinstance(value, str | numbers.Real):
            return None
        options += [OPTIONS[name], str(value)]
    return shlex.join(["majorica", "fit", *map(named, how.files), "-o", output, *options])


def python_lines(ica: Any) -> str:
    """Python that repeats the fit; ``X``, ``raw``, ``blocks`` and ``models`` stand for what the model does not say."""
    how = origin(ica)
    arguments = ", ".join(f"{name}={_short(value)}" for name, value in changed(ica).items())
    packages = ["from majorica import ICA"]
    data = _data(how)
    if "as_source" in data:
        packages.append("from majorica.sources import as_source")
    if how.call in ("fit_raw", "fit_epochs"):
        packages[0] = f"from majorica.interop.mne import {how.call}"
        things = "raw" if how.call == "fit_raw" else "epochs"
        lines = [f"ica = {how.call}({', '.join([things, *([arguments] if arguments else [])])})"]
    elif how.call == "merge":
        lines = ["ica = ICA.merge(models)"]
    elif how.call == "partial_fit":
        lines = [f"ica = ICA({arguments})"]
    else:
        lines = [f"ica = ICA({arguments}).fit({data})"]
    if how.blocks or how.call == "partial_fit":
        lines += ["for block in blocks:", "    ica.partial_fit(block)"]
    return "\n".join([*packages, "", *lines])


def _data(how: Origin) -> str:
    """What was fitted, as Python."""
    if not how.files:
        return "X"
    parts = [_file(file) for file in how.files]
    return f"as_source([{', '.join(parts)}])" if how.joined else parts[0]


def _file(file: FileUse) -> str:
    path = named(file)
    shown = repr(path if len(path) < 300 else path[:297] + "...")
    options = {name: getattr(file, name) for name in ("layout", "picks") if getattr(file, name) is not None}
    if not options:
        return shown
    return f"as_source({shown}, {', '.join(f'{name}={value!r}' for name, value in options.items())})"


#: What the lines above leave open, by the call that made the model.
_OPEN = {
    "unknown": "The model does not say what it was fitted on.",
    "elsewhere": "The components were found by another program; the lines only show how a fit would look.",
    "partial_fit": "The model has learnt block by block; which blocks came, and in which order, it does not say.",
    "fit_raw": "The recording, and which channels and samples of it were used, are not part of the model.",
    "fit_epochs": "The epochs, and which channels and samples of them were used, are not part of the model.",
    "merge": "The model was merged of others; how those were fitted it does not say.",
}


def notes(ica: Any) -> list[str]:
    """What it takes to repeat the fit and cannot be known, in sentences."""
    how, differs = origin(ica), changed(ica)
    found = [_OPEN[how.call]] if how.call in _OPEN else []
    if how.call == "fit" and how.kind == "stream":
        found.append("It was fitted on a stream; the same blocks would have to come again.")
    elif how.call == "fit" and not how.files:
        found.append(f"X is what was fitted ({how.kind}); it was no file, so the model cannot name it.")
    if any(file.odd_picks for file in how.files):
        found.append("Channels were picked in a way that the model does not keep.")
    if how.blocks:
        found.append("It went on learning from blocks, which the model does not name.")
    if how.call in ("fit", "fit_raw", "fit_epochs"):
        if ica.random_state is None:
            found.append("No random_state was set: a repeat starts elsewhere and may end a little elsewhere.")
        hidden = [name for name, value in differs.items() if not _is_plain(value)]
        if hidden:
            found.append(f"Not shown as Python: {', '.join(hidden)}.")
        if ica._fitted.stop in (StopReason.CALLBACK, StopReason.INTERRUPTED):
            found.append("The fit was stopped early; a repeat goes on to its end.")
    return found


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def parameter_rows(ica: Any) -> list[tuple[str, str, bool]]:
    """Name, value, and whether it differs from the default, for every parameter."""
    differs = changed(ica)
    return [(name, _short(value), name in differs) for name, value in ica.get_params(deep=False).items()]


def _short(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape and not isinstance(value, Density):
        return f"<array of shape {shape}>"
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"

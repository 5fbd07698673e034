"""Inputs and outputs of the commands."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from majorica.cli.failures import UsageError

#: Endings of what people expect a program to write, beside those of formats that are read.
_OTHERS = {".mat", ".txt", ".json", ".pkl", ".pickle", ".joblib", ".onnx", ".pdf", ".png", ".fdt"}


def open_source(
    inputs: Sequence[str], *, layout: Any = None, picks: str | None = None, n_features: int | None = None
) -> Any:
    """INPUT as a source, or several joined one after the other."""
    from majorica.sources import as_source

    chosen = None if picks is None else [name.strip() for name in picks.split(",") if name.strip()]
    if len(inputs) > 1 and "-" in inputs:
        raise UsageError("-: the standard input cannot be joined with files; give it alone")
    given = inputs[0] if len(inputs) == 1 else list(inputs)
    return as_source(given, layout=None if layout is None else layout.value, n_features=n_features, picks=chosen)


def load_model(path: str) -> Any:
    """The model in a file."""
    from majorica import ICA
    from majorica.errors import ModelFileError

    ica = ICA.load(path)
    if not hasattr(ica, "components_"):
        raise ModelFileError(f"{path}: the model has seen too few samples to be used")
    return ica


def check_output(output: str, *, force: bool, inputs: tuple[str, ...] = (), ending: str | None = None) -> None:
    """Refuse an output that could not be written, or is named as data of another kind than `ending`, before any work.

    Devices and pipes are written through, which replaces nothing and needs no `force`.
    """
    from majorica.persistence.atomic import is_channel

    if not output or "\0" in output:
        raise UsageError("the output needs a name")
    folder = os.path.dirname(os.path.realpath(output))
    exists = os.path.exists(output)
    if not exists and not os.path.isdir(folder):
        raise UsageError(f"{output}: the directory {folder} does not exist")
    try:
        channel = is_channel(output)
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror}") from error
    for path in inputs:
        if exists and os.path.exists(path) and os.path.samefile(path, output):
            raise UsageError(f"{output}: is an input too; choose another output")
    if ending is not None and not channel:
        check_ending(output, ending)
    if exists and not channel and not force:
        raise UsageError(f"{output}: exists; pass --force to replace it")
    if not os.access(output if channel else folder, os.W_OK):
        raise PermissionError(13, "permission denied, cannot write there", output)


def check_ending(output: str, ending: str) -> None:
    """Refuse a name under which other programs, and this one, would expect another format."""
    stem, given = os.path.splitext(output)
    if given.lower() == ending:
        return
    from majorica.sources import FORMATS

    if given.lower() in FORMATS or given.lower() in _OTHERS:
        raise UsageError(f"{output}: what is written here is a {ending} file, no {given}; name it {stem}{ending}")

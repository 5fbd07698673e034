"""``majorica report``."""

from __future__ import annotations

import re
from typing import Any

from majorica.cli.failures import UsageError
from majorica.cli.files import check_output, load_model, open_source
from majorica.cli.messages import emit, say, spoken_warnings


def run(
    *,
    model: str,
    inputs: list[str],
    output: str,
    title: str | None,
    sfreq: float | None,
    image_shape: str | None,
    layout: Any,
    picks: str | None,
    n_features: int | None,
    force: bool,
    as_json: bool,
    verbose: int,
    quiet: bool,
) -> None:
    """Write the page on a model and its data."""
    shape = parse_image_shape(image_shape)
    check_output(output, force=force, inputs=(*inputs, model), ending=".html")
    with spoken_warnings(quiet=quiet):
        ica = load_model(model)
        data = open_source(inputs, layout=layout, picks=picks, n_features=n_features)
        from majorica.persistence.atomic import write_atomically
        from majorica.report import Report

        page = Report(ica, data, title=title, sfreq=sfreq, image_shape=shape).html.encode("utf-8")
        write_atomically(output, lambda file: file.write(page))
    size = len(page)
    if as_json:
        emit({"output": output, "bytes": size, "n_components": int(ica.n_components_)})
    if not quiet:
        say(f"report of {ica.n_components_} components, {size / 1e6:.2f} MB; wrote {output}")


def parse_image_shape(text: str | None) -> tuple[int, int] | bool | None:
    """``HxW`` as two numbers, ``none`` as False."""
    if text is None:
        return None
    if text.lower() == "none":
        return False
    found = re.fullmatch(r"(\d{1,6})[xX,](\d{1,6})", text)
    if found is None:
        raise UsageError(f"--image-shape {text}: must be like 10x10, or none")
    return int(found[1]), int(found[2])

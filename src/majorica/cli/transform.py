"""``majorica transform``: block by block, in constant memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from majorica.cli.failures import UsageError
from majorica.cli.files import check_output, load_model, open_source
from majorica.cli.messages import emit, progress_level, say, spoken_warnings
from majorica.cli.streams import need_stdout


def run(
    *,
    model: str,
    inputs: list[str],
    output: str,
    layout: Any,
    picks: str | None,
    n_features: int | None,
    force: bool,
    as_json: bool,
    verbose: int,
    quiet: bool,
) -> None:
    """Write the sources of files as a .npy array; the output appears when it is whole."""
    to_stdout = output == "-"
    if to_stdout and as_json:
        raise UsageError("--json and -o - both want the standard output; choose one")
    if to_stdout:
        need_stdout()
    else:
        check_output(output, force=force, inputs=(*inputs, model), ending=".npy")
    with spoken_warnings(quiet=quiet):
        ica = load_model(model)
        if inputs == ["-"] and n_features is None:
            n_features = int(ica.n_features_in_)
        live = inputs == ["-"] and to_stdout and layout is None and picks is None
        if live:
            data = live_source(n_features)
        else:
            data = open_source(inputs, layout=layout, picks=picks, n_features=n_features)
        with bar(data.n_samples, show=progress_level(verbose=verbose, quiet=quiet) > 0) as advance:
            if live:
                n = pass_on(ica, data, sys.stdout.buffer, advance)
            elif to_stdout:
                n = write_sources(ica, data, sys.stdout.buffer, advance)
            else:
                n = _to_file(ica, data, output, advance)
    if as_json:
        emit({"output": output, "n_samples": n, "n_components": int(ica.n_components_), "dtype": str(data.dtype)})
    if not quiet and not to_stdout:
        say(f"{ica.n_components_} sources of {n:,} samples; wrote {output}")


def _to_file(ica: Any, data: Any, output: str, advance: Callable[[int], None]) -> int:
    from majorica.persistence.atomic import write_atomically

    written = []
    write_atomically(output, lambda file: written.append(write_sources(ica, data, file, advance)))
    return written[0]


def write_sources(ica: Any, data: Any, file: IO[bytes], advance: Callable[[int], None]) -> int:
    """Write a .npy array of the sources of `data` to `file`, and return how many samples it has."""
    import numpy as np

    from majorica.inputs import check_features
    from majorica.sources import as_source
    from majorica.sources.spool import SpoolWriter
    from majorica.units import in_unit_of

    check_features(ica, data)
    data = in_unit_of(ica, data)
    k = int(ica.n_components_)
    if data.n_samples is None:
        writer = SpoolWriter(file, n_features=k, dtype=data.dtype)
        for block in data:
            writer.append(ica.transform(as_source(block)))
            advance(len(block))
        writer.finish()
        return writer.n_samples
    descr = np.lib.format.dtype_to_descr(data.dtype)
    shape = (int(data.n_samples), k)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    for block in blocks_of(data):
        file.write(np.ascontiguousarray(ica.transform(as_source(block)), dtype=data.dtype).data)
        advance(len(block))
    return shape[0]


def live_source(n_features: int | None) -> Any:
    """Raw samples from the standard input as they come."""
    from majorica.sources.stream import raw_stream

    return raw_stream(sys.stdin.buffer, n_features=n_features, live=True)


def pass_on(ica: Any, data: Any, file: IO[bytes], advance: Callable[[int], None]) -> int:
    """Write the sources of a stream as raw little-endian float32, each block as soon as it is there."""
    import numpy as np

    from majorica.inputs import check_features
    from majorica.sources import as_source
    from majorica.units import in_unit_of

    check_features(ica, data)
    stream: Any = in_unit_of(ica, data)
    n = 0
    for block in stream:
        file.write(np.ascontiguousarray(ica.transform(as_source(block)), dtype="<f4").data)
        file.flush()
        advance(len(block))
        n += len(block)
    return n


def blocks_of(data: Any) -> Iterator[Any]:
    """All samples in order, about 8 MB at a time."""
    from majorica.sources import split_blocks

    length = max(256, 2**20 // max(1, data.n_features))
    for ((start, stop),) in split_blocks(data.n_samples, length):
        yield data.read(start, stop)


@contextmanager
def bar(total: int | None, *, show: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr over `total` samples; yields what moves it."""
    if not show or not sys.stderr.isatty():
        yield lambda samples: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(bar_width=24), TextColumn("{task.completed:,} samples"), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda samples: progress.advance(task, samples)

"""Well-signed files whose arrays and numbers lie, one by one: ``python lying_files.py FOLDER CASE ...`` tells of each.

In a process of its own, as what lies might crash it.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from majorica import ICA
from majorica.errors import CheckpointError, ModelFileError
from majorica.persistence.container import read_container, write_container


class Stopped(Exception):
    """Ends a fit as a crash would."""


def mixture(n: int, p: int = 3) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.laplace(size=(n, p)) @ rng.normal(size=(p, p))


def stop_after(steps: int) -> Callable[[Any], None]:
    left = [steps]

    def callback(step: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Stopped

    return callback


def blocks(X: np.ndarray, upto: int | None = None) -> Iterator[np.ndarray]:
    for i in range(0, len(X) if upto is None else upto, 500):
        yield X[i : i + 500]
    if upto is not None:
        raise Stopped


# Each case writes a good file, and says what opens a file and goes on from it.


def checkpoint_of(steps: int, n: int, **options: Any) -> tuple[Callable[[Path], None], Callable[[Path], ICA]]:
    def make(path: Path) -> None:
        ICA(random_state=0, n_jobs=1, callbacks=stop_after(steps), **options).fit(
            mixture(n), checkpoint=path, checkpoint_every=0
        )

    return make, lambda path: ICA(random_state=0, n_jobs=1, **options).fit(mixture(n), checkpoint=path)


def stream_checkpoint(upto: int, n: int) -> tuple[Callable[[Path], None], Callable[[Path], ICA]]:
    def make(path: Path) -> None:
        ICA(random_state=0, n_jobs=1).fit(blocks(mixture(n), upto), checkpoint=path, checkpoint_every=0)

    return make, lambda path: ICA(random_state=0, n_jobs=1).fit(blocks(mixture(n)), checkpoint=path)


def model_of(n: int, *, finite: bool = False) -> tuple[Callable[[Path], None], Callable[[Path], ICA]]:
    def make(path: Path) -> None:
        ica = ICA(random_state=0, n_jobs=1)
        (ica.fit if finite else ica.partial_fit)(mixture(n)).save(path)

    def go_on(path: Path) -> ICA:
        ica = ICA.load(path)
        ica.transform(mixture(100))
        return ica.partial_fit(mixture(300))

    return make, go_on


few = {"max_iter": 4, "tol": 0, "batch_size": 100}
CASES = {
    "progressive": checkpoint_of(5, 2000),
    "progressive-levels": checkpoint_of(2, 50_000, max_iter=2, tol=0),
    "incremental": checkpoint_of(30, 2000, solver="incremental", **few),
    "incremental-all": checkpoint_of(30, 2000, solver="incremental", n_updates=None, **few),
    "incremental-codes": checkpoint_of(30, 2000, solver="incremental-codes", **few),
    "batch": checkpoint_of(2, 2000, solver="batch", **few),
    "online": checkpoint_of(2, 10_500, solver="online"),
    "stream-before-start": stream_checkpoint(1500, 2500),
    "model": model_of(1500, finite=True),
    "model-of-a-stream": model_of(10_500),
    "model-before-the-start": model_of(1500),
}


def other_arrays(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """What a hostile file may hold in the place of an array."""
    yield "doubled", np.concatenate([array, array])
    yield "emptied", array[:0]
    yield "flat", array.reshape(-1)
    yield "deeper", array[None]
    if array.ndim > 1:
        yield "transposed", array.T
        yield "wider", np.concatenate([array, array], axis=-1)
    if array.dtype.names:
        yield "fewer fields", array[list(array.dtype.names[:2])].astype(array.dtype.descr[:2])
        yield "zeros", np.zeros_like(array)
        return
    for dtype in ("float32" if array.dtype == np.float64 else "float64", "int32", "complex128", ">f8"):
        if np.dtype(dtype) != array.dtype:
            yield dtype, array.astype(dtype)
    if array.dtype.kind == "f":
        for number in (np.nan, np.inf):
            yield str(number), np.full_like(array, number)
    elif array.dtype.kind in "iu":
        most = np.iinfo(array.dtype)
        for number in {most.max, most.min, 0, min(len(array), most.max), most.max // 2}:
            yield str(number), np.full_like(array, number)


#: What stands in the place of numbers and texts, in turn.
LIES = ("x", None, -5, 2**80, [], {})


def numbers_in(content: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Every number, text and truth in some content: its path, what holds it and by which key."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        if isinstance(value, dict | list):
            yield from numbers_in(value, f"{path}.{key}")
        else:
            yield f"{path}.{key}", content, key


def lies(content: Any, arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Each lie by name, and the arrays with it; `content` is changed meanwhile."""
    for name, array in arrays.items():
        for kind, other in other_arrays(array):
            yield f"{name} {kind}", {**arrays, name: other}
    count = 0
    for part in ("values", "fitted", "epoch", "touch"):
        if part in content:
            for path, held, key in list(numbers_in({part: content[part]}, "")):
                kept = held[key]
                lie = held[key] = LIES[count % len(LIES)]
                count += 1
                yield f"{path} {lie!r}", arrays
                held[key] = kept


def main(case: str, folder: Path) -> None:
    """Print each lie before it is told, and then what came of it if that is neither refused nor a finite model."""
    warnings.simplefilter("ignore")
    make, go_on = CASES[case]
    path = folder / "file"
    with contextlib.suppress(Stopped):
        make(path)
    schema = "majorica model" if case.startswith("model") else "majorica checkpoint"
    content, arrays = read_container(path, schema=schema, version=1)
    truth = go_on(path)
    assert np.isfinite(truth.components_).all()
    for name, lying in lies(content, arrays):
        print(f"{case}: {name}", end="", flush=True)
        with open(path, "wb") as file:
            write_container(file, schema=schema, version=1, content=content, arrays=lying)
        try:
            ica = go_on(path)
            wrong = "" if np.isfinite(ica.components_).all() and np.isfinite(ica.mixing_).all() else "not finite"
        except (CheckpointError, ModelFileError):
            wrong = ""
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        print(f" -> {wrong}" if wrong else " ok")


if __name__ == "__main__":
    for each in sys.argv[2:]:
        main(each, Path(sys.argv[1]))

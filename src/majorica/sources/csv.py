"""Text tables: comma, semicolon, tab or blank separated numbers, with or without a header."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from majorica.errors import DataError, MajoricaWarning, warn
from majorica.sources.base import Array
from majorica.sources.columns import pick_columns
from majorica.sources.header import Header, is_number, read_header, split_line
from majorica.sources.matrix import FileSource
from majorica.sources.npy import map_npy
from majorica.sources.rules import text_names
from majorica.sources.spool import SpoolWriter, TemporaryFile

#: Lines parsed at a time.
LINES = 10_000


class CsvSource(FileSource):
    """A text table, parsed once into a temporary array file that is removed with the source.

    The first line is a header unless all of it is numbers other than the columns' own. Samples are float64.
    An empty cell is an error, ``nan`` is not (fitting refuses it later).
    """

    kind = "CSV table"
    fixed_layout = "samples-first"
    takes_picks = True
    in_memory = True
    _spool: TemporaryFile | None = None

    def _open(self) -> None:
        self.dtype = np.dtype(np.float64)
        self._spool = TemporaryFile(".npy")
        with open(self.path, encoding="utf-8-sig", newline=None) as text, open(self._spool.path, "wb") as spool:
            self.n_samples, self.n_features = self._parse(text, spool)
        self._array: npt.NDArray[Any] | None = map_npy(self._spool.path)

    def _parse(self, text: IO[str], spool: IO[bytes]) -> tuple[int, int]:
        first_line = next((line for line in text if line.strip()), "")
        chunk = list(itertools.islice(text, LINES))
        header = read_header(self.path, first_line, chunk)
        columns = self._choose(header)
        width = header.width if columns is None else len(columns)
        writer = SpoolWriter(spool, n_features=width, dtype=self.dtype)
        row = 2
        if header.names is None:
            chunk, row = [first_line, *chunk], 1
        while chunk:
            if any(line.strip() for line in chunk):
                writer.append(parse_lines(chunk, header.delimiter, header.width, columns, self.path, row))
            row += len(chunk)
            chunk = list(itertools.islice(text, LINES))
        writer.finish()
        if writer.n_samples == 0:
            raise DataError(f"{self.path}: holds no line of numbers.")
        return writer.n_samples, width

    def _choose(self, header: Header) -> list[int] | None:
        """Columns of the file that are features, None for all of them; their names become the features'."""
        names: Sequence[Any] = range(header.width) if header.names is None else header.names
        chosen = list(names)
        if self.picks is not None:
            counted = all(isinstance(name, int) for name in names)
            chosen = pick_columns(self.path, names, _numbers(self.picks) if counted else self.picks)
        elif header.index:
            warn(
                f"{self.path}: the first column has no name, was taken for an index and left out; name it to use it",
                MajoricaWarning,
            )
        self.feature_names = text_names(chosen)
        if self.picks is None and not header.index:
            return None
        return [header.index + names.index(name) for name in chosen]

    def _load(self, start: int, stop: int) -> npt.NDArray[Any]:
        assert self._array is not None
        return self._array[start:stop]

    def close(self) -> None:
        """Remove the temporary file."""
        super().close()
        self._array = None
        if self._spool is not None:
            self._spool.remove()


def _numbers(picks: Any) -> list[Any]:
    """Picks of columns that have numbers for names; the command line gives them as text."""
    listed = [picks] if isinstance(picks, str) else list(picks)
    return [int(name) if isinstance(name, str) and name.isdecimal() else name for name in listed]


def parse_lines(
    lines: list[str], delimiter: str | None, width: int, columns: list[int] | None, path: str, first_row: int
) -> Array:
    """`lines` as an array ``(rows, n_features)``; on a bad cell an error that names its line and column."""
    try:
        block = np.loadtxt(
            lines, delimiter=delimiter, dtype=np.float64, comments=None, quotechar='"', ndmin=2, usecols=columns
        )
    except ValueError as error:
        raise _explain(lines, delimiter, width, columns, path, first_row) or error from error
    if block.shape[1] != len(columns or range(width)):
        raise _explain(lines, delimiter, width, columns, path, first_row) or DataError(
            f"{path}: lines from {first_row} on have {block.shape[1]} cells, the first line has {width}."
        )
    return block


def _explain(
    lines: list[str], delimiter: str | None, width: int, columns: list[int] | None, path: str, first_row: int
) -> DataError | None:
    for row, line in enumerate(lines, first_row):
        if not line.strip():
            continue
        cells = split_line(line, delimiter)
        if len(cells) != width:
            return DataError(f"{path}: line {row} has {len(cells)} cells, the first line has {width}.")
        for j in columns or range(width):
            if not is_number(cells[j]):
                comma = re.fullmatch(r"[+-]?\d*,\d+([eE][+-]?\d+)?", cells[j].strip())
                advice = "write decimals with points" if comma else "fill or drop such cells"
                return DataError(
                    f"{path}: line {row}, column {j + 1}: {cells[j][:40]!r} is not a number; "
                    f"{advice}, or choose columns with picks= (as_source takes it)."
                )
    return None

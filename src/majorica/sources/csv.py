"""Text tables: comma, semicolon, tab or blank separated numbers, with or without a header."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from majorica.errors import DataError
from majorica.sources.base import Array
from majorica.sources.columns import pick_columns
from majorica.sources.matrix import FileSource
from majorica.sources.npy import map_npy
from majorica.sources.spool import SpoolWriter, TemporaryFile

#: Lines parsed at a time.
LINES = 10_000


class CsvSource(FileSource):
    """A text table, parsed once into a temporary array file that is removed with the source.

    The first line is a header unless all of it is numbers. Samples are float64.
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
        delimiter = find_delimiter(first_line)
        cells = split_line(first_line, delimiter)
        has_header = not all(is_number(cell) for cell in cells)
        columns = None
        if self.picks is not None:
            names: Sequence[Any] = cells if has_header else range(len(cells))
            columns = [names.index(name) for name in pick_columns(self.path, names, self.picks)]
        if has_header:
            self.feature_names = tuple(cells if columns is None else (cells[j] for j in columns))
        lines = text if has_header else itertools.chain([first_line], text)
        writer = SpoolWriter(spool, n_features=len(columns or cells), dtype=self.dtype)
        row = 1 + has_header
        while chunk := list(itertools.islice(lines, LINES)):
            if any(line.strip() for line in chunk):
                writer.append(parse_lines(chunk, delimiter, len(cells), columns, self.path, row))
            row += len(chunk)
        writer.finish()
        if writer.n_samples == 0:
            raise DataError(f"{self.path}: holds no line of numbers.")
        return writer.n_samples, len(columns or cells)

    def _load(self, start: int, stop: int) -> npt.NDArray[Any]:
        assert self._array is not None
        return self._array[start:stop]

    def close(self) -> None:
        """Remove the temporary file."""
        super().close()
        self._array = None
        if self._spool is not None:
            self._spool.remove()


def find_delimiter(line: str) -> str | None:
    """The separator used in `line`; None for blanks."""
    return next((mark for mark in "\t;," if mark in line), None)


def split_line(line: str, delimiter: str | None) -> list[str]:
    """The cells of `line`, without blanks and quotes around them."""
    return [cell.strip().strip('"').strip() for cell in line.strip("\n").split(delimiter)]


def is_number(cell: str) -> bool:
    """Whether `cell` is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


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
                return DataError(
                    f"{path}: line {row}, column {j + 1}: {cells[j][:40]!r} is not a number; "
                    "fill or drop such cells, or choose columns with picks=."
                )
    return None

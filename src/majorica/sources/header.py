"""The first line of a text table: what separates its cells, and whether they are names."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

from majorica.errors import MajoricaWarning, warn

#: Columns from which on a first line of 0, 1, 2 ... is hardly a sample.
_MANY = 3


@dataclass(frozen=True)
class Header:
    """What the first line of a text table says.

    Attributes
    ----------
    delimiter : str or None
        None for blanks.
    width : int
        Cells in a line.
    names : list of str, list of int or None
        Of the columns that are features: text, numbers where the header counts them, None without a header.
    index : bool
        Whether the first column has no name, as that of an index, and is no feature.
    """

    delimiter: str | None
    width: int
    names: list[str] | list[int] | None
    index: bool = False


def read_header(path: str, line: str, following: Sequence[str]) -> Header:
    """The header in `line`; the `following` lines tell names that are numbers from a sample."""
    delimiter = find_delimiter(line, next((row for row in following if row.strip()), line))
    cells = split_line(line, delimiter)
    if all(map(is_number, cells)) and not _is_counting_header(path, cells, delimiter, following):
        return Header(delimiter, len(cells), None)
    index = len(cells) > 1 and not cells[0] and all(cells[1:])
    names = cells[1:] if index else cells
    return Header(delimiter, len(cells), list(map(int, names)) if _count(names) else names, index)


def _is_counting_header(path: str, cells: list[str], delimiter: str | None, following: Sequence[str]) -> bool:
    """Whether 0, 1, 2 ... are names, as pandas gives: below them are numbers that are not whole."""
    if not _count(cells):
        return False
    below = (cell for line in following if line.strip() for cell in split_line(line, delimiter))
    found = any(is_number(cell) and not re.fullmatch(r"[+-]?\d+", cell) for cell in below)
    if found or len(cells) >= _MANY:
        taken = "a header, not a sample" if found else "a sample; remove it if it is a header"
        warn(
            f"{path}: the first line counts the columns, {cells[0]} to {cells[-1]}, and was taken for {taken}",
            MajoricaWarning,
        )
    return found


def find_delimiter(line: str, below: str) -> str | None:
    """The separator outside quotes that gives `line` as many cells as the one `below` it; None for blanks."""
    bare = re.sub(r'"[^"]*"', "", line)
    found = [mark for mark in "\t;," if mark in bare]
    fitting = [mark for mark in found if len(split_line(line, mark)) == len(split_line(below, mark))]
    return next(iter(fitting or found), None)


def split_line(line: str, delimiter: str | None) -> list[str]:
    """The cells of `line`, without blanks and quotes around them."""
    text = line.strip() if delimiter is None else line.strip("\n")
    cells = next(csv.reader([text], delimiter=delimiter or " ", skipinitialspace=True), [])
    return [cell.strip() for cell in cells]


def is_number(cell: str) -> bool:
    """Whether `cell` is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _count(cells: list[str]) -> bool:
    """Whether `cells` are the whole numbers from 0 or from 1 on; of a single one nothing can be told."""
    starts = (0, 1) if len(cells) > 1 else ()
    return any(cells == [str(j) for j in range(start, start + len(cells))] for start in starts)

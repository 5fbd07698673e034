"""Tiny PNG images, written with the standard library alone."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

#: Nine steps from blue over white to orange: told apart by colour-blind readers (after ColorBrewer's PuOr and Blues).
DIVERGING = np.array(
    [
        [20, 72, 124], [52, 115, 168], [110, 161, 201], [176, 205, 227], [246, 246, 244],
        [250, 212, 168], [240, 166, 96], [209, 112, 38], [148, 66, 10],
    ],
    dtype=np.uint8,
)  # fmt: skip


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def encode_png(pixels: npt.NDArray[np.uint8], palette: npt.NDArray[np.uint8] | None = None) -> bytes:
    """A PNG of grey levels ``(h, w)``, or of palette numbers if a palette ``(colours, 3)`` is given."""
    height, width = pixels.shape
    colour_type = 0 if palette is None else 3
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # each row starts with its filter: none
    rows[:, 1:] = pixels
    parts = [b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0))]
    if palette is not None:
        parts.append(_chunk(b"PLTE", palette.astype(np.uint8).tobytes()))
    parts += [_chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)), _chunk(b"IEND", b"")]
    return b"".join(parts)


def data_uri(png: bytes) -> str:
    """`png` as a ``data:`` address, so that a page needs no other file."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def grey_image(values: npt.NDArray[np.floating]) -> bytes:
    """A PNG of `values` ``(h, w)``: zero is middle grey, the largest size black or white."""
    largest = float(np.abs(values).max()) or 1.0
    return encode_png(np.rint(127.5 + 127.5 * values / largest).astype(np.uint8))


def diverging_image(values: npt.NDArray[np.floating]) -> bytes:
    """A PNG of `values` ``(h, w)`` in nine bands from blue (negative) over white to orange (positive); NaN is white."""
    largest = float(np.nanmax(np.abs(values))) or 1.0
    bands = np.rint(np.nan_to_num(values) / largest * 4 + 4).clip(0, 8).astype(np.uint8)
    return encode_png(bands, DIVERGING)

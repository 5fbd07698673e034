"""FIF files: whether they are whole, and what they hold."""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Iterator
from itertools import islice
from typing import IO

from majorica.errors import SourceError

#: The tag that begins a block, blocks of epochs, and tags to look at before giving up.
_BLOCK_START, EPOCHS, _MOST_TAGS = 104, 373, 10**6
#: What else a file may hold, by the block that tells; files of the first ones have blocks of the later ones too.
_CONTENTS = {
    374: ("an ICA of MNE", "majorica.interop.mne.from_mne(mne.preprocessing.read_ica(path)) makes a model of it"),
    104: ("averages (evoked responses)", "pass the recording or the epochs that they are of"),
    356: ("an inverse operator", "pass a recording or epochs"),
    352: ("a forward solution", "pass a recording or epochs"),
    351: ("a source space", "pass a recording or epochs"),
    310: ("a head model", "pass a recording or epochs"),
    355: ("a covariance matrix", "pass the recording or the epochs that it is of"),
    361: ("events", "pass the recording that they are of"),
    313: ("projections", "pass a recording or epochs"),
    101: ("the description of a recording", "pass the recording itself"),
    107: ("sensor positions", "pass a recording or epochs"),
}
#: Blocks of a recording's samples, the tag of a coordinate transformation, and those a whole file begins and ends with.
_SAMPLES, _TRANSFORMATION, _FIRST, _LAST = {102, 112, 119}, 222, 100, 108


def check_fif_size(path: str) -> None:
    """Refuse a FIF file whose last tag is cut off; MNE would only use what is left."""
    present = os.path.getsize(path)
    with open(path, "rb") as handle:
        for position, _, size in _tags(handle):
            end = position + 16 + max(0, size)
            if end > present:
                raise SourceError(
                    f"{path}: truncated or damaged, {end} bytes are promised but {present} bytes are there; "
                    "to use what is left, pass mne.io.read_raw(path) instead of the path."
                )


def holds_epochs(path: str) -> bool:
    """Whether a FIF file holds epochs; SourceError names what else it holds, if that is known to be no samples."""
    blocks, kinds = set(), []
    with gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb") as handle:
        for _, kind, size in islice(_tags(handle), _MOST_TAGS):
            kinds.append(kind)
            if kind == _BLOCK_START and size == 4:
                blocks.add(int.from_bytes(handle.read(4), "big"))
    if EPOCHS in blocks:
        return True
    if blocks & _SAMPLES:
        return False
    for block, (what, advice) in _CONTENTS.items():
        if block in blocks:
            raise SourceError(f"{path}: holds {what}, no samples to separate; {advice}.")
    if kinds and kinds[0] == _FIRST and kinds[-1] == _LAST:
        what = "a coordinate transformation, " if _TRANSFORMATION in kinds else ""
        raise SourceError(f"{path}: holds {what}no samples to separate; pass a recording or epochs.")
    return False


def _tags(handle: IO[bytes] | gzip.GzipFile) -> Iterator[tuple[int, int, int]]:
    """Place, kind and size of each tag, one a buffer of samples; the file stands at its content meanwhile."""
    position = 0
    while position >= 0:
        handle.seek(position)
        header = handle.read(16)
        if not header:
            return
        kind, size, following = struct.unpack(">i4xii", header) if len(header) == 16 else (0, 0, -1)
        yield position, kind, size
        # 0: the next tag follows; -1: there is none; else where it is. Never back, so the walk ends.
        position = position + 16 + max(0, size) if following == 0 else following if following > position else -1

"""What a model was fitted on, as far as it takes to fit it again: files and how they were read, never samples."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import Any

from majorica.sources.blocks import JoinedSource
from majorica.sources.matrix import FileSource
from majorica.sources.units import ScaledSource

#: Files of a list that are remembered; longer lists are only counted.
MOST_FILES = 50


@dataclass(frozen=True)
class FileUse:
    """A file and the options it was read with."""

    path: str
    member: str | None = None
    layout: str | None = None
    picks: str | list[str | int] | None = None
    odd_picks: bool = False  #: whether channels were picked in a way that text cannot say

    def __post_init__(self) -> None:
        picks = self.picks if isinstance(self.picks, list) else [self.picks]
        texts = (self.path, self.member, self.layout)
        if not all(text is None or isinstance(text, str) for text in texts) or not isinstance(self.path, str):
            raise ValueError("a file has a path")
        if not all(pick is None or isinstance(pick, str | int) for pick in picks):
            raise ValueError("channels are picked by names and numbers")


@dataclass(frozen=True)
class Origin:
    """How a model came to be.

    ``call`` is "fit", "partial_fit", "fit_raw", "fit_epochs", "merge",
    "elsewhere" or "unknown"; ``kind`` says what was fitted, in a word or two.
    """

    call: str
    kind: str = ""
    files: tuple[FileUse, ...] = ()
    joined: bool = False  #: whether a list was given
    blocks: bool = False  #: whether partial_fit went on from it

    def __post_init__(self) -> None:
        if not isinstance(self.call, str) or not isinstance(self.kind, str) or not isinstance(self.files, tuple):
            raise ValueError("an origin has a call, a kind and files")
        if not all(isinstance(file, FileUse) for file in self.files):
            raise ValueError("an origin's files are files")


def origin_of(source: Any) -> Origin:
    """The origin of a fit of `source`."""
    if source.n_samples is None:
        return Origin("fit", "stream")
    joined = isinstance(source, JoinedSource)
    parts = source.parts if joined else [source]
    bases = [part.base if isinstance(part, ScaledSource) else part for part in parts]
    files = tuple(_file_use(part) for part in bases if isinstance(part, FileSource))
    whole = len(files) == len(bases) and len(files) <= MOST_FILES
    return Origin("fit", str(getattr(source, "kind", "source")), files if whole else (), joined)


def gone_on(ica: Any) -> Origin:
    """The origin of `ica` once ``partial_fit`` has gone on from it."""
    if not hasattr(ica, "n_features_in_"):
        return Origin("partial_fit")
    before: Origin = vars(ica).get("_origin", Origin("unknown"))
    return before if before.call == "partial_fit" else replace(before, blocks=True)


def _file_use(source: FileSource) -> FileUse:
    picks, layout = source.picks, source.layout
    if source.fixed_layout is not None or (layout == "samples-first" and source.n_samples >= source.n_features):
        layout = None  # goes without saying
    if picks is not None and not isinstance(picks, str):
        listed = picks.tolist() if hasattr(picks, "tolist") else picks
        listed = list(listed) if isinstance(listed, list | tuple) else [listed]
        plain = [int(pick) if isinstance(pick, numbers.Integral) else pick for pick in listed]
        if not all(isinstance(pick, str | int) for pick in plain):
            return FileUse(source.path, source.member, layout, odd_picks=True)
        picks = plain
    return FileUse(source.path, source.member, layout, picks)

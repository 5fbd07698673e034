"""Recordings read by MNE-Python: ``Raw`` and ``Epochs`` objects and every file ``mne.io.read_raw`` takes."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from majorica.errors import DataError, ParameterError, SourceError, optional_import
from majorica.sources.base import Array
from majorica.sources.chanlocs import Sensors
from majorica.sources.chunks import bounds_of
from majorica.sources.fif import check_fif_size, holds_epochs
from majorica.sources.matrix import FileSource, MatrixSource
from majorica.sources.names import quoted, some_of
from majorica.sources.rules import check_shape, float_dtype


class RawSource(MatrixSource):
    """The good samples of an MNE ``Raw`` object, never loaded as a whole.

    Samples under annotations whose description starts with ``BAD`` are left
    out, as MNE's own ICA does; channels marked bad are left out unless picked.
    Values are MNE's: float64, volts for EEG.

    Parameters
    ----------
    raw : mne.io.BaseRaw
    picks : as in MNE, optional
        Channel names, types or numbers; default all good data channels.
    """

    kind = "MNE recording"
    unit = "V"

    def __init__(self, raw: Any, *, picks: Any = None) -> None:
        self.raw = raw
        self.picks = picks
        self.dtype, self.sfreq = np.dtype(np.float64), float(raw.info["sfreq"])
        self.feature_names = pick_channels(raw, picks)
        self._channels = [raw.ch_names.index(name) for name in self.feature_names]
        #: Ranges of good samples in the recording, and where each starts among the good ones.
        self.ranges = good_ranges(raw)
        self._bounds = np.asarray(bounds_of([stop - start for start, stop in self.ranges]), dtype=np.intp)
        self.n_samples = int(self._bounds[-1])
        self.n_features = len(self._channels)
        check_shape(self.n_samples, self.n_features)

    @property
    def sensors(self) -> Sensors | None:
        """Where the sensors are, by name."""
        return montage_sensors(self.raw)

    def _load(self, start: int, stop: int) -> Array:
        block = np.empty((stop - start, self.n_features))
        first = int(np.searchsorted(self._bounds, start, side="right")) - 1
        row = start
        while row < stop:
            good_start, good_stop = self.ranges[first]
            begin = good_start + row - int(self._bounds[first])
            end = min(good_stop, begin + stop - row)
            block[row - start : row - start + end - begin] = self.raw[self._channels, begin:end][0].T
            row += end - begin
            first += 1
        return block


class RecordingSource(FileSource):
    """A recording in any format MNE reads (FIF, EDF, BDF, BrainVision, ...), opened without loading it.

    `picks` and the samples left out are as in :class:`RawSource`. A FIF file
    of epochs is what ``mne.read_epochs`` gives, as in :class:`EpochsSource`.
    """

    kind = "recording"
    unit = "V"
    fixed_layout = "channels-first"
    takes_picks = True
    _raw: Any = None
    _source: Any = None

    def _open(self) -> None:
        mne = optional_import("mne", extra="mne", purpose="reading recordings")
        if self.path.lower().endswith((".edf", ".bdf")):
            check_edf_size(self.path)
        if self.path.lower().endswith(".fif"):
            check_fif_size(self.path)
        self._source = self._read(mne)
        self.dtype, self.feature_names = self._source.dtype, self._source.feature_names
        self.n_samples, self.n_features = self._source.n_samples, self._source.n_features
        self.sfreq = self._source.sfreq

    @property
    def sensors(self) -> Sensors | None:
        """Where the sensors are, by name."""
        return self._source.sensors

    def _read(self, mne: Any) -> RawSource | EpochsSource:
        try:
            self._raw = mne.io.read_raw(self.path, preload=False, verbose="ERROR")
        except Exception:
            if not (self.path.lower().endswith((".fif", ".fif.gz")) and holds_epochs(self.path)):
                raise
            self._raw = mne.read_epochs(self.path, preload=False, verbose="ERROR")
            return epochs_source(self._raw, picks=self.picks)
        return RawSource(self._raw, picks=self.picks)

    @property
    def raw(self) -> Any:
        """The MNE object behind the source: ``Raw``, or ``Epochs`` if the file holds these."""
        return self._raw

    def _load(self, start: int, stop: int) -> Array:
        return self._source._load(start, stop)

    def close(self) -> None:
        """Close the recording."""
        super().close()
        raw, self._raw, self._source = self._raw, None, None
        if hasattr(raw, "close"):  # epochs close their file when nobody holds them any more
            raw.close()


class EpochsSource(MatrixSource):
    """The epochs of an MNE ``Epochs`` object one after the other, loaded a few at a time.

    Parameters
    ----------
    epochs : mne.BaseEpochs
        Bad epochs dropped already.
    names : sequence of str
        Channels.
    step : int
        Every `step`-th sample of each epoch is taken.
    """

    kind = "MNE epochs"
    unit = "V"

    def __init__(self, epochs: Any, names: Sequence[str], *, step: int = 1) -> None:
        self.epochs, self.step = epochs, step
        self._names = list(names)
        self.feature_names = tuple(names)
        self._length = math.ceil(len(epochs.times) / step)
        self.n_samples, self.n_features = len(epochs) * self._length, len(names)
        self.dtype = np.dtype(np.float64)
        self.sfreq = float(epochs.info["sfreq"]) / step

    @property
    def sensors(self) -> Sensors | None:
        """Where the sensors are, by name."""
        return montage_sensors(self.epochs)

    def _load(self, start: int, stop: int) -> Array:
        first, last = start // self._length, -(-stop // self._length)
        if first >= last:
            return np.empty((0, self.n_features))
        data = self.epochs.get_data(picks=self._names, item=slice(first, last), verbose="ERROR")
        float_dtype(data.dtype)  # refuses complex ones
        samples = np.swapaxes(data[:, :, :: self.step], 1, 2).reshape(-1, self.n_features)
        return samples[start - first * self._length : stop - first * self._length]


def epochs_source(epochs: Any, *, picks: Any = None, step: int = 1) -> EpochsSource:
    """A source of the epochs that their own `reject` and `flat` let pass; `picks` as in :class:`RawSource`."""
    if not epochs.preload:
        epochs = epochs.copy().drop_bad(verbose="ERROR")
    if not len(epochs):
        raise DataError("there are no epochs left; loosen their rejection thresholds")
    return EpochsSource(epochs, pick_channels(epochs, picks), step=step)


def montage_sensors(recording: Any) -> Sensors | None:
    """Where the sensors of a ``Raw`` or ``Epochs`` object are, if it knows."""
    montage = recording.get_montage()
    if montage is None:
        return None
    return {str(name): np.asarray(point) for name, point in montage.get_positions()["ch_pos"].items()}


def pick_channels(raw: Any, picks: Any) -> tuple[str, ...]:
    """Names of the channels that MNE understands by `picks`; None means all good data channels."""
    mne = optional_import("mne", extra="mne", purpose="reading recordings")
    # A recording of one sample with the same channels answers without touching the data.
    sample = mne.io.RawArray(np.zeros((len(raw.ch_names), 1)), raw.info.copy(), verbose="ERROR")
    try:
        chosen = sample.pick("data" if picks is None else picks, exclude="bads", verbose="ERROR")
    except Exception as error:
        if picks is None:
            raise DataError(
                "The recording has no good data channel; name channels with picks= (as_source takes it)."
            ) from error
        unknown = _unknown_channels(sample, picks)
        raise ParameterError(unknown or f"picks={picks!r} chooses no channels of the recording: {error}") from error
    return tuple(chosen.ch_names)


def _plain(name: str) -> str:
    """`name` as one would say it: letters and digits only, for PhysioNet's "Cz.." is Cz."""
    return "".join(filter(str.isalnum, name.casefold()))


def _unknown_channels(raw: Any, picks: Any) -> str:
    """What in `picks` is no channel, and what may be meant instead; empty if all are."""
    listed = [picks] if isinstance(picks, str) else list(picks) if isinstance(picks, Sequence | np.ndarray) else []
    names = {_plain(name): str(name) for name in raw.ch_names}
    missing = [str(name) for name in listed if isinstance(name, str) and name not in raw.ch_names]
    missing = [name for name in missing if name not in raw.get_channel_types()]
    if not missing:
        return ""
    close = [difflib.get_close_matches(_plain(name), names, n=1) for name in missing]
    meant = some_of(list(dict.fromkeys(quoted(names[found[0]]) for found in close if found)))
    guess = f" (did you mean {meant}?)" if meant else ""
    known = some_of([quoted(name) for name in raw.ch_names])
    return (
        f"picks names no channel or type {some_of([quoted(name) for name in missing])}{guess}; the channels are {known}"
    )


def good_ranges(raw: Any) -> list[tuple[int, int]]:
    """Ranges of samples that no annotation starting with ``BAD`` covers."""
    bad = []
    for annotation in raw.annotations:
        if annotation["description"].upper().startswith("BAD"):
            onset = annotation["onset"] - raw.first_time
            start, stop = raw.time_as_index([onset, onset + annotation["duration"]], use_rounding=True)
            bad.append((max(0, int(start)), min(int(stop), raw.n_times)))
    ranges, position = [], 0
    for start, stop in sorted(bad):
        if start >= stop:
            continue
        if start > position:
            ranges.append((position, start))
        position = max(position, stop)
    if position < raw.n_times:
        ranges.append((position, raw.n_times))
    if not ranges:
        raise DataError("Every sample of the recording is annotated as BAD; remove annotations that are not meant.")
    return ranges


def check_edf_size(path: str) -> None:
    """Refuse an EDF or BDF file that is shorter than its header says; MNE would only use what is left."""
    with open(path, "rb") as handle:
        fixed = handle.read(256)
        try:
            header_bytes, n_records, n_signals = int(fixed[184:192]), int(fixed[236:244]), int(fixed[252:256])
            handle.seek(256 + n_signals * 216)
            lengths = [int(handle.read(8)) for _ in range(n_signals)]
        except ValueError as error:
            raise SourceError(f"{path}: damaged, its EDF header is not readable.") from error
    sample_bytes = 3 if path.lower().endswith(".bdf") else 2
    needed, present = header_bytes + n_records * sum(lengths) * sample_bytes, os.path.getsize(path)
    if n_records >= 0 and needed > present:
        raise SourceError(
            f"{path}: truncated, its header promises {n_records} records ({needed} bytes) but {present} bytes are "
            "there; to use what is left, pass mne.io.read_raw(path) instead of the path."
        )

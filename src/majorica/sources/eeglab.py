"""EEGLAB datasets: ``.set`` with its samples inside or in a ``.fdt`` file beside it.

Read without MNE: a ``.fdt`` file is samples-first float32 on disk, so it is
memory-mapped and blocks are views of it. Samples keep EEGLAB's microvolts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.io

from majorica.errors import DataError, ParameterError, SourceError, optional_import
from majorica.sources.chanlocs import Sensors, hdf5_column, labels_of, matlab_column, sensors_of
from majorica.sources.matrix import FileSource
from majorica.sources.npy import map_npy
from majorica.sources.rules import float_dtype
from majorica.sources.sliced import SlicedMatrix
from majorica.sources.spool import SpoolWriter, TemporaryFile


class EeglabSource(FileSource):
    """An EEGLAB dataset, epochs one after the other; `picks` chooses channels by name or number.

    Samples inside a ``.set`` file of the usual kind (MATLAB version 5) can only
    be read whole: they are unpacked once to a temporary file that is removed
    with the source. A ``.fdt`` file and MATLAB 7.3 (HDF5) files are read lazily.
    """

    kind = "EEGLAB dataset"
    unit = "uV"
    fixed_layout = "channels-first"
    takes_picks = True
    in_memory = True
    _spool: TemporaryFile | None = None
    _file: Any = None
    _samples: Any = None
    _sensors: Sensors | None = None
    #: The ``.fdt`` file, if there is one.
    samples_path: str | None = None

    def _open(self) -> None:
        with open(self.path, "rb") as handle:
            is_hdf5 = handle.read(8) == b"\x89HDF\r\n\x1a\n" or b"HDF5" in handle.read(512) or _has_hdf5_block(handle)
        names = self._open_hdf5() if is_hdf5 else self._open_matlab()
        self.n_samples, width = self._samples.shape
        self.dtype = float_dtype(self._samples.dtype)
        self._columns = None if self.picks is None else _channel_numbers(self.path, names, width, self.picks)
        if names is not None and len(names) == width:
            self.feature_names = tuple(names if self._columns is None else (names[j] for j in self._columns))
        self.n_features = width if self._columns is None else len(self._columns)

    def _open_matlab(self) -> list[str] | None:
        content = scipy.io.loadmat(self.path, squeeze_me=True, struct_as_record=False)
        eeg = content.get("EEG")
        fields = content if eeg is None else vars(eeg)
        if "data" not in fields or "nbchan" not in fields:
            raise SourceError(f"{self.path}: not an EEGLAB dataset (no EEG.data in it).")
        n_channels = int(fields["nbchan"])
        data = fields["data"]
        if isinstance(data, str):
            n_samples = int(fields["pnts"]) * int(fields["trials"])
            self.samples_path = _fdt_path(self.path, data)
            self._samples = _map_fdt(self.samples_path, n_samples, n_channels)
        else:
            samples = np.asarray(data).reshape((n_channels, -1), order="F").T
            self._samples = self._unpack(samples)
        self.sfreq = _rate(fields.get("srate"))
        return self._channels(matlab_column(fields.get("chanlocs")))

    def _channels(self, column: Callable[[str], list[Any]]) -> list[str] | None:
        names = labels_of(column)
        self._sensors = sensors_of(column, names)
        return names

    @property
    def sensors(self) -> Sensors | None:
        """Where the sensors are, by name."""
        return self._sensors

    def _unpack(self, samples: npt.NDArray[Any]) -> npt.NDArray[Any]:
        self._spool = TemporaryFile(".npy")
        with open(self._spool.path, "wb") as handle:
            dtype = float_dtype(samples.dtype)
            writer = SpoolWriter(handle, n_features=samples.shape[1], dtype=dtype)
            writer.append(np.ascontiguousarray(samples, dtype=dtype))
            writer.finish()
        return map_npy(self._spool.path)

    def _open_hdf5(self) -> list[str] | None:
        h5py = optional_import("h5py", extra="io", purpose="reading EEGLAB files of MATLAB version 7.3")
        self.in_memory = False
        self._file = h5py.File(self.path, "r")
        eeg = self._file.get("EEG", self._file)
        data = eeg["data"]
        n_channels = int(eeg["nbchan"][()].item())
        names = self._channels(hdf5_column(self._file, eeg))
        self.sfreq = _rate(eeg["srate"][()] if "srate" in eeg else None)
        if data.attrs.get("MATLAB_class") == b"char":
            name = "".join(map(chr, np.asarray(data).ravel()))
            n_samples = int(eeg["pnts"][()].item()) * int(eeg["trials"][()].item())
            self.samples_path = _fdt_path(self.path, name)
            self._samples = _map_fdt(self.samples_path, n_samples, n_channels)
        elif data.ndim == 2:
            # MATLAB stores columns first: what is channels-first there is samples-first here.
            self._samples = _Hdf5Samples(data)
        else:
            samples = np.asarray(data).reshape(-1, n_channels)
            self._samples = self._unpack(samples)
        return names

    def _load(self, start: int, stop: int) -> npt.NDArray[Any]:
        block: npt.NDArray[Any] = self._samples[start:stop]
        return block if self._columns is None else block[:, self._columns]

    def close(self) -> None:
        """Close the file and remove the temporary copy if there is one."""
        super().close()
        self._samples = None
        if self._file is not None:
            self._file.close()
        if self._spool is not None:
            self._spool.remove()


class _Hdf5Samples:
    """A samples-first HDF5 dataset that decodes each chunk once in a sequential pass."""

    def __init__(self, dataset: Any) -> None:
        self.shape, self.dtype = dataset.shape, dataset.dtype
        self._matrix = SlicedMatrix(dataset, "samples-first")

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        return self._matrix.read(rows.start, rows.stop)


def _has_hdf5_block(handle: Any) -> bool:
    """Whether the HDF5 signature follows MATLAB's 512-byte preamble."""
    handle.seek(512)
    return bool(handle.read(8) == b"\x89HDF\r\n\x1a\n")


def _fdt_path(path: str, name: str) -> str:
    """The sample file named in a dataset, looked for beside it only."""
    folder = os.path.dirname(path)
    named = name.replace("\\", "/").rpartition("/")[2]
    renamed = os.path.splitext(os.path.basename(path))[0] + ".fdt"
    for candidate in (named, renamed):
        if candidate and os.path.isfile(os.path.join(folder, candidate)):
            return os.path.join(folder, candidate)
    raise SourceError(f"{path}: its samples should be in {named!r} beside it, which is missing.")


def _map_fdt(path: str, n_samples: int, n_channels: int) -> npt.NDArray[Any]:
    if n_samples < 1 or n_channels < 1:
        raise DataError(f"{path}: the dataset has {n_samples} samples of {n_channels} channels.")
    needed, present = 4 * n_samples * n_channels, os.path.getsize(path)
    if needed > present:
        raise SourceError(
            f"{path}: truncated, the dataset promises {n_samples} samples of {n_channels} channels "
            f"({needed} bytes) but {present} bytes are there."
        )
    return np.memmap(path, dtype="<f4", mode="r", shape=(n_samples, n_channels)).view(np.ndarray)


def _rate(stored: Any) -> float | None:
    """Samples a second, if the dataset has a positive number for it."""
    values = np.asarray(stored).ravel()
    known = values.size == 1 and values.dtype.kind in "iuf" and 0 < values[0] < np.inf
    return float(values[0]) if known else None


def _channel_numbers(path: str, names: list[str] | None, width: int, picks: Any) -> list[int]:
    wanted = [picks] if isinstance(picks, str | int) else list(picks)
    numbers = []
    for pick in wanted:
        if isinstance(pick, str) and names is not None and pick in names:
            numbers.append(names.index(pick))
        elif not isinstance(pick, str) and -width <= int(pick) < width:
            numbers.append(int(pick) % width)
        else:
            raise ParameterError(f"{path}: picks names no channel {pick!r}; the channels are {names or range(width)}.")
    if not numbers:
        raise ParameterError(f"{path}: picks chooses no channel.")
    return numbers

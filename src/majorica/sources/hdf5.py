"""HDF5 files."""

from __future__ import annotations

from typing import Any

from majorica.errors import DataError, optional_import
from majorica.sources.base import Array
from majorica.sources.matrix import FileSource
from majorica.sources.rules import file_layout
from majorica.sources.sliced import SlicedMatrix, choose


class Hdf5Source(FileSource):
    """One dataset of an HDF5 file, by default the only matrix in it."""

    kind = "HDF5 file"
    takes_member = True
    _file: Any = None

    def _open(self) -> None:
        h5py = optional_import("h5py", extra="io", purpose="reading HDF5 files")
        self._file = h5py.File(self.path, "r")
        dataset = self._find(h5py)
        self.layout = file_layout(dataset.shape or (), self.layout)
        self._matrix = SlicedMatrix(dataset, self.layout)
        self.n_samples, self.n_features = self._matrix.n_samples, self._matrix.n_features
        self.dtype = self._matrix.dtype

    def _find(self, h5py: Any) -> Any:
        found: dict[str, Any] = {}

        def note(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                found["/" + name] = item

        if self.member is None:
            self._file.visititems(note)
            return choose(self.path, found)
        item = self._file.get(self.member)
        if isinstance(item, h5py.Dataset):
            return item
        self._file.visititems(note)
        raise DataError(f"{self.path}: has no dataset {self.member!r}; it holds {', '.join(found) or 'nothing'}.")

    def _load(self, start: int, stop: int) -> Array:
        return self._matrix.read(start, stop)

    def close(self) -> None:
        """Close the file."""
        super().close()
        if self._file is not None:
            self._file.close()

"""Zarr stores on a local disk."""

from __future__ import annotations

from typing import Any

from majorica.errors import DataError, optional_import
from majorica.sources.base import Array
from majorica.sources.matrix import FileSource
from majorica.sources.rules import file_layout
from majorica.sources.sliced import SlicedMatrix, choose


class ZarrSource(FileSource):
    """One array of a Zarr store (version 3 or 2), by default the only matrix in it."""

    kind = "Zarr store"
    takes_member = True

    def _open(self) -> None:
        zarr = optional_import("zarr", extra="io", purpose="reading Zarr stores")
        array = self._find(zarr, zarr.open(self.path, mode="r"))
        self.layout = file_layout(array.shape, self.layout)
        self._matrix = SlicedMatrix(array, self.layout)
        self.n_samples, self.n_features = self._matrix.n_samples, self._matrix.n_features
        self.dtype = self._matrix.dtype

    def _find(self, zarr: Any, root: Any) -> Any:
        if isinstance(root, zarr.Array):
            if (self.member or "").strip("/"):
                raise DataError(f"{self.path}: is a single array; leave out ':{self.member}'.")
            return root
        arrays = {"/" + name: item for name, item in root.members(max_depth=None) if isinstance(item, zarr.Array)}
        if self.member is None:
            return choose(self.path, arrays)
        name = "/" + self.member.strip("/")
        if name not in arrays:
            raise DataError(f"{self.path}: has no array {self.member!r}; it holds {', '.join(arrays) or 'nothing'}.")
        return arrays[name]

    def _load(self, start: int, stop: int) -> Array:
        return self._matrix.read(start, stop)

"""EEGLAB datasets: fit them, write results into them, read results from them.

EEGLAB computes activations as ``(icaweights * icasphere) * data(icachansind, :)``,
without removing the mean: they are ``ica.transform`` of the data plus the
constant ``ica.components_ @ ica.mean_``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.io

from majorica.errors import DataError, OutputExistsError, ParameterError, SourceError, optional_import
from majorica.estimator import ICA
from majorica.interop.matrices import ica_from_matrices
from majorica.sources import as_source
from majorica.sources.base import Source
from majorica.sources.eeglab import EeglabSource
from majorica.sources.paths import check_readable, reading
from majorica.statistics import F64
from majorica.units import check_units, model_said_in

__all__ = ["read_ica", "read_set", "write_ica"]


def read_set(path: str | os.PathLike[str], *, picks: Any = None) -> EeglabSource:
    """A ``.set`` file (and its ``.fdt``) as a source, in microvolts; ``ICA().fit`` takes it.

    Parameters
    ----------
    path : path-like
        The ``.set`` file.
    picks : sequence of str or int, optional
        Channels, by name or number.
    """
    source = as_source(path, picks=picks)
    if not isinstance(source, EeglabSource):
        raise ParameterError(f"{os.fspath(path)}: not a .set file; majorica.sources.as_source reads other formats")
    return source


def write_ica(
    path_in: str | os.PathLike[str],
    ica: ICA,
    path_out: str | os.PathLike[str] | None = None,
    *,
    units: str | None = None,
    overwrite: bool = False,
) -> None:
    """Write a fitted ICA into an EEGLAB dataset, so that EEGLAB shows its components.

    Sets ``icaweights``, ``icasphere``, ``icawinv`` and ``icachansind``; removes
    what belonged to an earlier decomposition (activations, dipoles, labels of
    components). Everything else is kept. The file is written beside its place
    and moved there when complete.

    Parameters
    ----------
    path_in : path-like
        A ``.set`` file.
    ica : ICA
        Fitted on channels of this dataset; they are matched by name, or all
        are taken, in order, if the ICA has no names.
    path_out : path-like, optional
        Where to write; a ``.fdt`` file is copied along. None changes `path_in`,
        which takes `overwrite`.
    units : {"uV", "V"}, optional
        What the ICA was fitted on. Fits of recordings know it (``unit_``);
        for those of arrays it has to be said.
    overwrite : bool
        Whether files that exist, the ``.fdt`` file of `path_out` among them,
        may be replaced. Nothing is written if one may not.
    """
    check_units(units)
    if not isinstance(path_in, str | os.PathLike):
        raise ParameterError("write_ica takes the path of the dataset first and the ICA second")
    if not hasattr(ica, "components_"):
        raise ParameterError("the ICA is not fitted yet; call fit before write_ica")
    path = os.path.abspath(os.fspath(path_in))
    target = path if path_out is None else os.path.abspath(os.fspath(path_out))
    if not target.lower().endswith(".set"):
        raise ParameterError(f"{target}: the name of an EEGLAB dataset ends in .set")
    with read_set(path) as source:
        channels = _channel_numbers(ica, source)
        is_hdf5, samples = source._file is not None, source.samples_path
    fields = _fields(_in_microvolts(ica, units), channels)
    copied = None
    if samples is not None and path != target:
        copied = os.path.splitext(target)[0] + os.path.splitext(samples)[1]
    if not overwrite:
        _refuse_existing(target if copied is None or copied == samples else copied, target)
    with reading(path, "EEGLAB dataset"):
        if samples is not None and copied is not None and copied != samples:
            _replace(copied, partial(shutil.copyfile, samples))
        name = None if copied is None else os.path.basename(copied)
        if is_hdf5:
            _write_hdf5(path, target, fields, name)
        else:
            _write_matlab(path, target, fields, name)


def read_ica(path: str | os.PathLike[str]) -> ICA:
    """The decomposition stored in an EEGLAB dataset as a :class:`majorica.ICA`.

    ``ica.transform(read_set(path, picks=ica.feature_names_in_))`` gives
    EEGLAB's activations. MATLAB 7.3 files are not read.
    """
    check_readable(os.fspath(path))
    with reading(os.fspath(path), "EEGLAB dataset"):
        content = scipy.io.loadmat(os.fspath(path), squeeze_me=True, struct_as_record=False)
        eeg = content if content.get("EEG") is None else vars(content["EEG"])
    weights, sphere = (np.atleast_2d(np.asarray(eeg.get(name, []))) for name in ("icaweights", "icasphere"))
    if weights.size == 0:
        raise SourceError(f"{os.fspath(path)}: holds no decomposition (icaweights is empty)")
    with read_set(path) as source:
        names = source.feature_names
    channels = np.atleast_1d(eeg["icachansind"]).astype(int) - 1
    mixing = np.asarray(eeg["icawinv"], dtype=np.float64).reshape(len(channels), len(weights))
    return ica_from_matrices(
        weights.astype(np.float64) @ sphere.astype(np.float64),
        mixing,
        np.zeros(len(channels)),
        names=None if names is None else [names[i] for i in channels],
        unit="uV",
        origin="read from an EEGLAB dataset",
    )


def _refuse_existing(*paths: str) -> None:
    """Raise if one of the files to write is there already."""
    for path in paths:
        if os.path.lexists(path):
            kind = "exists" if os.stat(path, follow_symlinks=False).st_mode & 0o222 else "exists and is read-only"
            raise OutputExistsError(f"{path}: {kind}; name another path_out, or pass overwrite=True to replace it")


def _channel_numbers(ica: ICA, source: Source) -> list[int]:
    names = getattr(ica, "feature_names_in_", None)
    if names is None or source.feature_names is None:
        if ica.n_features_in_ != source.n_features:
            raise DataError(
                f"the ICA has {ica.n_features_in_} features, the dataset {source.n_features} channels, and there "
                "are no names to match them by"
            )
        return list(range(source.n_features))
    known = list(source.feature_names)
    missing = [str(name) for name in names if name not in known]
    if missing:
        raise DataError(f"the dataset lacks {len(missing)} channel(s) of the ICA: {', '.join(missing[:5])}")
    return [known.index(name) for name in names]


def _in_microvolts(ica: ICA, units: str | None) -> ICA:
    """The ICA as EEGLAB has to have it; `units` is what the caller says it was fitted on."""
    if getattr(ica, "unit_", None) is None and units is None:
        raise ParameterError("the ICA does not know the unit of its samples; pass units='uV' or units='V'")
    converted: ICA = model_said_in(ica, units, "uV")
    return converted


def _fields(ica: ICA, channels: list[int]) -> dict[str, F64]:
    """The four fields, with ``icawinv`` the pseudo-inverse of ``icaweights * icasphere``, as EEGLAB has it.

    With nothing reduced but the rank, samples lie in the span of the mixing
    matrix: its pseudo-inverse gives the same activations as ``components_``,
    and then ``icawinv`` is ``mixing_`` itself.
    """
    if ica.n_components_ == ica.rank_:
        mixing = ica.mixing_
        weights: F64 = np.linalg.pinv(mixing).astype(np.float64, copy=False)
    else:
        weights = ica.components_
        mixing = np.linalg.pinv(weights).astype(np.float64, copy=False)
    numbers = np.asarray(channels, dtype=np.float64)[None] + 1
    return {"icaweights": weights, "icasphere": np.eye(len(channels)), "icawinv": mixing, "icachansind": numbers}


#: Fields of an earlier decomposition.
_STALE = ("icaact", "dipfit", "icasplinefile")


def _write_matlab(path: str, target: str, fields: dict[str, F64], samples: str | None) -> None:
    """Write `target`; `samples` is the name of its ``.fdt`` file if that is a new one."""
    content = {name: value for name, value in scipy.io.loadmat(path).items() if not name.startswith("__")}
    eeg = content.get("EEG")
    own: dict[str, Any] = content if eeg is None else {name: eeg[name][0, 0] for name in eeg.dtype.names}
    own.update(fields)
    own.update({name: np.zeros((0, 0)) for name in _STALE if np.size(own.get(name, ()))})
    etc = own.get("etc")
    if etc is not None and etc.dtype.names and etc.size == 1 and "ic_classification" in etc.dtype.names:
        own["etc"] = {name: etc[name][0, 0] for name in etc.dtype.names if name != "ic_classification"}
    if samples is not None:
        own.update({name: samples for name in ("data", "datfile") if name in own})
    if path != target:
        own["filename"] = os.path.basename(target)
    _replace(target, lambda temporary: _save_matlab(temporary, own if eeg is None else {"EEG": own}))


def _save_matlab(path: str, content: dict[str, Any]) -> None:
    with open(path, "wb") as handle:
        scipy.io.savemat(handle, content, appendmat=False, long_field_names=True, oned_as="row", do_compression=True)


def _write_hdf5(path: str, target: str, fields: dict[str, F64], samples: str | None) -> None:
    """As `_write_matlab`, for files of MATLAB 7.3."""
    h5py = optional_import("h5py", extra="io", purpose="writing EEGLAB files of MATLAB version 7.3")

    def write(temporary: str) -> None:
        shutil.copyfile(path, temporary)
        with h5py.File(temporary, "r+") as file:
            eeg = file.get("EEG", file)
            for name, value in fields.items():
                if name in eeg:
                    del eeg[name]
                # MATLAB stores columns first.
                eeg.create_dataset(name, data=value.T).attrs["MATLAB_class"] = np.bytes_("double")
            for name in _STALE:
                if name in eeg:
                    del eeg[name]
                    empty = eeg.create_dataset(name, data=np.zeros(2, dtype=np.uint64))
                    empty.attrs["MATLAB_class"] = np.bytes_("double")
                    empty.attrs["MATLAB_empty"] = np.uint8(1)
            if samples is not None:
                letters = np.array([[ord(letter)] for letter in samples], dtype=np.uint16)
                for name in ("data", "datfile"):
                    if name in eeg:
                        del eeg[name]
                        text = eeg.create_dataset(name, data=letters)
                        text.attrs["MATLAB_class"] = np.bytes_("char")
                        text.attrs["MATLAB_int_decode"] = np.int32(2)

    _replace(target, write)


def _replace(target: str, write: Callable[[str], Any]) -> None:
    """Have `write` fill a temporary file beside `target`, then move it there."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".", suffix=".tmp")
    os.close(handle)
    try:
        write(temporary)
        mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o666 & ~_umask()
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

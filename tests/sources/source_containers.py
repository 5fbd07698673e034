"""Builders of every container, all given the same matrix."""

from __future__ import annotations

import csv

import numpy as np

FLOATS = (np.float32, np.float64)


def ndarray(x, folder):
    return x, {}


def fortran(x, folder):
    return np.asfortranarray(x), {}


def strided(x, folder):
    return np.repeat(x, 2, axis=0)[::2], {}


def big_endian(x, folder):
    return x.astype(x.dtype.newbyteorder(">")), {}


def channels_first(x, folder):
    return np.ascontiguousarray(x.T), {"layout": "channels-first"}


def nested_list(x, folder):
    return x.astype(np.float64).tolist(), {}


def objects(x, folder):
    return x.astype(object), {}


def memmap(x, folder):
    np.save(folder / "m.npy", x)
    return np.load(folder / "m.npy", mmap_mode="r"), {}


def npy(x, folder):
    np.save(folder / "x.npy", x)
    return folder / "x.npy", {}


def npy_fortran(x, folder):
    np.save(folder / "x.npy", np.asfortranarray(x))
    return str(folder / "x.npy"), {}


def npy_channels(x, folder):
    np.save(folder / "x.npy", np.ascontiguousarray(x.T))
    return folder / "x.npy", {"layout": "channels-first"}


def npz(x, folder):
    np.savez(folder / "x.npz", x)
    return folder / "x.npz", {}


def npz_member(x, folder):
    np.savez(folder / "x.npz", odd_name=np.zeros((3, 2), np.int8), samples=x)
    return f"{folder / 'x.npz'}:samples", {}


def npz_compressed(x, folder):
    np.savez_compressed(folder / "x.npz", other=np.zeros((3, 2)), samples=x)
    return f"{folder / 'x.npz'}:samples", {}


def _zarr(x, folder, chunks, **options):
    import zarr

    array = zarr.create_array(str(folder / "x.zarr"), shape=x.shape, chunks=chunks, dtype=x.dtype, **options)
    array[:] = x
    return folder / "x.zarr"


def zarr_store(x, folder):
    return _zarr(x, folder, (7, x.shape[1])), {}


def zarr_channels(x, folder):
    return _zarr(np.ascontiguousarray(x.T), folder, (2, 50)), {"layout": "channels-first"}


def zarr_version_2(x, folder):
    return _zarr(x, folder, (100, 2), zarr_format=2), {}


def zarr_member(x, folder):
    import zarr

    group = zarr.open_group(str(folder / "g.zarr"), mode="w")
    for name in ("deep/samples", "deep/other"):
        array = group.create_array(name, shape=x.shape, chunks=(64, x.shape[1]), dtype=x.dtype)
        array[:] = x if name == "deep/samples" else 0
    return f"{folder / 'g.zarr'}:/deep/samples", {}


def zarr_object(x, folder):
    import zarr

    return zarr.open(str(_zarr(x, folder, (13, 2))), mode="r"), {}


def hdf5(x, folder):
    import h5py

    with h5py.File(folder / "x.h5", "w") as file:
        file["group/samples"] = x
        file["labels"] = np.arange(3)
    return folder / "x.h5", {}


def hdf5_member(x, folder):
    import h5py

    with h5py.File(folder / "x.hdf5", "w") as file:
        file["other"] = np.zeros((3, 2))
        file.create_dataset("samples", data=x, chunks=(10, 2), compression="gzip")
    return f"{folder / 'x.hdf5'}:/samples", {}


def hdf5_channels(x, folder):
    import h5py

    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("samples", data=x.T, chunks=True)
    return folder / "x.h5", {"layout": "channels-first"}


def _table(x):
    import pyarrow

    return pyarrow.table({f"c{j}": np.ascontiguousarray(x[:, j]) for j in range(x.shape[1])})


def arrow_table(x, folder):
    return _table(x), {}


def parquet(x, folder):
    import pyarrow.parquet

    pyarrow.parquet.write_table(_table(x), folder / "x.parquet", row_group_size=33)
    return folder / "x.parquet", {}


def parquet_directory(x, folder):
    import pyarrow.parquet

    (folder / "data").mkdir()
    for k, start in enumerate((0, 100, 200)):
        part = _table(x[start : start + 100] if start < 200 else x[start:])
        pyarrow.parquet.write_table(part, folder / "data" / f"part-{k}.parquet")
    return folder / "data", {}


def feather(x, folder):
    import pyarrow.feather

    pyarrow.feather.write_feather(_table(x), str(folder / "x.feather"), chunksize=50)
    return folder / "x.feather", {}


def arrow_file(x, folder):
    import pyarrow as pa

    table = _table(x)
    with pa.OSFile(str(folder / "x.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=29)
    return folder / "x.arrow", {}


def pandas_frame(x, folder):
    import pandas

    return pandas.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])]), {}


def pandas_columns(x, folder):
    import pandas

    return pandas.DataFrame({f"c{j}": x[:, j].copy() for j in range(x.shape[1])}), {}


def pandas_nullable(x, folder):

    return pandas_columns(x, folder)[0].astype({np.float32: "Float32", np.float64: "Float64"}[x.dtype.type]), {}


def polars_frame(x, folder):
    import polars

    return polars.DataFrame({f"c{j}": x[:, j] for j in range(x.shape[1])}), {}


def dask_array(x, folder):
    import dask.array

    return dask.array.from_array(x, chunks=(60, 2)), {}


def dask_channels(x, folder):
    import dask.array

    return dask.array.from_array(np.ascontiguousarray(x.T), chunks=(2, 41)), {"layout": "channels-first"}


def dask_unknown(x, folder):
    import dask.array

    array = dask.array.from_array(x, chunks=(60, -1))
    return array[array[:, 0] > -np.inf], {}


def dask_frame(x, folder):
    import dask.dataframe

    return dask.dataframe.from_pandas(pandas_frame(x, folder)[0], npartitions=4), {}


def xarray_array(x, folder):
    import xarray

    names = [f"c{j}" for j in range(x.shape[1])]
    return xarray.DataArray(x, dims=("time", "channel"), coords={"channel": names}), {}


def xarray_channels(x, folder):
    return xarray_array(x, folder)[0].T, {"layout": "channels-first"}


def xarray_dask(x, folder):
    return xarray_array(x, folder)[0].chunk({"time": 37}), {}


def blocks(x, folder):
    return [x[:10], x[10:11], x[11:200], x[200:]], {}


def files(x, folder):
    np.save(folder / "a.npy", x[:100])
    np.save(folder / "b.npy", x[100:])
    return [folder / "a.npy", str(folder / "b.npy")], {}


def text(x, folder):
    with open(folder / "x.csv", "w", newline="") as file:
        csv.writer(file).writerows([[f"c{j}" for j in range(x.shape[1])], *x.tolist()])
    return folder / "x.csv", {}


def mne_raw(x, folder):
    import mne

    info = mne.create_info([f"c{j}" for j in range(x.shape[1])], 100.0, "eeg")
    return mne.io.RawArray(x.T, info, verbose="ERROR"), {}


def mne_fif(x, folder):
    path = folder / "x_raw.fif"
    mne_raw(x, folder)[0].save(path, fmt="double", verbose="ERROR")
    return path, {}


def _set_file(x, folder, data):
    import scipy.io

    labels = np.array([(f"c{j}", "EEG") for j in range(x.shape[1])], dtype=[("labels", "O"), ("type", "O")])
    eeg = {"nbchan": float(x.shape[1]), "pnts": float(len(x)), "trials": 1.0, "data": data, "chanlocs": labels}
    scipy.io.savemat(folder / "x.set", {"EEG": eeg})
    return folder / "x.set"


def eeglab_fdt(x, folder):
    x.astype("<f4").tofile(folder / "x.fdt")
    return _set_file(x, folder, "x.fdt"), {}


def eeglab_inside(x, folder):
    return _set_file(x, folder, x.T), {}


ANY_FLOAT = [
    ndarray, fortran, strided, big_endian, channels_first, memmap, npy, npy_fortran, npy_channels, npz, npz_member,
    npz_compressed, zarr_store, zarr_channels, zarr_version_2, zarr_member, zarr_object, hdf5, hdf5_member,
    hdf5_channels, arrow_table, parquet, parquet_directory, feather, arrow_file, pandas_frame, pandas_columns,
    pandas_nullable, polars_frame, dask_array, dask_channels, dask_unknown, dask_frame, xarray_array, xarray_channels,
    xarray_dask, blocks, files, eeglab_inside,
]  # fmt: skip
FLOAT64_ONLY = [nested_list, objects, text, mne_raw, mne_fif]
FLOAT32_ONLY = [eeglab_fdt]

CASES = [
    *((builder, dtype) for builder in ANY_FLOAT for dtype in FLOATS),
    *((builder, np.float64) for builder in FLOAT64_ONLY),
    *((builder, np.float32) for builder in FLOAT32_ONLY),
]
NAMED = {
    arrow_table, parquet, parquet_directory, feather, arrow_file, pandas_frame, pandas_columns, pandas_nullable,
    polars_frame, dask_frame, xarray_array, xarray_channels, xarray_dask, text, mne_raw, mne_fif, eeglab_fdt,
    eeglab_inside,
}  # fmt: skip

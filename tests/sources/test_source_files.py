"""Missing, damaged and hostile files end in one helpful sentence."""

from __future__ import annotations

import gc
import io
import os
import pickle
import resource
import sys
import tempfile
import zipfile

import numpy as np
import pytest
import source_containers as containers

from majorica import ICA
from majorica.errors import DataError, DataTypeError, MajoricaError, MajoricaWarning, ParameterError, SourceError
from majorica.sources import as_source

X = np.random.default_rng(0).standard_normal((300, 4))


def truncate(path, keep):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    return path


def use_all(path, **options):
    source = as_source(path, **options)
    source.read(0, source.n_samples)


@pytest.mark.parametrize(
    "suffix", [".npy", ".npz", ".h5", ".zarr", ".parquet", ".csv", ".set", ".edf", ".fif", ".vhdr"]
)
def test_missing_and_empty(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    with pytest.raises(SourceError, match="no such file") as caught:
        as_source(path)
    assert isinstance(caught.value, OSError)
    path.write_bytes(b"")
    with pytest.raises(SourceError, match="empty"):
        as_source(path)


@pytest.mark.parametrize(
    "suffix",
    [".npy", ".npz", ".h5", ".zarr", ".parquet", ".feather", ".csv", ".set", ".edf", ".bdf", ".fif", ".vhdr"],
)
@pytest.mark.parametrize("content", [b"\0" * 600, b"not what the name says\n" * 40, bytes(range(256)) * 8])
def test_wrong_content(suffix, content, tmp_path):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    with pytest.raises((SourceError, DataError)) as caught:
        as_source(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [0.02, 0.5, 0.97])
@pytest.mark.parametrize(
    "builder",
    [
        containers.npy, containers.npz, containers.npz_compressed, containers.hdf5, containers.parquet,
        containers.feather, containers.arrow_file, containers.eeglab_inside, containers.mne_fif,
    ],
)  # fmt: skip
def test_truncated(builder, keep, tmp_path):
    given, options = builder(X, tmp_path)
    truncate(
        tmp_path
        / os.path.basename(str(given).rpartition(".")[0] + "." + str(given).rpartition(".")[2].partition(":")[0]),
        keep,
    )
    with pytest.raises(MajoricaError) as caught:
        use_all(given, **options)
    assert "\n" not in str(caught.value)


def test_truncated_npy_says_so(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(SourceError, match=r"truncated.*\(300, 4\).*9728 bytes.*4864 bytes"):
        as_source(truncate(tmp_path / "x.npy", 0.5))


def header(text):
    text = text.encode() + b" " * 10 + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000000)}"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-5, 4)}"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (True, 4)}"),
        header("{'descr': '|O', 'fortran_order': False, 'shape': (2, 2)}"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)}" + " " * 20000),
        header("__import__('os').abort()"),
        header("{'descr': 'nonsense', 'fortran_order': False, 'shape': (2, 2)}"),
        header("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2, 2)}"),
        b"\x93NUMPY\x07\x00",
        b"\x93NUMPY\x03\x00" + b"\0" * 50,
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_hostile_npy_header(content, inside, tmp_path):
    path = tmp_path / ("x.npz" if inside else "x.npy")
    if inside:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", content + b"\0" * 32)
    else:
        path.write_bytes(content + b"\0" * 32)
    with pytest.raises((SourceError, DataError, DataTypeError)):
        as_source(path)


def test_pickled_objects_are_not_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.abort, ()

    np.save(tmp_path / "x.npy", np.array([[Bomb(), 1]], dtype=object), allow_pickle=True)
    with pytest.raises(DataTypeError, match="Python objects"):
        as_source(tmp_path / "x.npy")


def test_npz_members(tmp_path):
    np.savez(tmp_path / "x.npz", a=X, b=X)
    with pytest.raises(DataError, match=r"2 arrays \(a, b\)"):
        as_source(tmp_path / "x.npz")
    with pytest.raises(DataError, match="no array 'c'"):
        as_source(f"{tmp_path / 'x.npz'}:c")
    np.savez(tmp_path / "many.npz", **{f"a{j:02d}": X for j in range(24)})
    with pytest.raises(DataError, match=r"24 arrays \(a00, .*, a07 and 16 more\)"):
        as_source(tmp_path / "many.npz")
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(SourceError, match="no such file"):
        as_source(f"{tmp_path / 'x.npy'}:c")


def test_npz_too_large_for_the_disk(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", X)
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr("majorica.sources.npy.shutil.disk_usage", lambda path: usage)
    with pytest.raises(SourceError, match="only 10 are free"):
        as_source(tmp_path / "x.npz")


def test_hdf5_and_zarr_list_what_they_hold(tmp_path):
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = X
        file["deep/b"] = X[:10]
    with h5py.File(tmp_path / "none.h5", "w") as file:
        file["a"] = np.ones(3)
        file["nothing"] = h5py.Empty("f")
    group = zarr.open_group(str(tmp_path / "x.zarr"), mode="w")
    group.create_array("a", data=X)
    group.create_array("deep/b", data=X[:10])
    for path in (tmp_path / "x.h5", tmp_path / "x.zarr"):
        with pytest.raises(DataError, match=r"2 matrices \(/a \(300, 4\), /deep/b \(10, 4\)\)"):
            as_source(path)
        with pytest.raises(DataError, match=r"'/c'.*/a, /deep/b"):
            as_source(f"{path}:/c")
        assert as_source(f"{path}:deep/b").n_samples == 10
    with pytest.raises(DataError, match="no matrix"):
        as_source(tmp_path / "none.h5")
    for member in ("a", "nothing"):
        with pytest.raises(DataError, match="Reshape"):
            as_source(f"{tmp_path / 'none.h5'}:{member}")


def test_damaged_zarr_chunk(tmp_path):
    given, _ = containers.zarr_store(X, tmp_path)
    source = as_source(given)
    chunk = next(path for path in sorted((given / "c").rglob("*")) if path.is_file())
    chunk.write_bytes(b"damaged")
    with pytest.raises(SourceError, match="Zarr store"):
        source.read(0, 300)


def test_directories_and_unknown_formats(tmp_path):
    with pytest.raises(SourceError, match="is a directory"):
        as_source(tmp_path)
    (tmp_path / "x.npy").mkdir()
    with pytest.raises(SourceError, match="is a directory"):
        as_source(tmp_path / "x.npy")
    hints = [("x.wav", r"'\.wav'.*\.npy"), ("x", "no extension"), ("x.fdt", r"\.set"), ("x.eeg", r"\.vhdr")]
    for name, hint in [*hints, ("x.mat", "loadmat"), ("x.txt", r"name it \.csv"), ("x.XLSX", "read_excel")]:
        (tmp_path / name).write_bytes(b"1234")
        with pytest.raises(SourceError, match=hint):
            as_source(tmp_path / name)
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(SourceError, match="not a regular file"):
        as_source(tmp_path / "pipe.npy")
    with pytest.raises(SourceError, match="null"):
        as_source("x\0.npy")


def test_permission_denied(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", X)

    def refuse(path, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(SourceError, match=r"x\.npy: permission denied"):
        as_source(tmp_path / "x.npy")


def test_parquet_columns(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"name": ["x", "y"], "b": [1.0, None], "a": [1, 2], "flag": [True, None]})
    parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.warns(MajoricaWarning, match="'name'"):
        source = as_source(tmp_path / "x.parquet")
    assert source.feature_names == ("b", "a", "flag")
    np.testing.assert_array_equal(source.read(0, 2), [[1, 1, 1], [np.nan, 2, np.nan]])
    assert as_source(tmp_path / "x.parquet", picks=["a", "b"]).feature_names == ("a", "b")
    np.testing.assert_array_equal(as_source(tmp_path / "x.parquet", picks=["a", "b"]).read(0, 1), [[1, 1]])
    with pytest.raises(DataTypeError, match="'name'"):
        as_source(tmp_path / "x.parquet", picks=["name"])
    with pytest.raises(ParameterError, match="'z'"):
        as_source(tmp_path / "x.parquet", picks=["z"])
    parquet.write_table(table.select(["name"]), tmp_path / "y.parquet")
    with pytest.raises(DataTypeError, match="no column"):
        as_source(tmp_path / "y.parquet")


def test_feather_picks_keep_their_order(tmp_path):
    given, _ = containers.feather(X, tmp_path)
    np.testing.assert_array_equal(as_source(given, picks=["c3", "c1"]).read(40, 60), X[40:60, [3, 1]])


def test_parquet_directory_with_other_columns(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"a": [1.0]}), tmp_path / "0.parquet")
    parquet.write_table(pa.table({"b": [1.0]}), tmp_path / "1.parquet")
    with pytest.raises(SourceError, match=r"1\.parquet: its columns differ"):
        as_source(tmp_path)


def spooled(folder):
    return [name for name in os.listdir(folder) if name.startswith("majorica-")]


@pytest.fixture
def temporary_folder(tmp_path, monkeypatch):
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("builder", [containers.text, containers.npz_compressed, containers.eeglab_inside])
def test_temporary_files_are_removed(builder, tmp_path, temporary_folder):
    given, options = builder(X, tmp_path)
    source = as_source(given, **options)
    copy = pickle.loads(pickle.dumps(source))
    assert len(spooled(temporary_folder)) == 2
    source.close()
    assert len(spooled(temporary_folder)) == 1
    np.testing.assert_array_equal(copy.read(0, 300), X)
    del copy, source
    gc.collect()
    assert spooled(temporary_folder) == []


def test_temporary_files_are_removed_on_errors(tmp_path, temporary_folder):
    (tmp_path / "x.csv").write_text("1,2\n3,x\n")
    with pytest.raises(DataError):
        as_source(tmp_path / "x.csv")
    np.savez_compressed(tmp_path / "x.npz", np.ones((2, 5)))
    with pytest.raises(DataError, match="ambiguous"):
        as_source(tmp_path / "x.npz")
    gc.collect()
    assert spooled(temporary_folder) == []


def test_memory_of_a_channels_first_map(tmp_path):
    """A block of a sparse file of 8 GB is read without the rest of it."""
    path = tmp_path / "huge.npy"
    shape = (64, 2**24)
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
        file.truncate(file.tell() + 8 * shape[0] * shape[1])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    block = as_source(path, layout="channels-first").read(2**23, 2**23 + 1000)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes on Linux, bytes on macOS: either way far less than the file.
    assert (after - before) * (1 if sys.platform == "darwin" else 1024) < 2**28
    assert block.shape == (1000, 64)
    assert not block.any()


def test_file_object_is_not_taken_for_its_format():
    buffer = io.BytesIO()
    np.save(buffer, X)
    buffer.seek(0)
    with pytest.raises(SourceError, match=r"\.npy"):
        as_source(buffer, n_features=4)


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("suffix", [".npy", "_raw.fif"])
def test_a_list_of_paths_is_fitted_as_one(kind, suffix, tmp_path):
    X = np.random.default_rng(0).laplace(size=(900, 3)).astype(np.float32)
    paths = [str(tmp_path / f"run1{suffix}"), tmp_path / f"run2{suffix}"]
    for path, part in zip(paths, (X[:500], X[500:]), strict=True):
        if suffix == ".npy":
            np.save(path, part)
        else:
            mne = pytest.importorskip("mne")
            info = mne.create_info(["a", "b", "c"], 100.0, "eeg")
            mne.io.RawArray(1e-5 * part.T, info, verbose="ERROR").save(path, verbose="ERROR")
    joined = kind(paths)
    whole = as_source(joined).read(0, 900)
    ica, expected = ICA(random_state=0).fit(joined), ICA(random_state=0).fit(whole)
    assert ica.n_samples_seen_ == 900
    np.testing.assert_array_equal(ica.components_, expected.components_)
    np.testing.assert_array_equal(ica.transform(joined), expected.transform(whole))
    assert ica.score(joined) == expected.score(whole)
    assert ICA(random_state=0).partial_fit(joined).n_samples_seen_ == 900
    with pytest.raises(SourceError, match="no such file"):
        ICA().fit(kind([*paths, str(tmp_path / "run3.npy")]))

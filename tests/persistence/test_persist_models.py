"""Model files: exact, atomic, safe to open."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from majorica import ICA
from majorica.densities import Density, LogCosh
from majorica.errors import ModelFileError
from majorica.persistence import atomic

SOLVERS = ["progressive", "incremental", "batch", "online"]
warnings_off = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def mixture(n: int = 12_000, p: int = 3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.laplace(size=(n, p)) @ rng.normal(size=(p, p)) + 5.0


def fitted(solver: str = "progressive", **options: object) -> ICA:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ICA(solver=solver, random_state=1, max_iter=3, **options).fit(mixture())


def assert_same_model(a: ICA, b: ICA) -> None:
    public = {name for name in vars(a) if name.endswith("_")}
    assert public == {name for name in vars(b) if name.endswith("_")}
    for name in public:
        assert type(getattr(a, name)) is type(getattr(b, name)), name
        if name != "trace_":
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.trace_.dtype == b.trace_.dtype
    for name in ("passes", "n_samples", "loss", "gradient"):  # seconds go on by the clock
        np.testing.assert_array_equal(a.trace_[name], b.trace_[name], err_msg=name)


def test_streams_keep_no_callbacks() -> None:
    """Models pickle once the parameter is gone; until then each block calls what the parameter says."""
    called: list[int] = []
    ica = ICA(solver="online", random_state=0, callbacks=lambda step: called.append(1)).fit(mixture())
    assert called
    merged = ICA.merge([ica, ica])
    for model in (ica, merged):
        before = len(called)
        model.partial_fit(mixture())
        assert len(called) > before
        assert_same_model(model.set_params(callbacks=None), pickle.loads(pickle.dumps(model)))
        before = len(called)
        model.partial_fit(mixture())
        assert len(called) == before


def test_models_fitted_with_progress_pickle() -> None:
    ica = ICA(solver="online", random_state=0, verbose=1).fit(mixture())
    assert_same_model(ica, pickle.loads(pickle.dumps(ica)))
    ica.partial_fit(mixture())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("way", ["file", "pickle"])
def test_a_stored_model_is_the_model(solver: str, way: str, tmp_path: Path) -> None:
    ica = fitted(solver)
    if way == "file":
        ica.save(tmp_path / "model.npz")
        again = ICA.load(tmp_path / "model.npz")
    else:
        again = pickle.loads(pickle.dumps(ica))
    assert_same_model(ica, again)
    np.testing.assert_array_equal(ica.trace_["seconds"], again.trace_["seconds"])
    X = mixture(500, seed=2)
    np.testing.assert_array_equal(ica.transform(X), again.transform(X))
    np.testing.assert_array_equal(ica.inverse_transform(X), again.inverse_transform(X))
    assert ica.score(X) == again.score(X)
    assert again.get_params() == ica.get_params()
    for block in np.split(mixture(4000, seed=3), 4):
        ica.partial_fit(block)
        again.partial_fit(block)
    assert_same_model(ica, again)


@pytest.mark.parametrize("samples", [40, 9_000, 10_000, 23_456])
def test_a_stored_stream_goes_on_to_the_same_bits(samples: int, tmp_path: Path) -> None:
    X = mixture(40_000)
    ica = ICA(random_state=0, n_updates=1).partial_fit(X[:samples])
    ica.save(tmp_path / "model.npz")
    again = ICA.load(tmp_path / "model.npz")
    for start in range(samples, 40_000, 3_000):
        ica.partial_fit(X[start : start + 3_000])
        again.partial_fit(X[start : start + 3_000])
    stable = [name for name in vars(ica) if name.endswith("_") and name != "trace_"]
    for name in stable:
        np.testing.assert_array_equal(getattr(ica, name), getattr(again, name), err_msg=name)


def test_parameters_of_every_kind_come_back(tmp_path: Path) -> None:
    start = np.eye(3) + 0.1
    options = {"w_init": start, "density": LogCosh(), "memory_limit": "1GB", "n_updates": None, "tol": 1e-3}
    ica = ICA(random_state=np.random.default_rng(4), callbacks=print, **options)
    ica.callbacks = None
    ica.fit(mixture())
    ica.save(tmp_path / "model.npz")
    again = ICA.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.w_init, start)
    assert again.density == LogCosh()
    assert again.random_state.bit_generator.state == ica.random_state.bit_generator.state
    assert (again.memory_limit, again.n_updates, again.tol, again.callbacks) == ("1GB", None, 1e-3, None)
    ICA(random_state=np.random.RandomState(3)).fit(mixture()).save(tmp_path / "model.npz")
    assert ICA.load(tmp_path / "model.npz").random_state.randint(1000) >= 0


def test_feature_names_come_back(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(mixture(), columns=["Fz", "Cz", '"><b/id=x>'])
    ica = ICA(random_state=0).fit(frame)
    ica.save(tmp_path / "model.npz")
    again = ICA.load(tmp_path / "model.npz")
    assert_same_model(ica, again)
    again.transform(frame)


class Mine(LogCosh):
    """A density of the user's own."""


def test_a_users_density_must_be_passed_again(tmp_path: Path) -> None:
    Mine.__module__ = "somewhere"
    ica = ICA(density=Mine(), random_state=0).fit(mixture())
    ica.save(tmp_path / "model.npz")
    with pytest.raises(ModelFileError, match="pass it as density="):
        ICA.load(tmp_path / "model.npz")

    class Other(Mine):
        def loss(self, y: np.ndarray) -> np.ndarray:
            return 2 * super().loss(y)

    with pytest.raises(ModelFileError, match="differs"):
        ICA.load(tmp_path / "model.npz", density=Other())
    again = ICA.load(tmp_path / "model.npz", density=Mine())
    assert isinstance(again.density, Density)
    assert_same_model(ica, again)


def test_numpy_opens_the_file_and_equal_models_are_equal_files(tmp_path: Path) -> None:
    ica = fitted()
    ica.save(tmp_path / "a.npz")
    ica.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz") as archive:
        np.testing.assert_array_equal(archive["components_"], ica.components_)


def test_an_unfitted_model_is_not_saved(tmp_path: Path) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        ICA().save(tmp_path / "model.npz")
    assert not os.listdir(tmp_path)


# ------------------------------------------------------------------ writing


def test_a_full_disk_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.npz"
    ica = fitted()
    ica.save(path)
    before = path.read_bytes()

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(ModelFileError, match="No space left"):
        ica.partial_fit(mixture(500)).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.npz"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="No such file"):
        fitted().save(tmp_path / "nowhere" / "model.npz")
    with pytest.raises(ModelFileError, match="no such file"):
        ICA.load(tmp_path / "none.npz")
    with pytest.raises(ModelFileError, match="directory"):
        ICA.load(tmp_path)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.npz").write_bytes(b"")
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    fitted().save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    ICA.load(tmp_path / "real.npz")


# ------------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def model() -> tuple[ICA, bytes]:
    ica = fitted("online")
    return ica, stored(ica)


def stored(ica: ICA) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        ica.save(os.path.join(folder, "m.npz"))
        return Path(folder, "m.npz").read_bytes()


def load_bytes(data: bytes, folder: Path) -> ICA:
    path = folder / "damaged.npz"
    path.write_bytes(data)
    return ICA.load(path)


def test_truncated_files_are_refused(model: tuple[ICA, bytes], tmp_path: Path) -> None:
    _, data = model
    for cut in np.linspace(0, len(data) - 1, 20).astype(int):
        with pytest.raises(ModelFileError, match="damaged"):
            load_bytes(data[:cut], tmp_path)


def flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def test_flipped_bits_are_refused_or_do_not_matter(model: tuple[ICA, bytes], tmp_path: Path) -> None:
    ica, data = model
    rng = np.random.default_rng(0)
    bits = set(rng.choice(8 * len(data), 1000, replace=False).tolist())
    directory = data.index(b"PK\x01\x02")
    bits |= set(range(8 * directory, 8 * directory + 8 * 60))  # the first entry of the zip directory, whole
    bits |= set(range(8 * (len(data) - 22), 8 * len(data)))  # and the end record
    bits |= set(range(8 * 60))  # and a local header
    harmless = 0
    for bit in sorted(bits):
        try:
            again = load_bytes(flip(data, bit), tmp_path)
        except ModelFileError:
            continue
        harmless += 1
        assert_same_model(ica, again)
    assert 0 < harmless < len(bits) / 2


def rewrite(data: bytes, change: object) -> bytes:
    """The archive with its members changed by `change(members)`, checksums of the zip itself right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    change(members)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def header_change(*way: str, to: object) -> object:
    def change(members: dict[str, bytes]) -> None:
        header = at = json.loads(members["header.json"])
        for key in way[:-1]:
            at = at[key]
        at[way[-1]] = to
        members["header.json"] = json.dumps(header).encode()

    return change


class Bomb:
    """Would leave a trace if it were unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("/tmp/majorica-was-here",)


def pickled_array() -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.array([Bomb()], dtype=object), allow_pickle=True)
    return out.getvalue()


HOSTILE = {
    "newer-version": (header_change("version", to=2), "version 2"),
    "text-version": (header_change("version", to="1"), "version '1'"),
    "other-kind": (header_change("schema", to="majorica checkpoint"), "not a Majorica model"),
    "shape": (header_change("arrays", "components_", to={}), "damaged|malformed|disagree"),
    "claims-more": (header_change("arrays", "mean_", "shape", to=[10**15]), "damaged|should have"),
    "negative-shape": (header_change("arrays", "_signs", "shape", to=[-3]), "claims the shape"),
    "object-dtype": (header_change("arrays", "_signs", "dtype", to="|O"), "only numbers"),
    "no-header": (lambda m: m.pop("header.json"), "no header"),
    "no-checksum": (lambda m: m.pop("sha256"), "no sha256"),
    "wrong-checksum": (lambda m: m.update(sha256=b"0" * 64), "checksum"),
    "extra-member": (lambda m: m.update({"extra.npy": m["components_.npy"]}), "disagree"),
    "missing-member": (lambda m: m.pop("components_.npy"), "disagree"),
    "parent-folder": (lambda m: m.update({"../evil.npy": b""}), "unexpected name"),
    "absolute-path": (lambda m: m.update({"/etc/evil.npy": b""}), "unexpected name"),
    "program": (lambda m: m.update({"evil.py": b"import os"}), "unexpected name"),
    "pickled-array": (lambda m: m.update({"components_.npy": pickled_array()}), "should have|not what|damaged"),
    "not-json": (lambda m: m.update({"header.json": b"{"}), "damaged"),
    "deep-json": (lambda m: m.update({"header.json": b"[" * 100_000}), "damaged|deep"),
    "changed-number": (lambda m: m.update({"components_.npy": m["components_.npy"][:-1] + b"\x40"}), "checksum"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_by_name(case: str, model: tuple[ICA, bytes], tmp_path: Path) -> None:
    change, words = HOSTILE[case]
    with pytest.raises(ModelFileError, match=words):
        load_bytes(rewrite(model[1], change), tmp_path)
    assert not os.path.exists("/tmp/majorica-was-here")


def test_compressed_bombs_are_refused_before_unpacking(model: tuple[ICA, bytes], tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", b" " * 10**8)
        archive.writestr("sha256", b"0" * 64)
    with pytest.raises(ModelFileError, match="compressed"):
        ICA.load(path)


def signed(data: bytes, edit: object) -> bytes:
    """The archive with its content edited and signed anew, as someone who knows the format would."""
    from majorica.persistence.container import read_container, write_container

    source = io.BytesIO(data)
    with zipfile.ZipFile(source) as archive:
        header = json.loads(archive.read("header.json"))
        arrays = {n: np.load(io.BytesIO(archive.read(f"{n}.npy"))) for n in header["arrays"]}
    content = header["content"]
    edit(content, arrays)
    out = io.BytesIO()
    write_container(out, schema="majorica model", version=1, content=content, arrays=arrays)
    assert callable(read_container)
    return out.getvalue()


def _wrong_moments(content: dict, arrays: dict) -> None:
    arrays["_stream.state.surrogate.moments"] = np.zeros((1, 1, 1))


def _nan(content: dict, arrays: dict) -> None:
    arrays["components_"] = np.full_like(arrays["components_"], np.nan)


def _method(content: dict, arrays: dict) -> None:
    content["fitted"]["transform"] = "x"


def _dunder(content: dict, arrays: dict) -> None:
    content["fitted"]["__class__"] = "x"


def _foreign(content: dict, arrays: dict) -> None:
    content["fitted"]["_fitted"]["class"] = "Popen"


def _own_but_not_allowed(content: dict, arrays: dict) -> None:
    content["fitted"]["_fitted"]["class"] = "Checkpoint"


def _parameter(content: dict, arrays: dict) -> None:
    content["parameters"]["solver"] = "rm -rf"


def _unknown_parameter(content: dict, arrays: dict) -> None:
    content["parameters"]["shell"] = True


def _unknown_feature(content: dict, arrays: dict) -> None:
    content["fitted"]["_stream"]["fields"]["far"] = 10**9


def _text_for_a_feature(content: dict, arrays: dict) -> None:
    content["fitted"]["_stream"]["fields"]["flat"] = ["x"]


@pytest.mark.parametrize(
    "edit",
    [
        _wrong_moments,
        _nan,
        _method,
        _dunder,
        _foreign,
        _own_but_not_allowed,
        _parameter,
        _unknown_parameter,
        _unknown_feature,
        _text_for_a_feature,
    ],
)
def test_well_signed_lies_are_refused(edit: object, model: tuple[ICA, bytes], tmp_path: Path) -> None:
    load_bytes(signed(model[1], lambda content, arrays: None), tmp_path)
    with pytest.raises(ModelFileError):
        load_bytes(signed(model[1], edit), tmp_path)


def test_random_bytes_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 22, 1000, 100_000):
        with pytest.raises(ModelFileError):
            load_bytes(rng.bytes(size), tmp_path)


# --------------------------------------------------------------------- onnx


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_onnx_transforms_as_the_model_does() -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    ica = fitted(n_components=2)
    session = runtime.InferenceSession(ica.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
    X = mixture(200, seed=5).astype(np.float32)
    (sources,) = session.run(["sources"], {"X": X})
    np.testing.assert_allclose(sources, ica.transform(X.astype(np.float64)), rtol=1e-5, atol=1e-5)

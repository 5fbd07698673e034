"""Every command on every format."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from program import run, run_many, samples, write_all

from majorica import ICA


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return write_all(tmp_path_factory.mktemp("formats"))


@pytest.fixture(scope="module")
def results(files, tmp_path_factory):
    """fit, transform, report and info on every format, all in one process."""
    folder = tmp_path_factory.mktemp("results")
    commands, keys = [], []
    for suffix, path in files.items():
        stem = folder / suffix[1:]
        model, sources, page = (stem.with_suffix(end) for end in (".model", ".npy", ".html"))
        commands += [
            ["fit", path, "-o", model, "--json"],
            ["transform", model, path, "-o", sources, "--json"],
            ["report", model, path, "-o", page, "--json"],
            ["info", model, "--json"],
        ]
        keys += [(suffix, name) for name in ("fit", "transform", "report", "info")]
    return folder, dict(zip(keys, run_many(commands), strict=True))


SUFFIXES = [
    ".npy", ".npz", ".h5", ".zarr", ".parquet", ".feather", ".csv", ".tsv", ".set", ".fif", ".edf", ".bdf", ".vhdr",
]  # fmt: skip


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_command(suffix, results):
    folder, done = results
    answers = {}
    for command in ("fit", "transform", "report", "info"):
        code, out, err = done[suffix, command]
        assert code == 0, err
        assert "Traceback" not in err
        answers[command] = json.loads(out)
    assert answers["fit"]["n_samples"] == answers["transform"]["n_samples"] == 1500
    assert answers["fit"]["n_components"] == answers["info"]["n_components"] == 4
    assert answers["fit"]["converged"] is True
    sources = np.load(folder / f"{suffix[1:]}.npy")
    assert sources.shape == (1500, 4)
    np.testing.assert_allclose(sources.std(axis=0), 1.0, rtol=1e-3)
    page = (folder / f"{suffix[1:]}.html").read_text(encoding="utf-8")
    assert page.count("<details") == 4
    assert not list(folder.glob(".*")), "temporary files were left behind"


def test_formats_of_one_matrix_give_one_model(results):
    _, done = results
    losses = [json.loads(done[suffix, "fit"][1])["loss"] for suffix in (".npy", ".npz", ".h5", ".zarr", ".parquet")]
    assert len(set(losses)) == 1


def test_the_installed_program(files, tmp_path):
    """The same through the program itself, in processes of their own."""
    model, sources = tmp_path / "m.npz", tmp_path / "s.npy"
    fitted = run("fit", files[".npy"], "-o", model)
    assert fitted.returncode == 0, fitted.stderr
    assert fitted.stdout == ""
    assert "4 components of 1,500 samples" in fitted.stderr
    assert fitted.stderr.count("\n") == 1
    moved = run("transform", model, files[".npy"], "-o", sources, "-q")
    assert (moved.returncode, moved.stdout, moved.stderr) == (0, "", "")
    told = run("info", model)
    assert told.returncode == 0
    assert "1,500" in told.stdout
    assert told.stderr == ""


def test_several_files_are_joined(tmp_path):
    X = samples()
    for name, rows in (("a.npy", X[:600]), ("b.npy", X[600:]), ("narrow.npy", X[:, :3])):
        np.save(tmp_path / name, rows)
    a, b, m = tmp_path / "a.npy", tmp_path / "b.npy", tmp_path / "m.npz"
    done = run_many(
        [
            ["fit", a, b, "-o", m, "--json", "-q"],
            ["transform", m, a, b, "-o", tmp_path / "s.npy", "-q"],
            ["report", m, a, b, "-o", tmp_path / "r.html", "-q"],
            ["info", m],
            ["fit", a, "-", "-o", tmp_path / "n.npz"],
            ["fit", a, tmp_path / "narrow.npy", "-o", tmp_path / "n.npz"],
            ["fit", a, b, "-o", b, "--force"],
        ]
    )
    assert [code for code, _, _ in done] == [0, 0, 0, 0, 2, 3, 2]
    assert json.loads(done[0][1])["n_samples"] == 1500
    ica = ICA(random_state=0).fit(X)
    np.testing.assert_array_equal(ICA.load(m).components_, ica.components_)
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), ica.transform(X), atol=1e-12)
    assert "<title>a.npy and 1 more</title>" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"fitted        {a} and 1 more" in done[3][1]
    assert "give it alone" in done[4][2]
    assert "is an input too" in done[6][2]


def test_layout(tmp_path):
    np.save(tmp_path / "wide.npy", samples().T)
    refused, given = run_many(
        [
            ["fit", tmp_path / "wide.npy", "-o", tmp_path / "m.npz"],
            ["fit", tmp_path / "wide.npy", "-o", tmp_path / "m.npz", "--layout", "channels-first", "--json"],
        ]
    )
    assert refused[0] == 3
    assert "--layout" in refused[2]
    assert given[0] == 0
    assert json.loads(given[1])["n_features"] == 4

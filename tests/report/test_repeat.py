"""What "To repeat it" shows repeats the fit, or says what cannot be known."""

from __future__ import annotations

import shlex

import numpy as np
import pytest
from pages import Page, channels

from majorica import ICA, Report
from majorica.cli import main
from majorica.densities import Huber
from majorica.errors import ModelFileError
from majorica.interop.matrices import ica_from_matrices
from majorica.origin import FileUse, Origin
from majorica.report.repeat import notes, python_lines, shell_command
from majorica.sources import as_source

X = channels(4, 1500)


def by_python(ica, **names):
    exec(python_lines(ica), names)
    return names["ica"]


def by_program(ica, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(shell_command(ica))[1:], "--force", "-q"])
    assert ended.value.code == 0
    return ICA.load(tmp_path / "model.npz")


def write_table(path):
    import pandas

    pandas.DataFrame(X, columns=["a", "b", "c d", "e"]).to_csv(path, index=False)
    return path


def files(folder):
    """Files that have to be read in a certain way."""
    np.save(folder / "x.npy", X.T[:, :900])
    np.savez(folder / "two.npz", x=X, other=X[:, :2])
    table = write_table(folder / "x.csv")
    return {
        "layout": as_source(folder / "x.npy", layout="channels-first"),
        "member": f"{folder / 'two.npz'}:x",
        "picks": as_source(table, picks=["c d", "a"]),
    }


@pytest.mark.parametrize("kind", ["layout", "member", "picks"])
def test_both_ways_repeat_a_fit_of_a_file(kind, tmp_path, monkeypatch):
    ica = ICA(2, density="huber", random_state=3).fit(files(tmp_path)[kind])
    ica.save(tmp_path / "kept.npz")
    for model in (ica, ICA.load(tmp_path / "kept.npz")):
        assert not notes(model)
        np.testing.assert_array_equal(by_python(model).components_, ica.components_)
        np.testing.assert_array_equal(by_program(model, tmp_path, monkeypatch).components_, ica.components_)


def test_the_page_names_the_file_that_was_fitted(tmp_path):
    for name in ("fitted.npy", "other.npy"):
        np.save(tmp_path / name, X)
    ica = ICA(random_state=0).fit(tmp_path / "fitted.npy")
    text = " ".join(Page(Report(ica, tmp_path / "other.npy").html).text)
    assert f"majorica fit {tmp_path / 'fitted.npy'} -o model.npz --seed 0" in text
    assert f"majorica fit {tmp_path / 'other.npy'}" not in text
    assert "fitted was another file" in text
    assert "another file" not in Report(ica, str(tmp_path / "fitted.npy")).html


def test_several_files_are_one_command(tmp_path, monkeypatch):
    for name, rows in (("a.npy", X[:700]), ("b c.npy", X[700:])):
        np.save(tmp_path / name, np.ascontiguousarray(rows.T))
    given = [as_source(tmp_path / name, layout="channels-first") for name in ("a.npy", "b c.npy")]
    ica = ICA(2, random_state=3).fit(as_source(given))
    assert "'b c.npy'" in shell_command(ica).replace(f"{tmp_path}/", "")
    np.testing.assert_array_equal(by_program(ica, tmp_path, monkeypatch).components_, ica.components_)
    page = Report(ica, as_source(given))
    assert page.title == "a.npy and 1 more"
    assert "majorica fit" in page.html
    assert Report(ica, as_source(given), title="Mine").title == "Mine"


def test_a_list_of_files_read_in_different_ways_is_repeated_in_python(tmp_path):
    np.save(tmp_path / "a.npy", X[:700])
    np.save(tmp_path / "b.npy", np.ascontiguousarray(X[700:].T))
    ica = ICA(random_state=0).fit(
        as_source([tmp_path / "a.npy", as_source(tmp_path / "b.npy", layout="channels-first")])
    )
    assert shell_command(ica) is None
    assert not notes(ica)
    np.testing.assert_array_equal(by_python(ica).components_, ica.components_)


def test_options_that_the_program_lacks_are_not_left_out(tmp_path):
    np.save(tmp_path / "x.npy", X)
    for given in ({"density": Huber()}, {"solver": "incremental", "n_updates": 1}, {"w_init": np.eye(4)}):
        ica = ICA(random_state=0, **given).fit(tmp_path / "x.npy")
        assert shell_command(ica) is None
        if "n_updates" not in given:
            assert notes(ica) == [f"Not shown as Python: {next(iter(given))}."]
        else:
            assert not notes(ica)
            np.testing.assert_array_equal(by_python(ica).components_, ica.components_)


def test_what_is_no_file_is_called_x():
    ica = ICA(random_state=0).fit(X)
    assert shell_command(ica) is None
    assert "was no file" in notes(ica)[0]
    np.testing.assert_array_equal(by_python(ica, X=X).components_, ica.components_)
    unseeded = ICA().fit(X)
    assert "No random_state" in notes(unseeded)[1]
    streamed = ICA(random_state=0).fit(iter([X]))
    assert "stream" in notes(streamed)[0]


def test_blocks_are_blocks(tmp_path):
    np.save(tmp_path / "x.npy", X)
    ica = ICA(random_state=0).partial_fit(X[:700]).partial_fit(X[700:])
    assert shell_command(ica) is None
    assert ".fit(" not in python_lines(ica)
    assert "block by block" in notes(ica)[0]
    np.testing.assert_array_equal(by_python(ica, blocks=[X[:700], X[700:]]).components_, ica.components_)
    more = ICA(random_state=0).fit(tmp_path / "x.npy").partial_fit(X)
    assert shell_command(more) is None
    assert "went on learning" in notes(more)[0]
    np.testing.assert_array_equal(by_python(more, blocks=[X]).components_, more.components_)


def test_models_made_in_other_ways(tmp_path):
    mne = pytest.importorskip("mne")
    from majorica.interop.mne import fit_epochs, fit_raw

    raw = mne.io.RawArray(1e-5 * X.T, mne.create_info(4, 100.0, "eeg"), verbose="ERROR")
    ica = fit_raw(raw, 3, random_state=0)
    np.testing.assert_array_equal(by_python(ica, raw=raw).components_, ica.components_)
    epochs = mne.make_fixed_length_epochs(raw, 1.0, verbose="ERROR")
    ica = fit_epochs(epochs, random_state=0)
    np.testing.assert_array_equal(by_python(ica, epochs=epochs).components_, ica.components_)
    assert "epochs" in notes(ica)[0]
    merged = ICA.merge([ica, ica])
    np.testing.assert_array_equal(by_python(merged, models=[ica, ica]).components_, merged.components_)
    assert "merged" in notes(merged)[0]
    assert "another program" in notes(ica_from_matrices(np.eye(2), np.eye(2), np.zeros(2)))[0]


def test_models_of_older_versions_do_not_say(tmp_path):
    ica = ICA(random_state=0).fit(X)
    del ica._origin
    ica.save(tmp_path / "model.npz")
    old = ICA.load(tmp_path / "model.npz")
    assert shell_command(old) is None
    assert notes(old) == ["The model does not say what it was fitted on."]
    assert "does not say" in Report(old, X).html
    ica._origin = {"call": "fit"}
    ica.save(tmp_path / "odd.npz")
    with pytest.raises(ModelFileError, match="origin"):
        ICA.load(tmp_path / "odd.npz")


def test_hostile_origins_stay_text(tmp_path):
    ica = ICA(random_state=0).fit(X)
    ica._origin = Origin("fit", "</p><b id=q>", (FileUse("\u202e</pre><b id=q>\udcff.npy", picks=["<b id=q>"]),))
    ica.save(tmp_path / "model.npz")
    page = Report(ICA.load(tmp_path / "model.npz"), X).html
    assert "q" not in Page(page).ids
    page.encode("utf-8")
    ica._origin = Origin("fit", "</p><b id=q>")
    assert "q" not in Page(Report(ica, X).html).ids


def test_odd_picks_and_names(tmp_path):
    path = write_table(tmp_path / "x, y.csv")
    ica = ICA(random_state=0).fit(as_source(path, picks=("a", "e")))
    assert ica._origin.files == (FileUse(str(path), picks=["a", "e"]),)
    ica._origin = Origin("fit", "table", (FileUse(str(path), picks=["a,b"]),))
    assert shell_command(ica) is None, "the program takes commas for the next name"
    ica._origin = Origin("fit", "table", (FileUse(str(path), odd_picks=True),))
    assert shell_command(ica) is None
    assert "picked" in notes(ica)[0]
    for wrong in ({"path": 5}, {"path": "x", "picks": [1.5]}):
        with pytest.raises(ValueError, match=r"path|picked"):
            FileUse(**wrong)
    with pytest.raises(ValueError, match="files"):
        Origin("fit", "table", ("x",))

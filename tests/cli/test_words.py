"""What the library says, in the words of the shell and safe for a terminal."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from program import call, one_line, samples

from majorica import ICA
from majorica.cli.info import show_table
from majorica.cli.words import escaped, for_the_shell, printable


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("are left out; pass picks= to choose columns.", "are left out; pass --picks to choose columns."),
        ("choose columns with picks=.", "choose columns with --picks."),
        ("choose columns with picks= (as_source takes it).", "choose columns with --picks."),
        ("pass layout='channels-first' (as_source takes it) if", "pass --layout channels-first if"),
        ("pass n_components<=6 or leave it None.", "pass --n-components 6 or fewer or leave it out."),
        ("n_components=9 exceeds the rank", "--n-components 9 exceeds the rank"),
        ("raise max_iter, or tol if", "raise --max-iter, or --tol if"),
        ("max_iter passes were made; raise max_iter or tol", "--max-iter passes were made; raise --max-iter or --tol"),
        ("needs n_features=, how many", "needs --n-features, how many"),
        ("n_components=0 must be None, a positive integer", "--n-components 0 must be a positive integer"),
        ("file object with n_features=.", "file object with --n-features."),
        ("pass layout='channels-first' if", "pass --layout channels-first if"),
        ("layout='a b' is unknown", "--layout 'a b' is unknown"),
        (
            "checkpoint='c.x' is in use; the last checkpoint stays",
            "--checkpoint c.x is in use; the last checkpoint stays",
        ),
        ("random_state=-1 must be", "--seed -1 must be"),
        ("pass a smaller n_components", "pass a smaller --n-components"),
        ("the layout of a solver's density", "the layout of a solver's density"),
        ("/data/max_iter/tol.npy: no such file", "/data/max_iter/tol.npy: no such file"),
        ("max_iter.npy: no such file; x.tol, max_iter_2", "max_iter.npy: no such file; x.tol, max_iter_2"),
        ("a/layout=3/x.npy: empty", "a/layout=3/x.npy: empty"),
        ("--max-iter 0 is too small", "--max-iter 0 is too small"),
        (
            "39 or more: set ica.unit_ = 'uV' if it was fitted on those, or fit the recording itself",
            "39 or more: fit the recording itself",
        ),
    ],
)
def test_arguments_become_options(said, shown):
    assert for_the_shell(said) == shown
    assert for_the_shell(shown) == shown


def test_escapes_are_shown_not_sent():
    assert printable("a\x1b[31mb\x07\nc\u202e\udcff d") == r"a\x1b[31mb\x07 c\u202e\udcff d"
    assert printable("שלום-🧠 ü") == "שלום-🧠 ü"
    assert escaped("a\x1b[31mb\n  c\td") == r"a\x1b[31mb\n  c\td"


def test_warnings_speak_of_options(data, tmp_path, capfd):
    code, _, err = call(capfd, "fit", data, "-o", tmp_path / "m.npz", "--max-iter", "1")
    assert code == 4
    assert "raise --max-iter, or --tol" in err
    assert "max_iter" not in err


def test_more_components_than_there_are(data, tmp_path, capfd):
    code, _, err = call(capfd, "fit", data, "-o", tmp_path / "m.npz", "-n", "9")
    assert code == 3
    assert "--n-components 9 exceeds the data's rank 4; pass --n-components 4 or fewer or leave it out" in err


def test_columns_left_out(tmp_path, capfd):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    X = samples()
    parquet.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1], "t": ["x"] * len(X)}), tmp_path / "x.parquet")
    code, _, err = call(capfd, "fit", tmp_path / "x.parquet", "-o", tmp_path / "m.npz")
    assert code == 0
    assert "pass --picks to choose columns" in err


def test_control_characters_in_names(model, tmp_path, capfd):
    path = tmp_path / "a\x1b[2Jb.npy"
    for words in (["fit", path, "-o", tmp_path / "m.npz"], ["info", path]):
        code, _, err = call(capfd, *words)
        assert code == 3
        assert one_line(err)
        assert "\x1b" not in err
        assert r"a\x1b[2Jb.npy" in err
    np.save(path, samples())
    output = tmp_path / "m\x1b[2J.npz"
    code, _, err = call(capfd, "fit", path, "-o", output)
    assert code == 0
    assert "\x1b" not in err
    _, out, _ = call(capfd, "info", output)
    assert "\x1b" not in out


def test_names_that_a_terminal_would_obey_or_that_read_as_others(tmp_path, capfd):
    pandas = pytest.importorskip("pandas")
    names = ["\x1b[2J", "[red]x[/red]", "a\nb", "p, q", "", "Fp1", "\u202ex"]
    path = tmp_path / "[red]m[bold]\x1b[2J\n.npz"
    ICA(random_state=0).fit(pandas.DataFrame(samples(p=len(names)), columns=names)).save(path)
    code, out, _ = call(capfd, "info", path)
    assert code == 0
    assert all(mark == "\n" or mark.isprintable() for mark in out)
    assert out.splitlines()[0].endswith(r"[red]m[bold]\x1b[2J\n.npz")
    row = next(line for line in out.splitlines() if line.startswith("names"))
    shown = r"""'\x1b[2J', '[red]x[/red]', 'a\nb', 'p, q', '', Fp1, '\u202ex'"""
    assert row.removeprefix("names").strip() == shown
    _, out, _ = call(capfd, "info", path, "--json")
    assert json.loads(out)["feature_names"] == names


def test_a_terminal_shows_markup_as_it_is(monkeypatch, capfd):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_table("[red]t[/red]", [("names", "[bold]a[/bold] b\x1b[2J\nc")])
    out, _ = capfd.readouterr()
    assert "[red]t[/red]" in out
    assert r"[bold]a[/bold] b\x1b[2J\nc" in out

"""What can go wrong ends in one line, the right exit code, and no half-written file."""

from __future__ import annotations

import builtins
import os

import numpy as np
import pytest
from program import call, one_line, run, samples

from majorica import ICA


def break_missing(path):
    path.unlink()


def break_empty(path):
    path.write_bytes(b"")


def break_truncated(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def break_content(path):
    path.write_bytes(b"not an array\n" * 100)


def break_directory(path):
    path.unlink()
    path.mkdir()


def break_nan(path):
    X = samples()
    X[700, 2] = np.nan
    np.save(path, X)


@pytest.mark.parametrize(
    "damage", [break_missing, break_empty, break_truncated, break_content, break_directory, break_nan]
)
@pytest.mark.parametrize("command", ["fit", "transform", "report"])
def test_bad_input(command, damage, data, model, tmp_path, capfd):
    damage(data)
    output = tmp_path / "out"
    first = [] if command == "fit" else [model]
    code, out, err = call(capfd, command, *first, data, "-o", output)
    assert code == 3
    assert out == ""
    assert one_line(err), err
    assert not output.exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("damage", [break_missing, break_empty, break_truncated, break_content, break_directory])
@pytest.mark.parametrize("command", ["transform", "report", "info"])
def test_bad_model(command, damage, data, model, tmp_path, capfd):
    broken = tmp_path / "broken.npz"
    broken.write_bytes(model.read_bytes())
    damage(broken)
    rest = [] if command == "info" else [data, "-o", tmp_path / "out"]
    code, out, err = call(capfd, command, broken, *rest)
    assert code == 3
    assert out == ""
    assert one_line(err), err
    assert str(broken) in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit"], "Missing argument"),
        (["fit", "x.npy", "--solver", "magic"], "'--solver': 'magic' is not one of"),
        (["fit", "x.npy", "--n-components", "many"], "whole number"),
        (["fit", "x.npy", "--n-components", "1.5"], "between 0 and 1"),
        (["fit", "x.npy", "--max-iter", "0"], "max-iter"),
        (["fit", "x.npy", "--memory-limit", "lots"], "--memory-limit lots must be"),
        (["fit", "x.npy", "-o", "no/such/folder/m.npz"], "does not exist"),
        (["fit", "x.npy", "-o", "x.npy", "--force"], "input too"),
        (["fit", "x.npy", "-o", "."], "is a directory"),
        (["frobnicate"], "frobnicate"),
        (["fit", "x.npy", "--frobnicate"], "frobnicate"),
        (["fit", "x.npy", "--picks", "a,b"], "picks"),
        (["demo", "--folder", "no/such/folder"], "no such directory"),
    ],
)
def test_wrong_usage(words, said, data, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capfd, *words)
    assert (code, out) == (2, "")
    assert one_line(err), err
    assert said in err
    assert not (tmp_path / "model.npz").exists()


def test_wrong_extension(data, tmp_path, capfd):
    other = data.rename(tmp_path / "x.dat")
    code, _, err = call(capfd, "fit", other, "-o", tmp_path / "m.npz")
    assert code == 3
    assert one_line(err)
    assert "unknown format '.dat'" in err
    assert "a data frame" not in err
    assert "from standard input, as -, with --n-features" in err


def test_data_of_another_width(model, tmp_path, capfd):
    np.save(tmp_path / "y.npy", samples(p=5))
    for command in ("transform", "report"):
        code, _, err = call(capfd, command, model, tmp_path / "y.npy", "-o", tmp_path / "out")
        assert code == 3
        assert one_line(err)
        assert "5 features" in err
        assert not (tmp_path / "out").exists()


def test_a_width_that_contradicts_the_data(data, tmp_path, capfd):
    code, _, err = call(capfd, "fit", data, "--n-features", "3", "-o", tmp_path / "m.npz")
    assert code == 2
    assert one_line(err)
    assert "--n-features 3 contradicts the data, which has 4 features" in err
    assert call(capfd, "fit", data, "--n-features", "4", "-o", tmp_path / "m.npz")[0] == 0


def test_data_in_place_of_a_model(data, tmp_path, capfd):
    np.savez(tmp_path / "x.npz", samples())
    for path in (data, tmp_path / "x.npz"):
        code, _, err = call(capfd, "info", path)
        assert code == 3
        assert one_line(err)
        assert f"{path}: not a Majorica model" in err


def test_columns_in_another_order(tmp_path, capfd):
    for names in ("abcd", "dbca"):
        np.savetxt(tmp_path / f"{names}.csv", samples(), delimiter=",", header=",".join(names), comments="")
    ICA(random_state=0).fit(tmp_path / "abcd.csv").save(tmp_path / "m.npz")
    for command in ("transform", "report"):
        code, _, err = call(capfd, command, tmp_path / "m.npz", tmp_path / "dbca.csv", "-o", tmp_path / "out")
        assert code == 3
        assert one_line(err)
        assert "order differs: feature 0 is 'd' and was 'a', feature 3 is 'a' and was 'd'" in err
        assert "pass --picks NAMES" in err
        assert not (tmp_path / "out").exists()
    words = ["--picks", "a,b,c,d", "-o", tmp_path / "out"]
    assert call(capfd, "transform", tmp_path / "m.npz", tmp_path / "dbca.csv", *words)[0] == 0


def test_no_permission_to_read(data, tmp_path, monkeypatch, capfd):
    real = builtins.open

    def guarded(path, *rest, **named):
        if str(path) == str(data):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *rest, **named)

    monkeypatch.setattr(builtins, "open", guarded)
    code, _, err = call(capfd, "fit", data, "-o", tmp_path / "m.npz")
    assert code == 3
    assert one_line(err)
    assert "permission denied" in err


def test_no_permission_to_write(data, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(os, "access", lambda path, mode, **named: mode != os.W_OK)
    code, _, err = call(capfd, "fit", data, "-o", tmp_path / "m.npz")
    assert code == 3
    assert one_line(err)
    assert "permission denied" in err


def test_full_disk(data, model, tmp_path, monkeypatch, capfd):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for command, first in (("fit", []), ("transform", [model]), ("report", [model])):
        output = tmp_path / "out"
        code, _, err = call(capfd, command, *first, data, "-o", output)
        assert code == 3
        assert "No space left" in err
        assert "Traceback" not in err
        assert not output.exists()
        assert not list(tmp_path.glob(".out*"))


def test_never_overwrites(data, model, tmp_path, capfd):
    output = tmp_path / "out"
    for command, first in (("fit", []), ("transform", [model]), ("report", [model])):
        output.write_text("precious")
        code, _, err = call(capfd, command, *first, data, "-o", output)
        assert code == 2
        assert "--force" in err
        assert output.read_text() == "precious"
        code, _, err = call(capfd, command, *first, data, "-o", output, "--force", "-q")
        assert (code, err) == (0, "")
        assert output.stat().st_size > 1000


def test_not_converged_still_writes(data, tmp_path, capfd):
    output = tmp_path / "m.npz"
    code, _, err = call(capfd, "fit", data, "-o", output, "--max-iter", "1", "--tol", "1e-12", "--solver", "batch")
    assert code == 4
    assert "warning: " in err
    assert "Traceback" not in err
    assert ICA.load(output).converged_ is False
    code, _, _ = call(capfd, "fit", data, "-o", output, "-f", "--max-iter", "2", "--tol", "0", "--solver", "batch")
    assert code == 0, "tol 0 asks for all passes, and they were made"


def test_a_bug_is_one_line_too(data, tmp_path, monkeypatch, capfd):
    def broken(*arguments, **named):
        raise RuntimeError("spilled\nthe beans")

    monkeypatch.setattr(ICA, "fit", broken)
    code, _, err = call(capfd, "fit", data, "-o", tmp_path / "m.npz")
    assert code == 1
    assert one_line(err)
    assert "RuntimeError: spilled the beans" in err
    code, _, err = call(capfd, "fit", data, "-o", tmp_path / "m.npz", "-vv")
    assert "Traceback" in err


def test_the_installed_program_fails_in_one_line(tmp_path):
    done = run("fit", tmp_path / "missing.npy", "-o", tmp_path / "m.npz")
    assert done.returncode == 3
    assert done.stdout == ""
    assert one_line(done.stderr)


@pytest.mark.parametrize(
    "name", ['"><img src=x onerror=alert(1)>.npy', "שלום-🧠.npy", "a\nb.npy", "[red]x.npy", "%s$x.npy"]
)
def test_odd_file_names(name, tmp_path, capfd):
    path = tmp_path / name
    np.save(path, samples())
    code, _, err = call(capfd, "fit", path, "-o", tmp_path / f"{name}.npz")
    assert code == 0, err
    code, _, err = call(capfd, "report", tmp_path / f"{name}.npz", path, "-o", tmp_path / "r.html", "-f")
    assert code == 0, err
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<img" not in page

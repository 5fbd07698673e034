"""Where the commands write: devices, pipes and links are left what they are."""

from __future__ import annotations

import json
import os
import stat
import threading

import pytest
from program import call, one_line, run

from majorica import ICA


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("command", ["fit", "transform", "report"])
def test_a_pipe_is_written_through(command, force, data, model, pipe, capfd):
    seen = []
    reader = threading.Thread(target=lambda: seen.append(pipe.read_bytes()))
    reader.start()
    first = [] if command == "fit" else [model]
    code, out, err = call(capfd, command, *first, data, "-o", pipe, "--json", *force)
    reader.join(60)
    assert code == 0, err
    assert stat.S_ISFIFO(os.lstat(pipe).st_mode)
    assert seen[0][:4] == {"fit": b"PK\x03\x04", "transform": b"\x93NUM", "report": b"<!do"}[command]
    if command == "report":
        assert json.loads(out)["bytes"] == len(seen[0])


def test_an_input_pipe_is_no_output(model, pipe, capfd):
    code, _, err = call(capfd, "transform", model, pipe, "-o", pipe)
    assert code == 2
    assert "input too" in err


@pytest.mark.parametrize(
    ("command", "name", "better"),
    [
        ("fit", "recording.FIF", "recording.npz"),
        ("fit", "model.pkl", "model.npz"),
        ("transform", "sources.csv", "sources.npy"),
        ("transform", "a.mat", "a.npy"),
        ("report", "page.pdf", "page.html"),
    ],
)
def test_an_output_named_as_another_format_is_refused(command, name, better, data, model, tmp_path, capfd):
    """A NumPy array went to sources.csv, which nothing could read."""
    first = [] if command == "fit" else [model]
    code, _, err = call(capfd, command, *first, data, "-o", tmp_path / name)
    assert code == 2
    assert f"name it {tmp_path / better}" in err
    assert not (tmp_path / name).exists()
    code, _, _ = call(capfd, command, *first, data, "-o", tmp_path / "v1.2", "-q")  # what is no ending of anything
    assert code == 0


def test_the_program_fits_into_a_command(data, tmp_path):
    reader, writer = os.pipe()
    done = run("fit", data, "-o", f"/dev/fd/{writer}", "-q", pass_fds=[writer])
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        (tmp_path / "m.npz").write_bytes(file.read())
    assert (done.returncode, done.stderr) == (0, "")
    assert ICA.load(tmp_path / "m.npz").n_components_ == 4


def test_a_link_is_followed_and_the_mode_kept(data, tmp_path, capfd):
    (tmp_path / "folder").mkdir()
    real, link = tmp_path / "folder" / "m.npz", tmp_path / "link.npz"
    real.write_bytes(b"old")
    real.chmod(0o600)
    link.symlink_to(real)
    code, _, err = call(capfd, "fit", data, "-o", link)
    assert code == 2
    assert "exists" in err
    assert real.read_bytes() == b"old"
    assert call(capfd, "fit", data, "-o", link, "--force")[0] == 0
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert ICA.load(link).n_components_ == 4


def test_links_to_nowhere(data, tmp_path, capfd):
    link, loop = tmp_path / "link.npz", tmp_path / "loop.npz"
    link.symlink_to(tmp_path / "no" / "such" / "m.npz")
    loop.symlink_to(loop)
    for output in (link, loop):
        code, _, err = call(capfd, "fit", data, "-o", output)
        assert code == 2
        assert one_line(err), err
        assert output.is_symlink()


def test_a_full_disk_names_the_file(data, model, tmp_path, monkeypatch, capfd):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for command, first in (("fit", []), ("transform", [model]), ("report", [model])):
        code, _, err = call(capfd, command, *first, data, "-o", tmp_path / "out")
        assert code == 3
        assert one_line(err)
        assert str(tmp_path / "out: ").strip() in err
        assert "No space left" in err


def test_the_demo_replaces_nothing_unasked(tmp_path, monkeypatch, capfd):
    from majorica import demo

    written = []
    result = {"n_samples": 1, "n_components": 1, "passes": 1.0, "loss": 1.0, "seconds": 1.0}
    monkeypatch.setattr(demo, "run_demo", lambda *paths, **options: written.append(paths) or result)
    for name in ("majorica-demo.png", "majorica-demo.html"):
        (tmp_path / name).write_text("precious")
        code, _, err = call(capfd, "demo", "--folder", tmp_path)
        assert code == 2
        assert one_line(err)
        assert f"{name}: exists; pass --force" in err
        assert written == []
        (tmp_path / name).unlink()
    (tmp_path / "majorica-demo.png").write_text("old")
    assert call(capfd, "demo", "--folder", tmp_path, "--force", "-q")[0] == 0
    assert len(written) == 1

"""What a file is written to: nothing but a regular file is replaced, and the new one keeps the old one's mode."""

from __future__ import annotations

import os
import socket
import stat
import threading

import numpy as np
import pytest

from majorica import ICA
from majorica.errors import CheckpointError, ModelFileError
from majorica.persistence import atomic
from majorica.persistence.atomic import is_channel, write_atomically


def write(file) -> None:
    """As NumPy and zip files are written: back to the start for the header."""
    file.write(b"xxxx whole")
    file.seek(0)
    file.write(b"once")


@pytest.fixture(scope="module")
def model() -> ICA:
    return ICA(random_state=0).fit(np.random.default_rng(0).laplace(size=(500, 3)))


def through(fifo, do) -> bytes:
    """What a reader of the pipe sees while `do` runs."""
    seen = []
    reader = threading.Thread(target=lambda: seen.append(fifo.read_bytes()))
    reader.start()
    do()
    reader.join(60)
    return seen[0]


def test_a_pipe_is_written_through(tmp_path, model) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    assert through(fifo, lambda: write_atomically(fifo, write)) == b"once whole"
    content = through(fifo, lambda: model.save(fifo))
    (tmp_path / "m.npz").write_bytes(content)
    np.testing.assert_array_equal(ICA.load(tmp_path / "m.npz").components_, model.components_)
    assert stat.S_ISFIFO(os.lstat(fifo).st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.npz", "pipe"]


def test_a_device_is_written_through(tmp_path) -> None:
    null = tmp_path / "null"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        null.write_bytes(b"")
    except OSError:
        pytest.skip("only root makes devices, and not everywhere")
    write_atomically(null, write)
    assert stat.S_ISCHR(os.lstat(null).st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["null"]


def test_a_descriptor_of_the_shell_is_a_pipe() -> None:
    """``>(command)`` passes /dev/fd/63, which resolves to a name that does not exist."""
    reader, writer = os.pipe()
    try:
        write_atomically(f"/dev/fd/{writer}", write)
        assert os.read(reader, 100) == b"once whole"
    finally:
        os.close(reader)
        os.close(writer)


def test_half_a_file_is_not_sent(tmp_path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    kept = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)

    def fail(file) -> None:
        write(file)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_atomically(fifo, fail)
    assert os.read(kept, 10) == b""
    os.close(kept)


def test_sockets_disks_and_directories_are_refused(tmp_path, model, monkeypatch) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(tmp_path)
        listener.bind("s")
        with pytest.raises(ModelFileError, match="is a socket"):
            model.save("s")
    with pytest.raises(ModelFileError, match="is a directory"):
        model.save(tmp_path)
    disk = os.stat_result((stat.S_IFBLK | 0o666, *range(9)))
    monkeypatch.setattr(atomic.os, "stat", lambda path: disk)
    with pytest.raises(OSError, match="is a disk"):
        is_channel("disk")


def test_the_mode_of_a_replaced_file_stays(tmp_path) -> None:
    path, seen, modes = tmp_path / "x", [], [0o600, 0o664, 0o444]
    for mode in modes:
        path.write_bytes(b"old")
        path.chmod(mode)
        write_atomically(path, lambda file: seen.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode)))
        assert stat.S_IMODE(path.stat().st_mode) == mode
        path.unlink()
    assert seen == modes, "what is half written is as private as the file"


def test_the_mode_of_a_new_file_is_the_umask_s(tmp_path) -> None:
    old = os.umask(0o027)
    try:
        write_atomically(tmp_path / "x", write)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path) -> None:
    (tmp_path / "folder").mkdir()
    real, link = tmp_path / "folder" / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_atomically(link, write)
    assert link.is_symlink()
    assert real.read_bytes() == b"once whole"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_the_temporary_file_is_new_and_cannot_be_guessed(tmp_path, monkeypatch) -> None:
    names, flags, real = [], [], os.open

    def spy(path, how, *rest):
        if str(path).endswith(".tmp"):
            names.append(path)
            flags.append(how)
        return real(path, how, *rest)

    monkeypatch.setattr(atomic.os, "open", spy)
    for _ in range(2):
        write_atomically(tmp_path / "x", write)
    assert len(set(names)) == 2
    assert all(how & os.O_EXCL for how in flags)
    # A link laid where the temporary file would be is refused, not followed.
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    monkeypatch.setattr(atomic.secrets, "token_hex", lambda length: "guess")
    (tmp_path / ".x.guess.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "x", write)
    assert victim.read_bytes() == b"precious"


def test_a_checkpoint_is_a_file(tmp_path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    with pytest.raises(CheckpointError, match="no regular file"):
        ICA().fit(np.random.default_rng(0).laplace(size=(500, 3)), checkpoint=fifo)
    assert stat.S_ISFIFO(os.lstat(fifo).st_mode)

"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import IO


def write_atomically(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a new file, and give it the name `path` only once it is safely on disk.

    Temporary file in the same directory, fsync, rename, fsync of the
    directory: after a crash at any moment `path` is the old file or the new
    one. On an error the old file is left as it was and the temporary one
    removed; the error (an OSError if the disk is full) is the caller's.

    The new file has the mode, and where allowed the owner, of the one it
    replaces; a link stays, and what it points to is replaced. A device or a
    pipe is never replaced: what `write` made is sent through it once it is whole.
    """
    with _naming(os.fspath(path)):
        if is_channel(path):
            _write_through(path, write)
        else:
            _replace(path, write)


def _replace(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    target = os.path.realpath(os.fspath(path))
    directory, name = os.path.split(target)
    temporary = os.path.join(directory, f".{name}.{secrets.token_hex(8)}.tmp")
    # A name nobody can guess, and never a file that is there: a link laid in its place would be followed.
    handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600 if os.path.exists(target) else 0o666)
    try:
        with os.fdopen(handle, "w+b") as file:
            _inherit(file.fileno(), target)
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        remove_if_there(temporary)
        raise
    sync_directory(directory)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors that name no file, or a temporary one, name `path`: that of a full disk says nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and (error.filename is None or str(error.filename).endswith(".tmp")):
            error.filename = path
        raise


def is_channel(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is a character device or a pipe, to write through; OSError if it can be neither that nor a file.

    The path itself is asked, not what it resolves to: ``/dev/stdout`` and
    ``/dev/fd/63`` of a shell resolve to names that do not exist.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory; name a file", os.fspath(path))
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        kind = "disk" if stat.S_ISBLK(mode) else "socket"
        raise OSError(errno.EINVAL, f"is a {kind}, which is not written to; name a file", os.fspath(path))
    return not stat.S_ISREG(mode)


def _write_through(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Send what `write` makes, once it is whole, through a device or pipe, in which nothing can be sought."""
    with tempfile.TemporaryFile() as file:
        write(file)
        file.seek(0)
        with open(os.open(path, os.O_WRONLY), "wb") as channel:
            shutil.copyfileobj(file, channel)


def _inherit(handle: int, target: str) -> None:
    """Give the open file the mode and, where that is allowed, the owner of the one it will replace."""
    try:
        old = os.stat(target)
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError):
        os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, stat.S_IMODE(old.st_mode))


def sync_directory(directory: str) -> None:
    """Make a rename or removal in `directory` last through a power cut, where the system can."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some network and FUSE file systems cannot sync directories; the rename itself was atomic
        pass
    finally:
        os.close(handle)


def remove_if_there(path: str) -> None:
    """Remove a file; it is no error if there is none."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove temporary files that killed writers of `path` left behind."""
    directory, name = os.path.split(os.path.realpath(os.fspath(path)))
    for leftover in glob.glob(os.path.join(glob.escape(directory), f".{glob.escape(name)}.*.tmp")):
        remove_if_there(leftover)

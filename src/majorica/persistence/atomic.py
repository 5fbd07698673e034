"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable
from typing import IO


def write_atomically(path: str | os.PathLike[str], write: Callable[[IO[bytes]], None]) -> None:
    """Let `write` fill a new file, and give it the name `path` only once it is safely on disk.

    Temporary file in the same directory, fsync, rename, fsync of the
    directory: after a crash at any moment `path` is the old file or the new
    one. On an error the old file is left as it was and the temporary one
    removed; the error (an OSError if the disk is full) is the caller's.
    """
    target = os.path.realpath(os.fspath(path))
    directory, name = os.path.split(target)
    temporary = os.path.join(directory, f".{name}.{os.getpid()}.tmp")
    handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        with os.fdopen(handle, "w+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        remove_if_there(temporary)
        raise
    sync_directory(directory)


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

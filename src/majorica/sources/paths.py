"""Paths of data files, and the errors of whatever reads them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from majorica.errors import MajoricaError, SourceError

#: Containers of several arrays: ``file.h5:/path`` names one of them.
_MEMBER = re.compile(r"^(?P<path>.+\.(?:npz|zarr|h5|hdf5|hdf|he5))[/\\]?:(?P<member>.+)$", re.IGNORECASE | re.DOTALL)


def split_member(text: str) -> tuple[str, str | None]:
    """Split ``file.h5:/path`` into the file and the member; a path that exists is never split."""
    if os.path.exists(text):
        return text, None
    found = _MEMBER.match(text)
    return (found["path"], found["member"]) if found else (text, None)


def check_readable(path: str) -> bool:
    """Whether `path` is a directory; raise SourceError unless it can be opened and is not empty."""
    if "\0" in path:
        raise SourceError("A path cannot contain a null character.")
    with reading(path, "file"):
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            os.listdir(path)
            return True
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(
                f"{path}: not a regular file; open it in binary mode and pass the file object with n_features=."
            )
        if status.st_size == 0:
            raise SourceError(f"{path}: the file is empty.")
        with open(path, "rb"):
            return False


@contextmanager
def reading(label: str, kind: str) -> Iterator[None]:
    """Turn every error of the library that reads `label` into one SourceError sentence.

    Majorica's own errors pass, and so does MemoryError. Everything else is
    caught on purpose: a damaged file makes its reader raise anything.
    """
    try:
        yield
    except (MajoricaError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise SourceError(f"{error.filename or label}: no such file or directory.") from error
    except PermissionError as error:
        raise SourceError(f"{error.filename or label}: permission denied.") from error
    except Exception as error:
        raise SourceError(f"{label}: cannot be read as {kind}; {_first_line(error)}.") from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    text = lines[0].strip().rstrip(".:;") if lines else ""
    text = f"it is damaged or of another format ({type(error).__name__}: {text})" if text else "it is damaged"
    return text if len(text) < 400 else text[:397] + "..."

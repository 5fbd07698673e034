"""The library's messages in the words of the shell, safe for a terminal."""

from __future__ import annotations

import re

#: Options by the Python arguments they set.
_OPTIONS = {
    "batch_size": "--batch-size",
    "checkpoint": "--checkpoint",
    "checkpoint_every": "--checkpoint-every",
    "density": "--density",
    "image_shape": "--image-shape",
    "layout": "--layout",
    "max_iter": "--max-iter",
    "memory_limit": "--memory-limit",
    "n_components": "--n-components",
    "n_features": "--n-features",
    "n_jobs": "--jobs",
    "picks": "--picks",
    "random_state": "--seed",
    "sfreq": "--sfreq",
    "solver": "--solver",
    "tol": "--tol",
    "whiten": "--whiten",
}
#: Of these the bare name is a word like any other.
_PLAIN = {"checkpoint", "density", "layout", "picks", "solver", "whiten"}
#: What a shell has another way for.
_PHRASES = {
    "open it in binary mode and pass the file object with n_features=": "read it from standard input, as -, with "
    "n_features=",
    "feature_names_in_ (as_source takes it)": "the model's features",
    "feature_names_in_": "the model's features",
    " (as_source takes it)": "",
    "drop such samples before fit, or go on with the next block by partial_fit": "drop such samples first",
    "leave it None": "leave it out",
    "must be None, a positive": "must be a positive",
    "pass mne.io.read_raw(path) instead of the path": "save it again first: mne.io.read_raw(path).save('left_raw.fif')",
    "leave layout out": "leave it out",
    "set ica.unit_ = 'uV' if it was fitted on those, or fit the recording": "fit the recording",
    "set ica.unit_ = 'V' if it was fitted on those, or fit the recording": "fit the recording",
    "run the same call again": "run the same command again",
    "make the same call as before": "give the same command as before",
}

# A name that is part of a path, an attribute or a longer name is none of ours.
_BEFORE, _AFTER = r"(?<![\w./\\'\"-])", r"(?!\w|[./\\-]\w)"
_NAMES = "|".join(sorted(_OPTIONS, key=len, reverse=True))
_GIVEN = re.compile(rf"{_BEFORE}({_NAMES})=(?:'([^'\s]*)'|(?=(\S)))?")
_AT_MOST = re.compile(rf"{_BEFORE}({_NAMES})<=(\d+)")
_NAMED = re.compile(rf"{_BEFORE}({'|'.join(sorted(set(_OPTIONS) - _PLAIN, key=len, reverse=True))}){_AFTER}(?!=)")


def for_the_shell(message: str) -> str:
    """`message` with the options that set Python's arguments in their place."""
    for phrase, words in _PHRASES.items():
        message = message.replace(phrase, words)
    message = _AT_MOST.sub(lambda found: f"{_OPTIONS[found[1]]} {found[2]} or fewer", message)
    message = _GIVEN.sub(_given, message)
    return _NAMED.sub(lambda found: _OPTIONS[found[1]], message)


def _given(found: re.Match[str]) -> str:
    """An option with its value, or alone where none follows."""
    option, value, following = _OPTIONS[found[1]], found[2], found[3]
    if value is not None:
        return f"{option} {value}"
    return option if following is None or following in ".,;:)" else f"{option} "


def printable(text: str) -> str:
    """`text` in one line without what a terminal would obey: escapes are shown, not sent."""
    return escaped(" ".join(text.split()))


def escaped(text: str) -> str:
    """`text` with line breaks too shown as escapes, for names that would read as others without them."""
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text)

"""Running the program, and files of every format to run it on."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = str(Path(sys.executable).with_name("majorica"))
RATE = 100.0


def samples(n=1500, p=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.laplace(size=(n, p)) @ rng.normal(size=(p, p)) + 3.0


def run(*arguments, **options):
    """The installed program in a process of its own."""
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False, **options
    )
    done.stderr = without_notice(done.stderr)
    return done


def without_notice(text):
    """`text` without the line on compiling, which only the first run on a machine prints."""
    return "".join(line for line in text.splitlines(keepends=True) if "compiling its kernels" not in line)


MANY = """
import contextlib, io, json, sys
from majorica.cli import main
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def run_many(commands):
    """Many commands in one process, so that the imports are paid once; (code, stdout, stderr) of each."""
    given = json.dumps([[str(word) for word in command] for command in commands])
    done = subprocess.run(
        [sys.executable, "-c", MANY], input=given, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [(code, out, without_notice(err)) for code, out, err in answers]


def call(capfd, *arguments):
    """One command in this process; its code, stdout and stderr."""
    from majorica.cli import main

    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in arguments])
    out, err = capfd.readouterr()
    return ended.value.code, out, without_notice(err)


def one_line(text):
    """Whether an error is one line of ours and no traceback."""
    return text.count("\n") == 1 and text.startswith("majorica: ") and "Traceback" not in text


def _raw(X):
    import mne

    info = mne.create_info([f"EEG{j:03d}" for j in range(X.shape[1])], RATE, "eeg")
    return mne.io.RawArray(1e-5 * X.T, info, verbose="ERROR")


def write_all(folder):
    """One file of every format, as a dict of suffix to path."""
    import h5py
    import mne
    import pyarrow.feather
    import pyarrow.parquet
    import pybv
    import scipy.io
    import zarr

    X = samples()
    names = [f"c{j}" for j in range(X.shape[1])]
    table = pyarrow.table({name: X[:, j] for j, name in enumerate(names)})
    files = {}

    def path(suffix, stem="x"):
        files[suffix] = folder / f"{stem}{suffix}"
        return files[suffix]

    np.save(path(".npy"), X)
    np.savez(path(".npz"), samples=X)
    with h5py.File(path(".h5"), "w") as file:
        file["samples"] = X
    array = zarr.create_array(str(path(".zarr")), shape=X.shape, chunks=(500, X.shape[1]), dtype=X.dtype)
    array[:] = X
    pyarrow.parquet.write_table(table, path(".parquet"))
    pyarrow.feather.write_feather(table, str(path(".feather")))
    for suffix, comma in ((".csv", ","), (".tsv", "\t")):
        with open(path(suffix), "w", newline="") as file:
            csv.writer(file, delimiter=comma).writerows([names, *X.tolist()])
    labels = np.array([(name, "EEG") for name in names], dtype=[("labels", "O"), ("type", "O")])
    eeg = {"nbchan": 4.0, "pnts": float(len(X)), "trials": 1.0, "data": X.T, "chanlocs": labels}
    scipy.io.savemat(path(".set"), {"EEG": eeg})
    raw = _raw(X)
    raw.save(path(".fif", "x_raw"), verbose="ERROR")
    for suffix in (".edf", ".bdf"):
        mne.export.export_raw(path(suffix), raw, verbose="ERROR")
    pybv.write_brainvision(
        data=1e-5 * X.T, sfreq=RATE, ch_names=[f"EEG{j:03d}" for j in range(4)], fname_base="x", folder_out=str(folder)
    )
    path(".vhdr")
    return files

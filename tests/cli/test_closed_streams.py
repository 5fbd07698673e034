"""Standard streams that are closed (``>&-``, ``2>&-``, ``<&-``)."""

from __future__ import annotations

import json
import subprocess

import pytest
from program import PROGRAM, one_line, without_notice

from majorica import ICA


def shell(line, *words, cwd):
    done = subprocess.run(
        ["sh", "-c", f'"$0" {line}', PROGRAM, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    done.stderr = without_notice(done.stderr)
    return done


def test_a_fit_needs_no_stream(data, tmp_path):
    done = shell("fit x.npy -o m.npz >&- 2>&- <&-", cwd=tmp_path)
    assert done.returncode == 0
    assert ICA.load(tmp_path / "m.npz").n_components_ == 4


def test_what_is_said_to_a_closed_stderr_goes_nowhere(data, tmp_path):
    done = shell("fit x.npy -o m.npz --json -v 2>&-", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["n_samples"] == 1500
    done = shell("fit missing.npy -o n.npz 2>&-", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.parametrize(
    "line",
    [
        'info "$1"',
        'info "$1" --json',
        'transform "$1" x.npy -o -',
        'transform "$1" x.npy -o s.npy --json -q',
        "fit x.npy -o m.npz --json -q",
    ],
)
def test_a_result_for_a_closed_stdout_is_an_error(line, data, model, tmp_path):
    done = shell(f"{line} >&-", model, cwd=tmp_path)
    assert done.returncode == 3
    assert one_line(done.stderr), done.stderr
    assert "standard output: is closed" in done.stderr


def test_a_closed_stdin_is_no_stream(data, model, tmp_path):
    done = shell('transform "$1" - --n-features 4 -o s.npy <&-', model, cwd=tmp_path)
    assert done.returncode == 3
    assert one_line(done.stderr), done.stderr
    assert "single sample" in done.stderr


def test_help_with_closed_streams(tmp_path):
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        done = shell(f"fit --help {closed}", cwd=tmp_path)
        assert done.returncode == 0
        assert done.stderr == ""

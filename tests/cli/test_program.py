"""The program as a citizen of the shell: help, pipes, signals, terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from program import PROGRAM, run, run_many, samples

from majorica import ICA, __version__
from majorica.cli.info import counted


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    X = samples()
    np.save(folder / "x.npy", X)
    ICA(random_state=0).fit(X).save(folder / "m.npz")
    return folder


def wait_for(condition, process, seconds=240.0):
    """Wait until `condition` holds; a process that does not get there is ended, and what it said is shown."""
    ends = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        if time.monotonic() > ends:
            process.kill()
            pytest.fail(f"nothing happened in {seconds} s; the program said {process.communicate()}")
        time.sleep(0.02)


def test_info_counts_every_component_by_family():
    shapes = [f"mixed-gaussian(-30, {k}, -21.8)" for k in range(20)] + [f"super-gaussian({k})" for k in range(12)]
    assert counted(shapes) == "mixed-gaussian (20), super-gaussian (12); --json lists each component's"
    assert counted(["huber"] * 32) == "huber (32)"
    assert counted(["student(df=3)", "student(df=3)"]) == "student(df=3) (2)"


def test_info_shows_no_shapes_but_json_does(folder):
    (_, shown, _), (_, full, _) = run_many([["info", folder / "m.npz"], ["info", folder / "m.npz", "--json"]])
    row = next(line for line in shown.splitlines() if line.startswith("densities"))
    assert sum(int(count) for count in re.findall(r"\((\d+)\)", row)) == 4
    assert json.loads(full)["densities"] == ICA.load(folder / "m.npz").densities_


def test_help_is_light_and_has_examples():
    """No library that takes long to import is loaded, for no help page."""
    script = (
        "import sys\nfrom majorica.cli import main\n"
        "for words in ([], ['--help'], *([c, '--help'] for c in ('fit', 'transform', 'report', 'info', 'demo'))):\n"
        "    try: main(words)\n    except SystemExit as ended: assert ended.code == 0\n"
        "heavy = {'numpy', 'numba', 'sklearn', 'scipy', 'mne', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Example") == 7
    assert after.ru_utime - before.ru_utime < 2.0, "seven pages; one takes about 0.2 s"


def test_help_shows_no_types_of_switches_and_no_braces():
    pages = [[], *([name] for name in ("fit", "transform", "report", "info", "demo"))]
    for _, page, _ in run_many([[*words, "--help"] for words in pages]):
        assert "<bool>" not in page
        assert "{" not in page
        assert "--help" in page
    assert "majorica transform [OPTIONS] MODEL INPUT" in run("transform", "--help").stdout


def test_version_and_completion():
    assert run("--version").stdout.strip() == __version__
    shown = run("--show-completion", env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert "Traceback" not in shown.stderr
    completed = subprocess.run(
        [PROGRAM],
        env={**os.environ, "_MAJORICA_COMPLETE": "complete_bash", "COMP_WORDS": "majorica tr", "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "transform" in completed.stdout


def test_same_seed_same_file_whatever_the_threads(folder, tmp_path):
    commands = [
        ["fit", folder / "x.npy", "-o", tmp_path / name, "-q", "-j", jobs]
        for name, jobs in (("a.npz", 1), ("b.npz", 2))
    ]
    assert [code for code, _, _ in run_many(commands)] == [0, 0]
    first, second = ICA.load(tmp_path / "a.npz"), ICA.load(tmp_path / "b.npz")
    np.testing.assert_array_equal(first.components_, second.components_)


def test_closed_pipe_is_quiet(folder):
    for words in (["info", folder / "m.npz", "--json"], ["transform", folder / "m.npz", folder / "x.npy", "-o", "-"]):
        process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        assert process.wait(60) == 141
        assert err == b""


def test_sources_on_stdout(folder, tmp_path):
    done = subprocess.run(
        [PROGRAM, "transform", folder / "m.npz", folder / "x.npy", "-o", "-"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == b""
    (tmp_path / "s.npy").write_bytes(done.stdout)
    expected = ICA.load(folder / "m.npz").transform(np.load(folder / "x.npy"))
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), expected, rtol=1e-12, atol=1e-12)


def test_interrupted_fit_keeps_the_best_model(tmp_path):
    np.save(tmp_path / "x.npy", samples(40_000, 12))
    # Compile first, however long it takes: on a busy machine the program would be minutes from its first step.
    ICA(solver="batch", tol=0, max_iter=1, random_state=0).fit(tmp_path / "x.npy")
    words = ["fit", "x.npy", "-o", "m.npz", "--solver", "batch", "--tol", "0", "--max-iter", "1000000", "--json"]
    process = subprocess.Popen(
        [PROGRAM, *words, "--checkpoint", "c", "--checkpoint-every", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    versions = set()

    def has_taken_steps():
        if (tmp_path / "c").exists():
            versions.add((tmp_path / "c").stat().st_mtime_ns)
        return len(versions) > 3

    wait_for(has_taken_steps, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "interrupted" in err
    assert json.loads(out)["converged"] is False
    assert ICA.load(tmp_path / "m.npz").n_components_ == 12


def test_interrupted_transform_leaves_nothing(folder, tmp_path):
    words = ["transform", folder / "m.npz", "-", "--n-features", "4", "-o", "s.npy"]
    process = subprocess.Popen(
        [PROGRAM, *words], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(samples(5000).astype("<f4").tobytes())
    process.stdin.flush()
    wait_for(lambda: list(tmp_path.glob(".s.npy*")), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err == b"majorica: interrupted; nothing was written\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("width", [[], ["--n-features", "4"]])
def test_stream_from_a_pipe(width, folder, tmp_path):
    X = samples(5000).astype("<f4")
    done = subprocess.run(
        [PROGRAM, "transform", folder / "m.npz", "-", *width, "-o", tmp_path / "s.npy", "--json"],
        input=X.tobytes(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_samples"] == 5000
    expected = ICA.load(folder / "m.npz").transform(X.astype(np.float32))
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), expected, atol=1e-4)


def test_sources_leave_as_samples_come(folder):
    X = samples(2500).astype("<f4")
    expected = ICA.load(folder / "m.npz").transform(X.astype(np.float32))
    process = subprocess.Popen(
        [PROGRAM, "transform", folder / "m.npz", "-", "-o", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for start, stop in ((0, 3), (3, 4), (4, 2500)):
        sent = X[start:stop].tobytes()
        process.stdin.write(sent[:-2])  # a sample in two parts
        process.stdin.flush()
        process.stdin.write(sent[-2:])
        process.stdin.flush()
        got = np.frombuffer(process.stdout.read(16 * (stop - start)), "<f4").reshape(-1, 4)
        np.testing.assert_allclose(got, expected[start:stop], atol=1e-4)
    rest, err = process.communicate(b"abcde", timeout=60)
    assert rest == b""
    assert err.count(b"5 bytes left over") == 1
    assert process.returncode == 0


def test_a_pipe_that_ends_within_a_sample_keeps_its_model(folder, tmp_path):
    X = samples(12_000).astype("<f4")
    commands = (
        ["fit", "-", "--n-features", "4", "-o", tmp_path / "cut.npz", "--json"],
        ["transform", folder / "m.npz", "-", "--n-features", "4", "-o", tmp_path / "s.npy", "--json"],
    )
    for words in commands:
        done = subprocess.run(
            [PROGRAM, *words], input=X.tobytes() + b"abcde", capture_output=True, timeout=120, check=False
        )
        assert done.returncode in ({0, 4} if words[0] == "fit" else {0}), done.stderr
        assert json.loads(done.stdout)["n_samples"] == 12_000
        assert done.stderr.count(b"5 bytes left over") == 1
    assert ICA.load(tmp_path / "cut.npz").n_components_ == 4


def test_progress_on_a_terminal_only(folder, tmp_path):
    """A bar on a terminal; -q and pipes have none."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "fit", folder / "x.npy", "-o", tmp_path / "m.npz"],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(terminal)
    seen = b""
    try:
        while piece := os.read(master, 65536):
            seen += piece
    except OSError:  # the terminal closes with the program
        pass
    os.close(master)
    out = process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 0
    assert out == b""
    assert b"loss" in seen
    assert b"\x1b[" in seen

"""Ctrl-C waits while our kernels are compiled, and only then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numba as nb
import numpy as np
import pytest

from majorica.kernels.patience import _is_ours, _Patience


def patience(ours: bool = True) -> _Patience:
    return _Patience(lambda: ours)


@pytest.fixture(autouse=True)
def handler():
    """Python's own handler, as in a program of the user; what a test sets goes with it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_outermost_lock(handler) -> None:
    waits = patience()
    waits.on_start(None)
    waits.on_start(None)
    signal.raise_signal(signal.SIGINT)
    waits.on_end(None)
    with pytest.raises(KeyboardInterrupt):
        waits.on_end(None)
    assert signal.getsignal(signal.SIGINT) is handler
    waits.on_start(None)
    waits.on_end(None)  # it comes once
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_the_users_own_handler_is_called_and_put_back() -> None:
    called = []
    mine = lambda number, frame: called.append(number)  # noqa: E731
    signal.signal(signal.SIGINT, mine)
    waits = patience()
    waits.on_start(None)
    signal.raise_signal(signal.SIGINT)
    assert called == []
    waits.on_end(None)
    assert called == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is mine


@pytest.mark.parametrize("ignored", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_is_not_python_s_stays(ignored) -> None:
    signal.signal(signal.SIGINT, ignored)
    waits = patience()
    waits.on_start(None)
    assert signal.getsignal(signal.SIGINT) == ignored
    waits.on_end(None)
    assert signal.getsignal(signal.SIGINT) == ignored


def test_other_kernels_and_other_threads_are_left_alone(handler) -> None:
    waits = patience(ours=False)
    waits.on_start(None)
    assert signal.getsignal(signal.SIGINT) is handler
    waits.on_end(None)
    waits = patience()
    threads = [threading.Thread(target=do, args=(None,)) for do in (waits.on_start, waits.on_end)]
    for thread in threads:
        thread.start()
        thread.join()
    assert signal.getsignal(signal.SIGINT) is handler
    assert waits.depth == 0


def test_a_handler_set_meanwhile_stays() -> None:
    waits = patience()
    waits.on_start(None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    waits.on_end(None)
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_whose_kernel_it_is() -> None:
    def compile_it(self) -> bool:
        return _is_ours()

    class Odd:
        def __getattr__(self, name: str) -> None:
            raise KeyError(name)

    def kernel() -> None:
        return None

    assert not _is_ours()
    assert not compile_it(Odd())  # Numba's own code is full of such
    for module, ours in (("majorica.kernels.search", True), ("somebody.else", False), (None, False)):
        kernel.__module__ = module
        assert compile_it(nb.njit(kernel)) is ours


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.1, 2.0])
def test_the_program_ends_as_an_interrupted_one_does(seconds, tmp_path) -> None:
    """Before, one of these times lost the interrupt and others ended in an internal error."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).laplace(size=(3000, 6)))
    process = subprocess.Popen(
        [sys.executable, "-c", "from majorica.cli import main; main()", "fit", "x.npy", "-o", "m.npz"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "MAJORICA_QUIET": ""},
    )
    assert "compiling" in process.stderr.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert said.startswith("majorica: ")
    assert "interrupted" in said

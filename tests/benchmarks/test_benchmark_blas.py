"""Benchmarks start anew where the environment tells BLAS what the processor is, and only there."""

from __future__ import annotations

import os
import sys

from benchmarks import blas


def test_overrides_are_left_out(monkeypatch, capsys):
    started = []
    monkeypatch.setattr(os, "execve", lambda *given: started.append(given))
    for name in blas.OVERRIDES:
        monkeypatch.delenv(name, raising=False)
    blas.let_it_choose()
    assert not started
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("KEPT", "1")
    blas.let_it_choose()
    ((_, command, environment),) = started
    assert command[1:] == sys.orig_argv[1:]
    assert environment["KEPT"] == "1"
    assert "OPENBLAS_CORETYPE" not in environment
    assert "OPENBLAS_CORETYPE" in capsys.readouterr().out

"""The collector rests while our kernels are compiled, and only then."""

from __future__ import annotations

import gc
import io
from types import SimpleNamespace

from majorica.kernels.notice import _Notice


def compilation(module: str | None) -> SimpleNamespace:
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})


def test_the_collector_rests_until_the_outermost_compilation_ends(capsys, monkeypatch) -> None:
    monkeypatch.delenv("MAJORICA_QUIET", raising=False)
    notice, ours, inner = _Notice(), compilation("majorica.kernels.search"), compilation("numba.np.arrayobj")
    assert gc.isenabled()
    notice.on_start(ours)
    notice.on_start(inner)
    notice.on_end(inner)
    assert not gc.isenabled()
    notice.on_end(ours)
    assert gc.isenabled()
    notice.on_start(ours)
    notice.on_end(ours)
    assert capsys.readouterr().err.count("\n") == 1  # said once, for all compilations


def test_compilations_of_others_are_their_own_affair(capsys) -> None:
    notice, other, ours = _Notice(), compilation("somebody.else"), compilation("majorica.kernels.search")
    notice.on_start(other)
    assert gc.isenabled()
    assert capsys.readouterr().err == ""
    notice.on_start(ours)
    assert not gc.isenabled()
    notice.on_end(ours)
    assert gc.isenabled()
    notice.on_end(other)
    assert gc.isenabled()


def test_functions_without_a_module_and_a_closed_terminal_do_no_harm(monkeypatch) -> None:
    notice, ours = _Notice(), compilation("majorica.kernels.search")
    notice.on_start(compilation(None))
    notice.on_end(compilation(None))
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stderr", closed)
    monkeypatch.delenv("MAJORICA_QUIET", raising=False)
    notice.on_start(ours)
    assert not gc.isenabled()
    notice.on_end(ours)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    notice, ours = _Notice(), compilation("majorica.kernels.search")
    gc.disable()
    try:
        notice.on_start(ours)
        notice.on_end(ours)
        assert not gc.isenabled()
    finally:
        gc.enable()

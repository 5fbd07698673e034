"""The page's tables come from the stored results, whatever part of them there is."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("picard")

from benchmarks.paper import report
from benchmarks.paper.figures import FIGURES
from benchmarks.paper.settings import FULL, QUICK
from benchmarks.paper.verdicts import JUDGES, judge_figures


@pytest.fixture
def stored():
    if not report.DATA.exists():
        pytest.skip("no results yet")
    return json.loads(report.DATA.read_text())


def test_every_verdict_can_be_computed_from_the_stored_results(stored):
    verdicts = judge_figures(stored)
    assert set(verdicts) == set(JUDGES)
    assert all(v.verdict in ("holds", "holds partly", "does not hold") for v in verdicts.values())


@pytest.mark.parametrize("left_out", ["eeg", "eeg-online", "greedy", "huge"])
def test_page_can_be_made_without_some_experiments(stored, left_out, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(report.PAGE.read_text())
    data = tmp_path / "results.json"
    data.write_text(json.dumps({k: v for k, v in stored.items() if k != left_out}))
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "DATA", data)
    report.update_page(None)
    assert "Not run" in page.read_text()
    first = page.read_text()
    report.update_page(None)
    assert page.read_text() == first


def test_page_is_up_to_date_with_the_stored_results(stored, tmp_path, monkeypatch):
    committed = report.PAGE.read_text()
    page = tmp_path / "page.md"
    page.write_text(committed)
    monkeypatch.setattr(report, "PAGE", page)
    report.update_page(None)
    assert page.read_text() == committed


def test_both_scales_have_the_same_experiments():
    assert set(QUICK) == set(FULL)
    assert set(FIGURES) == {"synthetic", "huge", "real", "greedy"}

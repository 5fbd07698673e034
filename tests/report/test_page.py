"""The page: self-contained, small, and deaf to hostile names."""

from __future__ import annotations

import copy
import re
import shlex

import numpy as np
import pytest
from pages import HOSTILE, Page, channels, frame

from majorica import ICA, Report
from majorica.errors import DataError, OutlierWarning, ParameterError
from majorica.report.svg import bars
from majorica.report.text import both_ends, clean, escape, number
from majorica.report.warn import warnings_of


@pytest.fixture(scope="module")
def fitted():
    X = channels()
    return ICA(random_state=0).fit(X), X


@pytest.fixture(scope="module")
def page(fitted):
    return Report(*fitted, title="Four channels").html


def test_needs_nothing_else(page):
    parsed = Page(page)
    assert all(address.startswith(("#", "data:image/png")) for address in parsed.addresses)
    assert "http:" not in page
    assert "https:" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert not parsed.handlers
    assert parsed.elements["link"] == parsed.elements["img"] == parsed.elements["iframe"] == 0
    assert parsed.elements["script"] == 1


def test_says_what_was_fitted(fitted, page):
    ica, _ = fitted
    parsed = Page(page)
    text = " ".join(parsed.text)
    for words in ("Four channels", "1,200", f"{ica.loss_:.4f}", "Convergence", "Components", "random_state", "numpy"):
        assert words in text
    assert ica.stop_reason_[1:] in text
    assert "ica = ICA(random_state=0).fit(X)" in text
    assert parsed.elements["details"] == 4
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert "sub-Gaussian" in text
    assert "super-Gaussian" in text


def test_order_is_explained_variance(fitted, page):
    shares = [float(value) for value in re.findall(r'data-explained="([^"]+)"', page)]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_add_no_element(name, fitted):
    ica, X = fitted
    plain, hostile = copy.copy(ica), copy.copy(ica)
    plain.feature_names_in_ = np.array(["a", "b", "c", "d"], dtype=object)
    hostile.feature_names_in_ = np.array([HOSTILE[name], "b", "c", "d"], dtype=object)
    expected = Page(Report(plain, X, title="t").html)
    page = Report(hostile, X, title=HOSTILE[name]).html
    found = Page(page)
    assert found.elements == expected.elements
    assert found.attributes == expected.attributes
    assert found.ids == expected.ids
    assert not found.handlers
    assert len(page) < 200_000
    page.encode("utf-8")


def test_hostile_names_come_with_the_data():
    names = [HOSTILE["image"], HOSTILE["no space"], HOSTILE["emoji"], "d"]
    data = frame(names)
    parsed = Page(Report(ICA(random_state=0).fit(data), data).html)
    assert parsed.elements["img"] == parsed.elements["b"] - 4 == 0
    assert any("onerror" in text for text in parsed.text), "the name itself is shown"


def test_hostile_file_name(tmp_path):
    path = tmp_path / 'x"><b id=q>$(touch pwned).npy'
    np.save(path, channels())
    page = Report(ICA(random_state=0).fit(str(path)), path).html
    parsed = Page(page)
    assert "q" not in parsed.ids
    command = next(text for text in parsed.text if text.startswith("majorica fit"))
    assert shlex.split(command)[2] == str(path)


def test_repeat_command_has_what_was_set(tmp_path):
    np.save(tmp_path / "x.npy", channels())
    ica = ICA(3, solver="batch", density="huber", max_iter=30, tol=1e-3, random_state=7).fit(tmp_path / "x.npy")
    page = Report(ica, tmp_path / "x.npy").html
    command = next(text for text in Page(page).text if text.startswith("majorica fit"))
    for words in ("--n-components 3", "--solver batch", "--density huber", "--max-iter 30", "--tol 0.001", "--seed 7"):
        assert words in command


def test_saved_file_is_the_page(fitted, tmp_path):
    report = Report(*fitted, title="שלום 🧠")
    report.save(tmp_path / "r.html")
    saved = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert re.sub("Written.*", "", saved) == re.sub("Written.*", "", report.html)
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_notebook_frame_is_sandboxed(fitted):
    parsed = Page(Report(*fitted, title=HOSTILE["image"])._repr_html_())
    assert parsed.elements == {"iframe": 1}
    assert parsed.attributes["iframe", "sandbox"] == 1


def test_images_are_drawn_as_images():
    rng = np.random.default_rng(0)
    basis = np.array([np.outer(np.hanning(8) ** a, np.hanning(8) ** b).ravel() for a in (1, 3) for b in (1, 2, 4)])
    X = rng.laplace(size=(2000, 6)) @ basis + 0.02 * rng.normal(size=(2000, 64))
    ica = ICA(6, random_state=0).fit(X)
    assert Page(Report(ica, X).html).elements["image"] == 12
    assert Page(Report(ica, X, image_shape=False).html).elements["image"] == 0
    with pytest.raises(ParameterError, match="60 pixels"):
        Report(ica, X, image_shape=(6, 10))


def test_unordered_channels_are_not_images():
    X = channels(16, 3000)
    assert Page(Report(ICA(random_state=0).fit(X), X).html).elements["image"] == 0


def test_positions_are_drawn_as_maps():
    X = channels(6)
    angle = np.arange(6) / 6 * 2 * np.pi
    positions = np.column_stack([np.cos(angle), np.sin(angle)])
    ica = ICA(random_state=0).fit(X)
    parsed = Page(Report(ica, X, positions=positions).html)
    assert parsed.elements["image"] == 6
    assert parsed.elements["circle"] == 6 * 7
    with pytest.raises(ParameterError, match=r"\(6, 2\)"):
        Report(ica, X, positions=positions[:5])


@pytest.mark.parametrize("dots", [False, True])
def test_recordings_know_rate_and_places(dots):
    import mne

    names = ["Fp1", "Fp2", "C3", "Cz", "C4", "O1"]
    if dots:  # as PhysioNet names channels
        names = [name.ljust(4, ".") for name in names]
    raw = mne.io.RawArray(1e-5 * channels(6).T, mne.create_info(names, 250.0, "eeg"), verbose="ERROR")
    page = Report(ICA(random_state=0).fit(raw), raw).html
    assert "frequency, Hz" in page
    assert Page(page).elements["image"] == 6


def test_eeglab_datasets_know_rate_and_places(tmp_path):
    """Names that no system knows: places and rate come from the file."""
    import scipy.io

    angle = np.arange(6) / 6 * 2 * np.pi
    chanlocs = np.zeros((1, 6), dtype=[(name, object) for name in ("labels", "X", "Y", "Z")])
    for j in range(6):
        chanlocs[0, j] = (f"E{j}", np.cos(angle[j]), np.sin(angle[j]), 0.3)
    eeg = {"nbchan": 6.0, "pnts": 1200.0, "trials": 1.0, "srate": 250.0, "data": channels(6).T, "chanlocs": chanlocs}
    path = tmp_path / "x.set"
    scipy.io.savemat(path, {"EEG": eeg})
    report = Report(ICA(random_state=0).fit(path), path)
    assert report.sfreq == 250.0
    assert "frequency, Hz" in report.html
    assert Page(report.html).elements["image"] == 6
    x, y = report.drawing.head.positions.T
    np.testing.assert_allclose(np.arctan2(y, x), np.angle(1j * np.exp(1j * angle)), atol=1e-6)


def test_warns():
    X = channels(5, 3000)
    X[17] += 1e4
    X[:, 4] = X[:, 0] + X[:, 1]
    with pytest.warns(UserWarning, match="did not converge|rank"), pytest.warns(OutlierWarning, match="3,000 samples"):
        ica = ICA(random_state=0, solver="batch", max_iter=1, tol=1e-12).fit(X)
    report = Report(ica, X)
    heads = [head for head, _ in warnings_of(ica, report.measures)]
    assert {"Not converged.", "Rank below the number of features.", "Outliers."} <= set(heads)
    assert 'class="alerts"' in report.html
    assert "may still move: max_iter" in dict(warnings_of(ica, report.measures))["Not converged."]


def test_components_of_a_stream_are_listed_by_explained_variance():
    """They keep their places while what they explain changes; the page had said they descend, and they did not."""
    rng = np.random.default_rng(0)
    S, A = rng.laplace(size=(30_000, 3)) * [3, 2, 1], rng.normal(size=(3, 3))
    S[12_000:] *= [0.2, 1, 4]
    ica = ICA(random_state=0, half_life=3000)
    for block in np.split(S @ A, 30):
        ica.partial_fit(block)
    report = Report(ica, S[20_000:] @ A)
    explained = report.measures.explained
    assert (np.diff(explained) > 0).any(), "the numbers are no longer in order"
    listed = [int(number) for number in re.findall(r'data-number="(\d+)"', report.html)]
    assert listed == np.argsort(-explained).tolist()
    white = Report(ICA(random_state=0).fit(S / S.std(axis=0)), S / S.std(axis=0))
    assert re.findall(r'data-number="(\d+)"', white.html) == ["0", "1", "2"]


def test_many_components_stay_small():
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(3000, 300)).astype(np.float32)
    with pytest.warns(UserWarning, match="did not converge"):
        ica = ICA(random_state=0, max_iter=1, density="huber", tol=1e-12).fit(X)
    page = Report(ica, X).html
    assert Page(page).elements["details"] == 250
    assert page.count('class="component') == 300
    assert len(page.encode()) < 3_000_000


def test_reads_a_part_of_long_data(fitted):
    ica, X = fitted

    class Counting:
        n_samples, n_features, dtype, in_memory, feature_names = 10**9, 4, np.dtype(float), True, None
        read_samples = 0

        def read(self, start, stop):
            Counting.read_samples += stop - start
            return np.resize(X, (stop - start, 4))

    page = Report(ica, Counting(), max_samples=50_000).html
    assert Counting.read_samples <= 50_000
    assert "of 1,000,000,000 samples" in page


def test_streams(fitted):
    ica, X = fitted
    page = Report(ica, iter([X[:500], X[500:]])).html
    assert "Measured on 1,200 samples" in page


@pytest.mark.parametrize("container", ["stream", "array"])
def test_what_was_fitted_online_is_drawn_over_its_samples(container):
    X = channels(3, 30_000)
    given = (X[start : start + 700] for start in range(0, len(X), 700)) if container == "stream" else X
    ica = ICA(solver="online", random_state=0).fit(given)
    page = Report(ica, X).html
    chart = re.search(r'<div class="two by-passes">(.*?)</svg>', page)[1]
    assert re.findall(r'<text class="mid"[^>]*>([^<]*)<', chart) == ["0", "10,000", "20,000", "30,000"]
    line = re.search(r'<path class="line" d="([^"]*)"', chart)[1]
    assert line.count("l") == len(ica.trace_) - 1
    assert "more samples join in" not in page
    assert "the last ones" in page
    assert "not computed" in page


def test_long_streams_and_stopped_ones_are_drawn_over_their_samples(monkeypatch):
    """Of a long one most records are dropped, their samples are not; of a stopped one every step is of one pass."""
    monkeypatch.setattr("majorica.streaming.TRACE_RECORDS", 64)
    X = channels(3, 30_000)
    long = ICA(batch_size=100, random_state=0).fit(X[start : start + 700] for start in range(0, len(X), 700))
    assert len(long.trace_) <= 64
    seen = []
    stopped = ICA(random_state=0, callbacks=[lambda step: seen.append(step) or len(seen) > 15])
    stopped.fit(X[start : start + 700] for start in range(0, len(X), 700))
    assert stopped.n_samples_seen_ < len(X)
    for ica in (long, stopped):
        assert ica.trace_["n_samples"].sum() == ica.n_samples_seen_
        chart = re.search(r'<div class="two by-passes">(.*?)</svg>', Report(ica, X).html)[1]
        last = re.findall(r'<text class="mid"[^>]*>([^<]*)<', chart)[-1]
        assert 0.75 * ica.n_samples_seen_ <= int(last.replace(",", "")) <= ica.n_samples_seen_


def test_a_stream_of_few_samples_is_drawn_over_its_passes():
    X = channels(3, 3000)
    ica = ICA(solver="online", random_state=0).fit(iter([X]))
    page = Report(ica, X).html
    assert "passes over the data" in page
    assert "the last ones" not in page


def test_refuses(fitted):
    ica, X = fitted
    with pytest.raises(ParameterError, match="not fitted"):
        Report(ICA(), X)
    with pytest.raises(DataError, match="3 features"):
        Report(ica, X[:, :3])
    with pytest.raises(DataError, match="NaN"):
        Report(ica, np.where(X > 2, np.nan, X))
    with pytest.raises(ParameterError, match="sfreq"):
        Report(ica, X, sfreq=-1.0)


@pytest.mark.parametrize("shape", [(2, 1), (3, 2), (40, 3)])
@pytest.mark.filterwarnings("ignore::majorica.errors.FewSamplesWarning")
def test_small_data(shape):
    X = np.random.default_rng(0).laplace(size=shape)
    ica = ICA(random_state=0, max_iter=5, tol=0).fit(X)
    assert Page(Report(ica, X).html).elements["details"] == ica.n_components_


def test_names_that_differ_at_their_ends_are_told_apart():
    data = frame([f"ENSG00000{j:06d}" for j in range(8)])
    page = Report(ICA(random_state=0).fit(data), data).html
    labels = re.search(r'<svg class="chart weights".*?</svg>', page)[0]
    shown = re.findall(r"</title>([^<]*)</text>", labels)
    assert len(set(shown)) == len(shown) == 7
    assert all(len(label) == 12 and label.startswith("ENSG00…0000") for label in shown)


@pytest.mark.parametrize("values", [[3.0, 2.0], [-3.0, -2.0], [3.0, -2.0], [0.0, 0.0]])
def test_bars_stay_beside_their_names(values):
    drawn = bars(["a", "b"], np.array(values), width=200)
    places = [(float(x), float(length)) for x, length in re.findall(r'x="([\d.]+)" y="\d+" width="([\d.]+)"', drawn)]
    assert all(x > 103.9 and x + length < 200.1 for x, length in places)
    assert places[0][1] * abs(values[1]) == pytest.approx(places[1][1] * abs(values[0]), abs=0.5)


def test_text():
    assert number(0.0) == "0"
    assert number(-1234.5) == "−1,234"
    assert number(1.5e-7, 2) == "1.5e−7"
    assert number(float("nan")) == "–"
    assert clean("a\n\tb") == "a b"
    assert clean("x" * 500, 10) == "x" * 9 + "…"
    assert both_ends("0123456789", 10) == "0123456789"
    assert both_ends("0123456789A", 10) == "01234…789A"
    assert escape("<&\"'>") == "&lt;&amp;&quot;&#x27;&gt;"

"""The report in a real browser: layout, script, dark mode, print. Run by ``make test-browser``."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from pages import HOSTILE, channels, frame

from majorica import ICA, Report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH: apt-get install chromium"),
]

#: Loads the page in a frame, uses it, and leaves what it saw in the title of the wrapper.
WRAPPER = """<!doctype html><meta charset="utf-8"><title>waiting</title>
<iframe id="f" style="width:%(width)dpx;height:900px;border:0" srcdoc="%(page)s"></iframe>
<pre id="answer"></pre>
<script>
const frame = document.getElementById("f");
frame.addEventListener("load", () => {
  let answer;
  try {
    const d = frame.contentDocument, w = frame.contentWindow;
    const probe = () => { %(probe)s };
    answer = probe();
  } catch (error) { answer = {error: String(error)}; }
  document.getElementById("answer").textContent = JSON.stringify(answer);
});
</script>"""


def chromium(*arguments):
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    return subprocess.run(
        [CHROMIUM, *flags, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


def ask(page, folder, probe, *, width=1280, flags=()):
    """What the script `probe` returns when run against `page` in a frame of `width` pixels."""
    wrapper = folder / "wrapper.html"
    wrapper.write_text(
        WRAPPER % {"width": width, "page": html.escape(page, quote=True), "probe": probe}, encoding="utf-8"
    )
    done = chromium("--dump-dom", "--virtual-time-budget=5000", *flags, wrapper.as_uri())
    found = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr
    answer = json.loads(html.unescape(found[1]))
    assert "error" not in answer, answer
    return answer


@pytest.fixture(scope="module")
def page():
    X = channels(6, 2000)
    return Report(ICA(random_state=0).fit(X), X, title="Six channels").html


def test_script_runs_under_its_policy(page, tmp_path):
    """The policy allows this very script and no other: search, sort and expand work, an added script does not."""
    answer = ask(
        page,
        tmp_path,
        """
        const shown = () => [...d.querySelectorAll(".component")].filter(e => !e.hidden).map(e => +e.dataset.number);
        const find = d.getElementById("find"), sort = d.getElementById("sort"), expand = d.getElementById("expand");
        const type = (text) => { find.value = text; find.dispatchEvent(new w.Event("input")); return shown(); };
        const by = (key) => { sort.value = key; sort.dispatchEvent(new w.Event("change")); return shown(); };
        const added = d.createElement("script");
        added.textContent = "window.bad = 1";
        d.body.append(added);
        return {
          tools: !d.querySelector(".tools").hidden,
          all: shown(), sub: type("sub-gaussian"), three: type("3"), none: type("zzz"), back: type(""),
          kurtosis: by("kurtosis").map(i => +d.querySelector(`[data-number="${i}"]`).dataset.kurtosis),
          number: by("number"),
          open: (expand.click(), d.querySelectorAll("details[open]").length),
          closed: (expand.click(), d.querySelectorAll("details[open]").length),
          bad: w.bad ?? null,
        };""",
    )
    assert answer["tools"] is True
    assert answer["all"] == answer["back"] == answer["number"] == [0, 1, 2, 3, 4, 5]
    assert len(answer["sub"]) == 1
    assert 3 in answer["three"]
    assert answer["none"] == []
    assert answer["kurtosis"] == sorted(answer["kurtosis"], reverse=True)
    assert (answer["open"], answer["closed"]) == (6, 0)
    assert answer["bad"] is None


LAYOUT = """
  for (const item of d.querySelectorAll("details")) item.open = true;
  const out = [...d.body.querySelectorAll("*")].filter(e => {
    const box = e.getBoundingClientRect();
    const clipped = e.closest("svg, .who span");  // drawings, and names that end in an ellipsis
    return box.width > 0 && box.right > w.innerWidth + 1 && !clipped;
  });
  return {scroll: d.documentElement.scrollWidth, inner: w.innerWidth,
          out: out.slice(0, 3).map(e => e.outerHTML.slice(0, 90)),
          heading: d.querySelector("h1").getBoundingClientRect().height,
          elements: d.querySelectorAll("*").length, alien: d.querySelectorAll("img, b[id], #x, iframe").length};
"""


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_sticks_out(page, width, tmp_path):
    answer = ask(page, tmp_path, LAYOUT, width=width)
    assert answer["out"] == []
    assert answer["scroll"] <= answer["inner"] == width


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_break_no_layout(name, tmp_path):
    data = channels(4)
    ica = ICA(random_state=0).fit(data)
    ica.feature_names_in_ = np.array([HOSTILE[name], "b", "c", "d"], dtype=object)
    answer = ask(Report(ica, data, title=HOSTILE[name]).html, tmp_path, LAYOUT, width=390)
    assert answer["alien"] == 0
    assert answer["out"] == []
    assert answer["scroll"] <= answer["inner"]
    assert answer["heading"] < 400


def test_names_are_shown_as_they_are(tmp_path):
    names = [HOSTILE["image"], HOSTILE["no space"], "c", "d"]
    data = frame(names)
    page = Report(ICA(random_state=0).fit(data), data, title=HOSTILE["image"]).html
    answer = ask(page, tmp_path, "return {title: d.querySelector('h1').textContent, head: d.title};")
    assert answer == {"title": HOSTILE["image"], "head": HOSTILE["image"]}


def test_dark_mode(page, tmp_path):
    probe = "return {paper: w.getComputedStyle(d.body).backgroundColor, ink: w.getComputedStyle(d.body).color};"
    light = ask(page, tmp_path, probe, flags=["--blink-settings=preferredColorScheme=1"])
    dark = ask(page, tmp_path, probe, flags=["--blink-settings=preferredColorScheme=0"])

    def brightness(colour):
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765

    assert brightness(light["paper"]) > 0.9 > 0.3 > brightness(light["ink"])
    assert brightness(dark["paper"]) < 0.2 < 0.8 < brightness(dark["ink"])


def test_prints(page, tmp_path):
    (tmp_path / "r.html").write_text(page, encoding="utf-8")
    chromium(f"--print-to-pdf={tmp_path / 'r.pdf'}", "--no-pdf-header-footer", (tmp_path / "r.html").as_uri())
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF")


def test_asks_the_network_for_nothing(page, tmp_path):
    answer = ask(
        page, tmp_path, "return {asked: w.performance.getEntriesByType('resource').map(e => e.name.slice(0, 40))};"
    )
    assert [name for name in answer["asked"] if not name.startswith("data:")] == []

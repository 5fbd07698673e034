"""Reading pages: their elements, attributes and addresses."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

import numpy as np

HOSTILE = {
    "image": '"><img src=x onerror=alert(1)>',
    "no space": '"><b/id=x>',
    "script": "</script><script>alert(1)</script>",
    "style": "</style><svg/onload=alert(1)>",
    "template": "$title ${script} {0} %s {{7*7}}",
    "entity": "&lt;b&gt;&#0;&amp",
    "long": "x" * 10_000,
    "long words": "word " * 2_000,
    "right to left": "\u202eשלום עולם مرحبا",
    "emoji": "🧠⚡👩‍🔬",
    "control": "a\x00b\x07c\x1bd\ud800e",
    "quotes": "' \" ` \\ </bdi>",
}


class Page(HTMLParser):
    """Counts of elements, and every attribute and address of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements = Counter()
        self.open = []
        self.attributes = Counter()
        self.addresses = []
        self.ids = []
        self.handlers = []
        self.text = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements[tag] += 1
        for name, value in attrs:
            self.attributes[tag, name] += 1
            if name in {"src", "href", "action", "data", "srcset", "poster", "xlink:href"}:
                self.addresses.append(value)
            if name == "id":
                self.ids.append(value)
            if name.startswith("on"):
                self.handlers.append((tag, name))

    def handle_data(self, data):
        self.text.append(data)


def channels(p=4, n=1200, seed=0):
    rng = np.random.default_rng(seed)
    S = rng.laplace(size=(n, p))
    S[:, 0] = rng.uniform(-1, 1, n)
    return S @ rng.normal(size=(p, p))


def frame(names, n=1200):
    import pandas

    return pandas.DataFrame(channels(len(names), n), columns=list(names))

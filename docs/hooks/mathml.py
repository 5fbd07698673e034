"""Formulas become MathML while the site is built, so pages need no script and no network to show them."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
_ROLE_MATH = re.compile(r":math:<code>(.*?)</code>", re.DOTALL)
_ROLE = re.compile(r":(?:class|func|meth|mod|attr):<code>~?(.*?)</code>")


def _mathml(latex: str, display: str) -> str:
    return convert(html.unescape(latex).strip(), display=display)


def on_page_content(page_html: str, **_: object) -> str:
    """Convert formulas, and the roles that docstrings use."""
    page_html = _FORMULA.sub(lambda m: _mathml(m[2], "block" if m[1] == "div" else "inline"), page_html)
    page_html = _ROLE_MATH.sub(lambda m: _mathml(m[1].replace("\\\\", "\\"), "inline"), page_html)
    return _ROLE.sub(r"<code>\1</code>", page_html)

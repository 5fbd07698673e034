"""Untrusted text and numbers, made safe and short for a page."""

from __future__ import annotations

import html
import math
import re
from typing import Any

#: Characters shown of any name or title.
LONGEST = 120
#: Control characters, lone surrogates, and marks that reverse the text after them.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")


def clean(text: Any, longest: int = LONGEST) -> str:
    """`text` on one line, without control characters and at most `longest` characters."""
    line = _CONTROL.sub("\ufffd", " ".join(str(text).split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def both_ends(text: Any, longest: int) -> str:
    """`text` as :func:`clean` makes it, cut in its middle: names in a row often differ only at their ends."""
    line = clean(text)
    kept = longest - 1
    return line if len(line) <= longest else f"{line[: kept - kept // 2]}…{line[-(kept // 2) :]}"


def clean_lines(text: str) -> str:
    """`text` without control characters, its lines and their indents as they are."""
    return "\n".join(_CONTROL.sub("\ufffd", line) for line in text.split("\n"))


def escape(text: Any, longest: int = LONGEST) -> str:
    """`text` for the inside of an element or a quoted attribute."""
    return html.escape(clean(text, longest), quote=True)


def isolate(text: Any, longest: int = LONGEST) -> str:
    """`text` as an element that keeps its own reading direction to itself."""
    return f'<bdi dir="auto">{escape(text, longest)}</bdi>'


def number(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits, thousands apart, a real minus sign."""
    value = float(value)
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e7 or 0 < size < 1e-3:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    return f"{value:,.{min(decimals, 6)}f}".replace("-", "−")


def share(value: float) -> str:
    """A share as a percentage."""
    if value >= 0.0995:
        return f"{100 * value:.0f} %"
    return f"{100 * value:.1f} %" if value >= 0.00095 else f"{100 * value:.2f} %"


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"

"""Feature names in messages: text from files and data frames, which may hold anything and be of any number."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Characters shown of a name, and names before the others are only counted.
LONGEST, MOST = 30, 8
#: What plain words may have besides letters and digits.
_MARKS = re.compile(r"[-_.]")


def quoted(name: str) -> str:
    """A name in quotes on one line, control characters escaped, cut if it is long."""
    text = str(name)
    cut = text[:LONGEST]
    while len(repr(cut)) > LONGEST + 2:  # escapes are longer than what they stand for
        cut = cut[:-1]
    return repr(cut) if cut == text else repr(f"{cut}...")


def feature_label(names: Sequence[str] | None, i: int) -> str:
    """Feature `i` as users know it: its name, in quotes unless it is one plain word, else its number."""
    if names is None or i >= len(names):
        return str(i)
    name = str(names[i])
    plain = len(name) <= LONGEST and _MARKS.sub("", name).isalnum() and not name.isdecimal()
    return name if plain else quoted(name)


def some_of(shown: Sequence[str], most: int = MOST) -> str:
    """The first few of what is `shown`, and how many more there are."""
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def same_names(one: Sequence[str] | None, other: Sequence[str] | None) -> bool:
    """Whether features have the same names in the same order, or neither has names."""
    if one is None or other is None:
        return one is other
    return list(map(str, one)) == list(map(str, other))


def differences(known: Sequence[str] | None, given: Sequence[str] | None) -> str:
    """Which names are new among those `given` and which of the `known` are gone; nothing where either has none."""
    if known is None or given is None:
        return ""
    old, new = [str(name) for name in known], [str(name) for name in given]
    sides = ((_not_in(new, old), "unknown"), (_not_in(old, new), "missing"))
    found = [f"{some_of([quoted(name) for name in names])} {what}" for names, what in sides if names]
    if not found and sorted(old) != sorted(new):
        return "some come more than once"
    return ", ".join(found)


def _not_in(names: Sequence[str], others: Sequence[str]) -> list[str]:
    there = set(others)
    return [name for name in names if name not in there]

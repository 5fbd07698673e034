"""docs/paper.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "paper.md").read_text()


def test_every_test_named_in_the_map_exists() -> None:
    file, missing, named = "", [], 0
    for match in re.finditer(r"`(test_\w+\.py)?(?:::(test_\w+))?`", PAGE):
        file = match[1] or file
        if not (match[1] or match[2]):
            continue
        named += 1
        path = TESTS / file
        if not path.exists() or (match[2] and f"def {match[2]}(" not in path.read_text()):
            missing.append(match[0])
    assert named > 30
    assert not missing

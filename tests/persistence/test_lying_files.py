"""Files whose checksum is right and whose content is not: refused by name, or harmless; never a crash."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from majorica.persistence import layouts
from majorica.persistence.codec import own_classes
from majorica.persistence.hints import conforms, hints_of

sys.path.insert(0, str(Path(__file__).parent))
from lying_files import CASES

GROUPS = [[case for case in CASES if kind in case] for kind in ("progressive", "incremental", "model")]
GROUPS.append([case for case in CASES if not any(case in group for group in GROUPS)])


@pytest.mark.parametrize("cases", GROUPS, ids=lambda cases: cases[0])
def test_no_array_and_no_number_of_a_file_can_lie(cases: list[str], tmp_path: Path) -> None:
    worker = Path(__file__).with_name("lying_files.py")
    done = subprocess.run([sys.executable, worker, tmp_path, *cases], capture_output=True, text=True, timeout=300)
    told = done.stdout.splitlines()
    assert done.returncode == 0, f"{told[-1:]} {done.stderr[-2000:]}"
    assert len(told) > 150 * len(cases)
    assert [line for line in told if not line.endswith(" ok")] == []


def test_every_array_that_is_stored_has_a_shape() -> None:
    """A new state's arrays must be named in ``layouts.SHAPES``, or no checkpoint of it could be opened."""
    stored = {"ProgressiveState", "IncrementalState", "BatchState", "OnlineState", "StreamFit", "Fitted", "Model"}
    kinds = {name: kind for name, kind in own_classes().items() if dataclasses.is_dataclass(kind)}
    assert stored - {"Model"} <= set(kinds)
    assert set(layouts.SHAPES) - set(kinds) == {"Model"}
    for name in [*(stored - {"Model"}), *layouts.SHAPES]:
        if name == "Model":
            continue
        known = {field for base in kinds[name].__mro__ for field in layouts.SHAPES.get(base.__name__, ())}
        arrays = {
            each.name
            for each in dataclasses.fields(kinds[name])
            if each.metadata.get("checkpoint", True) and "ndarray" in str(hints_of(kinds[name])[each.name])
        }
        assert arrays <= known, name
    assert set(layouts.RULES) <= set(kinds)
    assert {name for name, hint in layouts.model_hints().items() if "ndarray" in str(hint)} == set(
        layouts.SHAPES["Model"]
    )


def test_types_are_those_of_annotations() -> None:
    hints = hints_of(own_classes()["StreamFit"])
    for name, good, bad in [
        ("far", [None, 3, np.int64(3)], [True, 2.0, "3", 2**63]),
        ("flat", [None, [], [1, 2]], [(1, 2), [1.0]]),
        ("excess", [1.0, 1, np.float32(1), np.inf], [None, "1", True, 2**80]),
        ("stopped", [True, np.bool_(True)], [1, None]),
        ("order", [np.arange(3)], [np.arange(3.0), np.arange(3, dtype=np.int32), [0, 1]]),
        ("signs", [np.ones(3)], [np.ones(3, np.float32), np.ones(3, ">f8")]),
        ("buffer", [[], [np.ones((2, 2), np.float32)]], [np.ones(3), [np.ones(3, np.float16)], [None]]),
    ]:
        assert all(conforms(value, hints[name]) for value in good), name
        assert not any(conforms(value, hints[name]) for value in bad), name


@pytest.mark.parametrize(
    ("order", "good"), [([2, 0, 1], True), ([0, 0, 1], False), ([0, 1, 3], False), ([0, 1, -1], False), ([], True)]
)
def test_permutations_are_told_from_other_numbers(order: list[int], good: bool) -> None:
    assert layouts.is_permutation(np.array(order, np.intp)) is good

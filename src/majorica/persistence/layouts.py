"""The shapes of everything in a model file or checkpoint, and the rules its numbers keep; checked before any is used.

Compiled kernels trust shapes and indices, and a checksum is no signature: so
a file must not be able to lie about them. Types are those of the annotations
(:mod:`majorica.persistence.hints`).
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.persistence.codec import CodecError
from majorica.persistence.hints import conforms, hints_of

if TYPE_CHECKING:
    from majorica.fitting import Fitted
    from majorica.origin import Origin
    from majorica.streaming import StreamFit

#: Shapes by class and field. A letter is a length that is the same everywhere (n samples, f features, p components,
#: m mini-batches), ``*`` is any, ``|`` separates what is allowed. Every array that is stored has an entry.
SHAPES: dict[str, dict[str, str]] = {
    "State": {"W": "p p"},
    "ProgressiveState": {"relative": "p p", "upper": "p p"},
    "IncrementalState": {"inverse": "p p", "touch": "n p", "ledger": "m p p", "order": "m|0"},
    "OnlineState": {
        "inverse": "p p",
        "shift": "p",
        "visits": "p",
        "means": "p 5|0 5",
        "sizes": "3 p|3 0",
        "covariance": "p p",
        "units": "p p|0 0",
        "centre": "p|0",
        "scatter": "p p|0 0",
        "flat": "* p|0 0",
    },
    "Averages": {"candidates": "3 p p", "losses": "3"},
    "Drift": {"older": "p p", "newer": "p p"},
    "Fitted": {"W": "p p", "covariance": "p p", "trace": "*"},
    "Levels": {"order": "*"},
    "Memory": {"steps": "r p p", "changes": "r p p"},
    "Model": {
        "components_": "p f",
        "mixing_": "f p",
        "mean_": "f",
        "whitening_": "p f",
        "trace_": "*",
        "feature_names_in_": "f",
        "_order": "p",
        "_signs": "p",
    },
    "Shapes": {"slopes": "p 5", "log_normalisers": "p", "fine": "p", "rising": "p", "plain": "p"},
    "Statistics": {
        "loss": "p",
        "gradient": "p p",
        "curvature": "p",
        "power": "p",
        "diagonal": "p",
        "ramps": "p 4",
        "reaches": "p 4",
    },
    "StreamFit": {"buffer": "* f", "order": "p|0", "signs": "p|0"},
    "Surrogate": {"moments": "p p p", "tilts": "p p", "offsets": "p", "covariance": "p p"},
    "Trace": {"records": "*"},
    "Whitening": {"mean": "f", "matrix": "p f", "inverse": "f p", "variance": "p"},
}

#: Classes whose arrays may lie column by column; kernels write to those of all others.
FREE = ("Fitted", "StreamFit", "Whitening")


class Model(typing.TypedDict, total=False):
    """Attributes of a fitted estimator that a file may set; those of other names are used by nothing here."""

    components_: npt.NDArray[np.float64]
    mixing_: npt.NDArray[np.float64]
    mean_: npt.NDArray[np.float64]
    whitening_: npt.NDArray[np.float64]
    trace_: npt.NDArray[np.void]
    feature_names_in_: npt.NDArray[np.object_] | npt.NDArray[np.str_]
    n_features_in_: int
    n_components_: int
    rank_: int
    n_iter_: int
    n_samples_seen_: int
    loss_: float
    drift_: float
    converged_: bool
    stop_reason_: str
    unit_: str
    densities_: list[str]
    _order: npt.NDArray[np.intp]
    _signs: npt.NDArray[np.float64]
    _fitted: Fitted
    _stream: StreamFit
    _origin: Origin


def model_hints() -> Mapping[str, Any]:
    """Annotations of :class:`Model`."""
    from majorica.fitting import Fitted
    from majorica.origin import Origin
    from majorica.streaming import StreamFit

    here = {"Fitted": Fitted, "Origin": Origin, "StreamFit": StreamFit}
    return typing.get_type_hints(Model, localns=here)


# ---------------------------------------------------------------------- rules


def is_permutation(order: npt.NDArray[np.intp]) -> bool:
    """Whether every index below its length is in `order` once."""
    inside = ((order >= 0) & (order < len(order))).all()
    return bool(inside) and bool((np.bincount(order, minlength=len(order)) == 1).all())


def _are_signs(signs: npt.NDArray[np.float64]) -> bool:
    return bool((np.abs(signs) == 1).all())


def _judged(state: Any, p: int) -> bool:
    return bool(state.judged == 0 or len(state.units) == len(state.centre) == len(state.scatter) == p)


def _started(session: Any, f: int) -> bool:
    """Whether a stream is either before its start, with its first samples, or has all that goes on from one."""
    if session.state is None:
        return bool(sum(map(len, session.buffer)) == session.buffered)
    return session.whitening is not None and not session.buffer and len(session.order) == len(session.state.W)


def _features(session: Any, f: int) -> bool:
    named = [*(session.flat or []), *(session.awake or []), *([] if session.far is None else [session.far])]
    return all(0 <= i < f for i in named)


#: What must be true of each class beside shapes, given the lengths, and how to say that it is not.
RULES: dict[str, list[tuple[str, Callable[[Any, Mapping[str, int]], bool]]]] = {
    "Fitted": [("counts are not consistent", lambda v, s: v.n_samples >= 0 and 0 <= v.passes < np.inf)],
    "State": [("counts are not consistent", lambda v, s: v.n_samples >= 0 and 0 <= v.passes < np.inf)],
    "ProgressiveState": [
        ("sums are not there", lambda v, s: v.statistics is not None and v.n_samples > 0),
    ],
    "BatchState": [("surrogate is not there", lambda v, s: v.surrogate is not None)],
    "IncrementalState": [
        ("surrogate is not there", lambda v, s: v.surrogate is not None),
        ("memory is not there", lambda v, s: (v.touch is None) != (v.ledger is None)),
        ("mini-batches have no order", lambda v, s: is_permutation(v.order)),
        ("place in a pass is not one", lambda v, s: v.position == 0 or 0 < v.position < len(v.order)),
    ],
    "OnlineState": [
        ("surrogate is not there", lambda v, s: v.surrogate is not None),
        ("counts are not consistent", lambda v, s: min(v.seen, v.judged, v.waited, v.unfitted, v.unlearnt) >= 0),
        ("means are of no samples", lambda v, s: v.gathered >= 0),
        ("sizes are not there", lambda v, s: v.sized == 0 or (v.sized > 0 and v.sizes.shape == (3, s["p"]))),
        ("turn is not one of a component", lambda v, s: 0 <= v.turn < s["p"]),
        ("visits are below zero", lambda v, s: bool((v.visits >= 0).all())),
        ("distances are not consistent", lambda v, s: v.reach >= 0 and v.excess >= 0),
        ("samples to be judged are not there", lambda v, s: _judged(v, s["p"])),
    ],
    "Averages": [("averages are not consistent", lambda v, s: v.compared >= 0)],
    "Levels": [
        ("units are not those of the data", lambda v, s: v.unit > 0 and len(v.order) == -(-s["n"] // v.unit)),
        ("units have no order", lambda v, s: is_permutation(v.order)),
        ("size is not one", lambda v, s: 0 < v.size <= len(v.order)),
    ],
    "Memory": [("pairs are not there", lambda v, s: 0 <= v.count <= len(v.steps) and -1 <= v.newest < len(v.steps))],
    "Statistics": [("sums are of no samples", lambda v, s: v.n > 0)],
    "Trace": [("length is not one", lambda v, s: 0 <= v.length <= len(v.records) > 0)],
    "StreamFit": [
        ("first samples are not all there", lambda v, s: _started(v, s["f"])),
        ("components have no order", lambda v, s: is_permutation(v.order) and len(v.order) == len(v.signs)),
        ("signs are not signs", lambda v, s: _are_signs(v.signs)),
        ("features are not among those of the data", lambda v, s: _features(v, s["f"])),
        ("distances are not consistent", lambda v, s: v.excess >= 0),
    ],
}


# ------------------------------------------------------------------- checking


@dataclass
class Layout:
    """Checks values against :data:`SHAPES` and :data:`RULES`; CodecError names what is not as it must be.

    Parameters
    ----------
    lengths : dict of int
        Lengths that are known, by letter; others are those of the first array that has them.
    """

    lengths: dict[str, int] = field(default_factory=dict)

    def check(self, value: Any, hint: Any, path: str) -> None:
        """Check `value`, all of it, which must be as `hint` says."""
        if not conforms(value, hint):
            raise CodecError(f"its {path} is not {_said(hint)}")
        self._walk(value, path)

    def check_model(self, attributes: Mapping[str, Any]) -> None:
        """Check the attributes of a fitted estimator, the arrays first."""
        hints = model_hints()
        known = {name: value for name, value in attributes.items() if name in hints}
        for name in sorted(known, key=list(hints).index):
            if name in SHAPES["Model"]:
                self._check_array(known[name], SHAPES["Model"][name], name, hints[name])
        for name, value in known.items():
            own = self if name != "_stream" else Layout({"f": self.lengths["f"]})
            own.check(value, hints[name], name)
        if "_order" in known and not is_permutation(known["_order"]):
            raise CodecError("its components have no order")
        if "_signs" in known and not _are_signs(known["_signs"]):
            raise CodecError("its signs are not signs")

    def _walk(self, value: Any, path: str) -> None:
        if isinstance(value, list | tuple):
            for i, item in enumerate(value):
                self._walk(item, f"{path}[{i}]")
        elif isinstance(value, Densities):
            if len(value) != self.lengths.setdefault("p", len(value)):
                raise CodecError(f"its {path} are {len(value)} for {self.lengths['p']} components")
            if not np.isfinite(value.log_normalisers).all():
                raise CodecError(f"its {path} have normalisers that are not finite")
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            self._object(value, path)

    def _object(self, value: Any, path: str) -> None:
        kind: type = type(value)
        hints = hints_of(kind)
        shapes = {n: s for base in kind.__mro__ for n, s in SHAPES.get(base.__name__, {}).items()}
        in_rows = kind.__name__ not in FREE
        for name, content in _stored(value):
            where = f"{path}.{name}"
            for array in content if isinstance(content, list) else [content]:
                if isinstance(array, np.ndarray):
                    if in_rows and not array.flags.c_contiguous:
                        raise CodecError(f"its {where} is not stored row by row")
                    self._check_array(array, shapes.get(name, ""), where, hints[name])
            # A provisional model of a stream is one of fewer samples, whose rank may be less.
            own = Layout({"f": self.lengths["f"]}) if name == "provisional" else self
            own._walk(content, where)
        for base in kind.__mro__:
            for words, holds in RULES.get(base.__name__, ()):
                if not holds(value, self.lengths):
                    raise CodecError(f"its {path} is not consistent: its {words}")

    def _check_array(self, array: Any, shape: str, path: str, hint: Any) -> None:
        if not isinstance(array, np.ndarray):
            raise CodecError(f"its {path} is not {_said(hint)}")
        allowed = [one.split() for one in shape.split("|")]
        if not any(self._fits(array.shape, wanted) for wanted in allowed):
            named = " or ".join(map(self._named, allowed))
            raise CodecError(f"its {path} has the shape {array.shape} and not {named}")
        if array.dtype.kind == "f" and not _is_finite(array):
            raise CodecError(f"its {path} is not finite")

    def _named(self, wanted: list[str]) -> str:
        """A shape in words, lengths as far as they are known."""
        return "(" + ", ".join(str(self.lengths.get(length, length)) for length in wanted) + ")"

    def _fits(self, shape: tuple[int, ...], wanted: list[str]) -> bool:
        """Whether a shape is the one `wanted`; if so, lengths not known before are its."""
        if len(shape) != len(wanted):
            return False
        found = dict(self.lengths)
        for length, name in zip(shape, wanted, strict=True):
            known = int(name) if name.isdigit() else length if name == "*" else found.setdefault(name, length)
            if length != known:
                return False
        self.lengths = found
        return True


def _is_finite(array: npt.NDArray[Any]) -> bool:
    """Whether all of an array is finite; a memory on disk is read piece by piece."""
    step = max(1, 2**20 // max(1, array[:1].size))
    return all(bool(np.isfinite(array[i : i + step]).all()) for i in range(0, len(array), step))


def _stored(value: Any) -> Iterator[tuple[str, Any]]:
    for each in dataclasses.fields(value):
        if each.metadata.get("checkpoint", True):
            yield each.name, getattr(value, each.name)


def _said(hint: Any) -> str:
    """A type in words."""
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("numpy.", "").replace("typing.", "")

"""State objects as arrays and JSON, and back; nothing of it is code.

Dataclasses are taken apart by their fields, so a new solver's state needs no
line here; :mod:`majorica.persistence.layouts` says the shapes of its arrays.
Reading makes only classes of this package that the caller allows, by their
fields and ``__post_init__`` alone, of the types that their annotations name,
and looks nothing up by import.

A field with ``metadata={"checkpoint": False}`` (a cache) is left out and comes
back as its default.
"""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.densities.base import Density
from majorica.densities.table import Densities
from majorica.persistence.hints import conforms, hints_of

#: Where a user's own density must give the same values to count as the same.
_PROBES = np.array([-30.0, -2.0, -0.7, 0.0, 0.1, 0.9, 1.1, 5.0, 100.0])
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_MAX_DEPTH = 40


class CodecError(ValueError):
    """A value cannot be stored, or what was stored cannot be what it claims."""


def own_classes() -> dict[str, type]:
    """Every dataclass and enum of the package that is loaded, by name."""
    found: dict[str, type] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "majorica" or module is None:
            continue
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == name and _is_storable(value):
                found[value.__name__] = value
    return found


def _is_storable(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or issubclass(kind, Enum)


@dataclass
class Encoder:
    """Takes values apart; `arrays` collects their arrays by readable, unique names.

    One array (or random generator) met twice is stored once, so two names of
    one array stay two names of one array.
    """

    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    external: dict[int, str] = field(default_factory=dict)  #: names of arrays kept elsewhere, by id
    _seen: dict[int, tuple[Any, Any]] = field(default_factory=dict)

    def encode(self, value: Any, path: str) -> Any:
        """`value` as JSON; `path` names it in messages and arrays."""
        if value is None or isinstance(value, bool | str):
            return value
        if id(value) in self.external:
            return {"$": "external", "name": self.external[id(value)]}
        if isinstance(value, Enum):
            return {"$": "enum", "class": type(value).__name__, "name": value.name}
        if type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$": "float", "text": repr(value)}
        if isinstance(value, np.ndarray | np.generic | np.random.Generator | np.random.RandomState):
            return self._shared(value, path)
        if isinstance(value, list):
            return [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"$": "tuple", "items": [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]}
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise CodecError(f"{path}: only dictionaries with text keys can be stored")
            return {"$": "dict", "items": {key: self.encode(item, f"{path}.{key}") for key, item in value.items()}}
        if isinstance(value, Densities):
            members = [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]
            # The normalisers are kept as they are: a solver may have them from another formula, one bit away.
            return {"$": "densities", "members": members, "log_z": self.encode(value.log_normalisers, f"{path}.log_z")}
        return self._object(value, path)

    def _object(self, value: Any, path: str) -> Any:
        kind = type(value)
        own = kind.__module__.partition(".")[0] == "majorica"
        if isinstance(value, Density) and not own:
            return custom_density(value)
        if not (own and dataclasses.is_dataclass(kind)):
            raise CodecError(f"{path}: a {kind.__module__}.{kind.__qualname__} cannot be stored")
        fields = {
            each.name: self.encode(getattr(value, each.name), f"{path}.{each.name}")
            for each in dataclasses.fields(value)
            if each.metadata.get("checkpoint", True)
        }
        return {"$": "data", "class": kind.__name__, "fields": fields}

    def _shared(self, value: Any, path: str) -> Any:
        if id(value) not in self._seen:
            self._seen[id(value)] = (value, self._leaf(value, path))  # the value is kept so that its id stays its own
        return self._seen[id(value)][1]

    def _leaf(self, value: Any, path: str) -> Any:
        if isinstance(value, np.random.Generator):
            state = self.encode(dict(value.bit_generator.state), path)
            return {"$": "generator", "id": path, "state": state}
        if isinstance(value, np.random.RandomState):
            return {"$": "randomstate", "id": path, "state": self.encode(dict(value.get_state(legacy=False)), path)}
        if isinstance(value, np.generic):
            return {"$": "scalar", "array": self._add(np.asarray(value), path)}
        if value.dtype.kind in "OU":
            if value.ndim != 1 or not all(isinstance(item, str) for item in value):
                raise CodecError(f"{path}: arrays of Python objects cannot be stored")
            return {"$": "texts", "object": value.dtype.kind == "O", "items": [str(item) for item in value]}
        return {"$": "array", "array": self._add(np.asarray(value), path)}

    def _add(self, array: npt.NDArray[Any], path: str) -> str:
        base = re.sub(r"[^A-Za-z0-9_.]", "_", path).strip(".")[:180] or "array"
        name, count = base, 1
        while name in self.arrays:
            count += 1
            name = f"{base}_{count}"
        self.arrays[name] = array
        return name


@dataclass
class Decoder:
    """Puts values together again.

    Parameters
    ----------
    arrays : dict of ndarray
        As stored.
    classes : dict of type
        What may be made, by name.
    density : Density, optional
        The user's own density, for files that name one.
    external : dict
        Arrays kept elsewhere, by name.
    """

    arrays: Mapping[str, npt.NDArray[Any]]
    classes: Mapping[str, type]
    density: Density | None = None
    external: Mapping[str, Any] = field(default_factory=dict)
    _generators: dict[str, Any] = field(default_factory=dict)

    def decode(self, stored: Any, depth: int = 0) -> Any:
        """The value; raises CodecError on anything that is not as `Encoder` writes it."""
        if depth > _MAX_DEPTH:
            raise CodecError("nested too deeply")
        if stored is None or isinstance(stored, bool | str | int | float):
            return stored
        if isinstance(stored, list):
            return [self.decode(item, depth + 1) for item in stored]
        try:
            return self._tagged(stored, depth + 1)
        except (KeyError, TypeError, AttributeError) as error:
            raise CodecError(f"malformed entry ({type(error).__name__}: {error})") from error

    def _tagged(self, stored: dict[str, Any], depth: int) -> Any:
        tag = stored["$"]
        if tag == "array":
            return self.arrays[stored["array"]]
        if tag == "external":
            return self.external[stored["name"]]
        if tag == "scalar":
            return self.arrays[stored["array"]][()]
        if tag == "float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[stored["text"]]
        if tag == "texts":
            return np.array([str(item) for item in stored["items"]], dtype=object if stored["object"] else None)
        if tag == "tuple":
            return tuple(self.decode(item, depth) for item in stored["items"])
        if tag == "dict":
            return {key: self.decode(item, depth) for key, item in stored["items"].items()}
        if tag == "enum":
            return self._class(stored["class"], Enum)[stored["name"]]
        if tag == "densities":
            return self._densities(stored, depth)
        if tag == "data":
            return self._data(stored, depth)
        if tag == "custom":
            return match_density(stored, self.density)
        if tag in ("generator", "randomstate"):
            return self._generator(stored, depth)
        raise CodecError(f"unknown kind of entry {tag!r}")

    def _densities(self, stored: dict[str, Any], depth: int) -> Densities:
        members = [self.decode(item, depth) for item in stored["members"]]
        log_z = self.decode(stored["log_z"], depth)
        if not all(isinstance(member, Density) for member in members):
            raise CodecError("a density is not a density")
        if log_z.shape != (len(members),) or log_z.dtype != np.float64:
            raise CodecError("the normalisers are not one a density")
        densities = Densities(members)
        densities.__dict__["log_normalisers"] = log_z
        return densities

    def _class(self, name: str, base: type = object) -> Any:
        kind = self.classes.get(name)
        if kind is None or not issubclass(kind, base):
            raise CodecError(f"unknown class {name!r}")
        return kind

    def _data(self, stored: dict[str, Any], depth: int) -> Any:
        kind = self._class(stored["class"])
        known = {each.name: each for each in dataclasses.fields(kind)}
        given = {name: self.decode(item, depth) for name, item in stored["fields"].items()}
        if set(given) - set(known):
            raise CodecError(f"{kind.__name__} has no {', '.join(sorted(set(given) - set(known)))}")
        for name, content in given.items():
            if not conforms(content, hints_of(kind)[name]):
                raise CodecError(f"{kind.__name__}: {name} cannot be a {type(content).__name__} as it is")
        value = object.__new__(kind)
        for name, each in known.items():
            if name in given:
                content = given[name]
            elif each.default is not dataclasses.MISSING:
                content = each.default
            elif each.default_factory is not dataclasses.MISSING:
                content = each.default_factory()
            else:
                raise CodecError(f"{kind.__name__}: {name} is missing")
            object.__setattr__(value, name, content)
        if hasattr(value, "__post_init__"):
            value.__post_init__()  # checks a density's parameters, makes the caches that are no fields
        return value

    def _generator(self, stored: dict[str, Any], depth: int) -> Any:
        key = stored["id"]
        if key not in self._generators:
            state = self.decode(stored["state"], depth)
            name = state["bit_generator"]
            if name not in _BIT_GENERATORS:
                raise CodecError(f"unknown random generator {name!r}")
            bits = getattr(np.random, name)()
            if stored["$"] == "generator":
                bits.state = state
                made: Any = np.random.Generator(bits)
            else:
                made = np.random.RandomState(bits)
                made.set_state(state)
            self._generators[key] = made
        return self._generators[key]


def custom_density(density: Density) -> dict[str, Any]:
    """What is kept of a density from outside the package: how to recognise it, not how to make it."""
    with np.errstate(all="ignore"):
        values = [float(v).hex() for v in np.asarray(density.loss(_PROBES), dtype=np.float64)]
    return {"$": "custom", "repr": re.sub(r" at 0x[0-9a-fA-F]+", "", repr(density)), "values": values}


def match_density(stored: dict[str, Any], density: Density | None) -> Density:
    """The user's `density` if it is the one that was stored."""
    if density is None:
        raise CodecError(
            f"it uses the density {stored['repr']}, which is not part of this package; pass it as density="
        )
    given = custom_density(density)
    if given["values"] != stored["values"]:
        raise CodecError(f"it uses the density {stored['repr']}, but {given['repr']} was passed, which differs")
    return density

"""What a field's annotation says of a value read from a file: whether it can be what it claims."""

from __future__ import annotations

import numbers
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Union

import numpy as np

#: Largest integer taken: that of an index.
_MOST = 2**63 - 1


@cache
def hints_of(kind: type) -> Mapping[str, Any]:
    """Annotation of each field of a class, evaluated."""
    return typing.get_type_hints(kind)


def conforms(value: Any, hint: Any) -> bool:
    """Whether `value` is as `hint` says: the types of numbers, items and arrays; what cannot be told passes."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return any(conforms(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _holds(value.dtype, typing.get_args(parts[1])[0])
    if origin is list:
        return isinstance(value, list) and all(conforms(item, parts[0]) for item in value)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        each = [parts[0]] * len(value) if parts[1:] == (...,) else list(parts)
        return len(value) == len(each) and all(map(conforms, value, each))
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool) and abs(int(value)) <= _MOST
    if hint is float:
        return isinstance(value, float | np.floating) or conforms(value, int)
    if hint is None or hint is type(None):
        return value is None
    return isinstance(value, hint) if isinstance(hint, type) else True


def _holds(dtype: np.dtype[Any], kind: Any) -> bool:
    """Whether arrays of `dtype` are those meant by ``NDArray[kind]``: kernels take no foreign byte order or width."""
    if kind is np.void:
        from majorica.solvers.base import TRACE_DTYPE

        return dtype == TRACE_DTYPE
    if kind is np.floating:
        return dtype.isnative and dtype in (np.float32, np.float64)
    return dtype.isnative and (not isinstance(kind, type) or np.issubdtype(dtype, kind))

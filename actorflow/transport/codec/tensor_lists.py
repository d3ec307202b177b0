"""How a list of tensors travels: as a record of its size, the indices at which something is, and that.

The arrays of a list go as those of any other value, so they are not copied where they are large, and lie in
one piece of the frame where they have one shape. Whoever keeps one of those that came keeps them all.
Which nodes two versions of a list share in memory is not said: each that is sent is sent whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from actorflow.errors import WireError, show_value
from actorflow.transport.codec.field_checks import FieldCheck
from actorflow.transport.codec.registry import RegisteredType
from actorflow.values.arrays import Array
from actorflow.values.tensor_list import TensorList

_INT64 = np.dtype(np.int64)
_ELEMENTS = (np.ndarray, np.generic, TensorList)


def _flatten(made: TensorList) -> tuple[int | None, Array | None, Sequence[Any]]:
    """The size, None where it grows; the indices, None where they are all from 0 on; the values."""
    found = tuple(made.items())
    indices, values = [i for i, _ in found], [value for _, value in found]
    is_dense = not indices or indices[-1] == len(indices) - 1
    return made.size, None if is_dense else np.array(indices, _INT64), _in_rows(values)


def _in_rows(values: list[Any]) -> Sequence[Any]:
    """The values as a list, which may be written as one array in C order, unless one has another order."""
    plain = all(value.flags.c_contiguous for value in values if isinstance(value, np.ndarray))
    return values if plain else tuple(values)


def _rebuild(size: int | None, indices: Array | None, values: Sequence[Any]) -> TensorList:
    """The list; raises WireError, or ListError, for what no list is taken apart into."""
    for value in values:
        if not isinstance(value, _ELEMENTS):
            message = f"a list holds arrays and lists, got {show_value(value)}"
            raise WireError(message)
    if type(size) is bool or (size is not None and size < 0):
        message = f"a list has a size of at least 0, got {size}"
        raise WireError(message)
    if indices is None:
        return TensorList.of(values, size)
    if indices.dtype != _INT64 or indices.shape != (len(values),) or (np.diff(indices) <= 0).any():
        message = f"a list of {len(values)} values has as many int64 indices, which rise, got {indices!r:.60}"
        raise WireError(message)
    return TensorList.at(indices.tolist(), values, size)


ENTRY = RegisteredType(
    name="tensor_list",
    kind=TensorList,
    names=("size", "indices", "values"),
    values=_flatten,
    make=_rebuild,
    check=(
        FieldCheck((int, type(None)), description="int | None"),
        FieldCheck((np.ndarray, type(None)), description="an array or None"),
        FieldCheck((list, tuple), description="list | tuple"),
    ),
)
"""What the registry is told."""

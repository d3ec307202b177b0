"""Bit-for-bit equality of states: arrays, numbers, texts, and tuples, lists and dicts of them.

Two floats are equal here only when their bits are: 0.0 and -0.0 differ, and a NaN equals itself. Arrays also
agree in shape and dtype. Nothing here imports an array library: whatever has `dtype`, `shape` and
`tobytes` is an array.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from typing import Any

from actorflow.errors import HistoryError, pluralise
from actorflow.sim.history.operation import shorten_value


def bits(value: Any) -> Hashable:
    """Returns something hashable that is equal for two values exactly when all their bits are.

    Raises:
        HistoryError: There is something else in it than arrays, numbers, texts and collections of them.
    """
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):
        return "array", str(value.dtype), tuple(value.shape), value.tobytes()
    if isinstance(value, float):
        return "float", struct.pack(">d", value)
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return type(value).__name__, value
    if isinstance(value, (tuple, list)):
        return type(value).__name__, tuple(bits(item) for item in value)
    if isinstance(value, Mapping):
        return "map", tuple(sorted(((repr(key), bits(item)) for key, item in value.items()), key=_name))
    message = (
        f"a state is made of arrays, numbers, texts, tuples, lists and dicts, got {type(value).__name__}"
    )
    raise HistoryError(f"{message} {shorten_value(value)}", hint="return its parts as a tuple or a dict")  # noqa: EM102


def _name(item: tuple[str, Hashable]) -> str:
    return item[0]


def difference(got: Any, wanted: Any, at: str = "the state") -> str | None:
    """Returns where two values first differ, and how; None when all bits agree."""
    if bits(got) == bits(wanted):
        return None
    if hasattr(got, "tobytes") and hasattr(wanted, "tobytes"):
        if (got.dtype, tuple(got.shape)) != (wanted.dtype, tuple(wanted.shape)):
            return f"{at} is {got.dtype} {tuple(got.shape)}, not {wanted.dtype} {tuple(wanted.shape)}"
        pairs = list(zip(got.reshape(-1), wanted.reshape(-1), strict=True))
        wrong = [i for i, (one, other) in enumerate(pairs) if one.tobytes() != other.tobytes()]
        one, other = pairs[wrong[0]]
        count = (
            f"{len(wrong)} of {pluralise(len(pairs), 'element')} {'differs' if len(wrong) == 1 else 'differ'}"
        )
        return f"{at}: {count}, first element {wrong[0]}: {one!r}, not {other!r}"
    if isinstance(got, Mapping) and isinstance(wanted, Mapping) and got.keys() == wanted.keys():
        parts = [(f"{at}[{key!r}]", got[key], wanted[key]) for key in got]
    elif isinstance(got, (tuple, list)) and type(got) is type(wanted) and len(got) == len(wanted):
        parts = [(f"{at}[{i}]", one, other) for i, (one, other) in enumerate(zip(got, wanted, strict=True))]
    else:
        return f"{at} is {shorten_value(got)}, not {shorten_value(wanted)}"
    return next(found for name, one, other in parts if (found := difference(one, other, name)) is not None)

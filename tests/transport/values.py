"""What messages may hold, drawn, and when two such values are the same."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from actorflow import errors
from actorflow.errors import ActorflowError, Where
from actorflow.transport.codec.registry import travels
from actorflow.transport.codec.types import DTYPES
from actorflow.values.arrays import NAMES, as_dtype
from actorflow.values.tensor_list import TensorList


@travels("tests.colour")
class Colour(Enum):
    RED = "r"
    BLUE = ("b", 1)


@travels("tests.nothing")
@dataclass(frozen=True, slots=True)
class Nothing:
    """No field."""


@travels("tests.point")
@dataclass(frozen=True, slots=True)
class Point:
    x: Any
    y: Any = 0
    z: Any = field(default=None, kw_only=True)


@travels("tests.holder")
@dataclass(frozen=True, slots=True)
class Holder:
    values: Mapping[str, Any]


atoms = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(), max_size=8)  # lone surrogates too
    | st.binary(max_size=8)
    | st.integers(500, 1100).map(bytes)
)

EVERY_DTYPE = st.sampled_from(DTYPES)


@st.composite
def arrays(draw: st.DrawFn, dtypes: Any = EVERY_DTYPE, shape: Any = None) -> Any:
    """Arrays of every dtype, 0-d and empty, in either order, with gaps, read-only or not."""
    dtype = draw(dtypes)
    if shape is None:
        shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    n = int(np.prod(shape, dtype=int)) * dtype.itemsize
    raw = np.frombuffer(draw(st.binary(min_size=n, max_size=n)), np.uint8)
    made = ((raw & 1) if dtype.kind == "b" else raw.copy()).view(dtype).reshape(shape)
    match draw(st.sampled_from(["plain", "fortran", "gaps", "reversed", "read-only"])):
        case "fortran":
            return np.asfortranarray(made).reshape(shape)
        case "gaps" if shape:
            wide = np.repeat(made, 2, axis=-1)
            return wide[..., ::2]
        case "reversed" if shape:
            return made[::-1]
        case "read-only":
            made.flags.writeable = False
    return made


scalars = arrays(st.sampled_from([as_dtype(name) for name in NAMES]), (1,)).map(lambda a: a[0])
records = st.lists(st.binary(max_size=4), max_size=6).map(lambda r: np.array([*r, None], object)[:-1])
enums = st.sampled_from(Colour) | st.builds(Nothing)


@st.composite
def tensor_lists(draw: st.DrawFn, depth: int = 2) -> TensorList:
    """Lists of arrays of all kinds, and of lists: dense, with gaps, of a size or not."""
    one = arrays() | arrays(st.sampled_from([as_dtype("float32")]), (3,)) | scalars | records
    inner = one | tensor_lists(depth=depth - 1) if depth else one
    found = draw(st.lists(inner, max_size=4))
    indices = sorted(draw(st.sets(st.integers(0, 2**40), min_size=len(found), max_size=len(found))))
    if draw(st.booleans()):
        indices = list(range(len(found)))
    length = indices[-1] + 1 if indices else 0
    return TensorList.at(indices, found, draw(st.none() | st.integers(length, length + 2)))


leaves = atoms | arrays() | scalars | records
keys = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=3) | st.binary(max_size=3)


TYPES = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, ActorflowError)]
places = st.builds(Where, node=st.none() | st.text(max_size=3), step=st.none() | st.integers(0, 9))


@st.composite
def errors_of_actorflow(draw: st.DrawFn) -> ActorflowError:
    """Errors of every type, some with causes and notes."""
    text = st.text(max_size=5)
    made = [
        draw(st.sampled_from(TYPES))(draw(text), where=draw(st.none() | places), hint=draw(st.none() | text))
        for _ in range(draw(st.integers(1, 3)))
    ]
    for error, cause in pairwise(made):
        error.__cause__ = cause
    for note in draw(st.lists(text, max_size=2)):
        made[0].add_note(note)
    return made[0]


failures = errors_of_actorflow()


def containers(inner: Any) -> Any:
    return (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    )


def with_records(inner: Any) -> Any:
    return (
        containers(inner)
        | st.builds(Point, inner, inner, z=inner)
        | st.builds(Holder, st.dictionaries(st.text(max_size=3), inner, max_size=3))
        | enums
        | failures
    )


@st.composite
def rows(draw: st.DrawFn) -> Any:
    """Lists of elements of one structure, as chunks are; sometimes one of them differs."""

    def of(depth: int) -> Any:
        kinds = ["atom", "array", "scalar", "bytes", "any"] + ["tuple", "dict", "list"] * (depth < 2)
        match draw(st.sampled_from(kinds)):
            case "array":
                dtype = draw(st.sampled_from(DTYPES))
                return arrays(st.just(dtype), tuple(draw(st.lists(st.integers(0, 3), max_size=2))))
            case "scalar":
                return arrays(st.just(as_dtype(draw(st.sampled_from(NAMES)))), (1,)).map(lambda a: a[0])
            case "bytes":
                return st.binary(max_size=5)
            case "tuple":
                return st.tuples(*(of(depth + 1) for _ in range(draw(st.integers(0, 3)))))
            case "dict":
                return st.fixed_dictionaries(
                    {draw(st.text(max_size=2)): of(depth + 1) for _ in range(draw(st.integers(0, 3)))}
                )
            case "list":
                return st.lists(of(depth + 1), min_size=2, max_size=2)
            case "atom":
                return atoms
        return leaves

    made = draw(st.lists(of(0), min_size=2, max_size=5))
    if draw(st.integers(0, 5)) == 0:
        made[draw(st.integers(0, len(made) - 1))] = draw(leaves)
    return made


values = st.recursive(leaves, containers, max_leaves=12) | rows()
everything = values | tensor_lists() | st.recursive(leaves | enums, with_records, max_leaves=12)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal in types, dtypes, shapes and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        alike = a.dtype == b.dtype and a.dtype.byteorder == b.dtype.byteorder and a.shape == b.shape
        return alike and bool(a.tolist() == b.tolist() if a.dtype.kind == "O" else a.tobytes() == b.tobytes())
    if isinstance(a, np.generic):
        return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())
    if isinstance(a, TensorList):
        known = (a.size, len(a), a.nbytes) == (b.size, len(b), b.nbytes)
        return known and same(list(a.items()), list(b.items()))
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, ActorflowError):
        return facts(a) == facts(b) and same(a.__cause__, b.__cause__)
    if isinstance(a, Point | Holder | Nothing):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, dict):
        return len(a) == len(b) and all(
            same(k, m) and same(v, w) for (k, v), (m, w) in zip(a.items(), b.items(), strict=True)
        )
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def facts(error: ActorflowError) -> tuple[Any, ...]:
    """What an error says, but for its causes."""
    return error.what, error.where, error.hint, getattr(error, "__notes__", [])

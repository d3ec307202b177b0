"""Arrays on either device: dtypes, snapshots, and the little that carriers of values may do.

Everything above this module treats an array as a value. This is the one place, beside the
kernels, that knows numpy and CuPy, so that actors never compute by accident. CuPy is imported when
a card is first asked for, and never needed before.

Where arrays live: what is fed, fetched, held by a variable or queue, or sent to another process is
a numpy array in the host's memory. An array in the memory of a card passes only between nodes of
that card; copy nodes stand at its borders. So everything here that is not said to take arrays of
a card takes those of numpy alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

# numpy first: ml_dtypes would import it from C, where Ctrl-C becomes an ImportError.
import numpy as np

# isort: split
import ml_dtypes

from actorflow.errors import PlacementError

Array = Any
"""A numpy or cupy array, or a numpy scalar (what 0-d arithmetic returns)."""

NDArray = np.ndarray
"""What `type(value) is NDArray` tests: a plain numpy array, not a subclass."""

Value = np.ndarray[tuple[Any, ...], np.dtype[Any]]
"""What a fetch gives, for type checkers: `numpy.typing.NDArray[Any]`."""

Library = Any
"""A module with the functions of the Python array API: numpy or cupy."""

_PAGE = 4096
"""Bytes that come into memory at once, at least."""

DType = np.dtype[Any]
"""A numpy dtype; CuPy's arrays have the same, bfloat16 too."""

NAMES: tuple[str, ...] = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
"""The dtypes of numbers and bool, by name."""

BYTES = np.dtype(object)
"""The dtype "bytes": an array of objects, each of which is Python's `bytes`. For text and records.

numpy's own bytes have one length for all and lose zeros at the end. `check_bytes` looks at the
elements wherever values come in; cards have no such arrays.
"""

_BY_NAME: dict[str, DType] = {
    name: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name in NAMES
} | {"bytes": BYTES}


def as_dtype(dtype: Any) -> DType:
    """Returns the numpy dtype named or meant by `dtype`.

    Raises:
        TypeError: when no tensor may have that dtype; the message lists those that it may.
    """
    # The usual case, and the only one for "bfloat16" and "bytes" by name.
    if isinstance(dtype, str) and dtype in _BY_NAME:
        return _BY_NAME[dtype]
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):  # ValueError: of an object with a dtype that is none
        found = None
    # numpy's own bytes (S) have one length for all; here they are objects.
    if found is not None and found.kind in "OS":
        return BYTES
    # numpy has more dtypes than tensors: dates, records, text.
    if found is None or found.name not in _BY_NAME:
        text = "; text is given as bytes" if _means_text(dtype, found) else ""
        message = f"no tensor has dtype {dtype!r}; the dtypes are {', '.join(_BY_NAME)}{text}"
        raise TypeError(message)
    # The one from the table, so that a byte order of another machine never comes in.
    return _BY_NAME[found.name]


def _means_text(dtype: Any, found: DType | None) -> bool:
    return dtype in ("string", "text") if found is None and isinstance(dtype, str) else _kind(found) == "U"


def _kind(dtype: DType | None) -> str:
    return "" if dtype is None else dtype.kind


def is_dtype(value: Any) -> bool:
    """Tells whether `value` is a dtype itself, and no name of one."""
    return isinstance(value, np.dtype)


def name_of(dtype: DType) -> str:
    """Returns what users call a dtype: numpy's name, and "bytes"."""
    return "bytes" if dtype.kind == "O" else dtype.name


def is_floating(dtype: DType) -> bool:
    """Tells whether `dtype` is a real floating type, bfloat16 included."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def is_differentiable(dtype: DType) -> bool:
    """Tells whether a gradient can flow through values of `dtype`."""
    return is_floating(dtype) or dtype.kind == "c"


def wide_dtype(dtype: DType) -> DType:
    """Returns the dtype that elements of `dtype` are counted and added up in: float32 for halves."""
    return as_dtype("float32") if dtype.itemsize == 2 and is_differentiable(dtype) else dtype


def limits(dtype: DType) -> Any:
    """Returns what numpy tells of the range and precision of a dtype of numbers."""
    # numpy's finfo does not know bfloat16.
    find: Any = np.iinfo if dtype.kind in "iu" else ml_dtypes.finfo
    return find(dtype)


def library(name: str) -> Library:
    """Returns the array library of that name, importing it.

    Raises:
        PlacementError: when it cannot be imported, with the reason.
    """
    if name == "numpy":
        return np
    if name != "cupy":
        message = f"no array library is named {name!r}; there are numpy and cupy"
        raise PlacementError(message)
    # Imported where a card is asked for: a program without one never waits for CuPy.
    try:
        import cupy
    except ImportError as error:
        message = f"CuPy cannot be imported: {error}"
        raise PlacementError(message, hint="pip install 'actorflow[gpu]'") from error
    found: ModuleType = cupy
    return found


def namespace(*values: Any) -> Library:
    """Returns the library of the arrays: CuPy when one of them is in a card's memory, else numpy.

    Kernels do not ask: they are bound to the library of their device when a plan is made.
    """
    # Not imported means no array of it exists, so asking costs a look-up.
    cupy = sys.modules.get("cupy")
    if cupy is not None and any(isinstance(value, cupy.ndarray) for value in values):
        return cupy
    return np


def to_host(value: Array) -> Array:
    """Returns an array of either device as one of numpy, in C order; itself when it is one.

    It waits for the card. Nodes of a graph do not use it: see `kernels.device.gpu`, which stages and does
    not wait.
    """
    return value if namespace(value) is np else value.get(order="C")


def to_device(value: Array) -> Array:
    """Returns an array of either device as one of CuPy on the current card; itself when it is one."""
    return library("cupy").asarray(value)


def as_array(value: Any, dtype: DType | None = None) -> Array:
    """Returns `value` as an array without a copy where it already is one.

    Raises:
        TypeError: for a masked array, whose mask would be lost.
    """
    if isinstance(value, np.ma.MaskedArray):
        message = "a masked array would lose its mask; fill it first: value.filled(…)"
        raise TypeError(message)
    return np.asarray(value, dtype)


def read_only(value: Array) -> Array:
    """Returns a view that cannot be written; what is no array of numpy as it is."""
    if type(value) is not np.ndarray:
        return value
    seen = value.view()
    seen.setflags(write=False)  # as `flags.writeable = False`, in half the time
    return seen


def view_for_user(value: Array) -> Array:
    """Returns what user code may have of a value: one that is read-only as another view, others as they are.

    numpy lets whoever holds an array set its shape, dtype or strides, though it may not write to it. The
    array that a variable or the graph goes on with is therefore not the one that is handed out. That takes
    0.4 µs of the 10.6 of a read.
    """
    return value.view() if type(value) is np.ndarray and not value.flags.writeable else value


_KINDS_HELD = {"b": "b", "u": "bui", "i": "bui", "f": "buif", "V": "buif", "c": "buifc"}  # V: bfloat16


def convert_numbers(value: Any, dtype: DType) -> Array:
    """Returns numbers (Python's, nested lists of them, an array) as an array of `dtype`, if it holds them.

    Floats are rounded to the digits that `dtype` has; nothing else may change.

    Raises:
        TypeError: when its kind would change (a float for an integer tensor).
        ValueError, OverflowError: when numpy cannot make an array of it, or a number is too large.
    """
    if dtype.kind == "O":
        return check_bytes(value)
    found = as_array(value)
    # numpy calls bfloat16 "V", as it does records.
    kind = "f" if is_floating(found.dtype) else found.dtype.kind
    # An empty list has float64 by numpy's choice, which says nothing about what was meant.
    if found.size and kind not in _KINDS_HELD[dtype.kind]:
        message = f"{found.dtype.name} values do not fit {dtype.name}"
        raise TypeError(_no_number(value) if kind in "OSU" else message)
    # Overflow is looked for below, with the value; numpy's warning would come without it.
    with np.errstate(all="ignore"):
        array = np.asarray(value, dtype)
    if found.size and _too_large(found, array):
        message = f"a value is too large for {dtype.name}"
        raise OverflowError(message)
    return array


def _no_number(value: Any) -> str:
    """What is wrong with a value of which numpy makes no array of numbers: its first element that is none."""
    array = np.asarray(value, BYTES)
    # The first element that is none: numpy's own error names no place.
    for at, element in enumerate(array.flat):
        if not isinstance(element, bool | int | float | complex | np.number | np.bool_):
            more = "; af.strings.to_number makes numbers of bytes" if isinstance(element, bytes) else ""
            return f"elements must be numbers, got {_describe_element(element, at, array.shape)}{more}"
    return "elements are Python objects, or integers of more than 64 bits; give an array of numbers"


def _describe_element(element: Any, at: int, shape: tuple[int, ...]) -> str:
    """An element and its place, as errors show them."""
    index = tuple(int(i) for i in np.unravel_index(at, shape))
    return f"{type(element).__name__} {element!r:.40}" + (f" at index {index}" if index else "")


def as_checked_array(value: Any) -> Array:
    """Returns numbers, bytes, or nested lists of one of them, as an array; an array of bytes is checked.

    Raises:
        TypeError: for text and other objects.
        ValueError: for lists of different lengths.
    """
    array = as_array(value)
    # Mixed lists go on to `check_bytes`, which names the first that is not bytes.
    if array.dtype.kind == "O" and not any(isinstance(element, bytes | str) for element in array.flat):
        first = next(array.flat, None)
        message = f"values are numbers of at most 64 bits, or bytes, got {type(first).__name__} {first!r:.40}"
        raise TypeError(message)
    return check_bytes(value) if array.dtype.kind in "OSU" else array


def check_bytes(value: Any) -> Array:
    """Returns `value` as an array of bytes; itself when it is one.

    Raises:
        TypeError: when an element is not bytes, with the first such and its place.
    """
    array = np.asarray(value, BYTES)
    # ORDER: every element, at the border: whatever is behind it relies on bytes alone.
    for at, element in enumerate(array.flat):
        if not isinstance(element, bytes):
            text = "; text is given as bytes, encode it: text.encode()" if isinstance(element, str) else ""
            if isinstance(element, bool | int | float | np.number | np.bool_):
                text = "; af.strings.as_bytes makes bytes of a tensor of numbers"
            message = f"elements must be bytes, got {_describe_element(element, at, array.shape)}{text}"
            raise TypeError(message)
    return array


def whole(value: Array | bytes) -> Array:
    """Returns what indexing an array gave as an array: numpy hands out single bytes bare."""
    if isinstance(value, bytes):
        made = np.empty((), BYTES)
        made[()] = value
        return made
    return value


def _too_large(found: Array, array: Array) -> bool:
    """Whether a number became another one, or infinite."""
    # Whole numbers wrap around, so they are compared; floats round, so only what became infinite counts.
    if array.dtype.kind in "iu":
        return bool(np.any(array != found))
    return array.dtype.kind != "b" and bool(np.any(np.isfinite(found) & ~np.isfinite(array)))


def frozen_copy(value: Any) -> Array:
    """Returns a private, read-only copy of `value`, in C order."""
    return frozen(np.array(value, order="C"))


def copy(value: Array) -> Array:
    """Returns a copy of an array of the host in C order, writeable."""
    return np.array(value, order="C")


def outlive(value: Array) -> Array:
    """Returns an array of the host that outlives what it was computed from: itself, or a copy.

    What cannot be written may be a view of something that somebody lent: a fed array, or the value of a
    variable.
    """
    return np.array(value, order="C") if type(value) is np.ndarray and not value.flags.writeable else value


def frozen(value: Array) -> Array:
    """Returns a read-only view of an array that the caller owns and gives up; scalars already are.

    numpy lets whoever holds an owner of memory make it writeable again, but not a view of one. So this
    is for what one reader gets; what many share, for as long as they like, is lent: see `lease`.
    CuPy has no read-only arrays: an array of a card comes back as it is. Nobody can write it all
    the same, since no array of a card leaves the graph, and kernels never change their inputs.
    """
    if not isinstance(value, np.ndarray):
        return value
    # ORDER: the owner first, then a view of it: the view cannot be made writeable again.
    value.setflags(write=False)
    return value.view()


def plus(value: Array, delta: Array) -> Array:
    """Returns the sum as a new array of the dtype of `value`, writeable."""
    # same_kind: a float delta may not be added to integers.
    return np.asarray(np.add(value, delta, dtype=value.dtype, casting="same_kind"))


def plus_into(value: Array, delta: Array, out: Array) -> None:
    """Writes the sum into `out`, which has shape and dtype of `value`; allocates nothing."""
    np.add(value, delta, out=out, casting="same_kind")


def minus_into(value: Array, delta: Array, out: Array) -> None:
    """Writes the difference into `out`, as `plus_into` does the sum."""
    np.subtract(value, delta, out=out, casting="same_kind")


def copy_into(value: Array, out: Array) -> None:
    """Writes the elements into `out`, which has shape and dtype of `value`; allocates nothing."""
    np.copyto(out, value)


def minus(value: Array, delta: Array) -> Array:
    """Returns the difference as a new array of the dtype of `value`, writeable."""
    return np.asarray(np.subtract(value, delta, dtype=value.dtype, casting="same_kind"))


def stack(rows: Sequence[Array]) -> Array:
    """Returns the arrays stacked along a new first axis; all have one shape and dtype."""
    return np.stack(rows)


def row(value: Array, i: int) -> Array:
    """Returns `value[i]`, a scalar of numpy or a 0-d array of bytes where there is one axis."""
    return whole(value[i])


def own_row(value: Array, i: int) -> Array:
    """Returns `row(value, i)` in memory of its own, read-only: it keeps nothing of `value` alive."""
    found = row(value, i)
    return found if isinstance(found, np.generic) else frozen_copy(found)


def empty(shape: tuple[int, ...], dtype: DType) -> Array:
    """Returns an array of `shape` with no meaning yet."""
    return np.empty(shape, dtype)


def touch(value: Array) -> None:
    """Writes what is there to each page of an array that owns its memory: zeros have none until then."""
    flags = value.flags
    if value.size and flags.owndata and flags.writeable and flags.c_contiguous and not value.dtype.hasobject:
        # One byte a page is enough: the system gives memory by the page.
        pages = value.reshape(-1).view(np.uint8)[::_PAGE]
        np.bitwise_or(pages, 0, out=pages)  # an assignment to itself numpy leaves out


def vector(values: Sequence[Any], dtype: DType) -> Array:
    """Returns Python's numbers or bytes as an array of one axis, read-only."""
    return frozen(np.array(values, dtype).reshape(len(values)))


def to_list(value: Array) -> list[Any]:
    """Returns the elements of an array in C order, as Python's numbers or bytes."""
    found: list[Any] = np.asarray(value).ravel().tolist()
    return found


def weight(value: Array) -> int:
    """Returns how many bytes the elements of an array of the host take, those of bytes elements too."""
    own = nbytes(value)
    # Elements of bytes lie elsewhere; the array has 8 bytes for each.
    return own + sum(map(len, value.flat)) if value.dtype.hasobject else own


def broadcast_filled(value: Array, shape: tuple[int, ...]) -> Array:
    """Returns an array broadcast to `shape`, read-only; ValueError where it cannot be."""
    return frozen(np.array(np.broadcast_to(value, shape)))


def same(a: Array, b: Array) -> bool:
    """Tells whether two arrays have one shape, dtype and value, to the bit: NaN is NaN, 0.0 is not -0.0."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    # Bit for bit by bytes, as == would call NaN unequal and -0.0 equal to 0.0.
    return to_list(a) == to_list(b) if a.dtype.hasobject else bool(a.tobytes() == b.tobytes())


def number(value: Array) -> Any:
    """Returns the only element of an array as Python's number."""
    return value.item()


def none_of(shape: Sequence[int | None] | None, dtype: DType) -> Array:
    """Returns an array of no elements of `shape`, along a first axis; sizes that are not known are 0."""
    return np.empty((0, *(n or 0 for n in shape or ())), dtype)


def is_filled(value: Array, number: float) -> bool:
    """Tells whether every element is `number`, to the bit: 0.0 is not -0.0. False for large arrays."""
    # Larger ones would be copied twice for the comparison.
    if value.dtype.hasobject or value.size > 4096:
        return False
    return bool(value.tobytes() == np.full(value.shape, number, value.dtype).tobytes())


def integer(value: int) -> Array:
    """Returns a 0-d int64 array: how counts and versions leave the actors."""
    return np.int64(value)


def scalar(value: Array) -> Array:
    """Returns the one element of a 0-d array, of its dtype: a copy, which does not change with the array."""
    return value[()]


def one_like(value: Array) -> Array:
    """Returns 1 in the shape and dtype of `value`."""
    return np.ones_like(value)


def truth(value: bool) -> Array:
    """Returns a 0-d bool array."""
    return np.bool_(value)


def ignore_float_errors() -> None:
    """Makes numpy compute infinities and NaN in silence, in the current context or thread.

    A graph says with `check_numerics` where they must not be; a warning would name no node. It is for the
    contexts in which steps compute (the pump's, those of async handlers, worker threads), never for that of
    the user's own code.
    """
    np.seterr(all="ignore")


def quietly(function: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """Calls the function where infinities and NaN are no warnings, see `ignore_float_errors`."""
    with np.errstate(all="ignore"):
        return function(*args, **settings)


def nbytes(value: Any) -> int:
    """Returns the size of an array of either device in bytes, 0 for what has no size."""
    return int(getattr(value, "nbytes", 0))


def content_bytes(value: Any) -> int:
    """Returns the bytes of what a value holds, its parts in tuples, lists and dicts included.

    Arrays have their `nbytes`, those of bytes the lengths of their elements, text its characters; what
    has no size counts 0.
    """
    if isinstance(value, np.ndarray | np.generic):
        return sum(map(len, value.flat)) if value.dtype.hasobject else value.nbytes
    if isinstance(value, tuple | list):
        return sum(map(content_bytes, value))
    if isinstance(value, dict):
        return sum(map(content_bytes, value.values()))
    return len(value) if isinstance(value, bytes | bytearray | str) else nbytes(value)


def stack_padded(rows: Sequence[Array]) -> Array:
    """Returns the arrays stacked along a new first axis, each filled up with zeros, or empty bytes.

    All have one dtype and number of axes; every axis becomes as long as the longest.
    """
    sizes = [max(axis) for axis in zip(*(row.shape for row in rows), strict=True)]
    if all(row.shape == tuple(sizes) for row in rows):
        return np.stack(rows)
    dtype = rows[0].dtype
    out = np.full((len(rows), *sizes), b"" if dtype.hasobject else 0, dtype)
    for i, row in enumerate(rows):
        out[i][tuple(map(slice, row.shape))] = row
    return out

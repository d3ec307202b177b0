"""The type promotion of the Python array API, with bfloat16: which dtypes mix, and what comes out.

Within a kind (signed, unsigned, floating, complex) the wider one comes out. Signed and unsigned
integers give the narrowest signed one that holds both; floating and complex give the complex one
whose parts hold the floating one. Nothing else mixes: the standard leaves it to the library, and an
integer that turned into a float by itself, or a flag into a number, is more often a mistake.

Two departures from numpy: uint64 with a signed integer is refused (numpy gives float64), and
bfloat16 with float16, neither of which holds the other, gives float32.

Source: Python array API standard 2024.12, "Type promotion rules".
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from actorflow.errors import SpecError
from actorflow.values.arrays import DType, as_dtype, is_floating, limits, name_of

_WHOLE = {"float16": "complex64", "bfloat16": "complex64", "float32": "complex64", "float64": "complex128"}
_KIND_NAMES = {
    "b": "bool",
    "i": "integers",
    "u": "integers",
    "f": "floating numbers",
    "c": "complex numbers",
    "O": "bytes",
}


def kind_of(dtype: DType) -> str:
    """Returns numpy's letter of the kind of a dtype, `f` for bfloat16 too."""
    return "f" if is_floating(dtype) else dtype.kind


def kind_name(dtype: DType) -> str:
    """Returns the kind of a dtype as errors call it."""
    return _KIND_NAMES[kind_of(dtype)]


@cache
def promote(a: DType, b: DType) -> DType | None:
    """Returns the dtype that holds the values of both, None when the two do not mix."""
    if a == b:
        return a
    kinds = {kind_of(a), kind_of(b)}
    if kinds == {"f"}:
        # bfloat16 and float16 have one size, and neither holds the other.
        return as_dtype("float32") if a.itemsize == b.itemsize else max(a, b, key=_size)
    if len(kinds) == 1:
        return max(a, b, key=_size)
    if kinds == {"f", "c"}:
        # Complex is floating twice: the one whose parts hold the floating one.
        real, whole = (a, b) if kind_of(a) == "f" else (b, a)
        return max(as_dtype(_WHOLE[real.name]), whole, key=_size)
    if kinds == {"i", "u"}:
        signed, unsigned = (a, b) if a.kind == "i" else (b, a)
        # No signed dtype holds uint64; numpy would turn to float64, which rounds.
        if unsigned.itemsize == 8:
            return None
        # Twice as wide as the unsigned one holds it with its sign.
        return as_dtype(f"int{8 * max(signed.itemsize, 2 * unsigned.itemsize)}")
    return None


def _size(dtype: DType) -> int:
    return dtype.itemsize


def common(dtypes: Iterable[DType]) -> DType | None:
    """Returns the dtype that all mix to, None when two of them do not; their order does not matter."""
    found: DType | None = None
    for dtype in dtypes:
        found = dtype if found is None else promote(found, dtype)
        if found is None:
            return None
    return found


def result_type(*dtypes: Any) -> DType:
    """Returns the dtype of the result when tensors or dtypes are mixed; see docs/dtypes.md.

    Raises:
        SpecError: when two of them do not mix, or one is no dtype, or none is given.

    >>> af.result_type("int8", "uint16", "int32")
    dtype('int32')
    """
    given = [_dtype(value) for value in dtypes]
    if not given:
        message = "result_type takes at least one dtype or tensor, got none"
        raise SpecError(message)
    found = common(given)
    if found is None:
        message = f"these dtypes do not mix: {', '.join(map(name_of, given))}"
        raise SpecError(message, hint=refusal(given))
    return found


_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}  # V: bfloat16


def refusal(dtypes: Iterable[DType]) -> str:
    """Returns the advice for dtypes that do not mix."""
    dtypes = list(dtypes)
    kinds = list(dict.fromkeys(map(kind_name, dtypes)))
    if "bytes" in kinds:
        return "bytes mix with bytes only; af.strings.to_number and af.strings.as_bytes convert"
    # More than one kind: the advice names the widest, which loses the least.
    if len(kinds) > 1:
        widest = max(dtypes, key=lambda d: (_RANK.get(d.kind, 2), d.itemsize))
        to = f"af.cast(x, {name_of(widest)!r})"
        return f"{' and '.join(kinds)} are not mixed; convert one with af.cast, such as {to}"
    return "no integer dtype holds all values of uint64 and of a signed one; convert one with af.cast"


def can_cast(dtype: Any, to: Any) -> bool:
    """Tells whether every value of `dtype` is one of `to` by promotion, so that nothing is lost.

    >>> af.can_cast("int8", "int32"), af.can_cast("float64", "float32")
    (True, False)
    """
    wanted = _dtype(to)
    found = promote(_dtype(dtype), wanted)
    return found is not None and found == wanted  # None equals float64 to numpy


def finfo(dtype: Any) -> Any:
    """Returns the limits of a floating or complex dtype: bits, eps, max, min, smallest_normal.

    Raises:
        SpecError: for other dtypes.

    >>> float(af.finfo("bfloat16").eps)
    0.0078125
    """
    found = _dtype(dtype)
    if kind_of(found) not in "fc":
        message = f"finfo takes floating or complex dtypes, got {name_of(found)}"
        raise SpecError(message, hint="af.iinfo is for integers")
    return limits(found)


def iinfo(dtype: Any) -> Any:
    """Returns the limits of an integer dtype: bits, max, min.

    Raises:
        SpecError: for other dtypes.

    >>> af.iinfo("uint8").max
    255
    """
    found = _dtype(dtype)
    if found.kind not in "iu":
        message = f"iinfo takes integer dtypes, got {name_of(found)}"
        raise SpecError(message, hint="af.finfo is for floating ones")
    return limits(found)


def _dtype(value: Any) -> DType:
    """The dtype of a tensor or an array, or what it names."""
    try:
        # Classes have a `dtype` that is a descriptor: `np.float32` is itself the name.
        return as_dtype(getattr(value, "dtype", value) if not isinstance(value, type) else value)
    except TypeError as error:
        raise SpecError(str(error)) from None

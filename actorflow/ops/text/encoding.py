"""Bytes to numbers and back: raw memory, digits, base64, UTF-8. On the host only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError, Where
from actorflow.graph.builder import Tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, op
from actorflow.ops.definition.arguments import api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.ops.text.strings import of_bytes
from actorflow.runtime.call_site import source_line
from actorflow.values.arrays import BYTES, as_dtype
from actorflow.values.spec import Spec, spec


def _dtype_name(op_name: str, dtype: Any) -> str:
    try:
        return as_dtype(dtype).name
    except TypeError as error:
        raise SpecError(str(error), where=Where(op=op_name, defined_at=source_line())) from None


def _decode_raw_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    length, made = attrs["length"], spec(attrs["dtype"])
    check_dtypes("the result of decode_raw", DtypeClass.NUMERIC, made)
    if length is not None and length < 0:
        message = f"a length cannot be negative, got {length}"
        raise SpecError(message)
    return of_bytes("decode_raw", attrs["dtype"], (length,))(inputs, attrs)


@op("decode_raw", spec=_decode_raw_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def decode_raw(
    x: Any,
    dtype: Any,
    length: int | None = None,
    *,
    little_endian: bool = True,
    name: str | None = None,
) -> Tensor:
    """The numbers whose bytes, one after the other, each element is. Undoes `encode_raw`.

    Shapes:   (...) -> (..., length); all elements have the length of the first when it is None
    Dtypes:   bytes -> `dtype`, numbers or bool (any byte but 0 is true)
    Gradient: none.
    Raises:   SpecError for other dtypes; in the step DataError for an element of another length.

    >>> with af.Graph():
    ...     af.io.decode_raw(af.placeholder("bytes", (None,)), "uint8", 784)
    <Tensor decode_raw:0 (None, 784) uint8>
    """
    attrs: dict[str, Attr] = {
        "dtype": _dtype_name("decode_raw", dtype),
        "length": length,
        "little_endian": little_endian,
    }
    return build_one("decode_raw", [x], attrs, name=name)


def _encode_raw_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,) = inputs
    check_dtypes("encode_raw", DtypeClass.NUMERIC, x)
    if x.shape == ():
        message = f"encode_raw joins the numbers of the last axis, got {x}"
        raise SpecError(message, hint="add one with af.expand_dims")
    return (Spec(None if x.shape is None else x.shape[:-1], BYTES),)


@op("encode_raw", spec=_encode_raw_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def encode_raw(x: Any, *, little_endian: bool = True, name: str | None = None) -> Tensor:
    """The bytes of the numbers along the last axis, one after the other.

    Shapes:   (..., n) -> (...)
    Dtypes:   numbers or bool -> bytes
    Gradient: none.
    Raises:   SpecError for bytes and for scalars.
    """
    return build_one("encode_raw", [x], {"little_endian": little_endian}, name=name)


def _to_number_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    check_dtypes("the result of to_number", DtypeClass.REAL, spec(attrs["dtype"]))
    return of_bytes("to_number", attrs["dtype"])(inputs, attrs)


@op("to_number", spec=_to_number_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def to_number(x: Any, dtype: Any = "float32", *, name: str | None = None) -> Tensor:
    """The number that each element spells in ASCII digits; white space around it does not count.

    Shapes:   any, kept
    Dtypes:   bytes -> `dtype`, integers or floating; floats may be written "1e-3", "inf" and "nan"
    Gradient: none.
    Raises:   SpecError for other dtypes; in the step DataError for an element that is no number, or
              none that `dtype` holds.
    """
    return build_one("to_number", [x], {"dtype": _dtype_name("to_number", dtype)}, name=name)


def _as_bytes_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    (x,), digits = inputs, attrs["digits"]
    check_dtypes("as_bytes", DtypeClass.NUMERIC if digits is None else DtypeClass.FLOATING, x)
    if digits is not None and not 0 <= digits <= 50:
        message = f"as_bytes writes from 0 to 50 digits after the point, got {digits}"
        raise SpecError(message)
    return (Spec(x.shape, BYTES),)


@op("as_bytes", spec=_as_bytes_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def as_bytes(x: Any, digits: int | None = None, *, name: str | None = None) -> Tensor:
    """Each number written in ASCII: with as few digits as tell it from its neighbours, or `digits`.

    Shapes:   any, kept
    Dtypes:   numbers or bool ("true", "false") -> bytes; floating where `digits` are given
    Gradient: none.
    Raises:   SpecError for bytes.
    """
    return build_one("as_bytes", [x], {"digits": digits}, name=name)


@op("encode_base64", spec=of_bytes("encode_base64"), gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def encode_base64(x: Any, *, url: bool = False, name: str | None = None) -> Tensor:
    """Each element in base64 (RFC 4648) with padding; `url` for the alphabet of URLs. No gradient."""
    return build_one("encode_base64", [x], {"url": url}, name=name)


@op("decode_base64", spec=of_bytes("decode_base64"), gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def decode_base64(x: Any, *, url: bool = False, name: str | None = None) -> Tensor:
    """What each element is the base64 of. Undoes `encode_base64`.

    Shapes:   any, kept
    Dtypes:   bytes; padding may be left out, nothing else may stand between
    Gradient: none.
    Raises:   SpecError for other dtypes; in the step DataError for an element that is no base64.
    """
    return build_one("decode_base64", [x], {"url": url}, name=name)


def _decode_utf8_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    if attrs["length"] < 0 or not -(2**31) <= attrs["pad"] < 2**31:
        message = f"decode_utf8 takes a length of at least 0 and an int32 to pad with, got {dict(attrs)}"
        raise SpecError(message)
    return of_bytes("decode_utf8", "int32", (attrs["length"],))(inputs, attrs)


@op("decode_utf8", spec=_decode_utf8_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def decode_utf8(x: Any, length: int, pad: int = 0, *, cut: bool = False, name: str | None = None) -> Tensor:
    """The code points of each element, filled up with `pad` to `length` of them.

    Shapes:   (...) -> (..., length)
    Dtypes:   bytes in UTF-8 -> int32
    Gradient: none.
    Raises:   SpecError for other dtypes; in the step DataError for an element that is not UTF-8, and
              without `cut` for one of more characters.
    """
    attrs: dict[str, Attr] = {"length": length, "pad": pad, "cut": cut}
    return build_one("decode_utf8", [x], attrs, name=name)

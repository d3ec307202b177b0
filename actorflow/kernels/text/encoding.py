"""Kernels of `ops.text.encoding`: bytes to numbers and back, base64, UTF-8. For no card."""

from __future__ import annotations

import binascii
import math
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np

from actorflow.errors import SpecError
from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.text.strings_each import cost, of_each, wrong
from actorflow.values.arrays import BYTES, Array, DType, as_dtype, limits


def _with_byte_order(dtype: DType, little_endian: bool) -> DType:
    """The dtype in that order of bytes; bfloat16 has none of its own and travels as uint16."""
    # ml_dtypes' bfloat16 takes no byte order.
    plain = np.dtype(np.uint16) if dtype.name == "bfloat16" else dtype
    return plain.newbyteorder("<" if little_endian else ">")


@kernel("decode_raw", only="numpy", cost=cost)
def decode_raw(x: Array, *, dtype: str, length: int | None, little_endian: bool) -> Array:
    """The numbers whose bytes each element is, along a new last axis of `length`."""
    to = as_dtype(dtype)
    if length is None:
        # Without a length the first element gives it, the others must agree below.
        first = len(x.flat[0]) if x.size else 0
        if first % to.itemsize:
            raise wrong("decode_raw", x, 0, f"its length must be a multiple of {to.itemsize}")
        length = first // to.itemsize
    stored = _with_byte_order(to, little_endian)
    size = length * to.itemsize
    # Each is looked at before the join: after it sizes could even each other out.
    for i, element in enumerate(x.flat):
        if len(element) != size:
            raise wrong(
                "decode_raw", x, i, f"it must have {size} bytes, {length} of {dtype}, and has {len(element)}"
            )
    whole = np.frombuffer(b"".join(x.flat), stored).reshape((*x.shape, length))
    if to.kind == "b":
        # Any byte but 0 is true, where a view as bool would keep 2.
        return whole.view(np.uint8) != 0
    made = whole.astype(stored.newbyteorder("="))
    # bfloat16 came as uint16; these are its bits.
    return made.view(to) if made.dtype != to else made


@kernel("encode_raw", only="numpy")
def encode_raw(x: Array, *, little_endian: bool) -> Array:
    """The bytes of the numbers along the last axis."""
    if not x.ndim:
        message = "encode_raw joins the numbers of the last axis, got a scalar"
        raise SpecError(message)
    stored = _with_byte_order(x.dtype, little_endian)
    plain = x.view(np.uint16) if x.dtype.name == "bfloat16" else x
    rows = np.ascontiguousarray(plain.astype(stored)).reshape((math.prod(x.shape[:-1]), x.shape[-1]))
    made = np.empty(x.shape[:-1], BYTES)
    made.reshape(-1)[:] = [row.tobytes() for row in rows]
    return made


@kernel("to_number", only="numpy", cost=cost)
def to_number(x: Array, *, dtype: str) -> Array:
    """Each element, a number in digits, as that number."""
    to = as_dtype(dtype)
    # All at once; what that does not take is read one by one, for the error says which.
    found = numbers(x.reshape(-1).tolist(), to)
    return of_each("to_number", x, reader(to), to) if found is None else found.reshape(x.shape)


def numbers(texts: Sequence[bytes] | Sequence[str], to: DType) -> Array | None:
    """Returns what `reader` makes of each of the texts, None unless it takes them all.

    200,000 floats take 165 ms so, 400 ms one call of `reader` after the other (on a busy machine).
    """
    if not texts:
        return np.empty(0, to)
    # `texts[0][:0]` is empty in the type of the others, bytes or text.
    joined = texts[0][:0].join(texts)  # type: ignore[arg-type]
    # Python would take underscores and digits of every script, as `_plain` says.
    if not joined.isascii() or ("_" if isinstance(joined, str) else b"_") in joined:  # type: ignore[operator]
        return None
    made = np.empty(len(texts), to)
    try:
        if to.kind in "iu":
            made[:] = list(map(int, texts))
            return made
        found = list(map(float, texts))
    except (ValueError, OverflowError):
        return None  # the reader says what is wrong, and of which
    # The cast would make infinities of them in silence.
    if (np.abs(np.array(found)) > float(limits(to).max)).any():
        return None  # too large, or an infinity: the reader says which
    made[:] = found
    return made


def reader(to: DType) -> Any:
    """Returns what reads digits as a number of that dtype; ValueError when they are none, or too many."""
    if to.kind in "iu":
        low, high = int(limits(to).min), int(limits(to).max)

        def whole(element: bytes) -> int:
            number = int(_plain(element))
            if not low <= number <= high:
                message = f"{to.name} holds numbers from {low} to {high}"
                raise ValueError(message)
            return number

        return whole
    most = float(limits(to).max)

    def real(element: bytes) -> float:
        number = float(_plain(element))
        # Digits that give an infinity are too large; "inf" has none and is a number.
        infinite = not math.isfinite(number) and any(c in b"0123456789" for c in element)
        if infinite or (math.isfinite(number) and abs(number) > most):
            message = f"{to.name} holds numbers up to {most:.5g}"
            raise ValueError(message)
        return number

    return real


def _plain(element: bytes) -> str:
    """The digits as text; Python would take underscores between them, and digits of every script."""
    if b"_" in element or not element.isascii():
        message = "it is no number"
        raise ValueError(message)
    return element.decode("ascii")


@kernel("as_bytes", only="numpy", cost=cost)
def as_bytes(x: Array, *, digits: int | None) -> Array:
    """Each number in digits: as many as tell it from its neighbours, or `digits` after the point."""

    def shown(value: Any) -> bytes:
        if digits is not None:
            return f"{float(value):.{digits}f}".encode()
        return (str(value).lower() if x.dtype.kind == "b" else str(value)).encode()

    made = np.empty(x.shape, BYTES)
    made.reshape(-1)[:] = [shown(value) for value in np.asarray(x).reshape(-1)]
    return made


@kernel("encode_base64", only="numpy", cost=cost)
def encode_base64(x: Array, *, url: bool) -> Array:
    """Each element in base64, with padding."""
    others = b"-_" if url else None
    return of_each("encode_base64", x, lambda element: b64encode(element, others), BYTES)


@kernel("decode_base64", only="numpy", cost=cost)
def decode_base64(x: Array, *, url: bool) -> Array:
    """What each element is the base64 of; padding may be left out."""
    others = b"-_" if url else None

    def decoded(element: bytes) -> bytes:
        try:
            # Padding that was left out is put back: as many as make the length a multiple of 4.
            found = b64decode(element + b"=" * (-len(element) % 4), others, validate=True)
        except binascii.Error as error:
            message = f"it is no base64: {str(error).lower()}"
            raise ValueError(message) from None
        written = b64encode(found, others)
        if element not in (written, written.rstrip(b"=")):  # other padding, bits left over, another alphabet
            message = f"it is no base64: what it says is written {written[:40]!r}"
            raise ValueError(message)
        return found

    return of_each("decode_base64", x, decoded, BYTES)


@kernel("decode_utf8", only="numpy", cost=cost)
def decode_utf8(x: Array, *, length: int, pad: int, cut: bool) -> Array:
    """The code points of each element, `length` of them along a new last axis."""

    def points(element: bytes) -> list[int]:
        try:
            found = [ord(c) for c in element.decode("utf-8")]
        except UnicodeDecodeError as error:
            message = f"it is no UTF-8 at byte {error.start}"
            raise ValueError(message) from None
        if len(found) > length and not cut:
            message = f"it has {len(found)} characters, more than {length}"
            raise ValueError(message)
        return found[:length] + [pad] * (length - len(found))

    return of_each("decode_utf8", x, points, as_dtype("int32"), (length,))

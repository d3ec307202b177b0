"""Kernels of `ops.text.strings`: what is done with bytes as text, one element at a time. For no card."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from actorflow.kernels.definition.registry import kernel
from actorflow.kernels.text.strings_each import cost, of_each
from actorflow.values.arrays import BYTES, Array, as_dtype


def from_attribute(text: str) -> bytes:
    """Returns the bytes that an attribute holds as a text of as many characters; see `ops.text.strings`."""
    return text.encode("latin-1")


@kernel("bytes_length", only="numpy", cost=cost)
def bytes_length(x: Array) -> Array:
    """The number of bytes of each element, as int32."""
    return of_each("bytes_length", x, len, as_dtype("int32"))


@kernel("bytes_join", only="numpy", cost=cost)
def bytes_join(*arrays: Array, separator: str) -> Array:
    """The elements at one place of all arrays, joined."""
    between = from_attribute(separator)
    spread = np.broadcast_arrays(*arrays)
    made = np.empty(spread[0].shape, BYTES)
    made.reshape(-1)[:] = [between.join(parts) for parts in zip(*(a.flat for a in spread), strict=True)]
    return made


@kernel("bytes_split", only="numpy", cost=cost)
def bytes_split(x: Array, *, separator: str, count: int, pad: str) -> Array:
    """The parts of each element, `count` of them along a new last axis."""
    # No separator means white space, as in Python.
    between, fill = from_attribute(separator) or None, from_attribute(pad)

    def parts(element: bytes) -> list[bytes]:
        found = element.split(between)
        if len(found) > count:
            message = f"it has {len(found)} parts, more than {count}"
            raise ValueError(message)
        return found + [fill] * (count - len(found))

    return of_each("bytes_split", x, parts, BYTES, (count,))


@kernel("bytes_slice", only="numpy", cost=cost)
def bytes_slice(x: Array, *, start: int | None, stop: int | None) -> Array:
    """The bytes of each element from `start` up to `stop`."""
    return of_each("bytes_slice", x, lambda element: element[start:stop], BYTES)


@kernel("bytes_strip", only="numpy", cost=cost)
def bytes_strip(x: Array, *, characters: str | None) -> Array:
    """Each element without those bytes at its ends, white space when it is None."""
    ends = None if characters is None else from_attribute(characters)
    return of_each("bytes_strip", x, lambda element: element.strip(ends), BYTES)


@kernel("bytes_lower", only="numpy", cost=cost)
def bytes_lower(x: Array) -> Array:
    """Each element with the letters A to Z as a to z."""
    return of_each("bytes_lower", x, bytes.lower, BYTES)


@kernel("bytes_upper", only="numpy", cost=cost)
def bytes_upper(x: Array) -> Array:
    """Each element with the letters a to z as A to Z."""
    return of_each("bytes_upper", x, bytes.upper, BYTES)


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> re.Pattern[bytes]:
    """Returns the pattern of an attribute, ready."""
    return re.compile(from_attribute(pattern))


@kernel("regex_replace", only="numpy", cost=cost)
def regex_replace(x: Array, *, pattern: str, replacement: str, count: int) -> Array:
    """Each element with what the pattern matches replaced, the first `count` or all when it is 0."""
    find, put = compile_pattern(pattern), from_attribute(replacement)
    return of_each("regex_replace", x, lambda element: find.sub(put, element, count), BYTES)


@kernel("regex_match", only="numpy", cost=cost)
def regex_match(x: Array, *, pattern: str, whole: bool) -> Array:
    """Whether the pattern matches the whole of each element, or somewhere in it."""
    find = compile_pattern(pattern)
    match = find.fullmatch if whole else find.search
    return of_each("regex_match", x, lambda element: match(element) is not None, as_dtype("bool"))


@kernel("hash_bucket", only="numpy", cost=cost)
def hash_bucket(x: Array, *, buckets: int, seed: int) -> Array:
    """A number in [0, buckets) for each element; see `ops.text.strings.hash_bucket` for the hash."""
    # A salt, so that seeds give hashes that have nothing to do with each other.
    salt = seed.to_bytes(8, "little")

    def bucket(element: bytes) -> int:
        # The bits of blake2b do not depend on machine or process, as Python's hash does.
        return int.from_bytes(blake2b(element, digest_size=8, salt=salt).digest(), "little") % buckets

    return of_each("hash_bucket", x, bucket, as_dtype("int64"))

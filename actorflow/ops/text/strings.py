"""Bytes as text, one element at a time: lengths, parts, patterns, hashes. On the host only."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from actorflow.errors import SpecError
from actorflow.graph.builder import Tensor, as_tensor, build_one
from actorflow.graph.node import Attr
from actorflow.graph.opdef import NOT_DIFFERENTIABLE, SpecRule, op
from actorflow.ops.definition.arguments import Whole, api_function
from actorflow.ops.definition.spec_rules import DtypeClass, check_dtypes
from actorflow.values.arrays import BYTES, as_dtype
from actorflow.values.spec import Dim, Spec, broadcast


def of_bytes(op_name: str, result: str = "bytes", tail: Sequence[Dim] = ()) -> SpecRule:
    """The rule of an op that makes one value, or an axis of them, of every element of bytes."""
    made = as_dtype(result)

    def rule(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
        (x,) = inputs
        check_dtypes(op_name, DtypeClass.BYTES, x)
        return (Spec(None if x.shape is None else (*x.shape, *tail), made),)

    return rule


def attribute(value: bytes) -> str:
    """Returns bytes as an attribute may hold them: as a text of as many characters (latin-1)."""
    return value.decode("latin-1")


@op("bytes_length", spec=of_bytes("bytes_length", "int32"), gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def bytes_length(x: Any, *, name: str | None = None) -> Tensor:
    """The number of bytes of each element, as int32; no gradient.

    >>> with af.Graph():
    ...     af.strings.length([b"one", b"three"])
    <Tensor bytes_length:0 (2,) int32>
    """
    return build_one("bytes_length", [x], name=name)


def _join_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    if not inputs:
        message = "bytes_join needs at least one tensor, got none"
        raise SpecError(message)
    check_dtypes("bytes_join", DtypeClass.BYTES, *inputs)
    return (Spec(broadcast([x.shape for x in inputs]), BYTES),)


@op("bytes_join", spec=_join_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def bytes_join(values: Sequence[Any], separator: bytes = b"", *, name: str | None = None) -> Tensor:
    """The elements at one place of all `values`, joined with `separator` between them.

    Shapes:   they broadcast
    Dtypes:   bytes
    Gradient: none.
    Raises:   SpecError for other dtypes and for no values.
    """
    attrs: dict[str, Attr] = {"separator": attribute(separator)}
    return build_one("bytes_join", [as_tensor(v) for v in values], attrs, name=name)


def _split_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    if attrs["count"] < 1:
        message = f"bytes_split makes at least one part, got count {attrs['count']}"
        raise SpecError(message)
    return of_bytes("bytes_split", tail=(attrs["count"],))(inputs, attrs)


@op("bytes_split", spec=_split_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def bytes_split(
    x: Any, count: int, separator: bytes = b"", pad: bytes = b"", *, name: str | None = None
) -> Tensor:
    """The parts of each element between separators, filled up with `pad` to `count` of them.

    Without a separator, white space parts, and none of it begins or ends a part.

    Shapes:   (...) -> (..., count)
    Dtypes:   bytes
    Gradient: none.
    Raises:   SpecError for other dtypes; in the step DataError for an element of more parts.

    >>> with af.Graph():
    ...     af.strings.split(af.placeholder("bytes", (None,)), 3, b",")
    <Tensor bytes_split:0 (None, 3) bytes>
    """
    attrs: dict[str, Attr] = {
        "separator": attribute(separator),
        "count": count,
        "pad": attribute(pad),
    }
    return build_one("bytes_split", [x], attrs, name=name)


@op("bytes_slice", spec=of_bytes("bytes_slice"), gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def bytes_slice(
    x: Any, start: int | None = None, stop: int | None = None, *, name: str | None = None
) -> Tensor:
    """The bytes of each element from `start` up to `stop`, as Python slices; no gradient.

    Negative places count from the end, and what an element does not have is left out.
    """
    ends = {"start": start, "stop": stop}
    attrs: dict[str, Attr] = {k: None if end is None else end.__index__() for k, end in ends.items()}
    return build_one("bytes_slice", [x], attrs, name=name)


@op("bytes_strip", spec=of_bytes("bytes_strip"), gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def bytes_strip(x: Any, characters: bytes | None = None, *, name: str | None = None) -> Tensor:
    """Each element without the bytes in `characters` at its ends, by default white space; no gradient."""
    held = None if characters is None else attribute(characters)
    return build_one("bytes_strip", [x], {"characters": held}, name=name)


@op("bytes_lower", spec=of_bytes("bytes_lower"), gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def bytes_lower(x: Any, *, name: str | None = None) -> Tensor:
    """Each element with the ASCII letters A to Z as a to z; no gradient."""
    return build_one("bytes_lower", [x], name=name)


@op("bytes_upper", spec=of_bytes("bytes_upper"), gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def bytes_upper(x: Any, *, name: str | None = None) -> Tensor:
    """Each element with the ASCII letters a to z as A to Z; no gradient."""
    return build_one("bytes_upper", [x], name=name)


def _pattern(op_name: str, inputs: Sequence[Spec], attrs: Mapping[str, Attr], result: str) -> Sequence[Spec]:
    try:
        # Compiled to learn whether it can be; the kernel does it again from the attribute.
        found = re.compile(attrs["pattern"].encode("latin-1"))
        if "replacement" in attrs:
            # A replacement may name a group that is not there.
            found.sub(attrs["replacement"].encode("latin-1"), b"")
    except (re.error, IndexError) as error:
        message = f"{op_name} takes a regular expression, got {attrs['pattern']!r:.60}: {error}"
        raise SpecError(message) from None
    return of_bytes(op_name, result)(inputs, attrs)


def _replace_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return _pattern("regex_replace", inputs, attrs, "bytes")


def _match_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    return _pattern("regex_match", inputs, attrs, "bool")


@op("regex_replace", spec=_replace_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def regex_replace(
    x: Any, pattern: bytes, replacement: bytes, count: int = 0, *, name: str | None = None
) -> Tensor:
    r"""Each element with what `pattern` matches replaced; the first `count` of them, all when it is 0.

    Shapes:   any, kept
    Dtypes:   bytes; pattern and replacement as Python's `re` has them for bytes, `\1` for a group
    Gradient: none.
    Raises:   SpecError for other dtypes, and for what is no regular expression.
    """
    attrs: dict[str, Attr] = {
        "pattern": attribute(pattern),
        "replacement": attribute(replacement),
        "count": count,
    }
    return build_one("regex_replace", [x], attrs, name=name)


@op("regex_match", spec=_match_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def regex_match(x: Any, pattern: bytes, whole: bool = True, *, name: str | None = None) -> Tensor:
    """Whether `pattern` matches each element as a whole, or without `whole` somewhere in it.

    Shapes:   any, kept
    Dtypes:   bytes -> bool; the pattern as Python's `re` has it for bytes
    Gradient: none.
    Raises:   SpecError for other dtypes, and for what is no regular expression.
    """
    attrs: dict[str, Attr] = {"pattern": attribute(pattern), "whole": whole}
    return build_one("regex_match", [x], attrs, name=name)


def _hash_spec(inputs: Sequence[Spec], attrs: Mapping[str, Attr]) -> Sequence[Spec]:
    if not 1 <= attrs["buckets"] < 2**63:
        message = f"hash_bucket takes at least one bucket and less than 2**63, got {attrs['buckets']}"
        raise SpecError(message)
    if not 0 <= attrs["seed"] < 2**64:
        message = f"the seed of hash_bucket is in [0, 2**64), got {attrs['seed']}"
        raise SpecError(message)
    return of_bytes("hash_bucket", "int64")(inputs, attrs)


@op("hash_bucket", spec=_hash_spec, gradient=NOT_DIFFERENTIABLE, takes_bytes=True)
@api_function
def hash_bucket(x: Any, buckets: Whole, seed: Whole = 0, *, name: str | None = None) -> Tensor:
    """A number in [0, buckets) for each element, the same in every process, platform and release.

    It is BLAKE2b (RFC 7693) of 8 bytes, whose salt is the seed as 8 bytes, read as a number with the
    lowest byte first, modulo `buckets`. Equal elements share a bucket; others may.

    Shapes:   any, kept
    Dtypes:   bytes -> int64
    Gradient: none.
    Raises:   SpecError for other dtypes, for no bucket, and for a seed that is no uint64.
    """
    attrs: dict[str, Attr] = {"buckets": buckets, "seed": seed}
    return build_one("hash_bucket", [x], attrs, name=name)

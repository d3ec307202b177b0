"""Samples of the ops that take or make bytes."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from hypothesis import strategies as st

from actorflow.values.arrays import BYTES, NAMES
from tests.ops.messages import example
from tests.ops.samples import Case, broadcast_shapes, sample, shapes, values

ONE = ("float64",)  # of bytes there is one dtype

elements = st.binary(max_size=6) | st.sampled_from([b"", b"ab\0", b" Mixed Case ", b"a,b;c", "é".encode()])


def of(made: list[bytes], shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(shape, BYTES)
    array.reshape(-1)[:] = made
    return array


def drawn(draw: st.DrawFn, element: st.SearchStrategy[bytes], shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    return of(draw(st.lists(element, min_size=size, max_size=size)), shape)


@st.composite
def cases(draw: st.DrawFn, element: st.SearchStrategy[bytes] = elements, attrs: Any = None) -> Case:
    x = drawn(draw, element, draw(shapes(empty=True)))
    return Case((x,), draw(st.fixed_dictionaries(attrs or {})))


def one(op: str, element: st.SearchStrategy[bytes] = elements, **attrs: st.SearchStrategy[Any]) -> None:
    sample(op, dtypes=ONE)(lambda: cases(element, attrs))


for _op in ("bytes_length", "bytes_lower", "bytes_upper"):
    one(_op)
one("bytes_slice", start=st.none() | st.integers(-3, 3), stop=st.none() | st.integers(-3, 3))
one("bytes_strip", characters=st.none() | st.sampled_from(["", " ", "ab\0"]))
one(
    "bytes_split",
    count=st.integers(7, 9),
    separator=st.sampled_from(["", ",", "ab"]),
    pad=st.sampled_from(["", "-"]),
)
one(
    "regex_replace",
    pattern=st.just("([a-c])"),
    replacement=st.sampled_from(["", "<\\1>"]),
    count=st.integers(0, 2),
)
one("regex_match", pattern=st.sampled_from(["[a-z]*", "\\s", ""]), whole=st.booleans())
one("hash_bucket", buckets=st.integers(1, 9), seed=st.integers(0, 2**64 - 1))
one("encode_base64", url=st.booleans())
one("decode_base64", elements.map(base64.b64encode), url=st.just(False))
one(
    "decode_utf8",
    st.text(max_size=3).map(str.encode),
    length=st.just(3),
    pad=st.integers(-1, 1),
    cut=st.booleans(),
)
one(
    "to_number",
    st.integers(0, 100).map(lambda n: b" %d " % n),
    dtype=st.sampled_from([n for n in NAMES if n[0] in "iufb" and n != "bool"]),
)
one(
    "parse_csv",
    st.sampled_from([b'1,,"a ""b"""', b"2,3.5,c\r\n", b'-7,0,"x\ny,z"']),
    dtypes=st.just(("int32", "float64", "bytes")),
    defaults=st.just((None, "0.5", "")),
    delimiter=st.just(","),
)
one(
    "parse_example",
    st.builds(lambda n, v: example({"n": [n], "v": v, "s": [b"x"]}), st.integers(-9, 9), st.lists(st.floats(width=32), min_size=2, max_size=2)),
    names=st.just(("n", "v", "s", "none")),
    dtypes=st.just(("int64", "float32", "bytes", "int64")),
    shapes=st.just(((), (2, 1), (), (2,))),
    defaults=st.just((None, None, None, (1, 2))),
)  # fmt: skip


@sample("bytes_join", dtypes=ONE)
@st.composite
def bytes_join(draw: st.DrawFn) -> Case:
    given = broadcast_shapes(draw, draw(st.integers(1, 3)))
    return Case(
        tuple(drawn(draw, elements, s) for s in given), {"separator": draw(st.sampled_from(["", ", "]))}
    )


@sample("decode_raw", dtypes=ONE)
@st.composite
def decode_raw(draw: st.DrawFn) -> Case:
    dtype = draw(st.sampled_from(["bool", "uint8", "int16", "bfloat16", "float32", "complex128"]))
    length, known = draw(st.integers(0, 2)), draw(st.booleans())
    size = length * {"bool": 1, "uint8": 1, "int16": 2, "bfloat16": 2, "float32": 4, "complex128": 16}[dtype]
    x = drawn(draw, st.binary(min_size=size, max_size=size), draw(shapes(empty=True)))
    attrs = {"dtype": dtype, "length": length if known else None, "little_endian": draw(st.booleans())}
    return Case((x,), attrs, late=not known)


@sample("encode_raw", dtypes=NAMES)
@st.composite
def encode_raw(draw: st.DrawFn) -> Case:
    return Case((values(draw, draw(shapes(1, empty=True))),), {"little_endian": draw(st.booleans())})


@sample("as_bytes", dtypes=NAMES)
@st.composite
def as_bytes(draw: st.DrawFn) -> Case:
    return Case((values(draw, draw(shapes(empty=True))),), {"digits": None})

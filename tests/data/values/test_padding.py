"""What padded batches are filled with: what the arrays can hold, for every part of the element, or an error."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.data.values.collate import UnevenElements
from actorflow.data.values.padding import pad_batch
from actorflow.errors import ConfigError, InputError


def two(dtype: Any) -> list[np.ndarray]:
    """Arrays of one and of two elements."""
    return [np.ones(1, dtype), np.ones(2, dtype)]


@pytest.mark.parametrize(
    ("dtype", "padding", "filled"),
    [
        ("int32", -1, -1), ("float32", -1, -1.0), ("float32", 0.1, np.float32(0.1)), ("complex64", 1j, 1j),
        ("float64", float("nan"), np.nan), ("float32", float("-inf"), -np.inf), ("uint8", np.int64(255), 255),
        ("bool", True, True), ("bool", 0, False), ("float16", np.array(2.0), 2.0), ("complex64", 0, 0),
        ("datetime64[s]", 0, np.datetime64(0, "s")), ("<U3", "x", "x"), ("<U3", 0, ""),
    ],
)  # fmt: skip
def test_what_an_array_can_hold_fills_it(dtype: str, padding: Any, filled: Any) -> None:
    out = pad_batch(two(dtype), padding)

    assert out.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(out[0, 1], np.asarray(filled, dtype))


@pytest.mark.parametrize(
    ("dtype", "padding", "told"),
    [
        ("int32", float("nan"), "float64 values do not fit int32"),
        ("int32", 1.9, "float64 values do not fit int32"),
        ("int8", 300, "300"), ("uint8", -1, "-1"), ("bool", 2, "do not fit bool"),
        ("float32", 1j, "complex128 values do not fit float32"),
        ("float32", 1e300, "too large for float32"), ("float16", 1e5, "too large for float16"),
        ("int32", "x", "elements must be numbers, got str 'x'"), ("float32", b"x", "elements must be numbers"),
        ("datetime64[s]", "noon", "noon"),
    ],
)  # fmt: skip
def test_what_an_array_cannot_hold_is_refused_even_where_nothing_is_filled(
    dtype: str, padding: Any, told: str
) -> None:
    for values in (two(dtype), two(dtype)[:1]):
        with pytest.raises(UnevenElements, match=f"needs a padding that .* can hold, got .*{told}"):
            pad_batch(values, padding)


def test_bytes_are_filled_with_bytes() -> None:
    texts = [np.array([b"a"], object), np.array([b"b", b"c"], object)]

    assert pad_batch(texts, b"?").tolist() == [[b"a", b"?"], [b"b", b"c"]]
    assert pad_batch(texts, 0).tolist() == [[b"a", b""], [b"b", b"c"]]
    with pytest.raises(UnevenElements, match="needs a padding that bytes can hold, got 'x': .*encode it"):
        pad_batch(texts, "x")


ELEMENTS = [{"x": part, "y": (part, 7)} for part in two("float32")]


@pytest.mark.parametrize(
    ("padding", "told"),
    [
        ({"x": 1}, "for every array of the element, got one without 'y'"),
        ({"x": 1, "y": 2, "z": 3}, "for every array of the element, got one with the unknown 'z'"),
        ({"x": 1, "Y": 2}, "got one without 'y' and with the unknown 'Y'"),
        ({"x": 1, "y": (1,)}, r"of the element's structure, got a tuple of 1 for a tuple of 2 at \['y'\]"),
        ({"x": (1, 2), "y": 1}, r"structure, got a tuple of 2 for \(1,\) float32 at \['x'\]"),
        ({"x": 1, "y": (1, {"z": 1})}, r"structure, got a dict of 'z' for int at \['y'\]\[1\]"),
        ((1, 2), "structure, got a tuple of 2 for a dict of 'x', 'y'"),
        (
            {"x": 1j, "y": 1},
            r"that float32 can hold at \['x'\], got 1j: complex128 values do not fit float32",
        ),
    ],
)
def test_a_padding_of_another_structure_is_refused(padding: Any, told: str) -> None:
    with pytest.raises(UnevenElements, match=told):
        pad_batch(ELEMENTS, padding)


def test_a_part_that_is_never_padded_needs_no_padding() -> None:
    elements = [{"x": part, "label": 3, "text": "a"} for part in two("float32")]

    assert pad_batch(elements, {"x": -1})["x"].tolist() == [[1, -1], [1, 1]]


def test_none_in_a_structure_stands_for_zeros() -> None:
    out = pad_batch(ELEMENTS, {"x": None, "y": (5, None)})

    assert out["x"].tolist() == [[1, 0], [1, 1]]
    assert out["y"][0].tolist() == [[1, 5], [1, 1]]


@pytest.mark.parametrize("padding", [None, object(), {"x": [object()]}, {1, 2}, np.zeros(2), print])
def test_what_is_no_padding_is_refused_before_anything_runs(padding: Any) -> None:
    elements = af.data.numbers(3)

    for build in (
        lambda: elements.padded_batch(2, padding=padding),
        lambda: elements.bucket(abs, [2], [2, 2], padding=padding),
    ):
        with pytest.raises(ConfigError, match="takes padding as one number .*, got .*\n.*test_padding.py:"):
            build()


@pytest.mark.parametrize("stage", ["padded_batch", "bucket"])
def test_the_first_batch_says_so_at_the_line_of_the_user(stage: str) -> None:
    def sized(n: int) -> np.ndarray:
        return np.ones(n + 1, int)

    async def main() -> None:
        arrays = af.data.numbers(4).map(sized)
        if stage == "bucket":
            pipeline = arrays.bucket(len, [9], [2, 2], padding=1.5)
        else:
            pipeline = arrays.padded_batch(2, padding=1.5)
        async for _ in pipeline:
            raise AssertionError

    with pytest.raises(InputError) as caught:
        asyncio.run(main())

    assert (
        "failed at element 0 of epoch 0: UnevenElements: needs a padding that int64 can hold, got 1.5"
        in str(caught.value)
    )
    assert "where: defined at tests/data/values/test_padding.py:" in str(caught.value)

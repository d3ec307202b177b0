"""Resizing: what the graph knows of it, what it refuses, and its values against formulas in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from actorflow.ops.nn.resize import resize_grad
from tests.ops.samples_resize import resizing
from tests.ops.test_conformance import FEW
from tests.support.placeholders import f32
from tests.support.reference import evaluate

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: af.resize(f32(1, 8, 8, 3)), "resize takes a size, a scale or both, got none"),
    (lambda: af.resize(f32(1, 8, 8, 3), (4, 4, 4)), "size must be an integer that is not negative or one for each of the 2 spatial axes, got (4, 4, 4)"),
    (lambda: af.resize(f32(1, 8, 8, 3), -1), "an integer that is not negative or one for each of the 2 spatial axes, got -1"),
    (lambda: af.resize(f32(1, 8, 8, 3), scale=(2.0,)), "scale must be a positive number or one for each of the 2 spatial axes, got (2.0,)"),
    (lambda: af.resize(f32(1, 8, 8, 3), scale=0.0), "got 0.0"),
    (lambda: af.resize(f32(1, 8, 8, 3), scale=float("inf")), "got inf"),
    (lambda: af.resize(f32(1, 8, 8, 3), 4, "bilinear"), "resize knows the method nearest, linear, cubic, got 'bilinear'"),
    (lambda: af.resize(f32(1, 8, 8, 3), 4, coordinates="corners"), "resize knows the coordinates half_pixel, pytorch_half_pixel"),
    (lambda: af.resize(f32(1, 8, 8, 3), 4, rounding="half"), "resize knows the rounding prefer_ceil, prefer_floor, floor, ceil, got 'half'"),
    (lambda: af.resize(f32(1, 8, 8, 3), 4, "nearest", antialias=True), "antialias widens weights, and nearest has none"),
    (lambda: af.resize(af.placeholder("int32", (1, 8, 3)), 4), "resize takes floating numbers, got (1, 8, 3) int32"),
    (lambda: af.resize(f32(1, 0, 3), 4), "resize has no element to take along an empty axis, got (1, 0, 3)"),
    (lambda: af.resize(af.placeholder("float32", None), 4), "of an unknown rank the size must say"),
    (lambda: af.resize(f32(1, 8, 8, 3), af.constant([4, 4, 4])), "resize takes a number for each spatial axis, got (3,) int32 for (1, 8, 8, 3)"),
    (lambda: af.resize(f32(1, 8, 8, 3), af.constant(4)), "a vector, a number for each spatial axis, got () int32"),
    (lambda: af.resize(f32(1, 8, 8, 3), af.constant([4.0, 4.0]), scale=af.constant([2.0, 2.0])), "a computed size is a vector of integers and a scale one of floating numbers"),
    (lambda: resize_grad(f32(1, 5, 3), f32(1, 8, 3), 4), "shapes must agree, got (1, 5, 3) and (1, 4, 3)"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "text"), REFUSED)
def test_what_cannot_be_resized_is_refused_at_the_users_line(build: Callable[[], Any], text: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build()

    assert text in str(caught.value)
    assert caught.value.where is not None
    assert "test_resize.py:" in (caught.value.where.defined_at or "")


def test_a_scale_of_unknown_sizes_leaves_them_unknown() -> None:
    with Graph():
        x = f32(None, 5, None, 3)

        assert af.resize(x, scale=(0.5, 2)).shape == (None, 2, None, 3)
        assert af.resize(x, (7, 9)).shape == (None, 7, 9, 3)
        assert af.resize(af.placeholder("bool", (1, 2, 1)), 0, "nearest").shape == (1, 0, 1)


def test_a_computed_size_leaves_sizes_unknown_and_gives_the_values_of_a_known_one() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 2)).astype("float32")
    with Graph() as graph:
        images = f32(None, None, None, 2)
        computed = af.resize(images, af.cast(af.shape(images), "int64")[1:3] * 2)
        scaled = af.resize(images, scale=af.constant(np.array([2, 2], "float32")))
        known = af.resize(images, (6, 10))

    assert computed.shape == scaled.shape == (None, None, None, 2)
    found = evaluate(graph, [computed, scaled, known], {images: x})
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[2])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (np.array([4], "int64"), "resize takes a size for each spatial axis of (1, 3, 3, 1), got (4,)"),
        (np.array([4, -1], "int64"), "a size must be not negative, got (4, -1) for images (1, 3, 3, 1)"),
        (np.array([1, 0], "float32"), "a scale must be positive, got (1.0, 0.0) for images (1, 3, 3, 1)"),
    ],
)
def test_a_computed_size_that_none_can_have_is_refused_in_the_step(given: np.ndarray, text: str) -> None:
    with Graph() as graph:
        images, numbers = f32(1, 3, 3, 1), af.placeholder(str(given.dtype), (None,))
        y = af.resize(images, numbers)

    with pytest.raises(SpecError) as caught:
        evaluate(graph, y, {numbers: given, images: np.ones((1, 3, 3, 1), "float32")})

    assert text in str(caught.value)


def resized(line: np.ndarray, size: int | None = None, method: str = "linear", **how: Any) -> np.ndarray:
    """One axis resized, as a line of floats."""
    with Graph() as graph:
        x = af.constant(np.asarray(line, "float64").reshape(1, -1, 1))
        y = af.resize(x, None if size is None else (size,), method, **how)
    made: np.ndarray = evaluate(graph, y)
    return made.ravel()


SIZES = st.integers(1, 9)


@FEW
@given(n=SIZES, m=SIZES)
def test_linear_interpolates_between_the_elements(n: int, m: int) -> None:
    line, places = np.random.default_rng(n).standard_normal(n), np.arange(n)
    i = np.arange(m)

    for coordinates, at in (
        ("half_pixel", (i + 0.5) * n / m - 0.5),
        ("align_corners", np.linspace(0, n - 1, m)),
        ("asymmetric", i * n / m),
        ("pytorch_half_pixel", (i + 0.5) * n / m - 0.5 if m > 1 else [0]),
    ):
        made = resized(line, m, coordinates=coordinates)
        np.testing.assert_allclose(made, np.interp(at, places, line), rtol=1e-12, atol=1e-12)


@FEW
@given(n=SIZES, m=SIZES)
def test_nearest_takes_what_it_rounds_to(n: int, m: int) -> None:
    """In whole numbers: half a pixel from the middle of element j to the end of the one before it."""
    line = np.arange(n)

    half_pixel = [(2 * i + 1) * n // (2 * m) for i in range(m)]  # floor(c + 1/2)
    floors = [i * n // m for i in range(m)]
    assert resized(line, m, "nearest").tolist() == half_pixel
    assert resized(line, m, "nearest", coordinates="asymmetric", rounding="floor").tolist() == floors
    down = [max(-(-((2 * i + 1) * n - 2 * m) // (2 * m)), 0) for i in range(m)]  # ceil(c - 1/2)
    assert resized(line, m, "nearest", rounding="prefer_floor").tolist() == down
    up = [min(-(-i * n // m), n - 1) for i in range(m)]
    assert resized(line, m, "nearest", coordinates="asymmetric", rounding="ceil").tolist() == up


@FEW
@given(n=st.integers(6, 12), m=st.integers(1, 20))
def test_cubic_of_one_half_follows_a_parabola_inside(n: int, m: int) -> None:
    """Keys: with the coefficient -1/2 the interpolation is of the third order."""
    places = np.arange(n)
    at = (np.arange(m) + 0.5) * n / m - 0.5
    inside = (at >= 1) & (at <= n - 2)

    made = resized(2 + 3 * places - places**2, m, "cubic", cubic=-0.5)

    np.testing.assert_allclose(made[inside], (2 + 3 * at - at**2)[inside], rtol=1e-10, atol=1e-10)


@FEW
@given(data=st.data())
def test_a_constant_image_stays_constant(data: st.DataObject) -> None:
    """The weights of every element add up to 1."""
    shape, attrs, _ = data.draw(st.composite(resizing)())
    with Graph() as graph:
        y = af.resize(af.constant(np.full(shape, 0.75)), **attrs)

    np.testing.assert_allclose(evaluate(graph, y), 0.75, rtol=1e-13)


def test_antialias_weighs_all_elements_where_the_axis_shrinks() -> None:
    impulses = np.eye(8)

    made = np.array([resized(line, 4, antialias=True) for line in impulses]).T

    np.testing.assert_allclose(made[1], [0, 1 / 8, 3 / 8, 3 / 8, 1 / 8, 0, 0, 0], rtol=1e-14)
    np.testing.assert_allclose(made[0], [3 / 7, 3 / 7, 1 / 7, 0, 0, 0, 0, 0], rtol=1e-14)
    grown = np.random.default_rng(0).standard_normal(3)
    np.testing.assert_allclose(resized(grown, 7, antialias=True), resized(grown, 7), rtol=1e-13)


def test_axes_are_resized_on_their_own() -> None:
    array = np.random.default_rng(0).standard_normal((2, 3, 4, 2, 3))
    rows, columns, depth = (
        np.array([resized(line, m) for line in np.eye(n)]).T for n, m in ((3, 5), (4, 2), (2, 3))
    )
    with Graph() as graph:
        y = af.resize(af.constant(array), (5, 2, 3))

    want = np.einsum("ai,bj,ck,nijkd->nabcd", rows, columns, depth, array)
    np.testing.assert_allclose(evaluate(graph, y), want, rtol=1e-13, atol=1e-14)


def test_an_infinity_reaches_only_what_it_has_a_weight_in() -> None:
    made = resized(np.array([1, 2, np.inf, 4, 5]), 9, coordinates="align_corners")

    np.testing.assert_array_equal(made, [1, 1.5, 2, np.inf, np.inf, np.inf, 4, 4.5, 5])


LINE = [0, 1, 4, 9, 5]
NEAREST = {"method": "nearest", "coordinates": "asymmetric", "rounding": "floor"}
# Recorded from torch 2.13: interpolate(LINE, size, mode).
TORCH = [
    (3, NEAREST, [0, 1, 9]),
    (8, NEAREST, [0, 0, 1, 1, 4, 9, 9, 5]),
    (8, {"method": "nearest"}, [0, 0, 1, 4, 4, 9, 5, 5]),
    (3, {"method": "cubic"}, [0.14814814814814725, 4.0, 6.537037037037036]),
    (4, {"method": "cubic", "coordinates": "align_corners"}, [0.0, 1.7777777777777795, 8.037037037037036, 5.0]),
    (3, {"antialias": True}, [3 / 7, 40 / 9, 47 / 7]),
    (3, {"method": "cubic", "antialias": True, "cubic": -0.5}, [0.16923076923077027, 4.604651162790699, 6.907692307692308]),
]  # fmt: skip


@pytest.mark.parametrize(("size", "how", "want"), TORCH)
def test_values_are_those_of_torch(size: int, how: dict[str, Any], want: list[float]) -> None:
    np.testing.assert_allclose(resized(np.array(LINE), size, **how), want, rtol=1e-12, atol=1e-12)


# From the node tests of ONNX, of arange(1, 9) as 2 x 4 pixels or arange(1, 17) as 4 x 4; the first row.
ONNX = [
    ((2, 4), {"scale": 0.6}, [2.6666665, 4.3333331]),
    ((2, 4), {"scale": 0.6, "coordinates": "align_corners"}, [1.0, 3.142857]),
    ((4, 4), {"scale": 2.0, "method": "cubic"}, [0.47265625, 0.76953125, 1.24609375, 1.875, 2.28125]),
    ((4, 4), {"scale": 0.6, "antialias": True, "exclude_outside": False}, [2.875, 4.5]),
    (
        (4, 4),
        {"scale": 0.6, "method": "cubic", "antialias": True, "exclude_outside": False},
        [2.5180721, 4.2858863],
    ),
    ((4, 4), {"size": 8, "method": "nearest", "rounding": "ceil"}, [1, 2, 2, 3, 3, 4, 4, 4]),
    (
        (2, 2),
        {"scale": (2.3, 2.94), "coordinates": "half_pixel_symmetric"},
        [1.0, 1.15986395, 1.5, 1.84013605, 2.0],
    ),
]


@pytest.mark.parametrize(("shape", "how", "want"), ONNX)
def test_values_are_those_of_onnx(shape: tuple[int, int], how: dict[str, Any], want: list[float]) -> None:
    with Graph() as graph:
        y = af.resize(af.constant(np.arange(1.0, np.prod(shape) + 1).reshape(1, *shape, 1)), **how)

    np.testing.assert_allclose(evaluate(graph, y)[0, 0, : len(want), 0], want, rtol=1e-6)


def test_of_both_the_size_counts_and_the_scale_places() -> None:
    made = resized(np.arange(6.0), 3, scale=0.75)

    np.testing.assert_allclose(made, [0.5 / 0.75 - 0.5, 1.5 / 0.75 - 0.5, 2.5 / 0.75 - 0.5], rtol=1e-14)


@pytest.mark.parametrize("method", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("exclude", [True, False])
def test_beyond_the_ends_are_the_elements_at_the_ends(method: str, exclude: bool) -> None:
    made = resized(np.array([3.0, 5.0]), 9, method, scale=0.5, exclude_outside=exclude)

    np.testing.assert_allclose(made[2:], 5, rtol=1e-14)


def test_half_pixel_symmetric_puts_the_middles_together() -> None:
    """7 elements by 3/4 are 5 of 5.25: the third lies in the middle, the others 4/3 apart."""
    made = resized(np.arange(7.0), scale=0.75, coordinates="half_pixel_symmetric")

    np.testing.assert_allclose(made, [1 / 3, 5 / 3, 3, 13 / 3, 17 / 3], rtol=1e-13)

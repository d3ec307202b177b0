"""Normalisation against float64: in lanes, in parts, over rows; forward and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow.ops  # noqa: F401  fills the table
from actorflow.errors import SpecError
from actorflow.kernels.nn import normalise as portable
from actorflow.kernels.nn import normalise_numpy as lanes
from tests.support.arrays import drawn
from tests.support.reference import call

# In many parts of lanes, with an odd number of rows, one lane as wide as a row, over rows, in parts too.
CASES: list[tuple[tuple[int, ...], tuple[int, ...] | None]] = [
    ((32, 16, 16, 64), (0, 1, 2)),
    ((101, 7, 3), (0, 1)),
    ((70, 4096), (0,)),
    ((5, 8, 48), (2,)),
    ((3, 6, 6, 8), (1, 2)),
    ((9, 300, 64), (2,)),
    ((9, 40, 40, 8), (1, 2)),
    ((3, 6, 6, 8), None),
    ((3, 6, 6, 2, 4), (1, 2, 4)),
]


def told(x: Any, scale: Any, offset: Any, axis: Any, centre: bool) -> tuple[Any, Any, Any]:
    wide = x.astype(np.float64)
    mean = wide.mean(axis, keepdims=True) if centre else 0
    variance = ((wide - mean) ** 2).mean(axis, keepdims=True)
    return (wide - mean) / np.sqrt(variance + 1e-5) * scale + offset, mean, variance


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_values_and_statistics_are_those_of_float64(
    shape: tuple[int, ...], axis: tuple[int, ...] | None, centre: bool
) -> None:
    x = drawn(*shape) * 3 + 2
    lane = (shape[-1],) if axis is not None else ()
    scale, offset = drawn(2, *lane)

    y, mean, variance = call(
        "normalise", [x, scale, offset], {"axis": axis, "epsilon": 1e-5, "centre": centre}
    )

    wanted, middle, spread = told(x, scale, offset, axis, centre)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(mean, middle + 0 * spread, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, spread, rtol=1e-5)
    assert y.dtype == mean.dtype == variance.dtype == np.float32


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_gradients_are_those_of_the_plain_formula_in_float64(
    shape: tuple[int, ...], axis: tuple[int, ...] | None, centre: bool
) -> None:
    x, dy = drawn(2, *shape)
    lane = (shape[-1],) if axis is not None else ()
    scale, offset = drawn(2, *lane)
    attrs: dict[str, Any] = {"axis": axis, "epsilon": 1e-5, "centre": centre}
    _, mean, variance = call("normalise", [x], attrs)

    made = call("normalise_grad", [dy, x, mean, variance, scale, offset], attrs)

    wide = [a.astype(np.float64) for a in (dy, x, mean, variance, scale, offset)]
    wanted: Any = portable.normalise_grad(*wide, **attrs)
    for m, w in zip(made, wanted, strict=True):
        assert m.dtype == np.float32
        np.testing.assert_allclose(m, w, rtol=1e-4, atol=1e-5 * np.abs(w).max())


@pytest.mark.parametrize("shape", [(64, 16, 16, 8), (4000, 33), (7, 4096)])
def test_a_large_mean_does_not_cancel(shape: tuple[int, ...]) -> None:
    """Two sums, of x and of its squares, would leave nothing of a variance of 1 beside a mean of 1e4.

    An element of that size is itself rounded to 1e-3.
    """
    x = np.float32(1e4) + drawn(*shape)
    for axis in (tuple(range(len(shape) - 1)), (len(shape) - 1,)):
        y, mean, variance = call("normalise", [x], {"axis": axis, "epsilon": 1e-5, "centre": True})

        wanted, middle, spread = told(x, 1, 0, axis, True)
        np.testing.assert_allclose(y, wanted, atol=1e-5 if axis[0] == 0 else 5e-3)
        np.testing.assert_allclose(mean, middle, rtol=1e-6)
        np.testing.assert_allclose(variance, spread, rtol=1e-4)


def test_the_kernel_for_every_library_does_not_cancel_either() -> None:
    x = np.float32(1e4) + drawn(64, 16, 16, 8)

    y, _, variance = portable.normalise(x, axis=(0, 1, 2), epsilon=1e-5, centre=True)

    wanted, _, spread = told(x, 1, 0, (0, 1, 2), True)
    np.testing.assert_allclose(y, wanted, atol=1e-4)
    np.testing.assert_allclose(variance, spread, rtol=1e-4)


def test_squares_of_halves_do_not_overflow() -> None:
    x = np.array([[-600, 600, 300, 900]], np.float16)

    y, _, variance = call("normalise", [x], {"axis": (1,), "epsilon": 1e-5, "centre": True})

    assert y.dtype == np.float16
    assert variance.dtype == np.float32
    np.testing.assert_allclose(variance, [[315000]])
    np.testing.assert_allclose(y, told(x, 1, 0, 1, True)[0], rtol=1e-3)


def test_a_row_of_lanes_holds_whole_sets_of_channels() -> None:
    x = np.zeros((24, 5), np.float32)

    found = lanes.NumpyNormalise(x, (5,))

    assert (found.times, found.width, found.count) == (8, 40, 24)
    assert found.parts == [slice(0, 3)]
    assert lanes.NumpyNormalise(np.zeros((25, 5), np.float32), (5,)).times == 1


def test_inputs_stay_as_they_are() -> None:
    x = drawn(6, 4)
    before = x.copy()

    call("normalise", [x, x[0], x[1]], {"axis": (1,), "epsilon": 1e-5, "centre": False})
    call("normalise", [x, x[0], x[1]], {"axis": (0,), "epsilon": 1e-5, "centre": True})

    np.testing.assert_array_equal(x, before)


def test_statistics_of_no_elements_are_nan() -> None:
    attrs = {"axis": (0,), "epsilon": 1e-5, "centre": True}

    y, mean, variance = call("normalise", [np.zeros((0, 3))], attrs)

    assert y.shape == (0, 3)
    np.testing.assert_array_equal([mean, variance], np.full((2, 1, 3), np.nan))


@pytest.mark.parametrize("library", [lanes, portable])
@pytest.mark.parametrize(("scale", "offset", "which"), [((4,), (), "scale"), ((), (2, 1, 1), "offset")])
def test_a_scale_that_turns_out_larger_than_x_is_refused(
    library: Any, scale: tuple[int, ...], offset: tuple[int, ...], which: str
) -> None:
    x, attrs = np.ones((2, 1)), {"axis": (1,), "epsilon": 1e-5, "centre": True}

    with pytest.raises(
        SpecError, match=rf"the {which} of a normalisation must broadcast to x, got .* for x \(2, 1\)"
    ):
        library.normalise(x, np.ones(scale), np.ones(offset), **attrs)
    with pytest.raises(SpecError, match=f"the {which} of"):
        library.normalise_grad(x, x, x, x, np.ones(scale), np.ones(offset), **attrs)


def test_scales_of_each_row_are_cut_into_parts_with_x() -> None:
    x, dy, scale, offset = drawn(4, 9, 300, 64).astype(np.float64)
    scale, offset = scale[:, :1], offset[:, :, :1]
    attrs: dict[str, Any] = {"axis": (2,), "epsilon": 1e-5, "centre": True}
    assert len(lanes._parts(x, (2,))) > 2

    made = call("normalise", [x, scale, offset], attrs)
    grads = call("normalise_grad", [dy, x, *made[1:], scale, offset], attrs)

    for m, t in zip(made, portable.normalise(x, scale, offset, **attrs), strict=True):
        np.testing.assert_allclose(m, t, rtol=1e-10, atol=1e-12)
    for m, t in zip(grads, portable.normalise_grad(dy, x, *made[1:], scale, offset, **attrs), strict=True):
        np.testing.assert_allclose(m, t, rtol=1e-10, atol=1e-12)

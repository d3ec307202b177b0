"""Pooling: what the graph knows of it, what it refuses, and the verbs that are made of other ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import GradientError, SpecError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.ops.nn.max_pool import max_pool_grad
from tests.ops.samples import values
from tests.ops.samples_pool import adapting, pooling
from tests.ops.test_conformance import FEW, check_gradient, weighted
from tests.support.placeholders import f32
from tests.support.reference import evaluate

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: af.max_pool(f32(1, 8, 3), (2, 2)), "size must be a positive integer or one for each of the 1 spatial axes, got (2, 2)"),
    (lambda: af.max_pool(f32(8, 3)), "images have a first axis, spatial axes and channels, got (8, 3) float32"),
    (lambda: af.max_pool(af.placeholder("float32", None), 2), "of an unknown rank the size must say how many spatial axes there are, got 2"),
    (lambda: af.max_pool(f32(1, 8, 8, 3), 0), "size must be a positive integer or one for each of the 2 spatial axes, got 0"),
    (lambda: af.max_pool(f32(1, 8, 8, 3), 2, (1, 0)), "strides must be a positive integer or one for each of the 2 spatial axes, got (1, 0)"),
    (lambda: af.max_pool(f32(1, 8, 8, 3), 2, dilations=(1,)), "dilations must be a positive integer"),
    (lambda: af.max_pool(f32(1, 8, 8, 3), 2, padding="same"), '"VALID", a margin, or (before, after) for each of the 2 spatial axes, got \'same\''),
    (lambda: af.max_pool(f32(1, 8, 8, 3), 2, padding=-1), "got -1"),
    (lambda: af.max_pool(f32(1, 8, 8, 3), 2, padding=((1, 1),)), "got ((1, 1),)"),
    (lambda: af.max_pool(f32(1, 8, 8, 3), 2, padding=(1, 1)), "got (1, 1)"),  # type: ignore[arg-type]
    (lambda: af.max_pool(f32(1, 8, 8, 3), 2, padding=2), "every window must have a place on its axis, got none for window 0 of 6"),
    (lambda: af.avg_pool(f32(1, 2, 8, 3), 3), "a window must fit into its axis, got a window of 3 on a size of 2"),
    (lambda: af.avg_pool(f32(1, 8, 8, 3), 3, dilations=4), "got a window of 3, 9 with a dilation of 4, on a size of 8"),
    (lambda: af.avg_pool(f32(1, 8, 8, 3), 2, divisor=0), "the divisor of avg_pool is an integer other than 0, or None, got 0"),
    (lambda: af.avg_pool(af.placeholder("int32", (1, 8, 3))), "avg_pool takes floating numbers, got (1, 8, 3) int32"),
    (lambda: af.max_pool_places(af.placeholder("bool", (1, 8, 3))), "max_pool_places takes integers or floating numbers, got (1, 8, 3) bool"),
    (lambda: max_pool_grad(f32(1, 8, 3), f32(1, 3, 3), 2), "shapes must agree, got (1, 3, 3) and (1, 4, 3)"),
    (lambda: af.lp_pool(f32(1, 8, 3), p=0), "a norm has a positive power, got p 0"),
    (lambda: af.adaptive_avg_pool(f32(1, 0, 3), 2), "an empty axis has no windows, got a size of 0 for 2 of them"),
    (lambda: af.adaptive_avg_pool(f32(1, 8, 3), 0), "size must be a positive integer or one for each of the 1 spatial axes, got 0"),
    (lambda: af.adaptive_max_pool(af.placeholder("bool", (1, 8, 3)), 2), "adaptive_max_pool takes integers or floating numbers"),
    (lambda: max_pool_grad(af.placeholder("int32", (1, 8, 3)), af.placeholder("int32", (1, 4, 3)), 2), "max_pool_grad takes floating numbers"),
    (lambda: af.max_pool(f32(1, 8, 8, 3), padding=True), "a margin, or (before, after) for each of the 2 spatial axes, got True"),
    (lambda: af.global_avg_pool(af.placeholder("float32", None)), "of an unknown rank"),
    (lambda: af.global_max_pool(af.placeholder("float32", None)), "of an unknown rank"),
    (lambda: af.global_max_pool(f32(1, 8)), "images have a first axis, spatial axes and channels, got (1, 8) float32"),
    (lambda: af.global_max_pool(f32(1, 8, 0, 3)), "an empty axis has no windows, got a size of 0 for 1 of them"),
    (lambda: af.global_max_pool(af.placeholder("bool", (1, 8, 3))), "global_max_pool takes integers or floating numbers"),
    (lambda: af.max_unpool(f32(1, 4, 3), af.placeholder("int64", (1, 3, 3)), (8,)), "shapes must agree, got (1, 4, 3) and (1, 3, 3)"),
    (lambda: af.max_unpool(f32(1, 4, 3), af.placeholder("int64", (1, 4, 3)), (8, 8)), "images have the four axes (n, height, width, channels), got (1, 4, 3)"),
    (lambda: af.max_unpool(f32(1, 4, 3), af.placeholder("int64", (1, 4, 3)), (0,)), "size must be a positive integer"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "text"), REFUSED)
def test_what_cannot_be_pooled_is_refused_at_the_users_line(build: Callable[[], Any], text: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build()

    assert text in str(caught.value)
    assert caught.value.where is not None
    assert "test_max_pool.py:" in (caught.value.where.defined_at or "")


def test_sizes_that_are_unknown_stay_unknown() -> None:
    with Graph():
        x = f32(None, 8, None, 3)
        unknown = af.placeholder("float32", None)

        assert af.max_pool(x, 3, 2, padding=1).shape == (None, 4, None, 3)
        assert af.avg_pool(x, 3, 2, padding=((0, 1), (1, 0)), ceil_mode=True).shape == (None, 4, None, 3)
        assert af.avg_pool(unknown, (2, 2, 2)).shape == (None, None, None, None, None)
        assert af.adaptive_max_pool(x, (2, 5)).shape == (None, 2, 5, 3)
        assert af.adaptive_avg_pool(unknown, (2,)).shape == (None, 2, None)
        assert af.global_max_pool(x, keepdims=True).shape == (None, 1, 1, 3)


def of_a_case(verb: Callable[..., Tensor], array: np.ndarray, **attrs: Any) -> tuple[Graph, Tensor, Tensor]:
    with Graph() as graph:
        x = af.placeholder("float64", (None, *array.shape[1:]), "x")
        return graph, x, verb(x, **attrs)


@FEW
@given(data=st.data())
def test_the_elements_at_the_places_are_the_maxima(data: st.DataObject) -> None:
    shape, attrs, pooled = data.draw(st.composite(pooling)())
    array = data.draw(st.composite(values)(shape))
    graph, x, y = of_a_case(af.max_pool, array, **attrs)
    with graph:
        places = af.max_pool_places(x, **attrs)

    maxima, at = evaluate(graph, [y, places], {x: array})

    flat = array.reshape(shape[0], int(np.prod(shape[1:-1])), shape[-1])
    taken = np.take_along_axis(flat, at.reshape(shape[0], int(np.prod(pooled[1:-1])), shape[-1]), 1)
    np.testing.assert_array_equal(taken.reshape(pooled), maxima)


@FEW
@given(data=st.data())
def test_adaptive_max_pool_has_the_gradient_of_differences(data: st.DataObject) -> None:
    shape, attrs = data.draw(st.composite(adapting)())
    array = data.draw(st.composite(values)(shape))
    graph, x, y = of_a_case(af.adaptive_max_pool, array, **attrs)
    with graph:
        loss = weighted([y], [(shape[0], *attrs["size"], shape[-1])], 1.0)

    check_gradient(graph, loss, [x], [array])


@pytest.mark.parametrize("known", ["both", "channels", "images", "neither"])
def test_unpooling_puts_maxima_back_where_they_were(known: str) -> None:
    array = np.random.default_rng(0).permutation(48).reshape(2, 4, 3, 2) * 0.1
    shape = {"both": (2, 4, 3, 2), "channels": (None, 4, 3, 2), "images": (2, 4, 3, None)}
    with Graph() as graph:
        x = af.placeholder("float64", shape.get(known, (None,) * 4), "x")
        pooled, places = (pool(x, (2, 3)) for pool in (af.max_pool, af.max_pool_places))
        back = af.max_unpool(pooled, places, (4, 3))
        loss = weighted([back], [(2, 4, 3, 2)], 1.0)

    y, made = evaluate(graph, [pooled, back], {x: array})

    want = np.where(np.isin(array, y), array, 0)
    np.testing.assert_array_equal(made, want)
    check_gradient(graph, loss, [x], [array])


def test_unpooling_keeps_the_last_of_equal_places() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (1, 3, 1), "x")
        y = af.max_unpool(x, np.array([2, 0, 2]).reshape(1, 3, 1), (4,))
        (grad,) = af.gradients(af.sum(y), [x])

    made, slope = evaluate(graph, [y, grad], {x: np.array([1.0, 2.0, 3.0]).reshape(1, 3, 1)})

    assert made.ravel().tolist() == [2, 0, 3, 0]
    assert slope.ravel().tolist() == [0, 1, 1]


@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_lp_pool_is_the_norm_of_each_window(p: float) -> None:
    array = np.random.default_rng(0).standard_normal((1, 6, 2))
    graph, x, y = of_a_case(af.lp_pool, array, size=2, p=p)

    made = evaluate(graph, y, {x: array})

    np.testing.assert_allclose(made, np.linalg.norm(array.reshape(1, 3, 2, 2), p, axis=2), rtol=1e-12)
    with graph:
        loss = weighted([y], [made.shape], 1.0)
    check_gradient(graph, loss, [x], [array])


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 3, 4, 2), (1, 2, 3, 2, 2)])
def test_global_pools_fold_all_pixels(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).standard_normal(shape)
    axes = tuple(range(1, len(shape) - 1))
    for verb, fold in ((af.global_avg_pool, np.mean), (af.global_max_pool, np.max)):
        for keepdims in (False, True):
            graph, x, y = of_a_case(verb, array, keepdims=keepdims)
            want = fold(array, axis=axes, keepdims=keepdims)
            np.testing.assert_allclose(evaluate(graph, y, {x: array}), want, rtol=1e-12)


WINDOWS = {"size": (3, 2), "strides": 2, "padding": 1, "ceil_mode": True}
# Recorded from torch 2.13, of arange(12) ** 2 % 11 as 4 x 3 pixels.
TORCH: list[tuple[Callable[..., Tensor], dict[str, Any], list[list[float]]]] = [
    (af.max_pool, WINDOWS, [[9, 5], [9, 9], [4, 1]]),
    (af.max_pool_places, WINDOWS, [[3, 4], [3, 8], [9, 10]]),
    (af.max_pool, {"size": 2, "strides": 1, "dilations": 2}, [[9], [9]]),
    (af.avg_pool, WINDOWS, [[4.5, 3.25], [16 / 3, 23 / 6], [4, 0.5]]),
    (af.avg_pool, {**WINDOWS, "count_include_pad": True}, [[1.5, 13 / 6], [8 / 3, 23 / 6], [1, 0.25]]),
    (af.avg_pool, {"size": 2, "strides": 1, "divisor": 3}, [[5, 13 / 3], [22 / 3, 22 / 3], [13 / 3, 5]]),
    (af.adaptive_avg_pool, {"size": (3, 2)}, [[3.75, 3.25], [5.5, 5.5], [3.25, 3.75]]),
    (af.adaptive_max_pool, {"size": (3, 2)}, [[9, 5], [9, 9], [5, 9]]),
    (af.adaptive_max_pool_places, {"size": (3, 2)}, [[3, 4], [3, 8], [7, 8]]),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "attrs", "want"), TORCH)
def test_values_are_those_of_torch(verb: Callable[..., Tensor], attrs: dict[str, Any], want: Any) -> None:
    array = (np.arange(12.0) ** 2 % 11).reshape(1, 4, 3, 1)
    graph, x, y = of_a_case(verb, array, **attrs)

    made = evaluate(graph, y, {x: array})

    np.testing.assert_allclose(made[0, :, :, 0], want, rtol=1e-14)


NAN = float("nan")


@pytest.mark.parametrize(
    ("row", "place"), [([1, 3, 0, 3], 1), ([NAN, 5, NAN, 7], 2), ([-np.inf, -np.inf], 0)]
)
@pytest.mark.parametrize(
    "verb",
    [
        lambda x: af.max_pool(x, x.shape[1]),
        lambda x: af.adaptive_max_pool(x, 1),
        af.global_max_pool,
    ],
    ids=["max_pool", "adaptive_max_pool", "global_max_pool"],
)
def test_every_maximum_hands_its_gradient_to_the_same_pixel(
    verb: Callable[[Tensor], Tensor], row: list[float], place: int
) -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (1, len(row), 1), "x")
        (grad,) = af.gradients(verb(x), [x])

    slope = evaluate(graph, grad, {x: np.array(row).reshape(1, -1, 1)})

    assert slope.ravel().tolist() == [float(i == place) for i in range(len(row))]


@pytest.mark.parametrize("verb", [af.max_pool, af.global_max_pool, lambda x: af.adaptive_max_pool(x, 2)])
def test_the_maxima_of_integers_are_integers_without_a_gradient(verb: Callable[[Tensor], Tensor]) -> None:
    array = np.array([[3, 250], [7, 0], [255, 1], [2, 1]], "uint8").reshape(1, 4, 2)
    with Graph() as graph:
        x = af.placeholder("uint8", (1, 4, 2), "x")
        y = verb(x)
        with pytest.raises(GradientError, match="ys of gradients are floating"):
            af.gradients(y, [x])

    made = evaluate(graph, y, {x: array})

    assert made.dtype == np.uint8
    want = array.max(axis=1) if made.ndim == 2 else array.reshape(1, 2, 2, 2).max(axis=2)
    np.testing.assert_array_equal(made, want)

"""Masks, partitions, sequences, blocks and parts: corner cases; see `test_indexing` for misuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from tests.support.placeholders import anything, f32
from tests.support.reference import evaluate


def value(build: Callable[[], Any]) -> Any:
    with Graph() as graph:
        made = build()
    return evaluate(graph, made, {})


# ----------------------------------------------------------------------- masks and partitions


def test_stitching_the_parts_of_a_range_undoes_a_partition() -> None:
    x, p = np.arange(12.0).reshape(6, 2), [2, 0, 2, 1, 0, 2]

    made = value(
        lambda: af.dynamic_stitch(af.dynamic_partition(af.arange(6), p, 4), af.dynamic_partition(x, p, 4))
    )

    np.testing.assert_array_equal(made, x)


def test_the_last_row_of_a_stitch_stays_and_gaps_are_zeros() -> None:
    with Graph() as graph:
        a, b = (af.placeholder("float64", (2,)) for _ in range(2))
        y = af.dynamic_stitch([[0, 3], [3, 1]], [a, b])
        grads = af.gradients(y, [a, b])
    made = evaluate(graph, [y, *grads], {a: [1.0, 2.0], b: [3.0, 4.0]})

    assert [m.tolist() for m in made] == [[1, 4, 0, 3], [1, 0], [1, 1]]


def test_a_part_that_nothing_uses_gets_zeros() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (3,))
        _, second = af.dynamic_partition(x, [1, 0, 1], 2)
        (grad,) = af.gradients(af.sum(second * second), [x])

    assert evaluate(graph, grad, {x: [1.0, 2.0, 3.0]}).tolist() == [2, 0, 6]


def test_a_mask_that_is_false_everywhere_chooses_nothing() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (2, 3))
        y = af.boolean_mask(x, x > 9)
        (grad,) = af.gradients(af.sum(y), [x])
    made = evaluate(graph, [y, grad], {x: np.ones((2, 3))})

    assert [m.tolist() for m in made] == [[], [[0, 0, 0], [0, 0, 0]]]


def test_select_takes_the_first_that_is_true() -> None:
    x = np.arange(6.0)

    made = value(lambda: af.select([x < 2, x < 4], [af.constant(x), af.constant(-x)], 7))

    assert made.tolist() == [0, 1, -2, -3, 7, 7]


def test_a_sequence_mask_is_as_long_as_the_longest() -> None:
    assert value(lambda: af.sequence_mask([0, 2], dtype="int8")).tolist() == [[0, 0], [1, 1]]
    assert value(lambda: af.sequence_mask([[5], [1]], 2)).tolist() == [[[True, True]], [[True, False]]]


def test_reverse_sequence_leaves_what_lies_behind_a_length() -> None:
    made = value(lambda: af.reverse_sequence([[1, 2, 3], [4, 5, 6]], [3, 2]))

    assert made.tolist() == [[3, 2, 1], [5, 4, 6]]


# ------------------------------------------------------------------------------------ blocks


def test_channels_of_a_block_come_pixel_by_pixel() -> None:
    x = np.arange(8.0).reshape(1, 2, 2, 2)

    assert value(lambda: af.space_to_depth(x, 2)).tolist() == [[[list(range(8))]]]
    np.testing.assert_array_equal(value(lambda: af.depth_to_space(af.space_to_depth(x, 2), 2)), x)


def test_a_batch_of_coarse_images_is_every_other_pixel() -> None:
    x = np.arange(16.0).reshape(1, 4, 4, 1)

    made = value(lambda: af.space_to_batch(x, (2, 2), ((0, 0), (0, 0))))

    for i in range(4):
        np.testing.assert_array_equal(made[i], x[0, i // 2 :: 2, i % 2 :: 2])


def test_a_convolution_is_a_product_with_patches() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 5, 6, 3)), rng.normal(size=(3, 2, 3, 4))

    for padding, dilations in (("SAME", 1), ("VALID", 1), (1, 2), (((-1, 4), (3, 0)), (1, 3))):
        with Graph() as graph:
            patches = af.extract_patches(x, (3, 2), 2, padding, dilations)
            made = af.conv2d(x, w, 2, padding, dilations)
        told, wanted = evaluate(graph, [patches, made], {})
        np.testing.assert_allclose(told @ w.reshape(-1, 4), wanted, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------------------- a basic index


def test_a_part_is_written_where_an_index_says() -> None:
    with Graph() as graph:
        x, p = af.placeholder("float64", (3, 4)), af.placeholder("float64", (2, 2))
        y = af.slice_update(x, (slice(1, None), slice(None, None, -2)), p)
        grads = af.gradients(af.sum(y * y), [x, p])
    array, part = np.zeros((3, 4)), np.arange(1.0, 5).reshape(2, 2)
    wanted = array.copy()
    wanted[1:, ::-2] = part

    made = evaluate(graph, [y, *grads], {x: array, p: part})

    for m, w in zip(made, [wanted, 0 * wanted, 2 * part], strict=True):
        np.testing.assert_array_equal(m, w)


def test_a_part_of_another_shape_is_refused() -> None:
    with Graph(), pytest.raises(SpecError, match=r"a part of shape \(2,\), got \(3,\) for \(4,\)"):
        af.slice_update(f32(4), slice(2), f32(3))
    with Graph(), pytest.raises(SpecError, match=r"an index is made of integers.*(\n.*)*test_select.py"):
        af.slice_update(f32(4), [0, 1], f32(2))


def test_what_is_not_zero_is_gathered_at_its_places() -> None:
    x = np.array([[0, 2.5, 0], [np.nan, 0, -1]])

    places, found = value(lambda: (af.argwhere(x), af.gather_nd(x, af.argwhere(x))))

    assert places.tolist() == [[0, 1], [1, 0], [1, 2]]
    np.testing.assert_array_equal(found, [2.5, np.nan, -1])


def test_zeros_may_have_the_shape_that_a_tensor_has_in_the_step() -> None:
    with Graph() as graph:
        x = anything()
        made = af.zeros(af.shape(x), "int8")

    assert evaluate(graph, made, {x: np.ones((2, 3))}).tolist() == [[0, 0, 0]] * 2

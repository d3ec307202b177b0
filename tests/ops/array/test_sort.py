"""Corners of sorting, searching, sets and segments: ties, NaN, halves, late sizes, misuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.kernels.definition.registry import find
from actorflow.values.arrays import as_dtype
from tests.ops.math.test_reduce import hessian, slope, value
from tests.support.placeholders import f32, i32
from tests.support.reference import evaluate

NAN = np.nan

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: af.sort(af.placeholder("complex64", (2,))), "sort takes integers or floating numbers, got (2,) complex64"),
    (lambda: af.argsort(f32(2), axis=1), "axis must lie in [-1, 1), got 1"),
    (lambda: af.topk(f32(2, 3), 4), "topk needs k elements along axis -1, got (2, 3) and k=4"),
    (lambda: af.topk(f32(2, 3), -1), "topk takes k of at least 0, got -1"),
    (lambda: af.in_top_k(f32(4, 3), i32(3), 1), "a target for each row, got predictions (4, 3) float32 and targets (3,) int32"),
    (lambda: af.in_top_k(f32(), i32(), 1), "a target for each row, got predictions () float32"),
    (lambda: af.in_top_k(f32(4, 3), f32(4), 1), "the targets of in_top_k takes integers, got (4,) float32"),
    (lambda: af.searchsorted(f32(2, 3), f32(2)), "searchsorted looks in one sorted axis, got (2, 3) float32 to look for (2,) float32"),
    (lambda: af.searchsorted(f32(2), i32(2)), "searchsorted needs equal dtypes, got (2,) float32 and (2,) int32"),
    (lambda: af.searchsorted(f32(2), f32(2), side="above"), "'left' or 'right', got 'above'"),
    (lambda: af.nonzero(f32()), "nonzero needs a tensor of at least one axis, got () float32"),
    (lambda: af.nonzero(af.placeholder("float32", None)), "needs a known rank, got (...) float32"),
    (lambda: af.bincount(f32(3)), "bincount takes integers, got (3,) float32"),
    (lambda: af.bincount(i32(3), f32(4)), "bincount needs numbers and their weights along one axis, got (3,) int32 and (4,) float32"),
    (lambda: af.bincount(i32(3), i32(3)), "bincount with weights takes floating numbers, got (3,) int32"),
    (lambda: af.bincount(i32(3), minlength=-1), "a minlength of at least 0, got -1"),
    (lambda: af.histogram(f32(3), bins=0), "histogram needs at least one bin, got 0"),
    (lambda: af.histogram(f32(3), range=(2, 1)), "the range of a histogram is (lowest, highest), both finite, got (2.0, 1.0)"),
    (lambda: af.segment_sum(f32(3), i32(2)), "segment_sum needs an id for each row of x, got x (3,) float32 and ids (2,) int32"),
    (lambda: af.segment_sum(f32(), i32(2)), "segment_sum needs an id for each row of x, got x () float32"),
    (lambda: af.segment_max(f32(3, 2), i32(3, 2)), "segment_max needs ids of one axis, got (3, 2) int32"),
    (lambda: af.segment_mean(i32(3), i32(3)), "segment_mean takes floating or complex numbers, got (3,) int32"),
    (lambda: af.unsorted_segment_sum(f32(3), f32(3), 2), "the ids of unsorted_segment_sum takes integers, got (3,) float32"),
    (lambda: af.unsorted_segment_sum(f32(3), i32(3), -2), "takes num_segments of at least 0, got -2"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "message"), REFUSED)
def test_what_does_not_fit_is_refused_at_the_users_line(build: Callable[[], Any], message: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build()

    assert message in str(caught.value)
    assert caught.value.where is not None
    assert "test_sort.py:" in (caught.value.where.defined_at or "")


# ---------------------------------------------------------------------------------------- order


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_nan_counts_as_the_largest_number(dtype: str) -> None:
    x = [2, NAN, -np.inf, np.inf, 1]

    np.testing.assert_equal(value(af.sort, x, dtype).astype(float), [-np.inf, 1, 2, np.inf, NAN])
    down = value(lambda p: af.sort(p, descending=True), x, dtype)
    np.testing.assert_equal(down.astype(float), [NAN, np.inf, 2, 1, -np.inf])
    assert value(af.argsort, x, dtype).tolist() == [2, 4, 0, 3, 1]
    assert value(lambda p: af.topk(p, 2)[1], x, dtype).tolist() == [1, 3]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "bfloat16", "float32"])
def test_equals_keep_their_order_both_ways(dtype: str) -> None:
    x = np.tile([2, 1, 2], 20)
    ones, twos = np.flatnonzero(x == 1).tolist(), np.flatnonzero(x == 2).tolist()

    assert value(af.argsort, x, dtype).tolist() == ones + twos
    assert value(lambda p: af.argsort(p, descending=True), x, dtype).tolist() == twos + ones
    assert value(lambda p: af.topk(p, 3)[1], x, dtype).tolist() == twos[:3]
    assert value(lambda p: af.topk(p, 3, largest=False)[1], x, dtype).tolist() == ones[:3]


def test_gradients_go_back_to_where_elements_came_from() -> None:
    weights = np.array([1.0, 10, 100])

    assert slope(lambda p: af.sort(p) * weights, [3, 1, 2]).tolist() == [100, 1, 10]
    assert slope(lambda p: af.sort(p, descending=True) * weights, [3, 1, 2]).tolist() == [1, 100, 10]
    assert slope(lambda p: af.topk(p, 2)[0] * weights[:2], [3, 1, 2]).tolist() == [1, 0, 10]
    assert hessian(lambda p: af.sum(af.square(af.topk(p, 2)[0])), [3, 1, 2]).tolist() == [[2, 0, 0], [0, 0, 0], [0, 0, 2]]  # fmt: skip


@pytest.mark.parametrize("k", [1, 3, 12])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_a_partition_chooses_what_sorting_all_would(k: int, largest: bool, dtype: str) -> None:
    x = np.random.default_rng(k).integers(0, 9, (2, 50, 3)).astype(float)
    if dtype != "uint8":
        x[x == 8] = NAN
    x = x.astype(as_dtype(dtype))
    values, indices = find("topk").function(x, k=k, axis=1, largest=largest)
    order = find("argsort").function(x, axis=1, descending=largest)[:, :k]

    np.testing.assert_array_equal(indices, order)
    np.testing.assert_equal(values.astype(float), np.take_along_axis(x, order, 1).astype(float))


def test_k_larger_than_an_axis_of_unknown_size_fails_in_the_step() -> None:
    with pytest.raises(ValueError, match="topk needs k elements along axis -1"):
        value(lambda p: af.topk(p, 4)[0], [1, 2, 3], known=False)


@pytest.mark.parametrize(
    ("targets", "told"),
    [([1, 0, 0, 3], [True, False, False, False]), ([2, 2, 1, -1], [True, True, False, False])],
)
def test_targets_outside_or_not_finite_are_not_in_the_top(targets: list[int], told: list[bool]) -> None:
    rows = np.array([[1, 3, 3], [NAN, 1, 2], [np.inf, 1, 2], [1, 2, 3]])

    assert value(lambda p: af.in_top_k(p, targets, 1), rows).tolist() == told


def test_a_sorter_stands_for_sorting() -> None:
    x = np.array([3.0, 1, 2])

    assert value(lambda p: af.searchsorted(p, [2.5], sorter=af.argsort(p)), x, "float32").tolist() == [2]


# ----------------------------------------------------------------------------------------- sets


def test_every_nan_is_a_value_of_its_own_and_the_first_of_equals_is_named() -> None:
    values, indices, inverse, counts = value(lambda p: Several(af.unique_all(p)), [2, NAN, 1, 2, NAN])

    np.testing.assert_equal(values, [1, 2, NAN, NAN])
    assert (indices.tolist(), counts.tolist(), inverse.tolist()) == (
        [2, 0, 1, 4],
        [1, 2, 1, 1],
        [1, 2, 0, 1, 3],
    )


class Several(list[Tensor]):
    """Tensors to fetch together."""


def test_sizes_that_depend_on_data_are_unknown() -> None:
    with Graph():
        x = i32(3, 4)
        values, indices, inverse, counts = af.unique_all(x)

        assert [t.shape for t in (values, indices, inverse, counts)] == [(None,), (None,), (3, 4), (None,)]
        assert [t.shape for t in af.nonzero(x)] == [(None,), (None,)]
        assert af.bincount(i32(3)).shape == (None,)
        assert af.segment_sum(f32(3, 2), i32(3)).shape == (None, 2)
        assert af.segment_sum(f32(3, 2), i32(3), 5).shape == (5, 2)


def test_negative_numbers_are_not_counted() -> None:
    with pytest.raises(ValueError, match="bincount counts 0, 1, 2, …, got -1"):
        value(af.bincount, [1, -1], "int32")


def test_weights_of_a_count_get_the_gradient_of_their_number() -> None:
    with Graph() as graph:
        w = af.placeholder("float64", (3,))
        (grad,) = af.gradients(af.bincount([2, 0, 2], w) * np.array([1.0, 10, 100]), w)

    assert evaluate(graph, grad, {w: np.ones(3)}).tolist() == [100, 1, 100]


def test_histograms_leave_out_what_lies_outside_and_nan() -> None:
    counts, edges = value(lambda p: Several(af.histogram(p, 2, (0, 2))), [0, 1, 2, 2.1, -0.1, NAN])
    assert (counts.tolist(), edges.tolist()) == ([1, 2], [0, 1, 2])
    counts, edges = value(lambda p: Several(af.histogram(p, 2)), [])
    assert (counts.tolist(), edges.tolist()) == ([0, 0], [0, 0.5, 1])
    with pytest.raises(ValueError, match="a histogram needs a range when elements are not finite"):
        value(lambda p: af.histogram(p)[0], [1, np.inf])


@pytest.mark.parametrize("seed", range(5))
def test_histograms_count_as_numpy_does(seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=1000).round(2)
    counts, edges = value(lambda p: Several(af.histogram(p, 20, (-1, 1.0))), x)
    told = np.histogram(x, 20, (-1, 1))

    np.testing.assert_array_equal(counts, told[0])
    np.testing.assert_array_equal(edges, told[1])


# ------------------------------------------------------------------------------------- segments


def test_a_segment_without_rows_gets_what_folding_nothing_gives() -> None:
    def folded(op: str, dtype: str) -> list[Any]:
        found: list[Any] = find(op).function(np.ones(1, dtype), np.array([1]), num_segments=3).tolist()
        return found

    assert folded("segment_sum", "float32") == [0, 1, 0]
    assert folded("segment_mean", "float32") == [0, 1, 0]
    assert folded("segment_prod", "int8") == [1, 1, 1]
    assert folded("segment_max", "float16") == [-np.inf, 1, -np.inf]
    assert folded("segment_max", "int8") == [-128, 1, -128]
    assert folded("unsorted_segment_min", "uint16") == [65535, 1, 65535]


@pytest.mark.parametrize(
    ("op", "ids", "message"),
    [
        ("segment_sum", [0, 2, 1], "segment_sum needs sorted ids, got 2 before 1 at row 1"),
        ("segment_max", [-1, 0, 1], r"segment_max needs ids in \[0, 3\), got -1 to 1"),
        ("segment_max", [0, 0, 3], r"segment_max needs ids in \[0, 3\), got 0 to 3"),
        ("unsorted_segment_sum", [3, 0, 0], "unsorted_segment_sum needs ids below 3, got 3"),
    ],
)
def test_ids_out_of_order_or_range_fail_in_the_step(op: str, ids: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find(op).function(np.ones(3), np.array(ids), num_segments=3)


def test_the_gradient_of_products_of_segments_holds_at_zeros() -> None:
    def product(x: Tensor) -> Tensor:
        return af.unsorted_segment_prod(x, [1, 0, 1, 1, -1], 2)

    assert slope(product, [0.0, 5, 2, 3, 7]).tolist() == [6, 1, 0, 0, 0]
    assert hessian(lambda x: product(x)[1], [0, 5, 0, 3, 7])[0].tolist() == [0, 0, 3, 0, 0]


def test_ties_share_the_gradient_of_a_segment() -> None:
    assert slope(lambda x: af.segment_max(x, [0, 0, 0, 1]), [3.0, 3, 1, 2]).tolist() == [0.5, 0.5, 0, 1]


def test_rows_of_negative_ids_get_no_gradient() -> None:
    assert slope(lambda x: af.unsorted_segment_sum(x, [1, -1, 0], 2), np.ones((3, 2))).tolist() == [[1, 1], [0, 0], [1, 1]]  # fmt: skip
    assert slope(lambda x: af.unsorted_segment_max(x, [-1, -2], 0), [1.0, 2.0]).tolist() == [0, 0]
    told = slope(lambda x: af.unsorted_segment_mean(x, [1, -1, 1], 2), np.ones((3, 2)), known=False)
    assert told.tolist() == [[0.5, 0.5], [0, 0], [0.5, 0.5]]

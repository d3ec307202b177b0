"""The indexing ops: what they refuse, indices that come twice or lie outside, and gradients there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from tests.ops.test_conformance import FEW
from tests.support.placeholders import anything, f32, i32
from tests.support.reference import evaluate


def mask(*shape: int | None) -> Tensor:
    return af.placeholder("bool", shape)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: af.gather(f32(2, 3), f32(2), 1, 1),
        "the indices of gather takes integers, got (2, 1) float32",
    ),
    (
        lambda: af.gather(f32(2, 3), i32(2, 1), 0, 1),
        "batch_dims of gather must lie in [0, 0], got 1 for axis 0 of params (2, 3) float32",
    ),
    (lambda: af.gather(f32(2, 3), i32(4, 1), 1, 1), "gather needs equal batch axes, got (4, 1, 1) int32"),
    (
        lambda: af.gather(anything(), i32(2, 1), 2, 1),
        "gather along axis 2 with 1 batch axes needs known ranks",
    ),
    (lambda: af.gather(f32(2, 3), i32(2), 2, 1), "axis must lie in [-2, 2), got 2"),
    (lambda: af.gather_nd(f32(2, 3), i32()), "the indices of gather_nd need 1 axes, the last for the place"),
    (
        lambda: af.gather_nd(f32(2, 3), i32(4, 3)),
        "gather_nd needs an axis of x for each of 3 indices, got (4, 3) int32 for (2, 3) float32",
    ),
    (lambda: af.gather_nd(f32(2, 3), i32(4, 1), -1), "batch_dims cannot be negative, got -1"),
    (
        lambda: af.take_along_axis(f32(2, 3), i32(4, 1), 1),
        "take_along_axis need the sizes of x beside axis 1, got (4, 1) int32 for (2, 3) float32",
    ),
    (lambda: af.take_along_axis(f32(2, 3), i32(2), 1), "take_along_axis need the sizes of x beside axis 1"),
    (lambda: af.take_along_axis(f32(2, 3), i32(2, 1), 2), "axis must lie in [-2, 2), got 2"),
    (
        lambda: af.scatter_update(f32(4, 2), i32(3), f32(2, 2)),
        "scatter_update needs updates of shape (3, 2), got (2, 2) for indices (3,) in (4, 2)",
    ),
    (lambda: af.scatter_add(f32(4), i32(3), i32(3)), "scatter_add needs equal dtypes, got (4,) float32 and"),
    (lambda: af.scatter_add(mask(4), i32(3), mask(3)), "scatter_add takes numbers, got (4,) bool"),
    (
        lambda: af.scatter_max(anything("complex64"), i32(3), anything("complex64")),
        "scatter_max takes integers or floating numbers, got (...) complex64",
    ),
    (
        lambda: af.scatter_min(f32(4), f32(3), f32(3)),
        "the indices of scatter_min takes integers, got (3,) float32",
    ),
    (lambda: af.scatter_add(f32(4), i32(3), f32(3), 1), "axis must lie in [-1, 1), got 1"),
    (
        lambda: af.scatter_nd_add(f32(4, 2), i32(3, 1), f32(3)),
        "scatter_nd_add needs updates of shape (3, 2), got (3,) for indices (3, 1) in (4, 2)",
    ),
    (
        lambda: af.scatter_nd(i32(3, 3), f32(3), (4, 2)),
        "an axis of x for each of 3 indices, got (3, 3) int32",
    ),
    (lambda: af.put_along_axis(f32(4), i32(3), f32(3), how="mean"), "update, add, max, min, got 'mean'"),
    (
        lambda: af.put_along_axis(f32(4), i32(3), f32(2)),
        "put_along_axis needs updates of shape (3,), got (2,)",
    ),
    (lambda: af.boolean_mask(f32(2, 3), i32(2)), "the mask of boolean_mask takes bool, got (2,) int32"),
    (lambda: af.boolean_mask(f32(2, 3), mask()), "the mask of boolean_mask needs at least one axis"),
    (
        lambda: af.boolean_mask(f32(2, 3), mask(2), 1),
        "boolean_mask needs the sizes of x from axis 1 on, got (2,) bool for (2, 3) float32",
    ),
    (lambda: af.boolean_mask(f32(3), mask(3, 1)), "boolean_mask needs the sizes of x from axis 0 on"),
    (lambda: af.select([mask(2)], []), "select takes a choice for each condition, got 1 and 0"),
    (lambda: af.select([mask(2)], [f32(3)]), "shapes must broadcast"),
    (
        lambda: af.dynamic_partition(f32(3, 2), i32(2), 2),
        "need the first sizes of their data, got (2,) int32 for",
    ),
    (lambda: af.dynamic_partition(f32(3), f32(3), 2), "the partitions of dynamic_partition takes integers"),
    (lambda: af.dynamic_partition(f32(3), i32(3), 0), "dynamic_partition makes at least one part, got 0"),
    (lambda: af.dynamic_stitch([i32(2)], []), "data for each tensor of indices, got 1 and 0"),
    (lambda: af.dynamic_stitch([], []), "data for each tensor of indices, got 0 and 0"),
    (
        lambda: af.dynamic_stitch([i32(2), i32(1)], [f32(2, 3), f32(1, 4)]),
        "dynamic_stitch needs equal sizes behind the indices, got (3,) and (4,)",
    ),
    (lambda: af.invert_permutation(i32(2, 2)), "a permutation is a vector of integers, got (2, 2) int32"),
    (lambda: af.sequence_mask(f32(2), 3), "sequence_mask takes integers, got (2,) float32"),
    (
        lambda: af.reverse_sequence(f32(2, 3), i32(3)),
        "a length for each of axis 0, got (3,) int32 for (2, 3)",
    ),
    (lambda: af.reverse_sequence(f32(2, 3), i32(2), 0, 0), "axes must differ, got (0, 0) for rank 2"),
    (lambda: af.space_to_depth(f32(1, 4, 3, 1), 2), "space_to_depth needs a size that 2 divides, got 3 in"),
    (lambda: af.space_to_depth(f32(4, 4), 2), "images have the four axes (n, height, width, channels)"),
    (lambda: af.depth_to_space(f32(1, 4, 4, 6), 2), "depth_to_space needs a size that 4 divides, got 6 in"),
    (lambda: af.depth_to_space(f32(1, 4, 4, 4), 0), "blocks of at least one pixel, got (0,)"),
    (lambda: af.space_to_batch(f32(1, 4, 1), (2,), ()), "(before, after) for each size of the block, got ()"),
    (lambda: af.space_to_batch(f32(1, 4, 1), (3,), ((0, 0),)), "space_to_batch needs a size that 3 divides"),
    (lambda: af.batch_to_space(f32(3, 4, 1), (2,), ((0, 0),)), "batch_to_space needs a size that 2 divides"),
    (lambda: af.batch_to_space(f32(2, 1, 1), (2,), ((2, 1),)), "cannot crop ((2, 1),) off blocks of (2,)"),
    (lambda: af.extract_patches(f32(1, 2, 2, 1), 3), "a window must fit into its axis"),
    (
        lambda: af.extract_patches(f32(1, 8, 8, 1), 3, padding="same"),
        'padding must be "SAME", "VALID", a margin, or (before, after) for each of the 2 spatial axes, got \'same\'',
    ),
    (
        lambda: af.extract_patches(f32(1, 8, 8, 1), (3, 3, 3)),
        "size must be a positive integer or one for each of the 2 spatial axes, got (3, 3, 3)",
    ),
    (lambda: af.extract_patches(f32(1, 8, 8, 1), 3, dilations=0), "dilations must be a positive integer"),
    (
        lambda: af.extract_patches(af.placeholder("float32", None), 3),
        "of an unknown rank the size must say how many spatial axes there are, got 3",
    ),
]


@pytest.mark.parametrize(("build", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_is_refused_while_the_graph_is_built(build: Callable[[], Any], said: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build()

    assert said in str(caught.value)
    assert "test_indexing.py" in str(caught.value)


PARTIAL: list[tuple[Callable[[], Tensor], str]] = [
    (lambda: af.gather(f32(None, 5, 3), i32(7, 2), 1, 1), "(7, 2, 3) float32"),
    (lambda: af.gather(f32(7, 4, 5, 3), i32(None, 2), -2, 1), "(7, 4, 2, 3) float32"),
    (lambda: af.gather_nd(f32(2, 3, None), i32(None, 4, 2)), "(None, 4, None) float32"),
    (lambda: af.gather_nd(f32(2, 3), i32(4, None)), "(...) float32"),
    (lambda: af.take_along_axis(anything(), i32(None, 3), 1), "(None, 3) float32"),
    (lambda: af.take_along_axis(f32(2, 1, 4), i32(1, 3, 2)), "(2, 3, 2) float32"),
    (lambda: af.scatter_add(f32(None, 2), i32(3), 1.0), "(None, 2) float32"),
    (lambda: af.boolean_mask(f32(2, 3, 4), mask(3), 1), "(2, None, 4) float32"),
    (lambda: af.boolean_mask(anything(), mask(3)), "(...) float32"),
    (lambda: af.dynamic_partition(f32(None, 4), i32(None), 2)[1], "(None, 4) float32"),
    (lambda: af.dynamic_stitch([i32(2), i32(3)], [anything(), f32(3, 5)]), "(None, 5) float32"),
    (lambda: af.sequence_mask(i32(None)), "(None, None) bool"),
    (lambda: af.space_to_depth(f32(None, 4, None, 3), 2), "(None, 2, None, 12) float32"),
    (lambda: af.batch_to_space(f32(None, 4, 3), (2,), ((1, 0),)), "(None, 7, 3) float32"),
    (
        lambda: af.space_to_batch(f32(None, 5, None, 3), (2, 2), ((1, 0), (0, 0))),
        "(None, 3, None, 3) float32",
    ),
]


@pytest.mark.parametrize(("build", "said"), PARTIAL, ids=[str(i) for i in range(len(PARTIAL))])
def test_specs_say_all_that_is_known(build: Callable[[], Tensor], said: str) -> None:
    with Graph():
        assert str(build().spec) == said


def value(build: Callable[[], Any]) -> Any:
    with Graph() as graph:
        made = build()
    return evaluate(graph, made, {})


X = np.arange(1.0, 7.0).reshape(3, 2)

OUTSIDE: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda at: af.gather(X, [at]),
        "index {} is out of bounds for an axis of size 3, at (0,) of the indices",
    ),
    (lambda at: af.gather_nd(X, [[at, 0]]), "index {} is out of bounds for an axis of size 3"),
    (
        lambda at: af.take_along_axis(X, [[at, 0]], 0),
        "index {} is out of bounds for an axis of size 3, at (0, 0) of the indices",
    ),
    (lambda at: af.scatter_add(X, [at], X[:1]), "index {} is out of bounds for an axis of size 3"),
    (lambda at: af.scatter_nd_max(X, [[at]], X[:1]), "index {} is out of bounds for an axis of size 3"),
    (lambda at: af.put_along_axis(X, [[at, 0]], X[:1], 0), "index {} is out of bounds for an axis of size 3"),
    (lambda at: af.dynamic_partition(X, [0, at, 1], 3), "partition {} is negative or not below 3"),
    (lambda at: af.reverse_sequence(X, [at + 1, 0], 0, 1), "is negative or longer than an axis of size 3"),
]


@pytest.mark.parametrize("at", [3, -4])
@pytest.mark.parametrize(("build", "said"), OUTSIDE, ids=[said for _, said in OUTSIDE])
def test_an_index_outside_is_refused_in_the_step(build: Callable[[Any], Any], said: str, at: int) -> None:
    with pytest.raises(IndexError) as caught:
        value(lambda: build(at))

    assert said.format(at) in str(caught.value)


@pytest.mark.parametrize(
    "build",
    [
        lambda at: af.gather(X, at[0]),
        lambda at: af.gather_nd(X, at),
        lambda at: af.take_along_axis(X[:, :1], at, 0),
        lambda at: af.scatter_update(X, at[0], X[:1]),
        lambda at: af.put_along_axis(X[:, :1], at, X[:1, :1], 0),
    ],
)
def test_an_index_too_large_for_int64_does_not_wrap_to_the_end(build: Callable[[Any], Any]) -> None:
    with pytest.raises(IndexError, match=f"index {2**64 - 1} is out of bounds for an axis of size"):
        value(lambda: build(np.array([[2**64 - 1]], "uint64")))


def test_a_negative_index_is_refused_where_it_cannot_count_from_the_end() -> None:
    with pytest.raises(IndexError, match="index -1 is negative"):
        value(lambda: af.dynamic_stitch([[0, -1]], [[1.0, 2.0]]))


@pytest.mark.parametrize(("given", "wrong"), [([0, 3, 1], "3"), ([0, -1, 1], "-1"), ([1, 1, 0], "1 twice")])
def test_what_is_no_permutation_is_refused_in_the_step(given: list[int], wrong: str) -> None:
    with pytest.raises(ValueError, match=f"a permutation of 3 has 0 to 2 once each, got {wrong}"):
        value(lambda: af.invert_permutation(given))


LATE: list[tuple[Callable[[Tensor], Any], str]] = [
    (
        lambda x: af.scatter_add(x, af.constant([0]), x),
        "scatter_add needs updates of shape (1, 2), got (3, 2)",
    ),
    (
        lambda x: af.take_along_axis(x, af.constant([[0]]), 0),
        "the sizes of x beside axis 0, got (1, 1) for (3, 2)",
    ),
    (
        lambda x: af.gather_nd(x, af.constant([[0, 0, 0]])),
        "the axes of x after 0 batch axes, got (1, 3) for (3, 2)",
    ),
    (lambda x: af.boolean_mask(x, af.constant([True])), "the sizes of x from axis 0 on, got (1,) for (3, 2)"),
    (lambda x: af.dynamic_partition(x, af.constant([0]), 1)[0], "the first sizes of x, got (1,) for (3, 2)"),
    (
        lambda x: af.dynamic_stitch([af.constant([0])], [x]),
        "data of shape (1, 2) for its indices, got (3, 2)",
    ),
    (lambda x: af.reverse_sequence(x, af.constant([0])), "a length for each of axis 0, got (1,) for (3, 2)"),
    (lambda x: af.space_to_batch(x, (4,), ((0, 0),)), "sizes that the block divides, got (3, 2)"),
    (lambda x: af.batch_to_space(x, (3,), ((3, 4),)), "cannot crop ((3, 4),) off (1, 6)"),
]


@pytest.mark.parametrize(("build", "said"), LATE, ids=[said for _, said in LATE])
def test_shapes_that_show_late_are_refused_in_the_step(build: Callable[[Tensor], Any], said: str) -> None:
    with Graph() as graph:
        x = anything("float64")
        made = build(x)

    with pytest.raises(SpecError) as caught:
        evaluate(graph, made, {x: X})

    assert said in str(caught.value)


# ---------------------------------------------------------------------- indices that come twice


def scattered(how: str, updates: list[float]) -> tuple[list[float], list[float], list[float]]:
    """`updates` at indices 1, 1, -2 and 0 of (5, 2, 2), which names 1 three times; and the gradients."""
    with Graph() as graph:
        x, u = (af.placeholder("float64", (n,)) for n in (3, 4))
        y = getattr(af, f"scatter_{how}")(x, [1, 1, -2, 0], u)
        grads = af.gradients(y, [x, u])
    made = evaluate(graph, [y, *grads], {x: [5.0, 2.0, 2.0], u: updates})
    return tuple(m.tolist() for m in made)


def test_every_update_of_one_place_is_added() -> None:
    assert scattered("add", [1, 2, 3, 4]) == ([9, 8, 2], [1, 1, 1], [1, 1, 1, 1])


def test_the_last_update_of_a_place_stays_and_gets_the_gradient() -> None:
    assert scattered("update", [1, 2, 3, 4]) == ([4, 3, 2], [0, 0, 1], [0, 0, 1, 1])


def test_the_gradient_of_a_maximum_is_shared_on_ties() -> None:
    assert scattered("max", [3, 3, 1, 5]) == ([5, 3, 2], [0.5, 0, 1], [0.5, 0.5, 0, 0.5])


def test_the_smallest_update_of_a_place_stays() -> None:
    assert scattered("min", [3, -3, 1, 9]) == ([5, -3, 2], [1, 0, 1], [0, 1, 0, 0])


def test_a_scalar_is_written_to_every_place() -> None:
    made = value(lambda: af.scatter_update(X, [0, 2], 9.0))
    assert made.tolist() == [[9, 9], [3, 4], [9, 9]]

    with Graph() as graph:
        x, i = anything("float64"), anything("int32")
        late = [
            af.scatter_add(x, i, 1.0),
            af.scatter_nd_add(x, af.expand_dims(i, -1), 1.0),
            af.put_along_axis(x, af.expand_dims(i, -1), 1.0, 1, "add"),
        ]
    told = evaluate(graph, late, {x: np.zeros((2, 2)), i: [1, 1]})
    assert [t.tolist() for t in told] == [[[0, 0], [2, 2]]] * 2 + [[[0, 1], [0, 1]]]


def test_an_array_that_is_written_to_is_copied() -> None:
    x = np.zeros(3)

    made = value(lambda: af.scatter_update(x, [1], np.ones(1)))

    assert x.tolist() == [0, 0, 0]
    assert made.tolist() == [0, 1, 0]


@FEW
@given(data=st.data())
def test_gather_with_batch_axes_chooses_in_each_of_them(data: st.DataObject) -> None:
    batch = data.draw(st.integers(0, 2))
    axis = data.draw(st.integers(batch, 3))
    inner = data.draw(st.sampled_from([(), (2,), (1, 3)]))
    shape = (2, 3, 4, 2)
    x = np.arange(48.0).reshape(shape)
    indices = np.array(
        data.draw(st.lists(st.integers(-shape[axis], shape[axis] - 1), min_size=18, max_size=18))
    )
    indices = np.resize(indices, (*shape[:batch], *inner))

    made = value(lambda: af.gather(x, indices, axis, batch))

    wanted = np.empty((*shape[:axis], *inner, *shape[axis + 1 :]))
    for b in np.ndindex(shape[:batch]):
        wanted[b] = np.take(x[b], indices[b], axis - batch)
    np.testing.assert_array_equal(made, wanted)

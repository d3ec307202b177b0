"""The shape ops: what they refuse, corner cases as numpy has them, and what they spare."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: af.moveaxis(f32(2, 3), 2, 0), "axis must lie in [-2, 2), got 2"),
    (lambda: af.moveaxis(f32(2, 3), (0, 1), 0), "a destination for each source, got (0, 1) to (0,)"),
    (lambda: af.moveaxis(f32(2, 3), (0, -2), (0, 1)), "axes must differ, got (0, -2) for rank 2"),
    (lambda: af.swapaxes(f32(2, 3), 0, 5), "axis must lie in [-2, 2), got 5"),
    (lambda: af.flip(f32(2), (0, -1)), "axes must differ"),
    (lambda: af.roll(f32(2, 3), (1, 2), 0), "an axis for each shift, got shifts (1, 2) and axis 0"),
    (lambda: af.tile(f32(2), (1, -1)), "repetitions cannot be negative, got (1, -1)"),
    (lambda: af.repeat(f32(2), -1, 0), "repetitions cannot be negative, got -1"),
    (
        lambda: af.repeat(f32(2, 3), (1, 2), 1),
        "repeat takes a number for each element of axis 1, got 2 for (2, 3)",
    ),
    (lambda: af.repeat(f32(2), f32(2), 0), "the repeats of repeat takes integers, got (2,) float32"),
    (lambda: af.repeat(f32(2), i32(2, 1), 0), "repeats are one integer or a vector, got (2, 1) int32"),
    (lambda: af.flatten(f32(2, 3), 1, 0), "joins the axes from start to stop, got start 1, stop 0"),
    (lambda: af.stack([]), "stack needs at least one tensor"),
    (lambda: af.stack([f32(2), f32(3)]), "stack needs equal shapes, got (2,) and (3,)"),
    (lambda: af.stack([f32(2), i32(2)]), "stack needs equal dtypes, got (2,) float32 and (2,) int32"),
    (lambda: af.unstack(f32(None, 3)), "unstack needs a known size, got axis 0 of (None, 3) float32"),
    (lambda: af.unstack(f32(4, 3), count=3), "unstack into 3 needs that size, got axis 0 of (4, 3)"),
    (lambda: af.split(f32(5), 2), "split into 2 equal parts needs a size that fits, got axis 0 of (5,)"),
    (lambda: af.split(f32(2, 5), (2, 2), 1), "split into parts of (2, 2) needs a size that fits, got axis 1"),
    (lambda: af.split(f32(5), 0), "a positive number of parts, or their sizes, got 0"),
    (lambda: af.split(f32(5), ()), "a positive number of parts, or their sizes, got ()"),
    (lambda: af.broadcast_arrays(f32(2), f32(3)), "shapes must broadcast, got (2,) and (3,)"),
    (lambda: af.meshgrid(f32(2, 3)), "meshgrid takes vectors, got (2, 3) float32"),
    (lambda: af.meshgrid(f32(2), indexing="yx"), 'indexing must be "xy" or "ij", got \'yx\''),
    (lambda: af.pad(f32(2), ((1, -1),)), "paddings cannot be negative, got ((1, -1),)"),
    (lambda: af.pad(f32(2), ((1, 1, 1),)), "an integer, or (before, after) for each axis, got ((1, 1, 1),)"),
    (lambda: af.pad(f32(2), (1, 1)), "an integer, or (before, after) for each axis, got (1, 1)"),
    (lambda: af.pad(f32(2, 2), ((1, 1),)), "(before, after) for each axis, got ((1, 1),) for (2, 2)"),
    (lambda: af.pad(f32(2), 1, "mirror"), "constant, edge, reflect, symmetric, wrap, got 'mirror'"),
    (lambda: af.pad(f32(0), 1, "wrap"), "nothing to wrap along an empty axis, got (0,) float32"),
    (lambda: af.pad(i32(2), 1, value=0.5), "a value that int32 holds, got 0.5 for (2,) int32"),
    (lambda: af.full((2,), 300, "int8"), "no tensor of dtype int8 can hold 300"),
    (lambda: af.full_like(i32(2), 0.5), "no int32 tensor can hold float 0.5"),
    (lambda: af.zeros((-1,)), "sizes cannot be negative, got (-1,)"),
    (lambda: af.arange(1, 5, 0), "the step of arange cannot be 0"),
    (lambda: af.arange(1, float("inf")), "arange takes finite numbers"),
    (lambda: af.arange(300, dtype="uint8"), "made of integers that fit, got 299"),
    (lambda: af.arange(0, 2, 0.5, dtype="int32"), "made of integers that fit, got 1.5"),
    (lambda: af.arange(3, dtype="bool"), "arange takes integers or floating numbers, got (3,) bool"),
    (lambda: af.arange(0, i32(2)), "arange takes scalars, got (2,) int32"),
    (lambda: af.linspace(0, 1, 3, dtype="int32"), "linspace takes floating numbers, got (3,) int32"),
    (lambda: af.eye(-1), "sizes cannot be negative, got (-1, -1)"),
    (lambda: af.eye(2, dtype="float8"), "no tensor has dtype 'float8'"),
    (lambda: af.tril(f32(3)), "tril needs at least two axes, got (3,)"),
    (lambda: af.triu(f32(3)), "triu needs at least two axes, got (3,)"),
    (lambda: af.diagonal(f32(3)), "diagonal needs at least two axes, got (3,)"),
    (lambda: af.diag_embed(f32()), "diag_embed needs at least one axis, got () float32"),
    (lambda: af.ensure_shape(f32(2, None), (None, 3, 1)), "a shape that fits (None, 3, 1), got (2, None)"),
    (lambda: af.reshape(f32(6), f32(2)), "the shape of reshape takes integers, got (2,) float32"),
    (lambda: af.reshape(f32(6), i32(2, 1)), "a shape is a vector of integers, got (2, 1) int32"),
]


@pytest.mark.parametrize(("build", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_is_refused_while_the_graph_is_built(build: Callable[[], Any], said: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build()

    assert said in str(caught.value)
    assert "test_arrange.py" in str(caught.value)


PARTIAL: list[tuple[Callable[[], Tensor], str]] = [
    (lambda: af.moveaxis(f32(None, 8, 3), -1, 0), "(3, None, 8) float32"),
    (lambda: af.swapaxes(anything(), 0, 1), "(...) float32"),
    (lambda: af.tile(f32(None, 3), (0, 2)), "(0, 6) float32"),
    (lambda: af.repeat(f32(None, 3), 2), "(None,) float32"),
    (lambda: af.repeat(f32(None, 3), (1, 0, 4), 1), "(None, 5) float32"),
    (lambda: af.repeat(f32(2, 3), i32(None), 1), "(2, None) float32"),
    (lambda: af.flatten(f32(None, 2, 3), 1), "(None, 6) float32"),
    (lambda: af.flatten(f32(0, None)), "(0,) float32"),
    (lambda: af.stack([f32(None, 3), f32(2, None)], -1), "(2, 3, 2) float32"),
    (lambda: af.split(f32(None, 3), 2)[1], "(None, 3) float32"),
    (lambda: af.split(f32(None, 3), (2, 1))[0], "(2, 3) float32"),
    (lambda: af.meshgrid(f32(2), f32(None), f32(4))[0], "(None, 2, 4) float32"),
    (lambda: af.pad(f32(None, 2), ((1, 0), (0, 2)), "reflect"), "(None, 4) float32"),
    (lambda: af.pad(anything(), ((1, 0), (0, 2))), "(None, None) float32"),
    (lambda: af.diagonal(f32(None, 3, None)), "(None, None) float32"),
    (lambda: af.diag_embed(f32(None, 3), -2), "(None, 5, 5) float32"),
    (lambda: af.shape(anything()), "(None,) int32"),
    (lambda: af.ensure_shape(f32(2, None), (None, 3)), "(2, 3) float32"),
    (lambda: af.reshape(f32(6), i32(2)), "(None, None) float32"),
    (lambda: f32(None, 8, 3, 5)[1:, ::2, None, ..., -1], "(None, 4, 1, 3) float32"),
]


@pytest.mark.parametrize(("build", "said"), PARTIAL, ids=[str(i) for i in range(len(PARTIAL))])
def test_specs_say_all_that_is_known(build: Callable[[], Tensor], said: str) -> None:
    with Graph():
        assert str(build().spec) == said


def value(build: Callable[[], Any], feeds: dict[str, Any] | None = None) -> Any:
    with Graph() as graph:
        made = build()
    return evaluate(graph, made, {})


def test_an_index_of_every_kind_has_its_gradient() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (3, 4, 2, 3))
        y = x[1:, ::-2, None, ..., -1]
        (grad,) = af.gradients(y, [x])
    array = np.arange(72.0).reshape(3, 4, 2, 3)
    wanted = np.zeros(array.shape)
    wanted[1:, ::-2, :, -1] = 1

    np.testing.assert_array_equal(evaluate(graph, y, {x: array}), array[1:, ::-2, None, ..., -1])
    np.testing.assert_array_equal(evaluate(graph, grad, {x: array}), wanted)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@FEW
@given(data=st.data())
def test_pad_is_that_of_numpy_however_wide_the_margin(mode: str, data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(1,), (2,), (3, 1), (2, 4), (2, 3, 2)]))
    pairs = [data.draw(st.tuples(st.integers(0, 40), st.integers(0, 9))) for _ in shape]
    x = np.arange(1.0, np.prod(shape) + 1).reshape(shape)

    made = value(lambda: af.pad(x, pairs, mode))

    np.testing.assert_array_equal(made, np.pad(x, pairs, mode))  # type: ignore[call-overload]


def test_an_infinite_margin_is_a_margin() -> None:
    made = value(lambda: af.pad(af.constant([1.0]), 1, value=-np.inf))

    assert made.tolist() == [-np.inf, 1, -np.inf]


def test_a_margin_of_negative_zeros_keeps_the_sign() -> None:
    assert np.signbit(value(lambda: af.pad(af.constant([-0.0]), 1, "edge"))).tolist() == [True] * 3
    assert np.signbit(value(lambda: af.pad(af.constant([-0.0]), 1))).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "given",
    [(5,), (2, 11, 3), (11, 2, -3), (0, 1, 0.1), (1, 0, -0.25), (0.5, 3.1), (3, 3), (4, 1), (-2, -9, -2)],
)
def test_arange_counts_as_numpy_does(given: tuple[float, ...]) -> None:
    start, stop, step = (0, *given, 1) if len(given) == 1 else (*given, 1)[:3]
    made = value(lambda: af.arange(start, stop, step, dtype="float64"))

    assert made.shape == np.arange(*given).shape
    np.testing.assert_allclose(made, np.arange(*given), rtol=1e-15)


def test_a_long_range_of_floats_gathers_no_error() -> None:
    made = value(lambda: af.arange(0, 1000, 0.1, dtype="float64"))

    assert np.array_equal(made, np.arange(10_000) * 0.1)


def test_a_range_has_the_dtype_that_fits() -> None:
    assert [value(partial(af.arange, v, v + 2)).dtype.name for v in (0, 2**31, 0.5)] == [
        "int32",
        "int64",
        "float32",
    ]


def test_a_range_may_end_where_a_tensor_says() -> None:
    with Graph() as graph:
        x = f32(None, 2)
        made = af.arange(af.shape(x)[0])

    assert evaluate(graph, made, {x: np.zeros((3, 2))}).tolist() == [0, 1, 2]


def test_linspace_and_eye_are_those_of_numpy() -> None:
    np.testing.assert_array_equal(
        value(lambda: af.linspace(-1, 2, 7, dtype="float64")), np.linspace(-1, 2, 7)
    )
    np.testing.assert_array_equal(
        value(lambda: af.linspace(0, 1, 4, endpoint=False, dtype="float64")), np.linspace(0, 1, 4, False)
    )
    np.testing.assert_array_equal(value(lambda: af.eye(3, 4, 1, "int8")), np.eye(3, 4, 1))


def test_meshgrid_is_that_of_numpy() -> None:
    xs = [np.arange(2.0), np.arange(3.0), np.arange(4.0)]
    for indexing in ("xy", "ij"):
        for count in (1, 2, 3):
            made = value(partial(af.meshgrid, *xs[:count], indexing=indexing))
            for m, wanted in zip(made, np.meshgrid(*xs[:count], indexing=indexing), strict=True):
                np.testing.assert_array_equal(m, wanted)


def test_what_is_full_of_one_value_takes_one_element_of_memory() -> None:
    made = value(lambda: af.full((1000, 1000), 0.5))

    assert made.strides == (0, 0)
    assert made[7, 8] == 0.5


def test_the_gradient_of_full_is_summed_to_its_value() -> None:
    with Graph() as graph:
        x = f32()
        (grad,) = af.gradients(af.full((2, 3), x), [x])

    assert evaluate(graph, grad, {x: 1.0}) == 6


def test_a_shape_that_is_known_needs_no_tensor() -> None:
    with Graph():
        made = [af.shape(f32(2, 3)), af.size(f32(2, 3)), af.size(f32(None, 0)), af.rank(f32(None, 3))]

        assert [t.node.op for t in made] == ["constant"] * 4


def test_reshape_to_the_shape_of_another_of_any_rank() -> None:
    with Graph() as graph:
        x, like = af.placeholder("float64", None), anything()
        y = af.reshape(x, af.shape(like))
        (grad,) = af.gradients(y, [x])
    feeds = {x: np.arange(6.0), like: np.zeros((3, 2))}

    assert evaluate(graph, y, feeds).shape == (3, 2)
    assert evaluate(graph, grad, feeds).shape == (6,)


def test_slices_that_nothing_uses_get_zeros() -> None:
    with Graph() as graph:
        x = f32(3)
        a, _, _ = af.unstack(x)
        _, b = af.split(x, (1, 2))
        to_a, to_b = af.gradients(a, [x])[0], af.gradients(b, [x])[0]

    assert evaluate(graph, to_a, {x: [1, 2, 3]}).tolist() == [1, 0, 0]
    assert evaluate(graph, to_b, {x: [1, 2, 3]}).tolist() == [0, 1, 1]


def test_the_gradient_of_repeat_over_an_unknown_batch_is_a_plain_sum() -> None:
    with Graph() as graph:
        x = f32(None, 3)
        (grad,) = af.gradients(af.repeat(x, 2, 1), [x])

    assert "gather_grad" not in {n.op for n in graph.nodes}
    assert evaluate(graph, grad, {x: np.zeros((2, 3))}).tolist() == [[2, 2, 2]] * 2


def test_triangles_keep_nan_out_of_the_zeros() -> None:
    x = np.full((2, 2), np.nan)

    assert np.isnan(value(lambda: af.tril(x))).tolist() == [[True, False], [True, True]]
    assert np.isnan(value(lambda: af.triu(x, 1))).tolist() == [[False, True], [False, False]]


def test_nothing_to_join_or_cut_is_nothing() -> None:
    with Graph():
        assert af.unstack(f32(0, 3)) == ()
        assert af.broadcast_arrays() == ()
        assert af.meshgrid() == ()


LATE: list[tuple[Callable[[], Any], tuple[int, ...], str]] = [
    (lambda: af.unstack(LATER[0], count=2), (3, 2), "unstack into 2 needs that size, got axis 0 of (3, 2)"),
    (lambda: af.split(LATER[0], 2), (3, 2), "split into 2 equal parts needs a size that fits"),
    (lambda: af.pad(LATER[0], 1, "wrap"), (3, 0), "nothing to wrap along an empty axis, got (3, 0)"),
    (lambda: af.pad(LATER[0], ((1, 1),)), (3, 1), "(before, after) for each axis, got ((1, 1),) for (3, 1)"),
    (lambda: af.ensure_shape(LATER[0], (None, 3)), (3, 2), "a shape that fits (None, 3), got (3, 2)"),
    (lambda: af.repeat(LATER[0], af.constant([1, 2]), 0), (3, 2), "of axis 0, got (2,) for (3, 2)"),
    (lambda: af.arange(0, 4, af.size(LATER[0])), (0,), "a step other than 0, got 0, 4, 0"),
]
LATER: list[Tensor] = []


@pytest.mark.parametrize(("build", "shape", "said"), LATE, ids=[said for *_, said in LATE])
def test_what_shows_late_is_refused_in_the_step(
    build: Callable[[], Any], shape: tuple[int, ...], said: str
) -> None:
    with Graph() as graph:
        LATER[:] = [anything()]
        made = build()

    with pytest.raises(SpecError) as caught:
        evaluate(graph, made if isinstance(made, Tensor) else made[0], {LATER[0]: np.zeros(shape)})

    assert said in str(caught.value)


def test_negative_repeats_of_a_tensor_are_refused_in_the_step() -> None:
    with pytest.raises(ValueError, match="repeats cannot be negative, got -1"):
        value(lambda: af.repeat(af.constant([1.0, 2.0]), af.constant([1, -1]), 0))

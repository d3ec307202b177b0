"""What the user's verbs refuse, and what they spare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import GraphError, SpecError
from actorflow.graph import opdef
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from tests.support.placeholders import f32, i32
from tests.support.reference import evaluate

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: f32(2) + f32(3), "shapes must broadcast, got (2,) and (3,)"),
    (lambda: f32(2) + i32(2), "add needs equal dtypes, got (2,) float32 and (2,) int32"),
    (lambda: i32(2) / i32(2), "divide takes floating or complex numbers, got (2,) int32"),
    (lambda: af.equal(0, [1]) + 1, "no bool tensor can hold int 1: it is of a wider kind"),
    (lambda: af.equal(0, [1]) + True, "add takes numbers, got (1,) bool"),
    (
        lambda: af.abs(af.placeholder("complex64", ())),
        "abs takes integers or floating numbers, got () complex64",
    ),
    (lambda: af.logical_and(f32(2), f32(2)), "logical_and takes bool, got (2,) float32"),
    (lambda: af.where(f32(2), f32(2), f32(2)), "the condition of where takes bool, got (2,) float32"),
    (lambda: af.exp(i32(2)), "exp takes floating or complex numbers, got (2,) int32"),
    (lambda: af.cast(af.placeholder("complex64", ()), "float32"), "cast cannot drop the imaginary part"),
    (lambda: af.cast(f32(2), "float8"), "no tensor has dtype 'float8'"),
    (lambda: af.sum(f32(2, 3), axis=2), "axis must lie in [-2, 2), got 2"),
    (lambda: af.sum(f32(2, 3), axis=(0, -2)), "axes must differ, got (0, -2) for rank 2"),
    (lambda: af.sum(af.equal(f32(2), 0.0)), "sum takes numbers, got (2,) bool"),
    (lambda: af.mean(af.equal(f32(2), 0.0)), "mean takes numbers, got (2,) bool"),
    (lambda: af.max(f32(2, 0), axis=1), "max needs at least one element to fold, got axis 1 of (2, 0)"),
    (
        lambda: af.argmax(f32(2, 3), axis=(0, 1)),  # type: ignore[arg-type]
        "argmax takes an integer, or None as axis, got (0, 1)",
    ),
    (lambda: af.reshape(f32(2, 3), (4, 2)), "reshape keeps the number of elements, got (2, 3) to (4, 2)"),
    (lambda: af.reshape(f32(2, 3), (-1, 4)), "reshape keeps the number of elements, got (2, 3) to (-1, 4)"),
    (lambda: af.reshape(f32(2, 3), (-1, -1)), "at most one -1, got (-1, -1)"),
    (lambda: af.transpose(f32(2, 3), (0, 0)), "perm must name every axis once, got (0, 0) for (2, 3)"),
    (lambda: af.transpose(f32(2, 3), (0,)), "perm must name every axis once, got (0,) for (2, 3)"),
    (lambda: af.expand_dims(f32(2), 3), "axis must lie in [-2, 2), got 3"),
    (lambda: af.squeeze(f32(2, 1), 0), "squeeze drops axes of size 1, got axis 0 of (2, 1)"),
    (lambda: af.broadcast_to(f32(2, 3), (3,)), "broadcasts to one of at least its rank, got (2, 3) to (3,)"),
    (lambda: af.broadcast_to(f32(2), (2, 1)), "shapes must agree"),
    (lambda: af.sum_to(f32(3), f32(2)), "shapes must broadcast"),
    (lambda: af.concat([], 0), "concat needs at least one tensor"),
    (lambda: af.concat([f32(2), f32(2, 2)], 0), "concat needs equal ranks, got (2,) and (2, 2)"),
    (lambda: af.concat([f32(2, 2), f32(2, 3)], 0), "equal sizes beside axis 0, got (2, 2) and (2, 3)"),
    (lambda: f32(2, 3)[2], "index must lie in [-2, 2), got 2 for axis 0 of (2, 3)"),
    (lambda: f32(2, 3)[0, 0, 0], "at most one part for each axis, got 3 for (2, 3)"),
    (lambda: f32(2, 3)[..., ...], "at most one ..."),
    (lambda: f32(2)[::0], "the step of a slice cannot be 0"),
    (lambda: f32(2)[i32()], "an index is made of integers, slices of integers, None and ..., got <Tensor"),
    (lambda: f32(2)[[0, 1]], "an index is made of integers"),
    (lambda: f32(2)[True], "an index is made of integers"),
    (lambda: af.gather(f32(2), f32(1)), "the indices of gather takes integers, got (1,) float32"),
    (lambda: af.gather(f32(2), i32(1), axis=1), "axis must lie in [-1, 1), got 1"),
    (lambda: af.one_hot(f32(2), 3), "one_hot takes integers, got (2,) float32"),
    (lambda: f32(3) @ f32(3, 2), "matmul needs at least two axes, got (3,) and (3, 2)"),
    (lambda: f32(2, 4, 3) @ f32(3, 3, 5), "shapes must broadcast, got (2,) and (3,)"),
    (lambda: af.placeholder("float32", (-1,)), "sizes cannot be negative, got (-1,)"),
    (lambda: af.constant(300, "int8"), "no tensor of dtype int8 can hold 300"),
]


@pytest.mark.parametrize(("build", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_is_refused_while_the_graph_is_built(build: Callable[[], Any], said: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build()

    assert said in str(caught.value)


def test_placeholders_have_the_name_they_were_given_or_none() -> None:
    with Graph():
        af.placeholder("float32", (), "x")
        with pytest.raises(GraphError, match="names are unique, 'x' is taken by the placeholder defined at"):
            af.placeholder("float32", (), "x")

        assert [f32().node.name, f32().node.name] == ["placeholder", "placeholder_1"]


PARTIAL: list[tuple[Callable[[], Tensor], str]] = [
    (lambda: f32(None, 3) + f32(1, 3), "(None, 3) float32"),
    (lambda: f32(None) + f32(3), "(3,) float32"),
    (lambda: af.placeholder("float32", None) + f32(3), "(...) float32"),
    (lambda: af.sum(af.placeholder("float32", None)), "() float32"),
    (lambda: af.sum(f32(None, 3), axis=-1, keepdims=True), "(None, 1) float32"),
    (lambda: af.reshape(f32(None, 4), (-1, 2)), "(None, 2) float32"),
    (lambda: af.reshape(f32(0, 4), (-1, 2)), "(0, 2) float32"),
    (lambda: af.squeeze(f32(None, 1)), "(...) float32"),
    (lambda: af.squeeze(f32(None, 1), -1), "(None,) float32"),
    (lambda: f32(None, 8, 3)[1:, -2:, None, 0], "(None, 2, 1) float32"),
    (lambda: f32(4, 5)[..., ::-2], "(4, 3) float32"),
    (lambda: af.concat([f32(None, 3), f32(2, None)], 0), "(None, 3) float32"),
    (lambda: af.concat([f32(1, 3), f32(2, None)], 0), "(3, 3) float32"),
    (lambda: af.gather(f32(None, 4), i32(2, None), axis=1), "(None, 2, None) float32"),
    (lambda: af.one_hot(i32(None), 3, "bool"), "(None, 3) bool"),
    (lambda: af.argmax(f32(None, 3), axis=0), "(3,) int64"),
    (lambda: f32(7, 1, None, 4) @ f32(3, 4, 5), "(7, 3, None, 5) float32"),
    (lambda: af.matmul(f32(4, None), f32(3, 4), True, True), "(None, 3) float32"),
]


@pytest.mark.parametrize(("build", "said"), PARTIAL, ids=[str(i) for i in range(len(PARTIAL))])
def test_specs_say_all_that_is_known(build: Callable[[], Tensor], said: str) -> None:
    with Graph():
        assert str(build().spec) == said


SPARED: list[tuple[Callable[[Tensor], Tensor], int]] = [
    (lambda x: af.cast(x, "float32"), 0),
    (lambda x: af.sum_to(x, f32(2, 3)), 0),
    (lambda x: af.broadcast_like(x, f32(2, 3)), 0),
]


@pytest.mark.parametrize(("build", "count"), SPARED)
def test_what_would_change_nothing_builds_nothing(build: Callable[[Tensor], Tensor], count: int) -> None:
    with Graph():
        x = f32(2, 3)

        assert build(x) is x


def ops_of(graph: Graph) -> set[str]:
    return {n.op for n in graph.nodes}


def test_the_gradient_of_a_bias_over_a_batch_of_any_size_is_a_plain_sum() -> None:
    with Graph() as graph:
        x, b = f32(None, 3), f32(3)
        to_x, to_b = af.gradients(x + b, [x, b], grad_ys=f32(None, 3))

    assert to_b is not None
    assert to_b.node.op == "sum"
    assert to_x is not None
    assert to_x.node.op == "placeholder"
    assert "sum_to" not in ops_of(graph)


def test_the_gradient_of_two_unknown_sizes_is_decided_in_the_step() -> None:
    with Graph() as graph:
        a, b = af.placeholder("float64", (None,)), af.placeholder("float64", (None,))
        grads = af.gradients(a * b, [a, b])

    assert "sum_to" in ops_of(graph)
    assert [g.tolist() for g in evaluate(graph, grads, {a: [2.0], b: [3.0, 4.0]})] == [[7], [2, 2]]


def test_known_shapes_do_not_keep_tensors_alive_for_their_shape() -> None:
    with Graph() as graph:
        x = af.placeholder("float32", (2, 3))
        af.gradients(af.mean(af.reshape(x, (3, 2)), 0) * af.squeeze(x[:1, :2]), [x])

    assert not ops_of(graph) & {"reshape_like", "broadcast_like", "sum_to", "count"}


def test_the_mean_of_a_batch_of_unknown_size_divides_its_gradient_by_the_size() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (None, 2))
        (grad,) = af.gradients(af.mean(x), [x])

    np.testing.assert_allclose(evaluate(graph, grad, {x: np.zeros((5, 2))}), np.full((5, 2), 0.1))


def test_ties_share_the_gradient_of_max_evenly() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (2, 3))
        (grad,) = af.gradients(af.max(x, axis=1), [x])

    told = evaluate(graph, grad, {x: [[1, 2, 2], [3, 3, 3]]})
    np.testing.assert_allclose(told, [[0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]])


def test_where_keeps_nan_of_the_other_branch_out_of_the_gradient() -> None:
    with Graph() as graph:
        x = af.placeholder("float64", (2,))
        y = af.where(x > 0, af.log(af.where(x > 0, x, 1)), 0)
        (grad,) = af.gradients(y, [x])

    assert evaluate(graph, grad, {x: [0.0, 2.0]}).tolist() == [0, 0.5]


def test_every_operator_of_a_tensor_has_its_op() -> None:
    named = ["add", "subtract", "multiply", "divide", "pow", "matmul", "negative", "abs", "positive", "round", "floor_divide", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "less", "less_equal", "greater", "greater_equal", "slice"]  # fmt: skip

    assert [n for n in named if n not in opdef.table()] == []

"""Convolution and pooling: what the graph knows of them before it runs."""

from __future__ import annotations

from typing import Any

import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from actorflow.ops import conv, pool
from actorflow.spec import spec


def images(*shape: int | None, dtype: str = "float32") -> Any:
    return af.placeholder(dtype, shape)


@pytest.mark.parametrize(
    ("strides", "padding", "shape"),
    [
        (1, "SAME", (None, 9, 8, 4)),
        (2, "SAME", (None, 5, 4, 4)),
        ((3, 1), "VALID", (None, 3, 7, 4)),
    ],
)
def test_conv2d_knows_its_shape_without_the_batch(strides: Any, padding: str, shape: tuple[Any, ...]) -> None:
    with Graph():
        y = af.conv2d(images(None, 9, 8, 3), images(3, 2, 3, 4), strides, padding)

        assert y.spec == spec("float32", shape)


def test_unknown_rank_and_sizes_stay_unknown() -> None:
    with Graph():
        x = af.placeholder("float32", None)

        assert af.conv2d(x, images(3, 3, None, 4)).shape == (None, None, None, 4)
        assert af.max_pool(images(1, None, 5, None), 2).shape == (1, None, 2, None)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 4, 8)), "equal channels"),
        (lambda: af.conv2d(images(8, 8, 3), images(3, 3, 3, 8)), r"four axes \(n, height, width, channels\), got \(8, 8, 3\)"),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 8)), r"four axes \(height, width, in, out\)"),
        (lambda: af.conv2d(images(1, 2, 8, 3), images(3, 3, 3, 8), padding="VALID"), "a window of 3 on a size of 2"),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 3, 8), padding="same"), 'must be "SAME" or "VALID", got \'same\''),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 3, 8), strides=0), "strides must be a positive integer"),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 3, 8, dtype="float64")), "equal dtypes"),
        (lambda: af.max_pool(images(1, 8, 8, 3, dtype="int32")), "floating numbers"),
        (lambda: af.max_pool(images(1, 8, 8, 3), (2, 2, 2)), "size must be"),
        (lambda: conv.conv2d_grad_input(images(1, 7, 8, 4), images(3, 3, 3, 4), images(1, 8, 8, 3)), "must agree"),
        (lambda: pool.max_pool_grad(images(1, 8, 8, 3), images(1, 4, 5, 3), 2, 2), "must agree"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_the_users_line(build: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message) as caught:
        build()

    assert caught.value.where is not None
    assert "test_conv.py:" in (caught.value.where.defined_at or "")


def test_gradients_for_one_argument_leave_out_the_other() -> None:
    with Graph() as graph:
        x, w = images(1, 8, 8, 3), images(3, 3, 3, 4)
        af.gradients(af.conv2d(x, w), w)

    ops = [node.op for node in graph.nodes]
    assert "conv2d_grad_filter" in ops
    assert "conv2d_grad_input" not in ops

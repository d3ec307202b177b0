"""Convolution and pooling: what the graph knows of them before it runs, and values at the corners."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from actorflow.ops.nn import conv, max_pool
from actorflow.values.arrays import as_dtype
from actorflow.values.spec import spec
from tests.support.reference import evaluate


def images(*shape: int | None, dtype: str = "float32") -> Any:
    return af.placeholder(dtype, shape)


def value(build: Any) -> np.ndarray:
    with Graph() as graph:
        made = build()
    array: np.ndarray = evaluate(graph, made, {})
    return array


@pytest.mark.parametrize(
    ("strides", "padding", "shape"),
    [
        (1, "SAME", (None, 9, 8, 4)),
        (2, "SAME", (None, 5, 4, 4)),
        ((3, 1), "VALID", (None, 3, 7, 4)),
        (2, ((1, 0), (2, 2)), (None, 4, 6, 4)),
        ((2, 1), 1, (None, 5, 9, 4)),
        (1, -1, (None, 5, 5, 4)),
        (2, ((0, -4), (0, 0)), (None, 2, 4, 4)),
    ],
)
def test_conv2d_knows_its_shape_without_the_batch(strides: Any, padding: Any, shape: tuple[Any, ...]) -> None:
    with Graph():
        y = af.conv2d(images(None, 9, 8, 3), images(3, 2, 3, 4), strides, padding)

        assert y.spec == spec("float32", shape)


@pytest.mark.parametrize(
    ("strides", "padding", "output_padding", "shape"),
    [
        (1, "SAME", 0, (None, 5, 4, 3)),
        (3, "SAME", 0, (None, 15, 12, 3)),
        (1, "VALID", 0, (None, 7, 5, 3)),
        ((3, 2), "VALID", (2, 1), (None, 17, 9, 3)),
        (3, ((1, 1), (0, 1)), 0, (None, 13, 10, 3)),
        (3, 1, (0, 1), (None, 13, 10, 3)),
        (3, ((1, -2), (0, 1)), (0, 1), (None, 16, 11, 3)),
        (4, "VALID", 0, (None, 19, 14, 3)),
    ],
)
def test_conv2d_transpose_knows_its_shape_without_the_batch(
    strides: Any, padding: Any, output_padding: Any, shape: tuple[Any, ...]
) -> None:
    with Graph():
        y = af.conv2d_transpose(images(None, 5, 4, 8), images(3, 2, 3, 8), strides, padding, output_padding)

        assert y.spec == spec("float32", shape)


def test_unknown_rank_and_sizes_stay_unknown() -> None:
    with Graph():
        x = af.placeholder("float32", None)

        assert af.conv2d(x, images(3, 3, None, 4)).shape == (None, None, None, 4)
        assert af.conv3d(images(None, 8, None, 8, None), x).shape == (None, 8, None, 8, None)
        assert af.conv1d(images(None, 8, 3), x, padding="VALID").shape == (None, None, None)
        assert af.conv2d_transpose(images(1, 8, None, 4), x, 2).shape == (1, 16, None, None)
        assert af.depthwise_conv2d(x, images(3, None, 2, 2)).shape == (None, None, None, 4)
        assert af.max_pool(images(1, None, 5, None), 2).shape == (1, None, 2, None)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 4, 8)), "equal channels"),
        (lambda: af.conv2d(images(8, 8, 3), images(3, 3, 3, 8)), r"four axes \(n, height, width, channels\), got \(8, 8, 3\)"),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 8)), r"four axes \(height, width, in, out\)"),
        (lambda: af.conv2d(images(1, 2, 8, 3), images(3, 3, 3, 8), padding="VALID"), "a window of 3 on a size of 2"),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 3, 8), padding="same"), r'must be "SAME", "VALID", a margin, or \(before, after\) for each of the 2 spatial axes, got \'same\''),
        (lambda: af.conv1d(images(1, 8, 3), images(3, 3, 8), padding=(1, 1)), r"\(before, after\) for each of the 1 spatial axes, got \(1, 1\)"),  # type: ignore[arg-type]
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 3, 8), padding=((1, 1), (1, 1.5))), r"got \(\(1, 1\), \(1, 1.5\)\)"),  # type: ignore[arg-type]
        (lambda: af.conv1d(images(1, 8, 8, 3), images(3, 3, 8)), r"sequences have the three axes \(n, length, channels\), got \(1, 8, 8, 3\)"),
        (lambda: af.conv3d(images(1, 8, 8, 3), images(3, 3, 3, 3, 8)), r"five axes \(n, depth, height, width, channels\), got \(1, 8, 8, 3\)"),
        (lambda: af.conv2d(images(1, 4, 8, 3), images(3, 3, 3, 8), dilations=2, padding="VALID"), "a window of 3, 5 with a dilation of 2, on a size of 4"),
        (lambda: af.conv2d(images(1, 4, 8, 3), images(3, 3, 3, 8), padding=((-1, -1), (0, 0))), r"a window of 3 on a size of 4 padded by \(-1, -1\)"),
        (lambda: af.conv2d(images(1, 4, 8, 3), images(0, 3, 3, 8)), "an element along every axis, got a window of 0"),
        (lambda: af.conv2d(images(1, 8, 8, 6), images(3, 3, 6, 8), groups=2), r"filters of 2 groups see 1 / 2 of the channels, got images \(1, 8, 8, 6\) and filters \(3, 3, 6, 8\)"),
        (lambda: af.conv2d(images(1, 8, 8, 6), images(3, 3, 2, 8), groups=3), r"got 3 groups of 8 channels in \(3, 3, 2, 8\)"),
        (lambda: af.conv2d(images(1, 8, 8, 7), images(3, 3, None, 8), groups=2), r"got 2 groups of 7 channels in \(1, 8, 8, 7\)"),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 3, 8), groups=0), "groups must be a positive integer, got 0"),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 3, 8), dilations=(1, 2, 1)), r"dilations must be a positive integer or one for each of the 2 spatial axes"),
        (lambda: af.conv3d(images(1, 8, 8, 8, 3, dtype="int32"), images(3, 3, 3, 3, 8, dtype="int32")), "conv3d takes floating numbers"),
        (lambda: af.conv2d_transpose(images(1, 8, 8, 3), images(3, 3, 3, 8)), r"made as many channels, got images \(1, 8, 8, 3\) and filters \(3, 3, 3, 8\)"),
        (lambda: af.conv2d_transpose(images(1, 8, 8, 8), images(3, 3, 3, 8), output_padding=1), 'output_padding goes with "VALID" or padding in numbers, got 1'),
        (lambda: af.conv2d_transpose(images(1, 8, 8, 8), images(3, 3, 3, 8), padding="VALID", output_padding=-1), "output_padding must be an integer that is not negative"),
        (lambda: af.conv2d_transpose(images(1, 1, 1, 8), images(3, 3, 3, 8), padding=((2, 2), (0, 0))), r"got 3 elements and the padding \(2, 2\)"),
        (lambda: af.conv1d_transpose(images(1, 0, 8), images(3, 3, 8), padding="VALID"), "there is one at least, got none"),
        (lambda: af.depthwise_conv2d(images(1, 8, 8, 3), images(3, 3, 4, 1)), r"depthwise_conv2d needs equal channels, got images \(1, 8, 8, 3\) and filters \(3, 3, 4, 1\)"),
        (lambda: af.depthwise_conv2d(images(1, 8, 8, None), images(3, 3, None, 1)), "must know the number of channels"),
        (lambda: af.depthwise_conv2d(images(1, 8, 8, 3), images(None, None, 3, 1)), "one size of the filters open at most"),
        (lambda: af.depthwise_conv2d(images(1, 8, 8, 3), images(3, 3, 3)), r"\(height, width, in, multiplier\), got \(3, 3, 3\)"),
        (lambda: af.separable_conv2d(images(1, 8, 8, 3), images(3, 3, 3, 1), images(2, 1, 3, 4)), r"pointwise filters are \(1, 1, in \* multiplier, out\), got \(2, 1, 3, 4\)"),
        (lambda: conv.conv(images(1, 8), images(3, 3), (), "SAME", (), 1), "one to three spatial axes"),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 3, 8), strides=0), "strides must be a positive integer"),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 3, 8, dtype="float64")), "equal dtypes"),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 3, 8), padding=True), "got True"),
        (lambda: af.conv2d(images(1, 8, 8, 3), images(3, 3, 3, 8), strides=True), "strides must be a positive integer or one for each of the 2 spatial axes, got True"),
        (lambda: af.max_pool(images(1, 8, 8, 3), (2, 2, 2)), "size must be"),
        (lambda: conv.conv_grad_input(images(1, 7, 8, 4), images(3, 3, 3, 4), images(1, 8, 8, 3), (1, 1), "SAME", (1, 1), 1), "must agree"),
        (lambda: max_pool.max_pool_grad(images(1, 8, 8, 3), images(1, 4, 5, 3), 2, 2), "must agree"),
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
    assert "conv_grad_filter" in ops
    assert "conv_grad_input" not in ops


# ------------------------------------------------------------------------------------ values


RNG = np.random.default_rng(5)


def test_a_transposed_convolution_adds_the_filters_up_where_windows_lie() -> None:
    x, w = RNG.normal(size=(1, 3, 2, 4)), RNG.normal(size=(2, 3, 3, 4))
    wanted = np.zeros((1, 2 * 3 + 2 * 1 + 1 - 2, 3 * 1 + 3 + 2, 3))
    for r, c, i, j in product(range(3), range(2), range(2), range(3)):
        down, right = 2 * r + 2 * i - 1, 3 * c + j
        if 0 <= down < wanted.shape[1]:
            wanted[:, down, right] += x[:, r, c] @ w[i, j].T

    made = value(lambda: af.conv2d_transpose(x, w, (2, 3), ((1, 0), (0, 0)), (0, 2), (2, 1)))

    np.testing.assert_allclose(made, wanted[:, : made.shape[1]], rtol=1e-12, atol=1e-12)
    assert made.shape == (1, 6, 8, 3)
    assert not made[:, :, 6:].any()  # output padding beyond all windows


def test_same_transposed_is_the_gradient_of_same() -> None:
    """Of a window wider than the stride, as wide, and narrower, which leaves pixels without a window."""
    for size in (1, 2, 3, 5):
        x, w = RNG.normal(size=(2, 4, 3, 2)), RNG.normal(size=(size, size, 5, 2))
        with Graph() as graph:
            image = af.placeholder("float64", (2, 8, 6, 5))
            (grad,) = af.gradients(af.conv2d(image, w, 2), [image], [af.constant(x)])
            made = af.conv2d_transpose(x, w, 2)
        assert grad is not None
        told, wanted = evaluate(graph, [made, grad], {image: np.zeros((2, 8, 6, 5))})
        np.testing.assert_array_equal(told, wanted)


def test_depthwise_channels_come_multiplier_by_multiplier() -> None:
    x, w = RNG.normal(size=(2, 5, 6, 3)), RNG.normal(size=(3, 2, 3, 4))

    made = value(lambda: af.depthwise_conv2d(x, w, (2, 1), "VALID"))

    for k, q in product(range(3), range(4)):
        one = value(
            lambda k=k, q=q: af.conv2d(x[..., k : k + 1], w[:, :, k : k + 1, q : q + 1], (2, 1), "VALID")
        )
        np.testing.assert_allclose(made[..., 4 * k + q], one[..., 0], rtol=1e-12, atol=1e-12)


def test_separable_is_depthwise_then_pointwise() -> None:
    x, deep, point = (
        RNG.normal(size=(2, 5, 6, 3)),
        RNG.normal(size=(3, 2, 3, 2)),
        RNG.normal(size=(1, 1, 6, 7)),
    )

    made = value(lambda: af.separable_conv2d(x, deep, point, 2, dilations=2))
    first = value(lambda: af.depthwise_conv2d(x, deep, 2, dilations=2))

    np.testing.assert_allclose(made, first @ point[0, 0], rtol=1e-12, atol=1e-12)


def test_groups_are_convolutions_beside_each_other() -> None:
    x, w = RNG.normal(size=(2, 7, 5, 6)), RNG.normal(size=(3, 3, 2, 9))

    made = value(lambda: af.conv2d(x, w, 2, ((1, 1), (0, 2)), groups=3))
    parts = [
        value(
            lambda g=g: af.conv2d(x[..., 2 * g : 2 * g + 2], w[..., 3 * g : 3 * g + 3], 2, ((1, 1), (0, 2)))
        )
        for g in range(3)
    ]

    np.testing.assert_allclose(made, np.concatenate(parts, axis=-1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 4, 16])
@pytest.mark.parametrize(("dtype", "digits"), [("float32", 5e-6), ("float16", 6e-4), ("bfloat16", 4e-3)])
def test_values_and_gradients_are_as_near_as_the_dtype_allows(dtype: str, digits: float, groups: int) -> None:
    """Of sums of up to 2048 products; halves are rounded once, from float32."""
    x = RNG.normal(size=(8, 16, 16, 16)).astype(as_dtype(dtype))
    w = RNG.normal(size=(3, 3, 16 // groups, 32)).astype(as_dtype(dtype))
    dy = RNG.normal(size=(8, 16, 16, 32)).astype(as_dtype(dtype))

    def computed(wide: str) -> list[np.ndarray]:
        with Graph() as graph:
            tx, tw, tdy = (af.constant(a.astype(as_dtype(wide))) for a in (x, w, dy))
            y = af.conv2d(tx, tw, groups=groups)
            back = af.conv2d_transpose(tdy, tw, groups=groups)
            fetches = [y, back, *af.gradients(y, [tx, tw], [tdy])]
        found: list[np.ndarray] = evaluate(graph, fetches, {})
        return found

    for made, exact in zip(computed(dtype), computed("float64"), strict=True):
        scale = np.maximum(np.abs(exact), np.sqrt(np.mean(exact**2)))
        assert np.max(np.abs(made.astype("float64") - exact) / scale) < digits


def test_dilated_filters_are_filters_with_holes() -> None:
    x, w = RNG.normal(size=(2, 9, 4, 8, 2)), RNG.normal(size=(3, 2, 2, 2, 3))
    holed = np.zeros((5, 2, 4, 2, 3))
    holed[::2, :, ::3] = w

    for padding in ("SAME", "VALID"):
        made = value(lambda p=padding: af.conv3d(x, w, (1, 1, 2), p, (2, 1, 3)))
        wanted = value(lambda p=padding: af.conv3d(x, holed, (1, 1, 2), p))
        np.testing.assert_allclose(made, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("x", "w", "attrs", "shape", "moved"),
    [
        ((0, 5, 5, 2), (3, 3, 2, 4), {}, (0, 5, 5, 4), False),
        ((2, 0, 5, 2), (3, 3, 2, 4), {}, (2, 0, 5, 4), False),
        ((2, 5, 5, 0), (3, 3, 0, 4), {}, (2, 5, 5, 4), False),
        ((2, 5, 5, 2), (3, 3, 2, 0), {}, (2, 5, 5, 0), False),
        ((2, 1, 1, 2), (5, 7, 2, 4), {"strides": 3}, (2, 1, 1, 4), True),
        ((2, 5, 5, 2), (1, 1, 2, 4), {"strides": 3}, (2, 2, 2, 4), True),
        ((2, 2, 3, 2), (3, 3, 2, 4), {"padding": ((9, -8), (-2, 9))}, (2, 1, 8, 4), False),
    ],
)
def test_empty_and_tiny_images_have_a_value_and_gradients(
    x: Any, w: Any, attrs: dict[str, Any], shape: Any, moved: bool, groups: int
) -> None:
    arrays = RNG.normal(size=x), RNG.normal(size=(*w[:2], w[2] // groups, w[3]))
    with Graph() as graph:
        inputs = [af.placeholder("float64", a.shape) for a in arrays]
        y = af.conv2d(inputs[0], inputs[1], groups=groups, **attrs)
        back = af.conv2d_transpose(y, inputs[1], groups=groups, **attrs)
        grads = af.gradients(af.sum(y * y) + af.sum(back * back), inputs)
        made = evaluate(graph, [y, back, *grads], dict(zip(inputs, arrays, strict=True)))

    assert made[0].shape == shape
    assert [m.shape for m in made[2:]] == [a.shape for a in arrays]
    assert np.any(made[0]) == moved
    assert np.any(made[2]) == moved

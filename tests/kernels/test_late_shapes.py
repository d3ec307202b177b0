"""Shapes that are known only when the step runs: the kernel says what the spec rule would have said."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
from actorflow.errors import SpecError
from actorflow.kernels.definition.registry import find

WINDOWS = {"strides": (1, 1), "padding": "SAME", "dilations": (1, 1), "groups": 1}
POOL = {"size": (2, 2), "strides": (2, 2), "padding": "VALID"}
IMAGES = r"images have the four axes \(n, height, width, channels\), got \(8, 8\)"
FILTERS = r"filters have the four axes \(height, width, in, out\), got \(3, 3, 1\)"
CHANNELS = r"need equal channels, got images \(2, 8, 8, 3\) and filters \(3, 3, 1, 4\)"
MADE = r"made as many channels, got images \(2, 8, 8, 3\) and filters \(3, 3, 1, 4\)"
GRADIENT = r"the gradient of an output \(2, 8, 8, 4\) has its shape, got \(2, 8, 8, 5\)"


def of(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


MISFITS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("conv", (of(8, 8), of(3, 3, 1, 4)), WINDOWS, IMAGES),
    ("conv", (of(2, 8, 8, 1), of(3, 3, 1)), WINDOWS, FILTERS),
    ("conv", (of(2, 8, 8, 3), of(3, 3, 1, 4)), WINDOWS, CHANNELS),
    ("conv_grad_input", (of(2, 8, 8, 4), of(3, 3, 1, 4), of(8, 8)), WINDOWS, IMAGES),
    ("conv_grad_input", (of(2, 8, 8, 5), of(3, 3, 1, 4), of(2, 8, 8, 1)), WINDOWS, GRADIENT),
    ("conv_grad_filter", (of(2, 8, 8, 1), of(2, 8, 8, 4), of(3, 3, 1)), WINDOWS, FILTERS),
    ("conv_grad_filter", (of(2, 8, 8, 1), of(2, 8, 8, 5), of(3, 3, 1, 4)), WINDOWS, GRADIENT),
    ("conv_transpose", (of(8, 8), of(3, 3, 1, 4)), WINDOWS, IMAGES),
    ("conv_transpose", (of(2, 8, 8, 3), of(3, 3, 1, 4)), WINDOWS, MADE),
    ("max_pool", (of(8, 8),), POOL, IMAGES),
    ("global_max_pool", (of(8, 8),), {"size": (1, 1), "keepdims": False}, IMAGES),
    ("global_max_pool", (of(2, 0, 1),), {"size": (1,), "keepdims": False}, "an empty axis has no windows"),
    ("extract_patches", (of(8, 8),), POOL, IMAGES),
    ("extract_patches_grad", (of(2, 4, 4, 3), of(2, 8, 8, 1)), POOL, r"output \(2, 4, 4, 4\) has its shape"),
    ("max_pool_grad", (of(8, 8), of(4, 4)), POOL, IMAGES),
    ("max_pool_grad", (of(2, 8, 8, 1), of(2, 8, 8, 1)), POOL, r"output \(2, 4, 4, 1\) has its shape"),
    ("max_pool_gather", (of(2, 8, 8, 1), of(2, 4, 8, 1)), POOL, r"\(2, 8, 8, 1\) has its shape"),
    (
        "matmul",
        (of(3), of(3, 2)),
        {"transpose_a": False, "transpose_b": False},
        r"got \(3,\) and \(3, 2\)",
    ),
    (
        "softmax_cross_entropy",
        (of(4, 3), np.zeros((2, 2), np.int64)),
        {},
        r"one label for each row of logits, got logits \(4, 3\) and labels \(2, 2\)",
    ),
    ("softmax_cross_entropy", (of(), np.int64(0)), {}, r"a last axis with an element for every class"),
]


@pytest.mark.parametrize(("op", "arrays", "attrs", "text"), MISFITS)
def test_a_misfit_that_shows_late_is_a_spec_error_with_the_shapes(
    op: str, arrays: tuple[Any, ...], attrs: dict[str, Any], text: str
) -> None:
    with pytest.raises(SpecError, match=text):
        find(op).function(*arrays, **attrs)


@pytest.mark.parametrize(
    ("op", "arrays", "attrs", "text"),
    [m for m in MISFITS if m[0] in ("conv", "conv_transpose", "max_pool", "matmul")],
)
def test_the_cost_of_a_misfit_is_no_other_error(
    op: str, arrays: tuple[Any, ...], attrs: dict[str, Any], text: str
) -> None:
    with pytest.raises(SpecError, match=text):
        find(op).cost(*arrays, **attrs)


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("axis", [None, 1, (0, 1)])
def test_extremes_of_no_elements_are_an_error_with_the_shape(op: str, axis: Any) -> None:
    with pytest.raises(
        ValueError, match=rf"{op} needs at least one element to fold, got axis .* of \(2, 0\)"
    ):
        find(op).function(of(2, 0), axis=axis, keepdims=False)


def test_argmax_of_no_elements_is_an_error_with_the_shape() -> None:
    with pytest.raises(
        ValueError, match=r"argmax needs at least one element to fold, got axis 1 of \(2, 0\)"
    ):
        find("argmax").function(of(2, 0), axis=1, keepdims=False)


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize(("axis", "folded"), [(None, (1, 1)), (1, (2, 1)), (0, (1, 0)), ((0, 1), (1, 1))])
def test_the_mean_of_no_elements_is_nan_without_a_warning(axis: Any, folded: Any, keepdims: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean = find("mean").function(of(2, 0), axis=axis, keepdims=keepdims)

    dropped = {None: (), 1: (2,), 0: (0,), (0, 1): ()}[axis]
    assert mean.shape == (folded if keepdims else dropped)
    assert mean.dtype == np.float32
    assert np.isnan(mean).all()

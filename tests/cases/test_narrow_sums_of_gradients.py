"""Gradients of halves are added up in float32 and rounded once, over uses and over turns: bfloat16 counts to 256."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.values import sparse as rows
from actorflow.values.arrays import as_dtype, limits
from tests.kernels.test_halves import HALVES
from tests.support.sessions import run_step

MANY = {"bfloat16": 600, "float16": 3000}
"""More than a half can count to by ones."""

Loss = Callable[[af.Tensor, int], af.Tensor]


def wide(x: af.Tensor) -> af.Tensor:
    found: af.Tensor = af.cast(x, "float32")
    return found


def uses(w: af.Tensor, n: int) -> af.Tensor:
    return af.sum(wide(af.stack([w] * 600 * (n // 600))))


def uses_by_different_ops(w: af.Tensor, n: int) -> af.Tensor:
    total = wide(af.arrays.identity(w))
    for k in range(n // 20 - 1):
        total = total + wide(af.arrays.identity(w) if k % 2 else af.reshape(w, ()))
    found: af.Tensor = 20.0 * total
    return found


def turns(w: af.Tensor, n: int) -> af.Tensor:
    zero = [af.constant(0), af.constant(np.float32(0))]
    found: af.Tensor = af.while_loop(lambda i, s: af.less(i, n), lambda i, s: [i + 1, s + wide(w)], zero)[1]
    return found


def turns_as_nodes(w: af.Tensor, n: int) -> af.Tensor:
    zero = [af.constant(0), af.constant(np.float32(0))]
    found: af.Tensor = af.while_loop(
        lambda i, s: af.less(i, n), lambda i, s: [i + 1, s + wide(w)], zero, lower=True
    )[1]
    return found


def a_loop_variable_that_stays(w: af.Tensor, n: int) -> af.Tensor:
    zero = [af.constant(0), af.constant(np.float32(0)), w]
    found: af.Tensor = af.while_loop(
        lambda i, s, v: af.less(i, n), lambda i, s, v: [i + 1, s + wide(v), v], zero
    )[1]
    return found


def a_loop_variable_that_stays_and_is_used_behind(w: af.Tensor, n: int) -> af.Tensor:
    zero = [af.constant(0), af.constant(np.float32(0)), w]
    _, total, kept = af.while_loop(
        lambda i, s, v: af.less(i, n - 1), lambda i, s, v: [i + 1, s + wide(v), af.arrays.identity(v)], zero
    )
    return total + wide(kept)  # type: ignore[no-any-return]


def rows_of_a_map(w: af.Tensor, n: int) -> af.Tensor:
    return af.sum(af.map_fn(lambda row: row * wide(w), np.ones(n, "float32")))


def states_of_a_fold(w: af.Tensor, n: int) -> af.Tensor:
    found: af.Tensor = af.fold(lambda s, row: s + row * wide(w), np.ones(n, "float32"), np.float32(0))
    return found


def turns_within_turns(w: af.Tensor, n: int) -> af.Tensor:
    def outer(i: af.Tensor, s: af.Tensor) -> list[af.Tensor]:
        inner = af.while_loop(
            lambda k, t: af.less(k, n // 2), lambda k, t: [k + 1, t + wide(w)], [af.constant(0), s]
        )
        return [i + 1, inner[1]]

    zero = [af.constant(0), af.constant(np.float32(0))]
    found: af.Tensor = af.while_loop(lambda i, s: af.less(i, 2), outer, zero)[1]
    return found


def reads_of_one_element_of_a_list(w: af.Tensor, n: int) -> af.Tensor:
    array = af.TensorArray(w.dtype, 1, element_shape=()).write(0, w)
    zero = [af.constant(0), af.constant(np.float32(0))]
    found: af.Tensor = af.while_loop(
        lambda i, s: af.less(i, n), lambda i, s: [i + 1, s + wide(array.read(0))], zero
    )[1]
    return found


def reads_of_a_list_without_turns(w: af.Tensor, n: int) -> af.Tensor:
    array = af.TensorArray(w.dtype, 1, element_shape=()).write(0, w)
    found: af.Tensor = 20.0 * sum((wide(array.read(0)) for _ in range(n // 20)), af.constant(np.float32(0)))
    return found


def elements_gathered(w: af.Tensor, n: int) -> af.Tensor:
    return af.sum(wide(af.gather(af.expand_dims(w, 0), np.zeros(n, "int32"))))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "loss",
    [
        uses,
        turns,
        turns_as_nodes,
        a_loop_variable_that_stays,
        a_loop_variable_that_stays_and_is_used_behind,
        rows_of_a_map,
        states_of_a_fold,
        turns_within_turns,
        reads_of_one_element_of_a_list,
    ],
)
def test_as_many_ones_as_there_are_uses_or_turns(loss: Loss, dtype: str) -> None:
    n = MANY[dtype]
    with af.Graph() as graph:
        w = af.placeholder(dtype, (), "w")
        (grad,) = af.gradients(loss(w, n), w)

    found = run_step(graph, grad, {w: np.array(1, as_dtype(dtype))})

    assert found.dtype == as_dtype(dtype)
    assert float(found) == n


@pytest.mark.parametrize("dtype", HALVES)
def test_elements_that_are_gathered_are_counted_as_before(dtype: str) -> None:
    """A scatter adds up in one kernel, which never was narrow: so it stays."""
    n = MANY[dtype]
    with af.Graph() as graph:
        w = af.placeholder(dtype, (), "w")
        (grad,) = af.gradients(elements_gathered(w, n), w)

    assert float(run_step(graph, grad, {w: np.array(1, as_dtype(dtype))})) == n


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("loss", [uses_by_different_ops, reads_of_a_list_without_turns])
def test_a_sum_of_large_and_small_parts_is_rounded_once(loss: Loss, behind: bool) -> None:
    """Of 1024 + 1 + 1 + …, each 1 would be lost in bfloat16."""
    n = 1000
    with af.Graph() as graph:
        w = af.placeholder("bfloat16", (), "w")
        small = loss(w, n) / 20.0
        large = 1024.0 * wide(w)
        (grad,) = af.gradients(small + large if behind else large + small, w)

    assert float(run_step(graph, grad, {w: np.array(1, as_dtype("bfloat16"))})) == 1072


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_of_many_workers_are_added_in_float32(dtype: str, sparse: bool) -> None:
    half = as_dtype(dtype)
    values = np.random.default_rng(3).uniform(0.5, 1.5, (700, 2, 3)).astype(half)
    at = np.arange(2)
    grads: list[Any] = [(at, v) for v in values] if sparse else list(values)

    found = rows.sum_gradients(grads)

    mean = found[1] if sparse else found
    assert mean.dtype == half
    told = values.astype("float64").mean(0)
    np.testing.assert_allclose(mean.astype("float64"), told, rtol=float(limits(half).eps))

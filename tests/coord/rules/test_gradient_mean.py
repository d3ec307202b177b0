"""Contributions are folded left in rank order and divided by their number, bit for bit as a plain loop does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow import errors
from actorflow.coord.rules.gradient_mean import SPARE_BYTES, Spares, find_mixed, mean_gradients
from actorflow.values import sparse
from actorflow.values.arrays import as_dtype, same
from tests.coord import serial
from tests.support.strategies import examples

DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64")
ROWS, WIDTH = 4, 2


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) or isinstance(b, tuple):
        return type(a) is type(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return same(np.asarray(a), np.asarray(b))


@st.composite
def gradients(draw: st.DrawFn, dtype: str, sparse: bool) -> Any:
    """A gradient of a table, of numbers whose sums depend on their order, zeros of both signs among them."""
    numbers = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 3e4, -3e4, 1e-3, 7.0])
    indices = sorted(draw(st.sets(st.integers(0, ROWS - 1), max_size=ROWS))) if sparse else range(ROWS)
    values = draw(st.lists(numbers, min_size=len(indices) * WIDTH, max_size=len(indices) * WIDTH))
    array = np.array(values).reshape(len(indices), WIDTH).astype(as_dtype(dtype))
    return (np.array(indices, np.int64), array) if sparse else array


@st.composite
def contributions(draw: st.DrawFn) -> list[Any]:
    dtype = draw(st.sampled_from(DTYPES))
    sparse = draw(st.lists(st.booleans(), min_size=1, max_size=5))
    return [draw(gradients(dtype, each)) for each in sparse]


@settings(max_examples=examples(200), deadline=None)
@given(grads=contributions(), order=st.permutations(range(5)))
def test_the_fold_is_that_of_the_plain_loop_in_whatever_order_contributions_came(
    grads: list[Any], order: list[int]
) -> None:
    parts = [(rank, {"w": grad}) for rank, grad in enumerate(grads)]
    came = [parts[i] for i in order if i < len(parts)]

    with np.errstate(all="ignore"):
        wanted = serial.folded(grads)

    assert equal(mean_gradients(came)["w"], wanted)


@pytest.mark.parametrize("sparse", [False, True])
def test_one_contribution_is_passed_on_as_it_is(sparse: bool) -> None:
    grad = (np.array([1]), np.array([[-0.0, np.nan]])) if sparse else np.array([-0.0, np.nan])

    assert mean_gradients([(3, {"w": grad})])["w"] is grad


def test_scalars_are_folded_too() -> None:
    found = mean_gradients([(1, {"b": np.float32(2)}), (0, {"b": np.array(1, "float32")})])["b"]

    assert equal(found, np.array(1.5, "float32"))


def _mean_into(spares: Spares, *numbers: float) -> Any:
    grads = [np.full(SPARE_BYTES // 4, number, "float32") for number in numbers]
    return mean_gradients([(rank, {"w": grad}) for rank, grad in enumerate(grads)], spares)["w"]


def test_memory_of_a_fold_is_written_again_once_nobody_holds_it() -> None:
    spares: Spares = {}
    address = _mean_into(spares, 1, 3).ctypes.data
    found = _mean_into(spares, 5, 7)

    assert found.ctypes.data == address
    assert (found == 6).all()


@pytest.mark.parametrize("hold", [lambda a: a, lambda a: a[1:], memoryview, lambda a: a.reshape(2, -1)])
def test_a_fold_that_somebody_holds_is_not_written_again(hold: Any) -> None:
    spares: Spares = {}
    held = hold(_mean_into(spares, 1, 3))

    assert (_mean_into(spares, 5, 7) == 6).all()
    assert (np.asarray(held) == 2).all()


def test_a_spare_of_another_shape_or_dtype_is_let_be() -> None:
    for spare in (np.zeros(2, "float32"), np.zeros((2, 2)), np.zeros(4, "float32")[:2]):
        spares: Spares = {"w": [spare]}
        del spare
        grads = [np.ones((2, 2), "float32"), np.ones((2, 2), "float32")]

        assert equal(mean_gradients(list(enumerate({"w": g} for g in grads)), spares)["w"], grads[0])
        assert not spares  # and what is small is not kept


def test_contributions_are_left_as_they_were() -> None:
    grads = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    table = [(np.array([0, 2]), np.ones((2, 2))), (np.array([2]), np.ones((1, 2)))]

    mean_gradients([(0, {"w": grads[0], "t": table[0]}), (1, {"w": grads[1], "t": table[1]})])

    assert [g.tolist() for g in grads] == [[1.0, 2.0], [3.0, 4.0]]
    assert all((rows == 1).all() for _, rows in table)


def test_rows_are_divided_by_all_contributions_as_the_dense_mean_is() -> None:
    at, values = mean_gradients(
        [
            (0, {"t": (np.array([0, 2]), np.array([[2.0], [4.0]]))}),
            (1, {"t": (np.array([2, 3]), np.array([[6.0], [8.0]]))}),
        ]
    )["t"]

    assert at.tolist() == [0, 2, 3]
    assert values.ravel().tolist() == [1.0, 5.0, 4.0]


def test_a_sum_too_large_is_infinite_in_silence() -> None:
    big = np.array([3e38], "float32")

    assert np.isinf(mean_gradients([(0, {"w": big}), (1, {"w": big})])["w"]).all()


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (np.ones((3, 2)), r"rank 0 has \(2, 2\) float64, got \(3, 2\) float64 from rank 4"),
        (np.ones((2, 2), "float32"), r"got \(2, 2\) float32 from rank 4"),
        ((np.array([0]), np.ones((1, 3))), r"got rows of \(3,\) float64 from rank 4"),
    ],
)
def test_gradients_that_do_not_fit_are_refused_by_name_and_rank(other: Any, text: str) -> None:
    with pytest.raises(errors.SpecError, match=f"gradients of 'w' must fit together, {text}|{text}"):
        mean_gradients([(0, {"w": np.ones((2, 2))}), (4, {"w": other})])


@pytest.mark.parametrize("indices", [[2, 1], [1, 1], [-1, 0], [0, 4]])
@pytest.mark.parametrize("mixed", [False, True])
def test_indices_that_are_not_ascending_rows_are_refused(indices: list[int], mixed: bool) -> None:
    if indices == [0, 4] and not mixed:
        return  # how many rows there are is known from a dense one, else from the variable
    bad = (np.array(indices), np.ones((2, 2)))
    good: Any = np.ones((4, 2)) if mixed else (np.array([0]), np.ones((1, 2)))

    with pytest.raises(errors.SpecError, match="gradients of 't' from ranks 0, 1: the indices of rows are"):
        mean_gradients([(0, {"t": good}), (1, {"t": bad})])


def test_the_reference_is_told_apart_from_a_fold_in_another_order() -> None:
    """Shows that the numbers of the law above can tell."""
    grads = [np.array([x], "float32") for x in (3e38, 2e38, -2e38)]

    with np.errstate(all="ignore"):
        assert not equal(serial.folded(grads), serial.folded(grads[::-1]))
    assert sparse.sum_gradients(grads[:1]) is grads[0]


def test_rows_beside_a_dense_gradient_are_found_with_the_first_rank_of_each() -> None:
    rows = (np.array([1]), np.ones((1, 2), "float32"))
    whole = np.ones((4, 2), "float32")

    assert find_mixed([(0, {"t": rows, "w": whole}), (1, {"t": whole, "w": whole})]) == {"t": (0, 1)}
    assert find_mixed([(2, {"t": whole}), (3, {"t": whole}), (5, {"t": rows}), (7, {"t": rows})]) == {
        "t": (5, 2)
    }
    assert find_mixed([(0, {"t": rows}), (1, {"t": rows})]) == {}
    assert find_mixed([(0, {"t": rows})]) == {}

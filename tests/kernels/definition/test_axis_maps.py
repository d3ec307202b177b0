from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from actorflow.kernels.definition.axis_maps import AxisMap, through
from tests.ops.test_conformance import quiet
from tests.support.strategies import examples

LAW = settings(max_examples=examples(60), deadline=None)


@st.composite
def maps(draw: st.DrawFn) -> tuple[list[dict[int, float]], int]:
    """Elements of a few weights each, some of none, and the size of the axis that they come from."""
    size = draw(st.integers(1, 5))
    row = st.dictionaries(st.integers(0, size - 1), st.sampled_from([0.0, 1.0, 0.5, -2.0]))
    return draw(st.lists(row, max_size=5)), size


def matrix(rows: list[dict[int, float]], size: int) -> np.ndarray:
    out = np.zeros((len(rows), size))
    for i, row in enumerate(rows):
        for place, weight in row.items():
            out[i, place] = weight
    return out


def table(rows: list[dict[int, float]]) -> AxisMap:
    """The map whose elements are given as {place: weight}."""
    taps = [(i, *tap) for i, row in enumerate(rows) for tap in row.items()]
    elements, places, weights = np.array(taps).reshape(-1, 3).T
    return AxisMap.of(elements.astype(int), places.astype(int), weights, len(rows))


@LAW
@given(case=maps(), axis=st.integers(0, 2))
def test_a_map_is_the_product_with_its_matrix_and_back_with_the_transpose(case, axis: int) -> None:
    rows, size = case
    taps, dense = table(rows), matrix(rows, size)
    rng = np.random.default_rng(0)
    x, dy = (np.moveaxis(rng.standard_normal((2, n, 3)), 1, axis) for n in (size, len(rows)))

    y, dx = through(x, axis, taps, np), through(dy, axis, taps.transposed(size), np)

    np.testing.assert_allclose(y, np.moveaxis(np.tensordot(dense, x, (1, axis)), 0, axis), atol=1e-14)
    np.testing.assert_allclose(dx, np.moveaxis(np.tensordot(dense.T, dy, (1, axis)), 0, axis), atol=1e-14)


def test_what_an_element_has_no_weight_in_does_not_reach_it() -> None:
    taps = table([{0: 0.5, 2: 0.5}, {1: 1.0}, {}])

    with quiet():
        y = through(np.array([np.inf, 2.0, np.nan]), 0, taps, np)

    np.testing.assert_array_equal(y, [np.nan, 2, 0])


def test_it_keeps_its_input() -> None:
    x = np.arange(3.0)

    through(x, 0, table([{0: 0.5}, {1: 0.25}, {2: 1.0}]), np)

    assert x.tolist() == [0, 1, 2]


def test_what_takes_many_elements_is_summed_a_block_at_a_time() -> None:
    n = 100_000
    ones = table([dict.fromkeys(range(n), 1.0)])
    x = np.random.default_rng(0).standard_normal((1, n, 2))

    y, dx = through(x, 1, ones, np), through(np.ones((1, 1, 2)), 1, ones.transposed(n), np)

    np.testing.assert_allclose(y, x.sum(axis=1, keepdims=True), rtol=1e-9)
    assert dx.shape == x.shape
    assert (dx == 1).all()

"""IndexedSlices: a tensor of rows that every op takes for the dense one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.graph.builder import Tensor
from actorflow.graph.slices import IndexedSlices
from actorflow.values.sparse import Slices
from tests.support.reference import evaluate


def slices(**more: Any) -> IndexedSlices:
    return IndexedSlices(af.constant(np.ones((3, 2))), af.constant([1, -1, 1]), more.get("shape", (4, 2)))


def test_they_know_their_dense_shape_and_show_it() -> None:
    with af.Graph():
        some = slices()
        late = slices(shape=af.arrays.shape(af.placeholder("float32", (None, None))))

        assert (some.shape, some.dtype.name, some.spec.rank) == ((4, 2), "float64", 2)
        assert repr(some) == "<IndexedSlices of (4, 2) float64: constant:0 (3, 2)>"
        assert late.shape == (None, 2)
        assert late.to_dense().shape == (None, 2)


def test_dense_values_of_one_row_are_added_up() -> None:
    with af.Graph() as graph:
        dense, (indices, sums) = slices().to_dense(), slices().sum_duplicates()

    assert evaluate(graph, [dense, indices, sums])[0][:, 0].tolist() == [0, 2, 0, 1]
    assert evaluate(graph, [indices, sums])[0].tolist() == [1, 3]
    assert evaluate(graph, sums).tolist() == [[2, 2], [1, 1]]


@pytest.mark.parametrize(
    ("f", "sparse", "row"),
    [
        (lambda s: s * 3.0, True, 6),
        (lambda s: 3.0 * s, True, 6),
        (lambda s: s * af.constant(np.float64(3)), True, 6),
        (lambda s: s / 4.0, True, 0.5),
        (lambda s: -s, True, -2),
        (lambda s: s + s, True, 4),
        (lambda s: s - s * 2.0, True, -2),
        (lambda s: s * np.full((4, 2), 3.0), False, 6),
        (lambda s: s + 1.0, False, 3),
        (lambda s: 1.0 - s, False, -1),
        (lambda s: s + np.ones((4, 2)), False, 3),
        (lambda s: s[1:2], False, None),
        (lambda s: af.clip(s, -1.0, 1.0), False, 1),
        (lambda s: af.sum(s), False, None),
        (lambda s: s @ np.ones((2, 5)), False, 4),
        (lambda s: 1.0 / (s + 1.0), False, 1 / 3),
    ],
)
def test_scalars_keep_them_sparse_and_everything_else_sees_the_dense_tensor(
    f: Any, sparse: bool, row: float | None
) -> None:
    with af.Graph() as graph:
        made = f(slices())

    assert isinstance(made, IndexedSlices if sparse else Tensor)
    value = evaluate(graph, made)
    if row is not None:
        np.testing.assert_allclose(value[1], row)
    else:
        assert value.sum() in (4, 6)


def test_indices_of_two_dtypes_are_joined() -> None:
    with af.Graph() as graph:
        both = slices() + IndexedSlices(np.ones((1, 2)), af.constant(np.array([3], "uint8")), (4, 2))

    assert isinstance(both, IndexedSlices)
    assert evaluate(graph, both)[:, 0].tolist() == [0, 2, 0, 2]


def typed(dtype: str, value: float = 1) -> IndexedSlices:
    return IndexedSlices(af.constant(np.full((1, 2), value, dtype)), [1], (3, 2))


@pytest.mark.parametrize(
    ("dtypes", "mixed"),
    [
        (("float32", "float64"), "float64"),
        (("float64", "float32"), "float64"),
        (("float16", "bfloat16"), "float32"),
        (("int8", "uint8"), "int16"),
        (("float32", "complex64"), "complex64"),
        (("float32", "float32"), "float32"),
    ],
)
@pytest.mark.parametrize("f", [lambda a, b: a + b, lambda a, b: a - b * 2])
def test_sums_mix_dtypes_as_tensors_do_and_say_so(dtypes: tuple[str, str], mixed: str, f: Any) -> None:
    with af.Graph() as graph:
        a, b = (typed(d, 3) for d in dtypes)
        made = f(a, b)
        assert isinstance(made, IndexedSlices)
        dense = f(a.to_dense(), b.to_dense())

    assert str(made.spec) == str(dense.spec) == f"(3, 2) {mixed}"
    assert made.values.dtype.name == mixed
    found, wanted = evaluate(graph, [made, dense])
    assert found.dtype.name == mixed
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("dtypes", "hint"),
    [
        (
            ("float32", "int32"),
            "floating numbers and integers are not mixed; convert one with af.cast, such as af.cast(x, 'float32')",
        ),
        (("uint64", "int8"), "no integer dtype holds all values of uint64"),
    ],
)
def test_sums_of_dtypes_that_do_not_mix_are_refused_at_the_user_s_line(
    dtypes: tuple[str, str], hint: str
) -> None:
    a, b = dtypes
    with af.Graph():
        left, right = typed(a), typed(b)
        with pytest.raises(errors.SpecError) as caught:
            left + right

    assert caught.value.what == f"a sum of slices needs equal dtypes, got (3, 2) {a} and (3, 2) {b}"
    assert "test_slices.py" in str(caught.value.where)
    assert hint in str(caught.value.hint)


def test_an_update_refuses_a_sum_of_another_dtype_while_the_graph_is_built() -> None:
    with af.Graph() as graph:
        w = af.Variable(np.zeros((3, 2), "float32"), name="w")
        total = typed("float32") + typed("float64")
        key = graph.add_object("rule", af.optim.sgd(0.1))
        with pytest.raises(
            errors.SpecError,
            match=r"gradient of variable 'w' must fit \(3, 2\) float32, got \(3, 2\) float64",
        ):
            af.apply_gradients([total], [w], key)


def test_a_fetch_gives_arrays_as_they_came_and_the_dense_tensor_is_a_fetch_of_its_own() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float64", (None, 2), name="x")
        known = slices()
        late = IndexedSlices(np.ones((1, 2)), [0], af.arrays.shape(x))
        whole = known.to_dense()

    async def main() -> Any:
        async with af.Session(graph) as session:
            call = session.make_callable({"known": known}, [])
            found = await session.run((known, [late, whole]), {x: np.zeros((5, 2))})
            return found, await call()

    (first, (second, dense)), called = af.run(main())

    assert isinstance(first, Slices)
    assert first.indices.tolist() == [1, -1, 1]
    assert (first.values.shape, first.shape, second.shape) == ((3, 2), (4, 2), (5, 2))
    assert dense[:, 0].tolist() == [0, 2, 0, 1]
    assert called["known"].shape == (4, 2)


@pytest.mark.parametrize(
    ("values", "indices", "shape", "text"),
    [
        (np.ones((2, 2)), [0], (4, 2), r"slices of \(4, 2\) need a row for each index, got \(1,\) int32"),
        (np.ones((1, 3)), [0], (4, 2), r"need a row for each index, .* and values \(1, 3\) float64"),
        (np.ones((1, 2)), [0.5], (4, 2), r"need an integer for each row of values, .* \(1,\) float32"),
        (np.ones((1, 2)), [[0]], (4, 2), r"got values \(1, 2\) float64 and indices \(1, 1\) int32"),
        (np.ones(()), [0], (4,), r"need an integer for each row of values"),
        (np.ones((1, 2)), [0], (None, 2), r"how many rows there are, got shape \(None, 2\)"),
        (np.ones((1, 2)), [0], None, r"how many rows there are, got shape \(\.\.\.\)"),
        (np.ones((1, 2)), [0], (-4, 2), r"sizes cannot be negative, got \(-4, 2\)"),
    ],
)
def test_parts_that_do_not_fit_are_refused_at_the_user_s_line(
    values: Any, indices: Any, shape: Any, text: str
) -> None:
    with af.Graph(), pytest.raises(errors.SpecError, match=text) as caught:
        IndexedSlices(values, indices, shape)

    assert "test_slices.py" in str(caught.value)


def test_sums_of_two_shapes_are_refused() -> None:
    with af.Graph(), pytest.raises(errors.SpecError, match=r"shapes must agree, got \(4, 2\) and \(5, 2\)"):
        slices() + slices(shape=(5, 2))


def test_they_have_no_truth_and_no_elements_while_the_graph_is_built() -> None:
    with af.Graph():
        with pytest.raises(errors.GraphError, match="no truth value"):
            bool(slices())
        with pytest.raises(errors.GraphError, match="cannot be iterated"):
            list(slices())


def test_those_of_another_graph_are_refused() -> None:
    with af.Graph():
        foreign = slices()

    with af.Graph(), pytest.raises(errors.GraphError, match="belongs to another graph"):
        foreign.to_dense()

"""What einsum refuses, and that it computes what numpy does, pair by pair in a good order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from actorflow.kernels.definition.registry import find
from tests.ops.samples import SAMPLES
from tests.ops.test_conformance import FEW
from tests.support.placeholders import f32
from tests.support.reference import evaluate

rng = np.random.default_rng(7)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: af.einsum("i1,j", f32(2), f32(2)), "letters and one '...' a tensor, got '1' in 'i1,j->ij'"),
    (lambda: af.einsum("..ij", f32(2, 2)), "got '.' in '..ij->"),
    (lambda: af.einsum("...i...", f32(2)), "got '.' in"),
    (lambda: af.einsum("ij->ik", f32(2, 3)), "names only what inputs have, got 'k' in 'ij->ik'"),
    (lambda: af.einsum("ij->...", f32(2, 3)), "names only what inputs have, got '...' in 'ij->...'"),
    (lambda: af.einsum("ij,jk", f32(2, 3)), "one tensor for each part between commas of its equation, got 1 for 'ij,jk->ik'"),
    (lambda: af.einsum("ijk->i", f32(2, 3)), "3 axes in input 0, 'ijk' of 'ijk->i', got (2, 3) float32"),
    (lambda: af.einsum("i,i->i", f32(2), f32(2, 3)), "1 axes in input 1, 'i' of 'i,i->i', got (2, 3) float32"),
    (lambda: af.einsum("i,i->i", f32(2), f32(2, 3)), "'...' stands for axes that have no letter"),
    (lambda: af.einsum("...ij->i", f32(2)), "at least 2 axes in input 0, '...ij' of '...ij->i', got (2,) float32"),
    (lambda: af.einsum("ij,jk->ik", f32(2, 3), f32(4, 5)), "one size for 'j' in 'ij,jk->ik', got 3 and 4"),
    (lambda: af.einsum("ij,jk->ik", f32(2, 1), f32(4, 5)), "only the axes of '...' broadcast"),
    (lambda: af.einsum("ii->i", f32(2, 3)), "one size for 'i' in 'ii->i', got 2 and 3"),
    (lambda: af.einsum("...i,...i->...", f32(2, 3), f32(4, 3)), "shapes must broadcast, got (2,) and (4,)"),
    (lambda: af.einsum("i->", af.equal(f32(2), 0.0)), "einsum takes numbers, got (2,) bool"),
    (lambda: af.einsum("i,i", f32(2), np.ones(2, "int32")), "einsum needs equal dtypes, got (2,) float32 and (2,) int32"),
    (lambda: af.einsum(f32(2), "i->"), "einsum takes its equation first, then the tensors, got <Tensor"),  # type: ignore[arg-type]
    (lambda: af.tensordot(f32(2, 3), f32(3), 2), "sums at most all axes of both, got 2 for (2, 3) float32 and (3,)"),
    (lambda: af.tensordot(f32(2, 3), f32(3, 2), ([0], [0])), "axes of equal sizes in pairs, got ((0,), (0,)) for (2, 3)"),
    (lambda: af.tensordot(f32(2, 3), f32(3, 2), ([0, 1], [0])), "axes of equal sizes in pairs"),
    (lambda: af.tensordot(f32(2, 2), f32(2, 2), ([0, 0], [0, 1])), "axes must differ, got ((0, 0), (0, 1))"),
    (lambda: af.kron(f32(2), f32(2, 2)), "kron needs at least two axes, got (2,) float32"),
    (lambda: af.tensordot(af.placeholder("float32", None), f32(3)), "needs known ranks of at most 52 together"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_is_refused_while_the_graph_is_built(build: Callable[[], Any], said: str) -> None:
    with Graph(), pytest.raises(SpecError) as caught:
        build()

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("equation", "shapes", "said"),
    [
        ("ij,jk", [(2, 3), (3, 4)], "(2, 4)"),
        ("ba", [(2, 3)], "(3, 2)"),
        ("ii", [(2, 2)], "()"),
        ("b...,c", [(2, 3), (4,)], "(3, 2, 4)"),
        (" i j , j -> i ", [(2, 3), (3,)], "(2,)"),
        ("ij,jk->ik", [None, (3, 4)], "(None, 4)"),
        ("...i->...", [None], "(...)"),
        ("...i,i->i...", [(None, 1, 2), (None,)], "(2, None, 1)"),
    ],
)
def test_the_shape_follows_from_the_equation(equation: str, shapes: list[Any], said: str) -> None:
    with Graph():
        y = af.einsum(equation, *(af.placeholder("float32", s) for s in shapes))

    assert str(y.spec) == f"{said} float32"


def numpys(equation: str, arrays: Any) -> Any:
    """What numpy makes of it; a letter twice in the output is what only we take."""
    left, _, right = equation.partition("->")
    if right != "...ii":
        return np.einsum(equation, *arrays)
    plain = np.einsum(f"{left}->...i", *arrays)
    return plain[..., None] * np.eye(plain.shape[-1])


def test_values_are_those_of_numpy() -> None:
    """Where numpy takes the equation: not a letter twice in the output, nor "..." left out of it."""
    compared: set[str] = set()

    @FEW
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = data.draw(SAMPLES["einsum"].cases)
        equation = case.attrs["equation"]
        right = equation.partition("->")[2]
        if ("..." in equation and "..." not in right) or right == "ii":
            return
        told = find("einsum").function(*case.inputs, equation=equation)
        np.testing.assert_allclose(told, numpys(equation, case.inputs), rtol=1e-12, atol=1e-12)
        compared.add(equation)

    law()
    assert compared


@pytest.mark.parametrize("dtype", ["int8", "uint16", "complex64"])
def test_other_numbers_are_summed_in_their_own_dtype(dtype: str) -> None:
    a, b = (rng.integers(0, 100, s).astype(dtype) for s in ((4, 5), (5, 6)))

    told = find("einsum").function(a, b, equation="ij,jk->ik")

    assert told.dtype == dtype
    np.testing.assert_array_equal(told, a @ b)


def test_halves_are_rounded_once() -> None:
    ones = np.full((1, 4000), 1, np.float16)

    assert float(find("einsum").function(ones, ones, equation="ij,kj->ik")[0, 0]) == 4000


def test_a_letter_twice_in_the_output_writes_on_the_diagonal() -> None:
    told = find("einsum").function(np.array([1.0, 2.0]), equation="i->ii")

    assert told.tolist() == [[1, 0], [0, 2]]


def test_dots_left_out_of_the_output_are_summed() -> None:
    x = rng.normal(size=(2, 3, 4))

    np.testing.assert_allclose(find("einsum").function(x, equation="...i->i"), x.sum((0, 1)), rtol=1e-13)


@pytest.mark.parametrize("terms", [3, 6])
def test_a_chain_is_multiplied_in_the_cheaper_order(terms: int) -> None:
    """A row times matrices, from the left: a matrix times a matrix is never needed."""
    letters = "abcdefgh"
    equation = ",".join(letters[i : i + 2] for i in range(terms)) + f"->a{letters[terms]}"
    arrays = [np.zeros((1, 50)), *(np.zeros((50, 50)) for _ in range(terms - 1))]

    flops = find("einsum").cost(*arrays, equation=equation)

    assert flops == 2 * (terms - 1) * 50 * 50 + sum(a.size for a in arrays)


def test_shapes_that_come_late_are_checked_in_the_step() -> None:
    with Graph() as graph:
        a, b = af.placeholder("float64", None), af.placeholder("float64", None)
        y = af.einsum("ij,jk->ik", a, b)

    with pytest.raises(SpecError, match="einsum needs one size for 'j' in 'ij,jk->ik', got 3 and 1"):
        evaluate(graph, y, {a: np.zeros((2, 3)), b: np.zeros((1, 4))})
    with pytest.raises(SpecError, match="einsum needs an axis for every letter of 'jk'"):
        evaluate(graph, y, {a: np.zeros((2, 3)), b: np.zeros(3)})


@pytest.mark.parametrize(
    ("a", "b", "axes"),
    [
        ((2, 3, 4), (3, 4, 5), 2),
        ((2, 3), (4,), 0),
        ((2, 3), (2, 3), ([0, 1], [0, 1])),
        ((2, 3, 4), (4, 5, 2), ([0, -1], [2, 0])),
        ((2, 3, 4), (5, 3), ([1], [-1])),
    ],
)
def test_tensordot_is_that_of_numpy(a: tuple[int, ...], b: tuple[int, ...], axes: Any) -> None:
    x, y = rng.normal(size=a), rng.normal(size=b)
    with Graph() as graph:
        found = evaluate(graph, af.tensordot(af.constant(x), af.constant(y), axes))

    np.testing.assert_allclose(found, np.tensordot(x, y, axes), rtol=1e-12)


def test_blocks_are_those_of_numpy() -> None:
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(4, 5))

    np.testing.assert_array_equal(find("kron").function(a, b), np.kron(a, b))

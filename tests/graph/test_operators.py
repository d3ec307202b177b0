"""`==` on what stands for a tensor: True for the same one, never a comparison of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af

OTHERS = {
    "number": lambda: 0,
    "bool": lambda: True,
    "text": lambda: "x:0",
    "array": lambda: np.zeros(3, "float32"),
    "scalar": lambda: np.float32(0),
    "list": lambda: [0.0, 0.0, 0.0],
    "tensor": lambda: af.constant([0.0, 0.0, 0.0]),
    "variable": lambda: af.Variable([0.0, 0.0, 0.0]),
}


def made(kind: str) -> Any:
    """What stands for a tensor."""
    if kind == "tensor":
        return af.placeholder("float32", (3,), name="x")
    if kind == "variable":
        return af.Variable(np.zeros(3, "float32"), name="v")
    return af.IndexedSlices(np.ones((1, 2)), [0], (3, 2))


KINDS = ["tensor", "variable", "slices"]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_comparison_of_values_is_refused_on_either_side(kind: str, other: str) -> None:
    with af.Graph():
        x, value = made(kind), OTHERS[other]()

        for compare in (lambda: x == value, lambda: value == x):
            with pytest.raises(af.errors.GraphError, match="== of tensors compares no values") as caught:
                compare()
            assert caught.value.hint == "use af.equal(a, b), or `is` to compare the Python objects"
        for compare in (lambda: x != value, lambda: value != x):
            with pytest.raises(af.errors.GraphError, match="!= of tensors compares no values") as caught:
                compare()
            assert caught.value.hint == "use af.not_equal(a, b), or `is not` to compare the Python objects"


def test_the_error_shows_both_sides() -> None:
    with af.Graph():
        x = made("tensor")

        with pytest.raises(af.errors.GraphError) as caught:
            x == 0  # noqa: B015

    assert caught.value.what == "== of tensors compares no values, got <Tensor x:0 (3,) float32> == 0"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_one_is_equal_to_itself(kind: str) -> None:
    with af.Graph():
        x = made(kind)
        same = x

    assert x == same
    assert (x != same) is False
    assert hash(x) == hash(same)
    assert [x].index(x) == 0


def test_objects_for_one_port_or_one_variable_are_equal_and_hash_alike() -> None:
    with af.Graph() as graph:
        x, v = made("tensor"), made("variable")
    again, other = af.Tensor(graph, x.port), af.Variable.existing(graph, "v")

    assert x is not again
    assert x == again
    assert (x != again) is False
    assert v is not other
    assert v == other
    assert (v != other) is False
    assert {x: 1, v: 2}[again] == 1
    assert {x: 1, v: 2}[other] == 2
    assert len({x, again, v, other}) == 2


def test_tensors_of_equal_ports_in_two_graphs_are_two_keys() -> None:
    with af.Graph():
        x = made("tensor")
    with af.Graph():
        y = made("tensor")

    assert x.port == y.port
    assert {x: 1, y: 2}[y] == 2
    with pytest.raises(af.errors.GraphError):
        x == y  # noqa: B015


def test_many_tensors_are_found_among_the_keys_of_a_dictionary() -> None:
    with af.Graph():
        xs = [af.constant(float(i)) for i in range(200)]
    places = {x: i for i, x in enumerate(xs)}

    assert [places[x] for x in xs] == list(range(200))
    assert set(xs) - set(xs[:100]) == set(xs[100:])


def test_none_is_no_tensor_and_may_be_asked_for() -> None:
    with af.Graph():
        x = af.placeholder("float32", (), name="x")

        assert af.gradients(af.sum(af.stop_gradient(x)), x) == [None]
        assert [x] != [None]

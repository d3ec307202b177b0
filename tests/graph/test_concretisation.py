"""What Python and numpy ask of an array, and what a tensor answers: it has no value, and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import GraphError, NoValue
from tests.support.reference import evaluate

KINDS: dict[str, Callable[[], Any]] = {
    "tensor": lambda: af.placeholder("float32", (3,), name="x"),
    "scalar": lambda: af.sum(af.placeholder("float32", (3,))),
    "variable": lambda: af.Variable(np.ones(3, "float32"), name="v"),
    "parts": lambda: af.PartitionedVariable(af.ones((4,)), partitions=2, name="p"),
    "slices": lambda: af.IndexedSlices(np.ones((1, 2)), [0], (3, 2)),
}

ASKS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "np.asarray": (np.asarray, "af.stack"),
    "np.array of a list": (lambda t: np.array([t, t]), "af.stack"),
    "np.array beside a number": (lambda t: np.array([1.0, t]), "af.stack"),
    "np.stack": (lambda t: np.stack([t]), "af.stack"),
    "np.concatenate": (lambda t: np.concatenate([t, t]), "af.concat"),
    "np.mean": (np.mean, "af.mean"),
    "np.sum": (np.sum, "af.sum"),
    "np.argmax": (np.argmax, "af.argmax"),
    "np.exp": (np.exp, "af.exp"),
    "np.arctan2": (lambda t: np.arctan2(t, 1.0), "af.atan2"),
    "np.dot": (lambda t: np.dot(t, t), "af.matmul"),
    "np.allclose": (lambda t: np.allclose(t, 1), "fetch it"),
    "np.add.reduce": (np.add.reduce, "fetch it"),
    "an array's method": (lambda t: np.zeros(3)[t], "fetch it"),
    "float": (float, "fetch it"),
    "int": (int, "fetch it"),
    "complex": (complex, "fetch it"),
    "math": (math.sqrt, "fetch it"),
    "range": (range, "fetch it"),
    "an index": (lambda t: [1, 2][t], "fetch it"),
    "a format": (lambda t: f"{t:.3f}", "fetch it"),
    "a format of numbers that texts have too": (lambda t: f"{t:.3}", "fetch it"),
    "percent": (lambda t: "%.3f" % t, "fetch it"),  # noqa: UP031
    "len": (len, "tensor.shape[0]"),
    "bool": (bool, "af.where"),
    "if": (lambda t: 1 if t else 2, "af.where"),
    "iteration": (list, "af.unstack"),
    "max of Python": (max, "af.unstack"),
    "unpacking": (lambda t: (lambda a, b: a)(*t), "af.unstack"),
    "in": (lambda t: 1 in t, "af.any"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("ask", "hint"), ASKS.values(), ids=ASKS)
def test_what_needs_a_value_says_so_and_what_to_do(kind: str, ask: Callable[[Any], Any], hint: str) -> None:
    with af.Graph() as graph:
        tensor = KINDS[kind]()
        before = len(graph)

        with pytest.raises(NoValue, match="while the graph is built") as caught:
            ask(tensor)

    assert hint in str(caught.value.hint)
    assert repr(tensor) in caught.value.what
    assert isinstance(caught.value, GraphError)
    assert isinstance(caught.value, TypeError)
    assert "test_concretisation.py" in str(caught.value.where)
    assert len(graph) == before


def test_a_text_of_a_tensor_needs_no_value() -> None:
    with af.Graph():
        tensor = KINDS["tensor"]()

    assert f"{tensor}" == str(tensor) == repr(tensor) == f"{tensor!s}"


def test_numbers_of_numpy_are_not_taken_for_the_users_line() -> None:
    """What numpy calls on a tensor in its own files is built at the line of the user."""
    with af.Graph() as graph:
        tensor = KINDS["tensor"]()
        np.vectorize(lambda n: tensor * n, otypes=[object])(np.arange(2))
        sorted([2, 1], key=lambda n: [n, tensor + n][0])

    assert all("test_concretisation.py" in node.defined_at for node in graph.nodes)


def test_what_numpy_builds_of_an_array_of_tensors_is_at_the_users_line() -> None:
    with af.Graph() as graph:
        holder = np.empty(1, object)
        holder[0] = KINDS["tensor"]()
        with pytest.raises(af.errors.SpecError, match="divide takes floating"):  # by an int64 array
            np.mean(holder)

    assert len(graph) > 1
    assert all("test_concretisation.py" in node.defined_at for node in graph.nodes)


SIDES: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("sign", SIDES)
def test_a_float64_array_of_numpy_takes_the_dtype_of_the_tensor_on_both_sides(sign: str, dtype: str) -> None:
    if dtype == "complex64" and sign in ("//", "%", "**"):
        return
    build, array = SIDES[sign], np.array([1.5, 2.0, 3.0])
    with af.Graph():
        tensor = af.placeholder(dtype, (3,))

        assert build(tensor, array).dtype == dtype
        assert build(array, tensor).dtype == dtype
        assert build(tensor, np.float64(2)).dtype == build(np.float64(2), tensor).dtype == dtype
        assert build(tensor, np.array(2.0)).dtype == build(np.array(2.0), tensor).dtype == dtype


@pytest.mark.parametrize(
    "build",
    [
        lambda x, a: af.where(x > 0, x, a),
        lambda x, a: af.concat([x, a], 0),
        lambda x, a: af.stack([a, x]),
        lambda x, a: af.maximum(a, x),
        lambda x, a: x[None] @ a[:, None],
        lambda x, a: a[None] @ x[:, None],
        lambda x, a: af.linalg.einsum("i,i->", x, a),
        lambda x, a: af.clip(x, a, a),
    ],
)
def test_a_float64_array_does_not_widen_any_op_that_mixes(build: Callable[[Any, Any], Any]) -> None:
    with af.Graph():
        assert build(af.placeholder("float32", (3,)), np.ones(3)).dtype == "float32"


def test_a_variable_beside_a_float64_array_stays_what_it_is() -> None:
    with af.Graph():
        v = af.Variable(np.ones(3, "float32"), name="v")

        assert (v * np.ones(3)).dtype == (np.ones(3) * v).dtype == "float32"


def test_arrays_of_other_dtypes_are_what_they_say() -> None:
    with af.Graph():
        x = af.placeholder("float16", (3,))

        assert (x * np.ones(3, "float32")).dtype == (np.ones(3, "float32") * x).dtype == "float32"
        assert af.add(np.ones(3), np.ones(3, "float32")).dtype == "float32"
        assert af.add(np.ones(3), np.ones(3)).dtype == "float64"
        assert af.add(np.ones(3), [1.0, 2.0, 3.0]).dtype == "float64"
        assert (af.placeholder("float64", (3,)) * np.ones(3)).dtype == "float64"
        assert (x + np.ones(3, "complex128")).dtype == "complex128"


def test_a_float64_array_beside_integers_is_refused_as_a_float_is() -> None:
    with af.Graph():
        n = af.placeholder("int32", (3,))
        for build in (lambda: n * np.ones(3), lambda: np.ones(3) * n, lambda: n * 1.5):
            with pytest.raises(af.errors.SpecError):
                build()


def test_an_array_whose_values_are_too_large_says_so() -> None:
    with af.Graph():
        x = af.placeholder("float32", (3,))
        for build in (lambda: x * np.full(3, 1e300), lambda: np.full(3, 1e300) * x):
            with pytest.raises(
                af.errors.SpecError, match="no float32 tensor can hold the float64 array"
            ) as caught:
                build()
            assert caught.value.hint == "convert the tensor: af.cast(x, 'float64')"
            assert "test_concretisation.py" in str(caught.value.where)


def test_an_array_to_which_tensors_are_added_becomes_one() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (3,), name="x")
        total: Any = np.zeros(3)
        total += x
        total -= 1
        quotient, rest = divmod(np.full(3, 7.0), x)

    assert evaluate(graph, total, {x: [1, 2, 3]}).tolist() == [0, 1, 2]
    assert evaluate(graph, [quotient, rest], {x: [2, 2, 4]})[1].tolist() == [1, 1, 3]


def test_round_takes_no_digits() -> None:
    with af.Graph():
        x = af.placeholder("float32", (3,))
        assert round(x).node.op == "round"
        with pytest.raises(GraphError, match="got 2 digits"):
            round(x, 2)

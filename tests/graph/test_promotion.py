"""Tensors of two dtypes in one op: what is converted by itself, and what comes back in a gradient."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.errors import SpecError
from actorflow.graph.opdef import Promoting, table
from actorflow.values.arrays import NAMES, as_dtype
from actorflow.values.dtypes import promote
from tests.support.reference import evaluate


def of(dtype: str, *shape: int) -> af.Tensor:
    return af.placeholder(dtype, shape)


@pytest.mark.parametrize(("a", "b"), list(product(NAMES, repeat=2)))
def test_a_comparison_takes_all_pairs_that_mix_and_no_others(a: str, b: str) -> None:
    with af.Graph():
        x, y = of(a, 2), of(b, 2)
        if promote(as_dtype(a), as_dtype(b)) is None:
            with pytest.raises(SpecError, match="equal needs equal dtypes"):
                af.equal(x, y)
        else:
            assert {t.dtype for t in (inputs(af.equal(x, y)))} == {promote(as_dtype(a), as_dtype(b))}


def inputs(tensor: af.Tensor) -> list[af.Tensor]:
    return [af.Tensor(tensor.graph, port) for port in tensor.node.inputs]


MIXED: list[tuple[str, Callable[[Any, Any], af.Tensor]]] = [
    ("add", lambda a, b: a + b),
    ("where", lambda a, b: af.where(of("bool", 3, 3), a, b)),
    ("concat", lambda a, b: af.concat([a, b], 0)),
    ("stack", lambda a, b: af.stack([a, b])),
    ("matmul", lambda a, b: a @ b),
    ("einsum", lambda a, b: af.linalg.einsum("ij,jk->ik", a, b)),
    ("tensordot", lambda a, b: af.tensordot(a, b, 1)),
    ("vecdot", lambda a, b: af.vecdot(a, b)),
    ("outer", lambda a, b: af.linalg.outer(a[0], b[0])),
    ("cross", lambda a, b: af.linalg.cross(a, b)),
    ("kron", lambda a, b: af.linalg.kron(a, b)),
    ("solve", lambda a, b: af.linalg.solve(a, b)),
    ("lstsq", lambda a, b: af.linalg.lstsq(a, b)),
    ("lerp", lambda a, b: af.math.lerp(a, b, 0.5)),
    ("clip", lambda a, b: af.clip(a, b, 3)),
    ("complex", lambda a, b: af.math.complex(a, b)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "build"), MIXED, ids=[name for name, _ in MIXED])
def test_two_floating_dtypes_mix_to_the_wider(name: str, build: Callable[[Any, Any], af.Tensor]) -> None:
    with af.Graph():
        made = build(of("float32", 3, 3), of("float64", 3, 3))
        other_way = build(of("float64", 3, 3), of("float32", 3, 3))

    assert made.dtype == other_way.dtype == ("complex128" if name == "complex" else "float64")


def test_the_condition_of_where_is_not_mixed_with_its_values() -> None:
    with af.Graph(), pytest.raises(SpecError, match="the condition of where takes bool"):
        af.where(of("float32", 2), of("float32", 2), of("float64", 2))


def test_a_gradient_comes_back_in_the_dtype_of_its_own_input() -> None:
    with af.Graph() as graph:
        x, y, z = of("float32", 2), of("float64", 2), of("bfloat16", 2)
        loss = af.sum(x * y + z)
        grads = af.gradients(loss, [x, y, z])

    feeds = {x: np.array([2, 3], "float32"), y: np.array([0.1, 0.2]), z: np.zeros(2, as_dtype("bfloat16"))}
    assert [g.dtype.name for g in grads if g is not None] == ["float32", "float64", "bfloat16"]
    np.testing.assert_array_equal(evaluate(graph, grads[0], feeds), np.array([0.1, 0.2], "float32"))
    np.testing.assert_array_equal(evaluate(graph, grads[1], feeds), [2.0, 3.0])


def test_integers_mix_without_losing_a_value() -> None:
    with af.Graph() as graph:
        x, y = of("uint8", 1), of("int8", 1)
        total = x + y

    assert total.dtype == "int16"
    assert evaluate(graph, total, {x: np.array([255], "uint8"), y: np.array([-128], "int8")}).tolist() == [
        127
    ]


@pytest.mark.parametrize("dtype", ["float64", "float16", "complex64"])
def test_a_list_of_numbers_takes_the_dtype_of_the_tensor_with_all_digits(dtype: str) -> None:
    with af.Graph() as graph:
        y = af.add(of(dtype, 2), [0.1, 2])

    (constant,) = graph.constants
    assert y.dtype == dtype
    np.testing.assert_array_equal(constant, np.array([0.1, 2], dtype))


@pytest.mark.parametrize(
    ("dtype", "listed", "said"),
    [
        ("int32", [0.5, 1], "add needs equal dtypes, got (2,) int32 and (2,) float32"),
        ("int8", [300, 1], "no int8 tensor can hold list [300, 1]"),
        (
            "float16",
            [1e6, 1],
            "no float16 tensor can hold list [1000000.0, 1]: a value is too large for float16",
        ),
        ("float32", [True, False], "add takes numbers, got (2,) bool"),
    ],
)
def test_a_list_that_the_dtype_cannot_hold_is_refused(dtype: str, listed: list[Any], said: str) -> None:
    with af.Graph(), pytest.raises(SpecError) as caught:
        of(dtype, 2) + listed

    assert said in str(caught.value)


def test_a_conversion_is_a_node_at_the_line_of_the_user() -> None:
    with af.Graph() as graph:
        of("float32", 2) + of("float64", 2)

    (cast,) = [node for node in graph.nodes if node.op == "cast"]
    assert "test_promotion.py:" in cast.defined_at
    assert cast.attrs == {"dtype": "float64"}


def test_equal_dtypes_are_left_alone() -> None:
    with af.Graph() as graph:
        of("float32", 2) * of("float32", 2) + 1

    assert [node.op for node in graph.nodes if node.op == "cast"] == []


def test_the_ops_that_mix_are_those_whose_rule_says_so() -> None:
    mixing = {name for name, definition in table().items() if isinstance(definition.spec, Promoting)}

    assert {"add", "equal", "where", "concat", "stack", "matmul", "solve", "lerp"} <= mixing
    assert not {"conv2d", "scatter_update", "gather", "sum_to"} & mixing


CONSTANTS: list[tuple[Any, str, str]] = [
    (1.5, "int32", "float64 values do not fit int32"),
    (np.array([1.0]), "int8", "float64 values do not fit int8"),
    (300, "uint8", "out of bounds for uint8"),
    (np.array([300]), "uint8", "a value is too large for uint8"),
    (np.array([-1]), "uint8", "a value is too large for uint8"),
    (1e39, "float32", "a value is too large for float32"),
    (10**6, "float16", "a value is too large for float16"),
    (2**40, "int32", "out of bounds for int32"),
    (1j, "float32", "complex128 values do not fit float32"),
    (2, "bool", "int64 values do not fit bool"),
]


@pytest.mark.parametrize(("value", "dtype", "said"), CONSTANTS)
def test_a_constant_that_would_lose_more_than_digits_is_refused(value: Any, dtype: str, said: str) -> None:
    with af.Graph(), pytest.raises(SpecError) as caught:
        af.constant(value, dtype)

    assert said in caught.value.what.replace("too large to convert to C long", "out of bounds for int32")
    assert "af.cast converts with loss" in str(caught.value.hint)


def test_a_constant_is_rounded_to_the_digits_of_its_dtype() -> None:
    with af.Graph() as graph:
        af.constant([0.1, 2**24 + 1], "float32")
        af.constant([1, 2], "uint8")

    assert graph.constants[0].tolist() == [float(np.float32(0.1)), float(2**24)]
    assert graph.constants[1].dtype == "uint8"

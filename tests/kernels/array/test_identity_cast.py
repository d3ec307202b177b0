"""A cast gives one result for what does not fit, on every library, and a safe one says what it lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow.ops as af
from actorflow.errors import NumericError, SpecError
from actorflow.graph.graph import Graph
from actorflow.kernels.definition import registry
from actorflow.values.arrays import NAMES, as_dtype
from tests.kernels import strict
from tests.support.reference import call, evaluate

INTEGERS = [n for n in NAMES if as_dtype(n).kind in "iu"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def limited(value: float, dtype: str) -> int:
    """The clear, slow way: cut off, then the nearest that there is; 0 for NaN."""
    if value != value:
        return 0
    info = np.iinfo(dtype)
    if abs(value) == float("inf"):
        return int(info.max if value > 0 else info.min)
    return min(max(int(value), int(info.min)), int(info.max))


def edges(dtype: str) -> np.ndarray:
    """Floats around all the bounds that integers have."""
    near = [
        s * (2.0**b + d)
        for b in (7, 8, 15, 16, 31, 32, 63, 64)
        for d in (-1.0, -0.5, 0.0, 0.5, 1.0)
        for s in (1, -1)
    ]
    rest = [0.0, -0.0, 0.9, -0.9, -1.0, 3.7, 1e30, -1e30, float("inf"), -float("inf"), float("nan")]
    with np.errstate(all="ignore"):
        return np.array(near + rest, "float64").astype(as_dtype(dtype))


@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_float_becomes_the_nearest_integer_that_there_is(dtype: str, to: str) -> None:
    x = edges(dtype)

    with np.errstate(all="ignore"):
        (made,) = call("cast", [x], {"dtype": to})
        every = registry.table()["cast", registry.EVERY].function(x, dtype=to)
        one_by_one = [call("cast", [x[i : i + 1]], {"dtype": to})[0].item() for i in range(len(x))]

    told = [limited(float(v), to) for v in x]
    assert made.tolist() == every.tolist() == one_by_one == told
    assert made.dtype == every.dtype == to


@pytest.mark.parametrize("to", INTEGERS)
def test_the_same_of_a_library_without_habits_of_numpy(to: str) -> None:
    x = edges("float32")

    with np.errstate(all="ignore"), strict.library() as xp:
        made = strict.given(registry.table()["cast", registry.EVERY].on(xp)(strict.taken(x), dtype=to))

    assert made.tolist() == [limited(float(v), to) for v in x]


def test_integers_wrap_floats_overflow_to_infinity_and_all_but_zero_is_true() -> None:
    cases: list[tuple[np.ndarray, str, list[Any]]] = [
        (np.array([300, -1, 127]), "int8", [44, -1, 127]),
        (np.array([300, -1]), "uint8", [44, 255]),
        (np.array([1e39, -1e39, 0.1]), "float32", [float("inf"), -float("inf"), float(np.float32(0.1))]),
        (np.array([70000, 2049]), "float16", [float("inf"), 2048.0]),
        (np.array([0.0, -0.0, 0.1, np.nan]), "bool", [False, False, True, True]),
        (np.array([True, False]), "complex64", [1 + 0j, 0j]),
    ]
    for x, dtype, told in cases:
        with np.errstate(all="ignore"):
            (made,) = call("cast", [x], {"dtype": dtype})
        assert made.tolist() == told


LOST = [
    (np.array([1.0, 2.5, 3.5]), "int32", "got 2.5 at index (1,), which int32 makes 2; 2 of 3 would change"),
    (np.array([1.0, np.nan]), "int64", "got nan at index (1,), which int64 makes 0; 1 of 2"),
    (np.array(2.0**63), "int64", "got 9.223372036854776e+18, which int64 makes 9223372036854775807"),
    (np.array([[0.0], [-1.0]]), "uint8", "got -1.0 at index (1, 0), which uint8 makes 0"),
    (np.array([2**31]), "int32", "got 2147483648 at index (0,), which int32 makes -2147483648"),
    (np.array([-1]), "uint64", "got -1 at index (0,), which uint64 makes 18446744073709551615"),
    (
        np.array([2**64 - 1], "uint64"),
        "int64",
        "got 18446744073709551615 at index (0,), which int64 makes -1",
    ),
    (np.array([0.5, 0.1]), "float32", "got 0.1 at index (1,), which float32 makes 0.10000000149011612"),
    (np.array([1e39]), "float32", "which float32 makes inf"),
    (np.array([2**53, 2**53 + 1]), "float64", "got 9007199254740993 at index (1,), which float64 makes"),
    (np.array([2**63 - 1]), "float64", "got 9223372036854775807 at index (0,)"),
    (np.array([2**31 - 1], "int32"), "float32", "got 2147483647 at index (0,)"),
    (np.array([0.1 + 1j]), "complex64", "got (0.1+1j) at index (0,)"),
    (np.array([2]), "bool", "got 2 at index (0,), which bool makes True"),
]


@pytest.mark.parametrize(("x", "dtype", "said"), LOST, ids=[f"{x.dtype.name} {d}" for x, d, _ in LOST])
def test_a_safe_cast_names_the_first_value_that_would_change(x: np.ndarray, dtype: str, said: str) -> None:
    for function in (registry.table()["cast", lib].function for lib in (registry.EVERY, "numpy")):
        with np.errstate(all="ignore"), pytest.raises(NumericError) as caught:
            function(x, dtype=dtype, safe=True)

        assert said in caught.value.what
        assert "leave safe out" in str(caught.value.hint)


KEPT = [
    (np.array([1.0, -2.0, -0.0]), "int8"),
    (np.array([0.5, np.nan, np.inf]), "float16"),
    (np.array([0, 1]), "bool"),
    (np.array([2**40], "int64"), "float32"),
    (np.array([2**63], "uint64"), "float64"),
    (np.array([1, 2], "int64"), "uint8"),
    (np.array([], "float64"), "int8"),
    (np.array([True]), "float32"),
    (np.array([1 + 2j, np.nan]), "complex64"),
]


@pytest.mark.parametrize(("x", "dtype"), KEPT, ids=[f"{x.dtype.name} {d}" for x, d in KEPT])
def test_a_safe_cast_gives_values_that_are_kept(x: np.ndarray, dtype: str) -> None:
    for function in (registry.table()["cast", lib].function for lib in (registry.EVERY, "numpy")):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(function(x, dtype=dtype, safe=True).astype(x.dtype), x)


def test_a_safe_cast_of_a_graph_fails_in_the_step() -> None:
    with Graph() as graph:
        x = af.placeholder("float32", (None,))
        y = af.cast(x, "int32", safe=True)

    assert evaluate(graph, y, {x: np.array([3, 4], "float32")}).tolist() == [3, 4]
    with pytest.raises(NumericError, match=r"a safe cast keeps every value, got 0.5 at index \(1,\)"):
        evaluate(graph, y, {x: np.array([3, 0.5], "float32")})


def test_a_cast_that_cannot_lose_is_not_checked() -> None:
    with Graph():
        y = af.cast(af.placeholder("int8", ()), "int32", safe=True)

    assert y.node.attrs == {"dtype": "int32"}


def test_complex_numbers_become_real_by_name_only() -> None:
    with Graph(), pytest.raises(SpecError, match="cannot drop the imaginary part") as caught:
        af.cast(af.placeholder("complex64", ()), "float32")

    assert caught.value.hint == "take af.real of it, or af.abs"

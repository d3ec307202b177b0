from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from tests.support.reference import call, evaluate


def drawn(seed: int, own: int | None = None, before: int = 0) -> bytes:
    """What the first firing of a random node draws in a graph of this seed."""
    with Graph(seed=seed) as graph:
        for _ in range(before):
            af.constant(0.0)
        node = af.random_normal((8,), seed=own).node
    assert graph.nodes[-1] is node
    (value,) = call(node.op, [], node.attrs)
    return bytes(value.tobytes())


def test_same_graph_draws_the_same() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1, own=5) == drawn(1, own=5)


def test_graph_seed_own_seed_and_place_each_change_the_draw() -> None:
    draws = [drawn(1), drawn(2), drawn(1, own=0), drawn(1, own=1), drawn(2, own=1), drawn(1, before=1)]

    assert len(set(draws)) == len(draws)


def test_own_seed_does_not_depend_on_the_place() -> None:
    assert drawn(1, own=5) == drawn(1, own=5, before=3)


def test_seeds_are_plain_int64_data() -> None:
    with Graph(seed=-1):
        seeds = [af.random_uniform((1,), seed=s).node.attrs["seed"] for s in (0, -7, 2**64 + 1)]

    assert len(set(seeds)) == 3
    assert all(0 <= s < 2**63 for s in seeds)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: af.random_normal((2,), dtype="int32"), "random numbers are floating, got dtype int32"),
        (lambda: af.random_uniform((2, None)), r"need a known shape, got \(2, None\)"),  # type: ignore[arg-type]
        (lambda: af.random_normal((2,), stddev=-1.0), "cannot be negative, got -1.0"),
        (lambda: af.random_uniform((2,), 1.0, 0.0), "low 1.0 and high 0.0"),
        (lambda: af.random_uniform((-2,)), "sizes cannot be negative"),
        (lambda: af.random_uniform((2,), float("nan"), 0.0), "low nan"),
        (
            lambda: af.random_truncated_normal((2,), dtype="int32"),
            "random numbers are floating, got dtype int32",
        ),
        (lambda: af.random_truncated_normal((2,), stddev=-1.0), "cannot be negative, got -1.0"),
        (lambda: af.random_exponential((2,), dtype="bool"), "random numbers are floating, got dtype bool"),
        (lambda: af.random_exponential((2,), 0), "a rate is positive, got 0"),
        (lambda: af.random_exponential((2,), float("nan")), "a rate is positive, got nan"),
        (
            lambda: af.random_exponential((2,), af.placeholder("float64", ())),
            "equal dtypes, got .* float32 and .* float64",
        ),
        (lambda: af.random_exponential((2,), af.placeholder("float32", (3,))), "shapes must broadcast"),
    ],
)
def test_what_cannot_be_drawn_is_refused(build: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: af.random_uniform((2,), 0, 1e39), "takes numbers up to 3.4028e\\+38, got high 1e\\+39"),
        (lambda: af.random_uniform((2,), 0, 1e5, "float16"), "takes numbers up to 65504, got high 100000"),
        (lambda: af.random_uniform((2,), 0, float("inf")), "got high inf"),
        (lambda: af.random_normal((2,), 1e5, 1, "float16"), "got mean 100000"),
        (lambda: af.random_normal((2,), float("nan")), "got mean nan"),
        (lambda: af.random_normal((2,), 0, float("inf")), "got stddev inf"),
        (
            lambda: af.random_normal((2,), 0, 6e4, "float16"),
            "5.8 deviations from the mean, which float16 does",
        ),
        (lambda: af.random_truncated_normal((2,), 6e4, 6e4, "float16"), "2.0 deviations from the mean"),
        (lambda: af.random_exponential((2,), 1e-300), "the largest number for rate"),
        (lambda: af.linspace(0, 1e5, 3, dtype="float16"), "linspace of float16 takes numbers up to 65504"),
    ],
)
def test_parameters_that_the_dtype_cannot_hold_are_refused(build: Any, message: str) -> None:
    with Graph(), pytest.raises(SpecError, match=message):
        build()


@pytest.mark.parametrize(("high", "dtype"), [(3e38, "float32"), (1.7e308, "float64")])
def test_a_range_wider_than_the_dtype_holds_is_drawn_within(high: float, dtype: str) -> None:
    with Graph(seed=1) as graph:
        drawn = evaluate(graph, af.random_uniform((1000,), -high, high, dtype))

    assert drawn.dtype == dtype
    assert drawn.min() >= np.array(-high, dtype)
    assert drawn.max() < np.array(high, dtype)
    assert abs(float(np.mean(drawn / high))) < 0.06
    assert 0.5 < float(np.std(drawn / high)) < 0.65

from __future__ import annotations

from typing import Any

import pytest

import actorflow.kernels  # noqa: F401  fills the table
import actorflow.ops as af
from actorflow.errors import SpecError
from actorflow.graph.graph import Graph
from tests.reference import call


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

"""Routines compute with scalars as kernels would, and by operators where there are some."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow.dataflow.engine.compiled_body import CompiledBody, compile_body
from tests.support.sessions import run_step


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of the routines that sessions write."""
    sources: list[str] = []

    def listen(*args: Any) -> CompiledBody:
        found = compile_body(*args)
        sources.append(found.source)
        return found

    monkeypatch.setattr("actorflow.dataflow.engine.partition.compile_body", listen)
    return sources


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize("trips", [0, 1, 7])
def test_a_loop_of_scalars_gives_what_a_loop_of_numpy_gives(dtype: str, trips: int) -> None:
    first, step = np.asarray(3, dtype), np.asarray(7, dtype)
    with af.Graph() as graph:
        n = af.placeholder("int32", (), name="n")
        x, y = (af.placeholder(dtype, (), name=name) for name in ("x", "y"))
        _, s, odd = af.while_loop(
            lambda i, s, odd: i < n,
            lambda i, s, odd: (i + 1, s * y - x, af.not_equal(odd, s > y)),
            (0, x, False),
        )

    told, told_odd = run_step(graph, [s, odd], {n: trips, x: first, y: step})

    wanted, wanted_odd = first, np.bool_(False)
    with np.errstate(all="ignore"):
        for _ in range(trips):
            wanted, wanted_odd = np.subtract(np.multiply(wanted, step), first), wanted_odd != (wanted > step)
    assert np.asarray(told).dtype == dtype
    assert np.asarray(told).tobytes() == np.asarray(wanted).tobytes()
    assert told_odd == wanted_odd


def test_sums_that_run_over_wrap_in_silence() -> None:
    most = np.iinfo(np.int32).max
    with af.Graph() as graph:
        x = af.placeholder("int32", (), name="x")
        _, s = af.while_loop(lambda i, s: i < 1, lambda i, s: (i + 1, s + x), (0, x))

    assert run_step(graph, s, {x: most}) == -2


def test_scalars_meet_in_operators_and_arrays_in_kernels(written: list[str]) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (3,), name="x")
        i, s = af.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s * s), (0, x))

    run_step(graph, [i, s], {x: np.ones(3, np.float32)})

    (source,) = written
    assert " < c" in source
    assert " + c" in source
    assert " * " not in source


def test_loops_in_loops_take_scalars_from_around() -> None:
    with af.Graph() as graph:
        n = af.placeholder("int32", (), name="n")

        def inner(i: Any, total: Any) -> Any:
            _, s = af.while_loop(lambda j, s: j < i, lambda j, s: (j + 1, s + i * n), (0, total))
            return i + 1, s

        _, total = af.while_loop(lambda i, s: i < n, inner, (0, 0))

    assert run_step(graph, total, {n: 5}) == sum(i * 5 for i in range(5) for _ in range(i))

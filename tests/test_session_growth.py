"""Graphs that grow between steps: what a session keeps of equal programs, and when it warns."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import pytest

import actorflow as af
from actorflow import errors
from actorflow.plan.growth_warning import MANY


def test_what_is_built_again_runs_on_the_actors_that_are_there() -> None:
    async def main() -> None:
        with af.Graph() as graph:
            x, v = af.placeholder("float32", ()), af.Variable(2.0, name="v")
            async with af.Session(graph) as session:
                found = []
                for k in range(4):
                    y = af.tanh(x * 0.0) + v * 3.0
                    found.append(float(await session.run(y, {x: k})))
                    await session.run(v.assign(x), {x: k})
                assert found == [6, 0, 3, 6]
                assert session.stats().plans >= 8
                assert session.stats().partitions == 3  # a first value, a sum, an assignment
                partitions = {id(plan.target) for plan in session._plans.known.values()}
                assert len(partitions) == session.stats().partitions

    af.run(main())


def test_other_programs_run_on_actors_of_their_own() -> None:
    async def main() -> list[float]:
        with af.Graph() as graph:
            x = af.placeholder("float32", ())
            async with af.Session(graph) as session:
                return [float(await session.run(x * float(k), {x: 1.0})) for k in range(5)]

    assert af.run(main()) == [0, 1, 2, 3, 4]


def test_random_numbers_of_nodes_built_again_are_those_of_the_new_nodes() -> None:
    async def main() -> list[float]:
        with af.Graph() as graph:
            nodes = [af.random.uniform(()) for _ in range(3)]
            found = []
            for node in nodes:
                async with af.Session(graph) as session:
                    found.append(float(await session.run(node)))
            async with af.Session(graph) as session:
                for node in nodes:
                    await session.run(node)
                assert session.stats().partitions == 3
            return found

    assert len(set(af.run(main()))) == 3  # three nodes on one line, each with a stream of its own


def test_errors_name_the_line_of_what_failed() -> None:
    async def main() -> list[str]:
        with af.Graph() as graph:
            x = af.placeholder("float32", (None,))
            async with af.Session(graph) as session:
                lines = []
                for build in (lambda: af.math.check_numerics(x, "x"), lambda: af.math.check_numerics(x, "x")):
                    with pytest.raises(errors.NumericError) as caught:
                        await session.run(build(), {x: [float("nan")]})
                    assert caught.value.where is not None
                    lines.append(str(caught.value.where.defined_at))
                return lines

    (line,) = set(af.run(main()))
    assert line.startswith("tests/test_session_growth.py:")


@pytest.mark.usefixtures("only_new_garbage")
def test_a_plan_that_is_dropped_takes_its_actors_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actorflow.session.plan_cache.MAX_PLANS", 2)

    async def main() -> int:
        with af.Graph() as graph:
            x = af.placeholder("float32", ())
            async with af.Session(graph) as session:
                for k in range(6):
                    await session.run(x + float(k), {x: 1.0})
                gc.collect()
                return session.stats().partitions

    assert af.run(main()) == 2


def loop(turns: int, *, inside: bool) -> list[Any]:
    async def main() -> None:
        with af.Graph() as graph:
            x = af.placeholder("float32", ())
            outside = [x + float(k) for k in range(turns)]
            async with af.Session(graph) as session:
                for k in range(turns):
                    y = x + float(k) if inside else outside[k]
                    await session.run(y, {x: 1.0})

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        af.run(main())
    return told


def test_a_loop_that_builds_what_it_runs_is_warned_once_with_its_line() -> None:
    (told,) = loop(MANY + 20, inside=True)

    assert told.category is errors.GrowingGraph
    assert told.filename == __file__
    assert "the graph grows with every step: what tests/test_session_growth.py:" in str(told.message)
    assert f"has been planned {MANY + 1} times" in str(told.message)


def test_a_loop_that_runs_what_was_built_before_is_not() -> None:
    assert loop(MANY + 20, inside=False) == []

"""A run over a pipeline gives the losses of its batches, stops wherever it stops, and goes on from there.

Under drawn schedules, with real sessions: an error at any element ends the run with that error and
leaves nothing open; a run stopped after any step and gone on with has the very losses of one that was
not stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actorflow as af
from actorflow import errors, sim
from actorflow.data.pipeline import Pipeline
from actorflow.ops.state.variable import Variable
from actorflow.sim.engine.schedulers import Schedule
from actorflow.training.batches import Batches
from actorflow.training.events import EpochDone, Event, StepDone
from actorflow.training.trainer import train
from tests.laws.test_pipeline_law import STAGES, Failing, Watched
from tests.support.faults import planted
from tests.support.strategies import LIMITS, examples, plan_of_the_fault


def fed(values: Any) -> dict[str, Any]:
    return {"x": np.asarray(values, "float32")}


def line(pipeline: Callable[[int], Pipeline], *, chance: bool, epochs: int = 2) -> af.Program:
    """Learns w of w * x = 3 * x; with chance, of x that is noisy in the graph."""
    with af.Graph(seed=5) as graph:
        x = af.placeholder("float32", (None,), name="x")
        w = af.Variable(np.float32(0.5), name="w")
        noisy = x + af.random.normal((), stddev=0.1) if chance else x
        loss = af.mean(af.square(noisy * w - 3.0 * x))
        update = af.minimize(loss, af.optim.sgd(1e-3))
    return af.Program(graph=graph, loss=loss, train=update, batches=pipeline, epochs=epochs)


async def losses(
    program: af.Program, session: af.Session, position: Any = None, stop: int | None = None
) -> tuple[list[float], Any]:
    """The loss of each step and the mean of each epoch, until after a step; and where that was."""
    found, where = [], position
    async with aclosing(train(program, session, position=position)) as run:
        async for event in run:
            if isinstance(event, StepDone | EpochDone):
                found.append(event.loss)
            where = event.position()
            if event.step == stop and isinstance(event, StepDone):
                break
    return found, where


def alone(main: Callable[[], Any]) -> Callable[[], Any]:
    """`main`, which must leave no task behind."""

    async def run() -> Any:
        result = await main()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return run


async def into(seen: list[Event], run: AsyncGenerator[Event, None]) -> None:
    async with aclosing(run) as events:
        async for event in events:
            seen.append(event)  # noqa: PERF401  what came before an error is to stay


def failing(stage: str, index: int, epoch: int, batch: int, opened: list[int]) -> Callable[[], Any]:
    """A run whose pipeline fails at that element of that epoch; checks that it ends there, as it should."""
    size = 7

    def pipeline(run: int) -> Pipeline:
        fails = run == epoch
        source = Watched(
            size, opened, (0, index) if fails and "source" in stage else None, "blocking" in stage
        )
        made = Pipeline(source)
        if stage in STAGES:
            made = STAGES[stage](made, Failing(index, 0) if fails else int)
        return made.batch(batch).map(fed).prefetch(1)

    async def main() -> None:
        seen: list[Event] = []
        program = line(pipeline, chance=False, epochs=3)
        async with af.Session(program.graph, threads=1) as session:
            with pytest.raises(errors.InputError, match=f"element {index} of epoch 0") as caught:
                await into(seen, train(program, session))
            assert opened == []
            assert isinstance(caught.value.__cause__, OSError if "source" in stage else ZeroDivisionError)
        assert (
            sum(isinstance(event, StepDone) for event in seen) == epoch * -(-size // batch) + index // batch
        )

    return alone(main)


@settings(max_examples=examples(80))
@given(
    stage=st.sampled_from([*STAGES, "source", "blocking source"]),
    index=st.integers(0, 6),
    epoch=st.integers(0, 2),
    batch=st.integers(1, 3),
    schedule=sim.schedules(),
)
def test_an_error_at_any_element_ends_the_run_with_it_and_closes_everything(
    stage: str, index: int, epoch: int, batch: int, schedule: Schedule
) -> None:
    sim.run(failing(stage, index, epoch, batch, []), schedule, limits=LIMITS)


def mixed(epoch: int) -> Pipeline:
    """Five batches of an epoch, in an order of its own."""
    return af.data.numbers(10).map(float, threads=2).shuffle(4, seed=epoch).batch(2).map(fed).prefetch(1)


def in_two(stop: int, *, chance: bool) -> Callable[[], Any]:
    """A run in one and a run in two parts, with one session: the same losses, bit for bit."""

    async def main() -> None:
        program = line(mixed, chance=chance)
        async with af.Session(program.graph, threads=1) as session:
            whole, _ = await losses(program, session)
        async with af.Session(program.graph, threads=1) as session:
            first, position = await losses(program, session, stop=stop)
            second, _ = await losses(program, session, position)
        assert [*first, *second] == whole

    return alone(main)


@settings(max_examples=examples(40))
@given(stop=st.integers(1, 9), chance=st.booleans(), schedule=sim.schedules())
def test_a_run_in_two_parts_has_the_losses_of_a_run_in_one(
    stop: int, chance: bool, schedule: Schedule
) -> None:
    sim.run(in_two(stop, chance=chance), schedule, limits=LIMITS)


@pytest.mark.parametrize("stop", [1, 4, 5, 7])
def test_without_chance_another_session_goes_on_with_the_same_variables(stop: int) -> None:
    program = line(mixed, chance=False)
    with program.graph:
        value = af.placeholder("float32", (), name="value")
        assign = Variable.existing(program.graph, "w").assign(value)

    async def main() -> None:
        async with af.Session(program.graph) as session:
            whole, _ = await losses(program, session)
        async with af.Session(program.graph) as session:
            first, position = await losses(program, session, stop=stop)
            kept = await session.run("w")
        async with af.Session(program.graph) as session:
            await session.run(assign, {value: kept})
            second, _ = await losses(program, session, position)
        assert [*first, *second] == whole

    asyncio.run(main())


# -- the laws can fail ---------------------------------------------------------------------------------


def test_the_law_finds_batches_that_are_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stays(self: Any, *why: object) -> None:
        pass

    monkeypatch.setattr(Batches, "__aexit__", stays)
    with pytest.raises(AssertionError):
        sim.run(failing("threads", 3, 0, 1, []), sim.Plan(""), limits=LIMITS)


def test_the_law_finds_a_position_of_what_was_made_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    @planted(monkeypatch, Batches, "position")
    def ahead(position: Any, self: Any) -> Any:
        stream, unfixed = position(self)
        assert stream is not None
        ready = sum(stage.fill for stage in self.stats().stages[-2:])
        return {**stream, "taken": stream["taken"] + ready}, unfixed

    plan_of_the_fault(in_two(3, chance=False))

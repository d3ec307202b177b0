"""The training loop over pipelines: what it tells of their input, and how it goes on at a position."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.data.pipeline import Pipeline
from actorflow.errors import ConfigError, InputError, ProgramError
from actorflow.training.events import EpochDone, Event, RunDone, StepDone
from actorflow.training.trainer import train
from tests.data.pipelines import Unsized, numbers_from
from tests.support.recorded import Recorder, events, feeds, program


def fed(value: int) -> dict[str, float]:
    return {"x": float(value)}


def numbers(n: int = 4, threads: int | None = None) -> Pipeline:
    return Pipeline(numbers_from(n)).map(fed, threads=threads)


def timeless(told: list[Event]) -> list[Any]:
    """What is told, without what depends on the clock of a pipeline and on when it is asked."""
    return [
        (type(e).__name__, e.epoch, e.step, e.total, e.loss, e.metrics, e.train_s, e.messages, e.position())
        for e in told
    ]


def test_a_pipeline_gives_the_batches_of_an_epoch_by_the_names_of_placeholders() -> None:
    session = Recorder()

    told = events(program(lambda epoch: numbers(2 + epoch)), session)

    assert session.fed == [0.0, 1.0, 0.0, 1.0, 2.0]
    assert [e.total for e in told] == [4, 4, 4, 5, 5, 5, 5, 5]
    assert told[-1].input.stats is not None
    assert [(s.label, s.elements) for s in told[-1].input.stages] == [("numbers", 5), ("map 'fed'", 5)]


def test_a_pipeline_that_knows_no_length_is_learned_from_its_first_epoch() -> None:
    told = events(program(lambda _: Pipeline(Unsized(2)).map(fed)))

    assert [e.total for e in told] == [None, None, 4, None, None, 4, 4]


class Slow:
    """Batches that take 4 s each to come, in one epoch; a step takes 1 s."""

    def __init__(self, session: Recorder) -> None:
        self.session = session

    def __call__(self, epoch: int) -> Iterator[Mapping[Any, Any]]:
        for each in feeds(1, 2):
            if epoch == 1:
                self.session.seconds += 4.0
            yield each


def test_waiting_is_told_for_each_epoch_and_for_the_whole_run() -> None:
    session = Recorder()

    told = events(program(Slow(session)), session)

    shares = [(type(e).__name__, e.input.waiting) for e in told]
    assert shares == [
        ("StepDone", 0.0),
        ("StepDone", 0.0),
        ("EpochDone", 0.0),
        ("StepDone", 0.8),
        ("StepDone", 0.8),
        ("EpochDone", 0.8),
        ("RunDone", 8 / 12),
    ]
    assert [str(e.input) for e in told[2:4]] == ["", "input-bound: batches 80 %"]


def test_evaluation_and_test_are_no_part_of_the_time() -> None:
    session = Recorder()

    async def judge(_: Any) -> dict[str, float]:
        session.seconds += 100.0
        return {}

    told = events(program(Slow(session), evaluate=judge, test=judge), session)

    assert (told[-1].input.waited_s, told[-1].input.seconds) == (8.0, 12.0)


@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize("how", ["limit", "break", "raise", "cancel", "fail"])
@pytest.mark.usefixtures("only_new_garbage")
def test_a_pipeline_is_left_however_the_run_ends(how: str, threads: int | None) -> None:
    async def main() -> None:
        what = program(lambda _: numbers(100, threads))
        session = Recorder()
        if how == "fail":
            what = program(lambda _: Pipeline(numbers_from(3)).map(lambda v: {"y": v}))

        async def run() -> None:
            limits: Any = {"steps": 3} if how == "limit" else {}
            async with aclosing(train(what, session, clock=session, **limits)) as told:
                async for event in told:
                    if event.step == 3 and how != "limit":
                        if how == "raise":
                            raise LookupError
                        if how == "cancel":
                            task.cancel()
                            await asyncio.sleep(0)
                        break

        task = asyncio.ensure_future(run())
        (end,) = await asyncio.gather(task, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        kinds = {"raise": LookupError, "cancel": asyncio.CancelledError, "fail": KeyError}
        assert type(end) is kinds.get(how, type(None))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()


def test_a_generator_that_somebody_holds_is_closed_before_the_run_goes_on() -> None:
    closed: list[int] = []
    held: list[Any] = []

    async def batches(epoch: int) -> AsyncIterator[Mapping[Any, Any]]:
        try:
            for value in range(100):
                yield {"x": value}
        finally:
            await asyncio.sleep(0)
            closed.append(epoch)

    def keep(epoch: int) -> Any:
        held.append(batches(epoch))
        return held[-1]

    async def main() -> None:
        session = Recorder()
        async with aclosing(train(program(keep), session, clock=session, steps=3)) as told:
            async for event in told:
                if isinstance(event, EpochDone):
                    assert closed == [0]
        assert closed == [0]

    asyncio.run(main())


def test_an_error_of_the_pipeline_ends_the_run_as_it_is() -> None:
    session = Recorder()

    with pytest.raises(InputError, match="map 'bad' failed at element 2 of epoch 0: ZeroDivisionError"):
        events(program(lambda _: Pipeline(numbers_from(4)).map(bad).map(fed)), session)

    assert session.fed == [-0.5, -1.0]


def bad(value: int) -> float:
    return 1 / (value - 2)


# -- going on ----------------------------------------------------------------------------------------


KINDS: dict[str, Callable[[int], Any]] = {
    "pipeline": lambda epoch: numbers(3 + epoch).shuffle(3, seed=epoch),
    "threads": lambda epoch: numbers(3 + epoch, threads=2).shuffle(2, seed=epoch),
    "no length": lambda epoch: Pipeline(Unsized(3)).map(fed).repeat(1 + epoch),
    "list": lambda epoch: feeds(*range(epoch, 4)),
    "generator": lambda epoch: iter(feeds(*range(epoch, 4))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on_after_every_event_as_if_it_had_not_stopped(kind: str) -> None:
    what = program(KINDS[kind], epochs=3)
    whole = events(what)

    for k, event in enumerate(whole[:-2]):
        position = json.loads(json.dumps(event.position()))
        session = Recorder()
        told = events(what, session, position=position)

        assert timeless(told) == timeless(whole[k + 1 :]), (k, position)
        assert len(session.fed) == whole[-1].step - event.step


@given(parts=st.lists(st.integers(1, 4), max_size=6))
def test_a_run_may_stop_by_its_limit_as_often_as_it_likes(parts: list[int]) -> None:
    what = program(lambda epoch: numbers(3 + epoch), epochs=3)
    session, position, done = Recorder(), None, 0

    for part in parts:
        done = min(done + part, 12)
        last = events(what, session, position=position, epochs=3, steps=done)[-1]
        assert (last.step, len(session.fed)) == (done, done)
        position = last.position()
        if done == 12:
            break

    if done < 12:
        events(what, session, position=position, epochs=3)
    assert session.fed == [0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4]


def test_a_run_that_is_over_has_nothing_to_go_on_with() -> None:
    what = program(lambda _: numbers(2))
    last = events(what)[-1]

    with pytest.raises(ConfigError, match="nothing is left to train: 2 epochs and 4 steps are done\n  try:"):
        events(what, position=last.position())
    with pytest.raises(ConfigError, match="nothing is left to train"):
        events(what, position=last.position(), steps=3)
    assert events(what, position=last.position(), epochs=3)[-1].step == 6


def test_what_is_no_position_is_refused_before_a_batch_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"what an event's position\(\) gave, got {'taken': 3}"):
        events(program(lambda _: pytest.fail("asked")), position={"taken": 3})


def test_a_position_of_another_pipeline_is_refused() -> None:
    position = events(program(lambda _: numbers(4)))[1].position()

    with pytest.raises(InputError, match="this position is of another pipeline"):
        events(program(lambda _: numbers(5)), position=position)
    with pytest.raises(ProgramError, match="the position is of a pipeline"):
        events(program(lambda _: feeds(1, 2, 3, 4)), position=position)


def test_batches_in_no_fixed_order_say_so_when_the_position_is_asked_for() -> None:
    told = events(program(lambda _: Pipeline(numbers_from(3)).map(fed, threads=2, ordered=False), epochs=1))

    with pytest.raises(InputError, match="no position is fixed behind map 'fed'"):
        told[0].position()
    assert isinstance(told[-2], EpochDone)
    assert told[-2].position()["epoch"] == 1  # between epochs there is one


def test_the_position_is_that_of_its_event_whenever_it_is_asked_for() -> None:
    told = events(program(lambda _: numbers(3), epochs=1))

    positions = [e.position() for e in told if isinstance(e, StepDone)]
    assert [(p["taken"], p["stream"]["taken"]) for p in positions] == [(1, 1), (2, 2), (3, 3)]
    assert isinstance(told[-1], RunDone)
    assert told[-1].training_position == replace(told[-2].training_position)

"""The training loop over a session that only remembers what it was asked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import NumericError, ProgramError
from actorflow.graph.graph import Graph
from actorflow.training.events import EpochDone, RunDone, StepDone
from actorflow.training.trainer import train
from tests.support.recorded import Recorder, events, feeds, program, scalar


def test_every_step_and_epoch_is_told_in_order() -> None:
    session = Recorder()

    told = events(program(lambda epoch: feeds(epoch, epoch + 1)), session)

    assert session.fed == [0, 1, 1, 2]
    assert [type(e).__name__ for e in told] == ["StepDone", "StepDone", "EpochDone"] * 2 + ["RunDone"]
    assert [(e.epoch, e.step, e.total) for e in told] == [
        (1, 1, 4), (1, 2, 4), (1, 2, 4), (2, 3, 4), (2, 4, 4), (2, 4, 4), (2, 4, 4),
    ]  # fmt: skip
    assert [e.loss for e in told if isinstance(e, EpochDone)] == [0.5, 1.5]
    assert told[-1].loss == 1.5


def test_an_event_prints_as_one_short_line() -> None:
    told = events(program(lambda epoch: feeds(epoch, epoch + 1)), Recorder())
    assert re.fullmatch(r"<StepDone epoch 1, step 1/4, loss 0, \d+\.\d s>", repr(told[0]))
    last = told[-1]
    assert isinstance(last, RunDone)
    done = replace(
        last,
        loss=0.123456,
        metrics={"error": 0.25},
        scores={"accuracy": 0.5},
        test={"accuracy": 1.0},
        train_s=2.5,
    )
    assert repr(done) == (
        "<RunDone epoch 2, step 4/4, loss 0.1235, error 0.25, accuracy 0.5, test accuracy 1, 2.5 s>"
    )
    assert repr(replace(done, total=None)).startswith("<RunDone epoch 2, step 4, ")


def test_metrics_are_told_beside_the_loss() -> None:
    graph = Graph()
    what = program(lambda _: feeds(3.0), graph=graph, loss=scalar(graph), metrics={"norm": scalar(graph)})

    assert events(what, epochs=1)[0].metrics == {"norm": 3.0}


class Judge:
    """Evaluates or tests: takes 100 s and 1,000 messages, and remembers after which step it was asked."""

    def __init__(self) -> None:
        self.asked_at: list[int] = []

    async def __call__(self, session: Recorder) -> dict[str, float]:
        session.seconds += 100.0
        session.evaluations += 1
        self.asked_at.append(len(session.fed))
        return {"score": len(session.fed)}


def test_evaluation_follows_every_epoch_and_the_test_only_the_last() -> None:
    evaluate, test = Judge(), Judge()

    told = events(program(lambda _: feeds(1, 1), evaluate=evaluate, test=test))

    assert (evaluate.asked_at, test.asked_at) == ([2, 4], [4])
    assert [e.scores for e in told if isinstance(e, EpochDone)] == [{"score": 2.0}, {"score": 4.0}]
    last = told[-1]
    assert isinstance(last, RunDone)
    assert (last.scores, last.test) == ({"score": 4.0}, {"score": 4.0})


def test_neither_evaluation_nor_test_counts_as_time_or_messages() -> None:
    last = events(program(lambda _: feeds(1, 1), evaluate=Judge(), test=Judge()))[-1]

    assert (last.train_s, last.messages) == (4.0, 40)
    assert (last.steps_per_s, last.messages_per_s) == (1.0, 10.0)


@pytest.mark.parametrize("limits", [{"steps": 1}, {"steps": 2}, {"steps": 3}, {"epochs": 1}, {"epochs": 5}])
def test_the_test_is_asked_once_wherever_a_limit_ends_the_run(limits: dict[str, int]) -> None:
    test, session = Judge(), Recorder()

    told = events(program(lambda _: feeds(1, 1), test=test), session, **limits)

    assert test.asked_at == [len(session.fed)]
    assert [type(e) for e in told[-2:]] == [EpochDone, RunDone]


@pytest.mark.parametrize("until", [1, 4])
def test_a_run_that_is_stopped_or_cancelled_does_not_test(until: int) -> None:
    test, session = Judge(), Recorder()

    async def stopped() -> None:
        async with aclosing(train(program(lambda _: feeds(1, 1), test=test), session, clock=session)) as run:
            async for event in run:
                if event.step == until:
                    break

    async def cancelled() -> None:
        async for event in train(program(lambda _: feeds(1, 1), test=test), session, clock=session):
            if event.step == until and isinstance(event, StepDone):
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)

    asyncio.run(stopped())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert session.fed == [1] * 2 * until
    assert test.asked_at == []


def test_a_run_that_fails_does_not_test() -> None:
    test = Judge()

    with pytest.raises(NumericError):
        events(program(lambda _: feeds(1.0, float("nan")), test=test))

    assert test.asked_at == []


@pytest.mark.parametrize("returned", [None, 0.97, {"accuracy": None}])
@pytest.mark.parametrize("name", ["evaluate", "test"])
def test_scores_are_numbers_by_name(name: str, returned: Any) -> None:
    async def judge(_: Recorder) -> Any:
        return returned

    with pytest.raises(ProgramError, match=rf"{name} must return numbers by name, got {returned}"):
        events(program(lambda _: feeds(1), **{name: judge}))


def test_async_batches_are_closed_when_the_run_ends_early() -> None:
    closed = []

    async def batches() -> AsyncIterator[Mapping[Any, Any]]:
        try:
            for value in range(100):
                yield {"x": value}
        finally:
            closed.append(True)

    told = events(program(lambda _: batches()), steps=3)

    assert [e.step for e in told] == [1, 2, 3, 3, 3]
    assert closed == [True]


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), limit=st.integers(1, 25), sized=st.booleans()
)
def test_a_limit_on_steps_is_met_exactly(sizes: list[int], limit: int, sized: bool) -> None:
    def batches(epoch: int) -> Iterable[Mapping[Any, Any]]:
        part = feeds(*range(sizes[epoch % len(sizes)]))
        return part if sized else iter(part)

    told = events(program(batches), steps=limit)

    assert sum(isinstance(e, StepDone) for e in told) == limit
    assert isinstance(told[-1], RunDone)
    assert told[-1].step == told[-1].total == limit


@given(size=st.integers(1, 5), epochs=st.integers(1, 5), limit=st.none() | st.integers(1, 30))
def test_the_first_of_two_limits_ends_the_run_and_is_foretold(
    size: int, epochs: int, limit: int | None
) -> None:
    told = events(program(lambda _: feeds(*range(size))), epochs=epochs, steps=limit)

    assert told[-1].step == min(size * epochs, limit or size * epochs)
    assert {e.total for e in told} == {told[-1].step}


def test_a_run_of_unknown_length_learns_it_from_its_first_epoch() -> None:
    told = events(program(lambda _: iter(feeds(1, 2, 3))))

    assert [e.total for e in told] == [None, None, None, 6, None, None, None, 6, 6]


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_the_run(loss: float) -> None:
    session = Recorder()

    with pytest.raises(
        NumericError, match=r"the loss must stay finite, got (nan|inf)\n  where: node t, .*step 2"
    ):
        events(program(lambda _: feeds(1.0, loss, 1.0)), session)

    assert len(session.fed) == 2


def test_an_iterator_used_up_by_the_first_epoch_is_an_error() -> None:
    once = iter(feeds(1, 2))

    with pytest.raises(ProgramError, match=r"batches\(1\) gave none"):
        events(program(lambda _: once))


def test_batches_must_return_feeds_one_after_the_other() -> None:
    with pytest.raises(ProgramError, match=r"batches\(0\) must return an iterable of feeds, got None"):
        events(program(lambda _: None))


def test_a_function_that_gives_scores_is_async() -> None:
    with pytest.raises(ProgramError, match="test must be an async function, got one that returns {'a': 1}"):
        events(program(lambda _: feeds(1), test=lambda _: {"a": 1}))


def generated() -> Iterator[Mapping[Any, Any]]:
    yield {"x": 1.0}
    raise KeyError("second")


async def generated_later() -> AsyncIterator[Mapping[Any, Any]]:
    yield {"x": 1.0}
    raise KeyError("second")


async def judge_badly(session: Recorder) -> dict[str, float]:
    raise KeyError("score")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"batches": lambda epoch: {}[epoch]}, r"batches\(0\) must not fail"),
        ({"batches": lambda _: generated()}, r"batches\(0\) must not fail"),
        ({"batches": lambda _: generated_later()}, r"batches\(0\) must not fail"),
        ({"evaluate": judge_badly}, "evaluate must not fail"),
        ({"test": judge_badly}, "test must not fail"),
    ],
)
def test_what_fails_in_the_programs_own_code_is_placed_there(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ProgramError, match=rf"{said}\n  where: defined at \S*test_trainer\.py:\d+") as caught:
        events(program(**({"batches": lambda _: feeds(1.0)} | wrong)))

    assert isinstance(caught.value.__cause__, KeyError)


def test_a_step_that_fails_is_no_failure_of_the_batches() -> None:
    with pytest.raises(KeyError, match="x"):
        events(program(lambda _: [{}]))

"""The loop of every run, over a source that only says what it is told to: it counts, evaluates and tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import ConfigError
from actorflow.training.batches import InputStats
from actorflow.training.events import EpochDone, RunDone, StepDone
from actorflow.training.loop import TrainingLoop
from actorflow.training.position import TrainingPosition
from actorflow.training.throughput_meter import ThroughputMeter
from actorflow.training.training_counts import EpochSums, TrainingCounts, TrainingLimits, TrainingUpdate
from tests.support.recorded import program

Told = list[StepDone | EpochDone | RunDone]


class Source:
    """Gives the epochs that it was made of, all in one go or one after the other; an update takes 1 s.

    Attributes:
        seconds: The time, which evaluation takes as well.
    """

    def __init__(self, epochs: Sequence[Sequence[float]], *, at_once: bool, late: Sequence[str] = ()) -> None:
        self.epochs = epochs
        self.at_once = at_once
        self.late = late
        self.seconds = 0.0
        self.closed = 0

    def now(self) -> float:
        return self.seconds

    @property
    def ended(self) -> bool:
        return self.at_once

    async def updates(self, counts: TrainingCounts) -> AsyncGenerator[TrainingUpdate[StepDone], None]:
        several = len(self.epochs) if self.at_once else counts.epoch + 1
        try:
            for epoch in range(counts.epoch, several):
                for loss in self.epochs[epoch]:
                    self.seconds += 1
                    yield TrainingUpdate([loss], epoch, epoch, StepDone)
        finally:
            self.closed += 1
        counts.drop(self.late)

    def total(self) -> int | None:
        return None

    def input(self, train_s: float, *, whole: bool) -> InputStats:
        return InputStats(float(whole), train_s)

    def position(self, counts: TrainingCounts, train_s: float, messages: int) -> TrainingPosition:
        return TrainingPosition(epoch=counts.epoch, step=counts.step)


def loop(source: Source, at: TrainingCounts | None = None, **others: Any) -> TrainingLoop[StepDone]:
    limits = TrainingLimits(len(source.epochs), None)
    meter = ThroughputMeter(lambda: int(source.seconds), source, TrainingPosition())
    return TrainingLoop(
        program(lambda _: [], **others), source, source, limits, meter, at or TrainingCounts(EpochSums.of(1))
    )


def trained(source: Source, **others: Any) -> Told:
    async def main() -> Told:
        run = loop(source, **others)
        told: Told = [event async for event in run.events()]
        return [*told, await run.end()]

    return asyncio.run(main())


def shown(event: StepDone | EpochDone | RunDone) -> tuple[Any, ...]:
    """An event without its time: in one go, an epoch is over only when an update of the next one comes."""
    position = event.training_position
    return type(event), event.epoch, event.step, event.loss, position.epoch, position.step


EPOCHS = st.lists(st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=4), min_size=1, max_size=5)


def one_run_tells_what_many_do(epochs: list[list[float]]) -> None:
    at_once = trained(Source(epochs, at_once=True))
    one_by_one = trained(Source(epochs, at_once=False))

    assert [*map(shown, at_once)] == [*map(shown, one_by_one)]
    done = [event for event in at_once if isinstance(event, EpochDone)]
    assert [event.epoch for event in done] == [*range(1, len(epochs) + 1)]
    assert [event.loss for event in done] == [sum(losses) / len(losses) for losses in epochs]


@given(EPOCHS)
def test_epochs_that_come_in_one_go_are_told_as_those_that_come_one_by_one(epochs: list[list[float]]) -> None:
    one_run_tells_what_many_do(epochs)


def test_the_law_finds_sums_that_are_not_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def end_epoch(self: TrainingCounts, over: int) -> None:
        self.epoch = over

    monkeypatch.setattr(TrainingCounts, "end_epoch", end_epoch)

    with pytest.raises(AssertionError):
        given(EPOCHS)(one_run_tells_what_many_do)()


def test_evaluation_and_test_are_called_with_the_session_and_off_the_meter() -> None:
    asked: list[float] = []

    async def score(session: Source) -> dict[str, float]:
        session.seconds += 100
        asked.append(session.seconds)
        return {"score": len(asked)}

    *_, last_epoch, last = trained(Source([[1.0, 2.0], [3.0]], at_once=False), evaluate=score, test=score)

    assert asked == [102, 203, 303]
    assert isinstance(last_epoch, EpochDone)
    assert isinstance(last, RunDone)
    assert (last_epoch.scores, last.scores, last.test) == ({"score": 2}, {"score": 2}, {"score": 3})
    assert (last_epoch.train_s, last.train_s, last.messages) == (3, 3, 3)


def test_what_a_source_drops_after_its_last_update_is_told_at_the_end() -> None:
    last = trained(Source([[1.0], [2.0]], at_once=False, late=["late", "not finite"]))[-1]

    assert isinstance(last, RunDone)
    assert (last.dropped, last.reasons) == (4, {"late": 2, "not finite": 2})
    assert last.input.waited_s == 1.0, "that of the whole run"


def test_whoever_leaves_the_loop_leaves_the_source() -> None:
    source = Source([[1.0, 2.0]], at_once=True)

    async def main() -> int:
        events = loop(source).events()
        await anext(events)
        before = source.closed
        await events.aclose()
        return before

    assert (asyncio.run(main()), source.closed) == (0, 1)


@pytest.mark.parametrize("epoch", [2, 3])
def test_a_run_that_is_over_where_it_begins_is_refused(epoch: int) -> None:
    with pytest.raises(ConfigError, match=f"nothing is left to train: {epoch} epochs and 5 steps are done"):
        loop(Source([[1.0], [2.0]], at_once=False), TrainingCounts(EpochSums.of(1), epoch, 5))

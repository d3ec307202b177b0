"""The training loop over a session that only remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorflow.errors import NumericError, ProgramError, SpecError
from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.spec import spec
from actorflow.trainer import EpochDone, Program, StepDone, train


@dataclass
class Counts:
    messages: int


class Recorder:
    """A session that returns the fed number as the loss, takes 1 s and 10 messages a step."""

    def __init__(self) -> None:
        self.fed: list[float] = []
        self.evaluations = 0
        self.seconds = 0.0

    async def run(self, fetches: Sequence[Any], feeds: Mapping[Any, Any]) -> list[Any]:
        await asyncio.sleep(0)
        self.seconds += 1.0
        self.fed.append(feeds["x"])
        return [feeds["x"]] * (len(fetches) - 1) + [None]

    def stats(self) -> Counts:
        return Counts(messages=10 * len(self.fed) + 1000 * self.evaluations)

    def now(self) -> float:
        return self.seconds


def scalar(graph: Graph, shape: tuple[int, ...] = ()) -> Tensor:
    node = graph.add(
        "made_up", name="t", inputs=(), attrs={}, outputs=(spec("float32", shape),), defined_at="a.py:1"
    )
    return Tensor(graph, Port(node.id))


def program(batches: Callable[[int], Any], **others: Any) -> Program:
    graph = Graph()
    usual: dict[str, Any] = {
        "graph": graph,
        "loss": scalar(graph),
        "train": None,
        "batches": batches,
        "epochs": 2,
    }
    return Program(**(usual | others))


def feeds(*values: float) -> list[Mapping[Any, Any]]:
    return [{"x": v} for v in values]


def events(what: Program, session: Recorder | None = None, **limits: Any) -> list[StepDone | EpochDone]:
    session = session or Recorder()

    async def collect() -> list[StepDone | EpochDone]:
        async with aclosing(train(what, session, clock=session, **limits)) as run:
            return [event async for event in run]

    return asyncio.run(collect())


def test_every_step_and_epoch_is_told_in_order() -> None:
    session = Recorder()

    told = events(program(lambda epoch: feeds(epoch, epoch + 1)), session)

    assert session.fed == [0, 1, 1, 2]
    assert [type(e).__name__ for e in told] == ["StepDone", "StepDone", "EpochDone"] * 2
    assert [(e.epoch, e.step, e.total) for e in told] == [
        (1, 1, 4), (1, 2, 4), (1, 2, 4), (2, 3, 4), (2, 4, 4), (2, 4, 4),
    ]  # fmt: skip
    assert [e.loss for e in told if isinstance(e, EpochDone)] == [0.5, 1.5]


def test_metrics_are_told_beside_the_loss() -> None:
    graph = Graph()
    what = program(lambda _: feeds(3.0), graph=graph, loss=scalar(graph), metrics={"norm": scalar(graph)})

    assert events(what, epochs=1)[0].metrics == {"norm": 3.0}


def test_evaluation_counts_neither_as_time_nor_as_messages() -> None:
    async def evaluate(session: Recorder) -> dict[str, float]:
        session.seconds += 100.0
        session.evaluations += 1
        return {"score": session.evaluations}

    last = events(program(lambda _: feeds(1, 1), evaluate=evaluate))[-1]

    assert isinstance(last, EpochDone)
    assert last.scores == {"score": 2.0}
    assert (last.train_s, last.messages) == (4.0, 40)
    assert (last.steps_per_s, last.messages_per_s) == (1.0, 10.0)


def test_async_batches_are_closed_when_the_run_ends_early() -> None:
    closed = []

    async def batches() -> AsyncIterator[Mapping[Any, Any]]:
        try:
            for value in range(100):
                yield {"x": value}
        finally:
            closed.append(True)

    told = events(program(lambda _: batches()), steps=3)

    assert [e.step for e in told] == [1, 2, 3, 3]
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
    assert isinstance(told[-1], EpochDone)
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

    assert [e.total for e in told] == [None, None, None, 6, None, None, None, 6]


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


def test_a_program_wants_scalars_of_its_own_graph() -> None:
    graph = Graph()

    with pytest.raises(SpecError, match=r"loss must be a scalar, got shape \(3,\)"):
        program(lambda _: [], graph=graph, loss=scalar(graph, (3,)))
    with pytest.raises(ProgramError, match="loss must be a tensor of the program's graph"):
        program(lambda _: [], graph=graph, loss=scalar(Graph()))
    with pytest.raises(ProgramError, match="norm must be a tensor"):
        program(lambda _: [], metrics={"norm": 3.0})
    with pytest.raises(ProgramError, match="at least one epoch, got 0"):
        program(lambda _: [], epochs=0)

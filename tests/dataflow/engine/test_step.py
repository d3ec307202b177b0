"""Steps give back what they took, once, unless they ended well or something made of it was written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import errors
from actorflow.actors.actor import Actor
from actorflow.dataflow.engine import resources
from actorflow.dataflow.state.queue import Dequeue, Enqueue
from actorflow.graph.resource import QueueDef
from actorflow.runtime.messages import Call, CancelCall
from tests.support.faults import planted

GO = object()


class Till(Actor):
    """Stands in for a queue: pays out 1, 2, 3, …; `held` ones wait for GO. Keeps a journal.

    Attributes:
        journal: What was paid out, put in (negative), and what came back (in a tuple).
    """

    def __init__(self, definition: QueueDef) -> None:
        self.name = definition.name
        self.journal: list[Any] = []
        self.held: list[Call] | None = [] if "held" in self.name else None
        self.cancelled = 0

    def receive(self, message: Any) -> None:
        if type(message) is Call:
            if self.held is None:
                self.answer(message)
            else:
                self.held.append(message)
        elif type(message) is CancelCall:
            self.cancelled += 1
        elif message is GO:
            calls, self.held = self.held or [], None
            for call in calls:
                self.answer(call)
        else:
            self.journal.append(message)

    def answer(self, call: Call) -> None:
        if type(call.body) is Dequeue:
            number = 1 + sum(isinstance(entry, int) and entry > 0 for entry in self.journal)
            self.journal.append(number)
            call.reply.done(np.int64(number), ("back", number))
        else:
            assert type(call.body) is Enqueue
            self.journal.append(-int(call.body.components[0]))
            call.reply.done(np.bool_(True))


class Shop:
    """A graph of three tills, of which one answers nobody, in a session."""

    def __init__(self) -> None:
        with af.Graph() as self.graph:
            self.a, self.b, self.held = (
                af.state.FIFOQueue(None, "int64", (), name=name) for name in ("a", "b", "held")
            )
        self.tills: dict[str, Till] = {}

    def make(self, definition: QueueDef, *_: Any) -> Till:
        return self.tills.setdefault(definition.name, Till(definition))

    def run(self, body: Callable[[af.Session], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with af.Session(self.graph) as session:
                return await body(session)

        return asyncio.run(main())

    def journal(self, name: str = "a") -> list[Any]:
        return self.tills[name].journal


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    found = Shop()

    @planted(monkeypatch, resources, "make_actor")
    def till_for_a_queue(make_actor: Any, definition: Any, *given: Any) -> Any:
        return found.make(definition) if type(definition) is QueueDef else make_actor(definition, *given)

    return found


async def until(true: Callable[[], Any]) -> None:
    """Goes round the loop, one turn at a time, until something is so."""
    while not true():  # noqa: ASYNC110  each turn of the loop matters
        await asyncio.sleep(0)


async def waits_at(shop: Shop, name: str, task: asyncio.Task[Any]) -> None:
    await until(lambda: task.done() or (name in shop.tills and shop.tills[name].held))
    assert not task.done()


def test_a_step_that_ends_well_keeps_what_it_took(shop: Shop) -> None:
    with shop.graph:
        take = shop.a.dequeue()

    assert shop.run(lambda session: session.run(take)) == 1
    assert shop.journal() == [1]


def test_a_step_gives_back_all_that_it_took_when_another_node_fails(shop: Shop) -> None:
    with shop.graph:
        one, two = shop.a.dequeue(), shop.b.dequeue()
        with af.control_dependencies([one, two]):
            bad = af.reshape(af.constant(np.zeros(6)), af.stack([one, two]))

    async def body(session: af.Session) -> None:
        with pytest.raises(errors.KernelError):
            await session.run([bad, one])
        await asyncio.sleep(0)

    shop.run(body)

    assert shop.journal("a") == [1, ("back", 1)]
    assert shop.journal("b") == [1, ("back", 1)]


def test_a_step_gives_back_when_its_deadline_passes(shop: Shop) -> None:
    with shop.graph:
        fetches = [shop.a.dequeue(), shop.held.dequeue()]

    async def body(session: af.Session) -> None:
        with pytest.raises(errors.DeadlinePassed):
            await session.run(fetches, deadline_s=0.02)
        await asyncio.sleep(0)

    shop.run(body)

    assert shop.journal() == [1, ("back", 1)]
    assert shop.tills["held"].cancelled == 1


def test_a_step_gives_back_when_its_caller_is_cancelled(shop: Shop) -> None:
    with shop.graph:
        fetches = [shop.a.dequeue(), shop.held.dequeue()]

    async def body(session: af.Session) -> None:
        task = asyncio.create_task(session.run(fetches))
        await waits_at(shop, "held", task)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

    shop.run(body)

    assert shop.journal() == [1, ("back", 1)]


def test_a_step_gives_back_when_its_caller_is_cancelled_in_the_turn_in_which_it_ended_well(
    shop: Shop,
) -> None:
    with shop.graph:
        take = shop.held.dequeue()

    async def body(session: af.Session) -> None:
        task = asyncio.create_task(session.run(take))
        await waits_at(shop, "held", task)
        session.resources.tell("held", GO)
        await until(lambda: not session.dump().steps[0].fetches_left)
        assert session.stats().live == 1
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

    shop.run(body)

    assert shop.journal("held") == [1, ("back", 1)]


def test_a_step_gives_back_when_the_session_is_closed(shop: Shop) -> None:
    with shop.graph:
        fetches = [shop.a.dequeue(), shop.held.dequeue()]

    async def body(session: af.Session) -> asyncio.Task[Any]:
        task = asyncio.create_task(session.run(fetches))
        await waits_at(shop, "held", task)
        await session.close()
        with pytest.raises(errors.StepAborted):
            await task
        return task

    shop.run(body)

    assert shop.journal() == [1, ("back", 1)]


async def cancelled_while_held(shop: Shop, session: af.Session, fetches: Any) -> None:
    """Runs a step to where it waits at `held`, and cancels it."""
    task = asyncio.create_task(session.run(fetches))
    await waits_at(shop, "held", task)
    await until(lambda: not session.system.dispatch.scheduled)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)


def test_what_was_written_elsewhere_is_not_given_back(shop: Shop) -> None:
    with shop.graph:
        put = shop.b.enqueue(shop.a.dequeue() * np.int64(2))
        with af.control_dependencies([put]):
            held = shop.held.dequeue()

    shop.run(lambda session: cancelled_while_held(shop, session, held))

    assert shop.journal("a") == [1]
    assert shop.journal("b") == [-2]


def test_what_was_assigned_is_not_given_back(shop: Shop) -> None:
    with shop.graph:
        v = af.Variable(np.int64(0), name="v")
        with af.control_dependencies([v.assign_add(shop.a.dequeue())]):
            held = shop.held.dequeue()

    shop.run(lambda session: cancelled_while_held(shop, session, held))

    assert shop.journal("a") == [1]


def test_a_write_of_something_else_leaves_it_to_be_given_back(shop: Shop) -> None:
    with shop.graph:
        with af.control_dependencies([shop.a.dequeue()]):
            put = shop.b.enqueue(np.int64(7))
        with af.control_dependencies([put]):
            held = shop.held.dequeue()

    shop.run(lambda session: cancelled_while_held(shop, session, held))

    assert shop.journal("a") == [1, ("back", 1)]
    assert shop.journal("b") == [-7]


def test_a_write_uses_up_only_what_it_was_computed_from(shop: Shop) -> None:
    with shop.graph:
        one, two = shop.a.dequeue(), shop.a.dequeue()
        put = shop.b.enqueue(one + np.int64(0))
        with af.control_dependencies([put, two]):
            held = shop.held.dequeue()

    shop.run(lambda session: cancelled_while_held(shop, session, held))

    (moved,) = shop.journal("b")
    assert shop.journal("a") == [1, 2, ("back", 3 + moved)]


def test_what_was_taken_before_the_steps_of_others_failed_stays_theirs(shop: Shop) -> None:
    with shop.graph:
        take = shop.a.dequeue()
        fetches = [take, shop.held.dequeue()]

    async def body(session: af.Session) -> Any:
        await cancelled_while_held(shop, session, fetches)
        return int(await session.run(take))

    assert shop.run(body) == 2
    assert shop.journal() == [1, ("back", 1), 2]

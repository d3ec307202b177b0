"""Asking without a step: answers, errors, and what a cancelled caller leaves behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import actorflow as af
from actorflow.dataflow.state.caller import call
from actorflow.errors import ActorDied, StateError
from actorflow.runtime.messages import Call, CancelCall


class Teller(af.Actor):
    """Keeps calls until it is told to answer them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.journal: list[Any] = []

    def receive(self, message: Any) -> None:
        match message:
            case Call():
                self.calls.append(message)
            case CancelCall():
                self.journal.append("cancelled")
            case ("answer", value):
                for one in self.calls:
                    one.reply.done(value, "undo")
            case ("fail", error):
                for one in self.calls:
                    one.reply.failed(error)
            case _:
                self.journal.append(message)


def run(body: Any) -> Any:
    async def main() -> Any:
        async with af.ActorSystem() as system:
            teller = Teller()
            ref = system.spawn(lambda: teller, name="teller")
            asking = asyncio.create_task(call(ref, "body", system.nobody, system.create_future()))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert [one.body for one in teller.calls] == ["body"]
            return await body(system, ref, asking), teller.journal

    return asyncio.run(main(), debug=True)


def test_a_caller_gets_the_answer() -> None:
    async def body(system: af.ActorSystem, ref: af.Ref, asking: asyncio.Task[Any]) -> Any:
        ref.signal(("answer", 7))
        return await asking

    assert run(body) == (7, [])


def test_a_caller_gets_the_error() -> None:
    async def body(system: af.ActorSystem, ref: af.Ref, asking: asyncio.Task[Any]) -> Any:
        ref.signal(("fail", StateError("no")))
        with pytest.raises(StateError, match="no"):
            await asking

    run(body)


def test_a_caller_whose_actor_dies_hears_of_it() -> None:
    async def body(system: af.ActorSystem, ref: af.Ref, asking: asyncio.Task[Any]) -> Any:
        await system.stop(ref)
        with pytest.raises(ActorDied):
            await call(ref, "again", system.nobody, system.create_future())
        asking.cancel()

    run(body)


@pytest.mark.parametrize("answer", [None, ("answer", 7), ("fail", StateError("nobody hears it"))])
def test_a_cancelled_caller_takes_the_call_back_and_gives_back_what_came_in_that_turn(answer: Any) -> None:
    async def body(system: af.ActorSystem, ref: af.Ref, asking: asyncio.Task[Any]) -> Any:
        if answer is not None:
            (entry,) = (one for one in system.actors.values() if one.name == "teller")
            entry.receive(answer)  # at once, so that the caller has not woken up
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        ref.signal(("answer", 8))  # too late, and dropped
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    _, journal = run(body)

    assert journal == (["cancelled", "undo"] if answer == ("answer", 7) else ["cancelled"])

"""An async handler sees one task, on every loop, before and after its first suspension."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from typing import TYPE_CHECKING, Any

import pytest

from actorflow.actors.system import ActorSystem
from actorflow.errors import HandlerError
from tests.actors.playing import LOOPS, Scripted, pause, play, run_on

if TYPE_CHECKING:
    from actorflow.actors.actor import Actor

COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")

every_loop = pytest.mark.parametrize("loop", LOOPS)
warm_or_cold = pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
"""Cold: the first handler of an actor, whose task has not run yet. Warm: later ones."""


def answer(script: Any, loop: str, warm: bool, *, inline: bool = True) -> Any:
    """Returns what `script` answers, asked inline or through the ring."""
    answers: list[Any] = []

    async def either(actor: Actor, message: Any) -> Any:
        return None if message == "warm up" else await script()

    async def body(system: ActorSystem) -> None:
        if not inline:
            system.inline.limit = system.inline.left = 0
        ref = system.spawn(Scripted, either, name="actor")
        if warm:
            for _ in range(3):
                await ref.ask("warm up")
        answers.append(await ref.ask("go"))
        assert await ref.ask("warm up") is None  # nothing is left over for the next handler
        (task,) = system.tasks
        assert task.cancelling() == 0

    play(body, loop=loop)
    return answers[0]


@pytest.fixture(params=[True, False], ids=["inline", "ring"])
def inline(request: pytest.FixtureRequest) -> Any:
    return request.param


@every_loop
@warm_or_cold
def test_timeout_ends_a_wait_and_leaves_a_quick_one_alone(loop: str, warm: bool, inline: bool) -> None:
    async def script() -> str:
        async with asyncio.timeout(10):
            await _colour()  # does not suspend
        try:
            async with asyncio.timeout(0.01):
                await pause(10)
        except TimeoutError:
            return "timed out"
        return "not timed out"

    assert answer(script, loop, warm, inline=inline) == "timed out"


@every_loop
@warm_or_cold
@pytest.mark.parametrize("delay_s", [0.0, -1.0])
def test_timeout_that_has_passed_already(loop: str, warm: bool, inline: bool, delay_s: float) -> None:
    async def script() -> str:
        try:
            async with asyncio.timeout(delay_s):
                await pause(10)
        except TimeoutError:
            return "timed out"
        return "not timed out"

    assert answer(script, loop, warm, inline=inline) == "timed out"


@every_loop
@warm_or_cold
def test_task_group_gathers_and_a_failing_child_cancels_the_body(loop: str, warm: bool, inline: bool) -> None:
    async def fails() -> None:
        await pause(0)
        raise KeyError("x")

    async def script() -> Any:
        async with asyncio.TaskGroup() as group:
            one = group.create_task(pause(0.001, 1))
            two = group.create_task(pause(0.001, 2))
        caught = None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
                await pause(10)
        except* KeyError as errors:
            caught = errors
        task = asyncio.current_task()
        assert task is not None
        await pause(0)
        return one.result() + two.result(), type(caught), task.cancelling()

    assert answer(script, loop, warm, inline=inline) == (3, ExceptionGroup, 0)


@every_loop
@warm_or_cold
def test_wait_for(loop: str, warm: bool, inline: bool) -> None:
    async def script() -> Any:
        quick = await asyncio.wait_for(pause(0, "quick"), 5)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pause(10), 0.01)
        return quick

    assert answer(script, loop, warm, inline=inline) == "quick"


@every_loop
@warm_or_cold
def test_current_task_is_one_and_named_after_the_actor(loop: str, warm: bool, inline: bool) -> None:
    async def script() -> Any:
        before = asyncio.current_task()
        await pause(0)
        middle = asyncio.current_task()
        await pause(0.001)
        assert before is middle is asyncio.current_task()
        assert before is not None
        return before.get_name()

    assert answer(script, loop, warm, inline=inline) == "actor actor"


@every_loop
@warm_or_cold
def test_a_bare_yield_gives_the_loop_one_turn(loop: str, warm: bool, inline: bool) -> None:
    async def script() -> Any:
        turns: list[str] = []
        asyncio.get_running_loop().call_soon(turns.append, "turn")
        await pause(0)
        return turns

    assert answer(script, loop, warm, inline=inline) == ["turn"]


@every_loop
@warm_or_cold
def test_context_variables_set_before_a_suspension_are_seen_after_it(
    loop: str, warm: bool, inline: bool
) -> None:
    async def script() -> Any:
        assert COLOUR.get() == "none"
        COLOUR.set("red")
        await pause(0)
        seen = [COLOUR.get(), await asyncio.create_task(_colour())]
        COLOUR.set("none")
        return seen

    assert answer(script, loop, warm, inline=inline) == ["red", "red"]
    assert COLOUR.get() == "none"


async def _colour() -> str:
    return COLOUR.get()


@every_loop
@warm_or_cold
def test_cancel_before_the_first_suspension_strikes_at_it(loop: str, warm: bool, inline: bool) -> None:
    async def script() -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await pause(10)
        except asyncio.CancelledError:
            return "cancelled", task.uncancel()
        return "not cancelled"

    assert answer(script, loop, warm, inline=inline) == ("cancelled", 0)


@every_loop
@warm_or_cold
def test_cancel_before_a_suspension_on_a_task_cancels_that_task(loop: str, warm: bool, inline: bool) -> None:
    async def script() -> Any:
        child = asyncio.create_task(pause(10))
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await child
        except asyncio.CancelledError:
            return child.cancelled()
        return None

    assert answer(script, loop, warm, inline=inline) is True


@every_loop
@warm_or_cold
def test_cancel_after_the_first_suspension(loop: str, warm: bool, inline: bool) -> None:
    async def script() -> Any:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_later(0.005, task.cancel)
        try:
            await pause(10)
        except asyncio.CancelledError:
            await pause(0.001)  # life goes on
            return "cancelled"
        return "not cancelled"

    assert answer(script, loop, warm, inline=inline) == "cancelled"


@every_loop
@warm_or_cold
@pytest.mark.parametrize("suspends", [True, False])
def test_a_cancellation_that_a_handler_left_behind_does_not_strike_the_next(
    loop: str, warm: bool, inline: bool, suspends: bool
) -> None:
    async def script() -> str:
        if suspends:
            await pause(0)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "returned"

    assert answer(script, loop, warm, inline=inline) == "returned"


@every_loop
@warm_or_cold
def test_cancellations_of_two_handlers_in_a_row_do_not_mix(loop: str, warm: bool, inline: bool) -> None:
    async def body(system: ActorSystem) -> None:
        if not inline:
            system.inline.limit = system.inline.left = 0

        async def script(_actor: Actor, message: Any) -> Any:
            task = asyncio.current_task()
            assert task is not None
            if message != "plain":
                task.cancel()
            if message == "leave":
                return "left"
            try:
                await pause(0.001)
            except asyncio.CancelledError:
                return "cancelled"
            return "slept"

        ref = system.spawn(Scripted, script)
        if warm:
            await ref.ask("plain")
        telling = [
            asyncio.ensure_future(ref.ask(message))
            for message in ("leave", "plain", "leave", "strike", "plain")
        ]
        assert await asyncio.gather(*telling) == ["left", "slept", "left", "cancelled", "slept"]

    play(body, loop=loop)


@every_loop
def test_many_actors_suspend_at_once_and_no_task_dies_by_collection(loop: str) -> None:
    async def script(_actor: Actor, message: Any) -> Any:
        for _ in range(3):
            await pause(0)
        return message

    async def body(system: ActorSystem) -> None:
        refs = [system.spawn(Scripted, script) for _ in range(20)]
        asking = [asyncio.ensure_future(ref.ask(number)) for number, ref in enumerate(refs)]
        while not all(ask.done() for ask in asking):
            gc.collect()
            await pause(0)
        assert [ask.result() for ask in asking] == list(range(20))

    play(body, loop=loop)


@every_loop
def test_whoever_cancels_all_tasks_of_the_loop_does_not_wait_for_ever(loop: str) -> None:
    """As asyncio.Runner does on its way out, for a system that was never left."""

    async def script(_actor: Actor, _message: Any) -> None:
        await pause(1000)

    async def main() -> None:
        system = ActorSystem()
        await system.__aenter__()
        parked = system.spawn(Scripted, lambda _actor, message: pause(0, message))
        await parked.ask(1)
        await system.spawn(Scripted, script).tell(1)
        await system.spawn(Scripted, script).tell(1)
        await pause(0)

    run_on(loop, main)


@every_loop
def test_an_actor_whose_parked_task_was_cancelled_from_outside_gets_another(loop: str) -> None:
    async def script(_actor: Actor, message: Any) -> Any:
        await pause(0)
        return message

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, script)
        await ref.ask(1)
        for task in tuple(system.tasks):
            task.cancel()
        await pause(0)
        assert await ref.ask(2) == 2
        for task in tuple(system.tasks):
            task.cancel()
        assert await ref.ask(3) == 3

    play(body, loop=loop)


@every_loop
def test_a_task_cancelled_from_outside_before_it_ran_fails_its_handler(loop: str) -> None:
    async def script(_actor: Actor, message: Any) -> Any:
        await pause(0)
        return message

    async def body(system: ActorSystem) -> None:
        ref = system.spawn(Scripted, script, name="late")
        await pause(0)
        asking = asyncio.ensure_future(ref.ask(1))
        while not system.tasks:
            await pause(0)
        for task in tuple(system.tasks):
            task.cancel()
        with pytest.raises(HandlerError, match="handler of 'late' raised CancelledError"):
            await asking
        assert await ref.ask(2) == 2

    play(body, loop=loop)

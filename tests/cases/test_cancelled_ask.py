"""A handler of a `cancellable` actor ends when nobody waits for its answer, and knows how long somebody does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.actors.system import ActorSystem
from actorflow.errors import ActorDied, ActorError, ActorflowError, DeadlinePassed
from actorflow.values.spec import spec
from tests.actors.playing import play
from tests.actors.posts import between

if TYPE_CHECKING:
    from actorflow.actors.remote.hub import RemoteHub
    from tests.actors.channels import End

LONG_S = 1.5
LATE_S = 0.5
LOOPS = ("virtual", "simulated", "asyncio")


class Fetch(af.Actor):
    """Works for as long as it is asked to; notes how each handler ended, and what was left when it began."""

    cancellable = True

    def __init__(self) -> None:
        self.ended: list[tuple[Any, str]] = []
        self.left: list[float | None] = []

    async def receive(self, message: Any) -> Any:
        self.left.append(self.remaining_s())
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            self.ended.append((message, "cancelled"))
            raise
        self.ended.append((message, "answered"))
        return message


class Going(Fetch):
    """Has not opted in."""

    cancellable = False


class Many(Fetch):
    """Works on several at a time."""

    reentrant = True


class Front(af.Actor):
    """Asks another, for as long as whoever asked it waits."""

    cancellable = True

    def __init__(self, next_: Any) -> None:
        self.next = next_

    async def receive(self, message: Any) -> Any:
        return await self.next.ask(message)


def spawn(system: ActorSystem, kind: Callable[..., Fetch] = Fetch, **options: Any) -> tuple[Any, Fetch]:
    """Starts one, and returns its ref and the object."""
    made: list[Fetch] = []

    def factory() -> Fetch:
        made.append(kind())
        return made[-1]

    return system.spawn(factory, **options), made[0]


async def given_up(asking: Any, after_s: float = 0.05) -> None:
    """Cancels whoever asks."""
    task = asyncio.ensure_future(asking)
    await asyncio.sleep(after_s)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def late(ref: Any, message: Any) -> None:
    with pytest.raises(DeadlinePassed):
        await ref.ask(message, deadline_s=LATE_S)


async def turns() -> None:
    """Lets everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_handler_of_an_ask_that_is_late_makes_way_for_the_next(loop: str) -> None:
    async def body(system: ActorSystem) -> None:
        fetch, actor = spawn(system)
        await late(fetch, "a")
        assert await fetch.ask("b", deadline_s=60) == "b"
        assert actor.ended == [("a", "cancelled"), ("b", "answered")]
        first, second = actor.left
        assert first is not None
        assert second is not None
        assert 0 < first <= LATE_S < 50 < second <= 60
        assert "1 timed out" in repr(system.accounts)
        assert "(0 late)" in repr(system.accounts)
        assert system.stats().died == 0

    play(body, loop=loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_handler_of_an_ask_that_was_cancelled_ends(loop: str) -> None:
    async def body(system: ActorSystem) -> None:
        fetch, actor = spawn(system)
        await given_up(fetch.ask("inline"))
        await turns()
        assert actor.ended == [("inline", "cancelled")]
        await fetch.tell("nobody asks")
        await given_up(fetch.ask("behind"))
        assert await fetch.ask("last") == "last"
        assert actor.ended[1:] == [("nobody asks", "answered"), ("last", "answered")]
        assert actor.left[1] is None

    play(body, loop=loop)


def test_one_that_has_not_opted_in_goes_on() -> None:
    async def body(system: ActorSystem) -> None:
        fetch, actor = spawn(system, Going)
        await late(fetch, "a")
        assert await fetch.ask("b", deadline_s=60) == "b"
        assert actor.ended == [("a", "answered"), ("b", "answered")]
        assert actor.left[0] == pytest.approx(LATE_S)

    play(body)


def test_of_many_handlers_that_one_ends_whose_asker_has_gone() -> None:
    async def body(system: ActorSystem) -> None:
        many, actor = spawn(system, Many)
        staying = [asyncio.ensure_future(many.ask(number)) for number in range(3)]
        await given_up(many.ask("gone"))
        await late(many, "late")
        assert await asyncio.gather(*staying) == [0, 1, 2]
        assert actor.ended[:2] == [("gone", "cancelled"), ("late", "cancelled")]
        assert sorted(end for _, end in actor.ended) == ["answered"] * 3 + ["cancelled"] * 2
        assert len(many.busy) == len(many.runs) == 0

    play(body)


@pytest.mark.parametrize("how", ["late", "cancelled"])
def test_a_chain_ends_to_its_last_handler_and_hands_the_rest_of_the_deadline_on(how: str) -> None:
    async def body(system: ActorSystem) -> None:
        fetch, actor = spawn(system)
        chain = system.spawn(Front, system.spawn(Front, fetch))
        if how == "late":
            await late(chain, "a")
        else:
            await given_up(chain.ask("a", deadline_s=LATE_S))
        await turns()
        assert actor.ended == [("a", "cancelled")]
        assert await chain.ask("b", deadline_s=60) == "b"
        short, long = actor.left
        assert short is not None
        assert long is not None
        assert short <= LATE_S
        assert 58 < long <= 60

    play(body)


def test_what_a_handler_asks_side_by_side_takes_the_rest_too_and_what_says_so_takes_what_it_says() -> None:
    class Wide(af.Actor):
        cancellable = True

        async def receive(self, refs: Any) -> Any:
            await asyncio.sleep(1)
            first = (await af.ask_all(refs, "many")).all()
            async with asyncio.TaskGroup() as group:
                task = group.create_task(refs[0].ask("in a task"))
            return [*first, task.result(), await refs[1].ask("other", deadline_s=2.5)]

    async def body(system: ActorSystem) -> None:
        (one, first), (two, second) = spawn(system), spawn(system)
        wide = system.spawn(Wide)
        assert await wide.ask([one, two], deadline_s=30) == ["many", "many", "in a task", "other"]
        assert first.left == pytest.approx([29, 27.5], abs=0.01)
        assert second.left == pytest.approx([29, 2.5], abs=0.01)

    play(body)


def test_a_chain_whose_first_actor_was_told_has_the_deadline_of_the_system() -> None:
    async def body(system: ActorSystem) -> None:
        fetch, actor = spawn(system)
        front = system.spawn(Front, fetch)
        await front.tell("a")
        await asyncio.sleep(2 * LONG_S)
        assert actor.ended == [("a", "answered")]
        assert actor.left == pytest.approx([system.deadline_s])

    play(body)


def test_an_asker_that_is_stopped_takes_along_what_it_asked() -> None:
    class Plain(Front):
        cancellable = False

    async def body(system: ActorSystem) -> None:
        fetch, actor = spawn(system)
        front = system.spawn(Plain, fetch)
        await front.tell("a")
        await asyncio.sleep(0.1)
        await system.stop(front)
        await turns()
        assert actor.ended == [("a", "cancelled")]

    play(body)


def test_a_handler_that_goes_on_all_the_same_is_late_and_its_actor_lives() -> None:
    class Stubborn(af.Actor):
        cancellable = True

        async def receive(self, message: Any) -> Any:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(LONG_S)
            await asyncio.sleep(0.5)
            return message

    async def body(system: ActorSystem) -> None:
        stubborn = system.spawn(Stubborn)
        await late(stubborn, "a")
        assert await stubborn.ask("b") == "b"
        assert (system.stats().late, system.stats().died) == (1, 0)

    play(body)


@pytest.mark.parametrize("cancellable", [True, False])
def test_what_a_handler_raises_when_its_asker_has_gone_ends_the_actor_only_if_it_did_not_work_for_that_alone(
    cancellable: bool,
) -> None:
    class Untidy(af.Actor):
        async def receive(self, message: Any) -> Any:
            try:
                await asyncio.sleep(LONG_S)
            finally:
                raise ValueError("no such file")

    Untidy.cancellable = cancellable

    async def body(system: ActorSystem) -> None:
        untidy = system.spawn(Untidy)
        untidy.watch(system.spawn(Going))
        await late(untidy, "a")
        await asyncio.sleep(2 * LONG_S)
        assert system.stats().died == (not cancellable)

    play(body)


def test_a_cancellation_of_its_own_is_a_failure_as_ever() -> None:
    class Own(af.Actor):
        cancellable = True

        async def receive(self, message: Any) -> Any:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(LONG_S)
            if message == "own":
                await asyncio.sleep(0)
                raise asyncio.CancelledError

    async def body(system: ActorSystem) -> None:
        own = system.spawn(Own)
        await late(own, "a")
        with pytest.raises(af.errors.HandlerError, match="CancelledError"):
            await own.ask("own")

    play(body)


class Plain(af.Actor):
    """Says how much is left when it begins, and after `message` seconds of work."""

    def __init__(self) -> None:
        self.told: list[float | None] = []

    def on_start(self) -> None:
        self.told.append(self.remaining_s())

    def receive(self, message: float) -> Any:
        begun = self.remaining_s()
        self.told.append(begun)
        until = self.system.now() + message
        while self.system.now() < until:
            pass
        return begun, self.remaining_s()


@pytest.mark.parametrize("busy", [False, True])
def test_a_plain_handler_knows_what_is_left(busy: bool) -> None:
    """Whether it runs inside the task of the asker or in its turn, and however fast those before it were."""

    async def main() -> None:
        async with ActorSystem() as system:
            plain = system.spawn(Plain, name="plain")
            for _ in range(200 if busy else 0):
                await plain.ask(0.0)
            asks = [plain.ask(0.02, 7.0)] if busy else [plain.ask(0.02, 7.0) for _ in range(3)]
            for begun, left in await asyncio.gather(*asks):
                assert 0 < left <= begun - 0.02 < 7.0
            await plain.tell(0.0)
            await plain.ask(0.0)
            behaviour = system.actors["plain"].behaviour
            assert isinstance(behaviour, Plain)
            assert behaviour.told[0] is None
            assert behaviour.told[-2] is None
            with pytest.raises(ActorError, match="that of a handler, got none of 'plain' here"):
                behaviour.remaining_s()

    af.run(main())


def test_a_plain_handler_knows_what_is_left_in_a_simulation() -> None:
    async def body(system: ActorSystem) -> None:
        class Late(af.Actor):
            def receive(self, message: Any) -> Any:
                return self.remaining_s()

        late = system.spawn(Late)
        assert await late.ask(1) == pytest.approx(5)
        assert await late.ask(1, deadline_s=0.5) == pytest.approx(0.5)
        found = await asyncio.gather(*(late.ask(1, deadline_s=k + 1.0) for k in range(3)))
        assert found == [pytest.approx(k + 1.0) for k in range(3)]

    play(body)


@sim.world("a", "b", latency_s=0.01)
async def plain_on_another_host(world: sim.World) -> None:
    class Late(af.Actor):
        def receive(self, message: Any) -> Any:
            return self.remaining_s()

    a, b = world.hosts
    b.spawn(Late, name="late")
    assert await a.run(a.ref("b/late").ask(1, deadline_s=3.0)) == pytest.approx(3.0, abs=0.1)


def test_a_plain_handler_of_another_host_knows_what_is_left() -> None:
    plain_on_another_host()


def test_the_rest_of_a_deadline_is_that_of_a_handler_that_has_not_ended() -> None:
    class Leaves(af.Actor):
        reentrant = False

        async def receive(self, message: Any) -> Any:
            return asyncio.ensure_future(self.later()), self.remaining_s()

        async def later(self) -> Any:
            await asyncio.sleep(1)
            return self.remaining_s()

    class LeavesMany(Leaves):
        reentrant = True

    async def body(system: ActorSystem) -> None:
        for kind in (Leaves, LeavesMany):
            task, left = await system.spawn(kind).ask(1, deadline_s=3)
            assert left == pytest.approx(3)
            with pytest.raises(ActorError, match="got none of '"):
                await task

    play(body)


# -- over processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["late", "cancelled", "lost"])
def test_the_handler_of_another_process_ends(how: str) -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        _, actor = spawn(there.system, name="fetch")
        ref = here.ref("there/fetch")
        if how == "late":
            await late(ref, "a")
        elif how == "cancelled":
            await given_up(ref.ask("a"))
        else:
            asking = asyncio.ensure_future(ref.ask("a"))
            await asyncio.sleep(0.1)
            here.detach("there")
            with pytest.raises(ActorflowError):
                await asking
        await asyncio.sleep(0.1)
        assert actor.ended == [("a", "cancelled")]
        assert there.system.accounts.open == 0
        assert there.system.stats().died == 0

    between(body)


def test_a_chain_over_two_processes_and_back() -> None:
    async def body(here: RemoteHub, there: RemoteHub, _channel: End) -> None:
        _, actor = spawn(here.system, name="fetch")
        there.system.spawn(Front, there.ref("here/fetch"), name="front")
        chain = here.system.spawn(Front, here.ref("there/front"))
        await given_up(chain.ask("a", deadline_s=1))
        await asyncio.sleep(0.1)
        assert actor.ended == [("a", "cancelled")]
        await late(chain, "b")
        await asyncio.sleep(0.1)
        assert actor.ended[1:] == [("b", "cancelled")]
        assert await chain.ask("c", deadline_s=60) == "c"
        left = [0.0 if left is None else left for left in actor.left]
        assert left[0] <= 1
        assert left[1] <= LATE_S + 0.01
        assert 58 < left[2] <= 60

    between(body)


# -- in simulations ------------------------------------------------------------------------------------


@sim.world("a", "b", "c", latency_s=0.01)
async def over_hosts(world: sim.World, how: str) -> None:
    made: list[Fetch] = []

    def factory() -> Fetch:
        made.append(Fetch())
        return made[-1]

    a, b, c = world.hosts
    c.spawn(factory, name="fetch")
    b.spawn(Front, b.ref("c/fetch"), name="front")
    asking = a.run(a.ref("b/front").ask("a", deadline_s=0.2 if how == "late" else 1.0))
    await world.sleep(0.1)
    if how == "cancelled":
        asking.cancel()
    if how == "crashed":
        a.crash()
    with suppress(asyncio.CancelledError, DeadlinePassed, ActorDied):
        await asking
    await world.sleep(0.1)
    assert made[0].ended == [("a", "cancelled")]
    if how == "crashed":
        await world.restart(a)
    assert await a.run(a.ref("b/front").ask("b", deadline_s=60)) == "b"
    assert made[0].left[1] == pytest.approx(60, abs=0.1)
    assert not (a.asked or b.asked or c.asked)


@pytest.mark.parametrize("how", ["late", "cancelled", "crashed"])
def test_a_chain_over_simulated_hosts(how: str) -> None:
    over_hosts(how)


@sim.world("a", "b", latency_s=0.01)
async def asked_by_the_crashed(world: sim.World, how: str) -> None:
    """Host `a` crashes while it asks."""
    made: list[Any] = []

    class Kept(Fetch):
        cancellable = how != "goes on"
        reentrant = how == "of many"

        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    a, b = world.hosts
    b.spawn(Kept, name="fetch")
    a.run(a.ref("b/fetch").ask("a", deadline_s=10.0))
    for_b = None
    if how == "of many":
        for_b = b.run(b.ref("b/fetch").ask("b", deadline_s=10.0))
    await world.sleep(0.005 if how == "on its way" else 0.05)
    a.crash()
    await world.sleep(0.1)
    (fetch,) = made
    assert ("a", "cancelled") in fetch.ended or how in ("goes on", "on its way")
    assert how != "goes on" or not fetch.ended
    assert not b.asked or how in ("goes on", "of many")
    if for_b is not None:
        assert fetch.ended == [("a", "cancelled")], "another asker's handler ended as well"
        for_b.cancel()


@pytest.mark.parametrize("how", ["at work", "on its way", "of many", "goes on"])
def test_whoever_was_asked_by_a_simulated_host_that_crashes_hears_of_it(how: str) -> None:
    asked_by_the_crashed(how)


# -- in graphs -----------------------------------------------------------------------------------------


def test_the_method_of_an_actor_of_a_graph_ends_with_the_step_that_asked() -> None:
    ended: list[str] = []

    class Slow(af.Actor):
        cancellable = True

        async def wait(self, seconds: Any) -> float:
            try:
                await asyncio.sleep(float(seconds))
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
            return float(seconds)

    with af.Graph() as graph:
        seconds = af.placeholder("float64", (), name="seconds")
        y = af.call(af.actor(Slow), "wait", seconds, outputs=spec("float64", ()))

    async def main() -> float:
        async with af.Session(graph) as session:
            with pytest.raises(DeadlinePassed):
                await session.run(y, {seconds: 100.0}, deadline_s=0.5)
            return float(await session.run(y, {seconds: 1.0}))

    assert sim.run(main).result == 1.0
    assert ended == ["cancelled"]

"""Every public call of the runtime is refused in a foreign thread, and in another loop of the same thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import numpy as np
import pytest
import uvloop

import actorflow as af
from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.remote.hub import RemoteHub
from actorflow.actors.remote.ref import RemoteRef
from actorflow.actors.supervision import Strategy
from actorflow.actors.supervisor import Supervisor
from actorflow.actors.system import ActorSystem
from actorflow.actors.timers import ActorTimer
from actorflow.cluster.cluster import Cluster
from actorflow.data.run.iteration import Iteration
from actorflow.data.run.stream import Stream
from actorflow.dataflow.engine.resources import Resources
from actorflow.errors import PeerLost, WrongLoop
from actorflow.runtime.affinity import Affinity
from actorflow.session.distributed import DistributedSession
from actorflow.session.session import Session
from actorflow.training.queue_runner import QueueRunner, producing
from actorflow.transport.links.link import Link
from actorflow.transport.links.loopback import Loopback, pair
from actorflow.transport.rules.channel import Envelope
from actorflow.transport.rules.wire import Contact
from actorflow.transport.zeromq.endpoint import Endpoint
from tests.support.linear import regression
from tests.support.one_loop import OneLoop
from tests.transport.sockets import LoopTimers

RAN: list[str] = []
"""The threads in which handlers ran."""


class Noting(Actor):
    """Notes where its handler runs."""

    def receive(self, message: Any) -> Any:
        RAN.append(threading.current_thread().name)
        return message


class Host(Actor):
    """Hands itself and a timer of its own out."""

    def receive(self, message: Any) -> Any:
        return self, self.after(3600.0, "late")


with af.Graph() as GRAPH:
    P = af.placeholder("float32", (), name="p")
    W = af.Variable(1.0, name="w")
    DOUBLE = P * W
    QUEUE = af.state.FIFOQueue(4, "float32", (), name="queue")
    ENQUEUE = QUEUE.enqueue(P)


class Silence:
    """A wire that leads nowhere."""

    def send(self, parts: Any) -> None: ...

    def contact(self) -> Contact:
        return Contact.UNKNOWN


class World:
    """One of each thing that belongs to an event loop."""

    async def open(self) -> None:
        stack = self.stack = AsyncExitStack()
        enter = stack.enter_async_context
        self.system = await enter(ActorSystem(name="here"))
        self.there = await enter(ActorSystem(name="there"))
        self.post, post = RemoteHub(self.system, "here"), RemoteHub(self.there, "there")
        self.spare = pair("here", "spare")
        for end in self.spare:
            end.connect(self.post)
        self.channels = pair("here", "there")
        for each, channel in zip((self.post, post), self.channels, strict=True):
            channel.connect(each)
            each.attach(channel)
        self.there.spawn(Noting, name="far")
        self.local = self.system.spawn(Noting, name="near")
        self.remote = self.post.ref("there/far")
        self.group = self.system.supervisor(Strategy())
        self.actor, self.timer = await self.system.spawn(Host).ask("both")
        self.session = await enter(Session(GRAPH))
        self.call = self.session.make_callable(DOUBLE, (P,))
        self.feeder = await enter(QueueRunner(self.session))
        self.resources = self.session.resources
        self.cluster = await enter(OneLoop(regression(), ("ps0",), ("worker0",)))
        self.spread = self.cluster.open_session_of()
        self.trainer = af.Trainer(self.cluster)
        self.stream = await enter(af.data.numbers(9).open())
        self.loop_over = aiter(af.data.numbers(9))
        await anext(self.loop_over)
        self.link = Link("nobody", Silence(), LoopTimers(asyncio.get_running_loop()), incarnation=1)
        self.link.connect(self.post)
        stack.callback(self.link.close)
        self.endpoint = Endpoint(asyncio.get_running_loop(), "here")
        stack.callback(self.endpoint.close)

    async def close(self) -> None:
        await self.stack.aclose()

    def seen(self) -> Any:
        """What would tell that something has changed."""
        return (
            [system.stats() for system in (self.system, self.there, self.cluster.chief.system)],
            [str(system.dump()) for system in (self.there,)],
            self.session.stats(),
            self.cluster.stats(),
            [repr(channel) for channel in (*self.channels, *self.spare)],
            repr(self.feeder),
            self.post.peers(),
            self.stream.stats().elements,
            repr(self.endpoint),
            repr(self.link),
            self.timer.bucket is None,
        )


def unheard(*_args: Any) -> Any:
    """Nobody calls this."""
    raise AssertionError


async def leave(thing: Any) -> Any:
    return await thing.__aexit__(None, None, None)


def of_refs(pick: Callable[[World], Ref]) -> dict[str, Callable[[World], Any]]:
    return {
        "tell": lambda w: pick(w).tell(1),
        "try_tell": lambda w: pick(w).try_tell(1),
        "put": lambda w: pick(w).put(1, w.system.nobody),
        "ask": lambda w: pick(w).ask(1),
        "signal": lambda w: pick(w).signal(1),
        "stop": lambda w: pick(w).stop(),
        "stopped": lambda w: pick(w).stopped(),
        "watch": lambda w: pick(w).watch(w.local),
        "ask_all": lambda w: af.ask_all([pick(w)], 1),
        "tell_all": lambda w: af.tell_all([pick(w)], 1),
    }


CALLS: dict[type, dict[str, Callable[[World], Any]]] = {
    Ref: of_refs(lambda w: w.local),
    RemoteRef: of_refs(lambda w: w.remote),
    ActorSystem: {
        "spawn": lambda w: w.system.spawn(Noting),
        "supervisor": lambda w: w.system.supervisor(Strategy()),
        "spawn_under": lambda w: w.system.spawn_under(w.group, Noting, (), None),
        "supervisor_under": lambda w: w.system.supervisor_under(w.group, Strategy(), None),
        "stop": lambda w: w.system.stop(w.local),
        "watch": lambda w: w.system.watch(w.local, w.local),
        "unheard": lambda w: w.system.unheard(),
        "check_here": lambda w: w.system.check_here(),
        "close": lambda w: w.system.close(),
        "release_body": lambda w: w.system.release_body(),
        "__aexit__": lambda w: leave(w.system),
    },
    Supervisor: {
        "spawn": lambda w: w.group.spawn(Noting),
        "supervisor": lambda w: w.group.supervisor(Strategy()),
        "stop": lambda w: w.group.stop(),
    },
    Actor: {
        "tell": lambda w: w.actor.tell(w.local, 1),
        "spawn": lambda w: w.actor.spawn(Noting),
        "after": lambda w: w.actor.after(1.0, "x"),
    },
    ActorTimer: {"cancel": lambda w: w.timer.cancel()},
    RemoteHub: {
        "attach": lambda w: w.post.attach(w.spare[0]),
        "detach": lambda w: w.post.detach("there"),
        "close": lambda w: w.post.close(),
        "leave": lambda w: w.post.leave(),
        "ref": lambda w: w.post.ref("there/far"),
        "watch_peer": lambda w: w.post.watch_peer("there", w.local),
        "on_lost": lambda w: w.post.on_lost(unheard),
        "deliver": lambda w: w.post.deliver(w.channels[0], Envelope("near", 1)),
        "lost": lambda w: w.post.lost(w.channels[0], PeerLost("gone"), ()),
    },
    Loopback: {
        "connect": lambda w: w.spare[0].connect(w.post),
        "send": lambda w: w.channels[0].send(Envelope("far", 1)),
        "release": lambda w: w.channels[0].release(Envelope("far", 1)),
        "close": lambda w: w.channels[0].close(),
        "check_here": lambda w: w.channels[0].check_here(),
    },
    Link: {
        "connect": lambda w: w.link.connect(w.post),
        "start": lambda w: w.link.start(),
        "send": lambda w: w.link.send(Envelope("far", 1)),
        "release": lambda w: w.link.release(Envelope("far", 1)),
        "close": lambda w: w.link.close(),
        "contact_changed": lambda w: w.link.contact_changed(),
        "receive": lambda w: w.link.receive([b"junk"]),
        "check_here": lambda w: w.link.check_here(),
    },
    Endpoint: {
        "wire": lambda w: w.endpoint.wire("there"),
        "listen": lambda w: w.endpoint.listen("there", unheard, unheard),
        "greet": lambda w: w.endpoint.greet(unheard),
        "dial": lambda w: w.endpoint.dial("there", NOWHERE),
        "hang_up": lambda w: w.endpoint.hang_up("there"),
        "close": lambda w: w.endpoint.close(),
    },
    Session: {
        "run": lambda w: w.session.run(DOUBLE, {P: 1.0}),
        "make_callable": lambda w: w.session.make_callable(DOUBLE, (P,)),
        "close": lambda w: w.session.close(),
        "uninitialised": lambda w: w.session.uninitialised(),
        "resources": lambda w: w.session.resources,
        "check_here": lambda w: w.session.check_here(),
        "__aexit__": lambda w: leave(w.session),
        "initialise": lambda w: w.session.initialise(["w"]),
        "what make_callable gave": lambda w: w.call(1.0),
    },
    Resources: {
        "find": lambda w: w.resources.find(unheard),  # type: ignore[arg-type]
        "first": lambda w: w.resources.first("w"),
        "call": lambda w: w.resources.call("w", None),
        "tell": lambda w: w.resources.tell("w", None),
        "stop": lambda w: w.resources.stop(),
    },
    QueueRunner: {
        "feed": lambda w: w.feeder.feed(QUEUE, [1.0]),
        "run": lambda w: w.feeder.run(ENQUEUE, {P: 1.0}),
        "join": lambda w: w.feeder.join(),
        "__aenter__": lambda w: QueueRunner(w.session).__aenter__(),
        "__aexit__": lambda w: leave(w.feeder),
        "producing": lambda w: producing(w.session, QUEUE).__enter__(),
    },
    DistributedSession: {
        "run": lambda w: w.spread.run(w.cluster.program.loss),
        "make_callable": lambda w: w.spread.make_callable(w.cluster.program.loss),
        "close": lambda w: w.spread.close(),
        "wait_settled": lambda w: w.spread.wait_settled(),
        "lost": lambda w: w.spread.lost("ps0", PeerLost("gone")),
        "joined": lambda w: w.spread.joined("ps0", 2),
        "initialise": lambda w: w.spread.initialise(["w"]),
        "uninitialised": lambda w: w.spread.uninitialised(),
        "check_here": lambda w: w.spread.check_here(),
        "open": lambda w: w.spread.open(),
        "__aenter__": lambda w: w.spread.__aenter__(),
        "__aexit__": lambda w: leave(w.spread),
    },
    Cluster: {
        "run": lambda w: w.cluster.run(w.cluster.program.loss),
        "settled": lambda w: w.cluster.settled(),
        "open_session_of": lambda w: w.cluster.open_session_of(),
        "check_here": lambda w: w.cluster.check_here(),
        "__aenter__": lambda w: w.cluster.__aenter__(),
        "open": lambda w: w.cluster.open(),
        "ref": lambda w: w.cluster.ref("worker0/echo"),
        "close": lambda w: w.cluster.close(),
        "__aexit__": lambda w: leave(w.cluster),
    },
    af.Trainer: {
        "run": lambda w: anext(w.trainer.run(steps=1)),
        "shards": lambda w: w.trainer.shards(),
        "begin_run": lambda w: w.trainer.begin_run(w.trainer.settings),
        "policy": lambda w: setattr(w.trainer, "policy", af.Async()),
    },
    Stream: {
        "__aenter__": lambda w: w.stream.__aenter__(),
        "__aexit__": lambda w: leave(w.stream),
        "__anext__": lambda w: anext(w.stream),
    },
    Iteration: {"__anext__": lambda w: anext(w.loop_over)},
}

NOWHERE: Any = None
OPENS = "begins in the loop that calls it"
LOOKS = "only looks"
MAKES = "makes what belongs to nobody yet"
INSIDE = "is told by those whom it looks after, in their handlers"

LOOKED_AT = (
    "stats",
    "dump",
    "kernel_seconds",
    "is_open",
    "feeding",
    "producers",
    "system",
    "deadline_s",
    "max_steps",
)

ELSEWHERE: dict[type, dict[str, str]] = {
    ActorSystem: {
        **dict.fromkeys(("stats", "dump"), LOOKS),
        **dict.fromkeys(
            ("failed", "missed", "ended", "gone", "forget", "after_task", "join", "hurry"), INSIDE
        ),
        "__aenter__": OPENS,
        "open": OPENS,
    },
    Supervisor: dict.fromkeys(("failed", "ended", "gone", "begin", "end", "join"), INSIDE),
    Actor: {
        **dict.fromkeys(("receive", "on_start", "on_stop", "on_dump"), "is the user's"),
        "remaining_s": LOOKS,
    },
    ActorTimer: dict.fromkeys(("take", "entered", "expire", "void"), INSIDE),
    RemoteRef: {
        **dict.fromkeys(
            ("add", "hold", "release", "withdraw", "undeliverable", "death_error", "blocked"), INSIDE
        ),
        "obstacle": LOOKS,
        "system": LOOKS,
    },
    RemoteHub: dict.fromkeys(
        ("peers", "why", "waits_now", "channels", "peers_now", "known", "validate"), LOOKS
    ),
    Link: dict.fromkeys(("phase", "contact", "stats", "validate"), LOOKS),
    Endpoint: dict.fromkeys(("addresses", "refusal", "stats", "validate"), LOOKS),
    Session: {
        **dict.fromkeys(LOOKED_AT, LOOKS),
        **dict.fromkeys(("__aenter__", "open"), OPENS),
    },
    Resources: {"resets": LOOKS},
    DistributedSession: {
        **dict.fromkeys((*LOOKED_AT, "address", "home"), LOOKS),
        "resources": "is of sessions in one process",
    },
    Cluster: {
        **dict.fromkeys(("stats", "names", "record", "messages", "incarnations", "chief"), LOOKS),
        **dict.fromkeys(("simulated", "local", "connect", "in_process"), MAKES),
        "at_home": "is what each kind of cluster gives, for what was checked here",
    },
    Stream: dict.fromkeys(("stats", "is_open", "position", "waiting_for"), LOOKS),
}

_ENTRANCES = ("__aenter__", "__aexit__", "__anext__", "__call__")


def public(kind: type) -> set[str]:
    """Returns the names of all that somebody can call of a class, its own and inherited."""
    return {
        name
        for name, member in inspect.getmembers(kind)
        if (not name.startswith("_") or name in _ENTRANCES)
        and (inspect.isroutine(member) or isinstance(member, property))
    }


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
def test_every_public_call_is_tried_here_or_says_why_not(kind: type) -> None:
    told = CALLS[kind].keys() | ELSEWHERE.get(kind, {}).keys()

    assert public(kind) - told == set()


def attempt(call: Callable[[], Any], run: Callable[[Any], Any] | None) -> BaseException | None:
    """Returns what a call raises; what it gives to be awaited is run, or stepped once where no loop runs."""
    try:
        found = call() if run is None else run(_called(call))
        if hasattr(found, "send"):
            try:
                found.send(None)
            finally:
                found.close()
    except BaseException as error:  # noqa: BLE001  looked at by the test
        return error
    return None


async def _called(call: Callable[[], Any]) -> Any:
    found = call()
    return await found if isinstance(found, Awaitable) else found


def in_a_thread(call: Callable[[], Any], run: Callable[[Any], Any] | None) -> BaseException | None:
    found: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: found.append(attempt(call, run)), name="foreign")
    thread.start()
    thread.join()
    return found[0]


def refused(world: World, elsewhere: Callable[[Callable[[], Any]], BaseException | None]) -> list[str]:
    """Returns the calls that something else came of than a WrongLoop, or that changed something."""
    wrong = []
    for kind, calls in CALLS.items():
        for name, call in calls.items():
            before = world.seen()
            error = elsewhere(lambda call=call: call(world))  # type: ignore[misc]
            if type(error) is not WrongLoop:
                wrong.append(f"{kind.__name__}.{name}: {error!r}")
            elif world.seen() != before:
                wrong.append(f"{kind.__name__}.{name} changed {before} to {world.seen()}")
    return wrong


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loops(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_no_public_call_comes_from_a_foreign_thread_with_or_without_a_loop(loops: Any) -> None:
    async def main() -> list[str]:
        world = World()
        await world.open()
        RAN.clear()
        wrong = refused(world, lambda call: in_a_thread(call, None))
        wrong += refused(world, lambda call: in_a_thread(call, asyncio.run))
        assert await world.local.ask("alive") == "alive"
        assert await world.remote.ask("alive") == "alive"
        assert await world.session.run(DOUBLE, {P: 2.0}) == 2.0
        await world.close()
        return wrong

    with asyncio.Runner(loop_factory=loops) as runner:
        wrong = runner.run(main())
    assert not wrong, "\n".join(wrong)
    assert set(RAN) == {"MainThread"}


def test_no_public_call_comes_from_another_loop_of_the_same_thread(loops: Any) -> None:
    """While the loop of its owner does not run: nothing of it is in the ring, or on its way, by chance."""
    world = World()
    with asyncio.Runner(loop_factory=loops) as owner, asyncio.Runner(loop_factory=loops) as other:
        owner.run(world.open())
        RAN.clear()

        wrong = refused(world, lambda call: attempt(call, other.run))

        assert not wrong, "\n".join(wrong)
        assert not RAN
        assert owner.run(world.local.ask("alive")) == "alive"
        owner.run(world.close())


def test_messages_that_stand_in_the_ring_let_no_other_loop_in(loops: Any) -> None:
    """An actor that is not idle asks for no turn when it is told something."""
    with asyncio.Runner(loop_factory=loops) as owner, asyncio.Runner(loop_factory=loops) as other:
        system = ActorSystem()

        async def begin() -> Ref:
            await system.__aenter__()
            return system.spawn(Noting)

        ref = owner.run(begin())
        for call in (lambda: ref.tell(1), lambda: ref.put(1, system.nobody), lambda: ref.signal(1)):
            assert type(attempt(call, other.run)) is WrongLoop
        owner.run(leave(system))


def test_the_thread_of_a_loop_may_call_while_that_does_not_run() -> None:
    with asyncio.Runner() as runner:
        system = ActorSystem()

        async def begin() -> Ref:
            await system.__aenter__()
            return system.spawn(Noting)

        ref = runner.run(begin())
        ref.tell(1)

        async def end() -> None:
            assert await ref.ask(2) == 2
            await system.__aexit__(None, None, None)

        runner.run(end())


def test_a_call_that_is_handed_over_is_one_of_the_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with ActorSystem() as system:
            ref = system.spawn(Noting)

            def foreign() -> Any:
                loop.call_soon_threadsafe(ref.tell, 1)
                return asyncio.run_coroutine_threadsafe(ref.ask(2), loop).result(30.0)

            assert await asyncio.to_thread(foreign) == 2
            assert system.stats().dead_letters == 0

    asyncio.run(main())


def test_the_error_says_whose_loop_it_is_where_the_call_came_from_and_what_to_do() -> None:
    async def main() -> None:
        async with ActorSystem(name="mine") as system:
            error = in_a_thread(lambda: system.spawn(Noting), None)

        assert isinstance(error, WrongLoop)
        assert isinstance(error, af.errors.ActorError)
        text = str(error)
        for part in (
            "the actor system 'mine'",
            "in thread 'MainThread'",
            "outside any event loop in thread 'foreign'",
            "asyncio.run_coroutine_threadsafe",
            "loop.call_soon_threadsafe",
        ):
            assert part in text

    asyncio.run(main())


def test_a_loop_that_goes_on_in_another_thread_takes_calls_from_there() -> None:
    loop = asyncio.new_event_loop()
    affinity = Affinity("it", loop)
    thread = threading.Thread(target=lambda: (loop.run_until_complete(_called(affinity.check)), None)[1])
    thread.start()
    thread.join()
    loop.close()


def test_what_belongs_to_no_loop_belongs_to_its_thread() -> None:
    affinity = Affinity("it", None)

    affinity.check()

    assert type(in_a_thread(affinity.check, None)) is WrongLoop


def test_nothing_runs_in_a_loop_that_opened_no_session_of_its_system() -> None:
    """A session may live in a system of the user's; it is opened in the loop of that."""

    async def main() -> None:
        async with ActorSystem() as system:
            session = Session(GRAPH, system=system)

            assert type(in_a_thread(session.__aenter__, asyncio.run)) is WrongLoop
            assert type(in_a_thread(lambda: af.state.reset(system), asyncio.run)) is WrongLoop
            assert type(in_a_thread(lambda: RemoteHub(system, "here"), None)) is WrongLoop

            async with session:
                assert np.asarray(await session.run(DOUBLE, {P: 3.0})) == 3.0

    asyncio.run(main())


def _sent(coroutine: Any) -> BaseException | None:
    """Runs a coroutine until it first waits, and returns its error."""
    try:
        coroutine.send(None)
    except Exception as error:  # noqa: BLE001  looked at by the caller
        return error
    finally:
        coroutine.close()
    return None


WRONG_RUNS: dict[str, Callable[[Any, Any], Any]] = {
    "a name": lambda session, x: session.run("nope"),
    "names": lambda session, x: session.run(["nope"]),
    "a feed by name": lambda session, x: session.run(x, {"nope": 1.0}),
    "an argument": lambda session, x: session.run(x, nope=1.0),
    "what is no fetch": lambda session, x: session.run(3.0),
    "a variable": lambda session, x: session.run("w"),
}


@pytest.mark.parametrize("what", WRONG_RUNS)
def test_the_owner_of_a_session_is_looked_at_before_what_it_is_asked_for(what: str) -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        af.Variable(af.ones(()), name="w")
    ends: list[Any] = []

    async def main() -> None:
        async with Session(graph) as session:
            before = len(graph)
            thread = threading.Thread(target=lambda: ends.append(_sent(WRONG_RUNS[what](session, x))))
            thread.start()
            thread.join()
            assert len(graph) == before

    asyncio.run(main())
    assert [type(end) for end in ends] == [WrongLoop]


def test_what_was_left_open_when_its_loop_was_closed_says_so() -> None:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
    left: list[Session] = []

    async def main() -> None:
        left.append(await Session(graph, threads=0).open())  # nothing could end threads any more

    def script() -> list[BaseException | None]:
        asyncio.run(main())
        return [_sent(call) for call in (left[-1].close(), left[-1].run(x, {x: 1.0}))]

    ends: list[BaseException | None] = []
    thread = threading.Thread(target=lambda: ends.extend(script()))
    thread.start()
    thread.join()
    ends += script()

    assert [type(end) for end in ends] == [WrongLoop] * 4
    assert all("is closed" in str(end) for end in ends)

"""Small programs of actors, sessions and worlds, for `selftest`; see `samples`.

Their graphs are made anew for every run, and one of them is large enough that its kernels go to
the device's workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from actorflow import ops, optim
from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.actors.supervision import Backoff, Scope, Strategy
from actorflow.actors.system import ActorSystem
from actorflow.dataflow.optimizer.optimizer import OptimizerActor, UpdateContext
from actorflow.errors import ActorflowError
from actorflow.graph.graph import Graph
from actorflow.runtime.messages import Terminated
from actorflow.session.session import Session
from actorflow.sim.property.laws import world
from actorflow.sim.world.host import Host
from actorflow.sim.world.straggler import Straggler
from actorflow.sim.world.world import World
from actorflow.training.minimize import minimize
from tests.programs.seeded_bugs import Add, Number, Read

Log = list[Any]


class Plain(Actor):
    """Handles at once, and passes on."""

    def __init__(self, log: Log, next_: Ref | None = None) -> None:
        self._log = log
        self._next = next_

    def receive(self, message: int) -> int:
        """Answers with the square."""
        self._log.append((self.ref.name, message))
        if self._next is not None:
            self.tell(self._next, message + 100)
        return message * message


class Waiting(Actor):
    """Sleeps, asks another actor, and takes messages meanwhile if it is re-entrant."""

    def __init__(self, log: Log, other: Ref) -> None:
        self._log = log
        self._other = other

    async def receive(self, message: int) -> int:
        """Answers with what the other said, and one."""
        self._log.append((self.ref.name, "takes", message))
        await asyncio.sleep(0.001 * (message % 3))
        answer: int = await self._other.ask(message)
        self._log.append((self.ref.name, "ends", message, self.system.now()))
        return answer + 1


class Reentrant(Waiting):
    """Takes other messages while it waits."""

    reentrant = True


async def conversing() -> Any:
    """Plain, waiting and re-entrant actors, told and asked by several tasks."""
    log: Log = []
    async with ActorSystem(name="talk") as system:
        sink = system.spawn(Plain, log, name="sink")
        plain = system.spawn(Plain, log, sink, name="plain")
        asked = [system.spawn(Waiting, log, plain, name="waiting"), system.spawn(Reentrant, log, plain)]

        async def client(i: int) -> list[int]:
            answers = [await ref.ask(i) for ref in asked]
            await sink.tell(i)
            return answers

        answers = await asyncio.gather(*(client(i) for i in range(4)))
    return answers, log


class Failing(Actor):
    """Fails at some messages, and watches a friend."""

    def __init__(self, log: Log, friend: Ref | None = None) -> None:
        self._log = log
        self._friend = friend

    def on_start(self) -> None:
        """Says when it starts."""
        self._log.append((self.ref.name, "starts", self.system.now()))
        if self._friend is not None:
            self.system.watch(self._friend, self.ref)

    def on_stop(self, reason: BaseException | None) -> None:
        """Says why it stops."""
        self._log.append((self.ref.name, "stops", repr(reason), self.system.now()))

    def receive(self, message: Any) -> None:
        """Fails at multiples of 3."""
        self._log.append((self.ref.name, str(message)))
        if not isinstance(message, Terminated) and message % 3 == 0:
            raise ValueError(message)


async def supervised() -> Any:
    """Groups of actors that fail and are started again after waits with jitter, and give up."""
    log: Log = []
    try:
        async with ActorSystem(name="groups") as system:
            for kind in Scope:
                strategy = Strategy(kind=kind, max_restarts=3, backoff=Backoff(first_s=0.002))
                group = system.supervisor(strategy, name=kind.name.lower())
                friend = None
                for i in range(3):
                    friend = group.spawn(Failing, log, friend, name=f"{kind.name.lower()}{i}")
            for i in range(1, 15):
                for name in list(system.actors)[i % 3 :: 3]:
                    await system.actors[name].tell(i)
                await asyncio.sleep(0.003)
    except* ActorflowError as caught:
        log.append([str(error) for error in caught.exceptions])
    return log


async def concurrent() -> Any:
    """Steps of one session side by side: a variable that all add to, assign and read."""
    with Graph() as graph:
        x = ops.placeholder("float32", (), name="x")
        v = ops.Variable(np.float32(1.0), name="v")
        w = ops.Variable(np.zeros(3, "float32"), name="w")
        add = v.assign_add(x)
        double = w.assign(w.read() * 2.0 + x)
        both = v.read() + ops.sum(w)
        values = [both, v.read(), w.read()]
    async with Session(graph, max_steps=4) as session:
        seen = await asyncio.gather(
            *(session.run([(add, double, both)[i % 3]], {x: np.float32(i)}) for i in range(12))
        )
        last = await session.run(values)
    return [np.asarray(value).tolist() for (value,) in seen], [np.asarray(value).tolist() for value in last]


async def queued() -> Any:
    """A graph's queue with little room: who waits at it, and what each gets."""
    with Graph() as graph:
        n = ops.placeholder("int32", (), name="n")
        queue = ops.FIFOQueue(2, ["int32"], [()], name="queue")
        put, take, size, close = queue.enqueue(n), queue.dequeue(), queue.size(), queue.close()
    taken: Log = []

    async def producer(session: Session, i: int) -> None:
        for k in range(3):
            await session.run(put, {n: np.int32(10 * i + k)})

    async def consumer(session: Session, i: int) -> None:
        while True:
            try:
                taken.append((i, int(np.asarray(await session.run(take)).ravel()[0])))
            except ActorflowError as error:
                taken.append((i, type(error).__name__))
                return

    async with Session(graph) as session:
        consumers = [asyncio.create_task(consumer(session, i)) for i in range(2)]
        await asyncio.gather(*(producer(session, i) for i in range(3)))
        taken.append(int(await session.run(size)))
        await session.run(close)
        await asyncio.gather(*consumers)
    return taken


async def drawing() -> Any:
    """Random ops in steps side by side."""
    with Graph() as graph:
        normal = ops.random_normal((3,), seed=1)
        uniform = ops.random_uniform((2,)) + ops.mean(normal)
        kept = ops.dropout(ops.constant(np.ones(8, "float32")), 0.5)
    async with Session(graph) as session:
        seen = await asyncio.gather(*(session.run([normal, uniform, kept]) for _ in range(4)))
    return [[value.tolist() for value in values] for values in seen]


async def offloaded() -> Any:
    """Kernels that are large enough for the workers, which finish in a chosen order."""
    with Graph() as graph:
        x = ops.placeholder("float32", (64, 64), name="x")
        v = ops.Variable(np.float32(0.0), name="v")
        first = ops.sum(x @ x)
        second = ops.sum(ops.exp(x) @ x)
        add = v.assign_add(first * 0.5)
    matrix = np.linspace(-1, 1, 64 * 64, dtype="float32").reshape(64, 64)
    ended: Log = []

    async def step(session: Session, i: int) -> list[float]:
        values = await session.run([first, second, add], {x: matrix * i})
        ended.append((i, session.stats().offloaded))
        return [float(value) for value in values]

    async with Session(graph) as session:
        seen = await asyncio.gather(*(step(session, i) for i in range(4)))
    return seen, ended


class Noisy(OptimizerActor):
    """Gradient descent that waits, and counts."""

    def init(self, params: Mapping[str, Any]) -> Any:
        """Begins at 0."""
        return np.int64(0)

    async def on_gradients(self, grads: Mapping[str, Any], ctx: UpdateContext) -> Any:
        """Waits a while before it answers."""
        await asyncio.sleep(0.001 * (ctx.count % 2))
        return {name: -0.1 * grad for name, grad in grads.items()}, ctx.state + 1


async def trained() -> Any:
    """Updates of two optimizers side by side, one with a rule and one that waits."""
    with Graph() as graph:
        x = ops.placeholder("float32", (), name="x")
        a = ops.Variable(np.array([1.0, -1.0], "float32"), name="a")
        b = ops.Variable(np.float32(2.0), name="b")
        adam = minimize(ops.sum(ops.square(a)) * x, optim.adam(0.1), [a], name="adam")
        noisy = minimize(ops.square(b) * x, Noisy, [b], name="noisy")
        values = [a.read(), b.read()]
    async with Session(graph) as session:
        counts = await asyncio.gather(
            *(session.run([(adam, noisy)[i % 2], *values], {x: np.float32(1 + i)}) for i in range(6))
        )
        last = await session.run(values)
    return [[np.asarray(v).tolist() for v in seen] for seen in counts], [np.asarray(v).tolist() for v in last]


@world("ps", worker=3, latency_s=0.001, seed=11)
async def outage(world: World) -> Any:
    """Hosts that are disturbed, paused, skewed, clogged and killed by hand, and what each has seen."""
    log: Log = []
    ps, workers = world["ps"], world.hosts[1:]

    def boot(host: Host) -> None:
        host.spawn(Number, name="number")
        host.disk["lives"] = host.disk.get("lives", 0) + 1
        log.append((host.name, "lives", host.disk["lives"], world.loop.time()))

    await ps.on_boot(boot)

    async def client(host: Host) -> None:
        number = host.ref("ps/number")
        for i in range(4):
            try:
                value = await number.ask(Add(1, host.name, i), deadline_s=0.020)
                log.append((host.name, value, host.clock.now()))
            except ActorflowError as error:
                log.append((host.name, str(error)))
            await host.work(0.002)

    world.straggle(workers[0], Straggler(p=1.0))
    world.skew(workers[1], ahead_s=0.5, rate=1.1)
    running = [host.run(client(host)) for host in workers]
    await world.sleep(0.003)
    world.pause(workers[2], 0.004)
    await world.swizzle(workers, 0.006)
    world.crash(ps)
    world.restart_later(ps, 0.010)
    log.extend(map(repr, await asyncio.gather(*running, return_exceptions=True)))
    await world.sleep(0.050)
    log.append(await workers[0].run(workers[0].ref("ps/number").ask(Read())))
    return log


ACTORS: dict[str, Callable[[], Any]] = {
    program.__name__: program
    for program in (conversing, supervised, concurrent, queued, drawing, offloaded, trained)
}

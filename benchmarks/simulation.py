"""The simulator: messages a second beside a plain event loop, and how long it takes to find a bug."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from time import perf_counter
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

import actorflow as af
from actorflow import sim
from actorflow.runtime.event_loop import loop_factory
from benchmarks.harness import Contest, Peer, Round, Size, Unit
from benchmarks.registry import benchmark
from tests.programs.seeded_bugs import PLANTED

Program = Callable[[int], Callable[[], Coroutine[Any, Any, float]]]
"""(messages) -> a program that returns the seconds that they took."""

LANES = (10, 100)
SEEDS = 8
AIM = 100_000.0
QUEUES = "two tasks and two asyncio.Queues a pair: a plain asyncio program"
ASKS = "a task asks an actor; on a plain loop an idle actor answers inline, without any turn"
LINKS = "hosts ask each other over simulated links; a message is copied unless it is of plain values"
NO_LINKS = "the same tasks and actors in one system, without network"
LIMITS = sim.Limits(max_steps=10**9)


class Counter(af.Actor):
    """Adds up."""

    def __init__(self) -> None:
        self.total = 0

    def receive(self, message: int) -> int:
        """Answers with the total."""
        self.total += message
        return self.total


@benchmark(
    "simulation", "messages/s of simulated programs beside a plain loop; time to find and shrink a bug"
)
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """Three programs at 10 and at 100 lanes, then the three planted bugs."""
    for lanes in LANES:
        pairs = lanes // 2
        n = size.operations(20_000, step=2 * pairs)
        for name, program, note in (("queues", queues, QUEUES), ("asks", asks, ASKS)):
            peer = Peer("the same on a plain event loop", _plain(program(pairs)))
            yield Contest(f"{name}_{lanes}", Unit.MESSAGES, n, _simulated(program(pairs)), [peer], AIM, note)
        peer = Peer("asks in one system, plain event loop", _plain(asks(pairs)), note=NO_LINKS)
        yield Contest(f"links_{lanes}", Unit.MESSAGES, n, links(pairs), [peer], AIM, LINKS)
    for name, law in PLANTED.items():
        peer = Peer("one run of the program", _one_run(law))
        about = f"mean over hypothesis seeds 0-{SEEDS - 1}; each has to end at one deviation"
        yield Contest(f"find_{name}", Unit.MILLISECONDS, SEEDS, _find(law), [peer], note=about, once=True)


def queues(pairs: int) -> Program:
    """Returns the program of clients and servers over queues."""

    def program(messages: int) -> Callable[[], Coroutine[Any, Any, float]]:
        async def server(inbox: asyncio.Queue[Any]) -> None:
            while True:
                number, answers = await inbox.get()
                answers.put_nowait(number + 1)

        async def client(server: asyncio.Queue[Any], rounds: int) -> None:
            answers: asyncio.Queue[int] = asyncio.Queue()
            number = 0
            for _ in range(rounds):
                server.put_nowait((number, answers))
                number = await answers.get()
            _check(number, rounds)

        async def main() -> float:
            inboxes: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in range(pairs)]
            servers = [asyncio.create_task(server(inbox)) for inbox in inboxes]
            start = perf_counter()
            await asyncio.gather(*(client(inbox, messages // (2 * pairs)) for inbox in inboxes))
            seconds = perf_counter() - start
            for task in servers:
                task.cancel()
            return seconds

        return main

    return program


def asks(pairs: int) -> Program:
    """Returns the program of tasks that ask actors of one system."""

    def program(messages: int) -> Callable[[], Coroutine[Any, Any, float]]:
        async def main() -> float:
            async with af.ActorSystem() as system:
                actors = [system.spawn(Counter) for _ in range(pairs)]
                start = perf_counter()
                await asyncio.gather(*(_asking(actor.ask, messages // (2 * pairs)) for actor in actors))
                return perf_counter() - start
            raise AssertionError("a system swallows no success")

        return main

    return program


def links(pairs: int) -> Round:
    """Returns the round in which the hosts of a world ask each other."""

    @sim.world(client=pairs, server=pairs, limits=LIMITS)
    async def law(world: sim.World, *, messages: int) -> float:
        refs = []
        for i in range(pairs):
            world[f"server{i}"].spawn(Counter, name="counter")
            refs.append(world[f"client{i}"].ref(f"server{i}/counter"))
        clients = [(world[f"client{i}"], ref) for i, ref in enumerate(refs)]
        rounds = messages // (2 * pairs)
        start = perf_counter()
        await asyncio.gather(*(host.run(_asking(ref.ask, rounds)) for host, ref in clients))
        return perf_counter() - start

    async def round_(n: int) -> float:
        return float(await asyncio.to_thread(lambda: law(messages=n)))

    return round_


async def _asking(ask: Callable[[int], Coroutine[Any, Any, int]], rounds: int) -> None:
    total = 0
    for _ in range(rounds):
        total = await ask(1)
    _check(total, rounds)


def _simulated(program: Program) -> Round:
    """Returns the round that runs the program in the simulator, first come, first served."""

    async def round_(n: int) -> float:
        outcome = await asyncio.to_thread(lambda: sim.run(program(n), limits=LIMITS))
        return float(outcome.result)

    return round_


def _plain(program: Program) -> Round:
    """Returns the round that runs the program on the event loop that `af.run` takes."""

    def run(n: int) -> float:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(program(n)())

    async def round_(n: int) -> float:
        return await asyncio.to_thread(run, n)

    return round_


def _find(law: Callable[..., Any]) -> Round:
    """Returns the round that lets hypothesis find and shrink the bug, once for each of `n` seeds."""

    def hunt(number: int) -> None:
        @seed(number)
        @settings(
            max_examples=1_000,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(schedule=sim.schedules())
        def test(schedule: Any) -> None:
            law(schedule=schedule)

        try:
            test()
        except AssertionError as error:
            notes = getattr(error, "__notes__", [])
            if not any(note.startswith("it takes one deviation") for note in notes):
                message = f"seed {number} did not end at one deviation: {notes}"
                raise RuntimeError(message) from error
        else:
            message = f"seed {number} did not find the bug"
            raise RuntimeError(message)

    def hunts(n: int) -> None:
        for number in range(n):
            hunt(number)

    return _timed(hunts)


def _one_run(law: Callable[..., Any]) -> Round:
    """Returns the round that runs the program `n` times, first come, first served."""
    return _timed(lambda n: [law() for _ in range(n)])


def _timed(work: Callable[[int], object]) -> Round:
    def run(n: int) -> float:
        start = perf_counter()
        work(n)
        return perf_counter() - start

    async def round_(n: int) -> float:
        return await asyncio.to_thread(run, n)

    return round_


def _check(value: int, wanted: int) -> None:
    if value != wanted:
        message = f"{wanted} messages were sent, {value} were handled"
        raise RuntimeError(message)

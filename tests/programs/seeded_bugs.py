"""Three small programs with one bug each, silent first come first served, and their repaired twins.

They are what the simulator is judged by: it has to find each bug, and to show it with one
deviation. `selftest` and `benchmarks/simulation.py` run them.

| program | its bug | its repair |
| --- | --- | --- |
| `lost_update` | clients read, add one and write back | the variable adds |
| `stale_gradient` | the coordinator takes the first m gradients of any step | it looks at the step |
| `double_apply` | a client that hears nothing asks again, and both apply | (client, number) applies once |
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from actorflow.actors.actor import Actor
from actorflow.errors import DeadlinePassed
from actorflow.sim.property.laws import world
from actorflow.sim.world.host import HostRef
from actorflow.sim.world.world import World


@dataclass(frozen=True, slots=True)
class Read:
    """Asks for the value."""


@dataclass(frozen=True, slots=True)
class Write:
    """Sets the value."""

    value: int


@dataclass(frozen=True, slots=True)
class Add:
    """Adds to the value; once for a (client, number), where the variable looks at that."""

    value: int
    client: str
    number: int


class Number(Actor):
    """A variable; `exactly_once` makes it know which additions it has applied."""

    def __init__(self, *, exactly_once: bool = True) -> None:
        self.value = 0
        self._applied: set[tuple[str, int]] = set()
        self._exactly_once = exactly_once

    def receive(self, message: Read | Write | Add) -> int:
        """Answers with the value."""
        match message:
            case Write(value):
                self.value = value
            case Add(value, client, number):
                if not self._exactly_once or (client, number) not in self._applied:
                    self.value += value
                self._applied.add((client, number))
        return self.value


@world("v", c=3)
async def lost_update(world: World, *, repaired: bool = False) -> None:
    """Three clients add 2 each, one after the other unless messages are late."""
    world["v"].spawn(Number, name="number")

    async def client(number: HostRef, name: str) -> None:
        for i in range(2):
            if repaired:
                await number.ask(Add(1, name, i))
            else:
                value = await number.ask(Read())
                await number.ask(Write(value + 1))

    clients = [world[f"c{i}"] for i in range(3)]
    running = []
    for host in clients:
        running.append(host.run(client(host.ref("v/number"), host.name)))
        await world.sleep(0.010)
    await asyncio.gather(*running)
    value = await clients[0].run(clients[0].ref("v/number").ask(Read()))
    assert value == 6, f"6 additions were acknowledged, and the value is {value}"


@dataclass(frozen=True, slots=True)
class Compute:
    """Coordinator → worker: compute the gradient of a step."""

    step: int


@dataclass(frozen=True, slots=True)
class Gradient:
    """Worker → coordinator: it is computed."""

    step: int
    worker: str


class GradientWorker(Actor):
    """Computes a gradient for every step that it is told."""

    def __init__(self, coordinator: HostRef, name: str) -> None:
        self._coordinator = coordinator
        self._name = name

    async def receive(self, message: Compute) -> None:
        """Takes 2 ms."""
        await asyncio.sleep(0.002)
        self._coordinator.tell(Gradient(message.step, self._name))


class Inbox(Actor):
    """Keeps what it is told for a loop to take."""

    def __init__(self, queue: asyncio.Queue[Any]) -> None:
        self._queue = queue

    def receive(self, message: Any) -> None:
        """Keeps `message`."""
        self._queue.put_nowait(message)


@world("coord", g=4)
async def stale_gradient(world: World, *, repaired: bool = False) -> None:
    """Four steps of 3-of-4 synchronous training; every gradient that is applied must be of its step."""
    coordinator = world["coord"]
    inbox: asyncio.Queue[Gradient] = asyncio.Queue()
    coordinator.spawn(Inbox, inbox, name="inbox")
    workers = [host for host in world.hosts if host is not coordinator]
    for host in workers:
        host.spawn(GradientWorker, host.ref("coord/inbox"), host.name, name="worker")
    refs = [coordinator.ref(f"{host.name}/worker") for host in workers]

    async def train() -> None:
        for step in range(4):
            for ref in refs:
                ref.tell(Compute(step))
            taken = 0
            while taken < 3:
                gradient = await inbox.get()
                if repaired and gradient.step != step:
                    continue
                assert gradient.step == step, f"step {step} applied a gradient of step {gradient.step}"
                taken += 1
            await asyncio.sleep(0.005)
            while not inbox.empty():
                inbox.get_nowait()

    await coordinator.run(train())


@world("v", c=2)
async def double_apply(world: World, *, repaired: bool = False) -> None:
    """Two clients add 2 each, and ask again when they hear nothing for 10 ms."""
    number = world["v"].spawn(lambda: Number(exactly_once=repaired), name="number")

    async def client(number: HostRef, name: str) -> None:
        for i in range(2):
            for _attempt in range(20):
                try:
                    await number.ask(Add(1, name, i), deadline_s=0.010)
                    break
                except DeadlinePassed:
                    continue

    clients = [world[f"c{i}"] for i in range(2)]
    await asyncio.gather(*(host.run(client(host.ref("v/number"), host.name)) for host in clients))
    value = await number.ask(Read())
    assert value == 4, f"4 additions were acknowledged, and the value is {value}"


PLANTED = {"lost_update": lost_update, "stale_gradient": stale_gradient, "double_apply": double_apply}

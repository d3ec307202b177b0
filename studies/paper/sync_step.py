"""Figure 7: null steps of n synchronous workers and 16 parameter servers, whose network cards have a rate.

A step, in the order of time:

1. the coordinator, on the first server, begins the step at every worker;
2. a worker does its own part, which a shared machine delays, and asks every server for what it reads;
3. a server handles one message at a time, and answers with the variables;
4. a worker writes a variable back as soon as it has it; the server acknowledges that;
5. with all acknowledged the worker tells the coordinator, whose policy (`coord.rules.policy.Sync`) waits
   for all.

No tensors are made: messages are said to have the size that theirs would have (`sim.world.nic_model`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from actorflow.actors.actor import Actor
from actorflow.coord.rules.policy import Arrived, Sync, View
from actorflow.errors import ConfigError
from actorflow.runtime.clock import Entropy
from actorflow.sim.engine.simulate import Limits
from actorflow.sim.property.laws import world
from actorflow.sim.world.host import Host
from actorflow.sim.world.nic_model import Nics
from actorflow.sim.world.straggler import Straggler
from actorflow.sim.world.world import World
from studies.paper.numbers import Figure, figure

_LIMITS = Limits(max_steps=1_000_000_000, max_seconds=1e9)


@dataclass(frozen=True, slots=True)
class Curve:
    """What a step reads and writes.

    Attributes:
        name: As the paper's numbers are called.
        dense_bytes: Of all that a worker reads, and writes; 0 for a scalar a server.
        table_bytes: Of the table that some rows are taken from; None where there is none.
    """

    name: str
    dense_bytes: float = 0.0
    table_bytes: float | None = None


CURVES = (
    Curve("scalar"),
    Curve("sparse-1GB", table_bytes=1e9),
    Curve("sparse-16GB", table_bytes=16e9),
    Curve("dense-100MB", dense_bytes=100e6),
    Curve("dense-1GB", dense_bytes=1e9),
)

DENSE_PART = 4
"""Of how many steps a dense curve takes one: chance has little part in it, and it is long to simulate."""


def steps_of(curve: Curve, steps: int) -> int:
    """Returns how many steps of `curve` tell as much as `steps` of a scalar one."""
    return max(1, steps // DENSE_PART) if curve.dense_bytes else steps


def timed(curve: Curve, workers: int, *, steps: int, seed: int = 0, given: Figure | None = None) -> float:
    """Returns the median time of a step, simulated."""
    if workers < 1 or steps < 1:
        message = f"a step needs at least 1 worker, and a median at least 1 step, got {workers} and {steps}"
        raise ConfigError(message)
    return median(_train(curve, workers, steps, seed, given or figure("sync-step")))


# -- the actors ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin:
    """Coordinator → worker: begin the next step."""


@dataclass(frozen=True, slots=True)
class Read:
    """Worker → server: send me what you have; of a table, so many rows."""

    rank: int
    rows: int


@dataclass(frozen=True, slots=True)
class Values:
    """Server → worker: a variable, or the rows of one."""

    server: int
    rows: int


@dataclass(frozen=True, slots=True)
class Write:
    """Worker → server: an update of what was read."""

    rank: int
    rows: int


@dataclass(frozen=True, slots=True)
class Written:
    """Server → worker: it is applied."""


@dataclass(frozen=True, slots=True)
class Done:
    """Worker → coordinator: all that this worker wrote is applied."""

    rank: int


class Server(Actor):
    """Handles one message at a time: answers reads, acknowledges writes."""

    def __init__(self, host: Host, index: int, workers: int, load: _Load, nics: Nics) -> None:
        self._host = host
        self._index = index
        self._load = load
        self._refs = [nics.ref(host, f"worker{rank}/worker") for rank in range(workers)]

    async def receive(self, message: Read | Write) -> None:
        """Takes as long as the message and its rows take, and answers."""
        load = self._load
        await self._host.work(load.message_s + message.rows * load.row_s)
        ref = self._refs[message.rank]
        if isinstance(message, Write):
            ref.tell(Written(), load.message_bytes)
            return
        for _ in range(load.variables):
            ref.tell(Values(self._index, message.rows), load.size(message.rows))


class Worker(Actor):
    """Reads all and writes all, once a step."""

    def __init__(self, host: Host, rank: int, load: _Load, nics: Nics, chance: Entropy) -> None:
        self._host = host
        self._rank = rank
        self._load = load
        self._chance = chance
        self._servers = [nics.ref(host, f"ps{index}/server") for index in range(load.servers)]
        self._coordinator = nics.ref(host, "ps0/coordinator")
        self._left = 0

    async def receive(self, message: Begin | Values | Written) -> None:
        """Takes its part of the step further."""
        load = self._load
        if isinstance(message, Begin):
            await self._host.work(load.own_s)
            self._read()
        elif isinstance(message, Values):
            self._servers[message.server].tell(Write(self._rank, message.rows), load.size(message.rows))
        else:
            self._left -= 1
            if not self._left:
                self._coordinator.tell(Done(self._rank), load.message_bytes)

    def _read(self) -> None:
        """Asks the servers, in an order of chance, for rows of chance."""
        load, chance = self._load, self._chance
        wanted = Counter(chance.below(load.table_rows) % load.servers for _ in range(load.rows))
        asked = [index for index in range(load.servers) if not load.rows or wanted[index]]
        self._left = len(asked) * load.variables
        while asked:
            index = asked.pop(chance.below(len(asked)))
            self._servers[index].tell(Read(self._rank, wanted[index]), load.message_bytes)


class Coordinator(Actor):
    """Ends a step when its policy takes what has come.

    Attributes:
        complete: Set when it does.
    """

    def __init__(self, host: Host, workers: int, load: _Load) -> None:
        self.complete = asyncio.Event()
        self._host = host
        self._load = load
        self._ranks = tuple(range(workers))
        self._policy = Sync()
        self._arrived: tuple[Arrived, ...] = ()

    async def receive(self, message: Done) -> None:
        """Counts it."""
        await self._host.work(self._load.message_s)
        self._arrived += (Arrived(message.rank, 0, 0, self._host.clock.now()),)
        view = View(0, self._host.clock.now(), len(self._ranks), self._ranks, complete=self._arrived)
        if self._policy.takes(view):
            self._arrived = ()
            self.complete.set()


@dataclass(frozen=True, slots=True)
class _Load:
    """What a step asks of machines."""

    servers: int
    variables: int
    variable_bytes: float
    rows: int
    table_rows: int
    row_bytes: float
    row_s: float
    own_s: float
    message_s: float
    message_bytes: float

    def size(self, rows: int) -> float:
        """Returns the bytes of a message with a variable, or with so many rows."""
        return self.message_bytes + self.variable_bytes + rows * self.row_bytes


def _load(curve: Curve, given: Figure) -> _Load:
    servers = given.whole("ps_tasks")
    variables = given.whole("variables") if curve.dense_bytes else 1
    sparse = curve.table_bytes is not None
    return _Load(
        servers=servers,
        variables=variables,
        variable_bytes=curve.dense_bytes / servers / variables,
        rows=given.whole("rows") if sparse else 0,
        table_rows=int((curve.table_bytes or 0.0) / given["row_bytes"]),
        row_bytes=given["row_bytes"],
        row_s=given["row_s"],
        own_s=given["step_s"] + (given["sparse_s"] if sparse else 0.0),
        message_s=given["message_s"],
        message_bytes=given["message_bytes"],
    )


def _train(curve: Curve, workers: int, steps: int, seed: int, given: Figure) -> Sequence[float]:
    """Returns how long each step took."""
    load = _load(curve, given)
    noise = Straggler(jitter_s=0.0, p=1.0, stall_s=given["noise_s"])

    @world(ps=load.servers, worker=workers, latency_s=given["latency_s"], seed=seed, limits=_LIMITS)
    async def trains(here: World) -> list[float]:
        nics = Nics(here, send_bytes_s=given["nic_bytes_s"])
        first = here["ps0"]
        coordinator = Coordinator(first, workers, load)
        first.spawn(lambda: coordinator, name="coordinator")
        for index in range(load.servers):
            host = here[f"ps{index}"]
            host.spawn(Server, host, index, workers, load, nics, name="server")
        for rank in range(workers):
            host = here[f"worker{rank}"]
            host.straggler = noise
            host.spawn(Worker, host, rank, load, nics, Entropy(seed << 20 | rank), name="worker")
        refs = [nics.ref(first, f"worker{rank}/worker") for rank in range(workers)]

        async def train() -> list[float]:
            took = []
            for _ in range(steps):
                begun_s = here.loop.time()
                coordinator.complete.clear()
                for ref in refs:
                    ref.tell(Begin(), load.message_bytes)
                await coordinator.complete.wait()
                took.append(here.loop.time() - begun_s)
            return took

        found: list[float] = await first.run(train())
        return found

    took: list[float] = trains()
    return took

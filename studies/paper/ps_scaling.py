"""Figure 9: words a second of an LSTM language model, over parameter servers, workers and two softmaxes.

Each worker goes through its own steps, of some words each, and waits for nobody else (asynchronous):

1. it computes the LSTM on its words, forward and backward, and its part of the softmax;
2. it sends the activations to every server, which multiplies them by its share of the softmax's weights,
   forward and backward, one request at a time, and answers with logits and the activations' gradients;
3. it sends every server its share of the gradients of the LSTM, and gets fresh weights.

Forward and backward are one exchange here, where the real ones are two: what counts is how long servers
and cards are busy. Messages have the size that their tensors would have (`sim.world.nic_model`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from actorflow.actors.actor import Actor
from actorflow.errors import ConfigError
from actorflow.runtime.clock import Entropy
from actorflow.sim.engine.simulate import Limits
from actorflow.sim.property.laws import world
from actorflow.sim.world.host import Host
from actorflow.sim.world.nic_model import Nics
from actorflow.sim.world.straggler import Straggler
from actorflow.sim.world.world import World
from studies.paper.numbers import Figure, figure

Softmax = Literal["full", "sampled"]
SOFTMAXES: tuple[Softmax, ...] = ("full", "sampled")

_LIMITS = Limits(max_steps=1_000_000_000, max_seconds=1e9)
_FLOAT_BYTES = 4
_GATES = 4
_PASSES = 3  # products of the weights with a batch: forward, and backward to both
_WARM = 1  # steps a worker that are not counted: all begin at once


def words_per_s(
    softmax: Softmax, ps_tasks: int, workers: int, *, steps: int, seed: int = 0, given: Figure | None = None
) -> float:
    """Returns how many words a second all workers train on, simulated over `steps` steps of each."""
    if min(ps_tasks, workers, steps) < 1:
        message = (
            "words a second need at least 1 parameter server, 1 worker and 1 step, "
            f"got {ps_tasks}, {workers} and {steps}"
        )
        raise ConfigError(message)
    given = given or figure("ps-scaling")
    load = _load(softmax, ps_tasks, given)
    ends_s = _train(load, workers, (_WARM + steps) * workers, seed, given)
    return load.words * steps * workers / (ends_s[-1] - ends_s[_WARM * workers - 1])


@dataclass(frozen=True, slots=True)
class _Load:
    """What a step of a worker asks of machines; bytes and seconds at a server are of one server."""

    servers: int
    words: int
    own_s: float
    multiply_s: float
    exchange_s: float
    softmax_bytes: float
    weights_bytes: float


def _load(softmax: Softmax, ps_tasks: int, given: Figure) -> _Load:
    words, hidden = given.whole("step_words"), given.whole("hidden")
    classes = given.whole("classes" if softmax == "full" else "sampled")
    weights = _GATES * hidden * (2 * hidden + 1)
    embedded = words * hidden
    flops = _PASSES * 2 * embedded * classes / ps_tasks
    return _Load(
        servers=ps_tasks,
        words=words,
        own_s=words * (given["lstm_s"] + classes * given["class_s"]),
        multiply_s=given["message_s"] + flops / given["ps_flops"],
        exchange_s=given["message_s"] + (words * given["alone_s"] if ps_tasks == 1 else 0.0),
        softmax_bytes=_FLOAT_BYTES * (embedded + words * classes / ps_tasks),
        weights_bytes=_FLOAT_BYTES * (weights + embedded) / ps_tasks,
    )


# -- the actors ------------------------------------------------------------------------------------


class Ended:
    """When steps ended, of all workers; `enough` is set after so many."""

    def __init__(self, wanted: int) -> None:
        self.enough = asyncio.Event()
        self.at_s: list[float] = []
        self._wanted = wanted

    def note(self, at_s: float) -> None:
        """Notes one more."""
        if len(self.at_s) < self._wanted:
            self.at_s.append(at_s)
        if len(self.at_s) == self._wanted:
            self.enough.set()


@dataclass(frozen=True, slots=True)
class Multiply:
    """Worker → server: activations, for the softmax."""

    rank: int


@dataclass(frozen=True, slots=True)
class Multiplied:
    """Server → worker: logits, and gradients of the activations."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Worker → server: gradients of a share of the LSTM's weights."""

    rank: int


@dataclass(frozen=True, slots=True)
class Weights:
    """Server → worker: that share, fresh."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The world → worker: begin the first step."""


class Server(Actor):
    """Holds shares of all weights, and handles one message at a time."""

    def __init__(self, host: Host, workers: int, load: _Load, nics: Nics) -> None:
        self._host = host
        self._load = load
        self._refs = [nics.ref(host, f"worker{rank}/worker") for rank in range(workers)]

    async def receive(self, message: Multiply | Exchange) -> None:
        """Multiplies, or updates, and answers."""
        load, ref = self._load, self._refs[message.rank]
        if isinstance(message, Multiply):
            await self._host.work(load.multiply_s)
            ref.tell(Multiplied(), load.softmax_bytes)
        else:
            await self._host.work(load.exchange_s)
            ref.tell(Weights(), load.weights_bytes)


class Worker(Actor):
    """Trains without end; notes when each step ended."""

    def __init__(self, host: Host, rank: int, load: _Load, nics: Nics, ended: Ended) -> None:
        self._host = host
        self._load = load
        self._multiply, self._exchange = Multiply(rank), Exchange(rank)
        self._servers = [nics.ref(host, f"ps{index}/server") for index in range(load.servers)]
        self._chance = Entropy(rank)
        self._ended = ended
        self._left = 0

    async def receive(self, message: Begin | Multiplied | Weights) -> None:
        """Takes the step further once every server has answered."""
        self._left -= 1
        if self._left > 0:
            return
        if isinstance(message, Multiplied):
            self._tell(self._exchange, self._load.weights_bytes)
            return
        if isinstance(message, Weights):
            self._ended.note(self._host.clock.now())
        await self._host.work(self._load.own_s)
        self._tell(self._multiply, self._load.softmax_bytes)

    def _tell(self, message: Multiply | Exchange, size_bytes: float) -> None:
        """Tells all servers, in turn from one of chance."""
        self._left = n = len(self._servers)
        first = self._chance.below(n)
        for i in range(n):
            self._servers[(first + i) % n].tell(message, size_bytes)


def _train(load: _Load, workers: int, wanted: int, seed: int, given: Figure) -> Sequence[float]:
    """Returns when the first `wanted` steps of all workers together ended."""

    @world(ps=load.servers, worker=workers, latency_s=given["latency_s"], seed=seed, limits=_LIMITS)
    async def trains(here: World) -> list[float]:
        nics = Nics(here, send_bytes_s=given["nic_bytes_s"])
        ended = Ended(wanted)
        for index in range(load.servers):
            host = here[f"ps{index}"]
            host.spawn(Server, host, workers, load, nics, name="server")
        for rank in range(workers):
            host = here[f"worker{rank}"]
            host.straggler = Straggler(jitter_s=given["jitter_s"], p=0.0)
            host.spawn(Worker, host, rank, load, nics, ended, name="worker").tell(Begin())
        await ended.enough.wait()
        return ended.at_s

    found: list[float] = trains()
    return found

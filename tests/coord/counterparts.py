"""A coordinator and shards that do what a test says, so that a worker is the only real one among them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import actorflow as af
from actorflow.actors.actor import Actor
from actorflow.actors.ref import Ref
from actorflow.coord.rules.messages import (
    Assignment,
    Batch,
    Computed,
    Contribute,
    ContributionOutcome,
    Exhausted,
    Heartbeat,
    Join,
    Leave,
    Missed,
    Permit,
    Pull,
    Pulled,
    Refused,
    RunEnded,
    Stored,
)
from actorflow.errors import Fenced
from actorflow.graph.builder import Tensor

TERM, STRIDE = 1, 10
BEAT_S = 1.0


@dataclass(frozen=True)
class Turn:
    """One permit, and what becomes of it.

    Attributes:
        index: Of its batch.
        ahead: By how much the versions of the two shards are newer than that of the permit.
        pull_s: How long each shard takes to answer a Pull.
        keep_s: How long each takes to answer a Contribute.
        refuses: Which shard refuses the contribution.
        then: What the coordinator does beside waiting for the conclusion: hands out the "next" permit, "drop"s
            the contribution, "fence"s the worker, sends the permit "twice", or one of an "old" term.
        then_s: When.
    """

    index: int = 0
    ahead: tuple[int, int] = (0, 0)
    pull_s: tuple[float, float] = (0.0, 0.0)
    keep_s: tuple[float, float] = (0.0, 0.0)
    refuses: int | None = None
    then: str = "wait"
    then_s: float = 0.0


def version_of(number: int) -> int:
    """The version of a permit, from which its number can be told."""
    return STRIDE * number


class Chief(Actor):
    """Hands out the permits of its turns, one after the other, and remembers what it is told.

    Args:
        turns: Its turns.
        signals: Whether it speaks on the control lane; then a permit may come before the assignment.
    """

    def __init__(self, turns: Sequence[Turn], *, signals: bool = False) -> None:
        self.turns = turns
        self.signals = signals
        self.number = self.lives = 0
        self.heard: list[Any] = []
        self.fenced = self.ended = False

    def receive(self, message: Any) -> Any:
        match message:
            case Join():
                self.lives += 1
                if self.lives == 1 or self.fenced:
                    self.fenced = False
                    self.issue()
                return Assignment(TERM, 0, self.lives, BEAT_S)
            case ("next", number) if number == self.number:
                self.issue()
            case ("drop", number):
                self.say(ContributionOutcome(number, False, version_of(number), "late"))
            case ("fence", number):
                self.fenced = True
                self.say(
                    Refused(number, "fenced") if number % 2 else RunEnded(TERM, Fenced("silent for 3 s"))
                )
            case Computed() | Missed() | Exhausted():
                self.heard.append(message)
                if isinstance(message, Computed):
                    self.say(ContributionOutcome(message.number, True, message.base + 1))
                if message.number == self.number and self.turns[message.number - 1].then not in (
                    "next",
                    "fence",
                ):
                    self.issue()
            case Heartbeat() | Leave():
                self.heard.append(message)
        return None

    def issue(self) -> None:
        if self.ended:
            return
        if self.number == len(self.turns):
            self.ended = True
            self.say(RunEnded(TERM))
            return
        self.number += 1
        turn = self.turns[self.number - 1]
        permit = Permit(TERM, self.number, 0, version_of(self.number), Batch(0, turn.index))
        self.say(permit)
        if turn.then == "twice":
            self.say(permit)
        elif turn.then == "old":
            self.say(Permit(0, 99, 0, 0, Batch(0, 0)))
        elif turn.then != "wait":
            self.after(turn.then_s, (turn.then, self.number))

    def say(self, message: Any) -> None:
        worker: Ref = self.system.actors["worker"]
        if self.signals:
            worker.signal(message)
        else:
            self.tell(worker, message)

    def conclusions(self) -> dict[int, list[Any]]:
        """What was said of each permit."""
        found: dict[int, list[Any]] = {number + 1: [] for number in range(self.number)}
        for message in self.heard:
            if isinstance(message, Computed | Missed | Exhausted):
                found[message.number].append(message)
        return found


class Shard(Actor):
    """Answers as the turns say, in whatever order the answers are due."""

    reentrant = True

    def __init__(self, turns: Sequence[Turn], which: int, values: Mapping[str, Any]) -> None:
        self.turns = turns
        self.which = which
        self.values = values
        self.kept: list[Contribute] = []
        self.pulls: list[Pull] = []

    async def receive(self, message: Any) -> Any:
        match message:
            case Pull(version, _, names):
                self.pulls.append(message)
                turn = self.turns[version // STRIDE - 1]
                await asyncio.sleep(turn.pull_s[self.which])
                ahead = turn.ahead[self.which]
                wanted = self.values if names is None else names
                return Pulled(version + ahead, {n: at(self.values[n], version + ahead) for n in wanted})
            case Contribute():
                turn = self.turns[message.number - 1]
                self.kept.append(message)
                await asyncio.sleep(turn.keep_s[self.which])
                return (
                    Refused(message.number, "late") if turn.refuses == self.which else Stored(message.number)
                )
        return None


def at(value: Any, version: int) -> Any:
    """A variable as it is at a version."""
    return (value * np.float32(1 + version / 100)).astype("float32")


class Net:
    """Two layers with dropout between: the first one and a frozen scale on shard 0, the other on shard 1."""

    def __init__(self) -> None:
        with af.Graph(seed=5) as self.graph:
            x = af.placeholder("float32", (None, 3), name="x")
            w = af.Variable(np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4), name="w")
            scale = af.Variable(np.float32(0.5), name="scale", trainable=False)
            v = af.Variable(np.linspace(1, -1, 4, dtype="float32").reshape(4, 1), name="v")
            self.loss = af.mean(af.square(af.dropout(af.tanh(x @ w), 0.5) @ v)) * scale
            self.train = af.minimize(self.loss, af.optim.sgd(0.1))
            self.reads = {u.name: u.reads() for u in (w, scale, v)}
        self.held: tuple[dict[str, Any], dict[str, Any]] = (
            {
                "w": np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4),
                "scale": np.float32(0.5),
            },
            {"v": np.linspace(1, -1, 4, dtype="float32").reshape(4, 1)},
        )
        self.trained = (("w",), ("v",))
        self.batches = [{"x": np.full((2, 3), k + 1, "float32")} for k in range(3)]

    async def serial(self, turns: Sequence[Turn]) -> dict[int, tuple[float, dict[str, Any]]]:
        """For each permit whose batch there is: what one session computes of it, one after the other."""
        gradients = [Tensor(self.graph, port) for port in self.train.node.inputs]
        names = self.train.node.attrs["resources"]
        told: dict[int, tuple[float, dict[str, Any]]] = {}
        async with af.Session(self.graph) as session:
            for number, turn in enumerate(turns, 1):
                feeds: dict[Any, Any] = {"x": self.batches[turn.index % 3]["x"]}
                for shard, ahead in enumerate(turn.ahead):
                    for name, value in self.held[shard].items():
                        for read in self.reads[name]:
                            feeds[read] = at(value, version_of(number) + ahead)
                loss, *grads = await session.run([self.loss, *gradients], feeds)
                told[number] = float(loss), dict(zip(names, grads, strict=True))
        return told

"""Programs for a session that only remembers what it was fed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from actorflow.graph.builder import Tensor
from actorflow.graph.graph import Graph
from actorflow.graph.node import Port
from actorflow.training.events import Event
from actorflow.training.program import Program
from actorflow.training.trainer import train
from actorflow.values.spec import spec


@dataclass
class Counts:
    messages: int


class Recorder:
    """A session that returns the fed number as the loss, takes 1 s and 10 messages a step."""

    def __init__(self) -> None:
        self.fed: list[float] = []
        self.evaluations = 0
        self.seconds = 0.0

    async def run(self, fetches: Sequence[Any], feeds: Mapping[Any, Any]) -> list[Any]:
        await asyncio.sleep(0)
        self.seconds += 1.0
        self.fed.append(feeds["x"])
        return [feeds["x"]] * (len(fetches) - 1) + [None]

    def stats(self) -> Counts:
        return Counts(messages=10 * len(self.fed) + 1000 * self.evaluations)

    def now(self) -> float:
        return self.seconds


def scalar(graph: Graph, shape: tuple[int, ...] = ()) -> Tensor:
    node = graph.add(
        "made_up", name="t", inputs=(), attrs={}, outputs=(spec("float32", shape),), defined_at="a.py:1"
    )
    return Tensor(graph, Port(node.id))


def program(batches: Callable[[int], Any], **others: Any) -> Program:
    graph = Graph()
    usual: dict[str, Any] = {
        "graph": graph,
        "loss": scalar(graph),
        "train": scalar(graph),
        "batches": batches,
        "epochs": 2,
    }
    return Program(**(usual | others))


def feeds(*values: float) -> list[Mapping[Any, Any]]:
    return [{"x": v} for v in values]


def events(what: Program, session: Recorder | None = None, **limits: Any) -> list[Event]:
    session = session or Recorder()

    async def collect() -> list[Event]:
        async with aclosing(train(what, session, clock=session, **limits)) as run:
            return [event async for event in run]

    return asyncio.run(collect())

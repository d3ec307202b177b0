"""Programs that the processes of a real cluster import, and what is left of such a cluster."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

import actorflow as af
from tests.support.linear import linear, shuffled

EXAMPLES = Path(__file__).parents[2] / "examples"


def build(seed: int) -> af.Program:
    """A linear regression; it learns within some epochs of 12 batches, of which there are many."""
    graph, loss, train = linear(seed, af.optim.adam(0.05))
    batches = shuffled(seed, 12, 8)
    return af.Program(graph=graph, loss=loss, train=train, batches=batches, epochs=1_000_000)


def alive(pid: int) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def mixed(seed: int) -> af.Program:
    """A table of which rows are looked up, dropout, a dense layer, adam."""
    from tests.cluster.programs import Task  # with hypothesis, which the others need not load

    return Task(sparse=True, dropout=0.4, seed=seed, epochs=3).program()


def large(seed: int) -> af.Program:
    """As `mixed`, with a table of 3.2 MB, of which a batch looks up some rows."""
    from tests.cluster.programs import Task  # with hypothesis, which the others need not load

    return Task(sparse=True, dropout=0.4, seed=seed, epochs=99, keys=200_000).program()


def lookahead(seed: int) -> af.Program:
    """A small network trained by the optimizer of `examples/lookahead.py`."""
    return _custom(seed, lambda: example("lookahead").Lookahead(af.optim.adam(0.05), k=3))


def staleness_aware(seed: int) -> af.Program:
    """A small network trained by the optimizer of `examples/staleness_aware.py`."""
    return _custom(seed, lambda: example("staleness_aware").StalenessAware(af.optim.adam(0.05)))


@cache
def example(name: str) -> ModuleType:
    """An example, as it stands, without the data of its neighbour `digits`."""
    with patch.dict(sys.modules, digits=ModuleType("digits")):
        spec = spec_from_file_location(f"{name}_of_children", EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def _custom(seed: int, optimizer: Any) -> af.Program:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(12, 16, 8)).astype("float32")
    targets = np.sin(inputs @ rng.normal(size=(8, 3))).astype("float32")
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None, 8), name="x")
        y = af.placeholder("float32", (None, 3), name="y")
        w1 = af.Variable(af.init.he((8, 16)), name="w1")
        w2 = af.Variable(af.init.he((16, 3)), name="w2")
        b = af.Variable(af.init.zeros((3,)), name="b")
        hidden = af.nn.dropout(af.nn.relu(x @ w1), 0.2, training=True)
        loss = af.mean((hidden @ w2 + b - y) ** 2)
        train = af.minimize(loss, optimizer)

    def source(epoch: int) -> list[Mapping[str, Any]]:
        return [{"x": inputs[k], "y": targets[k]} for k in range(12)]

    return af.Program(graph=graph, loss=loss, train=train, batches=source, epochs=1_000_000)


class Echo(af.Actor):
    """Answers with the name of its process, and asks or fails where it is told to."""

    reentrant = True  # it may be asked to ask itself

    def __init__(self, process: af.types.Process) -> None:
        self.process = process

    async def receive(self, message: Any) -> Any:
        match message:
            case ["ask", address, body]:
                return await self.process.ref(address).ask(body)
            case ["all", *addresses]:
                answers = await af.ask_all([self.process.ref(at) for at in addresses], "who")
                return [answers.all(), str(answers)]
            case ["fail", why]:
                raise RuntimeError(why)
        return [self.process.name, message]


def meshed(seed: int) -> af.Program:
    """A regression, and an actor of its own in every process, which knows how many there are."""

    def actors(process: af.types.Process) -> None:
        process.spawn(Echo, process, name="echo")
        if process.job == "worker":
            process.spawn(Echo, process, name=f"extra{process.index}of{len(process.names)}")

    program = build(seed)
    return replace(program, actors=actors, epochs=1)


class Endless(af.Actor):
    """Never answers, unless it is asked how its handlers go."""

    cancellable = True
    reentrant = True

    def __init__(self) -> None:
        self.noted: list[list[str]] = []

    async def receive(self, message: str) -> Any:
        if message == "noted":
            return self.noted
        self.noted.append([message, "begins"])
        try:
            await asyncio.Event().wait()
        finally:
            self.noted.append([message, "ends"])


class Front(af.Actor):
    """Asks an actor of another process for whoever asks it."""

    cancellable = True

    def __init__(self, process: af.types.Process) -> None:
        self.process = process

    async def receive(self, message: Any) -> Any:
        return await self.process.ref("worker0/endless").ask(message)


def chained(seed: int) -> af.Program:
    """A chain over three processes that ends in an actor which never answers."""

    def actors(process: af.types.Process) -> None:
        if process.name == "ps0":
            process.spawn(Front, process, name="front")
        if process.name == "worker0":
            process.spawn(Endless, name="endless")

    return replace(build(seed), actors=actors)


def spawns_nothing(seed: int) -> af.Program:
    """A program whose own actors fail where they are to begin, at the workers."""

    def actors(process: af.types.Process) -> None:
        process.spawn(Echo, process, name="echo")
        if process.job == "worker":
            raise OSError("no such port")

    return replace(build(seed), actors=actors)

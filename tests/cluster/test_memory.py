"""What an update was made of is let go at once: with garbage collection off, none of it is left in cycles."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from tests.support.events import drain

LARGE = 8_000
"""Elements of an array that is large here: nothing but variables, gradients and batches has so many."""
OUTSIDE = (type, ModuleType, FunctionType)
"""What leads to all the rest of the process."""


@contextmanager
def uncollected() -> Iterator[list[Any]]:
    """Fills the list, in the end, with what only a collection would have let go of meanwhile."""
    found: list[Any] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def large_in(garbage: list[Any]) -> list[str]:
    """Where garbage holds large arrays: the types of what does."""
    told = []
    for each in garbage:
        if isinstance(each, OUTSIDE):
            continue
        if holds_large(each):
            told.append(kind(each))
    return told


def holds_large(holder: Any) -> bool:
    """Whether it holds one itself, or by what the collector does not track: a dict of arrays."""
    for held in gc.get_referents(holder):
        if isinstance(held, np.ndarray):
            if held.size >= LARGE:
                return True
        elif not gc.is_tracked(held) and holds_large(held):
            return True
    return False


def kind(holder: Any) -> str:
    if isinstance(holder, FrameType):
        return f"frame of {holder.f_code.co_qualname}"
    names = f" of {', '.join(map(str, list(holder)[:4]))}" if isinstance(holder, dict) else ""
    return type(holder).__qualname__ + names


ROWS, WIDTH = 100, 120


def fed(epoch: int) -> Iterator[dict[str, Any]]:
    for k in range(40):
        rng = np.random.default_rng([epoch, k])
        yield {"keys": rng.permutation(ROWS)[:90], "x": rng.normal(size=(90, ROWS)).astype("float32")}


def program(*, sparse: bool = False) -> af.Program:
    """One table, whose rows are looked up or which is multiplied as a whole, and a large bias."""
    with af.Graph(seed=0) as graph:
        keys = af.placeholder("int64", (None,), name="keys")
        x = af.placeholder("float32", (None, ROWS), name="x")
        table = af.Variable(af.init.he((ROWS, WIDTH)), name="table")
        deep = af.Variable(af.init.he((WIDTH, ROWS)), name="deep")
        hidden = af.nn.embedding_lookup(table, keys) if sparse else x @ table
        loss = af.mean((hidden @ deep - x) ** 2)
        train = af.minimize(loss, af.optim.adam(0.01))

    return af.Program(graph=graph, loss=loss, train=train, batches=fed, epochs=1)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("ps", [1, 2])
@pytest.mark.parametrize("policy", [af.Sync(), af.Async(), af.Backup(2, 3)], ids=["sync", "async", "backup"])
def test_training_on_a_cluster_leaves_no_large_array_to_the_collector(
    policy: af.Policy, ps: int, sparse: bool
) -> None:
    async def main() -> list[str]:
        async with af.Cluster.simulated(program(sparse=sparse), ps=ps, workers=3, work_s=0.01) as cluster:
            trainer = af.Trainer(cluster, policy)
            await drain(trainer.run(steps=2))
            with uncollected() as garbage:
                await drain(trainer.run(steps=6))
                await asyncio.sleep(1.0)
            return large_in(garbage)

    assert sim.run(main).result == []


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_training_in_a_session_leaves_no_large_array_to_the_collector(sparse: bool) -> None:
    async def main() -> list[str]:
        made = program(sparse=sparse)
        async with af.Session(made.graph) as session:
            feeds = next(fed(0))
            await session.run(made.train, feeds)
            with uncollected() as garbage:
                for _ in range(4):
                    await session.run((made.loss, made.train), feeds)
            return large_in(garbage)

    assert sim.run(main).result == []

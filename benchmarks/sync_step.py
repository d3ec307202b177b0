"""A synchronous update of a real cluster: what it costs when there is nothing to compute, and of two MLPs."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import actorflow as af
from benchmarks import programs
from benchmarks.harness import Contest, Peer, Round, Size, Unit, absent
from benchmarks.registry import benchmark

UPDATES = {"scalar": 50, "dense_10mb": 6, "dense_100mb": 1, "sparse_10mb": 50, "sparse_1gb": 50}
MLP_UPDATES = {"mlp": 20, "tiny_mlp": 50}
SMALL_TABLE = "ours, table of 10 MB"
LIKE_PEERS, FLAT = 1.0, 1.1
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@benchmark(
    "sync_step", "a synchronous update of 1 and 2 workers, null steps and MLPs; beside DDP, TensorFlow"
)
async def contests(size: Size) -> AsyncGenerator[Contest]:
    """By the number of workers, each with the peers of as many; then the perceptrons with two."""
    for workers in (1, 2):
        async for contest in _null_steps(size, workers):
            yield contest
    async with AsyncExitStack() as peers_stack:
        peers = Peers(peers_stack, 2)
        for what in MLP_UPDATES:
            async with opened(what, 2) as ours:
                n = size.operations(MLP_UPDATES[what])
                yield Contest(f"{what}_2_ms", Unit.MILLISECONDS, n, ours, peers.of(what))


@benchmark("sync_more", "the null steps of sync_step with 3 and 4 workers; beside DDP")
async def contests_of_more(size: Size) -> AsyncGenerator[Contest]:
    """Likewise."""
    for workers in (3, 4):
        async for contest in _null_steps(size, workers):
            yield contest


async def _null_steps(size: Size, workers: int) -> AsyncGenerator[Contest]:
    async with AsyncExitStack() as peers_stack:
        peers = Peers(peers_stack, workers)
        for what in UPDATES:
            async with AsyncExitStack() as stack:
                n = size.operations(UPDATES[what])
                ours = await stack.enter_async_context(opened(what, workers))
                found = peers.of(what)
                if what == "sparse_1gb":
                    small = await stack.enter_async_context(opened("sparse_10mb", workers))
                    found.insert(0, Peer(SMALL_TABLE, small, FLAT))
                yield Contest(f"{what}_{workers}_ms", Unit.MILLISECONDS, n, ours, found)


@asynccontextmanager
async def opened(what: str, workers: int) -> AsyncGenerator[Round]:
    """Opens a local cluster of one ps, and gives the round of its synchronous updates."""
    async with AsyncExitStack() as stack:
        with one_thread():
            cluster = af.Cluster.local(getattr(programs, what), workers=workers)
            await stack.enter_async_context(cluster)
        trainer = af.Trainer(cluster, af.Sync())

        async def updates(n: int) -> float:
            """The first update of a run is not timed: with it comes what begins a run."""
            start = 0.0
            async with aclosing(trainer.run(steps=n + 1)) as events:
                async for event in events:
                    if isinstance(event, af.types.UpdateDone) and event.step in (1, n + 1):
                        start = perf_counter() - start
            trainer.record.clear()
            return start

        yield updates


class Peers:
    """Who else makes updates with so many workers."""

    def __init__(self, stack: AsyncExitStack, workers: int) -> None:
        self._ddp = self._tensorflow = None
        self._workers = workers
        if find_spec("torch") is not None:
            self._ddp = module("ddp")
            self._group = stack.enter_context(self._ddp.open_group(workers))
        if workers == 2 and find_spec("tensorflow") is not None:
            self._tensorflow = module("tensorflow_ps")
            self._strategy = stack.enter_context(self._tensorflow.open_strategy())

    def of(self, what: str) -> list[Peer]:
        """Returns those of a program."""
        aim = LIKE_PEERS if self._workers > 1 else None
        peers = []
        if self._ddp is None:
            peers.append(absent("DDP gloo", "torch", aim))
        else:
            peers.append(Peer("DDP gloo", partial(self._group.step, what), aim, self._ddp.NOTE))
            if what == "scalar" or what.startswith("dense"):
                reduction = partial(self._group.reduce, what)
                peers.append(Peer("gloo all_reduce", reduction, note=self._ddp.REDUCE_NOTE))
        if self._workers == 2:
            if self._tensorflow is None:
                peers.append(absent("TF ParameterServerStrategy", "tensorflow", LIKE_PEERS))
            else:
                step = partial(self._strategy.step, what)
                peers.append(Peer("TF ParameterServerStrategy", step, LIKE_PEERS, self._tensorflow.NOTE))
        return peers


def module(name: str) -> Any:
    """Returns the module of a peer."""
    return import_module(f"benchmarks.peers.{name}_")


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets processes that are started meanwhile compute with one thread each, as the peers do."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

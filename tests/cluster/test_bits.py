"""One worker over ZeroMQ is a session, bit for bit, whatever it trains and over however many shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import actorflow as af
from actorflow.training.events import StepDone
from actorflow.training.trainer import train
from tests.cluster.children import lookahead, mixed
from tests.cluster.connecting import connected
from tests.cluster.programs import Task

STEPS = 11


def wide(seed: int = 0) -> af.Program:
    """Products that a BLAS with several threads would spread over them."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(4, 64, 300)).astype("float32")
    with af.Graph(seed=seed) as graph:
        x = af.placeholder("float32", (None, 300), name="x")
        w1 = af.Variable(af.init.he((300, 256)), name="w1")
        w2 = af.Variable(af.init.he((256, 10)), name="w2")
        loss = af.mean((af.nn.relu(x @ w1) @ w2) ** 2)
        train = af.minimize(loss, af.optim.momentum(0.05, 0.9))

    def source(_epoch: int) -> list[Mapping[str, Any]]:
        return [{"x": each} for each in inputs]

    return af.Program(graph=graph, loss=loss, train=train, batches=source, epochs=9)


PROGRAMS: Mapping[str, Callable[[], af.Program]] = {
    "dense, sgd": Task(optimizer="sgd", epochs=9).program,
    "dense, momentum, dropout": Task(optimizer="momentum", dropout=0.4, epochs=9).program,
    "adam with a schedule": Task(optimizer="adam with a schedule", epochs=9).program,
    "rows, adam, dropout": lambda: mixed(3),
    "rows that are looked up thrice": Task(sparse=True, looks=3, epochs=9).program,
    "rows and the whole table": Task(sparse=True, whole=True, epochs=9).program,
    "wide products": wide,
    "a custom optimizer": lambda: lookahead(0),
}


@dataclass(frozen=True)
class Trained:
    losses: tuple[float, ...]
    values: Mapping[str, bytes]


async def trained(program: af.Program, session: Any, events: Any) -> Trained:
    losses = tuple([event.loss async for event in events if isinstance(event, StepDone)])
    names = program.train.node.attrs["resources"]
    return Trained(losses, {name: (await session.run(name)).tobytes() for name in names})


def local(program: af.Program) -> Trained:
    async def main() -> Trained:
        async with af.Session(program.graph) as session:
            return await trained(program, session, train(program, session, steps=STEPS))

    return af.run(main())


def over_sockets(build: Callable[[], af.Program], ps: int, threads: int) -> Trained:
    async def main() -> Trained:
        async with connected(build, ps=ps, threads=threads) as cluster:
            return await trained(cluster.program, cluster, af.Trainer(cluster).run(steps=STEPS))

    return af.run(main())


@pytest.mark.wire
@pytest.mark.parametrize("ps", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_worker_over_sockets_is_a_session(name: str, ps: int) -> None:
    build = PROGRAMS[name]

    expected = local(build())

    assert len(set(expected.losses)) == STEPS
    assert over_sockets(build, ps, threads=ps - 1) == expected


@pytest.mark.processes
def test_one_worker_in_processes_of_its_own_is_a_session_and_the_record_says_why(left: Any) -> None:
    async def main() -> tuple[Trained, Any, Any]:
        async with af.Cluster.local(mixed, seed=5, ps=2, workers=1) as cluster:
            before = cluster.record
            found = await trained(cluster.program, cluster, af.Trainer(cluster).run(steps=STEPS))
            return found, before, cluster.record

    program = mixed(5)

    found, before, record = af.run(main())

    assert found == local(program)
    assert left() == []
    assert list(record.differences()) == []
    assert (before.policy, record.policy, record.seed) == (None, "sync", 5)
    assert [process.name for process in record.processes] == ["chief", "ps0", "ps1", "worker0"]
    assert len({process.pid for process in record.processes}) == 4
    assert all(process.incarnation > 0 for process in record.processes)
    assert {process.blas_threads for process in record.processes} == {1}
    assert {process.kernel_threads for process in record.processes} == {1}
    assert {process.program for process in record.processes} == {record.program}
    (blas,) = {process.blas for process in record.processes}
    versions = {lib["version"] for lib in threadpool_info() if "numpy" in lib["filepath"]}
    assert versions
    assert all(version in blas for version in versions)

"""Leaving a session or a cluster ends in the time that was said, whoever swallows his cancellation."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import actorflow as af
from actorflow import sim
from actorflow.actors.system import ActorSystem
from actorflow.cli.cluster_arguments import add_common, common
from actorflow.cluster.local import LocalCluster
from actorflow.errors import ConfigError

ENDLESS_S = 1e6


class Stubborn(af.Actor):
    """Goes on although it is cancelled."""

    async def receive(self, message: Any) -> Any:
        while True:
            try:
                await asyncio.sleep(ENDLESS_S)
            except asyncio.CancelledError:
                continue


def program() -> af.Program:
    with af.Graph() as graph:
        x = af.placeholder("float32", (), name="x")
        w = af.Variable(0.0, name="w")
        loss = af.square(x - w)
        train = af.minimize(loss, af.optim.sgd(0.1))
    return af.Program(
        graph=graph,
        loss=loss,
        train=train,
        batches=lambda _epoch: [{"x": np.float32(1)}],
        epochs=1,
        actors=lambda process: process.spawn(Stubborn, name="stubborn") and None,
    )


async def left(opening: Any, ref: Callable[[Any], Any]) -> float:
    """Returns how long it takes to leave while the handler of a stubborn actor is suspended."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        async with opening as opened:
            await ref(opened).tell("go")
            await asyncio.sleep(0.1)
            begun = loop.time()
    except ExceptionGroup as group:
        assert "is abandoned" in repr(group.exceptions)  # noqa: PT017  it is always left so
    return loop.time() - begun


def of_a_session(**options: Any) -> float:
    async def main() -> float:
        with af.Graph() as graph:
            af.constant(1.0)
        return await left(
            af.Session(graph, **options), lambda session: session.system.spawn(Stubborn, name="stubborn")
        )

    found: float = sim.run(main).result
    return found


def of_a_cluster(kind: str, **options: Any) -> float:
    async def main() -> float:
        cluster: Any = getattr(af.Cluster, kind)(program(), **options)
        return await left(cluster, lambda cluster: cluster.ref("worker0/stubborn"))

    found: float = sim.run(main).result
    return found


LEAVE = {
    "a session": of_a_session,
    "in_process": lambda **options: of_a_cluster("in_process", **options),
    "simulated": lambda **options: of_a_cluster("simulated", **options),
}


@pytest.mark.parametrize("kind", LEAVE)
def test_leaving_takes_as_long_as_was_said(kind: str) -> None:
    assert 2.0 <= LEAVE[kind](stop_s=2.0) < 20.0
    assert LEAVE[kind]() >= 60.0


@pytest.mark.parametrize("kind", LEAVE)
@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), "soon", True])
def test_what_is_no_time_is_refused(kind: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="stop_s"):
        LEAVE[kind](stop_s=wrong)


def test_a_session_that_open_opened_and_one_of_a_script_leave_in_that_time_too() -> None:
    async def main() -> float:
        with af.Graph() as graph:
            af.constant(1.0)
        session = await af.Session(graph, stop_s=2.0).open()
        await session.system.spawn(Stubborn).tell("go")
        await asyncio.sleep(0.1)
        begun = asyncio.get_running_loop().time()
        with pytest.raises(ExceptionGroup):
            await session.close()
        return asyncio.get_running_loop().time() - begun

    assert 2.0 <= sim.run(main).result < 20.0


def test_the_time_of_a_system_that_is_given_is_its_own() -> None:
    async def main() -> None:
        async with ActorSystem() as system:
            with pytest.raises(ConfigError, match="stop_s is the system's where a system is given"):
                af.Session(af.Graph(), system=system, stop_s=2.0)

    af.run(main())


FILE = """
import actorflow as af

def build(seed):
    with af.Graph() as graph:
        w = af.Variable(0.0, name="w")
        loss = af.square(w)
        train = af.minimize(loss, af.optim.sgd(0.1))
    return af.Program(graph=graph, loss=loss, train=train, batches=lambda _epoch: [{}], epochs=1)
"""


def test_processes_are_told(tmp_path: Path) -> None:
    file = tmp_path / "leaves.py"
    file.write_text(FILE)
    parser = argparse.ArgumentParser()
    add_common(parser.add_argument)
    args = parser.parse_args(["--stop-s", "2.5"])

    said = common(args)
    assert said[said.index("--stop-s") + 1] == "2.5"
    cluster = LocalCluster(file, stop_s=2.5)
    argv = cluster._argv("worker")
    assert argv[argv.index("--stop-s") + 1] == "2.5"
    assert cluster._stop_s == 2.5

"""What a process tells of itself: from its loop, and from beside it while that is held up."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.actors.actor import Actor
from actorflow.actors.system import ActorSystem
from actorflow.cluster.inspect.monitor import HEARTBEAT_S, Monitor, _describe_again
from actorflow.cluster.inspect.reports import LookQuestion, ProcessReport, RunEntry, ShardEntry, WorkerEntry
from actorflow.cluster.inspect.snapshots import run_now, shard_now, worker_now
from actorflow.cluster.process.process import Process
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.errors import WireError
from actorflow.transport.codec.message_codec import decode, encode, join
from tests.support.busy import HANG_S
from tests.support.linear import regression

DEADLINE_S = HANG_S


class Holding(Actor):
    """Holds the loop up when it is told to, as a kernel without threads does."""

    def __init__(self, until: threading.Event, began: threading.Event) -> None:
        self._until = until
        self._began = began

    def receive(self, message: Any) -> Any:
        self._began.set()
        self._until.wait(DEADLINE_S)


class Asking(Actor):
    """Asks another actor, for ever."""

    def __init__(self, whom: Any) -> None:
        self._whom = whom

    async def receive(self, message: Any) -> None:
        await self._whom.ask("never answered", 60.0)


class Mute(Actor):
    async def receive(self, message: Any) -> None:
        await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def told(**options: Any) -> AsyncIterator[tuple[Monitor, Process]]:
    async with ActorSystem(name="worker0") as system:
        process = Process("worker0", 7, system, regression())
        with Monitor(process, **options) as monitor:
            yield monitor, process
        await process.close()


async def asked(monitor: Monitor, look: LookQuestion | None = None) -> ProcessReport:
    """Asks as the side thread does: by bytes."""
    request = join(encode(look or LookQuestion()))
    answer = await asyncio.to_thread(monitor.answer, request)
    report = decode(answer)
    assert isinstance(report, ProcessReport)
    return report


async def waits() -> None:
    async with told(moved=lambda: (12, 34)) as (monitor, process):
        asking = process.system.spawn(Asking, process.system.spawn(Mute, name="mute"), name="asking")
        asking.tell("begin")
        while not process.system.dump().waits:  # noqa: ASYNC110  it goes on turn by turn
            await asyncio.sleep(0)
        report = await asked(monitor)

        assert (report.name, report.incarnation, report.pid) == ("worker0", 7, os.getpid())
        assert report.loop.answers
        assert not report.loop.stack
        assert {"asking", "mute", "process_agent", "runner"} <= {actor.name for actor in report.actors}
        assert ("asking", "mute", "ask") in {(w.waiter, w.awaited, w.kind) for w in report.waits}
        assert (report.totals.bytes_out, report.totals.bytes_in) == (12, 34)
        assert report.totals.open_asks >= 1
        assert report.unread == ()
        assert json.loads(json.dumps(asdict(report)))["name"] == "worker0"
        asking.stop()


def test_a_process_tells_what_its_actors_wait_for_and_json_can_show_it() -> None:
    asyncio.run(waits())


def test_in_totals_alone_when_nobody_asks_for_actors() -> None:
    async def body() -> None:
        async with told() as (monitor, _):
            report = await asked(monitor, LookQuestion(actors=False))
            assert report.actors == report.waits == ()
            assert report.totals.turns > 0

    asyncio.run(body())


def test_a_process_whose_loop_is_held_up_tells_so_with_the_actor_and_the_stack() -> None:
    until, began = threading.Event(), threading.Event()
    found: list[ProcessReport] = []

    async def body() -> None:
        async with told(answer_s=0.05) as (monitor, process):
            await asyncio.sleep(2 * HEARTBEAT_S)

            def ask() -> None:
                began.wait(DEADLINE_S)
                waited = threading.Event()
                while not waited.wait(0.05):
                    found.append(decode(monitor.answer(join(encode(LookQuestion())))))
                    if found[-1].loop.late_s > 2 * HEARTBEAT_S:
                        break
                until.set()

            thread = threading.Thread(target=ask)
            thread.start()
            process.system.spawn(Holding, until, began, name="holding").tell("hold it up")
            await asyncio.to_thread(thread.join)
            found.append(await asked(monitor))

    asyncio.run(body())
    *held, after = found
    assert not any(report.loop.answers for report in held)
    assert held[-1].loop.doing == "holding"
    assert any("in receive: self._until.wait(DEADLINE_S)" in call for call in held[-1].loop.stack)
    assert {"holding", "runner"} <= {actor.name for actor in held[-1].actors}
    assert held[-1].loop.late_s > 2 * HEARTBEAT_S
    assert after.loop.answers
    assert after.loop.worst_s >= held[-1].loop.late_s, "what it was late by is remembered"


def test_a_loop_that_goes_on_is_not_taken_for_one_that_is_held_up() -> None:
    async def body() -> None:
        async with told() as (monitor, process):
            first = monitor.heartbeat_at
            for _ in range(100):
                await asyncio.sleep(HEARTBEAT_S)
                if monitor.heartbeat_at >= first + 3 * HEARTBEAT_S:
                    break
            waited_s = process.system.now() - first
            assert monitor.from_beside(LookQuestion()).loop.late_s < waited_s - 2 * HEARTBEAT_S

    asyncio.run(body())


def test_a_loop_that_is_closed_is_told_from_beside() -> None:
    monitors: list[Monitor] = []

    async def body() -> None:
        async with told() as (monitor, _):
            monitors.append(monitor)

    asyncio.run(body())
    assert not monitors[0].report(LookQuestion()).loop.answers


def test_what_changes_under_the_reader_is_read_again_and_what_never_holds_still_is_named() -> None:
    tries: list[int] = []

    def changes() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("dictionary changed size during iteration")
        return "read"

    unread: list[str] = []
    assert _describe_again(changes, "", unread) == "read"
    assert not unread

    def never() -> str:
        raise RuntimeError("dictionary changed size during iteration")

    assert _describe_again(never, "otherwise", unread) == "otherwise"
    assert unread == ["RuntimeError: dictionary changed size during iteration"]


def test_what_is_no_look_is_refused() -> None:
    async def body() -> None:
        async with told() as (monitor, _):
            with pytest.raises(WireError, match="asked with a Look, got str"):
                monitor.answer(join(encode("hello")))
            with pytest.raises(WireError):
                monitor.answer(b"\x00garbage")

    asyncio.run(body())


def test_a_cluster_tells_who_is_at_work_and_for_whom_the_next_update_waits() -> None:
    runs: list[RunEntry | None] = []
    shards: list[ShardEntry | None] = []
    workers: list[WorkerEntry | None] = []

    @sim.world("chief", ps=1, worker=3, latency_s=0.0005)
    async def body(world: sim.World) -> None:
        cluster = SimulatedCluster(regression(), ps=1, workers=3, work_s=0.1, world=world)
        async with cluster:
            trainer = af.Trainer(cluster, af.Sync())
            async for event in trainer.run(steps=6):
                if isinstance(event, af.types.UpdateDone):
                    if event.step == 2:
                        world.crash("worker1")
                    runs.append(run_now(cluster.chief.system))
                    shards.append(shard_now(cluster.process("ps0").system))
                    workers.append(worker_now(cluster.process("worker0").system))
                    if event.step == 3:
                        runs.append(run_now(cluster.process("ps0").system))

    body()
    first, *_, nobody, last = (*runs[:3], runs[3], runs[-1])
    assert first is not None and last is not None
    assert nobody is None
    assert [seat.process for seat in first.members] == ["worker0", "worker1", "worker2"]
    assert [seat.state for seat in last.members] == ["alive", "dead", "alive"]
    assert last.members[1].why
    assert "sync waits; worker0 has permit 4" in first.waits
    assert [shard.version for shard in shards if shard is not None] == [1, 2, 3, 4, 5, 6]
    assert all(worker is not None and worker.computed >= k for k, worker in enumerate(workers, 1))

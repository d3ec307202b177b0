"""A chief waits for processes that somebody else starts, over real sockets; all in one event loop here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import actorflow as af
from actorflow import sim
from actorflow.cluster.connected import ConnectedCluster
from actorflow.cluster.entry import code_of
from actorflow.cluster.process.discovery_client import ChiefTimeouts
from actorflow.cluster.process_runtime import ProcessRuntime
from actorflow.cluster.simulated import SimulatedCluster
from actorflow.cluster.sockets import bind_of, chief_at, open_sockets
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import ConfigError, NotReady, SessionClosed
from actorflow.launch.rundir import RunDirectory
from actorflow.launch.task import Task
from actorflow.transport.rules.link_settings import LinkSettings
from actorflow.transport.zeromq import Keyring
from tests.cluster.stations import until
from tests.support.events import drain
from tests.support.linear import regression

LINKS = LinkSettings(silence_s=4.0, heartbeat_s=1.0, resend_s=0.2, ack_s=0.005)
HASTE = ChiefTimeouts(again_s=0.02)


class Others:
    """Starts the other processes of a cluster, beside its chief."""

    def __init__(self, address: str, *, keys: Keyring | None = None, ps: int = 1, workers: int = 2) -> None:
        self.address, self.keys = address, keys
        self.ps, self.workers = ps, workers
        self.there: list[ProcessRuntime] = []

    async def start(self, job: str, index: int, *, seed: int = 0, incarnation: int = 1) -> ProcessRuntime:
        task = Task(job, index, self.ps, self.workers, self.address)
        names = ("chief", *(f"ps{k}" for k in range(self.ps)), *(f"worker{k}" for k in range(self.workers)))
        station = ProcessRuntime(
            task.name,
            incarnation,
            regression(seed=seed),
            names,
            open_sockets(bind_of(task), self.keys),
            chief=chief_at(self.address, self.keys),
            threads=0,
            links=LINKS,
            timeouts=HASTE,
        )
        self.there.append(await station.open())
        return station

    async def start_all(self) -> None:
        for index in reversed(range(self.workers)):
            await self.start("worker", index)
        for index in range(self.ps):
            await self.start("ps", index)

    async def close(self) -> None:
        for station in self.there:
            await station.close()


@asynccontextmanager
async def others(address: str, **options: Any) -> AsyncIterator[Others]:
    made = Others(address, **options)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
def ipc() -> Any:
    with TemporaryDirectory(prefix="af-") as folder:
        yield f"ipc://{folder}/chief"


def cluster(address: str, *, workers: int = 2, **options: Any) -> ConnectedCluster:
    options = {"ready_s": 20.0, "threads": 0, "links": LINKS, **options}
    return ConnectedCluster(regression(), address, workers=workers, **options)


async def trained(one: af.Cluster, policy: af.Policy, **limits: Any) -> Any:
    await drain(af.Trainer(one, policy).run(**limits))
    return await one.run("w")


def _free_port() -> str:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.wire
def test_it_trains_bit_for_bit_as_a_simulated_one(ipc: str, keyed: bool) -> None:
    address, keys = (_free_port(), Keyring.new()) if keyed else (ipc, None)

    async def main() -> Any:
        async with others(address, keys=keys) as them:
            starting = asyncio.ensure_future(them.start_all())  # whoever comes first
            async with cluster(address, keys=keys) as one:
                await starting
                assert one.incarnations().keys() == {"chief", "ps0", "worker0", "worker1"}
                found = await trained(one, af.Sync())
            assert [await station.ended for station in them.there] == [None] * 3
            return found

    async def simulated() -> Any:
        async with SimulatedCluster(regression(), workers=2) as one:
            return await trained(one, af.Sync())

    found = af.run(main())
    assert found.tobytes() == sim.run(simulated).result.tobytes()
    left = [path.name for path in Path(ipc.removeprefix("ipc://")).parent.iterdir()]
    assert left == ([] if keyed else ["chief.over"])  # the note for those who start late


@pytest.mark.wire
def test_who_is_missing_is_named_with_what_is_known(ipc: str) -> None:
    async def main() -> NotReady:
        async with others(ipc) as them:
            await them.start("ps", 0)
            await them.start("worker", 1, seed=3)  # has built something else
            with pytest.raises(NotReady) as caught:
                await cluster(ipc, ready_s=0.7).__aenter__()
            reason = await them.there[0].ended  # who waited is told why it did in vain
            assert isinstance(reason, NotReady)
            assert str(reason) == str(caught.value)
            assert reason.__notes__ == caught.value.__notes__
            assert code_of(reason) == 69
            return caught.value

    error = af.run(main())
    assert error.what == "all processes must be there within 0.7 s, and worker0 and worker1 are not"
    (note,) = error.__notes__
    assert note.startswith("  worker1: all processes must be given one seed, got 3 at 'worker1' and 0 here")


@pytest.mark.parametrize(
    ("ends", "least", "said"),
    [
        ({"worker0": "was killed by SIGTERM"}, None, "all processes must be there, and 'worker0' was killed"),
        (
            {"ps0": "ended with 1"},
            1,
            "all ps and 1 worker must be there, and 'ps0' ended with 1 before it was",
        ),
        (
            {"worker1": "x", "worker0": "ended with 0: done"},
            1,
            "all ps and 1 worker must be there, and 'worker0'",
        ),
        ({"worker0": "was killed by SIGTERM"}, 1, "within 0.3 s"),
        ({"worker7": "was killed by SIGTERM"}, None, "within 0.3 s"),
    ],
)
@pytest.mark.wire
def test_it_does_not_wait_for_who_has_ended_for_good(
    ipc: str, ends: dict[str, str], least: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TemporaryDirectory(prefix="af-") as base, RunDirectory(Path(base) / "af-0") as folder:
        monkeypatch.setenv("ACTORFLOW_FOLDER", str(folder.path))
        folder.write({}, ends)

        async def main() -> None:
            async with cluster(ipc, ready_s=0.3 if "within" in said else 60.0, least=least):
                pass

        with pytest.raises(NotReady) as caught:
            af.run(main())
    assert said in caught.value.what
    assert getattr(caught.value, "__notes__", []) == (["  worker1 x"] if "worker1" in ends else [])


@pytest.mark.wire
def test_it_begins_with_the_least_and_takes_the_others_when_they_come(ipc: str) -> None:
    async def main() -> set[int]:
        async with others(ipc) as them:
            await them.start("ps", 0)
            await them.start("worker", 1)
            ranks: set[int] = set()
            async with cluster(ipc, least=1) as one:
                soon = RunSettings(gather_s=0.2)
                async for event in af.Trainer(one, af.Async(), settings=soon).run(epochs=400):
                    if isinstance(event, af.types.UpdateDone):
                        ranks |= {rank for rank, *_ in event.update.chosen}
                        if event.step == 3:
                            await them.start("worker", 0)
                        if len(ranks) == 2:
                            break
            return ranks

    assert af.run(main()) == {0, 1}


@pytest.mark.wire
def test_opening_that_is_cancelled_leaves_nothing(ipc: str) -> None:
    async def main() -> None:
        one = cluster(ipc)
        opening = asyncio.ensure_future(one.__aenter__())
        path = Path(ipc.removeprefix("ipc://"))
        await until(path.exists)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert not list(path.parent.iterdir())
        assert len(asyncio.all_tasks()) == 1
        with pytest.raises(SessionClosed):
            await one.run("w")
        async with others(ipc) as them:  # and opens again
            await them.start_all()
            async with one:
                await one.run("w")

    af.run(main())


@pytest.mark.wire
def test_a_worker_that_begins_anew_takes_part_again(ipc: str) -> None:
    async def main() -> None:
        async with others(ipc) as them:
            await them.start_all()
            async with cluster(ipc) as one:
                made, back = 0, False
                async for event in af.Trainer(one, af.Backup(1, 2)).run(epochs=40):
                    if not isinstance(event, af.types.UpdateDone):
                        continue
                    made += 1
                    ranks = {rank for rank, *_ in event.update.chosen}
                    if made == 4:
                        worker = next(station for station in them.there if station.name == "worker0")
                        them.there.remove(worker)
                        await worker.close()
                        await them.start("worker", 0, incarnation=2)
                    elif made > 4 and ranks == {0} and one.incarnations()["worker0"] == 2:
                        back = True
                        break
                assert back

    af.run(main())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"address": "nowhere"}, "the chief's address must be an address"),
        ({"ready_s": 0}, "ready_s is a number of seconds above 0, got 0"),
        ({"threads": -1}, "threads is how many run slow kernels, at least 0, got -1"),
        ({"least": 3}, "least is how many workers must be there, 1 to 1, got 3"),
        ({"links": "fast"}, "links are as Settings say, got 'fast'"),
        ({"keys": 7}, "keys are a key ring or its file, or False for none, got 7"),
        ({"workers": 0}, "worker is how many processes of that kind there are, at least 1, got 0"),
        ({"seed": 1}, "a connected cluster has no option seed"),
    ],
)
def test_what_it_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    given = {"address": "ipc:///tmp/af-never/chief", **options}
    with pytest.raises(ConfigError) as caught:
        af.Cluster.connect(regression(), given.pop("address"), **given)
    assert str(caught.value).startswith(said)


def test_bind_of_chooses_where_the_chief_can_reach_it() -> None:
    def chosen(coordinator: str, **options: Any) -> str:
        return bind_of(Task("worker", 1, 1, 2, coordinator, **options))

    assert chosen("ipc:///run/x/chief") == "ipc:///run/x/worker1"
    assert chosen("tcp://127.0.0.1:4000") == "tcp://127.0.0.1:0"
    assert chosen("tcp://127.0.0.1:4000", bind="tcp://10.0.0.7:0") == "tcp://10.0.0.7:0"
    assert bind_of(Task("chief", 0, 1, 2, "tcp://10.0.0.7:4000")) == "tcp://10.0.0.7:4000"

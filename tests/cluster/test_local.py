"""Clusters of real processes: they train, survive what kills their workers, and leave nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import actorflow as af
from actorflow.cluster.local import LocalCluster
from actorflow.errors import ConfigError, ProgramError, ShardLost
from actorflow.launch.process_supervisor import Exited, ProcessSupervisor, Started
from actorflow.launch.rundir import RunDirectory
from actorflow.transport.rules.link_settings import LinkSettings
from actorflow.transport.zeromq import Keyring
from tests.cluster.children import alive, build
from tests.cluster.stations import until
from tests.support.python import run_python

LINKS = LinkSettings(gone_s=0.5, resend_s=0.1)
READY_S = 60.0
Left = Callable[[], list[str]]


@pytest.mark.processes
def test_it_trains_goes_on_without_a_worker_that_is_killed_and_ends_without_a_shard(left: Left) -> None:
    """One cluster for all of it: starting its processes takes longest."""
    started: list[Started] = []

    class Watched(LocalCluster):
        def _hear(self, event: Any) -> None:
            if isinstance(event, Started):
                started.append(event)
            super()._hear(event)

    async def without(name: str, one: LocalCluster, trainer: af.Trainer) -> None:
        assert one.supervisor is not None
        async for event in trainer.run():
            if event.step == 5:
                os.kill(one.supervisor.pids()[name], signal.SIGKILL)

    async def main() -> None:
        async with Watched(build, workers=2, ready_s=READY_S, links=LINKS) as one:
            assert one.supervisor is not None
            trainer = af.Trainer(one, af.Sync())
            events = [event async for event in trainer.run(epochs=4)]
            first, last = (
                event for event in (events[6], events[-2]) if isinstance(event, af.types.EpochDone)
            )
            assert last.loss < first.loss
            trainer.policy = af.Backup(1, 2)
            killed, back = 0, False
            async for event in trainer.run():
                if not isinstance(event, af.types.UpdateDone):
                    continue
                if event.step == 5:
                    killed = one.incarnations()["worker0"]
                    os.kill(one.supervisor.pids()["worker0"], signal.SIGKILL)
                lives, ranks = one.incarnations(), {rank for rank, *_ in event.update.chosen}
                if killed and 0 in ranks and lives.get("worker0", killed) > killed:
                    back = True
                    break
            assert back
            with pytest.raises(ShardLost, match="shard 0, of 'ps0', is gone"):
                await without("ps0", one, trainer)

    af.run(main())
    assert [event.name for event in started[:5]] == ["ps0", "worker0", "worker1", "worker0", "ps0"]
    assert not any(alive(event.pid) for event in started)
    assert left() == []


@pytest.mark.processes
def test_opening_that_is_cancelled_leaves_nothing(left: Left) -> None:
    pids: list[int] = []

    async def main() -> None:
        one = LocalCluster(build, workers=2)
        opening = asyncio.ensure_future(one.__aenter__())
        await until(lambda: one.supervisor is not None and len(one.supervisor.pids()) == 3)
        assert one.supervisor is not None
        pids.extend(one.supervisor.pids().values())
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert len(asyncio.all_tasks()) == 1

    af.run(main())
    assert len(pids) == 3
    assert not any(map(alive, pids))
    assert left() == []


SCRIPT = """
import actorflow as af
from tests.cluster.children import build as inner

def build(seed):
    return inner(seed)

async def main():
    async with af.Cluster.local(build, workers=2, ready_s=50) as cluster:
        pass

af.run(main())
"""


@pytest.mark.processes
def test_a_script_that_lets_its_children_go_on_is_told_so(tmp_path: Path) -> None:
    """Each child would start a cluster of its own."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environ = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    done = run_python(script, env=environ)
    assert done.returncode == 1
    said = done.stderr[done.stderr.index("NotReady") :]
    assert "all processes must be there, and '" in said
    assert (
        "ended with 2: the command line, the environment or the program file is wrong before it was" in said
    )
    assert "a cluster is made by the chief alone, and this process is its" in said
    assert 'if __name__ == "__main__":' in said


def _closure() -> Any:
    def build(seed: int) -> Any:
        return seed

    return build


@pytest.mark.parametrize(
    ("program", "options", "error", "said"),
    [
        (build(0), {}, ConfigError, "every process builds the program itself, from a file, a module or a"),
        (7, {}, ConfigError, "every process builds the program itself, from a file, a module or a function, got 7"),
        (_closure(), {}, ProgramError, "other processes import build by its name, got tests.cluster.test_local._clo"),
        (lambda seed: build(seed), {}, ProgramError, "other processes import build by its name"),
        ("nowhere.py", {}, ProgramError, "there is no program file nowhere.py"),
        (build, {"transport": "pigeon"}, ConfigError, "processes of one machine talk over ipc or tcp, got 'pigeon'"),
        (build, {"workers": 0}, ConfigError, "worker is how many processes of that kind there are, at least 1"),
        (build, {"latency_s": 1}, ConfigError, "a local cluster has no option latency_s"),
    ],
)  # fmt: skip
def test_what_it_cannot_be_is_refused(program: Any, options: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        af.Cluster.local(program, **options)
    assert str(caught.value).startswith(said)


def test_over_tcp_a_cluster_has_keys_of_its_own_unless_it_is_to_have_none() -> None:
    given = Keyring.new()
    rings = [LocalCluster(build, transport="tcp").keys for _ in range(2)]
    assert all(ring is not None and ring.path is None for ring in rings)
    assert len({ring.ring.current.public for ring in rings if ring is not None}) == 2
    assert LocalCluster(build, transport="tcp", keys=given).keys is given
    assert LocalCluster(build, transport="tcp", keys=False).keys is None
    assert LocalCluster(build).keys is None


@pytest.mark.processes
@pytest.mark.parametrize("keys", [None, False])
def test_over_tcp_it_trains_with_keys_of_its_own_or_with_none(
    left: Left, keys: Literal[False] | None
) -> None:
    async def main() -> None:
        async with LocalCluster(build, transport="tcp", keys=keys, ready_s=READY_S) as one:
            table = one.runtime.table.entries
            assert [entry.name for entry in table] == ["chief", "ps0", "worker0"]
            assert all(entry.addresses[0].startswith("tcp://127.0.0.1:") for entry in table)
            assert all(bool(entry.key) == (keys is None) for entry in table)
            steps = [event.step async for event in af.Trainer(one, af.Sync()).run(steps=3)]
            assert steps[-1] == 3

    af.run(main())
    assert left() == []


def test_a_child_starts_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACTORFLOW_JOB", "worker")
    monkeypatch.setenv("ACTORFLOW_TASK_INDEX", "1")
    with pytest.raises(ConfigError, match="and this process is its worker1"):
        af.Cluster.local(build)


def test_a_full_disk_does_not_hide_why_it_cannot_open(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster(build)
    told: list[BaseException] = []

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def hear(folder: RunDirectory) -> None:
        cluster.folder, cluster.supervisor = folder, ProcessSupervisor(lambda _: None)
        cluster._hear(Exited("worker0", 1, 2, "ended with 2", asked=False))
        await cluster.supervisor.close()

    monkeypatch.setattr(cluster, "_fail", told.append)
    with RunDirectory() as folder:
        monkeypatch.setattr(RunDirectory, "write", full)
        asyncio.run(hear(folder))

    (error,) = told
    assert "'worker0' ended with 2" in str(error)

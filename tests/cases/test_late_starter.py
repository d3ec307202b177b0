"""A process that starts after its job has ended hears that it is complete, and ends with 0, within seconds."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import actorflow as af
from actorflow.cluster.connected import ConnectedCluster
from actorflow.cluster.process.completion_note import read
from actorflow.cluster.process.discovery_client import ChiefTimeouts
from actorflow.cluster.process_runtime import ProcessRuntime
from actorflow.cluster.sockets import bind_of, chief_at, open_sockets
from actorflow.errors import CoordinatorLost, JobOver
from actorflow.launch.task import Task
from tests.cluster.children import build
from tests.launch.children import short_folder
from tests.support.busy import HANG_S

SMALL = """
import actorflow as af
def build(seed):
    with af.Graph() as g:
        x = af.placeholder("float32", (), name="x"); w = af.Variable(0.0, name="w")
        train = af.minimize(loss := (w - x) ** 2, af.optim.sgd(0.1))
    return af.Program(graph=g, loss=loss, train=train, epochs=1, batches=lambda e: [{"x": 1.0}] * 8)
"""

HOURS = "3600"
"""A process that waits for all of it fails its test, however busy the machine is."""

SAID = "JobOver: the job is complete, and there is nothing left to do\n"


class Job:
    """The processes of one job, started one by one as an engine does."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self.program = program
        self.running: list[subprocess.Popen[str]] = []

    def start(self, job: str, *more: str, index: int = 0, workers: int = 1) -> subprocess.Popen[str]:
        argv = [
            sys.executable,
            "-m",
            "actorflow",
            "worker",
            self.program,
            "--job",
            job,
            "--index",
            str(index),
        ]
        argv += ["--ps", "1", "--workers", str(workers), "--coordinator", f"ipc://{self.folder}/chief"]
        argv += ["--ready-s", HOURS, "--lost-s", HOURS, *more]
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        return process

    def run(self) -> list[str]:
        """Runs a job to its end; returns what its processes printed."""
        processes = [self.start("chief"), self.start("ps"), self.start("worker")]
        said = [process.communicate(timeout=HANG_S) for process in processes]
        assert [process.returncode for process in processes] == [0, 0, 0], said
        return [out for out, _ in said]


@pytest.fixture(name="job")
def _job(tmp_path: Path) -> Iterator[Job]:
    program = tmp_path / "p.py"
    program.write_text(SMALL)
    with short_folder() as folder:
        job = Job(folder, str(program))
        try:
            yield job
        finally:
            for process in job.running:
                process.kill()
                process.communicate()


@pytest.mark.processes
def test_who_starts_late_ends_with_0(job: Job) -> None:
    job.run()
    late = [job.start("worker"), job.start("ps")]
    said = [process.communicate(timeout=HANG_S)[1] for process in late]
    assert [process.returncode for process in late] == [0, 0]
    assert said == [f"worker0: {SAID}", f"ps0: {SAID}"]


@pytest.mark.processes
def test_a_job_at_the_address_of_one_that_is_complete_is_run(job: Job) -> None:
    job.run()
    assert "done: 8 steps in " in job.run()[0]


@pytest.mark.processes
def test_a_worker_that_is_stopped_over_the_end_of_its_job_ends_with_0(job: Job) -> None:
    job.program = "tests.cluster.children:build"
    more = ("--policy", "backup:1/2", "--steps", "400", "--silence-s", "1.0")
    chief, ps, _, paused = (
        job.start("chief", *more, workers=2),
        job.start("ps", *more, workers=2),
        job.start("worker", *more, workers=2),
        job.start("worker", *more, index=1, workers=2),
    )
    assert chief.stdout is not None
    assert any("epoch 1" in line for line in chief.stdout)
    paused.send_signal(signal.SIGSTOP)
    _, wrong = chief.communicate(timeout=HANG_S)
    assert chief.returncode == 0, wrong
    ps.wait(HANG_S)
    assert paused.poll() is None
    paused.send_signal(signal.SIGCONT)
    _, said = paused.communicate(timeout=HANG_S)
    # Where the job ended before anybody missed it, it was told so as the others were, and has nothing to say.
    assert paused.returncode == 0
    assert said in ("", f"worker1: {SAID}")


@pytest.mark.processes
def test_a_job_that_was_stopped_is_not_complete(job: Job) -> None:
    job.program = "tests.cluster.children:build"
    chief = job.start("chief")
    others = [job.start("ps"), job.start("worker")]
    assert chief.stdout is not None
    assert any("epoch 1" in line for line in chief.stdout)
    chief.send_signal(signal.SIGTERM)
    chief.communicate(timeout=HANG_S)
    assert chief.returncode == 143
    for process in others:
        process.wait(HANG_S)
    assert read(f"ipc://{job.folder}/chief") is None


# -------------------------------------------------------------------------------- in one process


def station(task: Task, patience: ChiefTimeouts) -> ProcessRuntime:
    names = ("chief", "ps0", *(f"worker{k}" for k in range(task.workers)))
    ways, at = open_sockets(bind_of(task), None), chief_at(task.coordinator, None)
    return ProcessRuntime(task.name, 1, build(0), names, ways, chief=at, threads=0, timeouts=patience)


async def ended(address: str, patience: ChiefTimeouts, index: int = 1) -> Any:
    """Starts a worker, and returns why it ends."""
    late = await station(Task("worker", index, 1, 2, address), patience).open()
    try:
        return await late.ended
    finally:
        await late.close()


def free_address() -> str:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


def test_over_tcp_a_chief_that_is_still_there_says_it() -> None:
    async def main() -> None:
        address = free_address()
        there = [
            await station(Task(job, 0, 1, 2, address), ChiefTimeouts()).open() for job in ("ps", "worker")
        ]
        cluster = ConnectedCluster(build(0), address, ps=1, workers=2, least=1, threads=0, ready_s=3600.0)
        cluster.linger_s = 3600.0
        await cluster.__aenter__()
        closing = asyncio.ensure_future(cluster.__aexit__(None, None, None))
        reasons = [await one.ended for one in there]
        assert reasons == [None, None]
        reason = await ended(address, ChiefTimeouts(ready_s=3600.0))
        assert isinstance(reason, JobOver)
        await closing  # all have heard it: it stays no longer
        for one in there:
            await one.close()

    af.run(main())


def test_over_tcp_where_nobody_is_the_error_says_that_the_job_may_be_over() -> None:
    reason = af.run(ended(free_address(), ChiefTimeouts(ready_s=0.2)))
    assert isinstance(reason, CoordinatorLost)
    assert "the job may be over" in str(reason)


@pytest.mark.parametrize("fails", [False, True])
def test_a_chief_in_a_program_of_ones_own_leaves_a_note_where_its_block_ends_well(fails: bool) -> None:
    async def main(address: str) -> None:
        there = [
            await station(Task(job, 0, 1, 1, address), ChiefTimeouts()).open() for job in ("ps", "worker")
        ]
        with suppress(ZeroDivisionError):
            async with ConnectedCluster(build(0), address, ps=1, workers=1, threads=0, ready_s=3600.0):
                if fails:
                    raise ZeroDivisionError
        for one in there:
            await one.ended
            await one.close()
        assert (read(address) is None) == fails
        if not fails:
            patience = ChiefTimeouts(ready_s=3600.0, over_s=0.05)
            assert isinstance(await ended(address, patience, index=0), JobOver)

    with short_folder() as folder:
        af.run(main(f"ipc://{folder}/chief"))

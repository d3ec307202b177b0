"""Whoever is asked to leave has left within a second: whoever is absent, stopped, or in the middle of a step.

Measured on two busy cores (load 10), from the signal to the exit of `actorflow launch`: 0.35 s; with a stopped
worker 0.6 s, a stopped shard 0.65 s, a stopped chief 0.2 s; before all were there 0.65 s. All of them are in the
middle of a step: a worker is 0.04 s at a batch.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import actorflow as af
from actorflow.cluster.local import LocalCluster
from actorflow.launch.exits import ending
from actorflow.launch.process_id import ProcessId
from actorflow.launch.restarting import NEVER
from tests.kill.harming import PROGRAM, ROOT, Launched
from tests.support.busy import HANG_S, counted, until

MOST_S = 1.0
"""Of seconds that count, see `tests.support.busy`."""

TRIES = 3
"""Where other work may take a second as well, the fastest of so many tries counts; elsewhere the first."""


def in_time(once: Callable[[], float]) -> None:
    took, beside = list[float](), "PYTEST_XDIST_WORKER" in os.environ  # other tests run at the same time
    busy = beside or os.getloadavg()[0] > (os.cpu_count() or 1) + 1
    while len(took) < (TRIES if busy else 1) and (not took or min(took) >= MOST_S):
        took.append(once())
    assert min(took) < MOST_S, took


@pytest.mark.parametrize(
    ("number", "stopped", "updates"),
    [
        (signal.SIGTERM, "worker0", 3),
        (signal.SIGINT, "ps0", 3),
        (signal.SIGTERM, "chief", 3),
        (ending()[-1], None, 0),  # SIGHUP, unless whoever runs this ignores it
    ],
    ids=["worker stopped", "ps stopped", "chief stopped", "not all are there"],
)
def test_a_launcher_that_is_told_to_end(number: signal.Signals, stopped: str | None, updates: int) -> None:
    def once() -> float:
        with Launched("--transport", "ipc", workers=1, ps=1, steps=100_000) as run:
            if updates:
                run.until_told(updates)
            else:
                run.until(lambda: any(life.name == "chief" for life in run.look()), 60.0, "the chief")
            if stopped is not None:
                os.kill(run.pid(stopped).pid, signal.SIGSTOP)
                run.look()
            with counted() as seconds:
                os.kill(run.process.pid, number)
                code = run.wait()
            took = seconds()
            assert code == 128 + number, run.text()
            assert not run.alive(), "nobody outlives a launcher that ends in peace"
            assert not run.left()
            assert "Warning" not in run.text(), run.text()
            assert "Traceback" not in run.text(), run.text()
            return took

    in_time(once)


@pytest.mark.parametrize("bound", [True, False], ids=["nobody answers", "nobody is there"])
def test_a_worker_without_a_chief(bound: bool) -> None:
    def once() -> float:
        with tempfile.TemporaryDirectory(prefix="af-") as folder, socket.socket() as chief:
            chief.bind(("127.0.0.1", 0))
            if bound:
                chief.listen()
            at = f"tcp://127.0.0.1:{chief.getsockname()[1]}"
            argv = ["--job", "worker", "--index", "0", "--ps", "1", "--workers", "1", "--coordinator", at]
            process = subprocess.Popen(
                [sys.executable, "-m", "actorflow", "worker", str(PROGRAM), *argv],
                cwd=ROOT,
                env={**os.environ, "ACTORFLOW_FOLDER": folder},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            try:
                # It answers whoever asks what it does: it is open.
                until(lambda: process.poll() is not None or list(Path(folder).iterdir()), 60.0)
                assert process.poll() is None, process.stderr and process.stderr.read()
                with counted() as seconds:
                    process.send_signal(signal.SIGTERM)
                    _, said = process.communicate(timeout=HANG_S)
                took = seconds()
            finally:
                process.kill()
                process.wait()
            assert process.returncode == 143
            assert b"stopped by SIGTERM" in said
            return took

    in_time(once)


def test_a_cluster_whose_workers_are_stopped_and_dead() -> None:
    in_time(lambda: asyncio.run(_closed(worker0=signal.SIGSTOP, worker1=signal.SIGKILL)))


def test_a_cluster_whose_shard_is_stopped() -> None:
    in_time(lambda: asyncio.run(_closed(ps0=signal.SIGSTOP)))


async def _closed(**harms: signal.Signals) -> float:
    """Returns how long it takes to close a cluster in the middle of a step, with some processes harmed."""
    with ExitStack() as counting:
        async with LocalCluster(PROGRAM, ps=1, workers=2, restarts=NEVER) as cluster:
            assert cluster.supervisor is not None
            pids = {name: ProcessId.of(pid) for name, pid in cluster.supervisor.pids().items()}
            async for event in af.Trainer(cluster).run():
                if event.step == 3:
                    break
            for name, number in harms.items():
                os.kill(cluster.supervisor.pids()[name], number)
            seconds = counting.enter_context(counted())
    took = seconds()
    assert not any(pid is not None and pid.is_alive() for pid in pids.values())
    return took

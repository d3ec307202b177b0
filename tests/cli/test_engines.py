"""Clusters whose processes somebody else starts, with the variables of several engines, in any order."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import actorflow as af
from actorflow.cli import command
from tests.cluster.children import build
from tests.cluster.stations import until
from tests.support.busy import HANG_S

PROGRAM = "tests.cluster.children:build"
ENGINES = (
    "ACTORFLOW_",
    "MASTER_",
    "SLURM_",
    "OMPI_",
    "PMI_",
    "JOB_COMPLETION_",
    "TF_CONFIG",
    "RANK",
    "WORLD_SIZE",
)
NAMES = ("chief", "ps0", "worker0")
Environs = list[dict[str, str]]
"""What each of the processes has of its own, by rank."""


def free_ports(n: int) -> list[int]:
    """Returns ports that were free just now; with the one after each."""
    with ExitStack() as stack:
        found = []
        while len(found) < n:
            one, after = (stack.enter_context(closing(socket.socket())) for _ in range(2))
            one.bind(("127.0.0.1", 0))
            try:
                after.bind(("127.0.0.1", one.getsockname()[1] + 1))
            except OSError:
                continue
            found.append(one.getsockname()[1])
        return found


def torchrun() -> Environs:
    (port,) = free_ports(1)
    shared = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [{**shared, "RANK": str(k), "LOCAL_RANK": str(k), "LOCAL_WORLD_SIZE": "3"} for k in range(3)]


def tf_config() -> Environs:
    chief, ps, worker = (f"localhost:{port}" for port in free_ports(3))
    listed = {"chief": [chief], "ps": [ps], "worker": [worker]}
    return [
        {"TF_CONFIG": json.dumps({"cluster": listed, "task": {"type": job, "index": 0}})} for job in listed
    ]


def slurm() -> Environs:
    for job in range(os.getpid(), os.getpid() + 10_000):
        with closing(socket.socket()) as one:
            try:
                one.bind(("127.0.0.1", 15_000 + job % 10_000))
            except OSError:
                continue
        break
    shared = {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_NTASKS": "3", "SLURM_JOB_NAME": "digits"}
    shared["SLURM_STEP_NODELIST"] = "localhost"
    return [{**shared, "SLURM_PROCID": str(k), "SLURM_LOCALID": str(k)} for k in range(3)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """One whose name leaves room for those of sockets."""
    with TemporaryDirectory(prefix="af-") as name:
        yield Path(name)


@contextmanager
def started(environs: Sequence[Mapping[str, str]], *args: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts `actorflow worker` with each of these, in this order; kills what is left of them."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith(ENGINES)}
    argv = [sys.executable, "-m", "actorflow", "worker", PROGRAM, *args]
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        there = []
        for environ in environs:
            process = subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, env={**usual, **environ})
            stack.callback(process.communicate)
            stack.callback(process.kill)
            there.append(process)
        yield there


@pytest.mark.processes
@pytest.mark.parametrize(
    ("engine", "order"),
    [(torchrun, (1, 2)), (tf_config, (2, 1)), (slurm, (2, 1))],
    ids=["torchrun", "TF_CONFIG", "Slurm"],
)
def test_processes_with_the_variables_of_an_engine_find_each_other(
    engine: Callable[[], Environs],
    order: Sequence[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first of them is this process, which saves one; it comes last."""
    environs, record = engine(), tmp_path / "record.json"
    for name in tuple(os.environ):
        if name.startswith(ENGINES):
            monkeypatch.delenv(name)
    for name, value in environs[0].items():
        monkeypatch.setenv(name, value)
    shared = "--no-progress", "--steps", "5"

    with started([environs[k] for k in order], *shared) as others:
        code = command.run(["worker", PROGRAM, *shared, "--record", str(record)])
        ends = [(*process.communicate(timeout=HANG_S), process.returncode) for process in others]

    said = capsys.readouterr()
    assert (code, ends) == (0, [("", "", 0)] * 2), said.err
    assert "done: 5 steps in " in said.out
    assert [process["name"] for process in json.loads(record.read_text())["processes"]] == list(NAMES)


@pytest.mark.processes
def test_a_script_is_the_chief_of_processes_that_were_started_by_hand(folder: Path) -> None:
    """The worker before the chief, and the parameter server after it."""
    chief = f"ipc://{folder}/chief"
    shared = {"ACTORFLOW_COORDINATOR": chief, "ACTORFLOW_PS": "1", "ACTORFLOW_WORKERS": "1"}
    worker, ps = ({**shared, "ACTORFLOW_JOB": job, "ACTORFLOW_TASK_INDEX": "0"} for job in ("worker", "ps"))

    with ExitStack() as stack:
        there = stack.enter_context(started([worker]))

        async def start_ps() -> None:
            await until((folder / "chief").exists)
            there.extend(stack.enter_context(started([ps])))

        async def main() -> list[float]:
            async with asyncio.TaskGroup() as group:
                group.create_task(start_ps())
                async with af.Cluster.connect(build(0), chief) as cluster:
                    run = af.Trainer(cluster).run(epochs=3)
                    return [event.loss async for event in run if isinstance(event, af.types.EpochDone)]

        losses = af.run(main())
        ends = [(*process.communicate(timeout=HANG_S), process.returncode) for process in there]

    assert losses[-1] < losses[0]
    assert ends == [("", "", 0)] * 2
    assert [left.name for left in folder.iterdir()] == ["chief.over"]  # for whoever comes late

"""`actorflow worker PROGRAM`: one process of a cluster, whoever starts it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from actorflow import loop
from actorflow.cli.arguments import natural, positive, seconds
from actorflow.cluster import entry
from actorflow.cluster.entry import Ways, code_of, serve
from actorflow.cluster.link_text import settings
from actorflow.cluster.neighbours import Patience
from actorflow.cluster.sockets import bind_of, opened
from actorflow.errors import ActorflowError, ConfigError
from actorflow.launch.environment import detect
from actorflow.launch.task import JOBS, Task
from actorflow.program_file import ProgramFile

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_to(commands: Commands) -> None:
    """Adds the command and its arguments."""
    about = (
        "Runs one process of a cluster. What is not said here is taken from the variables of a launcher: "
        "ACTORFLOW_JOB and its kind, torchrun, TF_CONFIG, Slurm, MPI, Kubernetes."
    )
    parser = commands.add_parser("worker", help="run one process of a cluster", description=about)
    add = parser.add_argument
    add("program", metavar="PROGRAM", help="a file that defines build(seed), or package.module:build")
    add("--seed", type=natural, default=0, metavar="N", help="the seed to build with (default 0)")
    add("--job", choices=JOBS, help="what this process does")
    add("--index", type=natural, metavar="K", help="its number within the job, from 0")
    add("--ps", type=positive, metavar="N", help="how many processes hold variables")
    add("--workers", type=positive, metavar="N", help="how many compute")
    add("--coordinator", metavar="ADDRESS", help="where the chief is: tcp://host:port or ipc:///path")
    add("--bind", metavar="ADDRESS", help="where this process is to be found (default: it chooses)")
    add("--keys", metavar="FILE", help="the key ring, see `actorflow keys`")
    add("--threads", type=natural, default=1, metavar="N", help="threads for slow kernels (default 1)")
    add("--ready-s", type=seconds, default=60.0, metavar="S", help="wait so long for the others (default 60)")
    add("--lost-s", type=seconds, default=10.0, metavar="S", help="wait so long for a chief that is gone")
    add("--links", type=settings, default="", metavar="TEXT", help="how links behave: silence_s=30,gone_s=5")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Serves until it is over and returns the exit code, after a line on stderr where that is not 0."""
    task = _task(args)
    ways = Ways(
        open=opened(bind_of(task), args.keys),
        threads=args.threads,
        links=args.links,
        patience=Patience(ready_s=args.ready_s, lost_s=args.lost_s),
    )
    reason = loop.run(serve(lambda: ProgramFile(args.program).program(args.seed), task, ways))
    if reason is not None:
        print(f"{task.name}: {type(reason).__name__}: {reason}", file=sys.stderr, flush=True)
    return code_of(reason)


def _task(args: argparse.Namespace) -> Task:
    """Returns which process this is: as the arguments say, and where they do not, the variables.

    Raises:
        ConfigError: neither say.
    """
    said = {
        "ACTORFLOW_JOB": args.job,
        "ACTORFLOW_TASK_INDEX": args.index,
        "ACTORFLOW_PS": args.ps,
        "ACTORFLOW_WORKERS": args.workers,
        "ACTORFLOW_COORDINATOR": args.coordinator,
        "ACTORFLOW_BIND": args.bind,
    }
    task = detect({**os.environ, **{name: str(value) for name, value in said.items() if value is not None}})
    if task is None:
        message = "a process of a cluster must know which one it is, and no variable says so"
        hint = "--job worker --index 0 --ps 1 --workers 2 --coordinator tcp://host:port, or `actorflow launch`"
        raise ConfigError(message, hint=hint)
    return task

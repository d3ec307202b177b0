"""`actorflow worker PROGRAM`: one process of a cluster, whoever starts it."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from actorflow.cli.arguments import natural, positive
from actorflow.cli.cluster_arguments import add_common, add_training, links_of
from actorflow.cli.display.live import ClusterDisplay, ClusterLive, ClusterLog, Following
from actorflow.cli.display.output import Output
from actorflow.cli.display.progress import summary
from actorflow.cli.display.run_history import RunHistory
from actorflow.cli.own_policy import make_policy
from actorflow.cluster.chaos import Chaos, kill
from actorflow.cluster.connected import LINGER_S, ConnectedCluster
from actorflow.cluster.entry import StopCalls, StopManner, code_of, leave, run_until_stopped, serve
from actorflow.cluster.process.completion_note import forget
from actorflow.cluster.process.discovery_client import ChiefTimeouts
from actorflow.cluster.process.layout import name_processes
from actorflow.cluster.process.messages import ProcessCounts
from actorflow.cluster.process.process import CHIEF
from actorflow.cluster.process.record import RunRecord
from actorflow.cluster.sockets import inherited_keyring
from actorflow.cluster.trainer import Trainer, UpdateDone
from actorflow.coord.rules.run_settings import RunSettings
from actorflow.errors import ActorflowError, ConfigError, NotReady, PlacementError, describe
from actorflow.launch.environment_variables import detect
from actorflow.launch.exits import Exit
from actorflow.launch.inherited import DEATH_PIPE, FOLDER
from actorflow.launch.process_id import ProcessId
from actorflow.launch.starts import MOST
from actorflow.launch.task import JOBS, Task
from actorflow.runtime.disk import is_full, loss_of
from actorflow.runtime.event_loop import loop_factory
from actorflow.training.events import RunDone
from actorflow.training.program import Program
from actorflow.training.program_file import ProgramFile

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

log = logging.getLogger("actorflow.cli")

_FLAGS = {
    "ACTORFLOW_JOB": "job",
    "ACTORFLOW_TASK_INDEX": "index",
    "ACTORFLOW_PS": "ps",
    "ACTORFLOW_WORKERS": "workers",
    "ACTORFLOW_COORDINATOR": "coordinator",
    "ACTORFLOW_BIND": "bind",
}
"""Variables, and the flags that stand for them."""

_GATHER_S = 3.0
"""With `--least`, how long a run waits for the other workers before it begins."""


def add_to(commands: Commands) -> None:
    """Adds the command and its arguments."""
    about = (
        "Runs one process of a cluster. What is not said here is taken from the variables of a launcher: "
        "ACTORFLOW_JOB and its kind, torchrun, TF_CONFIG, Slurm, MPI, Kubernetes."
    )
    parser = commands.add_parser("worker", help="run one process of a cluster", description=about)
    add = parser.add_argument
    add("program", metavar="PROGRAM", help="a file that defines build(seed), or package.module:build")
    add("--job", choices=JOBS, help="what this process does")
    add("--index", type=natural, metavar="K", help="its number within the job, from 0")
    add("--ps", type=positive, metavar="N", help="how many processes hold variables")
    add("--workers", type=positive, metavar="N", help="how many compute")
    add("--coordinator", metavar="ADDRESS", help="where the chief is: tcp://host:port or ipc:///path")
    add("--bind", metavar="ADDRESS", help="where this process is to be found (default: it chooses)")
    add_common(add)
    add_training(parser.add_argument_group("of the chief").add_argument)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Does its part until that is over and returns the exit code, after a line on stderr unless it is 0."""
    launched = DEATH_PIPE in os.environ
    task = _task(args)
    if task.job == CHIEF:
        forget(
            task.coordinator if task.bind is None else task.bind
        )  # ORDER: soon; others may be there already
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        calls = StopCalls(runner.get_loop())
        try:
            program = ProgramFile(args.program).program(args.seed)
        except ActorflowError as error:
            code: int = _report_end(task.name, error, Exit.FAILED if is_full(error) else Exit.USAGE)
        else:
            do = _lead if task.job == CHIEF else _serve
            code = do(args, task, program, calls, runner)
    _tell_loss(task.name)
    if launched:
        leave(code)
    return code


def _tell_loss(name: str) -> None:
    """Says that not all of what was printed is there: no reason to end, nor to end otherwise."""
    sys.stdout.flush()
    loss = loss_of("stdout")
    if loss is not None:
        said = f"{name} went on, and {loss.lost_bytes} bytes of its output are lost: {loss.reason}"
        print(said, file=sys.stderr, flush=True)


def _serve(
    args: argparse.Namespace, task: Task, program: Program, calls: StopCalls, runner: asyncio.Runner
) -> int:
    """Holds variables or computes, until that is over."""
    keys = inherited_keyring(args.keys)
    manner = StopManner(
        keys=keys,
        threads=args.threads,
        links=links_of(args),
        stop_s=args.stop_s,
        patience=ChiefTimeouts(ready_s=_first_s(args.ready_s), lost_s=args.lost_s),
        find_s=args.ready_s,
        delay=args.delay,
        counts=_counts(args, task),
    )
    try:
        reason = runner.run(serve(program, task, manner, calls))
    except (ConfigError, NotReady) as error:  # as where its address is taken, or the chief's host not known
        reason = error
    return _report_end(task.name, reason, _code(reason))


def _code(reason: ActorflowError | None) -> int:
    """Returns with what a process ends; 2 where each of its incarnations would end alike."""
    wrong = isinstance(reason, ConfigError | PlacementError) and not is_full(reason)
    return Exit.USAGE if wrong else code_of(reason)


def _first_s(ready_s: float) -> float:
    """Returns how long to wait for the chief's first word: a launcher knows better, and ends all in time."""
    return ready_s * MOST if FOLDER in os.environ else ready_s


def _report_end(name: str, reason: ActorflowError | None, code: int) -> int:
    if reason is not None:
        lines = [f"{name}: {type(reason).__name__}: {reason}", *getattr(reason, "__notes__", ())]
        if reason.__cause__ is not None:
            lines.append(f"  cause: {describe(reason.__cause__)}")
        print("\n".join(lines), file=sys.stderr, flush=True)
    return code


def _lead(
    args: argparse.Namespace, task: Task, program: Program, calls: StopCalls, runner: asyncio.Runner
) -> int:
    """Trains as the chief."""
    console = Output(soft_wrap=True)
    plain = args.no_progress or not console.is_terminal
    if args.epochs is None and args.steps is None:
        args.epochs = program.epochs
    kind = ClusterLog if plain else ClusterLive
    display = kind(console, args.seed, workers=name_processes("worker", task.workers), epochs=args.epochs)
    ended: list[RunDone] = []
    try:
        cluster = ConnectedCluster(
            program,
            task.coordinator if task.bind is None else task.bind,
            ps=task.ps,
            workers=task.workers,
            keys=inherited_keyring(args.keys),
            ready_s=args.ready_s,
            least=args.least,
            threads=args.threads,
            links=links_of(args),
            stop_s=args.stop_s,
        )
        cluster.counts = _counts(args, task)
        if FOLDER not in os.environ:  # a launcher ends those who are late by itself
            cluster.linger_s = LINGER_S

        def hasten() -> None:
            display.leave()
            cluster.hasten()

        with display:
            reason = runner.run(run_until_stopped(_train(cluster, args, display, ended), calls, hasten))
    except ActorflowError as error:
        if display.begun:
            error.add_note(f"  run:   {display.at()}")
        return _report_end(task.name, error, _code(error))
    if reason is not None:
        console.print(f"{reason.what} at {display.at()}")
        return code_of(reason)
    display.end(ended[0])
    summary(console, {args.seed: ended[0]})
    console.check()
    return Exit.DONE


async def _train(
    cluster: ConnectedCluster, args: argparse.Namespace, display: ClusterDisplay, ended: list[RunDone]
) -> None:
    policy = make_policy(args.policy)
    chaos = Chaos(cluster.workers, steps=args.steps, epochs=args.epochs) if args.chaos else None
    async with cluster:
        if args.record is not None:
            write(cluster.record.under(policy), args.record)
        settings = None if args.least is None else RunSettings(gather_s=_GATHER_S)
        trainer = Trainer(cluster, policy, settings=settings)
        with Following(cluster, display), RunHistory(args.history) as history:
            async with aclosing(trainer.run(steps=args.steps, epochs=args.epochs)) as events:
                async for event in events:
                    display.show(event)
                    history.tell(display.seed, event)
                    if chaos is not None and isinstance(event, UpdateDone):
                        _strike(cluster, chaos.hear(event.update), display)
                    if isinstance(event, RunDone):
                        ended.append(event)


def write(record: RunRecord, path: Path) -> None:
    """Writes a run record as JSON.

    A disk that is full is told, and no reason not to train.

    Raises:
        ConfigError: nothing can be written there.
    """
    try:
        path.write_text(json.dumps(record.as_data(), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        if is_full(error):
            log.warning("the run goes on without its record: %s, %s", error.strerror, path)
            return
        message = f"{path} must be a file that can be written, got {error.strerror}"
        raise ConfigError(message) from None


def _strike(cluster: ConnectedCluster, victim: str | None, display: ClusterDisplay) -> None:
    """Kills a process of this machine, whose launcher starts it again."""
    if victim is None:
        return
    table = cluster.runtime.table.entries
    pids = {here.name: ProcessId(here.pid, here.started, here.world) for here in table if here.world}
    killed = kill(victim, pids)
    display.note(f"{victim} is killed by SIGKILL" if killed else f"{victim} is not there to be killed")


def _task(args: argparse.Namespace) -> Task:
    """Returns which process this is: as the arguments say, and where they do not, the variables.

    Raises:
        ConfigError: neither say.
    """
    given = {name: getattr(args, flag) for name, flag in _FLAGS.items()}
    said = {name: str(value) for name, value in given.items() if value is not None}
    called = {
        name: f"--{flag}" if name in said else f"{name} or --{flag}"
        for name, flag in _FLAGS.items()
        if name in said or not os.environ.get(name, "").strip()
    }
    task = detect({**os.environ, **said}, called)
    if task is None:
        message = "a process of a cluster must know which one it is, and no variable says so"
        hint = (
            "--job worker --index 0 --ps 1 --workers 2 --coordinator tcp://host:port, or `actorflow launch`"
        )
        raise ConfigError(message, hint=hint)
    return task


def _counts(args: argparse.Namespace, task: Task) -> ProcessCounts:
    """Returns how many processes there are, with who said so: a flag, a variable, or an engine."""

    def by(name: str) -> str:
        if getattr(args, name) is not None:
            return f"--{name}"
        variable = f"ACTORFLOW_{name.upper()}"
        return (
            variable if os.environ.get(variable, "").strip() and task.source != "TF_CONFIG" else task.source
        )

    return ProcessCounts(task.ps, task.workers, by("ps"), by("workers"))

"""The kinds of clusters, and what may be said of each: `af.Cluster.local(...)` and its kin.

An option that is left out, or None, is the default of the class that makes the kind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from actorflow.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from actorflow.cluster.cluster import Cluster
    from actorflow.cluster.local import LocalCluster
    from actorflow.launch.restarting import Restarts
    from actorflow.plan.placement.placer import Placer
    from actorflow.sim.world.straggler import Straggler
    from actorflow.sim.world.world import World
    from actorflow.training.program import Program
    from actorflow.transport.rules.link_settings import LinkSettings
    from actorflow.transport.zeromq import Keyring

P = ParamSpec("P")
R = TypeVar("R")


def _answers_options(kind: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Has what makes a kind of cluster answer options that it does not have with those that it has."""

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        known = [p.name for p in signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY]
        positional = [n for n in signature(make).parameters if n not in known]

        @wraps(make)
        def made(*args: P.args, **options: P.kwargs) -> R:
            unknown = [name for name in options if name not in known and name not in positional]
            if unknown:
                message = f"a {kind} cluster has no option {', '.join(unknown)}"
                raise ConfigError(message, hint=f"there are {', '.join(known)}")
            return make(*args, **options)

        return made

    return decorate


def _given_options(**options: Any) -> dict[str, Any]:
    """Returns the options that somebody gave; the classes of clusters have the defaults of the others."""
    return {name: value for name, value in options.items() if value is not None}


class Kinds:
    """What makes a cluster of each kind; base of `Cluster`."""

    @staticmethod
    @_answers_options("simulated")
    def simulated(
        program: Program,
        *,
        ps: int = 1,
        workers: int = 1,
        placement: str | Placer | None = None,
        world: World | None = None,
        latency_s: float | None = None,
        work_s: float | None = None,
        straggler: Straggler | None = None,
        links: LinkSettings | None = None,
        seed: int | None = None,
        stop_s: float | None = None,
    ) -> Cluster:
        """Returns a cluster whose processes are hosts of a simulated world.

        Open it in a simulated run: `sim.run(main)`, or a test under `@sim.world("chief", ps=2, worker=4)`
        that hands its `world` over.

        Args:
            program: What it runs.
            ps: How many processes have parameters: ps0, ps1, …
            workers: How many compute: worker0, worker1, …
            placement: How the nodes of `run` are placed, as for a `Session`.
            world: That of a law; by default one of its own.
            latency_s: How long a message travels.
            work_s: How long a worker computes at a contribution.
            straggler: How that is disturbed.
            links: What links may hold and how long they wait.
            seed: Of the world's chance.
            stop_s: How long an actor may take to stop when the cluster is closed, 60 s unless that is said.

        Raises:
            ConfigError: there are fewer than one of either, or more `ps` than variables to train; there is no
                such option, or it cannot be what it is.
        """
        from actorflow.cluster.simulated import SimulatedCluster

        options = _given_options(
            placement=placement,
            world=world,
            latency_s=latency_s,
            work_s=work_s,
            straggler=straggler,
            links=links,
            seed=seed,
            stop_s=stop_s,
        )
        return SimulatedCluster(program, ps=ps, workers=workers, **options)

    @staticmethod
    @_answers_options("in-process")
    def in_process(
        program: Program,
        *,
        ps: int = 1,
        workers: int = 1,
        placement: str | Placer | None = None,
        threads: int | None = None,
        stop_s: float | None = None,
    ) -> Cluster:
        """Returns a cluster whose processes are actor systems of this one, in real time, without sockets.

        For tests and for finding out what a program does: nothing of it runs at once, nothing is lost.

        Args:
            program: What it runs.
            ps: How many processes have parameters: ps0, ps1, …
            workers: How many compute: worker0, worker1, …
            placement: As for a `Session`.
            threads: For slow kernels of each process.
            stop_s: How long an actor may take to stop when the cluster is closed, 60 s unless that is said.

        Raises:
            ConfigError: as `simulated`.
        """
        from actorflow.cluster.in_process import InProcessCluster

        options = _given_options(placement=placement, threads=threads, stop_s=stop_s)
        return InProcessCluster(program, ps=ps, workers=workers, **options)

    @staticmethod
    @_answers_options("local")
    def local(
        program: str | Path | Callable[[int], Program],
        *,
        ps: int = 1,
        workers: int = 1,
        seed: int | None = None,
        transport: Literal["ipc", "tcp"] | None = None,
        keys: Keyring | str | Path | Literal[False] | None = None,
        ready_s: float | None = None,
        least: int | None = None,
        threads: int | None = None,
        links: LinkSettings | None = None,
        placement: str | Placer | None = None,
        restarts: Restarts | None = None,
        work_s: float | None = None,
        straggler: Straggler | None = None,
        stop_s: float | None = None,
    ) -> LocalCluster:
        """Returns a cluster of real processes on this machine, which opening it starts.

        The chief is the present process, the others are its children: each builds the program itself, which
        is told by its file (`"digits.py"`), its module (`"package.module:build"`) or its `build`, a function
        of the main script or of a module. They end with the cluster, and with this process, however that
        ends.

        Args:
            program: What it runs.
            ps: How many processes have parameters: ps0, ps1, …
            workers: How many compute: worker0, worker1, …
            seed: To build with.
            transport: "ipc" or "tcp".
            keys: A key ring or its file: over tcp it makes a ring of its own unless one is given, or False,
                with which every user of this machine can connect, and fill the memory of the processes.
            ready_s: How long to wait until all are there, or all `ps` and `least` of the workers.
            least: With how many workers it may begin.
            threads: For slow kernels of each process.
            links: What links may hold and how long they wait.
            placement: As for a `Session`.
            restarts: How often a process that dies is started again.
            work_s: How long a worker is held up at a contribution: for experiments that are compared with
                simulated ones.
            straggler: How that is disturbed.
            stop_s: How long an actor may take to stop when the cluster is closed, 60 s unless that is said.

        Raises:
            ConfigError: there are fewer than one of either, or more `ps` than variables to train; there is no
                such option, or it cannot be what it is; or this process is a child of a cluster itself.
            ProgramError: the program cannot be built, or not by its children.
        """
        from actorflow.cluster.local import LocalCluster

        options = _given_options(
            seed=seed,
            transport=transport,
            keys=keys,
            ready_s=ready_s,
            least=least,
            threads=threads,
            links=links,
            placement=placement,
            restarts=restarts,
            work_s=work_s,
            straggler=straggler,
            stop_s=stop_s,
        )
        return LocalCluster(program, ps=ps, workers=workers, **options)

    @staticmethod
    @_answers_options("connected")
    def connect(
        program: Program,
        address: str,
        *,
        ps: int = 1,
        workers: int = 1,
        keys: Keyring | str | Path | None = None,
        ready_s: float | None = None,
        least: int | None = None,
        threads: int | None = None,
        links: LinkSettings | None = None,
        placement: str | Placer | None = None,
        stop_s: float | None = None,
    ) -> Cluster:
        """Returns a cluster whose other processes somebody else starts, with `actorflow worker`.

        The chief is the present process, and is to be found at `address`.

        Args:
            program: What it runs; all others build the same.
            address: Where the chief waits for them: tcp://host:port or ipc:///path.
            ps: How many processes have parameters: ps0, ps1, …
            workers: How many compute: worker0, worker1, …
            keys: A key ring or its file.
            ready_s: How long to wait until all are there, or all `ps` and `least` of the workers.
            least: With how many workers it may begin.
            threads: For slow kernels of the chief.
            links: What its links may hold and how long they wait.
            placement: As for a `Session`.
            stop_s: How long an actor of the chief may take to stop, 60 seconds unless that is said.

        Raises:
            ConfigError: as `local`, or for what is no address.
        """
        from actorflow.cluster.connected import ConnectedCluster

        options = _given_options(
            keys=keys,
            ready_s=ready_s,
            least=least,
            threads=threads,
            links=links,
            placement=placement,
            stop_s=stop_s,
        )
        return ConnectedCluster(program, address, ps=ps, workers=workers, **options)

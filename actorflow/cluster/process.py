"""What one process of a cluster runs, whatever its part in a training run: state, steps, and a steward.

post      refs to actors of other processes, and what arrives from there
runner    this process's parts of steps, with the executor and the actors of its state
steward   opens a shard or a worker here when the chief says so
"""

from __future__ import annotations

from collections.abc import Callable

from actorflow import setting
from actorflow.actors.exchange import Exchange
from actorflow.actors.executor import Executor
from actorflow.actors.post import Post
from actorflow.actors.runner import RUNNER, Lost, Runner, Unsent, executor_of
from actorflow.actors.step_messages import Process as Member
from actorflow.actors.step_messages import Token
from actorflow.actors.system import ActorSystem
from actorflow.cluster.messages import SHARD, STEWARD, WORKER
from actorflow.cluster.record import ProcessRecord, about
from actorflow.cluster.steward import Steward, Work
from actorflow.errors import ActorflowError
from actorflow.graph.fingerprint import fingerprint
from actorflow.program import Program

CHIEF = "chief"
"""The process that decides, and in which sessions live."""


def device_of(process: str) -> str:
    """Returns the first device of a process: that of `ps1` is `/job:ps/task:1/device:cpu:0`."""
    job = process.rstrip("0123456789")
    return f"/job:{job}/task:{process[len(job) :] or 0}/device:cpu:0"


def member(process: str, incarnation: int) -> Member:
    """Returns a process as sessions know it."""
    return Member(process, (device_of(process),), incarnation)


def _stay(_reason: ActorflowError | None) -> None:
    """A simulated process ends with its host."""


class Process:
    """The actors of one process; made inside its open system, and ended with that or by `close`.

    Args:
        name: As in addresses.
        incarnation: Which life of it this is.
        system: Its actors.
        program: What the cluster runs; every process has built the same.
        threads: Worker threads for slow kernels; 0 runs all on the event loop.
        work: Awaited once a contribution: stands for time that computing takes, where that is not real.
        quit: Called when the chief says that the process may leave, with why if that is not in good order.

    Attributes:
        post: Its ways to other processes: attach channels to it.
    """

    def __init__(
        self,
        name: str,
        incarnation: int,
        system: ActorSystem,
        program: Program,
        *,
        threads: int = 0,
        work: Work | None = None,
        quit: Callable[[ActorflowError | None], None] = _stay,
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.system = system
        self.program = program
        self.threads = threads
        self.quit = quit
        self.post = Post(system, name, incarnation)
        self._make = executor_of(name, program.graph, threads=threads)
        self._executor: Executor | None = None
        self._runner = system.spawn(
            Runner, name, incarnation, program.graph, self._make_executor, self.post.ref, name=RUNNER
        )
        self.post.on_lost(self._lost)
        system.dead_letters.on(Token, self._unsent)
        system.spawn(Steward, self, work, setting.clock(), name=STEWARD)

    def _make_executor(self, system: ActorSystem, exchange: Exchange) -> Executor:
        self._executor = self._make(system, exchange)
        return self._executor

    @property
    def executor(self) -> Executor:
        """What runs programs here; there once the runner has started."""
        assert self._executor is not None, "the runner has not started"
        return self._executor

    def about(self) -> ProcessRecord:
        """Returns what this process is: its program, libraries and threads."""
        return about(self.name, self.incarnation, fingerprint(self.program.graph), self.threads)

    async def close(self) -> None:
        """Stops its actors and closes its ways to others; what else runs in its system goes on."""
        for name in (STEWARD, WORKER, SHARD, RUNNER):
            cell = self.system.actors.get(name)
            if cell is not None:
                await self.system.stop(cell)
        self.post.leave()

    def _lost(self, process: str, reason: ActorflowError) -> None:
        self._runner.signal(Lost(process, reason))

    def _unsent(self, target: str, token: Token) -> None:
        """Hears of a token that has reached nobody, or may not have; others tell of theirs themselves."""
        if (token.source, token.incarnation) == (self.name, self.incarnation):
            why = self.post.why(target.partition("/")[0])
            self._runner.signal(Unsent(token.session, token.number, why))

    def __repr__(self) -> str:
        return f"<Process '{self.name}', incarnation {self.incarnation}>"

"""One process of a cluster, whatever its part in a training run: it has state, steps, and an agent.

hub       refs to actors of other processes, and what arrives from there
runner    this process's parts of steps, with the executor and the actors of its state
agent     opens a shard or a worker here when the chief says so
own       what the program's `actors(process)` spawns
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actorflow.actors.ref import Ref
from actorflow.actors.remote.hub import RemoteHub
from actorflow.actors.supervisor import Supervisor
from actorflow.actors.system import ActorSystem
from actorflow.cluster.process.messages import PROCESS_AGENT, SHARD, WORKER
from actorflow.cluster.process.own_actors import OwnActors
from actorflow.cluster.process.process_agent import ProcessAgent, Work
from actorflow.cluster.process.record import ProcessRecord, about
from actorflow.dataflow.engine.executor import Executor
from actorflow.dataflow.engine.token_sender import TokenSender
from actorflow.dataflow.remote.runner import RUNNER, Lost, Runner, Unsent, executor_of
from actorflow.dataflow.remote.step_messages import SessionProcess as Member
from actorflow.dataflow.remote.step_messages import Token
from actorflow.errors import ActorflowError, ConfigError
from actorflow.graph.fingerprint import fingerprint
from actorflow.runtime import environment
from actorflow.training.program import Program
from actorflow.values.checks import is_whole

if TYPE_CHECKING:
    from actorflow.actors.actor import Actor
    from actorflow.actors.supervision import Strategy

CHIEF = "chief"
"""The process that decides, and in which sessions live."""


def parts_of(process: str) -> tuple[str, int]:
    """Returns the job and the number of a process: those of `ps1` are `ps` and 1."""
    job = process.rstrip("0123456789")
    return job, int(process[len(job) :] or 0)


def device_of(process: str) -> str:
    """Returns the first device of a process: that of `ps1` is `/job:ps/task:1/device:cpu:0`."""
    job, index = parts_of(process)
    return f"/job:{job}/task:{index}/device:cpu:0"


def member(process: str, incarnation: int) -> Member:
    """Returns a process as sessions know it."""
    return Member(process, (device_of(process),), incarnation)


def check_threads(threads: Any) -> None:
    """Raises ConfigError for what is no number of threads."""
    if not is_whole(threads, 0, plain=True):
        message = f"threads is how many run slow kernels, at least 0, got {threads!r}"
        raise ConfigError(message)


def _stay(_reason: ActorflowError | None) -> None:
    """A simulated process ends with its host."""


class Process:
    """The actors of one process; made inside its open system, and ended with that or by `close`.

    The `actors(process)` of a program are called with it: `process.spawn(Echo, name="echo")` in `worker0` is
    what `cluster.ref("worker0/echo")` finds, and `process.ref("worker0/echo")` in any other process.

    Args:
        name: As in addresses.
        incarnation: Which incarnation of it this is.
        system: Its actors.
        program: What the cluster runs; every process has built the same.
        threads: Worker threads for slow kernels; 0 runs all on the event loop.
        work: Awaited once a contribution: stands for time that computing takes, where that is not real.
        quit: Called when the chief says that the process may leave, with why if that is not in good order.

    Attributes:
        name: As in addresses: chief, ps0, worker0.
        incarnation: Which incarnation of it this is.
        system: Its actors.
        program: What the cluster runs.
        hub: Its ways to other processes: attach channels to it.
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
        self.hub = RemoteHub(system, name, incarnation)
        self._make = executor_of(name, program.graph, threads=threads)
        self._executor: Executor | None = None
        self._runner = system.spawn(
            Runner, name, incarnation, program.graph, self._make_executor, self.hub.ref, name=RUNNER
        )
        self.hub.on_lost(self._lost)
        system.dead_letters.on(Token, self._unsent)
        system.spawn(ProcessAgent, self, work, environment.clock(), name=PROCESS_AGENT)
        self._own = OwnActors(system, name)

    # -- what programs use ------------------------------------------------------------------------------

    @property
    def job(self) -> str:
        """What kind of process it is: chief, ps or worker."""
        return parts_of(self.name)[0]

    @property
    def index(self) -> int:
        """Its number among those of its job."""
        return parts_of(self.name)[1]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all processes of the cluster, of this one as well, the chief's first."""
        return tuple(sorted((self.name, *self.hub.peers()), key=lambda n: (n != CHIEF, parts_of(n))))

    def spawn(self, factory: Callable[..., Actor], *args: Any, name: str | None = None, **limits: int) -> Ref:
        """Starts an actor in this process and returns its ref; see `ActorSystem.spawn`.

        Raises:
            ConfigError: its name is that of an actor of actorflow's own, or has a slash.
        """
        return self._own.spawn(factory, args, name, **limits)

    @property
    def own_actors(self) -> OwnActors:
        """The actors of the program that live here."""
        return self._own

    def supervisor(self, strategy: Strategy, *, name: str | None = None) -> Supervisor:
        """Returns a new group of actors in this process; see `ActorSystem.supervisor`.

        Raises:
            ConfigError: its name is that of an actor of actorflow's own, or has a slash.
        """
        return self._own.supervisor(strategy, name)

    def ref(self, address: str) -> Ref:
        """Returns the address of an actor of any process of the cluster, such as `worker0/echo`.

        Of another process it is good before the actor is there, and for every incarnation of it.

        Raises:
            ConfigError: it is no address.
            ActorError: there is no such process, or this one has no such actor (yet).
        """
        return self.hub.ref(address)

    def begin(self) -> None:
        """Spawns the program's own actors; once all other processes are attached.

        Raises:
            ProgramError: the program's `actors` raised; nothing that it had spawned is left.
        """
        self._own.begin(self.program.actors, self)

    # -- inside -----------------------------------------------------------------------------------------

    def _make_executor(self, system: ActorSystem, token_sender: TokenSender) -> Executor:
        self._executor = self._make(system, token_sender)
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
        await self._own.close()
        for name in (PROCESS_AGENT, WORKER, SHARD, RUNNER):
            cell = self.system.actors.get(name)
            if cell is not None:
                await self.system.stop(cell)
        self.hub.leave()

    def _lost(self, process: str, reason: ActorflowError) -> None:
        self._runner.signal(Lost(process, reason))

    def _unsent(self, target: str, token: Token) -> None:
        """Hears of a token that has reached nobody, or may not have; others tell of theirs themselves."""
        if (token.source, token.incarnation) == (self.name, self.incarnation):
            why = self.hub.why(target.partition("/")[0])
            self._runner.signal(Unsent(token.session, token.number, why))

    def __repr__(self) -> str:
        return f"<Process '{self.name}', incarnation {self.incarnation}>"

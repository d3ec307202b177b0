"""The messages between the chief and the other processes: who is where, and who takes which part in a run.

Everything travels by name: each process has built the same program, and finds in it what is named here.
"""

from __future__ import annotations

from dataclasses import dataclass

from actorflow.errors import ActorDied, ActorflowError, ChannelClosed, DeadlinePassed, PeerLost
from actorflow.transport.codec.registry import travels

PROCESS_AGENT = "process_agent"
SHARD = "shard"
WORKER = "worker"
COORDINATOR = "coordinator"
DIRECTORY = "directory"
DISCOVERY_CLIENT = "neighbours"
"""The names of actors in their processes."""

UNREACHED = (ActorDied, ChannelClosed, DeadlinePassed, PeerLost)
"""How an ask ends when a process is not there, or not yet."""


@travels("cluster.open_shard")
@dataclass(frozen=True, slots=True)
class OpenShard:
    """Chief → process agent, asked: hold these variables as shard number `shard`; answered with True.

    Attributes:
        trained: Variables that updates change, in the order of the gradients.
        frozen: Variables that workers read besides.
        optimizer: The key of the optimizer among the objects of the graph.
        shards: How many shards there are.
        fresh: Whether gradients must come from the version that they are applied to.
        closes: Where shards close updates by themselves: how many contributions make one; else None.
        finite: Whether an update that is not finite is an error.
        limit_s: How long the state of the optimizer may take to be made.
        shares: Whether updates that were computed at once share the rate.
    """

    shard: int
    trained: tuple[str, ...]
    frozen: tuple[str, ...]
    optimizer: str
    shards: int
    fresh: bool
    closes: int | None
    finite: bool
    limit_s: float
    shares: bool = False


@travels("cluster.meet")
@dataclass(frozen=True, slots=True)
class MeetAll:
    """Chief → process agent, asked: tell the shard with whom it works, by address; answered with True."""

    coordinator: str
    shards: tuple[str, ...]
    term: int


@travels("cluster.enlist")
@dataclass(frozen=True, slots=True)
class Enlist:
    """Chief → process agent, asked: have a worker take part in the run; answered with True once it is there.

    A worker that is there already for the same run stays, unless it has ended.

    Attributes:
        run: The run's number at the chief.
        coordinator: Address of the coordinator.
        shards: Addresses of the shards.
        fresh: Whether a contribution is of use only if computed from the version of its permit.
        join_s: How long the worker tries to get an assignment.
        answer_s: How long a shard may take to answer it.
        apart: Whether shards close updates by themselves.
    """

    run: int
    coordinator: str
    shards: tuple[str, ...]
    fresh: bool
    join_s: float
    answer_s: float
    apart: bool = False


@travels("cluster.introduce")
@dataclass(frozen=True, slots=True)
class Introduce:
    """Chief → process agent, asked: which incarnation has your process? Answered with that."""


@travels("cluster.describe")
@dataclass(frozen=True, slots=True)
class Describe:
    """Chief → process agent, asked: what is your process? Answered with its ProcessRecord."""


@travels("cluster.dismiss")
@dataclass(frozen=True, slots=True)
class Dismiss:
    """Chief → process agent, asked: stop the worker, or the shard, of this process; answered with True."""

    actor: str


@travels("cluster.quit")
@dataclass(frozen=True, slots=True)
class Quit:
    """Chief → process agent, asked: the cluster ends, your process may leave; answered with True.

    Attributes:
        reason: Why the cluster could not begin; None where it has, or nobody minds.
    """

    reason: ActorflowError | None = None


@travels("cluster.counts")
@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """How many processes a cluster has, by one of them.

    Attributes:
        ps, workers: How many of these there are.
        ps_by, workers_by: Who says so: a flag, a variable, an engine, an argument.
    """

    ps: int
    workers: int
    ps_by: str
    workers_by: str


@travels("cluster.here")
@dataclass(frozen=True, slots=True)
class AnnounceAddress:
    """Process → directory, asked: where I am; answered with the AddressTable.

    Attributes:
        name: Of the process.
        incarnation: Which incarnation of it this is.
        addresses: What others dial.
        key: The public key with which it answers there; empty without keys.
        pid: Its number at its host.
        host: The host's name.
        started: When it started, in ticks since its host did; see `launch.process_id`.
        world: The boot of its host, and the namespace in which `pid` is its own.
        counts: How many processes it takes there to be; None where nobody has told it.
    """

    name: str
    incarnation: int
    addresses: tuple[str, ...]
    key: str = ""
    pid: int = 0
    host: str = ""
    started: int = 0
    world: str = ""
    counts: ProcessCounts | None = None


@travels("cluster.table")
@dataclass(frozen=True, slots=True)
class AddressTable:
    """Directory → discovery clients: where everybody is, as far as the chief knows; ordered by name.

    INVARIANT: at most one entry a name, that of the latest incarnation.
    """

    entries: tuple[AnnounceAddress, ...] = ()

    def find(self, name: str) -> AnnounceAddress | None:
        """Returns where a process is; None for one that has not said so."""
        return next((entry for entry in self.entries if entry.name == name), None)

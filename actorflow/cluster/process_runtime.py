"""The runtime of a real process: its actors, its ways to all others, and how it ends.

    system      the actors
    process     state, steps and the agent, as in a simulated cluster
    endpoint    the sockets
    wires       those of the endpoint, with shared memory for large payloads between processes of one host
    links       one for each other name, from the start; those of later incarnations are the same
    directory   at the chief: where all are; elsewhere the discovery client, which dials whom it names

All links exist before anybody is there: they greet until the other end answers, whoever comes first.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol, Self

from actorflow.actors.system import STOP_S, ActorSystem
from actorflow.cluster.inspect.debug_endpoint import folder_of, serve_debug_endpoint
from actorflow.cluster.process import completion_note
from actorflow.cluster.process.directory import Directory, dials
from actorflow.cluster.process.discovery_client import CHIEF_TIMEOUTS, ChiefTimeouts, DiscoveryClient
from actorflow.cluster.process.messages import (
    DIRECTORY,
    DISCOVERY_CLIENT,
    PROCESS_AGENT,
    AddressTable,
    AnnounceAddress,
    ProcessCounts,
)
from actorflow.cluster.process.process import CHIEF, Process
from actorflow.cluster.process.process_agent import Work
from actorflow.cluster.process.roster import stranger
from actorflow.dataflow.remote.runner import RUNNER
from actorflow.errors import ActorDied, ActorflowError, Fenced, PeerRefused
from actorflow.graph.fingerprint import fingerprint
from actorflow.graph.graph import Graph
from actorflow.graph.resource import VariableDef
from actorflow.launch.process_id import ProcessId
from actorflow.plan.fetches import resolve_fetch
from actorflow.runtime.clock import epoch_ms
from actorflow.runtime.messages import Terminated
from actorflow.training.program import Program
from actorflow.transport.codec.types import Buffer
from actorflow.transport.links.link import Link
from actorflow.transport.links.shm import ShmWire
from actorflow.transport.rules.address import Address, in_zone_of
from actorflow.transport.rules.handshake import Phase
from actorflow.transport.rules.link_settings import SETTINGS, LinkSettings
from actorflow.transport.rules.wire import Timer, Wire


class Transports(Protocol):
    """The sockets of a process, as an `Endpoint` has them."""

    @property
    def addresses(self) -> tuple[Address, ...]:
        """What others dial."""
        ...

    def wire(self, peer: str) -> Wire:
        """Returns what leads to a process."""
        ...

    def listen(
        self,
        peer: str,
        receive: Callable[[Sequence[Buffer]], None],
        changed: Callable[[], None],
        *,
        dials: bool = False,
    ) -> None:
        """Says who takes what comes from a process, and whether this one dials it."""
        ...

    def dial(self, peer: str, address: Address) -> None:
        """Connects to a process; replaces what was dialled before."""
        ...

    def refusal(self, peer: str) -> str:
        """Says how a process that was dialled refuses this one; "" when it does not."""
        ...

    def greet(self, stranger: Callable[[str], None]) -> None:
        """Says who hears of a process that has come, and for which nobody listens: it may listen then."""
        ...

    def close(self) -> None:
        """Frees everything."""
        ...


Open = Callable[[AbstractEventLoop, str, int], Transports]
"""How a process gets its sockets: from its loop, its name and its incarnation."""


class _Watching:
    """Hears when an actor fails without which a process is of no use."""

    def __init__(self, end: Callable[[ActorflowError], None]) -> None:
        self._end = end

    def signal(self, notice: Terminated) -> None:
        if notice.reason is not None:
            died = ActorDied(f"'{notice.actor}' failed, without which this process is of no use")
            died.__cause__ = notice.reason
            self._end(died)


def readable(graph: Graph) -> None:
    """Adds what fetches of variables read, in the same order in each process: they all run one graph."""
    for name, resource in tuple(graph.resources.items()):
        if isinstance(resource, VariableDef):
            resolve_fetch(graph, name)


class LoopTimers:
    """The time of an event loop."""

    __slots__ = ("_loop", "now")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self.now = loop.time

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Calls `call` once, after so many seconds."""
        return self._loop.call_later(seconds, call)


class ProcessRuntime:
    """One process of a real cluster, open from `open` to `close`; both in the same event loop.

    Args:
        name: Of this process: chief, ps0, …, worker0, …
        incarnation: Which incarnation of it this is, larger than all before.
        program: What the cluster runs.
        names: Of all processes.
        ways: Makes its sockets.
        chief: Address of the chief; unused there.
        threads: Worker threads for slow kernels.
        links: What links may hold, and how long they wait.
        stop_s: How long an actor may take to stop.
        timeouts: How long the chief may be away.
        on_change: Called at the chief whenever the table of processes has changed.
        work: Makes what is awaited once a contribution, with the loop: a delay, in an experiment.
        folder: Of the cluster on this machine; None where the address or the environment tells it.
        counts: How many processes there are, and who said so; None when nobody has.

    Attributes:
        ended: Why this process is to end, once there is a reason: None when the chief has let it go.
        table: Where all are, at the chief.
        losses: Why each peer was lost that was, the latest time.
        over: Whether the job is complete, at the chief.
        told: Who has come since, and heard it.
    """

    process: Process
    ways: Transports
    ended: Future[ActorflowError | None]

    def __init__(
        self,
        name: str,
        incarnation: int,
        program: Program,
        names: Sequence[str],
        ways: Open,
        *,
        chief: Address | None = None,
        threads: int = 1,
        links: LinkSettings = SETTINGS,
        stop_s: float = STOP_S,
        timeouts: ChiefTimeouts = CHIEF_TIMEOUTS,
        on_change: Callable[[AddressTable], None] | None = None,
        work: Callable[[AbstractEventLoop], Work] | None = None,
        folder: Path | None = None,
        counts: ProcessCounts | None = None,
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.table = AddressTable()
        self.losses: dict[str, ActorflowError] = {}
        self.over = False
        self.told: set[str] = set()
        self._program = program
        self._others = tuple(other for other in names if other != name)
        self._open = ways
        self._chief = chief
        self._threads = threads
        self._settings = links
        self._stop_s = stop_s
        self._timeouts = timeouts
        self._last_table = on_change
        self._work = work
        self._folder = folder
        self._counts = counts
        self._links: dict[str, Link] = {}
        self._wires: list[ShmWire] = []
        self._stack = AsyncExitStack()

    async def open(self) -> Self:
        """Binds, and begins to greet all others. What fails leaves nothing."""
        loop = asyncio.get_running_loop()
        self.ended = loop.create_future()
        readable(self._program.graph)
        async with AsyncExitStack() as stack:
            self.ways = self._open(loop, self.name, self.incarnation)
            stack.callback(self.ways.close)
            stack.callback(self._close_once)
            system = await stack.enter_async_context(ActorSystem(name=self.name, stop_s=self._stop_s))
            self.process = Process(
                self.name,
                self.incarnation,
                system,
                self._program,
                threads=self._threads,
                work=None if self._work is None else self._work(loop),
                quit=self.end,
            )
            stack.push_async_callback(self.process.close)
            self.process.hub.on_lost(self._lost)
            self._connect(loop)
            self.process.begin()
            self._introduce(system)
            for name in (RUNNER, PROCESS_AGENT, DIRECTORY, DISCOVERY_CLIENT):
                if name in system.actors:
                    system.actors[name].watch(_Watching(self.end))
            folder = self._folder or folder_of(self.ways.addresses[0])
            stack.enter_context(serve_debug_endpoint(self.process, folder, self._bytes_moved))
            self._stack = stack.pop_all()
        return self

    def _connect(self, loop: AbstractEventLoop) -> None:
        timers, program = LoopTimers(loop), self._identity()

        def way(peer: str) -> None:
            wire = ShmWire(self.ways.wire(peer))
            link = Link(
                peer,
                wire,
                timers,
                incarnation=self.incarnation,
                receiver=self.process.hub,
                program=program,
                settings=self._settings,
                soon=loop.call_soon,
            )
            self._links[peer] = link
            wire.attach(link)
            self._wires.append(wire)
            self.ways.listen(peer, wire.receive, wire.contact_changed, dials=dials(self.name, peer))
            self.process.hub.attach(link)
            link.start()

        def greet(name: str) -> None:
            if stranger(name, self._links, len(self._links) - len(self._others)):
                way(name)

        for peer in self._others:
            way(peer)
        if self.name == CHIEF:
            self.ways.greet(greet)

    def _introduce(self, system: ActorSystem) -> None:
        ref, ways, own = self.process.hub.ref, self.ways, ProcessId.own()
        here = AnnounceAddress(
            self.name,
            self.incarnation,
            tuple(address.at for address in ways.addresses),
            ways.addresses[0].key or "",
            own.pid,
            socket.gethostname(),
            own.started,
            own.world,
            self._counts,
        )
        if self.name == CHIEF:
            refs = {name: ref(f"{name}/{DISCOVERY_CLIENT}") for name in self._others}
            system.spawn(Directory, here, refs, self._learn, self._tells_over, name=DIRECTORY)
            self._learn(AddressTable((here,)))
            return
        assert self._chief is not None, "who is not the chief knows its address"
        ways.dial(CHIEF, self._chief)
        directory = ref(f"{CHIEF}/{DIRECTORY}")
        system.spawn(
            DiscoveryClient,
            here,
            directory,
            self._dial,
            self.end,
            self._timeouts,
            lambda: ways.refusal(CHIEF),
            self._is_over,
            name=DISCOVERY_CLIENT,
        )

    async def close(self) -> None:
        """Says goodbye to all and frees everything; harmless when it is not open."""
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    def _bytes_moved(self) -> tuple[int, int]:
        """Bytes that have left this process, and that have come, by sockets and shared memory."""
        rings = [wire.stats() for wire in self._wires]
        sockets = getattr(self.ways, "stats", None)
        out, came = (0, 0) if sockets is None else (sockets().bytes_out, sockets().bytes_in)
        return out + sum(ring.by_ring_bytes for ring in rings), came + sum(ring.taken_bytes for ring in rings)

    def _close_once(self) -> None:
        for wire in self._wires:
            wire.close()

    def reachable(self) -> tuple[str, ...]:
        """Returns the processes of the cluster to which there is a session now."""
        return tuple(name for name in self._others if self._links[name].phase is Phase.OPEN)

    def end(self, reason: ActorflowError | None) -> None:
        """Notes why this process is to end; the first reason counts."""
        if not self.ended.done():
            self.ended.set_result(reason)

    # -- what is heard ------------------------------------------------------------------------------

    def _learn(self, table: AddressTable) -> None:
        self.table = table
        if self._last_table is not None:
            self._last_table(table)

    def _tells_over(self, name: str) -> bool:
        if self.over:
            self.told.add(name)
        return self.over

    def _is_over(self, chief: int, waited: bool) -> ActorflowError | None:
        assert self._chief is not None
        note = completion_note.read(self._chief.at)
        return completion_note.over(note, self._identity(), chief, epoch_ms(), waited=waited)

    def leave_note(self) -> None:
        """Tells those who start late that the job is complete, where they can read it."""
        completion_note.leave(self.ways.addresses[0].at, self._identity(), self.incarnation)

    def _identity(self) -> str:
        """What is run, so that another seed is told from another program."""
        graph = self._program.graph
        return f"{fingerprint(graph)}/{graph.seed}"

    def _dial(self, entry: AnnounceAddress) -> None:
        assert dials(self.name, entry.name)
        at = in_zone_of(entry.addresses[0], self.ways.addresses[0].at)
        self.ways.dial(entry.name, Address(at, entry.key or None))

    def _lost(self, peer: str, reason: ActorflowError) -> None:
        if peer not in self._others:
            return
        self.losses[peer] = reason
        if self._links[peer].phase is Phase.CLOSED:
            hint = f"is another {self.name} running? Else ACTORFLOW_INCARNATION gives it a later life"
            self.end(Fenced(reason.what, hint=hint))
        elif peer == CHIEF and isinstance(reason, PeerRefused):
            self.end(reason)

    def __repr__(self) -> str:
        reached = ", ".join(self.reachable())
        return f"<ProcessRuntime '{self.name}', incarnation {self.incarnation}: reaches {reached}>"

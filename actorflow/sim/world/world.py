"""A simulated world: hosts that talk over a network, and everything that can be done to them.

The test's own code is outside the hosts: it survives every crash, and it may harm them at a chosen
moment. A fault by hand that harms nothing fails the test: see `sim.engine.faults`.
"""

from __future__ import annotations

import itertools
import math
import re
from asyncio import Future
from collections.abc import Callable, Iterable
from contextvars import copy_context

from actorflow.errors import ConfigError
from actorflow.runtime.clock import Entropy
from actorflow.sim.engine.event_loop import SimLoop
from actorflow.sim.engine.faults import FaultCounts
from actorflow.sim.engine.strands import Lifetime
from actorflow.sim.history.operation import shorten_value
from actorflow.sim.settings import check_number
from actorflow.sim.world.host import Host
from actorflow.sim.world.network import Envelope, Held, HostLink
from actorflow.sim.world.straggler import Straggler

_NAME = re.compile(r"[A-Za-z_][\w.-]*")


def check_latency(latency_s: object) -> None:
    """Raises ConfigError unless `latency_s` is how long messages travel: a finite number of seconds."""
    check_number("latency_s", latency_s, finite=True, hint="latency_s=0.001 is a millisecond")


def check_names(names: Iterable[object]) -> tuple[str, ...]:
    """Returns the names of the hosts of a world.

    Raises:
        ConfigError: two are the same, or one cannot be part of an address.
    """
    found: list[str] = []
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            message = f"the name of a host is letters, digits, '_', '.' and '-', got {name!r}"
            raise ConfigError(message, hint="a name stands in addresses such as 'ps/variable', and in plans")
        found.append(name)
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        message = f"hosts of a world have different names, got {', '.join(twice)} twice"
        raise ConfigError(message)
    return tuple(found)


Named = Host | str
"""A host, or its name."""

Some = Named | Iterable[Named]
"""A host, its name, or several of either."""


def _wake(done: Future[None]) -> None:
    if not done.done():  # cancelled at the very moment
        done.set_result(None)


class World:
    """Hosts, the links between them, and the account of faults.

    Args:
        loop: The run's.
        names: Of the hosts.
        latency_s: How long a message travels that is not late.
        seed: Of the hosts' chance.

    Attributes:
        fault_counts: Which faults were requested, and which harmed something.
        unheard: Errors of actors that nobody had heard when their host crashed.
        context: That of code outside of all hosts.
    """

    def __init__(self, loop: SimLoop, names: Iterable[str], *, latency_s: float = 0.0, seed: int = 0) -> None:
        check_latency(latency_s)
        self.loop = loop
        self.fault_counts = FaultCounts()
        self.unheard: list[BaseException] = []
        # A fault by hand comes from outside of all hosts: it survives every crash.
        self.context = copy_context()
        self.context.run(loop.enter_strand, "world")
        # Over all hosts, so that a number is never that of another's question.
        self.next_number: Callable[[], int] = itertools.count(1).__next__
        self._latency_s = latency_s
        self._links: dict[tuple[str, str], HostLink] = {}
        self._entropy = Entropy(seed)
        self._closed = False
        self._paused: set[str] = set()  # by hand, and not resumed since; only looked up
        # In the order of names: each host's chance depends on the seed alone, not on what others draw.
        self._hosts = {
            name: Host(self, name, Entropy(self._entropy.below(1 << 62))) for name in check_names(names)
        }

    @property
    def hosts(self) -> list[Host]:
        """All hosts, in the order of their names as given."""
        return list(self._hosts.values())

    def host(self, name: Named) -> Host:
        """Returns the host of that name, or that host itself.

        Raises:
            ConfigError: this world has no such host.
        """
        host = self._hosts.get(name if isinstance(name, str) else getattr(name, "name", ""))
        # A host of another world may have the same name.
        if host is None or not (isinstance(name, str) or host is name):
            called = f"host '{name}'" if isinstance(name, str) else f"such host as {shorten_value(name)}"
            message = f"no {called}; this world has {', '.join(self._hosts) or 'none'}"
            raise ConfigError(message, hint=None if self._hosts else '@sim.world("ps", worker=3) makes some')
        return host

    def __getitem__(self, name: Named) -> Host:
        return self.host(name)

    def link(self, source: Named, target: Named) -> HostLink:
        """Returns the link from one host to another."""
        # Found by names in nearly every case, as every answer asks.
        link = self._links.get((source, target))  # type: ignore[arg-type]  # by names, as answers ask
        if link is not None:
            return link
        source, host = self.host(source).name, self.host(target)
        target = host.name
        link = self._links.get((source, target))
        if link is None:
            # A host reaches itself in no time.
            latency_s = 0.0 if source == target else self._latency_s
            # Made outside of all hosts: it outlives them.
            link = self.context.copy().run(
                HostLink,
                self.loop,
                f"{source}>{target}",
                latency_s,
                self.fault_counts,
                host.lifetime,
                host.deliver,
            )
            self._links[source, target] = link
        return link

    def connect(self, host: Host) -> None:
        """Leads all links to a host to its present incarnation."""
        for (_, target), link in self._links.items():
            if target == host.name:
                link.connect(host.lifetime, host.deliver)

    async def start(self) -> None:
        """Starts all hosts."""
        for host in self._hosts.values():
            await host.start()

    async def close(self) -> None:
        """Closes all hosts that live, without choices or faults from now on; who is down stays down.

        Raises:
            ExceptionGroup: errors of actors that nobody heard.
        """
        self._closed = True
        # Closing is no part of the run: nothing is chosen, and no fault happens.
        self.loop.order.stop()
        # A host behind a split could not say goodbye.
        self.heal()
        for link in self._links.values():
            link.unclog()
        errors = list(self.unheard)
        for host in self._hosts.values():
            if host.alive:
                # One after the other, all of them, whatever one of them raises.
                try:
                    await host.close()
                except Exception as error:  # noqa: BLE001  raised when all are closed
                    errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            message = f"{len(errors)} errors of hosts that nobody heard"
            raise BaseExceptionGroup(message, errors)

    async def sleep(self, seconds: float) -> None:
        """Lets virtual time pass, by the true clock."""
        done = self.loop.create_future()
        timer = self.loop.at(self.loop.time() + seconds, _wake, done)
        try:
            await done
        finally:
            # whoever slept may have been cancelled
            timer.cancel()

    # -- faults by hand ----------------------------------------------------------------------------

    def crash(self, host: Named) -> None:
        """Kills a host at once; `restart` begins its next incarnation."""
        self.host(host).crash()
        # ORDER: counted when it has happened: a host that is down cannot crash, and raises.
        self._check_requested("crash")
        self.fault_counts.fired["crash"] += 1

    async def restart(self, host: Named) -> None:
        """Starts a crashed host again, with a new incarnation."""
        host = self.host(host)
        if host.alive:
            message = f"a host starts when it has crashed, got '{host.name}', alive"
            raise ConfigError(message, hint="world.crash(host) first")
        await host.start()

    def restart_later(self, host: Named, seconds: float) -> None:
        """Starts a crashed host again in a while, unless somebody else has done so."""
        host = self.host(host)
        check_number("seconds", seconds, finite=True)
        # For that incarnation: somebody else may restart it before.
        self.loop.at(self.loop.time() + seconds, self._restart_due, host, host.lifetime, context=self.context)

    def _restart_due(self, host: Host, lifetime: Lifetime) -> None:
        # A world that closes starts nothing any more.
        if host.lifetime is lifetime and not self._closed:
            self.loop.create_task(host.start(), name=f"restart {host.name}")

    def pause(self, host: Named, seconds: float = math.inf) -> None:
        """Stops a host where it stands, for a time or until `resume`; the longer of two pauses holds."""
        host = self.host(host)
        check_number("seconds", seconds)
        host.pause(seconds)
        # So that `resume` may come when a crash or its time has ended the pause.
        self._paused.add(host.name)
        self._check_requested("pause")

    def resume(self, host: Named) -> None:
        """Lets a paused host go on; one whose pause a crash or its time has ended goes on anyway.

        Raises:
            ConfigError: nothing has paused it.
        """
        host = self.host(host)
        if not (host.lifetime.paused or host.name in self._paused):
            message = f"a host goes on when it was paused, got '{host.name}', which was not"
            raise ConfigError(message, hint="world.pause(host) first; world.restart(host) after a crash")
        self._paused.discard(host.name)
        host.resume()

    def split(self, a: Some, b: Some, *, one_way: bool = False) -> None:
        """Loses what is sent from `a` to `b`, one host or several, and back unless `one_way`, until `heal`.

        What is on its way already arrives.
        """
        for link in self._between(a, b, one_way=one_way):
            link.begin_split()
        self._check_requested("split")

    def heal(self) -> None:
        """Ends all splits."""
        for link in self._links.values():
            link.heal()

    def clog(self, source: Named, target: Named) -> None:
        """Lets what is sent from `source` to `target` wait until `unclog`."""
        self.link(source, target).begin_clog()
        self._check_requested("clog")

    def unclog(self, source: Named, target: Named) -> None:
        """Lets what waits go its way, in order."""
        self.link(source, target).unclog()

    async def swizzle(self, hosts: Some, seconds: float) -> None:
        """Clogs all links of some of `hosts`, one host after the other; unclogs them in another order.

        Source: "swizzle-clogging" of FoundationDB's simulation.
        """
        check_number("seconds", seconds, finite=True)
        hosts = self._these(hosts)
        # One at least.
        chosen = [host for host in hosts if self._entropy.below(2)] or hosts[:1]
        pause_s = seconds / max(1, 2 * len(chosen))
        clogged: list[Host] = []
        for host in self._shuffle(chosen):
            clogged.append(host)
            for other in self._others(host):
                self.clog(host, other)
                self.clog(other, host)
            await self.sleep(pause_s)
        for host in self._shuffle(chosen):
            clogged.remove(host)
            for other in self._others(host):
                # The links between two of them stay clogged until both are out of it.
                if other not in clogged:
                    self.unclog(host, other)
                    self.unclog(other, host)
            await self.sleep(pause_s)

    def slow(self, source: Named, target: Named, factor: float) -> None:
        """Makes messages from `source` to `target` travel `factor` times as long; 1 ends it."""
        link = self.link(source, target)
        check_number("factor", factor, 1, finite=True)
        # A link without latency has nothing that could take longer.
        if not (link.latency_s and 1 <= factor < math.inf):
            got = f"{link.latency_s:g} s and {factor:g}"
            message = f"a slower link has a latency and a factor of at least 1, got {got}"
            raise ConfigError(message, hint="make the world with latency_s=0.001")
        link.slow(factor)
        if factor > 1:
            self._check_requested("slow")

    def straggle(self, host: Named, straggler: Straggler | None = None) -> None:
        """Disturbs the work of a host; see `Host.work`."""
        given: object = straggler
        if not isinstance(given, Straggler | None):
            message = f"a straggler is a sim.Straggler, got {shorten_value(given)}"
            raise ConfigError(message, hint="sim.Straggler(p=0.1, stall_s=0.2)")
        straggler = straggler or Straggler()
        self.host(host).straggler = straggler
        if straggler.p > 0:  # else nothing stalls, and work only jitters
            self._check_requested("straggle")

    def skew(self, host: Named, *, ahead_s: float = 0.0, rate: float = 1.0) -> None:
        """Makes the clock of a host wrong: it jumps ahead, and goes on at `rate`."""
        host = self.host(host)
        hint = "a host is behind when the others jump ahead"
        check_number("rate", rate, finite=True, hint=hint)
        check_number("ahead_s", ahead_s, finite=True, hint=hint)
        host.clock.set(ahead_s, rate)
        self._check_requested("skew")

    def hold(
        self,
        source: Named,
        target: Named,
        matches: Callable[[Envelope], bool] = lambda _envelope: True,
    ) -> Held:
        """Takes the next message from `source` to `target` that matches off its way, until it is released.

        Later messages go past it.
        """
        given: object = matches
        if not callable(given):
            message = f"matches is a function of an Envelope, got {shorten_value(given)}"
            raise ConfigError(message, hint="for example lambda envelope: envelope.actor == 'account'")
        held = self.link(source, target).hold(matches)
        self._check_requested("hold")
        return held

    # -- the account -------------------------------------------------------------------------------

    def _check_requested(self, kind: str) -> None:
        self.fault_counts.requested[kind] += 1

    def _others(self, host: Host) -> list[Host]:
        return [other for other in self._hosts.values() if other is not host]

    def _these(self, hosts: object) -> list[Host]:
        if isinstance(hosts, Host | str):
            return [self.host(hosts)]
        if not isinstance(hosts, Iterable):
            message = f"a host or several are needed, got {shorten_value(hosts)}"
            raise ConfigError(message, hint=f"this world has {', '.join(self._hosts)}")
        return [self.host(host) for host in hosts]

    def _between(self, a: Some, b: Some, *, one_way: bool) -> list[HostLink]:
        pairs = [(x.name, y.name) for x in self._these(a) for y in self._these(b)]
        if not one_way:
            pairs += [(y, x) for x, y in pairs]
        return [self.link(x, y) for x, y in pairs]

    def _shuffle(self, hosts: list[Host]) -> list[Host]:
        left, order = list(hosts), []
        while left:
            # Drawn from the world's chance: a replay shuffles alike.
            order.append(left.pop(self._entropy.below(len(left))))
        return order

    def __repr__(self) -> str:
        return f"<World of {', '.join(self._hosts)}; {self.fault_counts}>"

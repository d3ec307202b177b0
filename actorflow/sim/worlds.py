"""A simulated world: hosts that talk over a network, and everything that can be done to them.

The test's own code is outside the hosts: it survives every crash, and it may harm them at a chosen
moment. A harm by hand that harms nothing fails the test: see `harms`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable
from contextvars import copy_context

from actorflow.clock import Entropy
from actorflow.errors import ConfigError
from actorflow.sim.harms import Tally
from actorflow.sim.hosts import Host
from actorflow.sim.lanes import Life
from actorflow.sim.loop import SimLoop
from actorflow.sim.network import Envelope, Held, Link
from actorflow.sim.straggler import Straggler

_NAME = re.compile(r"[A-Za-z_][\w.-]*")


def check_names(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of the hosts of a world.

    Raises:
        ConfigError: two are the same, or one cannot be part of an address.
    """
    names = tuple(names)
    for name in names:
        if not _NAME.fullmatch(name):
            message = f"the name of a host is letters, digits, '_', '.' and '-', got {name!r}"
            raise ConfigError(message, hint="a name stands in addresses such as 'ps/variable', and in plans")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"hosts of a world have different names, got {', '.join(twice)} twice"
        raise ConfigError(message)
    return names


class World:
    """Hosts, the links between them, and the account of harms.

    Args:
        loop: The run's.
        names: Of the hosts.
        latency_s: How long a message travels that is not late.
        seed: Of the hosts' chance.

    Attributes:
        tally: Which harms were requested, and which harmed something.
        unheard: Errors of actors that nobody had heard when their host crashed.
        context: That of code outside of all hosts.
    """

    def __init__(self, loop: SimLoop, names: Iterable[str], *, latency_s: float = 0.0, seed: int = 0) -> None:
        self.loop = loop
        self.tally = Tally()
        self.unheard: list[BaseException] = []
        self.context = copy_context()
        self.context.run(loop.enter_lane, "world")
        self.next_number: Callable[[], int] = itertools.count(1).__next__
        self._latency_s = latency_s
        self._links: dict[tuple[str, str], Link] = {}
        self._entropy = Entropy(seed)
        self._closed = False
        self._hosts = {
            name: Host(self, name, Entropy(self._entropy.below(1 << 62))) for name in check_names(names)
        }

    @property
    def hosts(self) -> list[Host]:
        """All hosts, in the order of their names as given."""
        return list(self._hosts.values())

    def host(self, name: str) -> Host:
        """Returns the host of that name."""
        host = self._hosts.get(name)
        if host is None:
            message = f"no host '{name}'; this world has {', '.join(self._hosts) or 'none'}"
            raise ConfigError(message, hint=None if self._hosts else '@sim.world("ps", worker=3) makes some')
        return host

    def __getitem__(self, name: str) -> Host:
        return self.host(name)

    def link(self, source: str, target: str) -> Link:
        """Returns the link from one host to another."""
        link = self._links.get((source, target))
        if link is None:
            self.host(source)
            host = self.host(target)
            latency_s = 0.0 if source == target else self._latency_s
            link = self.context.copy().run(
                Link, self.loop, f"{source}>{target}", latency_s, self.tally, host.life, host.deliver
            )
            self._links[source, target] = link
        return link

    def connect(self, host: Host) -> None:
        """Leads all links to a host to its present incarnation."""
        for (_, target), link in self._links.items():
            if target == host.name:
                link.connect(host.life, host.deliver)

    async def start(self) -> None:
        """Starts all hosts."""
        for host in self._hosts.values():
            await host.start()

    async def close(self) -> None:
        """Closes all hosts that live, without choices or harm from now on; who is down stays down.

        Raises:
            ExceptionGroup: errors of actors that nobody heard.
        """
        self._closed = True
        self.loop.order.stop()
        self.heal()
        for link in self._links.values():
            link.unclog()
        errors = list(self.unheard)
        for host in self._hosts.values():
            if host.alive:
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
        timer = self.loop.at(self.loop.time() + seconds, done.set_result, None)
        try:
            await done
        finally:
            timer.cancel()

    # -- harms by hand -----------------------------------------------------------------------------

    def crash(self, host: Host) -> None:
        """Kills a host at once; `restart` begins its next incarnation."""
        host.crash()
        self._requested("crash")
        self.tally.fired["crash"] += 1

    async def restart(self, host: Host) -> None:
        """Starts a crashed host again, with a new incarnation."""
        if host.alive:
            message = f"a host starts when it has crashed, got '{host.name}', alive"
            raise ConfigError(message, hint="world.crash(host) first")
        await host.start()

    def restart_later(self, host: Host, seconds: float) -> None:
        """Starts a crashed host again in a while, unless somebody else has done so."""
        self.loop.at(self.loop.time() + seconds, self._restart_due, host, host.life, context=self.context)

    def _restart_due(self, host: Host, life: Life) -> None:
        if host.life is life and not self._closed:
            self.loop.create_task(host.start(), name=f"restart {host.name}")

    def pause(self, host: Host, seconds: float = math.inf) -> None:
        """Stops a host where it stands, for a time or until `resume`; the longer of two pauses holds."""
        host.pause(seconds)
        self._requested("pause")

    def resume(self, host: Host) -> None:
        """Lets a paused host go on."""
        host.resume()

    def split(self, a: Iterable[Host], b: Iterable[Host], *, one_way: bool = False) -> None:
        """Loses what is sent from `a` to `b`, and back unless `one_way`, until `heal`.

        What is on its way already arrives.
        """
        for link in self._between(a, b, one_way=one_way):
            link.begin_split()
        self._requested("split")

    def heal(self) -> None:
        """Ends all splits."""
        for link in self._links.values():
            link.heal()

    def clog(self, source: Host, target: Host) -> None:
        """Lets what is sent from `source` to `target` wait until `unclog`."""
        self.link(source.name, target.name).begin_clog()
        self._requested("clog")

    def unclog(self, source: Host, target: Host) -> None:
        """Lets what waits go its way, in order."""
        self.link(source.name, target.name).unclog()

    async def swizzle(self, hosts: Iterable[Host], seconds: float) -> None:
        """Clogs all links of some of `hosts`, one host after the other; unclogs them in another order.

        Source: "swizzle-clogging" of FoundationDB's simulation.
        """
        hosts = list(hosts)
        chosen = [host for host in hosts if self._entropy.below(2)] or hosts[:1]
        pause_s = seconds / max(1, 2 * len(chosen))
        clogged: list[Host] = []
        for host in self._shuffled(chosen):
            clogged.append(host)
            for other in self._others(host):
                self.clog(host, other)
                self.clog(other, host)
            await self.sleep(pause_s)
        for host in self._shuffled(chosen):
            clogged.remove(host)
            for other in self._others(host):
                if other not in clogged:
                    self.unclog(host, other)
                    self.unclog(other, host)
            await self.sleep(pause_s)

    def slow(self, source: Host, target: Host, factor: float) -> None:
        """Makes messages from `source` to `target` travel `factor` times as long; 1 ends it."""
        link = self.link(source.name, target.name)
        if not (link.latency_s and 1 <= factor < math.inf):
            got = f"{link.latency_s:g} s and {factor:g}"
            message = f"a slower link has a latency and a factor of at least 1, got {got}"
            raise ConfigError(message, hint="make the world with latency_s=0.001")
        link.slow(factor)
        if factor > 1:
            self._requested("slow")

    def straggle(self, host: Host, straggler: Straggler | None = None) -> None:
        """Disturbs the work of a host; see `Host.work`."""
        host.straggler = straggler or Straggler()
        self._requested("straggle")

    def skew(self, host: Host, *, ahead_s: float = 0.0, rate: float = 1.0) -> None:
        """Makes the clock of a host wrong: it jumps ahead, and goes on at `rate`."""
        host.clock.set(ahead_s, rate)
        self._requested("skew")

    def hold(
        self, source: Host, target: Host, matches: Callable[[Envelope], bool] = lambda _envelope: True
    ) -> Held:
        """Takes the next message from `source` to `target` that matches off its way, until it is released.

        Later messages go past it.
        """
        held = self.link(source.name, target.name).hold(matches)
        self._requested("hold")
        return held

    # -- the account -------------------------------------------------------------------------------

    def _requested(self, kind: str) -> None:
        self.tally.requested[kind] += 1

    def _others(self, host: Host) -> list[Host]:
        return [other for other in self._hosts.values() if other is not host]

    def _between(self, a: Iterable[Host], b: Iterable[Host], *, one_way: bool) -> list[Link]:
        a, b = list(a), list(b)
        pairs = [(x.name, y.name) for x in a for y in b]
        if not one_way:
            pairs += [(y, x) for x, y in pairs]
        return [self.link(x, y) for x, y in pairs]

    def _shuffled(self, hosts: list[Host]) -> list[Host]:
        left, order = list(hosts), []
        while left:
            order.append(left.pop(self._entropy.below(len(left))))
        return order

    def __repr__(self) -> str:
        return f"<World of {', '.join(self._hosts)}; {self.tally}>"
